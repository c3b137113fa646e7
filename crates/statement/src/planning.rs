//! Ends the preparation of a statement that was cancelled or takes too long.
//!
//! **Invariant:** a cancel applies to the preparation that is under way. A cancel before or after it has no effect.

use crate::error::Cancellation;
use crate::error::{SqlError, SqlResult};
use crate::pulse::{self, Watch, WatchGuard};
use crate::time::TimeSource;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Instant;

const OFF: u8 = 0;
const ON: u8 = 1;
const CANCELLED: u8 = 2;
/// Units of work of one level of a tree.
const LEVEL: usize = 512;

/// Preparation, or other work of a session that others may cancel. It watches over itself.
#[derive(Debug)]
pub struct Planning {
    time: TimeSource,
    /// Begin of the time of deadlines.
    base: Instant,
    state: AtomicU8,
    /// True if the work is refused when memory is full, unless it is so small that no look happens.
    needs_room: AtomicBool,
    /// Time at which the work has taken too long: nanoseconds since the base, and 0 for never.
    deadline_ns: AtomicU64,
}

impl Planning {
    /// Creates the watch of a session whose deadlines are times of this source.
    pub fn new(time: TimeSource) -> Planning {
        let base = time.now();
        let (state, needs_room, deadline_ns) = Default::default();
        Planning { time, base, state, needs_room, deadline_ns }
    }

    /// Cancels the preparation that is under way.
    pub fn cancel(&self) {
        let _ = self.state.compare_exchange(ON, CANCELLED, SeqCst, SeqCst);
    }

    /// Begins work that can be cancelled. Returns false if it was under way already.
    pub fn begin(&self) -> bool {
        self.state.compare_exchange(OFF, ON, SeqCst, SeqCst).is_ok()
    }

    /// Marks the work as over.
    pub fn end(&self) {
        self.state.store(OFF, SeqCst);
    }

    /// Returns an error if the work was cancelled.
    ///
    /// # Errors
    /// `57014`
    pub fn check(&self) -> SqlResult<()> {
        if self.state.load(SeqCst) == CANCELLED { Err(SqlError::cancelled(Cancellation::UserRequest)) } else { Ok(()) }
    }

    /// Sets the limits of the work that has begun on this thread.
    fn limit(&self, deadline: Option<Instant>, needs_room: bool) {
        let after_base = |deadline: Instant| deadline.saturating_duration_since(self.base).as_nanos();
        let deadline_ns = deadline.map_or(0, |deadline| u64::try_from(after_base(deadline)).unwrap_or(0).max(1));
        self.deadline_ns.store(deadline_ns, Relaxed);
        self.needs_room.store(needs_room, Relaxed);
    }
}

impl Watch for Planning {
    fn look(&self) -> SqlResult<()> {
        self.check()?;
        if self.needs_room.load(Relaxed) {
            SqlError::check_room(0)?;
        }
        match self.deadline_ns.load(Relaxed) {
            0 => Ok(()),
            deadline_ns if u128::from(deadline_ns) <= self.time.since(self.base).as_nanos() => {
                Err(SqlError::cancelled(Cancellation::StatementTimeout))
            }
            _ => Ok(()),
        }
    }
}

/// Ends the preparation when it is dropped.
struct PlanningGuard<'p> {
    planning: &'p Planning,
    _watch: WatchGuard,
}

impl Drop for PlanningGuard<'_> {
    fn drop(&mut self) {
        self.planning.end();
    }
}

/// Calls `f`, which prepares a statement. [`check`] and everything that has a pulse may end it. Within another
/// preparation it is a part of that one.
///
/// # Errors
/// Those of `f`; `57014`.
pub fn during<R>(
    planning: &Arc<Planning>,
    deadline: Option<Instant>,
    f: impl FnOnce() -> SqlResult<R>,
) -> SqlResult<R> {
    let _guard = watched(planning, deadline, true);
    pulse::preparing(f)
}

/// Does the same for the execution of a statement, which goes on when memory is full: it may free some.
pub fn executing<R>(planning: &Arc<Planning>, deadline: Option<Instant>, f: impl FnOnce() -> R) -> R {
    let _guard = watched(planning, deadline, false);
    f()
}

/// Begins work, unless it is a part of work that is under way.
fn watched(planning: &Arc<Planning>, deadline: Option<Instant>, needs_room: bool) -> Option<PlanningGuard<'_>> {
    planning.begin().then(|| {
        pulse::restart();
        planning.limit(deadline, needs_room);
        PlanningGuard { planning, _watch: pulse::watching(Arc::clone(planning) as Arc<dyn Watch>) }
    })
}

/// Counts one level of a tree or one step of a long loop. Every recursion and long loop calls this at each of them.
///
/// # Errors
/// `57014`; `53200` if the process holds as much as it may. A statement of a few operators is prepared nevertheless.
pub fn check() -> SqlResult<()> {
    pulse::tick(LEVEL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::ManualTime;
    use std::time::Duration;

    fn some_checks() -> SqlResult<()> {
        (0..10_000).try_for_each(|_| check())
    }

    #[test]
    fn a_preparation_ends_when_it_is_cancelled_or_late() {
        let manual = ManualTime::new(0);
        let planning = Arc::new(Planning::new(manual.source()));
        planning.cancel();
        assert!(during(&planning, None, some_checks).is_ok());
        let error = during(&planning, None, || {
            planning.cancel();
            some_checks()
        });
        assert_eq!(error.unwrap_err().message(), "canceling statement due to user request");
        let deadline = manual.source().now() + Duration::from_secs(1);
        assert!(during(&planning, Some(deadline), some_checks).is_ok());
        manual.advance(Duration::from_secs(1));
        let error = during(&planning, Some(deadline), some_checks).unwrap_err();
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
