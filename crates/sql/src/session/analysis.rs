//! Run of analytics as the session sees it that waits for it.
//!
//! **Invariant:** it ends exactly once; the first end counts.

use engine::Wake;
use locked::Locked;
use query::analytics::{AnalyticsPlan, AnalyticsRun, Answer, Start};
use statement::error::{SqlError, SqlResult};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::{self, Thread};

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
    /// Wake of the session, which is the only one that waits.
    wake: Option<Arc<dyn Wake>>,
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
        self.state.locked_anyway()
    }

    /// The first end counts.
    fn end(&self, result: SqlResult<Answer>) {
        let wake = {
            let mut state = self.state();
            if state.is_over {
                return;
            }
            state.is_over = true;
            state.result = Some(result);
            state.wake.take()
        };
        if let Some(wake) = wake {
            wake.wake();
        }
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
            state.wake = Some(wake);
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
