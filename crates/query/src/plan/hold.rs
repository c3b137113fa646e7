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
    /// As one that writes to it: in mode ROW EXCLUSIVE.
    Write,
    /// In this mode.
    Lock(TableLock, Wait),
    /// In mode ROW SHARE, as one that waits for no row: its statement takes no table from less important transactions.
    Hasty,
}

impl TableUse {
    /// Takes the lock, for the rest of the transaction.
    ///
    /// # Errors
    /// Those of [`Txn::announce`] and [`Txn::lock_table`].
    pub fn take(&self, txn: &Txn<'_>) -> engine::Result<()> {
        self.hold.take(txn, &self.table)
    }
}

impl Hold {
    /// Takes this lock of the table, for the rest of the transaction.
    ///
    /// # Errors
    /// Those of [`Txn::announce`] and [`Txn::lock_table`].
    pub fn take(self, txn: &Txn<'_>, table: &TableInfo) -> engine::Result<()> {
        match self {
            Hold::Write => txn.announce(&table.table),
            Hold::Lock(mode, wait) => txn.lock_table(&table.table, mode, wait),
            Hold::Hasty => txn.lock_table(&table.table, TableLock::RowShare, Wait::Block),
        }
    }
}
