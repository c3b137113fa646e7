//! `pg_sleep`: a statement that sleeps is taken back, its session waits, and the statement is run again; then it passes by the
//! sleeps that are over.
//!
//! **Invariant:** no thread sleeps. A statement sleeps only where it can be taken back: by rows, in the session's transaction. From
//! its first sleep until it is done a cancel is kept in the [`Bed`], whether it sleeps or runs; before that the engine has it.
//!
//! It begins anew after each sleep: a statement with `n` of them computes what stands before the last one `n` times.

use super::Session;
use crate::error::{SqlError, SqlResult, SqlState};
use engine::Wake;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The sleeps of the statement under way, as the functions that sleep see them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Naps(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// How many are over.
    passed: usize,
    /// How many the run has come to.
    seen: usize,
    asked: Option<Duration>,
    /// Whether the statement can sleep.
    is_on: bool,
}

/// Longer sleeps are as long as this: a century.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);

impl Naps {
    fn get(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run begins.
    pub(super) fn begin(&self) {
        let mut state = self.get();
        (state.seen, state.asked, state.is_on) = (0, None, true);
    }

    pub(super) fn is_asked(&self) -> bool {
        self.get().asked.is_some()
    }

    /// A run ends: how long it wants to sleep, if it does.
    pub(super) fn end(&self) -> Option<Duration> {
        let mut state = self.get();
        state.is_on = false;
        state.asked.take()
    }

    /// Sleeps for so many seconds, or has done so. The error ends the run.
    pub(crate) fn nap(&self, seconds: f64) -> SqlResult<()> {
        let mut state = self.get();
        if !state.is_on {
            return Err(SqlError::unsupported("a sleep here"));
        }
        state.seen += 1;
        if state.seen <= state.passed || seconds.is_nan() || seconds <= 0.0 {
            return Ok(());
        }
        state.asked = Some(Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST).min(LONGEST));
        Err(SqlError::new(SqlState::INTERNAL_ERROR, "a statement sleeps"))
    }
}

/// A sleep, shared with whoever may end it.
#[derive(Clone, Debug)]
pub struct Nap {
    until: Instant,
    bed: Arc<Bed>,
}

/// Where a session sleeps.
#[derive(Default)]
pub(super) struct Bed {
    sleeper: Mutex<Sleeper>,
    ended: Condvar,
}

#[derive(Default)]
struct Sleeper {
    /// Whether there is a statement that has slept, or is about to.
    is_taken: bool,
    is_cancelled: bool,
    wake: Option<Arc<dyn Wake>>,
}

impl std::fmt::Debug for Bed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bed")
    }
}

impl Bed {
    fn get(&self) -> MutexGuard<'_, Sleeper> {
        self.sleeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The statement under way is about to sleep.
    pub(super) fn take(&self) {
        self.get().is_taken = true;
    }

    /// The statement is done.
    pub(super) fn leave(&self) {
        let mut sleeper = self.get();
        if sleeper.is_taken {
            *sleeper = Sleeper::default();
        }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.get().is_cancelled
    }

    /// Ends the statement, if it has slept.
    pub(super) fn cancel(&self) {
        let mut sleeper = self.get();
        if !sleeper.is_taken {
            return;
        }
        sleeper.is_cancelled = true;
        let wake = sleeper.wake.take();
        drop(sleeper);
        self.ended.notify_all();
        if let Some(wake) = wake {
            wake.wake();
        }
    }
}

impl Nap {
    /// When it is over.
    pub fn until(&self) -> Instant {
        self.until
    }

    /// Has `wake` called if it is ended before its time: at once if it was.
    pub(super) fn on_ready(&self, wake: Arc<dyn Wake>) {
        let mut sleeper = self.bed.get();
        if sleeper.is_cancelled {
            drop(sleeper);
            wake.wake();
        } else {
            sleeper.wake = Some(wake);
        }
    }

    /// Blocks this thread until it is over.
    pub(super) fn wait(&self) {
        let mut sleeper = self.bed.get();
        while !sleeper.is_cancelled
            && let Some(left) = self.until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
        {
            let woken = self.bed.ended.wait_timeout(sleeper, left);
            sleeper = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Session {
    /// The statement under way sleeps for so long, or until its time is over.
    pub(super) fn fall_asleep(&mut self, asked: Option<Duration>) -> Nap {
        let until = Instant::now() + asked.unwrap_or_default();
        let until = self.deadline.map_or(until, |deadline| deadline.min(until));
        let nap = Nap { until, bed: Arc::clone(&self.bed) };
        self.nap = Some(nap.clone());
        nap
    }

    /// The sleep of the statement that is given again, if it is not over. One that is given first has not slept.
    ///
    /// # Errors
    /// `57014`: it was ended, or its time is over.
    pub(super) fn wake_up(&mut self) -> SqlResult<Option<Nap>> {
        if !self.is_parked {
            self.end_nap();
            self.env.naps.get().passed = 0;
            return Ok(None);
        }
        let Some(nap) = &self.nap else { return Ok(None) };
        let is_cancelled = self.bed.is_cancelled();
        let is_late = self.deadline.is_some_and(|deadline| deadline <= Instant::now());
        if !is_cancelled && !is_late && Instant::now() < nap.until {
            return Ok(Some(nap.clone()));
        }
        self.nap = None;
        if is_cancelled || is_late {
            self.end_nap();
            self.is_parked = false;
            return Err(SqlError::cancelled(if is_cancelled { "user request" } else { "statement timeout" }));
        }
        self.env.naps.get().passed += 1;
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        self.engine.set_statement_timeout(left);
        Ok(None)
    }

    pub(super) fn end_nap(&mut self) {
        self.nap = None;
        self.bed.leave();
    }
}
