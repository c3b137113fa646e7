//! Settings: every limit has a name and a unit.

use crate::cap::CapSettings;
use crate::policy::Policy;
use std::fmt;
use std::str::FromStr;

/// Worker that a request goes to when no worker is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Worker on the submitter's own processor; the next in turn if there is none.
    OwnCore,
    /// Workers in turn.
    RoundRobin,
}

/// Rungs of delivery by which the policy `preempt` reaches a busy worker.
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
    /// Returns the name of the rungs in settings and figures.
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

/// Usual time after which the claimer takes a request. A worker that runs starts one within 30 µs, so most of those that
/// are late wait for a worker that has lost its processor, or is in the kernel.
pub const CLAIM_AFTER_NS: u64 = 100_000;

/// Settings of a [`crate::Scheduler`].
#[derive(Clone, Debug)]
pub struct SchedulerSettings {
    /// Name that the workers are named after.
    pub name: String,
    /// Policy that decides when urgent work may run on a busy worker.
    pub policy: Policy,
    /// Number of workers that will attach. At least 1.
    pub workers: usize,
    /// Processors to pin workers (and dedicated threads) to, used in turn; an empty list pins nothing.
    pub cpus: Vec<usize>,
    /// Rungs by which `preempt` delivers.
    pub rungs: Rungs,
    /// Worker that a request goes to when no worker is idle.
    pub placement: Placement,
    /// Under `yield`, a query yields at every n-th yield point, with this n. At least 1.
    pub yield_interval: u32,
    /// Share of each worker's time that is kept for queries.
    pub cap: CapSettings,
    /// Requests that fit in the queue of one class of one worker.
    pub queue_requests: usize,
    /// Requests that may be under way at a time: queued, running or parked. Submissions beyond that are refused, so
    /// that there is room for every request that comes back.
    pub requests_max: usize,
    /// Limit on the summed width of the low jobs that run at a time; none for the number of workers. With a higher
    /// limit, they share workers.
    pub low_width_max: Option<usize>,
    /// Queries that may wait to be started.
    pub low_jobs_max: usize,
    /// Runs that may return [`crate::RunOutcome::Again`] before one of them ends the request.
    pub attempts_max: u32,
    /// Events that fit in the ring of one worker.
    pub events_per_worker: usize,
    /// True if each request records the time that its worker had to wait for a processor; this costs two system calls
    /// each.
    pub track_run_delay: bool,
    /// Under `preempt`, the time after which a request that no worker has started runs on the claimer, an urgent thread;
    /// none for never. See [`CLAIM_AFTER_NS`].
    pub claim_after_ns: Option<u64>,
    /// Under `preempt`, true to raise a worker that runs below other threads while an urgent request wants it, where
    /// that is allowed: see [`Scheduler::is_kept_down`](crate::Scheduler::is_kept_down).
    pub raises_workers: bool,
    /// Real-time priority of the dedicated threads and of the claimer, where allowed; 0 does not try.
    pub realtime_priority: i32,
}

impl Default for SchedulerSettings {
    fn default() -> SchedulerSettings {
        SchedulerSettings {
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
            claim_after_ns: None,
            raises_workers: false,
            realtime_priority: 10,
        }
    }
}
