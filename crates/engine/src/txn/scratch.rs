//! Scratch memory of a transaction, kept with its slot from one transaction to the next, so that a transaction
//! allocates nothing once it is warm.

use crate::locks::{Key, Mode};
use crate::raw::chain::Change;
use crate::raw::garbage::Graveyard;
use crate::raw::ids::SlotIds;
use crate::raw::spares::Spares;
use crate::row::writer::Touched;
use crate::txn::reads::ReadLog;
use crate::txn::serial::Record;
use std::sync::Arc;

/// Bytes that a buffer may keep between transactions.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Changes that a write set may keep between transactions.
pub(crate) const KEPT_CHANGES_MAX: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Insert,
    Update,
    Delete,
}

/// A change of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Write {
    pub(crate) change: Change,
    pub(crate) row: u64,
    /// Columns that an update may have changed.
    pub(crate) touched: Touched,
    /// Indexes, by bit, to which it added an entry.
    pub(crate) keys_added: u64,
    /// Indexes, by bit, where the old version's key differs from the new one's.
    pub(crate) keys_left: u64,
    pub(crate) table: u32,
    pub(crate) kind: Kind,
}

/// Buffers and the write set of one transaction; the garbage of all those before it on this slot, and their memory.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) writes: Vec<Write>,
    /// Tables whose rows it takes away all at once, in a SERIALIZABLE transaction.
    pub(crate) replaced: Vec<u32>,
    /// Locks of the transaction in the lock table, in the order in which it took them.
    pub(crate) locks: Vec<(Key, Mode)>,
    pub(crate) key: Vec<u8>,
    pub(crate) other_key: Vec<u8>,
    /// Buffer of many keys, one behind the other.
    pub(crate) many: Vec<u8>,
    pub(crate) image: Vec<u8>,
    pub(crate) redo: Vec<u8>,
    pub(crate) reads: ReadLog,
    /// Memory for the next commit at SERIALIZABLE.
    pub(crate) record: Option<Arc<Record>>,
    pub(crate) graveyard: Graveyard,
    /// Memory for the next versions.
    pub(crate) spares: Spares,
    pub(crate) ids: SlotIds,
    /// Transactions since the horizon was last computed.
    pub(crate) since_horizon: u32,
    /// Turn of dropped tables that was seen: see [`crate::drops`].
    pub(crate) turn_seen: u64,
}

impl Scratch {
    /// Prepares it for the next transaction. Buffers that grew out of proportion shrink.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.reads.reset();
        self.writes.clear();
        self.replaced.clear();
        if KEPT_CHANGES_MAX < self.writes.capacity() {
            self.writes = Vec::new();
        }
        for buffer in [&mut self.key, &mut self.other_key, &mut self.many, &mut self.image, &mut self.redo] {
            if KEPT_BYTES_MAX < buffer.capacity() {
                *buffer = Vec::new();
            }
        }
    }
}
