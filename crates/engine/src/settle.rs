//! After the decision: undoing what was aborted, and clearing away the dead.
//!
//! **Invariant:** a slot's queue of the dead is touched only by who holds the slot, and the slot goes back after the
//! scratch that has the queue.

use crate::counters::Counters;
use crate::engine::Inner;
use crate::entries::{self, Left};
use crate::key;
use crate::raw::garbage::{Dead, Rest};
use crate::raw::slots::Held;
use crate::scratch::Scratch;
use preempt::Region;
use stage::Class;

/// Dead versions freed at the end of a transaction, beside two for each of its own writes.
const FREED_PER_END: usize = 32;
/// Transactions on a slot between two looks at all live snapshots.
const HORIZON_EVERY: u32 = 16;

impl Inner {
    /// Undoes the changes, latest first, and ends the transaction.
    #[cold]
    pub(crate) fn roll_back(&self, held: Held<'_>, mut scratch: Box<Scratch>, counters: &Counters) {
        if held.abort() {
            counters.taken.add(1);
        }
        counters.aborts.add(1);
        while self.undo_last(&held, &mut scratch, counters) {}
        self.end(held, scratch, counters);
    }

    /// Undoes the last change. Says whether there was one.
    pub(crate) fn undo_last(&self, held: &Held<'_>, scratch: &mut Scratch, counters: &Counters) -> bool {
        let Some(write) = scratch.writes.pop() else { return false };
        let table = self.table(write.table);
        let cell = table.rows.cell(write.row, held.pin());
        let (base, new) = (write.change.claimed(held.pin()), write.change.published(held.pin()));
        held.undo(cell, base, new);
        if let (Some(new), Some(version)) = (new, write.change.dead_by_undo()) {
            entries::remove_added(table, held, new, &write, scratch);
            // An entry that its key found present was an older version's. That one may have gone meanwhile and left the
            // entry to us, so it is looked at once more when nobody can reach an older version.
            let keys = write.keys_left & !write.keys_added;
            // The entries are gone and the map points elsewhere: whoever registers from this tick on cannot find it.
            scratch.graveyard.push(Dead::new(held.unlinked_at(), version, write.table, Rest::Free, keys));
            counters.died.add(1);
        }
        if !self.locks.is_quiet() {
            self.row_released(held, write.table, write.row);
        }
        true
    }

    /// Frees some of the dead, and gives slot and scratch back.
    #[inline]
    pub(crate) fn end(&self, held: Held<'_>, mut scratch: Box<Scratch>, counters: &Counters) {
        // After the decision: whoever marks something from now on finds the transaction decided.
        if !self.locks.is_quiet() {
            self.locks_released(&held, &mut scratch);
        }
        let limit = FREED_PER_END + 2 * scratch.writes.len();
        let mut horizon = self.registry.known_horizon();
        if !scratch.graveyard.is_due(horizon) {
            scratch.since_horizon += 1;
            if HORIZON_EVERY <= scratch.since_horizon {
                scratch.since_horizon = 0;
                horizon = self.registry.horizon();
            }
        }
        self.bury(&held, &mut scratch, counters, horizon, limit);
        scratch.reset();
        self.hand_back(held, scratch);
    }

    pub(crate) fn hand_back(&self, held: Held<'_>, scratch: Box<Scratch>) {
        // Before the slot goes back: its next holder looks for the scratch.
        let before = self.scratch[held.index()].put(scratch);
        debug_assert!(before.is_none(), "the slot's holder took its scratch");
        held.release();
    }

    /// Frees at most `limit` dead versions that the horizon has reached.
    fn bury(&self, held: &Held<'_>, scratch: &mut Scratch, counters: &Counters, horizon: u64, limit: usize) -> usize {
        let mut freed = 0;
        let mut looked = 0;
        let mut bytes = 0;
        while freed < limit && looked < limit {
            looked += 1;
            if let Some(more) = scratch.graveyard.free_first(horizon) {
                bytes += more;
                freed += 1;
                continue;
            }
            let Some(dead) = scratch.graveyard.pop_due(horizon) else { break };
            match dead.rest {
                Rest::Unlink => self.unlink(held, scratch, dead),
                Rest::Free => self.remove_left(held, scratch, dead, horizon),
            }
        }
        if 0 < freed {
            counters.versions_freed.add(freed as u64);
            counters.bytes_freed.add(bytes as u64);
        }
        freed
    }

    /// The row was deleted before every snapshot: removes its entries and its place in the map.
    fn unlink(&self, held: &Held<'_>, scratch: &mut Scratch, dead: Dead) {
        let table = self.table(dead.table);
        let version = dead.version(held.pin());
        for index in &table.indexes {
            key::of_image(index, table.image(version), &mut scratch.key);
            index.tree.remove(&scratch.key, version.row(), &Region::enter());
        }
        table.rows.clear(version.row(), held.pin());
        scratch.graveyard.push(dead.unlinked(held.unlinked_at()));
    }

    /// An update left the keys of this version: removes their entries if nobody needs them, then lets it be freed.
    fn remove_left(&self, held: &Held<'_>, scratch: &mut Scratch, mut dead: Dead, horizon: u64) {
        let table = self.table(dead.table);
        let version = dead.version(held.pin());
        for (position, index) in table.indexes.iter().enumerate() {
            if dead.keys & (1 << position) == 0 {
                continue;
            }
            match entries::remove_left(table, index, held, version, horizon, scratch) {
                Left::Settled => dead.keys &= !(1 << position),
                Left::Until(floor) => return scratch.graveyard.push(dead.later(floor)),
            }
        }
        scratch.graveyard.push_first(dead);
    }

    /// See [`crate::Engine::collect_garbage`].
    pub(crate) fn collect_garbage(&self, limit: usize) -> usize {
        let mut freed = 0;
        for index in 0..self.registry.slots_used() {
            if limit <= freed {
                break;
            }
            let Some(held) = self.registry.begin_on(index, Class::Low) else { continue };
            let mut scratch = self.scratch[index].take().unwrap_or_default();
            let horizon = self.registry.horizon();
            freed += self.bury(&held, &mut scratch, &self.counters[index], horizon, limit - freed);
            held.abort();
            self.hand_back(held, scratch);
        }
        freed
    }
}
