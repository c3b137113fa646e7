//! Timeouts of waits: patience, lock and statement timeouts.

use super::entry::Holders;
use super::waiter::{Phase, Waiter};
use super::{Key, LockTable, Mode, Tally};
use crate::error::Error;
use crate::raw::activity::{Pressed, Yields};
use crate::raw::slots::Registry;
use preempt::Region;
use std::sync::Arc;

/// A wait whose time has come.
struct Due {
    waiter: Arc<Waiter>,
    number: u64,
    why: Expiry,
}

/// Waits that are looked at before the latch is released.
const LOOKS_AT_ONCE: usize = 256;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Expiry {
    Lock,
    Statement,
    Patience,
}

impl LockTable {
    pub(crate) fn waiting(&self) -> usize {
        let region = Region::enter();
        self.waiting.lock(&region).len()
    }

    /// Ends the waits whose time is over. `pinned` lends what is needed to look at rows. Returns the time at which the
    /// next is due.
    pub(crate) fn expire(
        &self,
        registry: &Registry,
        now_ns: u64,
        pinned: impl FnOnce(&mut dyn FnMut(&dyn Holders)),
    ) -> Option<u64> {
        if self.is_quiet() {
            return None;
        }
        let mut due = self.due(now_ns);
        if !due.is_empty() {
            pinned(&mut |holders| {
                while !due.is_empty() {
                    self.lose_patience(registry, holders, &due);
                    due.iter().for_each(|due| self.end_in_time(registry, holders, due));
                    due = self.due(now_ns);
                }
            });
        }
        let region = Region::enter();
        let next = self.waiting.lock(&region).first_key_value().map(|((look_ns, _), _)| *look_ns);
        next.filter(|next| *next != u64::MAX)
    }

    /// Returns some of the waits to be looked at by now, with the reason. They are to be looked at again a while later:
    /// by then their wait is over, or the holder that they wait for was aborted by code that knows no locks.
    fn due(&self, now_ns: u64) -> Vec<Due> {
        let region = Region::enter();
        let mut waiting = self.waiting.lock(&region);
        let mut due = Vec::new();
        while due.len() < LOOKS_AT_ONCE
            && let Some(first) = waiting.first_entry().filter(|first| first.key().0 <= now_ns)
        {
            let ((_, id), waiter) = first.remove_entry();
            let again_ns = self.settings.look_again_at_ns(now_ns);
            let (look_ns, found) = waiter.with(|state| {
                let why = if state.statement_deadline_ns <= now_ns {
                    Expiry::Statement
                } else if state.lock_deadline_ns <= now_ns {
                    Expiry::Lock
                } else {
                    state.patience_ns = again_ns;
                    Expiry::Patience
                };
                let is_waiting = state.phase == Phase::Waiting;
                let look_ns = if why == Expiry::Patience { state.look_ns() } else { again_ns };
                (look_ns, is_waiting.then_some((state.number, why)))
            });
            waiter.set_look_ns(look_ns);
            due.extend(found.map(|(number, why)| Due { waiter: waiter.clone(), number, why }));
            waiting.insert((look_ns, id), waiter);
        }
        due
    }

    fn end_in_time(&self, registry: &Registry, holders: &dyn Holders, due: &Due) {
        let Due { waiter, number, why } = due;
        let error = match why {
            Expiry::Lock => {
                let place = waiter.with(|state| state.place);
                Error::LockNotAvailable(place.map(|(key, mode)| key.wanted(mode)).unwrap_or_default())
            }
            Expiry::Statement => Error::Cancelled,
            Expiry::Patience => return,
        };
        if self.fail(registry, holders, waiter, Some(*number), error) {
            Tally::one(&self.tally.timeouts);
        }
    }

    /// Looks at the holders that impatient waiters wait for. Many wait for few things: each is looked at once.
    fn lose_patience(&self, registry: &Registry, holders: &dyn Holders, due: &[Due]) {
        let mut wanted: Vec<(Key, Mode, u64)> = Vec::new();
        for Due { waiter, number, .. } in due.iter().filter(|due| due.why == Expiry::Patience) {
            let (owner, force, place) = waiter.with(|state| (state.owner, state.force, state.place));
            // Code that knows no locks may have aborted its own transaction. (A procedure has none while it waits.)
            let is_open = self.parked_session(owner).is_some_and(|session| Arc::ptr_eq(&session, waiter));
            if is_open && !registry.is_active(owner) {
                self.fail(registry, holders, waiter, Some(*number), Error::SerializationFailure);
            } else {
                wanted.extend(place.map(|(key, mode)| (key, mode, force)));
            }
        }
        wanted.sort_unstable_by_key(|(key, mode, force)| (key.mixed(), *mode, *force));
        wanted.dedup();
        if self.yields() == Yields::NotRunning {
            for (key, mode, force) in &wanted {
                for owner in self.owners_of(registry, holders, *key, *mode) {
                    let pressed = self.press(registry, holders, owner, *force, Yields::Always);
                    debug_assert!(pressed != Pressed::Running, "patience is at its end");
                }
            }
        }
        wanted.dedup_by_key(|(key, ..)| *key);
        wanted.iter().for_each(|(key, ..)| self.released(registry, holders, *key));
    }
}
