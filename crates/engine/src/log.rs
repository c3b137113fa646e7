//! The log: the destination of a commit's redo record.
//!
//! **Invariant:** a commit appends one record and gets the position that must be reached before anyone may be told of
//! it. Nothing in the engine waits for that: the caller holds replies back.

/// A position in the log: bytes before the end of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LogPosition(pub u64);

/// A log. It may be called in an urgent context, so it neither blocks nor does I/O; nor does it panic, because the
/// commit is decided when it is told.
pub trait Log: Send + Sync {
    /// Returns true if the log keeps records at all. If not, commits make none, and await the position that is the end
    /// when they commit.
    fn keeps_records(&self) -> bool {
        true
    }
    /// Appends one record and returns the position behind it.
    fn append(&self, record: &[u8]) -> LogPosition;
    /// Returns the position behind all records so far: the most that a transaction that only reads may have seen.
    fn end(&self) -> LogPosition;
    /// Returns true if everything before `position` is safe.
    fn reached(&self, position: LogPosition) -> bool;
}

/// Log of an engine that keeps nothing: every position is reached as soon as it exists.
#[derive(Debug, Default)]
pub struct AlwaysReached;

impl Log for AlwaysReached {
    fn keeps_records(&self) -> bool {
        false
    }

    fn append(&self, _record: &[u8]) -> LogPosition {
        LogPosition::default()
    }

    fn end(&self) -> LogPosition {
        LogPosition::default()
    }

    fn reached(&self, _position: LogPosition) -> bool {
        true
    }
}
