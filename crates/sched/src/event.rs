//! Events, written by workers without waiting, drained by one reader.

use crate::counters::Start;
use crate::request::Ended;
use stage::{Class, Stamps};

/// Record of a request that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Number of the request, chosen by the caller.
    pub id: u64,
    /// Class of the request.
    pub class: Class,
    /// Index of the worker that ran the request last.
    pub worker: u32,
    /// Stamps of the request; submit is the first submission's, dispatch and run are the last attempt's.
    pub stamps: Stamps,
    /// Time at which the first attempt began.
    pub first_run_ns: u64,
    /// Number of runs.
    pub attempts: u32,
    /// Number of runs that parked; their total time is in [`Stamps::lock_wait_ns`].
    pub parks: u32,
    /// Occasion of the last run.
    pub start: Start,
    /// Time that the worker had to wait for a processor between submit and end, if that is tracked.
    pub run_delay_ns: Option<u64>,
    /// Outcome of the request.
    pub ended: Ended,
}

/// An event on a worker. Times are those of [`preempt::os::now_ns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request ended.
    Completed(Completed),
    /// A worker woke up.
    Busy {
        /// Index of the worker.
        worker: u32,
        /// Time of the wake-up.
        from_ns: u64,
    },
    /// A worker went to sleep.
    Idle {
        /// Index of the worker.
        worker: u32,
        /// Time at which the sleep begins.
        from_ns: u64,
    },
    /// A query was started.
    QueryStart {
        /// Number that [`crate::Scheduler::submit_low`] returned.
        id: u64,
        /// Worker whose thread started the query, if it was one.
        worker: Option<u32>,
        /// Time of the start.
        at_ns: u64,
    },
    /// A query ended.
    QueryEnd {
        /// Number that [`crate::Scheduler::submit_low`] returned.
        id: u64,
        /// Worker whose thread ended the query, if it was one.
        worker: Option<u32>,
        /// Time of the end.
        at_ns: u64,
    },
}
