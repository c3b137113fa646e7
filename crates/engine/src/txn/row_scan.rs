//! Scans by a transaction, row by row: its snapshot and its own changes.
//!
//! **Invariant:** a SERIALIZABLE transaction records the conditions before it looks at the first row, so any write by
//! others that satisfies them, by its old image or by its new one, meets them at the commit.

use crate::error::{Error, Result};
use crate::raw::rows::CHUNK_ROWS;
use crate::row::Row;
use crate::row::condition::Condition;
use crate::schema::table::Table;
use crate::txn::Txn;
use std::ops::ControlFlow;

/// Rows between two checks whether another has aborted the transaction.
const ROWS_BETWEEN_LOOKS: u64 = 1024;

impl Txn<'_> {
    /// Calls `each` with every row that satisfies all the conditions, in the order of row ids. It may read and write
    /// through the transaction; its writes do not appear.
    ///
    /// # Errors
    /// [`crate::Error::InvalidValue`] if a condition does not fit the table, [`crate::Error::Taken`].
    pub fn scan<'t>(&'t self, table: &'t Table, conditions: &[Condition], mut each: impl FnMut(Row<'t>)) -> Result<()> {
        let scanned = self.try_scan(table, conditions, |row| {
            each(row);
            Ok(ControlFlow::Continue(()))
        });
        scanned.map(|_| ())
    }

    /// Scans as [`Txn::scan`] does, up to the first break or error of `each`. Returns the last flow.
    ///
    /// # Errors
    /// Those of [`Txn::scan`] and of `each`.
    pub fn try_scan<'t, E: From<Error>>(
        &'t self,
        table: &'t Table,
        conditions: &[Condition],
        mut each: impl FnMut(Row<'t>) -> Result<ControlFlow<()>, E>,
    ) -> Result<ControlFlow<()>, E> {
        self.note_scan(table, conditions)?;
        let view = self.view()?;
        let end = table.rows.end();
        for chunk in (0..end.div_ceil(CHUNK_ROWS)).filter(|chunk| self.may_hold(table, *chunk, conditions)) {
            for row in chunk * CHUNK_ROWS..end.min((chunk + 1) * CHUNK_ROWS) {
                if row % ROWS_BETWEEN_LOOKS == 0 {
                    self.check_active()?;
                }
                let Some(row) = self.visible_row(table, row, view) else { continue };
                if conditions.iter().all(|condition| condition.holds(row.get(condition.column)))
                    && each(row)?.is_break()
                {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns true if a chunk may have rows that satisfy the conditions. Without cells it has the rows of its block,
    /// for a reader of an earlier snapshot: a row that becomes hot from now on was there then, and is changed later.
    fn may_hold(&self, table: &Table, chunk: u64, conditions: &[Condition]) -> bool {
        let pin = self.held().pin();
        match table.rows.chunk(chunk).map(|chunk| chunk.parts(pin)) {
            None | Some((None, None)) => false,
            Some((Some(_), _)) => true,
            Some((None, Some(block))) => block.may_hold(conditions),
        }
    }

    /// Records, if the transaction is SERIALIZABLE, that it reads the rows that satisfy all the conditions: for a scan
    /// of its snapshot that happens elsewhere, as an analytical query does. Call it before the scan begins.
    ///
    /// # Errors
    /// [`crate::Error::InvalidValue`] if a condition does not fit the table.
    pub fn note_scan(&self, table: &Table, conditions: &[Condition]) -> Result<()> {
        self.inner.assert_own(table);
        conditions.iter().try_for_each(|condition| condition.check(table))?;
        if self.held().logs_reads() {
            self.scratch().reads.scan(table.id, conditions);
        }
        Ok(())
    }
}
