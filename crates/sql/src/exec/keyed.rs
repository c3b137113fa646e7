//! Reads of one row by its key, without the operators of a plan.
//!
//! **Invariant:** the rows, the errors and the locks are those of the plan that the read was made of.

use super::sources::append;
use super::{Flow, RowSink, RowStack, Run};
use catalog::TableInfo;
use catalog::storage::datum;
use engine::Row;
use query::code::{KeyedLock, KeyedRead};
use statement::error::SqlResult;
use types::datum::Datum;

/// Maximum number of columns that are kept on the stack.
const NARROW_MAX: usize = 16;

impl Run<'_> {
    /// Passes the row that has the key to `each`, after it is locked if the read says so.
    pub(super) fn keyed_row(&self, read: &KeyedRead, each: &mut RowSink<'_>) -> SqlResult<Flow> {
        let KeyedRead { table, index, key, columns, lock } = read;
        let found = self.key_row(table, *index, key, &RowStack { row: &[], outer: None })?;
        let found = match (found, lock) {
            (Some(found), Some(lock)) => self.locked_row(table, &found, lock)?,
            (found, _) => found,
        };
        let Some(found) = found else { return Ok(Flow::Continue(())) };
        let one = |at: &usize| datum(found.get(*at), table.columns[*at].kind);
        let mut narrow = [const { Datum::Null }; NARROW_MAX];
        match narrow.get_mut(..columns.len()) {
            Some(row) => {
                row.iter_mut().zip(columns).for_each(|(place, at)| *place = one(at));
                each(row)
            }
            None => each(&columns.iter().map(one).collect::<Vec<_>>()),
        }
    }

    /// Locks a row. Returns it as it is then; `None` if it has gone, or does not meet the condition any more.
    fn locked_row<'r>(&'r self, table: &'r TableInfo, found: &Row<'_>, lock: &KeyedLock) -> SqlResult<Option<Row<'r>>> {
        let locked = self.txn.lock_newer(&table.table, found.row_id(), lock.mode, lock.wait)?;
        let Some((row, is_newer)) = locked else { return Ok(None) };
        if is_newer && let Some(condition) = &lock.condition {
            let mut columns = Vec::with_capacity(table.columns.len() + 1);
            append(&mut columns, table, &row);
            if !self.holds(condition, &RowStack { row: &columns, outer: None })? {
                return Ok(None);
            }
        }
        Ok(Some(row))
    }
}
