//! Set of the tables that a transaction reads, in three words of its slot, for a transaction that wants to lock one
//! against readers.
//!
//! **Invariant:** each table that was added is found, until it is taken back. The first eight are told apart (but for
//! ids that differ by a multiple of 65,472); those after them share 64 bits, so others may be found in their place. A
//! reader that is found without need is waited for no longer than its transaction lasts.
//!
//! ```text
//! words 0 and 1   four lanes of 16 bits each: 0, or a table's id modulo 65,472, and 1
//! word 2          a bit for id modulo 64 each
//! ```

use super::slots::{Fate, GENERATION_MASK, HeldSlot, Registry, owner_word};
use crate::sync::{AtomicU64, Relaxed, SeqCst};

/// Modulus of a lane's ids, a multiple of 64: so a lane tells the bit of its table.
const LANE_IDS: u32 = 64 * 1023;
const LANES: u32 = 4;
const LANE_BITS: u32 = 16;

/// Words of the set, as a transaction remembers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SharedTables([u64; 3]);

/// Words of the set where others look.
#[derive(Debug, Default)]
pub(super) struct SharedWords([AtomicU64; 3]);

fn lane_of(table: u32) -> u64 {
    u64::from(table % LANE_IDS) + 1
}

fn lanes(word: u64) -> impl Iterator<Item = u64> {
    (0..LANES).map(move |lane| (word >> (lane * LANE_BITS)) & 0xffff)
}

impl SharedTables {
    pub(crate) const NONE: SharedTables = SharedTables([0; 3]);

    /// Returns true if the table is found.
    #[inline]
    pub(crate) fn has(&self, table: u32) -> bool {
        let SharedTables([first, second, bits]) = *self;
        let lane = lane_of(table);
        lanes(first).chain(lanes(second)).any(|other| other == lane) || bits & (1 << (table % 64)) != 0
    }

    /// Returns true if the next table could not be told apart from others.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        let SharedTables([_, second, _]) = *self;
        1 << ((LANES - 1) * LANE_BITS) <= second
    }

    /// Returns the set with this table added.
    #[inline]
    pub(crate) fn with(mut self, table: u32) -> SharedTables {
        let full = 1 << ((LANES - 1) * LANE_BITS);
        // Lanes are filled from above.
        match self.0.iter_mut().take(2).find(|word| **word < full) {
            Some(word) => *word = *word << LANE_BITS | lane_of(table),
            None => self.0[2] |= 1 << (table % 64),
        }
        self
    }

    /// Returns the bits of its tables: id modulo 64.
    pub(crate) fn bits(&self) -> u64 {
        let SharedTables([first, second, bits]) = *self;
        let of_lanes = lanes(first).chain(lanes(second)).filter(|lane| *lane != 0);
        of_lanes.fold(bits, |all, lane| all | 1 << ((lane - 1) % 64))
    }
}

impl SharedWords {
    /// Clears the words as a new transaction begins.
    #[inline]
    pub(super) fn clear(&self) {
        self.0.iter().for_each(|word| word.store(0, Relaxed));
    }
}

impl HeldSlot<'_> {
    /// Announces the tables that it reads; `before` is the set announced so far. Sequentially consistent: a transaction
    /// that locks a table counts itself there, then looks at this.
    #[inline]
    pub(crate) fn set_shared(&self, before: &SharedTables, now: &SharedTables) {
        for (place, (before, now)) in self.slot().shared.0.iter().zip(before.0.iter().zip(&now.0)) {
            if before != now {
                place.store(*now, SeqCst);
            }
        }
    }

    /// Returns the announced set.
    #[inline]
    pub(crate) fn shared(&self) -> SharedTables {
        let [first, second, bits] = &self.slot().shared.0;
        SharedTables([first.load(Relaxed), second.load(Relaxed), bits.load(Relaxed)])
    }
}

impl Registry {
    /// Calls `each` with the owners of active transactions that may read this table.
    pub(crate) fn sharers_of(&self, table: u32, mut each: impl FnMut(u64)) {
        for (index, slot) in self.used().iter().enumerate() {
            // Before the words: a transaction that has begun has cleared those of the last one.
            let seen = slot.status.load(SeqCst);
            let [first, second, bits] = &slot.shared.0;
            if !SharedTables([first.load(SeqCst), second.load(SeqCst), bits.load(SeqCst)]).has(table) {
                continue;
            }
            let owner = owner_word(index, seen & GENERATION_MASK);
            // A committing one is helped to its end.
            if self.fate(owner) == Fate::Active {
                each(owner);
            }
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_found() {
        let ids = [0, 1, 64, 65_471, 65_472, u32::MAX, 7, 8, 9, 1_000_000, 64 + 9];
        let mut shared = SharedTables::NONE;
        for (count, id) in ids.into_iter().enumerate() {
            shared = shared.with(id);
            assert!(ids[..=count].iter().all(|id| shared.has(*id)), "{shared:?}");
            assert_eq!(shared.is_full(), 7 <= count);
            assert_eq!(shared.bits(), ids[..=count].iter().fold(0, |all, id| all | 1 << (id % 64)));
        }
        // The first eight are told apart.
        let eight = (0..8).fold(SharedTables::NONE, |shared, id| shared.with(id * 64));
        assert!((0..60_000).filter(|id| eight.has(*id)).eq((0..8).map(|id| id * 64)));
    }
}
