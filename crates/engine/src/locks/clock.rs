//! What the clock does to those who wait: patience, lock and statement timeouts.

use super::entry::Holders;
use super::waiter::{Phase, Waiter};
use super::{Key, LockTable, Mode, Tally};
use crate::error::Error;
use crate::raw::activity::{Pressed, Yields};
use crate::raw::slots::Registry;
use crate::sync::SeqCst;
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
        let known = |next: u64| (next != u64::MAX).then_some(next);
        let next = self.next_look_ns.load(SeqCst);
        if now_ns < next {
            return known(next);
        }
        // Before the look: who comes meanwhile brings its own time.
        self.next_look_ns.store(u64::MAX, SeqCst);
        let (due, next) = self.due(now_ns);
        self.next_look_ns.fetch_min(next, SeqCst);
        if !due.is_empty() {
            pinned(&mut |holders| {
                self.lose_patience(registry, holders, &due, now_ns);
                due.iter().for_each(|due| self.end_in_time(registry, holders, due));
            });
        }
        known(self.next_look_ns.load(SeqCst))
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
                    next = next.min(state.look_ns());
                    return;
                };
                due.push(Due { waiter: waiter.clone(), number: state.number, why });
            });
        }
        (due, next)
    }

    fn end_in_time(&self, registry: &Registry, holders: &dyn Holders, due: &Due) {
        let Due { waiter, number, why } = due;
        let error = match why {
            Expiry::Lock => Error::LockNotAvailable,
            Expiry::Statement => Error::Cancelled,
            Expiry::Patience => return,
        };
        if self.fail(registry, holders, waiter, Some(*number), error) {
            Tally::one(&self.tally.timeouts);
        }
    }

    /// Looks at what the impatient wait for. Many wait for few things: each is looked at once.
    fn lose_patience(&self, registry: &Registry, holders: &dyn Holders, due: &[Due], now_ns: u64) {
        let again_ns = self.settings.look_again_at_ns(now_ns);
        self.next_look_ns.fetch_min(again_ns, SeqCst);
        let impatient = due.iter().filter(|due| due.why == Expiry::Patience);
        let mut wanted: Vec<(Key, Mode, u64)> = impatient
            .filter_map(|due| {
                due.waiter.with(|state| {
                    state.patience_ns = again_ns;
                    state.place.map(|(key, mode)| (key, mode, state.importance))
                })
            })
            .collect();
        wanted.sort_unstable_by_key(|(key, mode, importance)| (key.mixed(), *mode, *importance));
        wanted.dedup();
        if self.yields() == Yields::NotRunning {
            for (key, mode, importance) in &wanted {
                for owner in self.owners_of(registry, holders, *key, *mode) {
                    let pressed = self.press(registry, holders, owner, *importance, Yields::Always);
                    debug_assert!(pressed != Pressed::Running, "patience is at its end");
                }
            }
        }
        wanted.dedup_by_key(|(key, ..)| *key);
        wanted.iter().for_each(|(key, ..)| self.released(registry, holders, *key));
    }
}
