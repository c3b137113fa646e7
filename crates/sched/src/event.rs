//! Events: what happened, written by workers without waiting, drained by one reader.

use crate::counters::Start;
use crate::request::Ended;
use stage::{Class, Stamps};

/// A request that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The caller's number for it.
    pub id: u64,
    /// How important it was.
    pub class: Class,
    /// The index of the worker that ran it last.
    pub worker: u32,
    /// Its stamps; submit is the first submission's, dispatch and run are the last attempt's.
    pub stamps: Stamps,
    /// When its first attempt began.
    pub first_run_ns: u64,
    /// How often it was run.
    pub attempts: u32,
    /// How many of these runs parked; [`Stamps::lock_wait_ns`] says for how long.
    pub parks: u32,
    /// How its last run came about.
    pub start: Start,
    /// How long its worker had to wait for a processor between submit and end, if that is tracked.
    pub run_delay_ns: Option<u64>,
    /// How it ended.
    pub ended: Ended,
}

/// Something that happened on a worker. All times are [`preempt::os::now_ns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request ended.
    Completed(Completed),
    /// A worker woke up.
    Busy {
        /// Its index.
        worker: u32,
        /// When.
        from_ns: u64,
    },
    /// A worker went to sleep.
    Idle {
        /// Its index.
        worker: u32,
        /// When.
        from_ns: u64,
    },
    /// A query was started.
    QueryStart {
        /// What [`crate::Scheduler::submit_low`] returned.
        id: u64,
        /// The worker whose thread started it, if it was one.
        worker: Option<u32>,
        /// When.
        at_ns: u64,
    },
    /// A query ended.
    QueryEnd {
        /// What [`crate::Scheduler::submit_low`] returned.
        id: u64,
        /// The worker whose thread ended it, if it was one.
        worker: Option<u32>,
        /// When.
        at_ns: u64,
    },
}
