//! The facts that stay the same while the page is open: the machine, the database, the queries to choose from, Figure
//! 1.

use serde::{Deserialize, Serialize};

/// Policy that decides when an urgent transaction starts. The page has one instance of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Strict first in, first out.
    Wait,
    /// The query gives way at fixed points.
    Yield,
    /// The query is interrupted.
    Preempt,
}

impl Policy {
    /// Every policy, in the order of the page.
    pub const ALL: [Policy; 3] = [Policy::Wait, Policy::Yield, Policy::Preempt];

    /// Returns the place in [`Policy::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Returns the word that the page and the interface use.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Wait => "wait",
            Policy::Yield => "yield",
            Policy::Preempt => "preempt",
        }
    }
}

/// The machine's own facts and those of the database on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Version of the program, as `--version` prints it.
    pub version: String,
    /// Processor model, as the kernel names it.
    pub cpu_model: String,
    /// Number of processors that this process may use.
    pub cpus: usize,
    /// Kernel name and release.
    pub kernel: String,
    /// Memory of the machine, in bytes.
    pub memory_bytes: u64,
    /// Number of workers of one instance.
    pub workers: usize,
    /// Ways to reach a busy worker, best last, and those that are used here.
    pub delivery: Delivery,
    /// Permission of this process to use the kernel's real-time class.
    pub realtime: Allowed,
    /// True if the machine has cores for all instances at once; otherwise only the chosen one runs.
    pub side_by_side: bool,
    /// Description of the yield instance's yield points, for people: "every 1,000 batches".
    pub yields: String,
    /// Maximum rate of New-Orders, per second, that may be asked for.
    pub rate_per_s_max: f64,
    /// Access to each instance by PostgreSQL's protocol, in the order of the page.
    pub psql: Vec<Psql>,
    /// Facts of the database; absent until it is loaded.
    pub database: Option<LoadedDatabase>,
}

/// Access to an instance by psql.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Psql {
    /// Policy of the instance.
    pub policy: Policy,
    /// Command to type.
    pub command: String,
}

/// Permission of the machine for a feature, with its reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Allowed {
    /// True if the feature is allowed.
    pub allowed: bool,
    /// Sentence that says how this is known, or what would have to change.
    pub why: String,
}

/// Delivery of an interrupt to a worker under `preempt`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// Name of the rungs used here: "poll and signal".
    pub in_use: String,
    /// Reason for this choice, in one or two sentences.
    pub why: String,
    /// Rungs of the ladder, those that the machine lacks included.
    pub rungs: Vec<Rung>,
}

/// Way to reach a busy worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    /// Name of the rung: "poll", "signal", "thread", "user interrupt".
    pub name: String,
    /// True if the machine has the rung.
    pub available: bool,
    /// True if the preempt instance uses the rung.
    pub in_use: bool,
    /// Description of the rung, and the reason why it is or is not used.
    pub why: String,
    /// Median time from send to first instruction, in µs, measured on this machine at start; absent if it was not
    /// measured.
    pub delay_us_p50: Option<f64>,
}

/// Database that was loaded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadedDatabase {
    /// Scale factor of TPC-H.
    pub scale_factor: f64,
    /// Number of TPC-C's warehouses.
    pub warehouses: usize,
    /// Number of rows in all tables together.
    pub rows_count: u64,
    /// Memory that the tables take, in bytes.
    pub bytes: u64,
}

/// Progress of loading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum LoadProgress {
    /// The database is being loaded.
    Loading {
        /// Steps in order, those to come included.
        steps: Vec<LoadStep>,
        /// Milliseconds since the start.
        elapsed_ms: u64,
    },
    /// The database is loaded.
    Ready {
        /// Milliseconds that loading took.
        elapsed_ms: u64,
    },
    /// Loading failed: there will be no database.
    Failed {
        /// Error, and advice.
        reason: String,
    },
}

/// Step of loading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadStep {
    /// Name of the step: "TPC-H tables".
    pub name: String,
    /// Amount done so far.
    pub done: u64,
    /// Total amount; 0 if it is not known yet.
    pub total: u64,
    /// Unit of the amount: "rows".
    pub unit: String,
}

/// Long query to choose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueryInfo {
    /// Name in the interface: "q2".
    pub name: String,
    /// Set that the query belongs to, for people: "TPC-H, which nobody writes".
    pub set: String,
    /// Title for people: "Q2, minimum cost supplier".
    pub title: String,
    /// Text of the query, shown on demand.
    pub sql: String,
}

/// The paper's Figure 1, as the scheduler's simulator plays it on virtual time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure1 {
    /// Moment at which the transaction arrives.
    pub arrival: f64,
    /// Rows of the figure, one per policy.
    pub rows: Vec<Figure1Row>,
}

/// Row of one policy in Figure 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure1Row {
    /// Policy of the row.
    pub policy: Policy,
    /// Segments of the row, in order, in units of time.
    pub segments: Vec<Segment>,
    /// Units from the transaction's arrival to its end.
    pub latency: f64,
}

/// Stretch of a row of Figure 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// Context that runs.
    pub context: WorkerContext,
    /// First unit of time.
    pub start: f64,
    /// Unit of time after the last.
    pub end: f64,
}

/// Work of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerContext {
    /// No work.
    Idle,
    /// Part of the long query.
    Query,
    /// Urgent transaction.
    Urgent,
}
