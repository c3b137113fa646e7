//! A bounded store of events, for implementations of [`crate::Demo`].
//!
//! **Invariant:** memory is bounded by three constants, whatever the rate; a record has a sequence number that is never
//! given twice, so a reader that is too slow learns how many it missed and never sees one twice. The store is filled by
//! the thread that drains the workers' event rings, never by a worker: it takes an ordinary lock.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use stage::Histogram;

use crate::facts::Policy;
use crate::records::{Cursor, Quantiles, QueryRun, Span, Summary, Update, UrgentTransaction, WorkerNow};
use crate::verdict::verdict;

/// Number of New-Orders on CPU from which their percentiles are shown.
const ON_CPU_MIN: u64 = 10;

/// Number of transactions kept for a page that opens or reconnects.
const TRANSACTIONS_MAX: usize = 6_000;
/// Number of query runs kept: a good part of a minute of short ones, so that the policies can be compared.
const RUNS_MAX: usize = 3_000;
/// Number of spans kept.
const SPANS_MAX: usize = 12_000;
/// Maximum number of records of one kind in one update.
const UPDATE_MAX: usize = 3_000;

/// Events since the last clear, and the summary of each policy.
pub struct EventHistory {
    inner: Mutex<HistoryInner>,
}

struct HistoryInner {
    clears: u64,
    lost_count: u64,
    transactions: Ring<UrgentTransaction>,
    runs: Ring<QueryRun>,
    spans: Ring<Span>,
    totals: [PolicyTotals; 3],
}

/// Ring of the newest `limit` records, numbered.
struct Ring<T> {
    records: VecDeque<T>,
    /// Sequence number of the oldest record that is kept.
    first: u64,
    limit: usize,
}

struct PolicyTotals {
    latency: Histogram,
    on_cpu: Histogram,
    latest_us: Option<f64>,
    start: Histogram,
    aborts_count: u64,
    /// Times of `run_query` only: the times of two queries are not one distribution.
    run: Histogram,
    run_query: String,
}

impl Default for EventHistory {
    fn default() -> EventHistory {
        EventHistory::new()
    }
}

impl EventHistory {
    /// Creates an empty history.
    pub fn new() -> EventHistory {
        EventHistory {
            inner: Mutex::new(HistoryInner {
                clears: 0,
                lost_count: 0,
                transactions: Ring::new(TRANSACTIONS_MAX),
                runs: Ring::new(RUNS_MAX),
                spans: Ring::new(SPANS_MAX),
                totals: [PolicyTotals::new(), PolicyTotals::new(), PolicyTotals::new()],
            }),
        }
    }

    /// Records a New-Order that has ended, and its span on the timeline.
    pub fn transaction(&self, transaction: UrgentTransaction) {
        let mut inner = self.lock();
        let totals = &mut inner.totals[transaction.policy.index()];
        let latency_ns = transaction.ended_ns.saturating_sub(transaction.arrived_ns);
        totals.latency.record_ns(latency_ns);
        if transaction.is_on_cpu {
            totals.on_cpu.record_ns(latency_ns);
        }
        totals.latest_us = Some(latency_ns as f64 / 1e3);
        totals.start.record_ns(transaction.started_ns.saturating_sub(transaction.arrived_ns));
        totals.aborts_count += u64::from(transaction.aborts_count);
        inner.transactions.push(transaction);
    }

    /// Records a run of the long query that has ended. Only runs that finished count in the summary.
    pub fn run(&self, run: QueryRun) {
        let mut inner = self.lock();
        let totals = &mut inner.totals[run.policy.index()];
        if run.finished {
            if totals.run_query != run.query {
                totals.run = Histogram::new();
                totals.run_query.clone_from(&run.query);
            }
            totals.run.record_ns(run.ended_ns.saturating_sub(run.started_ns));
        }
        inner.runs.push(run);
    }

    /// Records a worker's query span that has closed. (Urgent spans come from [`EventHistory::transaction`].)
    pub fn span(&self, span: Span) {
        self.lock().spans.push(span);
    }

    /// Counts records that were lost before they came here: a worker's ring overflowed.
    pub fn lost(&self, count: u64) {
        self.lock().lost_count += count;
    }

    /// Forgets everything.
    pub fn clear(&self) {
        let mut inner = self.lock();
        inner.clears += 1;
        inner.lost_count = 0;
        inner.transactions.clear();
        inner.runs.clear();
        inner.spans.clear();
        inner.totals = [PolicyTotals::new(), PolicyTotals::new(), PolicyTotals::new()];
    }

    /// Returns the records since `cursor`; the caller adds the clock and the workers' present state.
    pub fn poll(&self, cursor: Cursor, now_ns: u64, workers: Vec<WorkerNow>) -> Update {
        let inner = self.lock();
        let cursor = if cursor.clears == inner.clears { cursor } else { Cursor::default() };
        let (transactions, transaction, missed_transactions) = inner.transactions.since(cursor.transaction);
        let (runs, run, missed_runs) = inner.runs.since(cursor.run);
        let (spans, span, missed_spans) = inner.spans.since(cursor.span);
        let summaries = Policy::ALL.map(|policy| inner.totals[policy.index()].summary(policy));
        Update {
            next: Cursor { clears: inner.clears, transaction, run, span },
            now_ns,
            transactions,
            runs,
            spans,
            missed_count: missed_transactions + missed_runs + missed_spans,
            lost_count: inner.lost_count,
            workers,
            verdict: verdict(&summaries),
            summaries: summaries.into(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HistoryInner> {
        self.inner.lock().expect("no code panics under this lock")
    }
}

impl<T: Clone> Ring<T> {
    fn new(limit: usize) -> Ring<T> {
        Ring { records: VecDeque::new(), first: 0, limit }
    }

    fn push(&mut self, record: T) {
        if self.limit <= self.records.len() {
            self.records.pop_front();
            self.first += 1;
        }
        self.records.push_back(record);
    }

    fn clear(&mut self) {
        self.first = 0;
        self.records.clear();
    }

    /// Returns the records from number `from` on, the number to go on with, and the number of records that were gone
    /// already. A reader that begins (`from` 0) has missed nothing: it asked for the records that are kept.
    fn since(&self, from: u64) -> (Vec<T>, u64, u64) {
        let missed = if from == 0 { 0 } else { self.first.saturating_sub(from) };
        let start = from.clamp(self.first, self.first + self.records.len() as u64);
        let skip = (start - self.first) as usize;
        let records: Vec<T> = self.records.iter().skip(skip).take(UPDATE_MAX).cloned().collect();
        let next = start + records.len() as u64;
        (records, next, missed)
    }
}

impl PolicyTotals {
    fn new() -> PolicyTotals {
        PolicyTotals {
            latency: Histogram::new(),
            on_cpu: Histogram::new(),
            latest_us: None,
            start: Histogram::new(),
            aborts_count: 0,
            run: Histogram::new(),
            run_query: String::new(),
        }
    }

    fn summary(&self, policy: Policy) -> Summary {
        Summary {
            policy,
            count: self.latency.count(),
            latency_us: quantiles(&self.latency, 1.0),
            // Percentiles of a few say nothing.
            on_cpu_us: quantiles(&self.on_cpu, 1.0).filter(|_| ON_CPU_MIN <= self.on_cpu.count()),
            on_cpu_count: self.on_cpu.count(),
            latest_us: self.latest_us,
            start_us: quantiles(&self.start, 1.0),
            aborts_count: self.aborts_count,
            runs_count: self.run.count(),
            run_ms: quantiles(&self.run, 1e3),
        }
    }
}

/// Returns quantiles in a unit of this many microseconds.
fn quantiles(histogram: &Histogram, unit_us: f64) -> Option<Quantiles> {
    if histogram.count() == 0 {
        return None;
    }
    let us = histogram.quantiles_us();
    Some(Quantiles { p50: us.p50 / unit_us, p99: us.p99 / unit_us, max: us.max / unit_us })
}

#[cfg(test)]
mod tests;
