//! Index entries: adding them under the uniqueness rule, and removing those that are not needed.
//!
//! **Invariant:** of two rows that want one unique key, the second decides under the leaf's latch, against the newest
//! version of the first, committed or not. An entry goes when no version that any live snapshot can reach has its key;
//! that too is decided under the latch, and a transaction that publishes a version with the key inserts the entry after
//! publishing, so one of the two sees the other.

use crate::frozen::block::Block;
use crate::raw::chain::{KeyHeld, NowLooks};
use crate::raw::horizon::Pass;
use crate::raw::rows::NewestState;
use crate::raw::slots::HeldSlot;
use crate::raw::version::Version;
use crate::row::key;
use crate::row::layout::Image;
use crate::schema::table::{Index, Table};
use crate::txn::scratch::{Scratch, Write};
use preempt::Region;

/// A key to be added for a row.
pub(crate) struct NewKey<'a> {
    pub(crate) table: &'a Table,
    /// Position of the index.
    pub(crate) position: usize,
    pub(crate) key: &'a [u8],
    /// True if a column of the key is null; such keys are equal to none.
    pub(crate) has_null: bool,
    pub(crate) row: u64,
}

/// Result of adding an entry.
pub(crate) enum Added {
    New,
    /// The row had the key before, and still has the entry.
    Present,
    /// Another row has the key.
    Taken,
    /// The answer depends on the transaction whose word this is, which is active.
    Undecided(u64),
}

/// Adds the entry.
#[inline]
pub(crate) fn add(new: &NewKey<'_>, held: &HeldSlot<'_>, buffer: &mut Vec<u8>) -> Added {
    let NewKey { table, row, key, .. } = *new;
    let index = &table.indexes[new.position];
    if !index.def.unique || new.has_null {
        return if index.tree.insert(key, row, &Region::enter()) { Added::New } else { Added::Present };
    }
    let mut state = KeyHeld::Free;
    let mut present = false;
    let result = index.tree.insert_unique(key, row, &Region::enter(), &mut |other| {
        if other == row {
            present = true;
            return false;
        }
        let mut looks = NowLooks::default();
        state = loop {
            let held = match table.rows.newest(other, held.pin()) {
                NewestState::Hot(newest) => held.key_held(newest, |version| table.has_key(index, version, key, buffer)),
                NewestState::Frozen(block, at) if table.block_has_key(index, block, at, key, buffer) => {
                    held.block_key_held(&block.since)
                }
                NewestState::Frozen(..) | NewestState::Nowhere => KeyHeld::Free,
            };
            match held {
                KeyHeld::Ended(version) if looks.confirm(version) => break KeyHeld::Free,
                KeyHeld::Ended(_) => {}
                held @ (KeyHeld::Free | KeyHeld::Taken | KeyHeld::Undecided(_)) => break held,
            }
        };
        !matches!(state, KeyHeld::Free)
    });
    match (result, state) {
        (Ok(()), _) if present => Added::Present,
        (Ok(()), _) => Added::New,
        (Err(_), KeyHeld::Undecided(word)) => Added::Undecided(word),
        (Err(_), KeyHeld::Taken | KeyHeld::Free | KeyHeld::Ended(_)) => Added::Taken,
    }
}

/// Removes the entries that an undone change added, unless a later change needs them.
pub(crate) fn remove_added(table: &Table, held: &HeldSlot<'_>, new: &Version, write: &Write, scratch: &mut Scratch) {
    for (position, index) in table.indexes.iter().enumerate() {
        if write.keys_added & (1 << position) == 0 {
            continue;
        }
        let Scratch { key, other_key, .. } = scratch;
        key::of_image(index, table.image(new), key);
        index.tree.remove_if(key, write.row, &Region::enter(), &mut || {
            !row_has_key(table, index, held, held.snapshot(), write.row, key, other_key)
        });
    }
}

/// Removes the entry of a dead version's key, if no version that any reader can reach has the key.
pub(crate) fn remove_left(table: &Table, index: &Index, pass: &Pass<'_>, version: &Version, scratch: &mut Scratch) {
    let Scratch { key, other_key, .. } = scratch;
    key::of_image(index, table.image(version), key);
    index.tree.remove_if(key, version.row(), &Region::enter(), &mut || {
        !row_has_key(table, index, pass.held(), pass.horizon, version.row(), key, other_key)
    });
}

/// Returns true if a version of the row that a reader with a snapshot from `floor` on can reach, or its place in a
/// block, has the key.
fn row_has_key(
    table: &Table,
    index: &Index,
    held: &HeldSlot<'_>,
    floor: u64,
    row: u64,
    key: &[u8],
    buffer: &mut Vec<u8>,
) -> bool {
    match table.rows.newest(row, held.pin()) {
        NewestState::Hot(newest) => {
            held.any_version(newest, floor, |version| table.has_key(index, version, key, buffer))
        }
        NewestState::Frozen(block, at) => table.block_has_key(index, block, at, key, buffer),
        NewestState::Nowhere => false,
    }
}

impl Table {
    /// Returns the columns of a version.
    #[inline]
    pub(crate) fn image<'a>(&'a self, version: &'a Version) -> Image<'a> {
        Image { layout: &self.layout, bytes: version.image() }
    }

    /// Returns true if the version's key in `index`, where an entry claims that it is `key`, really is.
    #[inline]
    pub(crate) fn has_key(&self, index: &Index, version: &Version, key: &[u8], buffer: &mut Vec<u8>) -> bool {
        if !index.needs_recheck() {
            return true;
        }
        key::of_image(index, self.image(version), buffer);
        buffer == key
    }

    /// Returns true if the key of a frozen row in `index` really is `key`.
    #[inline]
    pub(crate) fn block_has_key(
        &self,
        index: &Index,
        block: &Block,
        at: usize,
        key: &[u8],
        buffer: &mut Vec<u8>,
    ) -> bool {
        if !index.needs_recheck() {
            return true;
        }
        key::of_block(self, index, block, at, buffer);
        buffer == key
    }
}
