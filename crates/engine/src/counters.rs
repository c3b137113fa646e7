//! Counters: one line for each transaction slot, written by the slot's holder alone and summed on demand. A table's
//! counters have a few lines, which slots share.

use core::array::from_fn;
use core::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// A number that one holder at a time adds to.
#[derive(Debug, Default)]
pub(crate) struct HolderCounter(AtomicU64);

impl HolderCounter {
    /// Adds without a locked instruction: the slot's holder is the only writer.
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(more), Relaxed);
    }

    /// Replaces the number.
    #[inline]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Counters of one slot.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub(crate) commits: HolderCounter,
    pub(crate) aborts: HolderCounter,
    /// Aborts because a more important transaction took a row.
    pub(crate) taken: HolderCounter,
    pub(crate) conflicts: HolderCounter,
    pub(crate) serialization_failures: HolderCounter,
    pub(crate) unique_violations: HolderCounter,
    pub(crate) retries: HolderCounter,
    /// Changes that the open transaction has made.
    pub(crate) writes: HolderCounter,
    /// Rows inserted, and rows deleted, by committed transactions.
    pub(crate) rows_made: HolderCounter,
    pub(crate) rows_deleted: HolderCounter,
    pub(crate) versions_made: HolderCounter,
    pub(crate) versions_freed: HolderCounter,
    pub(crate) bytes_made: HolderCounter,
    pub(crate) bytes_freed: HolderCounter,
    pub(crate) died: HolderCounter,
    /// Dead versions that went although an older snapshot was live.
    pub(crate) pruned: HolderCounter,
    /// Hot rows moved to blocks.
    pub(crate) frozen: HolderCounter,
    /// Frozen rows made hot.
    pub(crate) thawed: HolderCounter,
}

/// Number of lines of one table.
const LINES: usize = 8;

/// Bytes of one table's versions.
#[derive(Debug)]
pub(crate) struct VersionBytes([ByteCounters; LINES]);

/// Bytes that the slots of this line have added and taken away.
#[derive(Debug, Default)]
#[repr(align(128))]
struct ByteCounters {
    all: AtomicI64,
    dead: AtomicI64,
}

impl VersionBytes {
    pub(crate) fn new() -> VersionBytes {
        VersionBytes(from_fn(|_| ByteCounters::default()))
    }

    /// Counts a version that the slot's holder has made.
    #[inline]
    pub(crate) fn made(&self, slot: usize, bytes: usize) {
        self.0[slot % LINES].all.fetch_add(bytes as i64, Relaxed);
    }

    /// Counts versions that have died.
    #[inline]
    pub(crate) fn died(&self, slot: usize, bytes: usize) {
        self.0[slot % LINES].dead.fetch_add(bytes as i64, Relaxed);
    }

    /// Counts dead versions that were freed.
    #[inline]
    pub(crate) fn freed(&self, slot: usize, bytes: usize) {
        let line = &self.0[slot % LINES];
        line.all.fetch_sub(bytes as i64, Relaxed);
        line.dead.fetch_sub(bytes as i64, Relaxed);
    }

    fn sum(&self, of: impl Fn(&ByteCounters) -> &AtomicI64) -> u64 {
        self.0.iter().map(|line| of(line).load(Relaxed)).sum::<i64>().max(0) as u64
    }

    /// Returns the bytes of all versions.
    pub(crate) fn all(&self) -> u64 {
        self.sum(|line| &line.all)
    }

    /// Returns the bytes of dead versions.
    pub(crate) fn dead(&self) -> u64 {
        self.sum(|line| &line.dead)
    }
}

/// Sums up bytes of versions, where consecutive ones are often of one table.
pub(crate) struct BytesByTable<F: FnMut(u32, usize)> {
    table: u32,
    bytes: usize,
    tell: F,
}

impl<F: FnMut(u32, usize)> BytesByTable<F> {
    /// Creates a sum; `tell` gets a table's number and bytes, perhaps several times.
    pub(crate) fn new(tell: F) -> BytesByTable<F> {
        BytesByTable { table: 0, bytes: 0, tell }
    }

    #[inline]
    pub(crate) fn add(&mut self, table: u32, bytes: usize) {
        if table != self.table {
            self.flush();
            self.table = table;
        }
        self.bytes += bytes;
    }

    /// Reports the bytes that were not reported yet.
    #[inline]
    pub(crate) fn flush(&mut self) {
        if self.bytes != 0 {
            (self.tell)(self.table, self.bytes);
            self.bytes = 0;
        }
    }
}
