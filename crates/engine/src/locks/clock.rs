//! What the clock does to those who wait: patience, lock and statement timeouts.

use super::entry::Holders;
use super::waiter::{Phase, Waiter};
use super::{LockTable, Tally};
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

    /// Ends the waits whose time is over. `pinned` lends what is needed to look at rows. Returns when the next is due.
    pub(crate) fn expire(
        &self,
        registry: &Registry,
        now_ns: u64,
        pinned: impl FnOnce(&mut dyn FnMut(&dyn Holders)),
    ) -> Option<u64> {
        if self.is_quiet() {
            return None;
        }
        let (due, mut next) = self.due(now_ns);
        if !due.is_empty() {
            pinned(&mut |holders| due.iter().for_each(|due| self.end_in_time(registry, holders, due, now_ns)));
            next = self.due(now_ns).1;
        }
        (next != u64::MAX).then_some(next)
    }

    fn due(&self, now_ns: u64) -> (Vec<Due>, u64) {
        let region = Region::enter();
        let waiting = self.waiting.lock(&region);
        let mut next = u64::MAX;
        let mut due = Vec::new();
        for waiter in waiting.iter() {
            waiter.with(|state| {
                if state.phase != Phase::Waiting {
                    return;
                }
                let why = if state.statement_deadline_ns <= now_ns {
                    Expiry::Statement
                } else if state.lock_deadline_ns <= now_ns {
                    Expiry::Lock
                } else if state.patience_ns <= now_ns {
                    Expiry::Patience
                } else {
                    let deadlines = [state.statement_deadline_ns, state.lock_deadline_ns, state.patience_ns];
                    next = deadlines.into_iter().fold(next, u64::min);
                    return;
                };
                due.push(Due { waiter: waiter.clone(), number: state.number, why });
            });
        }
        (due, next)
    }

    fn end_in_time(&self, registry: &Registry, holders: &dyn Holders, due: &Due, now_ns: u64) {
        let Due { waiter, number, why } = due;
        let error = match why {
            Expiry::Lock => Error::LockNotAvailable,
            Expiry::Statement => Error::Cancelled,
            Expiry::Patience => return self.lose_patience(registry, holders, due, now_ns),
        };
        if self.fail(registry, holders, waiter, Some(*number), error) {
            Tally::one(&self.tally.timeouts);
        }
    }

    fn lose_patience(&self, registry: &Registry, holders: &dyn Holders, due: &Due, now_ns: u64) {
        let waiter = &due.waiter;
        let again_ns = now_ns.saturating_add(self.settings.look_again_ns());
        let (owner, importance, place) = waiter.with(|state| {
            state.patience_ns = again_ns;
            (state.owner, state.importance, state.place)
        });
        // What knows no locks may have aborted its own transaction. (A procedure has none while it waits.)
        let is_open = self.parked_session(owner).is_some_and(|session| Arc::ptr_eq(&session, waiter));
        if is_open && !registry.is_active(owner) {
            self.fail(registry, holders, waiter, Some(due.number), Error::Taken);
            return;
        }
        if self.yields() == Yields::NotRunning {
            for owner in self.owners_in_the_way(registry, holders, waiter) {
                let pressed = self.press(registry, holders, owner, importance, Yields::Always);
                debug_assert!(pressed != Pressed::Running, "patience is at its end");
            }
        }
        if let Some((key, _)) = place {
            self.released(registry, holders, key);
        }
    }
}
