//! What a phase does besides: each run of a query, and how long version chains get.

use crate::data::{Data, rows_digest};
use crate::mixed::RunEnd;
use crate::preempt::phase::Observe;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use workloads::ch::QUERIES_COUNT;

/// One run of a query that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Which query, counting from 1.
    pub query: usize,
    /// The number of the snapshot that it read.
    pub snapshot: u64,
    /// When it was started.
    pub started_ns: u64,
    /// When it ended.
    pub ended_ns: u64,
    /// How many rows it found, and their digest.
    pub answer: (u64, u64),
}

impl Run {
    /// How long it took.
    pub fn ms(&self) -> f64 {
        (self.ended_ns - self.started_ns) as f64 / 1e6
    }

    /// The middle of it.
    pub fn middle_ns(&self) -> f64 {
        (self.started_ns as f64 + self.ended_ns as f64) / 2.0
    }
}

/// Watches one phase.
pub struct Watch {
    data: Arc<Data>,
    runs: Mutex<Vec<Run>>,
    wanted: usize,
    chain_max: AtomicU64,
}

impl Watch {
    /// A phase that shall last until each query has ended so many times.
    pub fn new(data: &Arc<Data>, wanted: usize) -> Watch {
        Watch { data: Arc::clone(data), runs: Mutex::default(), wanted, chain_max: AtomicU64::new(0) }
    }

    fn runs(&self) -> MutexGuard<'_, Vec<Run>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The runs so far, taken out.
    pub fn take_runs(&self) -> Vec<Run> {
        std::mem::take(&mut self.runs())
    }

    /// The most newer versions of one row that a query had to pass over.
    pub fn chain_max(&self) -> u64 {
        self.chain_max.load(SeqCst)
    }
}

impl Observe for Watch {
    fn run_ended(&self, end: &RunEnd<'_>) {
        let number = end.query.name().strip_prefix("ch").and_then(|number| number.parse().ok());
        if let (Some(answer), Some(query)) = (end.answer, number) {
            let answer = rows_digest(answer);
            let RunEnd { snapshot, started_ns, ended_ns, .. } = *end;
            self.runs().push(Run { query, snapshot, started_ns, ended_ns, answer });
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
