//! The times that the urgent requests of one phase had.

use sched::{Completed, Ended, Start};
use stage::Histogram;

/// Maximum time that the worker waited for a processor between submit and end for a request to count as "on CPU".
pub const ON_CPU_WAIT_NS_MAX: u64 = 100_000;

/// Returns true if the worker waited at most [`ON_CPU_WAIT_NS_MAX`] for a processor; false where that was not tracked.
pub fn is_on_cpu(completed: &Completed) -> bool {
    completed.run_delay_ns.is_some_and(|waited_ns| waited_ns <= ON_CPU_WAIT_NS_MAX)
}

/// One duration of every request: of all requests, and of those whose worker was on a processor.
#[derive(Clone, Default)]
pub struct RequestTimes {
    /// Durations of all requests.
    pub raw: Histogram,
    /// Durations of the requests whose worker waited at most [`ON_CPU_WAIT_NS_MAX`] for a processor.
    pub on_cpu: Histogram,
}

impl RequestTimes {
    fn record(&mut self, ns: u64, is_on_cpu: bool) {
        self.raw.record_ns(ns);
        if is_on_cpu {
            self.on_cpu.record_ns(ns);
        }
    }
}

/// Sums over one phase.
#[derive(Clone, Default)]
pub struct Tally {
    /// Time from submit to the first instruction of the first attempt.
    pub start: RequestTimes,
    /// Time from the first instruction of the first attempt to the end, retries and their waits included.
    pub run: RequestTimes,
    /// Time from the scheduled arrival to the end.
    pub e2e: RequestTimes,
    /// Number of requests that ended.
    pub done: u64,
    /// Number of attempts beyond the first, those that only waited for a lock excluded.
    pub retries: u64,
    /// Number of requests that ended without success: attempts used up, or a panic.
    pub failed: u64,
    /// Numbers of requests by the way their last run came about, in the order of [`Start::ALL`].
    pub starts: [u64; 8],
}

impl Tally {
    /// Adds a request that was due at `scheduled_ns`.
    pub fn add(&mut self, completed: &Completed, scheduled_ns: u64) {
        let is_on_cpu = is_on_cpu(completed);
        if let (Some(submit_ns), Some(end_ns)) = (completed.stamps.submit_ns, completed.stamps.end_ns) {
            self.start.record(completed.first_run_ns.saturating_sub(submit_ns), is_on_cpu);
            self.run.record(end_ns.saturating_sub(completed.first_run_ns), is_on_cpu);
            self.e2e.record(end_ns.saturating_sub(scheduled_ns), is_on_cpu);
        }
        self.done += 1;
        self.retries += u64::from(completed.attempts.saturating_sub(1 + completed.parks));
        self.failed += u64::from(completed.ended != Ended::Done);
        self.starts[completed.start as usize] += 1;
    }

    /// Adds the sums of another phase.
    pub fn merge(&mut self, other: &Tally) {
        let times = [(&mut self.start, &other.start), (&mut self.run, &other.run), (&mut self.e2e, &other.e2e)];
        for (mine, other) in times {
            mine.raw.add(&other.raw);
            mine.on_cpu.add(&other.on_cpu);
        }
        self.done += other.done;
        self.retries += other.retries;
        self.failed += other.failed;
        for (mine, other) in self.starts.iter_mut().zip(other.starts) {
            *mine += other;
        }
    }

    /// Returns the share of requests that came to run by one of `starts`; 0 if there were none.
    pub fn share(&self, starts: &[Start]) -> f64 {
        let count: u64 = starts.iter().map(|start| self.starts[*start as usize]).sum();
        count as f64 / self.done.max(1) as f64
    }

    /// Returns the share of requests that count as on CPU; 0 if there were none.
    pub fn on_cpu_share(&self) -> f64 {
        self.e2e.on_cpu.count() as f64 / self.e2e.raw.count().max(1) as f64
    }
}
