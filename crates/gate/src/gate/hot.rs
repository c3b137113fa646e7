//! The serialiser of hot keys: transactions that will meet on one row wait outside for one another, not inside.
//!
//! **Invariant:** of all transactions with one key, at most one is inside or may be admitted. One that lends its slot
//! gives its key up for good.

use super::entry::Ticket;
use std::collections::{BTreeSet, HashMap};

/// Keys that transactions have, each with those that wait for it.
#[derive(Debug, Default)]
pub(super) struct HotKeys(HashMap<u64, BTreeSet<HeldBack>>);

/// A transaction that is held back. The smaller goes first: by level, then by number of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HeldBack {
    level: u8,
    number: u64,
    ticket: Ticket,
}

impl Ord for HeldBack {
    fn cmp(&self, other: &HeldBack) -> std::cmp::Ordering {
        (self.level, self.number).cmp(&(other.level, other.number))
    }
}

impl PartialOrd for HeldBack {
    fn partial_cmp(&self, other: &HeldBack) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl HotKeys {
    /// Takes a key, if it is free.
    pub(super) fn take(&mut self, key: u64) -> bool {
        match self.0.entry(key) {
            std::collections::hash_map::Entry::Occupied(_) => false,
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(BTreeSet::new());
                true
            }
        }
    }

    /// Returns true if a transaction has the key.
    pub(super) fn is_taken(&self, key: u64) -> bool {
        self.0.contains_key(&key)
    }

    /// Returns the number of transactions before one that waits: the holder of the key, and those that wait before it.
    pub(super) fn before(&self, key: u64, level: u8, number: u64, ticket: Ticket) -> usize {
        let waiting = self.0.get(&key).map(|waiting| waiting.range(..HeldBack { level, number, ticket }).count());
        waiting.map_or(0, |waiting| waiting + 1)
    }

    /// Waits for a key that another transaction has.
    pub(super) fn wait(&mut self, key: u64, level: u8, number: u64, ticket: Ticket) {
        self.0.entry(key).or_default().insert(HeldBack { level, number, ticket });
    }

    /// Ends a wait for a key.
    pub(super) fn forget(&mut self, key: u64, level: u8, number: u64, ticket: Ticket) {
        if let Some(waiting) = self.0.get_mut(&key) {
            waiting.remove(&HeldBack { level, number, ticket });
        }
    }

    /// Gives a key up. Returns the transaction that has it then.
    pub(super) fn give_up(&mut self, key: u64) -> Option<Ticket> {
        let waiting = self.0.get_mut(&key)?;
        let next = waiting.pop_first();
        if next.is_none() {
            self.0.remove(&key);
        }
        next.map(|held| held.ticket)
    }
}
