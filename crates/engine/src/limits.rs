//! Limits of memory, of open transactions, and of the garbage that open snapshots may hold back.
//!
//! **Invariant:** past a limit a statement that would make it worse gets an error that names it, and no other is
//! affected; as soon as there is room again, writes go on. Memory and versions are summed up each time a slot has made
//! a fixed amount more, so a limit may be passed by that much for each slot in use, and by as much again that it keeps
//! for its next versions ([`crate::raw::spares`]); a write looks at one word.

use crate::engine::Inner;
use crate::error::Limit;
use crate::error::{Error, Result};
use crate::memory;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes that a slot makes between two sums, as a power of two.
const BYTES_BETWEEN_SUMS: u32 = 18;
/// Changes between two sums.
const CHANGES_BETWEEN_SUMS: u64 = 1024;
/// Approximate bytes of an entry of a committed SERIALIZABLE transaction.
const SERIAL_ENTRY_BYTES: u64 = 16;

/// Limits of an engine. (The locks have theirs: [`crate::LockConfig::entries_max`].)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of versions, blocks, indexes and row maps. Past it, or past the process's limit ([`crate::memory`]), inserts, updates and loads get [`Error::Limit`], SQLSTATE
    /// 53200; deletes go on.
    pub memory_bytes: u64,
    /// Transactions open at once, 1 to 4,096; a value outside counts as the nearest of them. Past it a transaction does
    /// not begin: [`Error::Limit`], SQLSTATE 53400.
    pub transactions: usize,
    /// Dead versions that wait because an open transaction or snapshot sees them. Past it all writes get
    /// [`Error::Limit`], SQLSTATE 53400. [`crate::Engine::transactions`] lists the transactions that hold them back.
    pub versions_kept: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { memory_bytes: u64::MAX, transactions: crate::raw::slots::SLOTS_MAX, versions_kept: u64::MAX }
    }
}

/// Limit that was reached.
const NONE: u64 = 0;
const MEMORY_REACHED: u64 = 1;
const VERSIONS_REACHED: u64 = 2;
const PROCESS_IS_FULL: u64 = 3;

/// Number of changes below which a transaction may take some of the process's reserve.
const SMALL_CHANGES: u64 = 256;

/// Limits of an engine, and the one that was reached, if any. On a line of its own: every write reads it.
#[repr(align(128))]
pub(crate) struct LimitState {
    reached: AtomicU64,
    limits: Limits,
    changes: AtomicU64,
}

impl LimitState {
    pub(crate) fn new(limits: Limits) -> LimitState {
        LimitState { reached: AtomicU64::new(NONE), limits, changes: AtomicU64::new(0) }
    }

    /// Notes the bytes that a slot has made, before and now.
    #[inline]
    pub(crate) fn note_bytes(&self, inner: &Inner, before: u64, now: u64) {
        if before >> BYTES_BETWEEN_SUMS != now >> BYTES_BETWEEN_SUMS {
            self.sum_up(inner);
        }
    }

    /// Notes that about `count` versions may have died.
    #[inline]
    pub(crate) fn note_dead(&self, inner: &Inner, count: usize) {
        if self.limits.versions_kept == u64::MAX {
            return;
        }
        let before = self.changes.fetch_add(count as u64, Relaxed);
        if before / CHANGES_BETWEEN_SUMS != (before + count as u64) / CHANGES_BETWEEN_SUMS {
            self.sum_up(inner);
        }
    }

    /// Checks whether a limit is reached.
    #[cold]
    pub(crate) fn sum_up(&self, inner: &Inner) -> u64 {
        let Limits { memory_bytes, versions_kept, .. } = self.limits;
        let is_full = |limit| limit != u64::MAX && limit < inner.memory_bytes();
        let reached = if is_full(memory_bytes) {
            MEMORY_REACHED
        } else if !memory::has_room_beside(usize::MAX, 0) {
            // Bytes promised to others are not taken yet, and a small change is done meanwhile.
            inner.tell_memory();
            PROCESS_IS_FULL
        } else if versions_kept != u64::MAX && versions_kept < inner.held_back.versions() {
            VERSIONS_REACHED
        } else {
            NONE
        };
        self.reached.store(reached, Relaxed);
        reached
    }
}

impl Inner {
    /// Checks that a delete may go on: it makes no version.
    ///
    /// # Errors
    /// [`Error::Limit`]
    #[inline]
    pub(crate) fn check_limits(&self) -> Result<()> {
        if self.limits.reached.load(Relaxed) == VERSIONS_REACHED { self.check_versions() } else { Ok(()) }
    }

    #[cold]
    fn check_versions(&self) -> Result<()> {
        if self.limits.sum_up(self) == VERSIONS_REACHED { Err(Error::Limit(Limit::Versions)) } else { Ok(()) }
    }

    /// Checks that a transaction that has made this many changes may make a version.
    ///
    /// # Errors
    /// [`Error::Limit`]
    #[inline]
    pub(crate) fn check_room(&self, changes: u64) -> Result<()> {
        if self.limits.reached.load(Relaxed) == NONE { Ok(()) } else { self.check_room_again(changes) }
    }

    /// Checks as [`Inner::check_room`] does, with new sums, for a transaction that makes much at a time.
    ///
    /// # Errors
    /// [`Error::Limit`]
    #[cold]
    pub(crate) fn check_room_again(&self, changes: u64) -> Result<()> {
        match self.limits.sum_up(self) {
            PROCESS_IS_FULL if changes < SMALL_CHANGES && memory::has_small_reserve() => Ok(()),
            PROCESS_IS_FULL | MEMORY_REACHED => Err(Error::Limit(Limit::Memory)),
            VERSIONS_REACHED => Err(Error::Limit(Limit::Versions)),
            _ => Ok(()),
        }
    }

    /// Returns the bytes that the engine holds, as far as they grow with the data.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let versions = |sum: u64, slot: &crate::counters::Counters| {
            sum.wrapping_add(slot.bytes_made.get()).wrapping_sub(slot.bytes_freed.get())
        };
        let versions = self.counters[..self.registry.slots_used()].iter().fold(0, versions);
        let tables = self.tables.all();
        let tables = tables.iter().map(|table| table.rows.bytes() + table.index_bytes());
        let recent = self.serial.kept() as u64 * SERIAL_ENTRY_BYTES;
        versions + tables.sum::<u64>() + self.blocks.bytes.get() + recent
    }
}
