//! Preemption of lock holders: a less important transaction gives way.

use super::entry::Holders;
use super::settings::LockPriority;
use super::{Key, LockTable};
use crate::error::Error;
use crate::raw::activity::{Pressed, Yields};
use crate::raw::slots::Registry;
use preempt::Region;

impl LockTable {
    /// Returns the cases in which a less important holder gives way at once.
    #[inline]
    pub(crate) fn yields(&self) -> Yields {
        match self.settings.priority() {
            LockPriority::None | LockPriority::PriorityQueue => Yields::Never,
            LockPriority::Pow => Yields::Waiting,
            LockPriority::NotRunning => Yields::NotRunning,
        }
    }

    /// Aborts the transaction of this owner or word if it must give way to one of this importance.
    pub(crate) fn press(
        &self,
        registry: &Registry,
        holders: &dyn Holders,
        word: u64,
        importance: u64,
        yields: Yields,
    ) -> Pressed {
        // Locks that a session holds outside of its transactions cannot be taken from it.
        if super::is_session(word) {
            return Pressed::Refused;
        }
        let pressed = registry.press(word, importance, yields);
        if let Pressed::Taken { importance: victim, why } = pressed {
            self.tally.took(importance, victim, why);
            self.aborted(registry, holders, crate::raw::slots::owner_of(word));
        }
        pressed
    }

    /// Handles a transaction that another than its session has aborted: no session waits for it any more, and it waits
    /// for none. (Its session may be away for long: it will undo its changes, but they stand in no one's way.)
    pub(crate) fn aborted(&self, registry: &Registry, holders: &dyn Holders, owner: u64) {
        if let Some(victim) = self.parked_session(owner) {
            self.fail(registry, holders, &victim, None, Error::Taken);
        }
        let mut keys: Vec<Key> = {
            let region = Region::enter();
            let waiting = self.waiting.lock(&region);
            waiting.values().filter_map(|waiter| waiter.with(|state| state.place)).map(|(key, _)| key).collect()
        };
        // Many wait for few things.
        keys.sort_unstable_by_key(|key| key.mixed());
        keys.dedup();
        for key in keys {
            self.released(registry, holders, key);
        }
    }
}
