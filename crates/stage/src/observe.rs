//! Rows about a server's sessions and statements, for the views `overtake.activity`, `overtake.stages`,
//! `overtake.statements` and `overtake.scheduler`.
//!
//! **Invariant:** readers get copies; nothing waits for a reader.

use crate::Class;

/// Source of the rows of `overtake.activity`, `overtake.stages` and `overtake.statements`.
pub trait Observe: Send + Sync {
    /// Returns one row for each session.
    fn activity(&self) -> Vec<ActivityRow>;

    /// Returns the time that statements spend in each stage, by class.
    fn stages(&self) -> Vec<StageRow>;

    /// Returns the cost of each statement, the most expensive first.
    fn statements(&self) -> Vec<StatementRow>;
}

/// Scheduler of analytical queries, as the view `overtake.scheduler` and the server's statements ask it.
pub trait Scheduling: Send + Sync {
    /// Returns the queue and the workers of each class.
    fn scheduler(&self) -> Vec<SchedulerRow>;

    /// Returns true if analytical queries of the class get no processor time.
    fn is_starved(&self, _class: Class) -> bool {
        false
    }

    /// Returns true if long queries that are executed row by row get no processor time.
    fn are_rows_starved(&self) -> bool {
        false
    }
}

/// State of the analytical queries of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerRow {
    /// Class of these queries.
    pub class: Class,
    /// Number of workers of the class.
    pub workers: usize,
    /// Number of queries that run on the workers.
    pub running: usize,
    /// Number of queries that wait for admission.
    pub waiting: usize,
    /// Bytes that running queries hold, those of all classes together.
    pub memory_bytes: usize,
    /// True if the queries of the class get no processor time.
    pub is_starved: bool,
}

/// State of one session.
#[derive(Clone, Debug, PartialEq)]
pub struct ActivityRow {
    /// Number by which the session can be cancelled.
    pub pid: i32,
    /// Role of the session.
    pub user: String,
    /// Database of the session.
    pub database: String,
    /// Name that the application gave itself.
    pub application: String,
    /// Address of the client; none if it connected from this machine, by the socket.
    pub client: Option<String>,
    /// State: `active`, `waiting`, `idle`, `idle in transaction` or `idle in transaction (aborted)`.
    pub state: &'static str,
    /// Class of the session.
    pub class: Class,
    /// Text of the present statement, or of the last one.
    pub query: String,
    /// Start of the session, in microseconds since 1970.
    pub session_start_us: i64,
    /// Start of that statement, in microseconds since 1970; 0 if there was none.
    pub query_start_us: i64,
}

/// Times of one stage, for one class.
#[derive(Clone, Debug, PartialEq)]
pub struct StageRow {
    /// Class of the statements.
    pub class: Class,
    /// Name of the stage: `parse`, `run`, `wait`, `commit` or `reply`.
    pub stage: &'static str,
    /// Number and distribution of the times.
    pub times: Times,
}

/// Costs of one statement, its literals left out.
#[derive(Clone, Debug, PartialEq)]
pub struct StatementRow {
    /// Text of the statement.
    pub query: String,
    /// Times from the start of parsing to the end of execution, waits included.
    pub times: Times,
    /// Rows returned or changed.
    pub rows: u64,
    /// Number of executions that failed.
    pub errors: u64,
    /// Microseconds spent parsing and binding, over all executions.
    pub parse_us: f64,
    /// Microseconds spent running, over all executions.
    pub run_us: f64,
    /// Microseconds spent waiting, for locks and for analytical workers, over all executions.
    pub wait_us: f64,
}

/// Distribution of times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// Number of times.
    pub count: u64,
    /// Sum of the times.
    pub total_us: f64,
    /// Median.
    pub p50_us: f64,
    /// Value that 99 % of the times do not exceed.
    pub p99_us: f64,
    /// Longest time.
    pub max_us: f64,
}
