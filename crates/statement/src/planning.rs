//! Ends the preparation of a statement that was cancelled, or takes too long.
//!
//! **Invariant:** a cancel counts for the preparation that is under way; one that comes before or after it is nobody's.

use crate::error::Cancellation;
use crate::error::{SqlError, SqlResult};
use crate::pulse::{self, Watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::time::Instant;

const OFF: u8 = 0;
const ON: u8 = 1;
const CANCELLED: u8 = 2;
/// Units of work of a level of a tree.
const LEVEL: usize = 512;

/// Preparation, or another thing that a session does and that others may cancel.
#[derive(Debug, Default)]
pub struct Planning(AtomicU8);

impl Planning {
    /// Cancels the preparation that is under way.
    pub fn cancel(&self) {
        let _ = self.0.compare_exchange(ON, CANCELLED, SeqCst, SeqCst);
    }

    /// What can be cancelled begins. Says whether it was not under way already.
    pub fn begin(&self) -> bool {
        self.0.compare_exchange(OFF, ON, SeqCst, SeqCst).is_ok()
    }

    /// It is over.
    pub fn end(&self) {
        self.0.store(OFF, SeqCst);
    }

    /// # Errors
    /// `57014`: it was cancelled.
    pub fn check(&self) -> SqlResult<()> {
        if self.0.load(SeqCst) == CANCELLED { Err(SqlError::cancelled(Cancellation::UserRequest)) } else { Ok(()) }
    }
}

/// The preparation that a thread is at.
struct Current {
    planning: Arc<Planning>,
    deadline: Option<Instant>,
    /// It is refused when memory is full, unless it is so small that nobody looks.
    needs_room: bool,
}

impl Watch for Current {
    fn look(&self) -> SqlResult<()> {
        self.planning.check()?;
        if self.needs_room {
            SqlError::check_room(0)?;
        }
        match self.deadline {
            Some(deadline) if deadline <= Instant::now() => Err(SqlError::cancelled(Cancellation::StatementTimeout)),
            Some(_) | None => Ok(()),
        }
    }
}

/// Ends the preparation.
struct Scope<'p>(&'p Planning);

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Calls `f`, which prepares a statement. [`check`] and all that has a pulse may end it. Within another preparation it is a part of
/// that.
///
/// # Errors
/// Those of `f`; `57014`.
pub fn during<R>(
    planning: &Arc<Planning>,
    deadline: Option<Instant>,
    f: impl FnOnce() -> SqlResult<R>,
) -> SqlResult<R> {
    watched(planning, deadline, true, || pulse::preparing(f))
}

/// The same of what executes a statement, which goes on when memory is full: perhaps it frees some.
pub fn executing<R>(planning: &Arc<Planning>, deadline: Option<Instant>, f: impl FnOnce() -> R) -> R {
    watched(planning, deadline, false, f)
}

fn watched<R>(planning: &Arc<Planning>, deadline: Option<Instant>, needs_room: bool, f: impl FnOnce() -> R) -> R {
    if !planning.begin() {
        return f();
    }
    let _scope = Scope(planning);
    pulse::restart();
    pulse::during(Arc::new(Current { planning: Arc::clone(planning), deadline, needs_room }), f)
}

/// To be asked at each level of a tree, and in each loop that may be long.
///
/// # Errors
/// `57014`; `53200` if the process holds as much as it may: a statement of a few operators is prepared nevertheless.
pub fn check() -> SqlResult<()> {
    pulse::tick(LEVEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_checks() -> SqlResult<()> {
        (0..10_000).try_for_each(|_| check())
    }

    #[test]
    fn a_preparation_ends_when_it_is_cancelled_or_late() {
        let planning = Arc::<Planning>::default();
        planning.cancel();
        assert!(during(&planning, None, some_checks).is_ok());
        let error = during(&planning, None, || {
            planning.cancel();
            some_checks()
        });
        assert_eq!(error.unwrap_err().message(), "canceling statement due to user request");
        let error = during(&planning, Some(Instant::now()), some_checks).unwrap_err();
        assert_eq!(error.message(), "canceling statement due to statement timeout");
        assert!(some_checks().is_ok());
        let error = during(&planning, None, || {
            let _ = during(&planning, None, some_checks);
            planning.cancel();
            some_checks()
        });
        assert!(error.is_err(), "a part of a preparation has ended all of it");
    }
}
