//! Sleeps of a statement, as the functions that sleep see them. A run that reaches a new sleep is rolled back; the session
//! waits and restarts the statement, which then skips the sleeps that are over.

use locked::Locked;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::time::TimeSource;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Reason for a rollback and restart of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakeBackReason {
    /// The statement sleeps for this duration.
    Sleep(Duration),
    /// The statement continues on a thread where it delays no others.
    Move,
}

/// Sleeps of the statement under way, as `pg_sleep` sees them.
#[derive(Clone, Debug)]
pub(crate) struct Sleeps(Arc<StatementSleeps>);

#[derive(Debug)]
struct StatementSleeps {
    time: TimeSource,
    /// True if the run is to be rolled back. The flag saves most statements the lock.
    is_asked: AtomicBool,
    state: Mutex<SleepState>,
}

#[derive(Debug, Default)]
struct SleepState {
    /// Number of sleeps that are over.
    passed: usize,
    /// Number of sleeps that the run has reached.
    seen: usize,
    asked: Option<TakeBackReason>,
    /// True if the statement can sleep.
    is_on: bool,
    /// Time at which the limit on this thread is reached.
    stays_until: Option<Instant>,
}

/// Maximal duration of a sleep, a century; longer ones are shortened to it.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);

impl Sleeps {
    pub(crate) fn new(time: TimeSource) -> Sleeps {
        Sleeps(Arc::new(StatementSleeps { time, is_asked: AtomicBool::new(false), state: Mutex::default() }))
    }

    fn get(&self) -> MutexGuard<'_, SleepState> {
        self.0.state.locked_anyway()
    }

    /// Forgets the sleeps of the statement before.
    pub(crate) fn forget(&self) {
        self.get().passed = 0;
    }

    /// Counts a sleep that is over.
    pub(crate) fn pass(&self) {
        self.get().passed += 1;
    }

    /// Starts a run.
    pub(crate) fn begin(&self, stays_until: Option<Instant>) {
        let mut state = self.get();
        *state = SleepState { passed: state.passed, is_on: true, stays_until, ..SleepState::default() };
        self.0.is_asked.store(false, Relaxed);
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.0.is_asked.load(Relaxed)
    }

    /// Requests a rollback of the run for this reason.
    fn ask(&self, state: &mut SleepState, asked: TakeBackReason) {
        state.asked.get_or_insert(asked);
        self.0.is_asked.store(true, Relaxed);
    }

    /// Ends a run. Returns the reason if it is to be rolled back.
    pub(crate) fn end(&self) -> Option<TakeBackReason> {
        let mut state = self.get();
        state.is_on = false;
        state.asked.take()
    }

    /// Sleeps for this number of seconds, unless that sleep is over. The error ends the run.
    pub(crate) fn sleep(&self, seconds: f64) -> SqlResult<()> {
        let mut state = self.get();
        if !state.is_on {
            return Err(SqlError::unsupported("a sleep here"));
        }
        state.seen += 1;
        if state.seen <= state.passed || seconds.is_nan() || seconds <= 0.0 {
            return Ok(());
        }
        let duration = Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST).min(LONGEST);
        self.ask(&mut state, TakeBackReason::Sleep(duration));
        Err(SqlError::new(SqlState::INTERNAL_ERROR, "a statement sleeps"))
    }

    /// Gives up a sleep that the run has asked for, unless `check` accepts its duration.
    ///
    /// # Errors
    /// That of `check`.
    pub(crate) fn check_asked(&self, check: impl FnOnce(Duration) -> SqlResult<()>) -> SqlResult<()> {
        if !self.is_asked() {
            return Ok(());
        }
        let mut state = self.get();
        let Some(TakeBackReason::Sleep(duration)) = state.asked else { return Ok(()) };
        check(duration).inspect_err(|_| {
            state.asked = None;
            self.0.is_asked.store(false, Relaxed);
        })
    }

    /// Checks the time limit on this thread. The error ends the run.
    pub(crate) fn check_stay(&self) -> SqlResult<()> {
        let mut state = self.get();
        if !state.is_on || state.stays_until.is_none_or(|until| !self.0.time.is_past(until)) {
            return Ok(());
        }
        self.ask(&mut state, TakeBackReason::Move);
        Err(SqlError::new(SqlState::INTERNAL_ERROR, "a statement goes on elsewhere"))
    }
}
