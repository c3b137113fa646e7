//! Observations during a phase: each run of a query, and the length of version chains.

use crate::data::{Data, rows_digest};
use crate::mixed::RunEnd;
use crate::preempt::phase::Observe;
use locked::Locked;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use workloads::ch::QUERIES_COUNT;

/// Run of a query that has ended.
#[derive(Clone, Copy, Debug)]
pub struct QueryRun {
    /// Number of the query, counting from 1.
    pub query: usize,
    /// Number of the snapshot that the query read.
    pub snapshot: u64,
    /// Start of the run, in nanoseconds.
    pub started_ns: u64,
    /// End of the run, in nanoseconds.
    pub ended_ns: u64,
    /// Number of rows found, and their digest.
    pub answer: (u64, u64),
}

impl QueryRun {
    /// Returns the duration, in milliseconds.
    pub fn ms(&self) -> f64 {
        (self.ended_ns - self.started_ns) as f64 / 1e6
    }

    /// Returns the middle of the run, in nanoseconds.
    pub fn middle_ns(&self) -> f64 {
        (self.started_ns as f64 + self.ended_ns as f64) / 2.0
    }
}

/// Observer of one phase.
pub struct PhaseObserver {
    data: Arc<Data>,
    runs: Mutex<Vec<QueryRun>>,
    wanted: usize,
    chain_max: AtomicU64,
}

impl PhaseObserver {
    /// Creates the observer of a phase that shall last until each query has ended this many times.
    pub fn new(data: &Arc<Data>, wanted: usize) -> PhaseObserver {
        PhaseObserver { data: Arc::clone(data), runs: Mutex::default(), wanted, chain_max: AtomicU64::new(0) }
    }

    fn runs(&self) -> MutexGuard<'_, Vec<QueryRun>> {
        self.runs.locked()
    }

    /// Takes out the runs so far.
    pub fn take_runs(&self) -> Vec<QueryRun> {
        std::mem::take(&mut self.runs())
    }

    /// Returns the largest number of newer versions of one row that a query had to pass over.
    pub fn chain_max(&self) -> u64 {
        self.chain_max.load(SeqCst)
    }
}

impl Observe for PhaseObserver {
    fn run_ended(&self, end: &RunEnd<'_>) {
        let number = end.query.name().strip_prefix("ch").and_then(|number| number.parse().ok());
        if let (Some(answer), Some(query)) = (end.answer, number) {
            let answer = rows_digest(answer);
            let RunEnd { snapshot, started_ns, ended_ns, .. } = *end;
            self.runs().push(QueryRun { query, snapshot, started_ns, ended_ns, answer });
        }
    }

    fn sample(&self) {
        self.chain_max.fetch_max(self.data.engine().take_chain_max(), SeqCst);
    }

    fn has_enough(&self) -> bool {
        let mut counts = [0; QUERIES_COUNT];
        self.runs().iter().for_each(|run| counts[run.query - 1] += 1);
        counts.iter().all(|count| self.wanted <= *count)
    }
}
