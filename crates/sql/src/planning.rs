//! Ends the preparation of a statement that was cancelled, or takes too long.
//!
//! **Invariant:** a cancel counts for the preparation that is under way; one that comes before or after it is nobody's.

use crate::error::{SqlError, SqlResult};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::time::Instant;

const ON: u8 = 1;
const CANCELLED: u8 = 2;
/// Number of calls of [`check`] that go by before one looks.
const CALLS: u32 = 256;

/// Shared by a session and whoever may cancel it.
#[derive(Debug, Default)]
pub(crate) struct Planning(AtomicU8);

impl Planning {
    pub(crate) fn cancel(&self) {
        let _ = self.0.compare_exchange(ON, CANCELLED, SeqCst, SeqCst);
    }
}

/// The preparation that this thread is at.
struct Current {
    planning: Arc<Planning>,
    deadline: Option<Instant>,
}

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
    static LEFT: Cell<u32> = const { Cell::new(CALLS) };
}

/// Puts back what was there before.
struct Scope(Option<Current>, Arc<Planning>);

impl Drop for Scope {
    fn drop(&mut self) {
        self.1.0.store(0, SeqCst);
        CURRENT.set(self.0.take());
    }
}

/// Calls `f`, in which [`check`] minds this.
pub(crate) fn during<R>(planning: &Arc<Planning>, deadline: Option<Instant>, f: impl FnOnce() -> R) -> R {
    planning.0.store(ON, SeqCst);
    LEFT.set(CALLS);
    let own = Current { planning: Arc::clone(planning), deadline };
    let _scope = Scope(CURRENT.replace(Some(own)), Arc::clone(planning));
    f()
}

/// To be asked in each loop that may be long.
///
/// # Errors
/// `57014`; `53200` if the process holds as much as it may: a statement of a few operators is prepared nevertheless.
pub(crate) fn check() -> SqlResult<()> {
    let left = LEFT.get();
    if 0 < left {
        LEFT.set(left - 1);
        return Ok(());
    }
    LEFT.set(CALLS);
    let cancelled = |why| Err(SqlError::cancelled(why));
    CURRENT.with_borrow(|current| match current {
        // One that looks is no small statement.
        Some(_) if !engine::memory::has_room(0) => Err(SqlError::no_room()),
        Some(Current { planning, .. }) if planning.0.load(SeqCst) == CANCELLED => cancelled("user request"),
        Some(Current { deadline: Some(deadline), .. }) if *deadline <= Instant::now() => cancelled("statement timeout"),
        Some(_) | None => Ok(()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_checks() -> SqlResult<()> {
        (0..=CALLS).try_for_each(|_| check())
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
    }
}
