//! What happens while the page is open. All times are nanoseconds of one clock with an origin of the implementation's
//! choice, small enough for a JavaScript number (below 2^53).

use serde::{Deserialize, Serialize};

use crate::facts::{Context, Policy};

/// One of the three instances, as it is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceInfo {
    /// Its policy, also its name.
    pub policy: Policy,
    /// Whether it is the chosen one.
    pub selected: bool,
    /// The query that it repeats now.
    pub query: Option<String>,
    /// New-Orders a second that it is given now.
    pub rate_per_s: f64,
    /// New-Orders that have arrived and not ended.
    pub waiting_count: u64,
}

/// How an urgent transaction came to run.
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

/// How an urgent transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Committed.
    Committed,
    /// Rolled back on purpose: TPC-C asks for one New-Order in a hundred.
    RolledBack,
    /// Gave up.
    Failed,
}

/// One urgent New-Order that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transaction {
    /// What [`crate::Demo::issue`] returned; 0 for one that came from the rate.
    pub ticket: u64,
    /// Under which policy.
    pub policy: Policy,
    /// On which worker, by index.
    pub worker: usize,
    /// When it was due: latency counts from here.
    pub arrived_ns: u64,
    /// Its first instruction.
    pub started_ns: u64,
    /// Its end, retries included.
    pub ended_ns: u64,
    /// How it came to run.
    pub start: Start,
    /// Times it was aborted and ran again.
    pub aborts_count: u32,
    /// How it ended.
    pub outcome: Outcome,
}

/// One run of the long query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueryRun {
    /// Under which policy.
    pub policy: Policy,
    /// The query's name.
    pub query: String,
    /// Its start.
    pub started_ns: u64,
    /// Its end.
    pub ended_ns: u64,
    /// Urgent transactions that ran meanwhile.
    pub overtaken_count: u64,
    /// Whether it ran to its end, rather than being cancelled.
    pub finished: bool,
}

/// A stretch of time in which one context of a worker existed. A query's span covers the time in which an urgent
/// transaction ran above it: the page draws the urgent one on top.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Under which policy.
    pub policy: Policy,
    /// Which worker, by index.
    pub worker: usize,
    /// What ran.
    pub context: Context,
    /// From when.
    pub start_ns: u64,
    /// Until when.
    pub end_ns: u64,
}

/// What a worker of the chosen instance does now: its spans are still open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerNow {
    /// Index.
    pub worker: usize,
    /// Name and place: "worker 0 on cpu 1".
    pub name: String,
    /// What it runs at this moment.
    pub context: Context,
    /// Since when a query is on it, an urgent transaction above it or not; absent when none is.
    pub query_since_ns: Option<u64>,
}

/// Everything of one policy since the last clear.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Which.
    pub policy: Policy,
    /// New-Orders ended.
    pub count: u64,
    /// Arrival to end; absent while nothing has ended.
    pub latency_us: Option<Quantiles>,
    /// Arrival to first instruction.
    pub start_us: Option<Quantiles>,
    /// Times a New-Order was aborted and ran again.
    pub aborts_count: u64,
    /// Runs of the long query that finished.
    pub runs_count: u64,
    /// Time per run of the long query, the one run last.
    pub run_ms: Option<Quantiles>,
}

/// Of one distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Median.
    pub p50: f64,
    /// 99 of a hundred are at or below.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

/// How far one reader has read. `Cursor::default()` reads what is kept, from the oldest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// Counts the clears; a cursor of an earlier one starts anew.
    pub clears: u64,
    /// Next transaction to read.
    pub transaction: u64,
    /// Next run to read.
    pub run: u64,
    /// Next span to read.
    pub span: u64,
}

/// What is new since a cursor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Update {
    /// Where to read on.
    pub next: Cursor,
    /// The clock now.
    pub now_ns: u64,
    /// Ended since.
    pub transactions: Vec<Transaction>,
    /// Ended since.
    pub runs: Vec<QueryRun>,
    /// Closed since.
    pub spans: Vec<Span>,
    /// Records that this reader was too slow for.
    pub missed_count: u64,
    /// Records that no ring had room for, since the last clear.
    pub lost_count: u64,
    /// Of the chosen instance.
    pub workers: Vec<WorkerNow>,
    /// One a policy, in the order of [`Policy::ALL`].
    pub summaries: Vec<Summary>,
}
