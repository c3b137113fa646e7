//! Run of a query or a procedure on other threads, from the view of the session that waits for it: as analytics, by rows
//! for a cursor, by the letters of code, or as an urgent call.
//!
//! **Invariant:** a run ends exactly once; later ends are ignored.

use super::stream::CAPACITY;
use super::urgent::UrgentCall;
use crate::exec::StatementCode;
use crate::exec::remote::Mailbox;
use engine::Wake;
use locked::Locked;
use query::analytics::{AnalyticsAnswer, AnalyticsPlan, AnalyticsRun, AnalyticsStart};
use query::rows::ResultPiece;
use statement::error::{SqlError, SqlResult};
use statement::stream::Stream;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::{self, Thread};

/// Run that a session waits for. It can be canceled before it is started.
#[derive(Default)]
pub struct Analysis {
    state: Mutex<AnalysisState>,
    run: OnceLock<Arc<dyn AnalyticsRun>>,
    /// Queue of its rows, if they are consumed while it runs.
    rows: OnceLock<Arc<Stream<ResultPiece>>>,
    /// Stored code that it calls.
    code: OnceLock<Arc<StatementCode>>,
    /// Place of the letters, if it is a procedure.
    letters: Option<Arc<Mailbox>>,
    /// Call, if it is an urgent one.
    urgent: Option<Arc<UrgentCall>>,
    /// True if its path is settled: the query does not begin again, though no row has come.
    is_settled: bool,
}

#[derive(Default)]
struct AnalysisState {
    is_over: bool,
    /// True if a cancel ended the run.
    is_cancelled: bool,
    result: Option<SqlResult<AnalyticsAnswer>>,
    /// Waker of the session, which is the only waiter.
    wake: Option<Arc<dyn Wake>>,
}

impl Analysis {
    /// Returns a run whose rows come by a queue, with that queue. Its path is settled.
    pub(super) fn of_rows(run: Arc<dyn AnalyticsRun>) -> (Arc<Analysis>, Arc<Stream<ResultPiece>>) {
        let stream = Arc::new(Stream::new(CAPACITY));
        let (run, rows) = (OnceLock::from(run), OnceLock::from(Arc::clone(&stream)));
        (Arc::new(Analysis { run, rows, is_settled: true, ..Analysis::default() }), stream)
    }

    /// Returns the run of a procedure's code from its begin to its end. Only a cancel ends it; its session waits for
    /// letters meanwhile.
    pub(super) fn of_procedure(letters: Arc<Mailbox>) -> Arc<Analysis> {
        let run = OnceLock::from(Arc::clone(&letters) as Arc<dyn AnalyticsRun>);
        Arc::new(Analysis { run, letters: Some(letters), ..Analysis::default() })
    }

    /// Returns an urgent call. It ends by itself, also when it is cancelled.
    pub(super) fn of_urgent(call: Arc<UrgentCall>) -> Arc<Analysis> {
        let run = OnceLock::from(Arc::clone(&call) as Arc<dyn AnalyticsRun>);
        Arc::new(Analysis { run, urgent: Some(call), ..Analysis::default() })
    }

    /// Returns true if the run is a procedure in code.
    pub(super) fn is_procedure(&self) -> bool {
        self.letters.is_some()
    }

    /// Returns true if there is something to take for the session before the run ends: rows or a letter.
    fn has_more(&self) -> bool {
        self.rows.get().is_some_and(|rows| !rows.is_empty())
            || self.letters.as_ref().is_some_and(|letters| letters.has_letter())
            || self.urgent.as_ref().is_some_and(|call| call.is_over())
    }

    /// Starts the plan, which may call this code. Called once.
    ///
    /// # Errors
    /// Errors of [`AnalyticsPlan::start`].
    pub(crate) fn start(
        self: &Arc<Self>,
        plan: &dyn AnalyticsPlan,
        start: AnalyticsStart,
        code: Arc<StatementCode>,
    ) -> SqlResult<()> {
        // This is the only place that sets it.
        let _ = self.code.set(code);
        if let Some(rows) = &start.stream {
            // This is the only place that sets it.
            let _ = self.rows.set(Arc::clone(rows));
        }
        let told = Arc::clone(self);
        let finish = move |result| {
            told.end(result, false);
        };
        let run = plan.start(start, Box::new(finish))?;
        let _ = self.run.set(Arc::clone(&run));
        if self.state().is_cancelled {
            // A cancel that came earlier did not find the run. A run that has ended by itself keeps its rows.
            run.cancel();
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, AnalysisState> {
        self.state.locked_anyway()
    }

    /// Ends the run. Returns false if it had ended before.
    pub(super) fn end(&self, result: SqlResult<AnalyticsAnswer>, is_cancelled: bool) -> bool {
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

    /// Ends the run with `57014`. The session sees that at once; threads of the run stop at their next check.
    pub(crate) fn cancel(&self) {
        if let Some(call) = &self.urgent {
            // It may have committed.
            return call.cancel();
        }
        if !self.end(Err(SqlError::from(engine::Error::Cancelled)), true) {
            // A cancel after the end does not discard the rows.
            return;
        }
        if let Some(rows) = self.rows.get() {
            rows.close();
        }
        if let Some(run) = self.run.get() {
            run.cancel();
        }
    }

    /// Returns the queue, if the query cannot be restarted: the queue has received rows, or the path is settled.
    pub(crate) fn begun_rows(&self) -> Option<&Arc<Stream<ResultPiece>>> {
        self.rows.get().filter(|rows| self.is_settled || rows.has_begun())
    }

    /// Returns the stored code that the run may call.
    pub(super) fn code(&self) -> Option<&StatementCode> {
        self.code.get().map(|code| &**code)
    }

    /// Returns true if the run has ended.
    pub fn is_ready(&self) -> bool {
        self.state().is_over
    }

    /// Calls `wake` when the run ends, or when rows or a letter arrive; at once, if that has happened.
    pub fn on_ready(&self, wake: Arc<dyn Wake>) {
        if let Some(rows) = self.rows.get() {
            rows.on_ready(Arc::clone(&wake));
        }
        if let Some(letters) = &self.letters {
            letters.on_letter(Arc::clone(&wake));
        }
        if let Some(call) = &self.urgent {
            call.on_over(Arc::clone(&wake));
        }
        let mut state = self.state();
        if state.is_over {
            drop(state);
            wake.wake();
        } else {
            state.wake = Some(wake);
        }
    }

    /// Blocks the thread until the run ends, or rows or a letter arrive. For ordinary threads only, never for workers.
    pub fn wait(&self) {
        self.on_ready(Arc::new(ThreadWake(thread::current())));
        while !self.is_ready() && !self.has_more() {
            thread::park();
        }
    }

    /// Takes the result; `None` while the run goes on, or if it was taken before.
    pub(crate) fn take(&self) -> Option<SqlResult<AnalyticsAnswer>> {
        self.state().result.take()
    }
}

impl fmt::Debug for Analysis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Analysis").field("is_ready", &self.is_ready()).finish_non_exhaustive()
    }
}

pub(super) struct ThreadWake(pub(super) Thread);

impl Wake for ThreadWake {
    fn wake(&self) {
        self.0.unpark();
    }
}
