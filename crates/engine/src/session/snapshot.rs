//! Snapshots and noted scans of a session's open transaction, as statements of their own.

use super::Session;
use crate::error::Result;
use crate::frozen::scan::Snapshot;
use crate::row::condition::Condition;
use crate::schema::table::Table;
use std::sync::Arc;

impl Session {
    /// Returns a snapshot as [`crate::Txn::snapshot`] does, as a statement of its own of the open transaction: at READ
    /// COMMITTED it sees the state committed now, at the other levels the state that the transaction's first statement
    /// saw; and the transaction's own changes.
    ///
    /// # Errors
    /// Those of [`crate::Txn::snapshot`], and of [`Session::execute`].
    pub fn snapshot(&mut self) -> Result<Arc<Snapshot>> {
        self.execute(|txn| txn.snapshot())
    }

    /// Notes a scan as [`crate::Txn::note_scan`] does, as a statement of its own of the open transaction.
    ///
    /// # Errors
    /// Those of [`crate::Txn::note_scan`], and of [`Session::execute`].
    pub fn note_scan(&mut self, table: &Table, conditions: &[Condition]) -> Result<()> {
        self.execute(|txn| txn.note_scan(table, conditions))
    }
}
