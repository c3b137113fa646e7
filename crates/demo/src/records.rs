//! The events while the page is open. Times are nanoseconds of one clock with an origin of the implementation's choice,
//! small enough for a JavaScript number (below 2^53).

use serde::{Deserialize, Serialize};

use crate::facts::{Policy, WorkerContext};

/// State of one of the three instances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceInfo {
    /// Policy of the instance, also its name.
    pub policy: Policy,
    /// True if the instance is the chosen one.
    pub selected: bool,
    /// Query that the instance repeats now.
    pub query: Option<String>,
    /// New-Orders per second that the instance is given now.
    pub rate_per_s: f64,
    /// Number of New-Orders that have arrived and not ended.
    pub waiting_count: u64,
}

/// Way in which an urgent transaction came to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// The query saw the flag at a safepoint.
    Polled,
    /// A signal interrupted the query.
    Signalled,
    /// An interrupt came in a non-preemptible region and was served at its end.
    Deferred,
    /// The query gave way at one of its yield points.
    Yielded,
    /// The query before it had ended.
    Boundary,
    /// The worker had nothing to do.
    Idle,
}

/// End of an urgent transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UrgentOutcome {
    /// The transaction committed.
    Committed,
    /// The transaction rolled back on purpose: TPC-C asks for one New-Order in a hundred.
    RolledBack,
    /// The transaction was given up.
    Failed,
}

/// Urgent New-Order that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UrgentTransaction {
    /// Ticket that [`crate::Demo::issue`] returned; 0 for a transaction that came from the rate.
    pub ticket: u64,
    /// Policy under which the transaction ran.
    pub policy: Policy,
    /// Index of the worker.
    pub worker: usize,
    /// Moment at which the transaction was due: latency counts from here.
    pub arrived_ns: u64,
    /// Moment of the first instruction.
    pub started_ns: u64,
    /// Moment of the end, retries included.
    pub ended_ns: u64,
    /// Way in which the transaction came to run.
    pub start: Start,
    /// Number of times the transaction was aborted and ran again.
    pub aborts_count: u32,
    /// True if the worker hardly waited for a processor between arrival and end (at most 0.1 ms): others on the machine
    /// did not add to the latency.
    pub is_on_cpu: bool,
    /// End of the transaction.
    pub outcome: UrgentOutcome,
}

/// Run of the long query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueryRun {
    /// Policy under which the query ran.
    pub policy: Policy,
    /// Name of the query.
    pub query: String,
    /// Start of the run.
    pub started_ns: u64,
    /// End of the run.
    pub ended_ns: u64,
    /// Number of urgent transactions that ran meanwhile.
    pub overtaken_count: u64,
    /// True if the run went to completion, false if it was cancelled.
    pub finished: bool,
}

/// Stretch of time in which one context of a worker existed. A query's span covers the time in which an urgent
/// transaction ran above it: the page draws the urgent one on top.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Policy under which the context ran.
    pub policy: Policy,
    /// Index of the worker.
    pub worker: usize,
    /// Context that ran.
    pub context: WorkerContext,
    /// Start of the span.
    pub start_ns: u64,
    /// End of the span.
    pub end_ns: u64,
}

/// Present work of a worker of the chosen instance: its spans are still open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerNow {
    /// Index of the worker.
    pub worker: usize,
    /// Name and place: "worker 0 on cpu 1".
    pub name: String,
    /// Context that runs at this moment.
    pub context: WorkerContext,
    /// Moment since which a query is on the worker, with or without an urgent transaction above it; absent if there is
    /// none.
    pub query_since_ns: Option<u64>,
}

/// Summary of one policy since the last clear.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Policy of the summary.
    pub policy: Policy,
    /// Number of New-Orders ended.
    pub count: u64,
    /// Times from arrival to end; absent while nothing has ended.
    pub latency_us: Option<Quantiles>,
    /// The same of the New-Orders that were on CPU ([`UrgentTransaction::is_on_cpu`]).
    pub on_cpu_us: Option<Quantiles>,
    /// Number of New-Orders that were on CPU.
    pub on_cpu_count: u64,
    /// Time from arrival to end of the latest New-Order.
    pub latest_us: Option<f64>,
    /// Times from arrival to first instruction.
    pub start_us: Option<Quantiles>,
    /// Number of times a New-Order was aborted and ran again.
    pub aborts_count: u64,
    /// Number of runs of the long query that finished.
    pub runs_count: u64,
    /// Time per run of the long query, the one run last.
    pub run_ms: Option<Quantiles>,
}

/// Quantiles of one distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Median.
    pub p50: f64,
    /// Value that 99 of a hundred do not exceed.
    pub p99: f64,
    /// Largest value.
    pub max: f64,
}

/// Position of a reader. `Cursor::default()` reads the records that are kept, from the oldest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// Number of clears; a cursor of an earlier one starts anew.
    pub clears: u64,
    /// Next transaction to read.
    pub transaction: u64,
    /// Next run to read.
    pub run: u64,
    /// Next span to read.
    pub span: u64,
}

/// Records since a cursor, and the present state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Update {
    /// Cursor to read on from.
    pub next: Cursor,
    /// Present time of the clock.
    pub now_ns: u64,
    /// Transactions that have ended since.
    pub transactions: Vec<UrgentTransaction>,
    /// Runs that have ended since.
    pub runs: Vec<QueryRun>,
    /// Spans that have closed since.
    pub spans: Vec<Span>,
    /// Number of records that this reader was too slow for.
    pub missed_count: u64,
    /// Number of records that no ring had room for, since the last clear.
    pub lost_count: u64,
    /// Workers of the chosen instance.
    pub workers: Vec<WorkerNow>,
    /// Summaries, one per policy, in the order of [`Policy::ALL`].
    pub summaries: Vec<Summary>,
    /// Comparison of the summaries in one sentence; empty while there is nothing to compare.
    pub verdict: String,
}
