//! Sleeps of a statement, as the functions that sleep see them. A run that comes to a new sleep is taken back; the session
//! waits and runs the statement again, which then passes by the sleeps that are over.

use locked::Locked;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::time::TimeSource;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Reason why a run is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakeBackReason {
    /// The statement sleeps for so long.
    Sleep(Duration),
    /// It goes on where it delays nobody.
    Move,
}

/// The sleeps of the statement under way, as the functions that sleep see them.
#[derive(Clone, Debug)]
pub(crate) struct Sleeps(Arc<StatementSleeps>);

#[derive(Debug)]
struct StatementSleeps {
    time: TimeSource,
    /// True if the run is taken back. Spares most statements the lock.
    is_asked: AtomicBool,
    state: Mutex<SleepState>,
}

#[derive(Debug, Default)]
struct SleepState {
    /// How many are over.
    passed: usize,
    /// How many the run has come to.
    seen: usize,
    asked: Option<TakeBackReason>,
    /// Whether the statement can sleep.
    is_on: bool,
    /// When it has stayed long enough where it delays others.
    stays_until: Option<Instant>,
}

/// Longer sleeps are as long as this: a century.
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

    /// A run begins.
    pub(crate) fn begin(&self, stays_until: Option<Instant>) {
        let mut state = self.get();
        *state = SleepState { passed: state.passed, is_on: true, stays_until, ..SleepState::default() };
        self.0.is_asked.store(false, Relaxed);
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.0.is_asked.load(Relaxed)
    }

    /// Takes the run back for this reason.
    fn ask(&self, state: &mut SleepState, asked: TakeBackReason) {
        state.asked.get_or_insert(asked);
        self.0.is_asked.store(true, Relaxed);
    }

    /// A run ends: why it is taken back, if it is.
    pub(crate) fn end(&self) -> Option<TakeBackReason> {
        let mut state = self.get();
        state.is_on = false;
        state.asked.take()
    }

    /// Sleeps for so many seconds, or has done so. The error ends the run.
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

    /// Looks whether the statement has stayed for too long where it delays others. The error ends the run.
    pub(crate) fn check_stay(&self) -> SqlResult<()> {
        let mut state = self.get();
        if !state.is_on || state.stays_until.is_none_or(|until| !self.0.time.is_past(until)) {
            return Ok(());
        }
        self.ask(&mut state, TakeBackReason::Move);
        Err(SqlError::new(SqlState::INTERNAL_ERROR, "a statement goes on elsewhere"))
    }
}
