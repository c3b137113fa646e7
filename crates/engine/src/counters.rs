//! Counters: one line for each transaction slot, written by the slot's holder alone and summed on demand.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that one holder at a time adds to.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds without a locked instruction: the slot's holder is the only writer.
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(more), Relaxed);
    }

    /// Replaces it.
    #[inline]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The counters of one slot.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub(crate) commits: Count,
    pub(crate) aborts: Count,
    /// Aborts because a more important transaction took a row.
    pub(crate) taken: Count,
    pub(crate) conflicts: Count,
    pub(crate) serialization_failures: Count,
    pub(crate) unique_violations: Count,
    pub(crate) retries: Count,
    /// Changes that the open transaction has made.
    pub(crate) writes: Count,
    /// Rows inserted, and rows deleted, by committed transactions.
    pub(crate) rows_made: Count,
    pub(crate) rows_deleted: Count,
    pub(crate) versions_made: Count,
    pub(crate) versions_freed: Count,
    pub(crate) bytes_made: Count,
    pub(crate) bytes_freed: Count,
    pub(crate) died: Count,
    /// Dead versions that went although an older snapshot was live.
    pub(crate) pruned: Count,
    /// Hot rows moved to blocks.
    pub(crate) frozen: Count,
    /// Frozen rows made hot.
    pub(crate) thawed: Count,
}
