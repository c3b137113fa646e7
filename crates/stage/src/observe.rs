//! Rows about a server's sessions and statements, for the views `overtake.activity`, `overtake.stages`,
//! `overtake.stage_clock`, `overtake.statements`, `overtake.statement_stages` and `overtake.scheduler`.
//!
//! **Invariant:** readers get copies; nothing waits for a reader.

use crate::class::Class;
use crate::split::RunPart;
use crate::stages::{IsolationLevel, Stage, Transport};

/// Source of the rows of these views, except for the scheduler's.
pub trait Observe: Send + Sync {
    /// Returns one row for each session.
    fn activity(&self) -> Vec<ActivityRow>;

    /// Returns the time that statements spend in each stage, by class, transport and isolation level.
    fn stages(&self) -> Vec<StageRow>;

    /// Returns the parts of the stage `run`, by the same.
    fn run_parts(&self) -> Vec<RunPartRow>;

    /// Returns the state of the stage clock and its overhead.
    fn clock(&self) -> ClockRow;

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
#[derive(Clone, Copy, Debug, PartialEq)]
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
    /// Urgent calls that the workers of the class make.
    pub urgent: UrgentRow,
}

/// Figures of the urgent calls of one class of workers, since the server's start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UrgentRow {
    /// Calls that ended.
    pub calls: u64,
    /// Calls that interrupted a query.
    pub interrupting: u64,
    /// Calls that no worker had started in time, so that the claimer made them.
    pub claimed: u64,
    /// Times that calls had to wait because queries were owed time.
    pub held_back: u64,
    /// Calls that were turned away because too many were on their way.
    pub rejected: u64,
    /// Median of the times from the hand-over to the first instruction, in microseconds.
    pub start_p50_us: f64,
    /// 99th percentile of these times.
    pub start_p99_us: f64,
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

/// Times of one stage, for one class, transport and isolation level.
#[derive(Clone, Debug, PartialEq)]
pub struct StageRow {
    /// Class of the statements.
    pub class: Class,
    /// Transport of their sessions.
    pub transport: Transport,
    /// Isolation level of the procedures that they call.
    pub isolation: IsolationLevel,
    /// Stage.
    pub stage: Stage,
    /// Number and distribution of the times.
    pub times: Times,
    /// Share of the time of all stages, 0 to 1.
    pub share: f64,
    /// Cost of the clock as a share of the processor time of all stages, 0 to 1.
    pub overhead: f64,
}

/// Part of the stage `run`, for one class, transport and isolation level, measured on one transaction in 64.
#[derive(Clone, Debug, PartialEq)]
pub struct RunPartRow {
    /// Class of the statements.
    pub class: Class,
    /// Transport of their sessions.
    pub transport: Transport,
    /// Isolation level of the procedures that they call.
    pub isolation: IsolationLevel,
    /// Part.
    pub part: RunPart,
    /// Number of statements that were measured.
    pub sampled: u64,
    /// Microseconds measured.
    pub sampled_us: f64,
    /// Share of the part in the runs that were measured, 0 to 1.
    pub share: f64,
    /// Microseconds of the part in all runs, measured or not: its share of their sum.
    pub total_us: f64,
}

/// State of the stage clock of a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockRow {
    /// Source of its time: `tsc` or `monotonic`.
    pub source: &'static str,
    /// Cost of a stamp in nanoseconds, as measured here.
    pub stamp_ns: f64,
    /// Cost of reading the processor time of a thread in nanoseconds.
    pub reading_ns: f64,
    /// Cost of adding the times of one statement in nanoseconds.
    pub booking_ns: f64,
    /// Number of stamps.
    pub stamps: u64,
    /// Number of readings of the processor time.
    pub readings: u64,
    /// Number of statements whose times were added.
    pub bookings: u64,
    /// Time in stages that need a processor, in microseconds.
    pub work_us: f64,
    /// Cost of all of it as a share of that time, 0 to 1.
    pub overhead: f64,
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
    /// Nanoseconds spent in each stage, over all executions.
    pub stages: [u64; Stage::COUNT],
}

impl StatementRow {
    /// Returns the microseconds spent in these stages, over all executions.
    pub fn us(&self, of: impl Fn(Stage) -> bool) -> f64 {
        Stage::ALL.into_iter().zip(self.stages).filter(|(stage, _)| of(*stage)).map(|(_, ns)| ns as f64).sum::<f64>()
            / 1e3
    }
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
    /// Value that 99.9 % of the times do not exceed.
    pub p999_us: f64,
    /// Longest time.
    pub max_us: f64,
}
