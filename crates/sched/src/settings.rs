//! Settings: every limit has a name and a unit.

use crate::cap::CapSettings;
use crate::policy::Policy;
use std::fmt;
use std::str::FromStr;

/// Where a request goes when no worker is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// To the worker on the submitter's own processor; to the next in turn if there is none.
    OwnCore,
    /// To the workers in turn.
    RoundRobin,
}

/// By which rungs of delivery the policy `preempt` reaches a busy worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rungs {
    /// Safepoints only.
    Poll,
    /// Signals only.
    Signal,
    /// Safepoints where they are dense, signals elsewhere.
    Both,
}

impl Rungs {
    /// Its name in settings and figures.
    pub const fn name(self) -> &'static str {
        match self {
            Rungs::Poll => "poll",
            Rungs::Signal => "signal",
            Rungs::Both => "both",
        }
    }
}

impl fmt::Display for Rungs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Rungs {
    type Err = String;

    fn from_str(text: &str) -> Result<Rungs, String> {
        [Rungs::Poll, Rungs::Signal, Rungs::Both]
            .into_iter()
            .find(|rungs| rungs.name() == text)
            .ok_or_else(|| format!("unknown rungs \"{text}\": use poll, signal or both"))
    }
}

/// How a [`crate::Scheduler`] works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The workers are named after it.
    pub name: String,
    /// When urgent work may run on a busy worker.
    pub policy: Policy,
    /// Workers that will attach. At least 1.
    pub workers: usize,
    /// Processors to pin workers (and dedicated threads) to, used in turn; empty pins nothing.
    pub cpus: Vec<usize>,
    /// By which rungs `preempt` delivers.
    pub rungs: Rungs,
    /// Where a request goes when no worker is idle.
    pub placement: Placement,
    /// `yield`: each how many yield points a query yields. At least 1.
    pub yield_interval: u32,
    /// The share of each worker's time that is kept for queries.
    pub cap: CapSettings,
    /// Requests that fit in the queue of one class of one worker.
    pub queue_requests: usize,
    /// Requests that may be under way at a time: queued, running or parked. Submissions beyond that are refused, so that
    /// there is room for whatever comes back.
    pub requests_max: usize,
    /// How wide the low jobs may be together that run at a time; nothing: as the workers are many. With more, they share
    /// workers.
    pub low_width_max: Option<usize>,
    /// Queries that may wait to be started.
    pub low_jobs_max: usize,
    /// Runs that say [`crate::Outcome::Again`] before one of them ends the request.
    pub attempts_max: u32,
    /// Events that fit in the ring of one worker.
    pub events_per_worker: usize,
    /// Whether each request records how long its worker had to wait for a processor: costs two system calls each.
    pub track_run_delay: bool,
    /// `thread`: the real-time priority of the dedicated threads, where allowed; 0 does not try.
    pub realtime_priority: i32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            name: "worker".to_owned(),
            policy: Policy::Preempt,
            workers: 1,
            cpus: Vec::new(),
            rungs: Rungs::Both,
            placement: Placement::OwnCore,
            yield_interval: 1,
            cap: CapSettings::default(),
            queue_requests: 1_024,
            requests_max: 65_536,
            low_width_max: None,
            low_jobs_max: 1_024,
            attempts_max: 256,
            events_per_worker: 16_384,
            track_run_delay: false,
            realtime_priority: 10,
        }
    }
}
