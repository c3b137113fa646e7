//! What sessions note while they run, and what the log receives.
//!
//! **Invariant:** a statement's notes are kept only if it succeeded, so a transaction's notes are what its client was told.

use super::model::{Content, Predicate};
use engine::{Log, LogPosition};
use preempt::{Latch, no_preempt};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The most keys of a history: the bits of a set.
pub const KEYS_MAX: usize = 64;

/// One run of one transaction.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    /// Its number, not 0: the upper bits of every value that it writes. See [`value_of`].
    pub number: u64,
    /// The session that ran it.
    pub session: usize,
    /// What it did.
    pub notes: Vec<Note>,
    /// How it ended.
    pub end: End,
}

impl Attempt {
    /// Whether anything is left that it wrote.
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

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It committed without writes. Nothing that it saw was committed after this timestamp.
    Read(u64),
    /// It committed at this timestamp.
    Wrote(u64),
    /// It was rolled back, by its own wish or for this reason.
    Aborted(&'static str),
}

/// What one statement did or saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Note {
    /// A statement began with this snapshot; the floor had been committed, and its client told, before.
    Statement {
        /// The number of the snapshot.
        snapshot: u64,
        /// The greatest timestamp that was known to be committed.
        floor: u64,
    },
    /// A row was read in the statement's snapshot.
    Found {
        /// Its key.
        key: usize,
        /// Its value.
        value: u64,
    },
    /// A row was read in its newest version, to be locked.
    Locked {
        /// Its key.
        key: usize,
        /// Its value.
        value: u64,
    },
    /// These keys, a bit each, were all that the statement's snapshot has of what was looked for.
    Looked {
        /// What was looked for.
        predicate: Predicate,
        /// What was found.
        found: u64,
    },
    /// A row was written.
    Wrote {
        /// Its key.
        key: usize,
        /// The value that it got.
        value: u64,
        /// The value that it had; none if it was inserted.
        base: Option<u64>,
    },
    /// A key lost its row.
    Removed {
        /// The key.
        key: usize,
        /// The value that it had, where the client was told.
        base: Option<u64>,
    },
    /// A savepoint.
    Savepoint,
    /// Everything since the last savepoint was undone; it is gone, too.
    RolledBack,
    /// The last savepoint is gone, what followed it stays.
    Released,
}

const COUNTER_BITS: u32 = 16;

/// The value that an attempt writes as its `nth`.
pub(super) fn value_of(number: u64, nth: u64) -> u64 {
    debug_assert!(nth < 1 << COUNTER_BITS);
    (number << COUNTER_BITS) | nth
}

/// The number of the attempt that wrote a value.
pub(super) fn writer_of(value: u64) -> u64 {
    value >> COUNTER_BITS
}

/// How many groups rows are spread over.
pub(super) const GROUPS: i64 = 8;

/// The row that has this value.
pub(super) fn content_of(value: u64) -> Content {
    // Multiplicative hashing (Knuth, volume 3, section 6.4).
    Content { group: (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61) as i64, value }
}

const _: () = assert!(GROUPS == 1 << (u64::BITS - 61));

/// What a commit changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Commit {
    /// Its timestamp.
    pub timestamp: u64,
    /// Its changes, in order.
    pub changes: Vec<Change>,
}

/// One change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    /// The engine's row.
    pub row: u64,
    /// The key that it got, if the change says so.
    pub key: Option<usize>,
    /// The value that it got, if the change says so.
    pub value: Option<u64>,
    /// Whether the row is gone.
    pub is_delete: bool,
}

/// A log that keeps every record. Its positions are the commits' timestamps.
pub(super) struct Recorder {
    records: Latch<Vec<Box<[u8]>>>,
    end: AtomicU64,
}

impl Recorder {
    /// A log without records.
    pub(super) fn new() -> Recorder {
        Recorder { records: Latch::new(Vec::new()), end: AtomicU64::new(0) }
    }

    /// The records since the last call.
    pub(super) fn take(&self) -> Vec<Box<[u8]>> {
        no_preempt(|no_preempt| std::mem::take(&mut *self.records.lock(no_preempt)))
    }
}

impl Log for Recorder {
    fn append(&self, record: &[u8]) -> LogPosition {
        // Where a record has its timestamp: see `engine::redo`.
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
