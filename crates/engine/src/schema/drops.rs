//! Dropped tables: from the last use of one until its memory is free.
//!
//! **Invariant:** a table is freed when nothing leads to it: no `Arc` outside, no slot that names its id, no walk that
//! may have found it in the directory. All its garbage, of whichever slot, goes with it.
//!
//! A dropped table is *shared* as long as there is an `Arc` of it, and works as before. When there is none:
//!
//! 1. It is *closed*: every call with it is refused from now on. (No caller can make one, unless `Arc` and `Weak`
//!    change into one another at the moment when they are counted; but then it is a panic and not undefined.) It is
//!    *going*, and a new *turn* begins.
//! 2. Each slot's holder that finds a new turn *sees* it, at the end of its transaction at the latest: the garbage of
//!    going tables on the slot is set aside, to the table, or all of the slot's garbage is left to the orphans (see 3)
//!    if it is much; the slot tells the turn that it has seen. Slots out of use are seen to by the housekeeping. The
//!    writes and locks of the slot's transaction are over then, and a transaction that begins there later cannot name
//!    the table: its write set would need a call, and a call is refused, as the slot's change of hands orders.
//! 3. Garbage also changes hands through [`crate::orphans`]. A thread that adopts while a table is going sets aside
//!    that table's. When all slots have seen the turn, the rest among the orphans is set aside, and if no thread was
//!    adopting at that moment, no garbage of the table is anywhere else. (*Adopting* is counted before the orphans are
//!    looked at, and whether any table is going is loaded after. So a thread that found none going was counted before
//!    the table's turn began, on a slot that had not seen it, or is still counted.)
//! 4. Only the lock table may still have the id, in the place of a session that waits for a row of the table and has
//!    forgotten it. So the table is taken out of the directory, and is *out*: a thread that looks for it there walks.
//! 5. When the walks have reached the tick after that, and no `Arc` came back, all is freed: garbage, newest versions,
//!    blocks, indexes.
//!
//! The writes that were kept for SERIALIZABLE transactions ([`crate::raw::recent`]) may name the table for longer; but only
//! a transaction that has read the table looks at them, and its slot has not seen the turn before it ends.

use crate::engine::Inner;
use crate::raw::garbage::{self, Graveyard};
use crate::raw::live::Role;
use crate::raw::slots::{HeldSlot, SnapshotPin};
use crate::schema::table::Table;
use crate::schema::tables::{Dropped, Stage};
use crate::sync::{AtomicU64, Relaxed, SeqCst};
use crate::txn::scratch::Scratch;
use core::sync::atomic::AtomicBool;
use preempt::safepoint;
use stage::Class;
use std::sync::Arc;

/// Garbage, in versions, above which the end of a transaction does not look through it: the housekeeping does.
const MANY: usize = 4_096;

/// Number of the present turn, written seldom and read at each transaction's end, on a line of its own.
#[repr(align(128))]
struct Turn(AtomicU64);

/// Progress of the dropped tables of an engine.
pub(crate) struct Drops {
    turn: Turn,
    /// Turn that each slot has seen.
    seen: Box<[AtomicU64]>,
    /// Number of tables that are going or out.
    going: AtomicU64,
    /// Number of threads that are adopting orphans.
    adopting: AtomicU64,
    /// True if a thread is at work here.
    is_busy: AtomicBool,
}

/// Guard of a thread that is adopting.
struct Adopting<'d>(&'d AtomicU64);

impl Drop for Adopting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// Guard of the thread at work.
struct Busy<'d>(&'d AtomicBool);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.store(false, core::sync::atomic::Ordering::Release);
    }
}

impl Drops {
    pub(crate) fn new(slots_count: usize) -> Drops {
        Drops {
            turn: Turn(AtomicU64::new(0)),
            seen: (0..slots_count).map(|_| AtomicU64::new(0)).collect(),
            going: AtomicU64::new(0),
            adopting: AtomicU64::new(0),
            is_busy: AtomicBool::new(false),
        }
    }
}

impl Inner {
    /// Notes that the holder of a slot has done its work there: if a new turn has begun, it sees it.
    #[inline]
    pub(crate) fn see_drops(&self, held: &HeldSlot<'_>, scratch: &mut Scratch) {
        if self.drops.turn.0.load(Relaxed) != scratch.turn_seen {
            self.see_turn(held, scratch);
        }
    }

    #[cold]
    fn see_turn(&self, held: &HeldSlot<'_>, scratch: &mut Scratch) {
        // First: every table that is going since this turn or before is found below.
        let turn = self.drops.turn.0.load(SeqCst);
        let going = self.going();
        scratch.ids.forget(&going);
        if scratch.graveyard.len() <= MANY {
            self.set_aside(&mut scratch.graveyard, &going, held.pin());
        } else {
            // Before the turn is seen: the orphans are looked through after that.
            self.orphans.leave_all(&mut scratch.graveyard);
        }
        scratch.turn_seen = turn;
        self.drops.seen[held.index()].store(turn, SeqCst);
    }

    /// Returns the ids of the tables that are going or out, in order.
    fn going(&self) -> Vec<u32> {
        let mut going: Vec<u32> = self.tables.with_dropped(|dropped| {
            let going = dropped.iter().filter(|dropped| dropped.stage != Stage::Shared);
            going.map(|dropped| dropped.table.id).collect()
        });
        going.sort_unstable();
        going
    }

    /// Sets the garbage of these tables aside.
    fn set_aside(&self, graveyard: &mut Graveyard, going: &[u32], pin: &SnapshotPin) {
        if graveyard.is_empty() && !graveyard.has_pending() || going.is_empty() {
            return;
        }
        let kept = |snapshot, versions, bytes| self.held_back.subtract(snapshot, versions, bytes);
        let mut dead = graveyard.take_out(|table| going.binary_search(&table).is_ok(), pin, kept);
        dead.sort_by_key(|dead| dead.table);
        while let Some(table) = dead.last().map(|dead| dead.table) {
            let of_table = dead.split_off(dead.partition_point(|dead| dead.table < table));
            self.tables.with_dropped(|dropped| {
                let dropped = dropped.iter_mut().find(|dropped| dropped.table.id == table);
                debug_assert!(dropped.is_some(), "a table is not freed before its dead");
                if let Some(dropped) = dropped {
                    dropped.dead.push(of_table);
                }
            });
        }
    }

    /// Takes one queue of orphans over, without those of tables that are going. One that is long is left to a caller
    /// that `has_time` while any table is going: it would be looked through.
    pub(crate) fn adopt(&self, graveyard: &mut Graveyard, pin: &SnapshotPin, has_time: bool) -> bool {
        if !self.orphans.are_there() {
            return false;
        }
        self.drops.adopting.fetch_add(1, SeqCst);
        let _adopting = Adopting(&self.drops.adopting);
        let is_short_wanted = !has_time && self.drops.going.load(SeqCst) != 0;
        let adopted = self.orphans.adopt(graveyard, if is_short_wanted { MANY } else { usize::MAX });
        if adopted && self.drops.going.load(SeqCst) != 0 {
            self.set_aside(graveyard, &self.going(), pin);
        }
        adopted
    }

    /// Advances dropped tables, and frees those that nothing leads to any more. Returns the number freed.
    pub(crate) fn free_dropped(&self) -> usize {
        if !self.tables.any_dropped() || self.drops.is_busy.swap(true, core::sync::atomic::Ordering::Acquire) {
            return 0;
        }
        let _busy = Busy(&self.drops.is_busy);
        self.close_unshared();
        if self.drops.going.load(SeqCst) == 0 {
            return 0;
        }
        self.see_on_idle_slots();
        self.take_out_unnamed();
        self.free_out()
    }

    /// Closes the dropped tables that have no user: they are going from now on.
    fn close_unshared(&self) {
        let turn = self.drops.turn.0.load(Relaxed) + 1;
        let closed = self.tables.with_dropped(|dropped| {
            let mut closed = 0;
            for dropped in dropped.iter_mut().filter(|dropped| dropped.stage == Stage::Shared) {
                if Arc::strong_count(&dropped.table) == 1 && Arc::weak_count(&dropped.table) == 0 {
                    dropped.table.close();
                    dropped.stage = Stage::Going(turn);
                    closed += 1;
                }
            }
            closed
        });
        if 0 < closed {
            self.drops.going.fetch_add(closed, SeqCst);
            self.drops.turn.0.store(turn, SeqCst);
        }
    }

    fn see_on_idle_slots(&self) {
        let turn = self.drops.turn.0.load(Relaxed);
        for index in 0..self.registry.slots_used() {
            if self.drops.seen[index].load(SeqCst) < turn
                && let Some(held) = self.registry.begin_on(index, Class::Low)
            {
                let mut scratch = self.scratch[index].take().unwrap_or_default();
                self.see_turn(&held, &mut scratch);
                held.abort();
                self.hand_back(held, scratch);
            }
        }
    }

    /// Takes those tables out of the directory that no slot names any more.
    fn take_out_unnamed(&self) {
        // A slot that is not counted any more has raised the number of slots before.
        if self.drops.adopting.load(SeqCst) != 0 {
            return;
        }
        let seen = self.drops.seen[..self.registry.slots_used()].iter().map(|seen| seen.load(SeqCst)).min();
        let seen = seen.filter(|_| !preempt::plants::is_planted("dropped_early")).unwrap_or(u64::MAX);
        let is_unnamed = |dropped: &Dropped| matches!(dropped.stage, Stage::Going(turn) if turn <= seen);
        if !self.tables.with_dropped(|dropped| dropped.iter().any(is_unnamed)) {
            return;
        }
        let Some(held) = self.registry.begin(Class::Low, None, Role::None) else { return };
        let going = self.going();
        let mut orphans = self.orphans.take_all();
        orphans.iter_mut().for_each(|graveyard| self.set_aside(graveyard, &going, held.pin()));
        self.orphans.give_back(orphans);
        if self.drops.adopting.load(SeqCst) == 0 {
            let unnamed: Vec<u32> = self.tables.with_dropped(|dropped| {
                let unnamed = dropped.iter().filter(|dropped| is_unnamed(dropped));
                unnamed.map(|dropped| dropped.table.id).inspect(|id| self.tables.take_out(*id)).collect()
            });
            let at = held.unlinked_at();
            self.tables.with_dropped(|dropped| {
                for dropped in dropped.iter_mut().filter(|dropped| unnamed.contains(&dropped.table.id)) {
                    dropped.stage = Stage::Out(at);
                }
            });
        }
        held.abort();
        held.release();
    }

    /// Frees the tables that are out of every walk's reach.
    fn free_out(&self) -> usize {
        self.registry.horizon();
        let walks = self.registry.known_walks();
        let is_free = |dropped: &Dropped| matches!(dropped.stage, Stage::Out(at) if at <= walks);
        if !self.tables.with_dropped(|dropped| dropped.iter().any(is_free)) {
            return 0;
        }
        // Counted on a slot, as all versions are.
        let Some(held) = self.registry.begin(Class::Low, None, Role::None) else { return 0 };
        let mut freed = 0;
        let (free, mut left): (Vec<_>, Vec<_>) = (
            self.tables.with_dropped(|dropped| dropped.extract_if(.., |dropped| is_free(dropped)).collect()),
            Vec::new(),
        );
        for Dropped { table, stage, dead } in free {
            match Arc::try_unwrap(table) {
                Ok(table) => {
                    self.free_table(&held, table, dead);
                    freed += 1;
                }
                // See 1.
                Err(table) => left.push(Dropped { table, stage, dead }),
            }
        }
        self.tables.with_dropped(|dropped| dropped.append(&mut left));
        self.drops.going.fetch_sub(freed as u64, SeqCst);
        held.abort();
        held.release();
        freed
    }

    fn free_table(&self, held: &HeldSlot<'_>, mut table: Table, dead: Vec<Vec<garbage::Dead>>) {
        let counters = &self.counters[held.index()];
        let (mut freed, mut bytes) = (0, 0);
        for dead in dead {
            let (count, more) = garbage::free_all_of(dead);
            freed += count;
            bytes += more;
            safepoint();
        }
        let cleared = table.rows.free_all(safepoint);
        counters.versions_freed.add((freed + cleared.versions) as u64);
        counters.bytes_freed.add((bytes + cleared.bytes) as u64);
        // Versions that were not ended die only now.
        counters.died.add(cleared.versions_live as u64);
        counters.rows_deleted.add(cleared.rows);
    }
}
