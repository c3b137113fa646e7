//! Garbage: dead versions that wait until no reader can reach them.
//!
//! **Invariant:** a dead version is in exactly one queue, of one slot, and the holder of the slot frees it. There are
//! two rules by which it may:
//!
//! - *the horizon*: it was superseded at a time that the horizon has reached. A later reader sees its successor first
//!   and never walks past that. No need to unlink it. (Not if it stands below a gap: see [`super::prune`].)
//! - *the walks*: it was unlinked before a tick of the clock, and no snapshot sees it. A walk that begins after that
//!   tick cannot meet it, so it goes when all walks that began before are over: see [`super::horizon`].

use super::slots::SnapshotPin;
use super::spares::Spares;
use super::version::{DUTY, GAP, Version, VersionPtr};
use std::collections::{BTreeMap, VecDeque};

/// Room above which a queue that is mostly empty gives memory back.
const SPACIOUS: usize = 4096;

/// Kind of a dead version, which tells the work to do on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeadVersionKind {
    /// A newer version took its place.
    Superseded,
    /// The row was deleted: it is the last version, and the row map owns it until the row's index entries and its place
    /// in the map are gone.
    Deleted,
    /// The version lives on as a row of a block. It is not in the map any more, but snapshots may still use it.
    Moved,
    /// The version is out of the chain.
    Unlinked,
    /// The version is out of the chain, and with it goes the id of its row.
    UnlinkedRow,
}

/// A dead version.
#[derive(Debug)]
pub(crate) struct Dead {
    /// Time of death. Superseded, deleted: the end of its life. Moved, unlinked: a tick after that.
    pub(crate) at: u64,
    version: VersionPtr,
    /// Indexes, by bit, that may have an entry only for its key.
    pub(crate) keys: u64,
    pub(crate) table: u32,
    pub(crate) rest: DeadVersionKind,
}

impl Dead {
    #[inline]
    pub(crate) fn new(at: u64, version: VersionPtr, table: u32, rest: DeadVersionKind, keys: u64) -> Dead {
        Dead { at, version, keys, table, rest }
    }

    /// Returns the image and row of the version, for as long as it is in the queue.
    pub(crate) fn version<'p>(&self, pin: &'p SnapshotPin) -> &'p Version {
        self.version.get(pin)
    }

    /// Returns the version as unlinked, with nothing left to be done but to wait for the walks.
    pub(crate) fn unlinked(self, rest: DeadVersionKind) -> Dead {
        Dead { rest, keys: 0, ..self }
    }

    /// Frees the version.
    fn free(self, spares: &mut Spares) -> Freed {
        let row = (self.rest == DeadVersionKind::UnlinkedRow).then(|| (self.table, self.version.row()));
        // SAFETY: the invariant above: the queue owned it, and one of the two rules is met or the engine ends.
        Freed { bytes: unsafe { self.version.free(spares) }, table: self.table, row }
    }
}

/// Memory and id that freeing a version has released.
pub(crate) struct Freed {
    pub(crate) bytes: usize,
    pub(crate) table: u32,
    /// Table and id, if the row is gone.
    pub(crate) row: Option<(u32, u64)>,
}

/// Garbage of one slot.
#[derive(Debug, Default)]
pub(crate) struct Graveyard {
    /// Versions that were not examined yet, in the order of their times.
    fresh: VecDeque<Dead>,
    /// Versions that must be examined again.
    again: VecDeque<Dead>,
    /// Versions that a snapshot needs, by its number.
    kept: BTreeMap<u64, Kept>,
    /// Versions that were unlinked, in the order of their ticks.
    unlinked: VecDeque<Dead>,
    /// Versions that were unlinked, without a tick yet.
    pending: Vec<Dead>,
    /// Versions that the pass under way could not decide.
    pub(crate) later: Vec<Dead>,
    /// Buffer of passes.
    pub(crate) live: Vec<u64>,
}

/// Dead versions that one snapshot needs.
#[derive(Debug, Default)]
struct Kept {
    dead: VecDeque<Dead>,
    bytes: u64,
}

impl Graveyard {
    /// Adds a version that was not examined yet.
    #[inline]
    pub(crate) fn push(&mut self, dead: Dead) {
        self.fresh.push_back(dead);
    }

    /// Adds a version that was unlinked just now.
    #[inline]
    pub(crate) fn push_unlinked(&mut self, dead: Dead) {
        debug_assert!(matches!(dead.rest, DeadVersionKind::Unlinked | DeadVersionKind::UnlinkedRow));
        self.pending.push(dead);
    }

    /// Adds a version that is out of reach and has nothing left to be done but to be freed.
    pub(crate) fn push_free(&mut self, dead: Dead) {
        self.unlinked.push_front(Dead { at: 0, keys: 0, ..dead });
    }

    /// Adds a version that this snapshot needs.
    pub(crate) fn keep(&mut self, snapshot: u64, dead: Dead, bytes: usize) {
        let kept = self.kept.entry(snapshot).or_default();
        kept.bytes += bytes as u64;
        kept.dead.push_back(dead);
    }

    /// Adds a version that is to be examined again before the others.
    pub(crate) fn push_again(&mut self, dead: Dead) {
        self.again.push_front(dead);
    }

    /// Returns true if versions were unlinked since the last tick.
    #[inline]
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Gives the unlinked versions their tick.
    pub(crate) fn tick(&mut self, at: u64) {
        self.unlinked.extend(self.pending.drain(..).map(|dead| Dead { at, ..dead }));
    }

    /// Frees one version if it is due and nothing has to be done before.
    #[inline]
    pub(crate) fn free_one(&mut self, horizon: u64, walks: u64, spares: &mut Spares) -> Option<Freed> {
        if self.unlinked.front().is_some_and(|dead| dead.at <= walks && dead.keys == 0) {
            return self.unlinked.pop_front().map(|dead| dead.free(spares));
        }
        let is_free = |dead: &Dead| {
            let Dead { at, keys, rest, .. } = *dead;
            at <= horizon && keys == 0 && rest != DeadVersionKind::Deleted && !dead.version.has_flag(GAP | DUTY)
        };
        if self.again.front().is_some_and(is_free) {
            return self.again.pop_front().map(|dead| dead.free(spares));
        }
        if self.fresh.front().is_some_and(is_free) {
            return self.fresh.pop_front().map(|dead| dead.free(spares));
        }
        None
    }

    /// Takes out one version that is due but has something to be done before it is freed.
    pub(crate) fn pop_due(&mut self, horizon: u64, walks: u64) -> Option<Dead> {
        let is_due = |dead: &Dead, bound: u64| dead.at <= bound;
        if self.unlinked.front().is_some_and(|dead| is_due(dead, walks)) {
            return self.unlinked.pop_front();
        }
        if self.again.front().is_some_and(|dead| is_due(dead, horizon)) {
            return self.again.pop_front();
        }
        if self.fresh.front().is_some_and(|dead| is_due(dead, horizon)) { self.fresh.pop_front() } else { None }
    }

    /// Takes out the next version to be examined, due or not.
    pub(crate) fn pop(&mut self) -> Option<Dead> {
        self.again.pop_front().or_else(|| self.fresh.pop_front())
    }

    /// Returns the numbers of versions that were not examined, and that must be examined again.
    #[inline]
    pub(crate) fn unseen(&self) -> (usize, usize) {
        (self.fresh.len(), self.again.len())
    }

    /// Returns true if no version waits for anything.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.unlinked.is_empty() && self.again.is_empty() && self.kept.is_empty()
    }

    /// Returns the least snapshot that any version is kept for.
    #[inline]
    pub(crate) fn least_kept(&self) -> Option<u64> {
        self.kept.first_key_value().map(|(snapshot, _)| *snapshot)
    }

    /// Takes out the versions that were kept for a snapshot that is gone, to be examined again. Returns the snapshot,
    /// the number of versions, and their bytes.
    pub(crate) fn release(&mut self, is_gone: impl Fn(u64) -> bool) -> Option<(u64, u64, u64)> {
        if !self.again.is_empty() {
            return None;
        }
        let gone = self.kept.keys().copied().find(|snapshot| is_gone(*snapshot))?;
        let Kept { dead, bytes } = self.kept.remove(&gone)?;
        self.again = dead;
        Some((gone, self.again.len() as u64, bytes))
    }

    /// Takes out every version of the tables that `is_of` selects. `kept` is told of those that were kept for a
    /// snapshot: the snapshot, the number of versions, and their bytes.
    pub(crate) fn take_out(
        &mut self,
        is_of: impl Fn(u32) -> bool,
        pin: &SnapshotPin,
        mut kept: impl FnMut(u64, u64, u64),
    ) -> Vec<Dead> {
        let is_out = |dead: &Dead| is_of(dead.table);
        let mut out = Vec::new();
        for queue in [&mut self.fresh, &mut self.again, &mut self.unlinked] {
            if queue.iter().any(is_out) {
                let (taken, left) = core::mem::take(queue).into_iter().partition::<Vec<_>, _>(is_out);
                out.extend(taken);
                *queue = left.into();
            }
        }
        for queue in [&mut self.pending, &mut self.later] {
            out.extend(queue.extract_if(.., |dead| is_out(dead)));
        }
        self.kept.retain(|snapshot, of_snapshot| {
            if of_snapshot.dead.iter().any(is_out) {
                let dead = core::mem::take(&mut of_snapshot.dead);
                let (taken, left) = dead.into_iter().partition::<Vec<_>, _>(is_out);
                let bytes: usize = taken.iter().map(|dead| dead.version(pin).bytes()).sum();
                kept(*snapshot, taken.len() as u64, bytes as u64);
                of_snapshot.bytes -= bytes as u64;
                of_snapshot.dead = left.into();
                out.extend(taken);
            }
            !of_snapshot.dead.is_empty()
        });
        out
    }

    /// Returns the number of versions that wait here.
    pub(crate) fn len(&self) -> usize {
        let kept: usize = self.kept.values().map(|kept| kept.dead.len()).sum();
        self.fresh.len() + self.again.len() + self.unlinked.len() + self.pending.len() + kept
    }

    /// Takes over the versions of another.
    pub(crate) fn absorb(&mut self, mut other: Graveyard) {
        if self.is_empty() && !self.has_pending() {
            *self = other;
            return;
        }
        self.fresh.append(&mut other.fresh);
        self.fresh.make_contiguous().sort_by_key(|dead| dead.at);
        self.unlinked.append(&mut other.unlinked);
        self.unlinked.make_contiguous().sort_by_key(|dead| dead.at);
        self.again.append(&mut other.again);
        self.pending.append(&mut other.pending);
        for (snapshot, mut kept) in core::mem::take(&mut other.kept) {
            let all = self.kept.entry(snapshot).or_default();
            all.dead.append(&mut kept.dead);
            all.bytes += kept.bytes;
        }
    }

    /// Gives back memory that a burst of work has left.
    #[inline]
    pub(crate) fn shrink(&mut self) {
        for queue in [&mut self.fresh, &mut self.again, &mut self.unlinked] {
            if SPACIOUS < queue.capacity() && queue.len() < queue.capacity() / 4 {
                queue.shrink_to(2 * queue.len());
            }
        }
        // The end of a pass takes `later` whole.
        if SPACIOUS < self.pending.capacity() && self.pending.len() < self.pending.capacity() / 4 {
            self.pending.shrink_to(2 * self.pending.len());
        }
    }
}

impl Graveyard {
    /// Frees every version as the engine ends. Versions that are still linked as the newest belong to their table's row
    /// map.
    ///
    /// Not a destructor: a graveyard that is dropped earlier, by a panic halfway through a commit, leaks, because
    /// readers may still reach its versions. So this is for a caller that knows that there are none, which `&mut` of
    /// the whole engine proves.
    pub(crate) fn free_all(&mut self) {
        let kept = core::mem::take(&mut self.kept).into_values().flat_map(|kept| kept.dead);
        let queues = [&mut self.fresh, &mut self.again, &mut self.unlinked];
        let queued = queues.into_iter().flat_map(|queue| queue.drain(..));
        for dead in
            kept.chain(queued).chain(self.pending.drain(..)).filter(|dead| dead.rest != DeadVersionKind::Deleted)
        {
            dead.free(&mut Spares::none());
        }
    }
}

/// Frees the garbage of a table that goes. Versions that are still linked as the newest belong to its row map. Returns
/// their number and their bytes. Only for a caller that has the table alone, and all of its garbage: no reader can
/// reach it.
pub(crate) fn free_all_of(dead: Vec<Dead>) -> (usize, usize) {
    let mut freed = (0, 0);
    for dead in dead.into_iter().filter(|dead| dead.rest != DeadVersionKind::Deleted) {
        freed = (freed.0 + 1, freed.1 + dead.free(&mut Spares::none()).bytes);
    }
    freed
}
