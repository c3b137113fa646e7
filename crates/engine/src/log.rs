//! Where a commit's redo record goes.
//!
//! **Invariant:** a commit hands over one record and gets the position that must be reached before anybody may be told of
//! it. Nothing in the engine waits for that: it is the caller who holds replies back.

/// A position in the log: bytes before the end of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LogPosition(pub u64);

/// A log. It may be called in an urgent context, so it neither blocks nor does I/O; nor does it panic, because the commit
/// is decided when it is told.
pub trait Log: Send + Sync {
    /// Whether it wants records at all. Without, commits make none, and await what is the end when they commit.
    fn keeps_records(&self) -> bool {
        true
    }
    /// Takes one record and returns the position behind it.
    fn append(&self, record: &[u8]) -> LogPosition;
    /// The position behind all records so far: what a transaction that only reads may have seen.
    fn end(&self) -> LogPosition;
    /// Whether everything before `position` is safe.
    fn reached(&self, position: LogPosition) -> bool;
}

/// The log of an engine that keeps nothing: every position is reached as soon as it exists.
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
