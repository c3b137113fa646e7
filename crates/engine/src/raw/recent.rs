//! Record of one write of a committed SERIALIZABLE transaction, for others to compare with their reads.
//!
//! **Invariant:** a caller that asks for the versions of a write holds the pin of its own transaction, or that of a
//! live SERIALIZABLE transaction that may write and whose snapshot is below the write's timestamp. Then neither version
//! was freed: the older one ended, and the newer one began, after that snapshot, which holds back the horizon, and
//! [`super::slots::Registry::serial_floor`] keeps pruning away from versions that began after it. Writes that no caller
//! can ask for any more may name versions that are gone.

use super::chain::Change;
use super::slots::{HeldSlot, SnapshotPin};
use super::version::{Version, VersionPtr};

/// A write of a commit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecentWrite {
    pub(crate) row: u64,
    pub(crate) table: u32,
    /// True if it stands for any rows of the table, whose images are not compared.
    pub(crate) is_any: bool,
    before: Option<VersionPtr>,
    after: Option<VersionPtr>,
}

impl RecentWrite {
    /// Creates the record of a change of the row, as others see it: versions that the transaction itself replaced are
    /// left out. Returns none if no other is left.
    pub(crate) fn new(held: &HeldSlot<'_>, table: u32, row: u64, change: &Change) -> Option<RecentWrite> {
        let (before, after) = change.seen_by_others(held);
        let (before, after) = (before.map(Version::pointer), after.map(Version::pointer));
        let write = RecentWrite { row, table, is_any: false, before, after };
        (before.is_some() || after.is_some()).then_some(write)
    }

    /// Creates the record of writes to any rows of a table: very many writes.
    pub(crate) fn any(table: u32) -> RecentWrite {
        RecentWrite { row: 0, table, is_any: true, before: None, after: None }
    }

    /// Returns the version that the write ended.
    pub(crate) fn before<'p>(&self, pin: &'p SnapshotPin) -> Option<&'p Version> {
        self.before.map(|version| version.get(pin))
    }

    /// Returns the version that the write made.
    pub(crate) fn after<'p>(&self, pin: &'p SnapshotPin) -> Option<&'p Version> {
        self.after.map(|version| version.get(pin))
    }
}
