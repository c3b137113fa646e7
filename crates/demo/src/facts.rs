//! What stays the same while the page is open: the machine, the database, the queries to choose from, Figure 1.

use serde::{Deserialize, Serialize};

/// Who decides when an urgent transaction starts. The page has one instance of each.
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
    /// All three, in the order of the page.
    pub const ALL: [Policy; 3] = [Policy::Wait, Policy::Yield, Policy::Preempt];

    /// Place in [`Policy::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// The word that the page and the interface use.
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
    /// Of the program, as `--version` prints it.
    pub version: String,
    /// Processor model, as the kernel names it.
    pub cpu_model: String,
    /// Processors that this process may use.
    pub cpus: usize,
    /// Kernel name and release.
    pub kernel: String,
    /// Memory of the machine.
    pub memory_bytes: u64,
    /// Workers of one instance.
    pub workers: usize,
    /// The ways to reach a busy worker, best last, and which of them is used here.
    pub delivery: Delivery,
    /// Whether this process may use the kernel's real-time class.
    pub realtime: Allowed,
    /// Whether the machine has cores for all instances at once; otherwise only the chosen one runs.
    pub side_by_side: bool,
    /// How the yield instance gives way, for people: "every 1,000 batches".
    pub yields: String,
    /// Most New-Orders a second that may be asked for.
    pub rate_per_s_max: f64,
    /// How each instance is reached by PostgreSQL's protocol, in the order of the page.
    pub psql: Vec<Psql>,
    /// Absent until the database is loaded.
    pub database: Option<Database>,
}

/// How an instance is reached by psql.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Psql {
    /// Which instance.
    pub policy: Policy,
    /// What to type.
    pub command: String,
}

/// Whether the machine allows a thing, and what says so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Allowed {
    /// The answer.
    pub allowed: bool,
    /// One sentence: how it is known, or what would have to change.
    pub why: String,
}

/// How an interrupt reaches a worker under `preempt`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// What is used here: "poll and signal".
    pub in_use: String,
    /// One or two sentences: why this and not another.
    pub why: String,
    /// Every rung of the ladder, those that the machine lacks included.
    pub rungs: Vec<Rung>,
}

/// One way to reach a busy worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    /// "poll", "signal", "thread", "user interrupt".
    pub name: String,
    /// Whether the machine has it.
    pub available: bool,
    /// Whether the preempt instance uses it.
    pub in_use: bool,
    /// What it is, and why it is or is not used.
    pub why: String,
    /// Send to first instruction, median, measured on this machine at start; absent when it was not.
    pub delay_us_p50: Option<f64>,
}

/// What was loaded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Database {
    /// TPC-H's scale factor.
    pub scale_factor: f64,
    /// TPC-C's warehouses.
    pub warehouses: usize,
    /// Rows in all tables together.
    pub rows_count: u64,
    /// Memory that the tables take.
    pub bytes: u64,
}

/// How far loading is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Progress {
    /// At it.
    Loading {
        /// The steps in order, those to come included.
        steps: Vec<Step>,
        /// Since the start.
        elapsed_ms: u64,
    },
    /// The database is there.
    Ready {
        /// How long it took.
        elapsed_ms: u64,
    },
    /// It will not be there.
    Failed {
        /// What went wrong and what to do.
        reason: String,
    },
}

/// One step of loading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// "TPC-H tables".
    pub name: String,
    /// Done so far.
    pub done: u64,
    /// All there is; 0 when not known yet.
    pub total: u64,
    /// What is counted: "rows".
    pub unit: String,
}

/// A long query to choose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueryInfo {
    /// The name in the interface: "q2".
    pub name: String,
    /// The set that it belongs to, for people: "TPC-H, which nobody writes".
    pub set: String,
    /// For people: "Q2, minimum cost supplier".
    pub title: String,
    /// The text, shown on demand.
    pub sql: String,
}

/// The paper's Figure 1, as the scheduler's simulator plays it on virtual time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure1 {
    /// When the transaction arrives.
    pub arrival: f64,
    /// One row a policy.
    pub rows: Vec<Figure1Row>,
}

/// One policy in Figure 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure1Row {
    /// Which.
    pub policy: Policy,
    /// What runs when, in order, in units of time.
    pub segments: Vec<Segment>,
    /// Units from the transaction's arrival to its end.
    pub latency: f64,
}

/// One stretch of a row of Figure 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// Whose.
    pub context: Context,
    /// First unit of time.
    pub start: f64,
    /// One past the last.
    pub end: f64,
}

/// What a worker runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Context {
    /// Nothing.
    Idle,
    /// A part of the long query.
    Query,
    /// An urgent transaction.
    Urgent,
}
