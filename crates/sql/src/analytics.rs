//! The analytics path as a session sees it: who can run a bound plan over a snapshot, on threads of their own.
//!
//! **Invariant:** a run is told of its end exactly once, whatever happens; after `Analysis::cancel` its session need not
//! wait for it. Nothing here names what runs the plans, so that only one crate compiles it.

use crate::exec;
use crate::explain::Node;
use crate::session::Env;
use engine::memory::SMALL_BYTES;
use engine::{Snapshot, Wake};
use query::plan::Plan;
use stage::Class;
use statement::error::{SqlError, SqlResult};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use types::SqlType;
use types::datum::Datum;

/// Runs plans that only read.
pub trait Analytics: Send + Sync {
    /// Makes a plan ready to run.
    ///
    /// # Errors
    /// `0A000` for what this path cannot do exactly as PostgreSQL does.
    fn prepare(&self, query: &Query<'_>) -> SqlResult<Arc<dyn AnalyticsPlan>>;
}

/// A bound query.
#[derive(Clone, Copy, Debug)]
pub struct Query<'q> {
    /// What it does.
    pub plan: &'q Plan,
    /// Types of its parameters.
    pub parameters: &'q [SqlType],
    /// Types of its columns.
    pub columns: &'q [SqlType],
    /// The session's state now, for what must be computed to see whether it can be run.
    pub env: &'q Arc<Env>,
}

/// A plan that is ready. It keeps no snapshot, and may run many times, at once too.
pub trait AnalyticsPlan: Send + Sync {
    /// Starts a run. `finish` is called once, on any thread, perhaps before this returns.
    ///
    /// # Errors
    /// What is found before anything runs; `finish` is not called then.
    fn start(&self, start: Start, finish: Finish) -> SqlResult<Arc<dyn AnalyticsRun>>;

    /// The operators that a run would have.
    ///
    /// # Errors
    /// As [`AnalyticsPlan::start`].
    fn explain(&self, start: &Start) -> SqlResult<Node>;
}

/// What a run is given.
#[derive(Clone)]
pub struct Start {
    /// What it sees.
    pub snapshot: Arc<Snapshot>,
    /// Values of the parameters.
    pub parameters: Vec<Datum>,
    /// The session's state as the statement found it: what evals and casts are called with.
    pub env: Arc<Env>,
    /// How important it is.
    pub class: Class,
    /// It fails with `57014` when it takes longer.
    pub deadline: Option<Instant>,
    /// Whether the answer tells what each operator did: `EXPLAIN ANALYZE`.
    pub analyze: bool,
}

/// What a run found.
#[derive(Debug, Default)]
pub struct Answer {
    /// Its rows, of exactly the plan's types.
    pub rows: Vec<Box<[Datum]>>,
    /// What was done for them, if that was asked for.
    pub report: Option<Report>,
    bytes: usize,
}

impl Answer {
    /// With these rows, too.
    ///
    /// # Errors
    /// `53200` when that is more than a statement may keep, on whatever path.
    pub fn add(&mut self, rows: Vec<Box<[Datum]>>) -> SqlResult<()> {
        self.bytes += rows.iter().map(|row| exec::bytes_of(row)).sum::<usize>();
        if SMALL_BYTES < self.bytes {
            SqlError::check_room(0)?;
        }
        if exec::BYTES_MAX < self.bytes {
            return Err(exec::too_much());
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
pub struct Report {
    /// Its operators.
    pub plan: Node,
    /// Rows that its scans read where frozen blocks have them.
    pub rows_in_place: u64,
    /// Rows that they gathered, because they were hot.
    pub rows_copied: u64,
    /// Its stages, in their order.
    pub stages: Vec<(&'static str, Duration)>,
}

/// Is told how a run ended.
pub type Finish = Box<dyn FnOnce(SqlResult<Answer>) + Send>;

/// A run under way.
pub trait AnalyticsRun: Send + Sync {
    /// Makes it end soon.
    fn cancel(&self);
}

/// A run as the session that waits for it sees it; whoever has it may cancel it before it is started.
#[derive(Default)]
pub struct Analysis {
    state: Mutex<State>,
    run: OnceLock<Arc<dyn AnalyticsRun>>,
}

#[derive(Default)]
struct State {
    is_over: bool,
    result: Option<SqlResult<Answer>>,
    wakes: Vec<Arc<dyn Wake>>,
}

impl Analysis {
    /// Starts a run of the plan, once.
    ///
    /// # Errors
    /// Those of [`AnalyticsPlan::start`].
    pub(crate) fn start(self: &Arc<Self>, plan: &dyn AnalyticsPlan, start: Start) -> SqlResult<()> {
        let told = Arc::clone(self);
        let run = plan.start(start, Box::new(move |result| told.end(result)))?;
        // Nobody else sets it.
        let _ = self.run.set(Arc::clone(&run));
        if self.is_ready() {
            // Whoever cancelled it has not found the run.
            run.cancel();
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first end counts.
    fn end(&self, result: SqlResult<Answer>) {
        let wakes = {
            let mut state = self.state();
            if state.is_over {
                return;
            }
            state.is_over = true;
            state.result = Some(result);
            std::mem::take(&mut state.wakes)
        };
        wakes.into_iter().for_each(|wake| wake.wake());
    }

    /// Ends it with `57014`, at once for its session; what still computes stops at its next look.
    pub(crate) fn cancel(&self) {
        self.end(Err(SqlError::from(engine::Error::Cancelled)));
        if let Some(run) = self.run.get() {
            run.cancel();
        }
    }

    /// Whether it has ended.
    pub fn is_ready(&self) -> bool {
        self.state().is_over
    }

    /// Has `wake` called when it ends: at once if it has.
    pub fn on_ready(&self, wake: Arc<dyn Wake>) {
        let mut state = self.state();
        if state.is_over {
            drop(state);
            wake.wake();
        } else {
            state.wakes.push(wake);
        }
    }

    /// Blocks this thread until it has ended. For ordinary threads, never for workers.
    pub fn wait(&self) {
        self.on_ready(Arc::new(Unpark(thread::current())));
        while !self.is_ready() {
            thread::park();
        }
    }

    /// How it ended, once; nothing while it runs.
    pub(crate) fn take(&self) -> Option<SqlResult<Answer>> {
        self.state().result.take()
    }
}

impl fmt::Debug for Analysis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Analysis").field("is_ready", &self.is_ready()).finish_non_exhaustive()
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(&self) {
        self.0.unpark();
    }
}
