//! Run of analytics as the session sees it that waits for it.
//!
//! **Invariant:** it ends exactly once; the first end counts.

use engine::Wake;
use locked::Locked;
use query::analytics::{AnalyticsAnswer, AnalyticsPlan, AnalyticsRun, AnalyticsStart};
use query::rows::ResultPiece;
use statement::error::{SqlError, SqlResult};
use statement::stream::Stream;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::{self, Thread};

/// A run as the session that waits for it sees it; whoever has it may cancel it before it is started.
#[derive(Default)]
pub struct Analysis {
    state: Mutex<AnalysisState>,
    run: OnceLock<Arc<dyn AnalyticsRun>>,
    /// Queue of its rows, if they are taken while it runs.
    rows: OnceLock<Arc<Stream<ResultPiece>>>,
}

#[derive(Default)]
struct AnalysisState {
    is_over: bool,
    /// True if a cancel has ended it.
    is_cancelled: bool,
    result: Option<SqlResult<AnalyticsAnswer>>,
    /// Wake of the session, which is the only one that waits.
    wake: Option<Arc<dyn Wake>>,
}

impl Analysis {
    /// Starts a run of the plan, once.
    ///
    /// # Errors
    /// Those of [`AnalyticsPlan::start`].
    pub(crate) fn start(self: &Arc<Self>, plan: &dyn AnalyticsPlan, start: AnalyticsStart) -> SqlResult<()> {
        if let Some(rows) = &start.stream {
            // Nobody else sets it, nor the run below.
            let _ = self.rows.set(Arc::clone(rows));
        }
        let told = Arc::clone(self);
        let finish = move |result| {
            told.end(result, false);
        };
        let run = plan.start(start, Box::new(finish))?;
        let _ = self.run.set(Arc::clone(&run));
        if self.state().is_cancelled {
            // Whoever cancelled it has not found the run. A run that has ended by itself keeps its rows.
            run.cancel();
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, AnalysisState> {
        self.state.locked_anyway()
    }

    /// Ends it. Returns true if it has not ended before: the first end counts.
    fn end(&self, result: SqlResult<AnalyticsAnswer>, is_cancelled: bool) -> bool {
        let wake = {
            let mut state = self.state();
            if state.is_over {
                return false;
            }
            (state.is_over, state.is_cancelled) = (true, is_cancelled);
            state.result = Some(result);
            state.wake.take()
        };
        if let Some(wake) = wake {
            wake.wake();
        }
        true
    }

    /// Ends it with `57014`, at once for its session; what still computes stops at its next look.
    pub(crate) fn cancel(&self) {
        if !self.end(Err(SqlError::from(engine::Error::Cancelled)), true) {
            // Its rows are not lost when the cancel comes behind its end.
            return;
        }
        if let Some(rows) = self.rows.get() {
            rows.close();
        }
        if let Some(run) = self.run.get() {
            run.cancel();
        }
    }

    /// Returns the queue of its rows, if rows have ever been put into it: the query cannot begin again.
    pub(crate) fn begun_rows(&self) -> Option<&Arc<Stream<ResultPiece>>> {
        self.rows.get().filter(|rows| rows.has_begun())
    }

    /// Whether it has ended.
    pub fn is_ready(&self) -> bool {
        self.state().is_over
    }

    /// Calls `wake` when it ends, or when rows come: at once if it has ended, or if rows are there.
    pub fn on_ready(&self, wake: Arc<dyn Wake>) {
        if let Some(rows) = self.rows.get() {
            rows.on_ready(Arc::clone(&wake));
        }
        let mut state = self.state();
        if state.is_over {
            drop(state);
            wake.wake();
        } else {
            state.wake = Some(wake);
        }
    }

    /// Blocks this thread until it has ended, or until rows are there. For ordinary threads, never for workers.
    pub fn wait(&self) {
        self.on_ready(Arc::new(ThreadWake(thread::current())));
        while !self.is_ready() && self.rows.get().is_none_or(|rows| rows.is_empty()) {
            thread::park();
        }
    }

    /// How it ended, once; nothing while it runs.
    pub(crate) fn take(&self) -> Option<SqlResult<AnalyticsAnswer>> {
        self.state().result.take()
    }
}

impl fmt::Debug for Analysis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Analysis").field("is_ready", &self.is_ready()).finish_non_exhaustive()
    }
}

struct ThreadWake(Thread);

impl Wake for ThreadWake {
    fn wake(&self) {
        self.0.unpark();
    }
}
