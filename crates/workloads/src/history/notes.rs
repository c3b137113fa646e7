//! Notes that sessions take while they run, and the records that the log receives.
//!
//! **Invariant:** a statement's notes are kept only if it succeeded, so a transaction's notes are what its client was
//! told.

use super::model::{Content, Predicate};
use engine::{Log, LogPosition};
use preempt::{Latch, no_preempt};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Maximum number of keys of a history: the bits of a set.
pub const KEYS_MAX: usize = 64;

/// Run of a transaction, from its beginning to its end.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    /// Number of the attempt, not 0: the upper bits of every value that the attempt writes. See [`value_of`].
    pub number: u64,
    /// Session that ran the attempt.
    pub session: usize,
    /// Notes of the statements, in order.
    pub notes: Vec<Note>,
    /// End of the attempt.
    pub end: End,
}

impl Attempt {
    /// Returns true if any write of the attempt is left.
    pub(super) fn has_written(&self) -> bool {
        let mut writes = vec![false];
        for note in &self.notes {
            match note {
                Note::Savepoint => writes.push(false),
                Note::RolledBack => drop(writes.pop()),
                Note::Released => {
                    let inner = writes.pop().unwrap_or(false);
                    *writes.last_mut().expect("the bottom stays") |= inner;
                }
                Note::Wrote { .. } | Note::Removed { .. } => *writes.last_mut().expect("the bottom stays") = true,
                Note::Statement { .. } | Note::Found { .. } | Note::Locked { .. } | Note::Looked { .. } => {}
            }
        }
        writes.contains(&true)
    }
}

/// End of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Commit without writes. Everything that the attempt saw was committed at or before this timestamp.
    Read(u64),
    /// Commit at this timestamp.
    Wrote(u64),
    /// Rollback, requested by the client or for this reason.
    Aborted(&'static str),
}

/// Note of an action or observation of one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Note {
    /// Beginning of a statement with this snapshot. The floor had been committed, and its client told, before.
    Statement {
        /// Number of the snapshot.
        snapshot: u64,
        /// Greatest timestamp that was known to be committed.
        floor: u64,
    },
    /// Row read in the statement's snapshot.
    Found {
        /// Key of the row.
        key: usize,
        /// Value of the row.
        value: u64,
    },
    /// Row read in its newest version, in order to lock it.
    Locked {
        /// Key of the row.
        key: usize,
        /// Value of the row.
        value: u64,
    },
    /// Search with a predicate: these keys, a bit each, are all that the statement's snapshot has.
    Looked {
        /// Predicate of the search.
        predicate: Predicate,
        /// Keys found.
        found: u64,
    },
    /// Row written.
    Wrote {
        /// Key of the row.
        key: usize,
        /// New value.
        value: u64,
        /// Old value, or none if the row was inserted.
        base: Option<u64>,
    },
    /// Row removed.
    Removed {
        /// Key of the row.
        key: usize,
        /// Old value, where the client was told.
        base: Option<u64>,
    },
    /// Savepoint.
    Savepoint,
    /// Rollback to the last savepoint, which is gone, too.
    RolledBack,
    /// Release of the last savepoint; the work after it stays.
    Released,
}

const COUNTER_BITS: u32 = 16;

/// Returns the value that an attempt writes as its `nth`.
pub(super) fn value_of(number: u64, nth: u64) -> u64 {
    debug_assert!(nth < 1 << COUNTER_BITS);
    (number << COUNTER_BITS) | nth
}

/// Returns the number of the attempt that wrote a value.
pub(super) fn writer_of(value: u64) -> u64 {
    value >> COUNTER_BITS
}

/// Number of groups that rows are spread over.
pub(super) const GROUPS: i64 = 8;

/// Returns the row that has this value.
pub(super) fn content_of(value: u64) -> Content {
    // Multiplicative hashing (Knuth, volume 3, section 6.4).
    Content { group: (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61) as i64, value }
}

const _: () = assert!(GROUPS == 1 << (u64::BITS - 61));

/// Changes of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Commit {
    /// Timestamp of the commit.
    pub timestamp: u64,
    /// Changes, in order.
    pub changes: Vec<Change>,
}

/// Change of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    /// Row ID of the engine.
    pub row: u64,
    /// New key, if the change says so.
    pub key: Option<usize>,
    /// New value, if the change says so.
    pub value: Option<u64>,
    /// True if the row was deleted.
    pub is_delete: bool,
}

/// Log that keeps every record. Its positions are the commits' timestamps.
pub(super) struct Recorder {
    records: Latch<Vec<Box<[u8]>>>,
    end: AtomicU64,
}

impl Recorder {
    /// Creates a log without records.
    pub(super) fn new() -> Recorder {
        Recorder { records: Latch::new(Vec::new()), end: AtomicU64::new(0) }
    }

    /// Takes the records since the last call.
    pub(super) fn take(&self) -> Vec<Box<[u8]>> {
        no_preempt(|no_preempt| std::mem::take(&mut *self.records.lock(no_preempt)))
    }
}

impl Log for Recorder {
    fn append(&self, record: &[u8]) -> LogPosition {
        // Position of the timestamp in a record: see `engine::redo`.
        let timestamp = record.get(8..16).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")));
        no_preempt(|no_preempt| self.records.lock(no_preempt).push(record.into()));
        self.end.fetch_max(timestamp, SeqCst);
        LogPosition(timestamp)
    }

    fn end(&self) -> LogPosition {
        LogPosition(self.end.load(SeqCst))
    }

    fn reached(&self, _position: LogPosition) -> bool {
        true
    }
}
