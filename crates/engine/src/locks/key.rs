//! Keys of locks: the things that are locked.

use super::mode::Mode;
use core::hash::{Hash, Hasher};
use std::sync::Arc;

/// A wanted lock, for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WantedLock {
    /// Number of the table, or of the row's table, as [`crate::Table::number`] returns it.
    pub table: Option<u32>,
    /// Row.
    pub row: Option<u64>,
    /// Transaction whose end is waited for. Then there is no table.
    pub transaction: Option<u64>,
    /// Number of the application's own. Then there is no table.
    pub advisory: Option<Advisory>,
    /// Mode, as in SQL; `transaction` for the wait for a transaction's end.
    pub mode: &'static str,
}

/// Key that an application locks by a number of its own, which means nothing to the engine. One number is never equal
/// to two. Holders of such a lock are told apart from all writers, as it is no table's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Advisory {
    /// Single number.
    One(i64),
    /// Two numbers.
    Two(i32, i32),
    /// Number of the program that has the engine, which its users cannot name.
    Program(u32),
}

/// A session of a cycle of sessions that waited for one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waited {
    /// Name of the session.
    pub session: Arc<str>,
    /// Lock that the session waited for.
    pub wanted: WantedLock,
}

/// Key of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Row {
        table: u32,
        row: u64,
    },
    Table(u32),
    /// End of a transaction, by its owner word.
    Transaction(u64),
    Advisory(Advisory),
}

impl Key {
    /// Returns this key in that mode, for display.
    pub(crate) fn wanted(self, mode: Mode) -> WantedLock {
        let (table, row) = match self {
            Key::Row { table, row } => (Some(table), Some(row)),
            Key::Table(table) => (Some(table), None),
            Key::Transaction(_) | Key::Advisory(_) => (None, None),
        };
        let advisory = if let Key::Advisory(advisory) = self { Some(advisory) } else { None };
        let transaction = if let Key::Transaction(transaction) = self { Some(transaction) } else { None };
        WantedLock { table, row, transaction, advisory, mode: mode.name() }
    }

    /// Returns a well mixed hash of the key.
    #[inline]
    pub(crate) fn mixed(self) -> u64 {
        let (kind, what) = match self {
            Key::Row { table, row } => (u64::from(table) << 2, row),
            Key::Table(table) => (1, u64::from(table)),
            Key::Transaction(owner) => (2, owner),
            Key::Advisory(Advisory::One(number)) => (3, number as u64),
            Key::Advisory(Advisory::Program(number)) => (11, u64::from(number)),
            Key::Advisory(Advisory::Two(high, low)) => (7, u64::from(high as u32) << 32 | u64::from(low as u32)),
        };
        // The finisher of SplitMix64.
        let mut mixed = what.wrapping_add(kind.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.mixed());
    }
}

/// Hasher that takes the key's own hash as it is. (The standard one would make its seed on first use.)
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, mixed: u64) {
        self.0 = mixed;
    }
}
