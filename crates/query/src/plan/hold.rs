//! Locks of tables that a statement takes before its snapshot.

use catalog::TableInfo;
use engine::{TableLock, Txn, Wait};
use std::sync::Arc;

/// A lock of a table that a statement takes before its snapshot.
#[derive(Clone, Debug)]
pub struct TableUse {
    /// The table, as the statement was bound to it.
    pub table: Arc<TableInfo>,
    /// Use of the table.
    pub hold: Hold,
}

/// Hold of a statement on a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Lock of a statement that writes: mode ROW EXCLUSIVE.
    Write,
    /// Lock in this mode.
    Lock(TableLock, Wait),
    /// Lock in mode ROW SHARE for NOWAIT or SKIP LOCKED. Less important transactions do not give way to it.
    Hasty,
}

impl TableUse {
    /// Acquires the lock for the rest of the transaction.
    ///
    /// # Errors
    /// Fails as [`Txn::announce`] and [`Txn::lock_table`] do.
    pub fn take(&self, txn: &Txn<'_>) -> engine::Result<()> {
        self.hold.take(txn, &self.table)
    }
}

impl Hold {
    /// Acquires this lock on the table for the rest of the transaction.
    ///
    /// # Errors
    /// Fails as [`Txn::announce`] and [`Txn::lock_table`] do.
    pub fn take(self, txn: &Txn<'_>, table: &TableInfo) -> engine::Result<()> {
        match self {
            Hold::Write => txn.announce(&table.table),
            Hold::Lock(mode, wait) => txn.lock_table(&table.table, mode, wait),
            Hold::Hasty => txn.lock_table(&table.table, TableLock::RowShare, Wait::Block),
        }
    }
}
