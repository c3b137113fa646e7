//! What a server knows of its sessions and statements, for the views `overtake.activity`, `overtake.stages`,
//! `overtake.statements` and `overtake.scheduler`.
//!
//! **Invariant:** whoever looks sees a copy; nothing waits for a reader.

use crate::Class;

/// Who knows.
pub trait Observe: Send + Sync {
    /// All sessions.
    fn activity(&self) -> Vec<ActivityRow>;

    /// Where the time of statements goes, by class.
    fn stages(&self) -> Vec<StageRow>;

    /// What each statement costs, the most expensive first.
    fn statements(&self) -> Vec<StatementRow>;
}

/// Who runs analytics.
pub trait Scheduling: Send + Sync {
    /// The queue and the workers of each class.
    fn scheduler(&self) -> Vec<SchedulerRow>;

    /// Tells whether analytics of a class get no processor.
    fn is_starved(&self, _class: Class) -> bool {
        false
    }

    /// Tells whether long queries that are answered by rows get no processor.
    fn are_rows_starved(&self) -> bool {
        false
    }
}

/// The analytics of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerRow {
    /// The class.
    pub class: Class,
    /// Its workers.
    pub workers: usize,
    /// Queries that run on them.
    pub running: usize,
    /// Queries that wait to be let in.
    pub waiting: usize,
    /// What running queries hold, those of all classes together.
    pub memory_bytes: usize,
    /// True if they get no processor.
    pub is_starved: bool,
}

/// One session.
#[derive(Clone, Debug, PartialEq)]
pub struct ActivityRow {
    /// The number by which it can be cancelled.
    pub pid: i32,
    /// Its role.
    pub user: String,
    /// Its database.
    pub database: String,
    /// What it calls itself.
    pub application: String,
    /// Where it comes from; none: from this machine, by the socket.
    pub client: Option<String>,
    /// `active`, `waiting`, `idle`, `idle in transaction` or `idle in transaction (aborted)`.
    pub state: &'static str,
    /// Its class.
    pub class: Class,
    /// Its statement, or the last one.
    pub query: String,
    /// When it began, microseconds since 1970.
    pub session_start_us: i64,
    /// When that statement did; 0: there was none.
    pub query_start_us: i64,
}

/// One stage of one class.
#[derive(Clone, Debug, PartialEq)]
pub struct StageRow {
    /// The class.
    pub class: Class,
    /// `parse`, `run`, `wait`, `commit` or `reply`.
    pub stage: &'static str,
    /// How many times.
    pub times: Times,
}

/// One statement, its literals left out.
#[derive(Clone, Debug, PartialEq)]
pub struct StatementRow {
    /// Its text.
    pub query: String,
    /// From the begin of parsing to the end of running, waits included.
    pub times: Times,
    /// Rows that it returned or changed.
    pub rows: u64,
    /// How many have failed.
    pub errors: u64,
    /// Of all of them together, parsing and binding.
    pub parse_us: f64,
    /// Running.
    pub run_us: f64,
    /// Waiting, for locks and for analytics.
    pub wait_us: f64,
}

/// A distribution of times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub total_us: f64,
    /// The median.
    pub p50_us: f64,
    /// 99 in 100 are at most this.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
}
