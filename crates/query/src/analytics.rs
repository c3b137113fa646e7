//! The analytics path as a session sees it: who can run a bound plan over a snapshot, on threads of their own.
//!
//! **Invariant:** a run is told of its end exactly once, whatever happens; after `Analysis::cancel` its session need not
//! wait for it. Nothing here names what runs the plans, so that only one crate compiles it.

use crate::explain::ExplainNode;
use crate::plan::Plan;
use crate::rows::{BYTES_MAX, ResultPiece, bytes_of, too_much};
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

/// Runs plans that only read.
pub trait Analytics: Send + Sync {
    /// Makes a plan ready to run.
    ///
    /// # Errors
    /// `0A000` for what this path cannot do exactly as PostgreSQL does.
    fn prepare(&self, query: &AnalyticsQuery<'_>) -> SqlResult<Arc<dyn AnalyticsPlan>>;
}

/// A bound query.
#[derive(Clone, Copy, Debug)]
pub struct AnalyticsQuery<'q> {
    /// What it does.
    pub plan: &'q Plan,
    /// Types of its parameters.
    pub parameters: &'q [SqlType],
    /// Types of its columns.
    pub columns: &'q [SqlType],
    /// Context of calls, for values that decide if the plan can run.
    pub context: &'q Arc<dyn CallContext>,
}

/// A plan that is ready. It keeps no snapshot, and may run many times, at once too.
pub trait AnalyticsPlan: Send + Sync {
    /// Starts a run. `finish` is called once, on any thread, perhaps before this returns.
    ///
    /// # Errors
    /// What is found before anything runs; `finish` is not called then.
    fn start(&self, start: AnalyticsStart, finish: AnalyticsFinish) -> SqlResult<Arc<dyn AnalyticsRun>>;

    /// The operators that a run would have.
    ///
    /// # Errors
    /// As [`AnalyticsPlan::start`].
    fn explain(&self, start: &AnalyticsStart) -> SqlResult<ExplainNode>;
}

/// What a run is given.
#[derive(Clone)]
pub struct AnalyticsStart {
    /// What it sees.
    pub snapshot: Arc<Snapshot>,
    /// Values of the parameters.
    pub parameters: Vec<Datum>,
    /// Context of calls, as the statement found it.
    pub context: Arc<dyn CallContext>,
    /// Memory that the session's statements hold.
    pub holdings: Arc<SessionHoldings>,
    /// How important it is.
    pub class: Class,
    /// It fails with `57014` when it takes longer.
    pub deadline: Option<Instant>,
    /// Whether the answer tells what each operator did: `EXPLAIN ANALYZE`.
    pub analyze: bool,
    /// Queue for the rows. A run that cannot fail at a row puts them there as they come, and counts them in
    /// [`AnalyticsAnswer::streamed`].
    pub stream: Option<Arc<Stream<ResultPiece>>>,
}

/// What a run found.
#[derive(Debug, Default)]
pub struct AnalyticsAnswer {
    /// Its rows, of exactly the plan's types.
    pub rows: Vec<Box<[Datum]>>,
    /// Number of rows that have gone to [`AnalyticsStart::stream`] instead.
    pub streamed: u64,
    /// What was done for them, if that was asked for.
    pub report: Option<AnalyticsReport>,
    bytes: usize,
}

impl AnalyticsAnswer {
    /// With these rows, too.
    ///
    /// # Errors
    /// `53200` when that is more than a statement may keep, on whatever path.
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

/// What a run did.
#[derive(Debug, Default)]
pub struct AnalyticsReport {
    /// Its operators.
    pub plan: ExplainNode,
    /// Rows that its scans read where frozen blocks have them.
    pub rows_in_place: u64,
    /// Rows that they gathered, because they were hot.
    pub rows_copied: u64,
    /// Its stages, in their order.
    pub stages: Vec<(&'static str, Duration)>,
}

/// Is told how a run ended.
pub type AnalyticsFinish = Box<dyn FnOnce(SqlResult<AnalyticsAnswer>) + Send>;

/// A run under way.
pub trait AnalyticsRun: Send + Sync {
    /// Makes it end soon.
    fn cancel(&self);
}
