//! Work after the decision: undoing aborted changes, and clearing away garbage.
//!
//! **Invariant:** a slot's garbage queue is touched only by the holder of the slot, and the slot goes back after the
//! scratch that has the queue. The work at the end of a transaction is bounded; while no snapshot is old it is one look
//! at the horizon now and then, and freeing.

use crate::counters::{BytesByTable, Counters};
use crate::engine::Inner;
use crate::raw::garbage::{Dead, DeadVersionKind};
use crate::raw::horizon::{Needed, Pass};
use crate::raw::rows::NewestState;
use crate::raw::slots::HeldSlot;
use crate::raw::version::{RowCell, Version};
use crate::row::key;
use crate::schema::entries;
use crate::txn::scratch::{Kind, Scratch};
use preempt::Region;
use stage::Class;

/// Dead versions freed at the end of a transaction, beside two for each of its own writes.
const FREED_PER_END: usize = 32;
/// Transactions on a slot between two looks at all live snapshots.
const HORIZON_EVERY: u32 = 16;
/// Number of dead versions waiting on a slot from which on they are examined for pruning although a snapshot is older.
const PRUNED_FROM: usize = 256;
/// Number of dead versions examined then, together.
const PRUNED_TOGETHER: usize = 64;

impl Inner {
    /// Undoes the changes, latest first, and ends the transaction.
    #[cold]
    pub(crate) fn roll_back(&self, held: HeldSlot<'_>, mut scratch: Box<Scratch>, counters: &Counters) {
        if held.abort() {
            counters.taken.add(1);
        }
        counters.aborts.add(1);
        while self.undo_last(&held, &mut scratch, counters) {}
        self.end(held, scratch, counters);
    }

    /// Undoes the last change. Returns true if there was one.
    pub(crate) fn undo_last(&self, held: &HeldSlot<'_>, scratch: &mut Scratch, counters: &Counters) -> bool {
        let Some(write) = scratch.writes.pop() else { return false };
        counters.writes.set(scratch.writes.len() as u64);
        let table = self.table(write.table, held.pin());
        // Without a cell: another took the row from us, left it again, and it was frozen with all others of its chunk.
        let no_cell = RowCell::new();
        let cell = table.rows.hot_cell(write.row, held.pin()).unwrap_or(&no_cell);
        let (base, new) = (write.change.claimed(held.pin()), write.change.published(held.pin()));
        if held.is_serial() && held.is_active() {
            scratch.reads.undone(table, &write, new, self.registry.now());
        }
        held.undo(cell, base, new);
        if let (Some(new), Some(version)) = (new, write.change.dead_by_undo()) {
            entries::remove_added(table, held, new, &write, scratch);
            // An entry that its key found present was of another version: an older one, or one whose row had this id
            // before. That one may have gone meanwhile and left the entry to us, so it is looked at once more.
            let (rest, keys) = match write.kind {
                Kind::Insert => (DeadVersionKind::UnlinkedRow, table.all_indexes()),
                Kind::Update | Kind::Delete => (DeadVersionKind::Unlinked, write.keys_left),
            };
            let keys = keys & !write.keys_added;
            let dead = Dead::new(0, version, write.table, rest, keys);
            table.version_bytes.died(held.index(), dead.version(held.pin()).bytes());
            scratch.graveyard.push_unlinked(dead);
            counters.died.add(1);
        }
        if !self.locks.is_quiet() {
            self.row_released(held, write.table, write.row);
        }
        true
    }

    /// Frees some of the garbage, and gives slot and scratch back.
    #[inline]
    pub(crate) fn end(&self, held: HeldSlot<'_>, mut scratch: Box<Scratch>, counters: &Counters) {
        if held.is_serial_reader() {
            self.serial.end_reader(&self.registry, &held, None);
        }
        // After the decision: a transaction that marks something from now on finds this one decided.
        if !self.locks.is_quiet() {
            self.locks_released(&held, &mut scratch);
        }
        counters.writes.set(0);
        if !scratch.graveyard.is_empty() || scratch.graveyard.has_pending() || self.orphans.are_there() {
            let limit = FREED_PER_END + 2 * scratch.writes.len();
            self.tidy(&held, &mut scratch, counters, limit);
        }
        self.see_drops(&held, &mut scratch);
        scratch.reset();
        self.hand_back(held, scratch);
    }

    /// Clears away a bounded part of the garbage on this slot.
    fn tidy(&self, held: &HeldSlot<'_>, scratch: &mut Scratch, counters: &Counters, limit: usize) {
        if scratch.graveyard.is_empty() {
            self.adopt(&mut scratch.graveyard, held.pin(), false);
        }
        if self.bury(held, scratch, counters, limit) == 0 {
            scratch.since_horizon += 1;
            if HORIZON_EVERY <= scratch.since_horizon {
                scratch.since_horizon = 0;
                let before = self.registry.known_horizon();
                if before < self.registry.horizon() {
                    self.bury(held, scratch, counters, limit);
                }
            }
        }
        let (fresh, again) = scratch.graveyard.unseen();
        if PRUNED_FROM + PRUNED_TOGETHER <= fresh || PRUNED_TOGETHER <= again {
            self.prune(held, scratch, counters, PRUNED_TOGETHER);
        }
        scratch.graveyard.shrink();
    }

    pub(crate) fn hand_back(&self, held: HeldSlot<'_>, scratch: Box<Scratch>) {
        // Before the slot goes back: its next holder looks for the scratch.
        let before = self.scratch[held.index()].put(scratch);
        debug_assert!(before.is_none(), "the slot's holder took its scratch");
        held.release();
    }

    /// Frees at most `limit` dead versions that are due by the known horizon and walks. Returns their number.
    fn bury(&self, held: &HeldSlot<'_>, scratch: &mut Scratch, counters: &Counters, limit: usize) -> usize {
        let (horizon, walks) = (self.registry.known_horizon(), self.registry.known_walks());
        let (mut freed, mut bytes) = (0, 0);
        let mut live = core::mem::take(&mut scratch.graveyard.live);
        let (slot, pin) = (held.index(), held.pin());
        let mut by_table = BytesByTable::new(|id, bytes| self.table(id, pin).version_bytes.freed(slot, bytes));
        {
            let mut pass = None;
            for _ in 0..limit {
                if let Some(more) = scratch.graveyard.free_one(horizon, walks, &mut scratch.spares) {
                    freed += 1;
                    bytes += more.bytes;
                    by_table.add(more.table, more.bytes);
                    if let Some((table, row)) = more.row {
                        scratch.ids.release(&self.table(table, held.pin()).rows, table, row);
                    }
                    continue;
                }
                if scratch.graveyard.least_kept().is_some_and(|snapshot| snapshot < horizon) {
                    self.release(scratch, |snapshot| snapshot < horizon);
                }
                let Some(dead) = scratch.graveyard.pop_due(horizon, walks) else { break };
                if dead.rest == DeadVersionKind::Deleted {
                    self.unlink_row(held, scratch, dead);
                    continue;
                }
                if pass.is_none() {
                    // Borrowed once: there is one pass, and it lives as long as this block.
                    pass = held.begin_pass(core::mem::take(&mut live));
                }
                match &pass {
                    Some(pass) => self.settle(pass, scratch, dead),
                    None => {
                        scratch.graveyard.push_again(dead);
                        break;
                    }
                }
            }
            if let Some(pass) = pass {
                live = self.end_pass(pass, scratch);
            }
        }
        by_table.flush();
        scratch.graveyard.live = live;
        self.tick(held, scratch);
        if 0 < freed {
            counters.versions_freed.add(freed as u64);
            counters.bytes_freed.add(bytes as u64);
        }
        freed
    }

    /// Examines up to `limit` dead versions that are not due, and unlinks those that no snapshot sees. Returns the
    /// number examined.
    fn prune(&self, held: &HeldSlot<'_>, scratch: &mut Scratch, counters: &Counters, limit: usize) -> usize {
        let Some(pass) = held.begin_pass(core::mem::take(&mut scratch.graveyard.live)) else { return 0 };
        let mut looked = 0;
        // While the pass lives no other snapshot is gone: a look at all snapshots that finds none is the last.
        let mut may_release = true;
        while looked < limit {
            if may_release && scratch.graveyard.unseen().1 == 0 {
                may_release = self.release(scratch, |snapshot| !pass.is_live(snapshot));
            }
            let Some(dead) = scratch.graveyard.pop() else { break };
            looked += 1;
            if !self.prune_one(&pass, scratch, counters, dead) {
                break;
            }
        }
        scratch.graveyard.live = self.end_pass(pass, scratch);
        self.tick(held, scratch);
        looked
    }

    /// Examines one dead version. Returns false if this one, and so those after it, ended just now.
    fn prune_one(&self, pass: &Pass<'_>, scratch: &mut Scratch, counters: &Counters, dead: Dead) -> bool {
        let version = dead.version(pass.pin());
        if dead.at <= pass.horizon {
            match dead.rest {
                DeadVersionKind::Deleted => self.unlink_row(pass.held(), scratch, dead),
                DeadVersionKind::Superseded
                | DeadVersionKind::Moved
                | DeadVersionKind::Unlinked
                | DeadVersionKind::UnlinkedRow => self.settle(pass, scratch, dead),
            }
            return true;
        }
        if pass.is_unlinked(version) {
            counters.pruned.add(1);
            self.remove_left(pass, scratch, dead, version);
            return true;
        }
        let begin = pass.began(version);
        match pass.needs(begin, dead.at) {
            Needed::Soon => {
                scratch.graveyard.push_again(dead);
                return false;
            }
            Needed::By(snapshot) => self.keep(pass, scratch, snapshot, dead, version),
            Needed::No if dead.rest == DeadVersionKind::Moved => {
                counters.pruned.add(1);
                scratch.graveyard.push_unlinked(dead.unlinked(DeadVersionKind::Unlinked));
            }
            Needed::No => {
                if let NewestState::Hot(newest) =
                    self.table(dead.table, pass.pin()).rows.newest(version.row(), pass.pin())
                {
                    pass.prune(newest, &self.stripes);
                }
                if dead.rest == DeadVersionKind::Deleted && pass.is_first(version) {
                    counters.pruned.add(1);
                    self.unlink_row(pass.held(), scratch, dead);
                } else if dead.rest == DeadVersionKind::Deleted {
                    // The version tells readers to whom the older one is not visible that it is gone.
                    self.keep(pass, scratch, pass.last_before(begin), dead, version);
                } else if pass.is_unlinked(version) {
                    counters.pruned.add(1);
                    self.remove_left(pass, scratch, dead, version);
                } else {
                    scratch.graveyard.later.push(dead);
                }
            }
        }
        true
    }

    /// Does the work that must precede the freeing of a dead version by the rule of the horizon.
    fn settle(&self, pass: &Pass<'_>, scratch: &mut Scratch, dead: Dead) {
        let version = dead.version(pass.pin());
        let is_linked =
            dead.rest == DeadVersionKind::Superseded && pass.is_below_gap(version) && !pass.is_unlinked(version);
        if is_linked
            && let NewestState::Hot(newest) = self.table(dead.table, pass.pin()).rows.newest(version.row(), pass.pin())
            && !pass.prune(newest, &self.stripes)
        {
            return scratch.graveyard.later.push(dead);
        }
        self.remove_left(pass, scratch, dead, version);
    }

    /// Removes the entries of the version's keys if they are not needed, then lets it be freed.
    fn remove_left(&self, pass: &Pass<'_>, scratch: &mut Scratch, dead: Dead, version: &Version) {
        let table = self.table(dead.table, pass.pin());
        let keys = if pass.has_duty(version) { table.all_indexes() } else { dead.keys };
        for (position, index) in table.indexes.iter().enumerate() {
            if keys & (1 << position) != 0 {
                entries::remove_left(table, index, pass, version, scratch);
            }
        }
        match dead.rest {
            // The tick of the version has passed.
            DeadVersionKind::Unlinked | DeadVersionKind::UnlinkedRow => scratch.graveyard.push_free(dead),
            DeadVersionKind::Superseded | DeadVersionKind::Deleted | DeadVersionKind::Moved
                if pass.is_unlinked(version) || pass.is_below_gap(version) =>
            {
                scratch.graveyard.push_unlinked(dead.unlinked(DeadVersionKind::Unlinked));
            }
            DeadVersionKind::Superseded | DeadVersionKind::Deleted | DeadVersionKind::Moved => {
                scratch.graveyard.push_free(dead.unlinked(DeadVersionKind::Unlinked));
            }
        }
    }

    /// Removes the entries and the place in the map of a deleted row that no snapshot sees.
    fn unlink_row(&self, held: &HeldSlot<'_>, scratch: &mut Scratch, dead: Dead) {
        let table = self.table(dead.table, held.pin());
        let version = dead.version(held.pin());
        for index in &table.indexes {
            key::of_image(index, table.image(version), &mut scratch.key);
            index.tree.remove(&scratch.key, version.row(), &Region::enter());
        }
        table.rows.clear(version.row(), held.pin());
        scratch.graveyard.push_unlinked(dead.unlinked(DeadVersionKind::UnlinkedRow));
    }

    fn keep(&self, pass: &Pass<'_>, scratch: &mut Scratch, snapshot: u64, dead: Dead, version: &Version) {
        if !pass.is_live(snapshot) {
            return scratch.graveyard.later.push(dead); // It will be gone soon, if it is not yet.
        }
        let bytes = version.bytes();
        scratch.graveyard.keep(snapshot, dead, bytes);
        self.held_back.add(snapshot, bytes as u64);
    }

    /// Ends a pass: versions to be examined later wait until the horizon has moved on.
    fn end_pass(&self, pass: Pass<'_>, scratch: &mut Scratch) -> Vec<u64> {
        for dead in core::mem::take(&mut scratch.graveyard.later) {
            let bytes = dead.version(pass.pin()).bytes();
            scratch.graveyard.keep(pass.horizon, dead, bytes);
            self.held_back.add(pass.horizon, bytes as u64);
        }
        pass.end()
    }

    /// Takes up the versions that were kept for one snapshot that is gone, if there is any and all else was examined.
    /// Returns true if it did.
    fn release(&self, scratch: &mut Scratch, is_gone: impl Fn(u64) -> bool) -> bool {
        let released = scratch.graveyard.release(is_gone);
        if let Some((snapshot, count, bytes)) = released {
            self.held_back.subtract(snapshot, count, bytes);
        }
        released.is_some()
    }

    fn tick(&self, held: &HeldSlot<'_>, scratch: &mut Scratch) {
        if scratch.graveyard.has_pending() {
            scratch.graveyard.tick(held.unlinked_at());
        }
    }

    /// Frees at most `limit` versions that idle slots have left, and examines at most as many. Returns the number
    /// freed.
    pub(crate) fn collect_garbage(&self, limit: usize) -> usize {
        // First the unlinking, then the freeing: the walks of the first round are over then.
        let mut left = limit;
        self.each_idle_slot(|held, scratch, counters| {
            while self.adopt(&mut scratch.graveyard, held.pin(), true) {}
            left -= self.prune(held, scratch, counters, left).min(left);
            scratch.ids.give_back(|table| &self.table(table, held.pin()).rows);
            scratch.spares.clear();
            0 < left
        });
        self.registry.horizon();
        let mut freed = 0;
        self.each_idle_slot(|held, scratch, counters| {
            loop {
                let more = self.bury(held, scratch, counters, limit - freed);
                freed += more;
                if more == 0 || limit <= freed {
                    break;
                }
            }
            scratch.graveyard.shrink();
            freed < limit
        });
        freed
    }

    /// Calls `each` with all slots that are not in use, until it returns false.
    fn each_idle_slot(&self, mut each: impl FnMut(&HeldSlot<'_>, &mut Scratch, &Counters) -> bool) {
        for index in 0..self.registry.slots_used() {
            let Some(held) = self.registry.begin_on(index, Class::Low) else { continue };
            let mut scratch = self.scratch[index].take().unwrap_or_default();
            let goes_on = each(&held, &mut scratch, &self.counters[index]);
            self.see_drops(&held, &mut scratch);
            held.abort();
            self.hand_back(held, scratch);
            if !goes_on {
                break;
            }
        }
    }
}
