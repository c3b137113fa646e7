//! Analytics path of a session: runs bound plans over a snapshot, on threads of its own.
//!
//! **Invariant:** each run reports its end exactly once, whatever happens, and its session need not wait for it after
//! `Analysis::cancel`. Nothing here names the engine that runs the plans, so only one crate compiles that engine.

use crate::explain::ExplainNode;
use crate::plan::Plan;
use crate::rows::{BYTES_MAX, ResultPiece, bytes_of, too_much};
use catalog::Routine;
use engine::Snapshot;
use engine::memory::SMALL_BYTES;
use stage::Class;
use statement::error::{SqlError, SqlResult};
use statement::holdings::SessionHoldings;
use statement::stream::Stream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use types::SqlType;
use types::datum::Datum;
use types::ops::CallContext;

/// Executor of read-only plans.
pub trait Analytics: Send + Sync {
    /// Prepares a plan for execution.
    ///
    /// # Errors
    /// Fails with `0A000` if this path cannot run the plan exactly as PostgreSQL would.
    fn prepare(&self, query: &AnalyticsQuery<'_>) -> SqlResult<Arc<dyn AnalyticsPlan>>;
}

/// Greatest number of rows that [`StoredCode::call`] takes at once.
pub const CODE_ROWS_MAX: usize = procs::wire::BATCH_MAX;
/// Number of bytes of rows from which on they are passed to [`StoredCode::call`].
pub const CODE_BYTES_MAX: usize = 256 << 10;

/// Stored code that an analytical run calls. It belongs to one statement of one session.
pub trait StoredCode: Send + Sync {
    /// Calls a function with [`crate::plan::RoutineCall::is_computation`] for rows of arguments, at most
    /// [`CODE_ROWS_MAX`] of them. May be called on several threads at once; code runs on the calling thread,
    /// or this thread waits for it.
    ///
    /// # Errors
    /// Those of the first row that fails; `0A000` for code that sends notices, which have an order.
    fn call(&self, routine: &Arc<Routine>, rows: &[&[Datum]]) -> SqlResult<Vec<Datum>>;

    /// Ends code that runs, within 100 ms, and refuses to call any other.
    fn end(&self);
}

/// A bound query.
#[derive(Clone, Copy)]
pub struct AnalyticsQuery<'q> {
    /// Logical plan of the query.
    pub plan: &'q Plan,
    /// Types of the parameters.
    pub parameters: &'q [SqlType],
    /// Types of the result columns.
    pub columns: &'q [SqlType],
    /// Context of calls, for values that decide whether the plan can run.
    pub context: &'q Arc<dyn CallContext>,
    /// Stored code that the query may call; `None` if it may call none.
    pub code: Option<&'q Arc<dyn StoredCode>>,
}

/// A prepared plan. It keeps no snapshot, and may run many times, also concurrently.
pub trait AnalyticsPlan: Send + Sync {
    /// Starts a run. `finish` is called once, on any thread, possibly before this function returns.
    ///
    /// # Errors
    /// Fails with an error that is found before anything runs; `finish` is not called then.
    fn start(&self, start: AnalyticsStart, finish: AnalyticsFinish) -> SqlResult<Arc<dyn AnalyticsRun>>;

    /// Returns the operators that a run would have.
    ///
    /// # Errors
    /// Fails as [`AnalyticsPlan::start`] does.
    fn explain(&self, start: &AnalyticsStart) -> SqlResult<ExplainNode>;
}

/// Arguments of a run.
#[derive(Clone)]
pub struct AnalyticsStart {
    /// Snapshot that the run reads.
    pub snapshot: Arc<Snapshot>,
    /// Values of the parameters.
    pub parameters: Vec<Datum>,
    /// Context of calls, as of the start of the statement.
    pub context: Arc<dyn CallContext>,
    /// Stored code that the run may call; `None` if it may call none.
    pub code: Option<Arc<dyn StoredCode>>,
    /// Memory that the session's statements hold.
    pub holdings: Arc<SessionHoldings>,
    /// Scheduling class of the run.
    pub class: Class,
    /// Deadline of the run, after which it fails with `57014`.
    pub deadline: Option<Instant>,
    /// True if the answer includes statistics of each operator, for `EXPLAIN ANALYZE`.
    pub analyze: bool,
    /// Queue for the rows. A run that cannot fail at a row sends its rows there as they come, and counts them in
    /// [`AnalyticsAnswer::streamed`].
    pub stream: Option<Arc<Stream<ResultPiece>>>,
}

/// Result of a run.
#[derive(Debug, Default)]
pub struct AnalyticsAnswer {
    /// Rows of exactly the plan's types.
    pub rows: Vec<Box<[Datum]>>,
    /// Number of rows that were sent to [`AnalyticsStart::stream`] instead.
    pub streamed: u64,
    /// Statistics of the run, if the caller asked for them.
    pub report: Option<AnalyticsReport>,
    bytes: usize,
}

impl AnalyticsAnswer {
    /// Appends rows.
    ///
    /// # Errors
    /// Fails with `53200` if the result exceeds the memory of a statement, which is the same on every path.
    pub fn add(&mut self, rows: Vec<Box<[Datum]>>) -> SqlResult<()> {
        self.bytes += rows.iter().map(|row| bytes_of(row)).sum::<usize>();
        if SMALL_BYTES < self.bytes {
            SqlError::check_room(0)?;
        }
        if BYTES_MAX < self.bytes {
            return Err(too_much());
        }
        if self.rows.is_empty() {
            self.rows = rows;
        } else {
            self.rows.extend(rows);
        }
        Ok(())
    }
}

/// Statistics of a run.
#[derive(Debug, Default)]
pub struct AnalyticsReport {
    /// Tree of the operators.
    pub plan: ExplainNode,
    /// Number of rows that scans read in place, from frozen blocks.
    pub rows_in_place: u64,
    /// Number of rows that scans copied, because they were hot.
    pub rows_copied: u64,
    /// Stages of the run with their durations, in order.
    pub stages: Vec<(&'static str, Duration)>,
}

/// Callback for the end of a run.
pub type AnalyticsFinish = Box<dyn FnOnce(SqlResult<AnalyticsAnswer>) + Send>;

/// Handle of a run in progress.
pub trait AnalyticsRun: Send + Sync {
    /// Asks the run to end soon.
    fn cancel(&self);
}
