//! The protocol on a row's chain of versions: reading, claiming, taking, publishing, undoing, stamping.
//!
//! **Invariant:** the end word of a row's newest version whose creator is not aborted is the row's exclusive lock. Only
//! its owner publishes versions, so every live transaction's version has as `prev` the version whose end word it owns,
//! and `prev` chains hold no aborted version in their middle. An aborted transaction's words and versions may be passed
//! over, and taken over, by anyone at any time; it undoes only what still carries its name. See `README.md` here.

use super::slots::{Fate, HeldSlot, MOVED, NEVER, Registry, STRONG, SnapshotPin, UNCOMMITTED, command_of, owner_of};
use super::version::{DUTY, NewVersion, RowCell, SOLE, Version, VersionPtr};
use crate::sync::{Acquire, AtomicU64, Release, SeqCst};

/// View of a reader: the effects that it sees.
#[derive(Debug, Clone, Copy)]
pub struct View {
    /// Timestamp up to which commits are seen.
    pub snapshot: u64,
    /// Words of the reader itself, with command 0; 0 for a reader that writes nothing.
    pub owner: u64,
    /// Command below which the reader's own effects are seen.
    pub command: u32,
}

/// Result of one look at a row's present state, beyond any snapshot.
#[derive(Clone, Copy)]
pub(crate) enum NowLook<'p> {
    /// The row has this version.
    Exists(&'p Version),
    /// The version that the row had last has ended.
    Ended(&'p Version),
    /// No transaction that has committed, nor the reader itself, has made the row.
    Absent,
}

/// Looks at a row's present state, in turn.
///
/// **Invariant:** a row is gone only if two looks one after the other find that the same version has ended. One look is
/// not enough: a successor may be published after the look has passed the place where it would be, and be committed
/// before the look reads the end word of the version that it replaces. A second look finds this successor, because its
/// transaction had committed before that look began. Looks at a snapshot need none of this: a successor that they miss
/// is committed after the snapshot, and then so is the end that they read.
#[derive(Default)]
pub(crate) struct NowLooks<'p>(Option<&'p Version>);

impl<'p> NowLooks<'p> {
    /// Returns true if the look before has found the end of this version, too. If not, the caller looks again.
    #[inline]
    pub(crate) fn confirm(&mut self, ended: &'p Version) -> bool {
        self.0.replace(ended).is_some_and(|before| std::ptr::eq(before, ended))
    }
}

/// Meaning of a begin or an end word now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    Never,
    /// End word only: the version lives on as a row of a block.
    Moved,
    Committed(u64),
    Mine,
    Active(u64),
    Aborted(u64),
}

impl Registry {
    /// Returns true if `view` sees the effect that carries the word.
    #[inline]
    fn sees(&self, place: &AtomicU64, view: View) -> bool {
        let word = place.load(Acquire);
        if word & UNCOMMITTED == 0 { word <= view.snapshot } else { self.sees_uncommitted(place, word, view) }
    }

    fn sees_uncommitted(&self, place: &AtomicU64, mut word: u64, view: View) -> bool {
        loop {
            if word & UNCOMMITTED == 0 {
                return word <= view.snapshot;
            }
            if owner_of(word) == view.owner {
                return command_of(word) < view.command;
            }
            match self.fate(word) {
                Fate::Active | Fate::Aborted => return false,
                Fate::Committed(timestamp) => return timestamp <= view.snapshot,
                Fate::Moved => word = place.load(Acquire),
            }
        }
    }

    /// Returns true if `view` sees all rows of a block, whose begin word this is.
    pub(crate) fn sees_block(&self, since: &AtomicU64, view: View) -> bool {
        self.sees(since, view)
    }

    /// Returns the version of the row that `view` sees.
    #[cfg(feature = "shuttle")]
    pub fn visible<'p>(&self, cell: &RowCell, pin: &'p SnapshotPin, view: View) -> Option<&'p Version> {
        self.visible_after(cell.load(pin)?, pin, view, || ())
    }

    /// Returns the version that `view` sees, from the row's newest on; `passed` is called for each newer one. An old
    /// snapshot may have to pass very many.
    #[inline]
    pub(crate) fn visible_after<'p>(
        &self,
        newest: &'p Version,
        pin: &'p SnapshotPin,
        view: View,
        mut passed: impl FnMut(),
    ) -> Option<&'p Version> {
        let mut version = newest;
        loop {
            if self.sees(&version.begin, view) {
                return if self.sees(&version.end, view) { None } else { Some(version) };
            }
            version = version.prev(pin)?;
            passed();
        }
    }

    /// Looks at a row, from its newest version on, for a `view` of the [`LATEST`](super::slots::LATEST) commits. Such a
    /// look is not of one moment: see [`NowLooks`].
    pub(crate) fn look_now<'p>(&self, newest: &'p Version, pin: &'p SnapshotPin, view: View) -> NowLook<'p> {
        let mut version = newest;
        while !self.sees(&version.begin, view) {
            let Some(prev) = version.prev(pin) else { return NowLook::Absent };
            version = prev;
        }
        if self.sees(&version.end, view) { NowLook::Ended(version) } else { NowLook::Exists(version) }
    }

    pub(super) fn said(&self, place: &AtomicU64, owner: u64) -> Said {
        loop {
            let word = place.load(Acquire);
            if word == NEVER {
                return Said::Never;
            }
            if word & UNCOMMITTED == 0 {
                return if word == MOVED { Said::Moved } else { Said::Committed(word) };
            }
            if owner_of(word) == owner {
                return Said::Mine;
            }
            match self.fate(word) {
                Fate::Active => return Said::Active(word),
                Fate::Committed(timestamp) => return Said::Committed(timestamp),
                Fate::Aborted => return Said::Aborted(word),
                Fate::Moved => {}
            }
        }
    }
}

impl HeldSlot<'_> {
    /// Returns true if our snapshot is older than the version, which another transaction has committed.
    #[inline]
    pub(crate) fn is_before(&self, version: &Version) -> bool {
        matches!(self.registry.said(&version.begin, self.owner), Said::Committed(began) if self.snapshot() < began)
    }

    /// Returns true if this transaction made the version.
    pub(crate) fn is_own(&self, version: &Version) -> bool {
        matches!(self.registry.said(&version.begin, self.owner), Said::Mine)
    }

    /// Records on our version that we had the row to ourselves when we made it.
    pub(crate) fn had_alone(&self, version: &Version) {
        version.set_flag(SOLE);
    }

    /// Returns true if another transaction has committed a change of the row since our snapshot for which it had the
    /// row to itself.
    pub(crate) fn misses_sole_change(&self, newest: &Version) -> bool {
        let mut next = Some(newest);
        while let Some(version) = next {
            let is_others = match self.registry.said(&version.begin, self.owner) {
                Said::Committed(timestamp) if timestamp <= self.snapshot() => return false,
                Said::Committed(_) => true,
                Said::Never | Said::Moved | Said::Aborted(_) | Said::Mine | Said::Active(_) => false,
            };
            next = version.prev(self.pin());
            if is_others && version.flags() & SOLE != 0 {
                return true;
            }
        }
        false
    }

    /// Returns true if a version of the row satisfies `has_key`, down to the newest that began at or before `floor`:
    /// our snapshot, or the horizon at which a pass is pinned. With the latter that is all that any reader can reach.
    pub(crate) fn any_version(&self, newest: &Version, floor: u64, mut has_key: impl FnMut(&Version) -> bool) -> bool {
        let mut next = Some(newest);
        while let Some(version) = next {
            match self.registry.said(&version.begin, self.owner) {
                Said::Never | Said::Moved | Said::Aborted(_) => {}
                Said::Committed(timestamp) if timestamp <= floor => return has_key(version),
                Said::Committed(_) | Said::Mine | Said::Active(_) => {
                    if has_key(version) {
                        return true;
                    }
                }
            }
            next = version.prev(self.pin());
        }
        false
    }
}

impl Registry {
    /// Returns the active transaction that has the row, by its owner, and whether one of its claims is a strong one.
    pub(crate) fn holder(&self, newest: &Version, pin: &SnapshotPin) -> Option<(u64, bool)> {
        let mut next = Some(newest);
        let mut holder = None;
        let mut is_strong = false;
        while let Some(version) = next {
            // With no owner of our own: what is ours is an active transaction's like others'.
            if let Said::Active(word) = self.said(&version.end, 0) {
                is_strong |= word & STRONG != 0;
                holder = Some(owner_of(word));
            }
            match self.said(&version.begin, 0) {
                Said::Never | Said::Moved | Said::Aborted(_) => {}
                Said::Committed(_) | Said::Mine => break,
                Said::Active(word) => {
                    holder = Some(owner_of(word));
                    // Of a row that it has made itself it may do anything.
                    is_strong |= version.prev(pin).is_none();
                }
            }
            next = version.prev(pin);
        }
        holder.map(|holder| (holder, is_strong))
    }
}

/// Result of a claim of a row.
pub enum Claim<'p> {
    /// The row is ours: the end word of this version carries our word.
    Claimed(&'p Version),
    /// The row does not exist in our view.
    NotFound,
    /// Another transaction changed the row after the time that we read at.
    Changed,
    /// Another transaction, whose word this is, has the row and is active.
    Held(u64),
    /// The cell is empty, maybe since this moment: look into the block.
    Moved,
    /// A later command of the transaction, nested in this one, has changed or deleted the row.
    ChangedWithin,
}

/// Holder of the key that a transaction wants to insert.
#[derive(Clone, Copy)]
pub(crate) enum KeyHeld<'p> {
    /// No row holds the key, once the transactions that are decided now are done.
    Free,
    /// The key is free if [`NowLooks`] confirms that the row of this version is gone.
    Ended(&'p Version),
    /// A row that exists holds the key.
    Taken,
    /// The answer depends on the transaction whose word this is, which is active.
    Undecided(u64),
}

impl HeldSlot<'_> {
    /// Claims the row for a change: the newest version's end word becomes ours, with this command. With `latest` the
    /// newest committed version is claimed, whatever our snapshot sees.
    ///
    /// Fails without waiting when another transaction holds the row. The claim of one that was aborted passes to us by
    /// one compare-and-swap.
    #[inline]
    pub fn claim<'p>(&'p self, cell: &RowCell, command: u32, strong: bool, latest: bool) -> Claim<'p> {
        let registry = self.registry;
        let skip_check = preempt::plants::is_planted("conflict_check_skipped");
        let seen = if latest || skip_check { NEVER } else { self.snapshot() };
        let word = self.word(command) | if strong { STRONG } else { 0 };
        'again: loop {
            let Some(top) = cell.load(self.pin()) else { return Claim::Moved };
            let mut base = top;
            loop {
                match registry.said(&base.begin, self.owner) {
                    Said::Committed(timestamp) if seen < timestamp => return Claim::Changed,
                    Said::Mine if command < command_of(base.begin.load(Acquire)) => return Claim::ChangedWithin,
                    Said::Committed(_) | Said::Mine => break,
                    Said::Never | Said::Moved | Said::Aborted(_) => match base.prev(self.pin()) {
                        Some(prev) => base = prev,
                        None => return Claim::NotFound,
                    },
                    Said::Active(word) => return Claim::Held(word),
                }
            }
            let expected = match registry.said(&base.end, self.owner) {
                Said::Never => NEVER,
                Said::Aborted(word) => word,
                Said::Mine if command < command_of(base.end.load(Acquire)) => return Claim::ChangedWithin,
                Said::Mine => return Claim::NotFound,
                Said::Moved => {
                    registry.vacate(cell, base, self.pin());
                    return Claim::Moved;
                }
                // Its successor came after we looked at the cell.
                Said::Committed(_)
                    if seen == NEVER && !cell.load(self.pin()).is_some_and(|now| std::ptr::eq(now, top)) =>
                {
                    continue 'again;
                }
                Said::Committed(timestamp) if self.snapshot() < timestamp => return Claim::Changed,
                Said::Committed(_) => return Claim::NotFound,
                Said::Active(word) => return Claim::Held(word),
            };
            // Exactly one of the claimants, takers and the undoing victim wins this word.
            if base.end.compare_exchange(expected, word, SeqCst, Acquire).is_ok() {
                return Claim::Claimed(base);
            }
        }
    }

    /// Makes our claim of `base` a strong one. Fails if a more important transaction took the row meanwhile.
    pub(crate) fn strengthen(&self, base: &Version) -> Result<(), Taken> {
        let word = base.end.load(Acquire);
        if owner_of(word) != self.owner {
            return Err(Taken);
        }
        base.end.compare_exchange(word, word | STRONG, SeqCst, Acquire).map(|_| ()).map_err(|_| Taken)
    }

    /// Publishes `new` over the claimed `base`. Fails if a more important transaction took the row meanwhile.
    #[inline]
    pub fn publish<'p>(&'p self, cell: &RowCell, base: &Version, new: NewVersion) -> Result<&'p Version, Taken> {
        let pin = self.pin();
        let mut new = match cell.publish(Some(base), new, pin) {
            Ok(version) => return Ok(version),
            Err(new) => new,
        };
        // On top of `base` are versions of aborted transactions, ours to link over, or those of a taker.
        loop {
            let top = cell.load(pin).ok_or(Taken)?;
            let mut below = top;
            while !std::ptr::eq(below, base) {
                match self.registry.said(&below.begin, self.owner) {
                    Said::Never | Said::Aborted(_) => below = below.prev(pin).ok_or(Taken)?,
                    Said::Committed(_) | Said::Moved | Said::Mine | Said::Active(_) => return Err(Taken),
                }
            }
            match cell.publish(Some(top), new, pin) {
                Ok(version) => return Ok(version),
                Err(back) => new = back,
            }
        }
    }

    /// Publishes the first version of a new row.
    #[inline]
    pub(crate) fn publish_first<'p>(&'p self, cell: &RowCell, new: NewVersion) -> &'p Version {
        match cell.publish(None, new, self.pin()) {
            Ok(version) => version,
            Err(_) => unreachable!("nobody else knows the id of a new row"),
        }
    }

    /// Undoes one change, the latest first: the map goes back to `base` if our version still is on top, the claim is
    /// released if it still is ours, and our version is marked as never created. It then belongs to no chain.
    pub fn undo(&self, cell: &RowCell, base: Option<&Version>, new: Option<&Version>) {
        if let Some(new) = new {
            cell.restore(new, base);
        }
        if let Some(base) = base {
            let word = base.end.load(Acquire);
            if owner_of(word) == self.owner {
                // A failure means that a taker was faster.
                let _ = base.end.compare_exchange(word, NEVER, SeqCst, Acquire);
            }
        }
        if let Some(new) = new {
            new.begin.store(NEVER, Release);
        }
    }

    /// Returns the holder of a key that we want, in the newest state of a row: `has_key` tells whether a version has
    /// it.
    pub(crate) fn key_held<'p>(
        &'p self,
        newest: &'p Version,
        mut has_key: impl FnMut(&Version) -> bool,
    ) -> KeyHeld<'p> {
        let mut next = Some(newest);
        // Creator of the versions met so far, which may still abort.
        let mut pending = None;
        while let Some(version) = next {
            match self.registry.said(&version.begin, self.owner) {
                Said::Never | Said::Moved | Said::Aborted(_) => next = version.prev(self.pin()),
                Said::Active(word) if has_key(version) => return KeyHeld::Undecided(word),
                Said::Active(word) => {
                    pending = Some(word);
                    next = version.prev(self.pin());
                }
                Said::Committed(_) | Said::Mine => {
                    if !has_key(version) {
                        return KeyHeld::Free;
                    }
                    if let Some(word) = pending {
                        return KeyHeld::Undecided(word); // It comes back if the transaction above it aborts.
                    }
                    return match self.registry.said(&version.end, self.owner) {
                        Said::Never | Said::Moved | Said::Aborted(_) => KeyHeld::Taken,
                        Said::Mine => KeyHeld::Free,
                        Said::Committed(_) => KeyHeld::Ended(version),
                        Said::Active(word) => KeyHeld::Undecided(word),
                    };
                }
            }
        }
        KeyHeld::Free
    }
}

impl HeldSlot<'_> {
    /// Returns whether the rows of a block, whose begin word this is, hold their keys.
    pub(crate) fn block_key_held(&self, since: &AtomicU64) -> KeyHeld<'static> {
        match self.registry.said(since, self.owner) {
            Said::Never | Said::Moved | Said::Aborted(_) => KeyHeld::Free,
            Said::Committed(_) | Said::Mine => KeyHeld::Taken,
            Said::Active(word) => KeyHeld::Undecided(word),
        }
    }

    /// Returns the time from which the rows of a block, whose begin word this is, exist: none if they do not, or may
    /// not yet.
    pub(crate) fn block_since(&self, since: &AtomicU64) -> Option<u64> {
        match self.registry.said(since, self.owner) {
            Said::Committed(timestamp) => Some(timestamp),
            Said::Never | Said::Moved | Said::Aborted(_) | Said::Mine | Said::Active(_) => None,
        }
    }
}

impl HeldSlot<'_> {
    /// Ends the hot life of a row's newest version, whose content a published block has too: no transaction can claim
    /// it any more, and its cell is empty. Returns none if a transaction has claimed it. The caller retires it.
    pub(crate) fn move_to_block(&self, cell: &RowCell, version: &Version) -> Option<VersionPtr> {
        version.end.compare_exchange(NEVER, MOVED, SeqCst, Acquire).ok()?;
        self.registry.vacate(cell, version, self.pin());
        Some(version.pointer())
    }
}

impl Registry {
    /// Empties the cell of a row whose committed version `moved` went to a block, if that was not done before.
    ///
    /// On top of it may stand versions of aborted transactions whose owners have not undone them yet: they go with it.
    /// Such an owner then finds neither its version nor `moved` in the cell, and leaves it alone.
    pub(super) fn vacate(&self, cell: &RowCell, moved: &Version, pin: &SnapshotPin) {
        while let Some(top) = cell.load(pin) {
            let mut below = top;
            while !std::ptr::eq(below, moved) {
                match (self.said(&below.begin, 0), below.prev(pin)) {
                    (Said::Never | Said::Aborted(_), Some(prev)) => below = prev,
                    _ => return, // The row was thawed since.
                }
            }
            if cell.vacate(top) {
                return;
            }
        }
    }
}

#[cfg(feature = "shuttle")]
impl HeldSlot<'_> {
    /// Returns true if the newest version is committed and stamped, and no transaction has claimed it.
    pub(crate) fn is_at_rest(&self, cell: &RowCell) -> bool {
        cell.load(self.pin()).is_some_and(|newest| {
            let begin = newest.begin.load(Acquire);
            begin & UNCOMMITTED == 0 && begin != NEVER && newest.end.load(Acquire) == NEVER
        })
    }
}

/// Error: a more important transaction took the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken;

/// A change in the write set: the version claimed, and the one made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change {
    base: Option<VersionPtr>,
    new: Option<VersionPtr>,
}

impl Change {
    /// Creates the change for a claim of `base`, or for a new row.
    #[inline]
    pub(crate) fn claim(base: Option<&Version>) -> Change {
        Change { base: base.map(Version::pointer), new: None }
    }

    /// Adds the version that was published for it.
    #[inline]
    pub(crate) fn made(&mut self, new: &Version) {
        self.new = Some(new.pointer());
    }

    /// Replaces the transaction's word by its commit timestamp. The status word said so already.
    #[inline]
    pub(crate) fn stamp(&self, pin: &SnapshotPin, timestamp: u64) {
        if let Some(new) = self.published(pin) {
            new.begin.store(timestamp, Release);
        }
        if let Some(base) = self.claimed(pin) {
            base.end.store(timestamp, Release);
        }
    }

    /// Returns the version that the change ended and the one that it made, without those that only its own transaction
    /// ever saw. Between the transaction's decision and its stamping.
    pub(crate) fn seen_by_others<'p>(&self, held: &'p HeldSlot<'_>) -> (Option<&'p Version>, Option<&'p Version>) {
        let is_own = |word: &AtomicU64| owner_of(word.load(Acquire)) == held.owner;
        let before = self.claimed(held.pin()).filter(|base| !is_own(&base.begin));
        let after = self.published(held.pin()).filter(|new| !is_own(&new.end));
        (before, after)
    }

    /// Returns the version that died with the commit.
    #[inline]
    pub(crate) fn dead_by_commit(&self) -> Option<VersionPtr> {
        self.base
    }

    /// Records on the version that dies with the commit that an index may have an entry only for its key. Before the
    /// stamping: a reader that finds the end stamped finds this too.
    #[cold]
    pub(crate) fn leave_duty(&self, pin: &SnapshotPin) {
        if let Some(base) = self.claimed(pin) {
            base.set_flag(DUTY);
        }
    }

    /// Returns the version that died with the undo.
    pub(crate) fn dead_by_undo(&self) -> Option<VersionPtr> {
        self.new
    }

    #[inline]
    pub(crate) fn claimed<'p>(&self, pin: &'p SnapshotPin) -> Option<&'p Version> {
        self.base.map(|base| base.get(pin))
    }

    #[inline]
    pub(crate) fn published<'p>(&self, pin: &'p SnapshotPin) -> Option<&'p Version> {
        self.new.map(|new| new.get(pin))
    }
}
