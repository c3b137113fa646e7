//! The serialiser of hot keys: those that will meet on one row wait outside for one another, not inside.
//!
//! **Invariant:** of all transactions with one key, at most one is inside or may go in. One that lends its slot gives its key up for
//! good.

use super::entry::Ticket;
use std::collections::{BTreeSet, HashMap};

/// The keys that somebody has.
#[derive(Debug, Default)]
pub(super) struct HotKeys(HashMap<u64, BTreeSet<Held>>);

/// One that is held back. The smaller goes first: by level, then by number of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    level: u8,
    number: u64,
    ticket: Ticket,
}

impl Ord for Held {
    fn cmp(&self, other: &Held) -> std::cmp::Ordering {
        (self.level, self.number).cmp(&(other.level, other.number))
    }
}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Held) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl HotKeys {
    /// Takes a key, if nobody has it.
    pub(super) fn take(&mut self, key: u64) -> bool {
        match self.0.entry(key) {
            std::collections::hash_map::Entry::Occupied(_) => false,
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(BTreeSet::new());
                true
            }
        }
    }

    /// Whether somebody has it.
    pub(super) fn is_taken(&self, key: u64) -> bool {
        self.0.contains_key(&key)
    }

    /// How many go before one that waits: who has the key, and those who wait before it.
    pub(super) fn before(&self, key: u64, level: u8, number: u64, ticket: Ticket) -> usize {
        let waiting = self.0.get(&key).map(|waiting| waiting.range(..Held { level, number, ticket }).count());
        waiting.map_or(0, |waiting| waiting + 1)
    }

    /// Waits for a key that somebody has.
    pub(super) fn wait(&mut self, key: u64, level: u8, number: u64, ticket: Ticket) {
        self.0.entry(key).or_default().insert(Held { level, number, ticket });
    }

    /// Waits no more.
    pub(super) fn forget(&mut self, key: u64, level: u8, number: u64, ticket: Ticket) {
        if let Some(waiting) = self.0.get_mut(&key) {
            waiting.remove(&Held { level, number, ticket });
        }
    }

    /// Gives a key up; whoever has it then.
    pub(super) fn give_up(&mut self, key: u64) -> Option<Ticket> {
        let waiting = self.0.get_mut(&key)?;
        let next = waiting.pop_first();
        if next.is_none() {
            self.0.remove(&key);
        }
        next.map(|held| held.ticket)
    }
}
