//! `INSERT ... ON CONFLICT`.
//!
//! **Invariant:** either the row is inserted, or a row with its key is found; both by the latest committed state,
//! regardless of the snapshot. Above READ COMMITTED, a row that the snapshot does not see is a conflict (`40001`). The
//! statement waits for transactions that have not decided. It changes no row twice.

use super::{RowStack, Run};
use catalog::TableInfo;
use catalog::storage::{datum, store};
use engine::{RowId, RowLock, RowWriter, Value, Wait};
use query::change::{ConflictUpdate, ConstraintRules, OnConflict};
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use types::datum::Datum;

impl Run<'_> {
    /// Inserts the row, or takes the conflict action. `remembers` is true if the statement may meet the row again.
    pub(super) fn insert_or(
        &self,
        table: &TableInfo,
        row: &[Datum],
        (conflict, remembers): (&OnConflict, bool),
        rules: Option<&Arc<ConstraintRules>>,
        note: &mut dyn FnMut(&[Datum]) -> SqlResult<()>,
    ) -> SqlResult<()> {
        self.may_insert(table, row, rules)?;
        // The row with the key may be deleted and another one inserted, any number of times.
        loop {
            self.goes_on()?;
            if let Some((at, id)) = self.in_the_way(table, row, &conflict.arbiters)? {
                let Some(update) = &conflict.update else {
                    // The row may not last: its transaction is undecided, or about to give up the key.
                    if self.txn.await_key(&table.table, id)? {
                        continue;
                    }
                    return Ok(());
                };
                if self.update_instead(table, row, (at, id, remembers), (update, rules), note)? {
                    return Ok(());
                }
                continue;
            }
            match self.insert(table, row) {
                Ok(id) => {
                    if remembers {
                        self.is_first(table, id);
                    }
                    if let Some(rules) = rules {
                        self.inserted(rules, table, id);
                    }
                    return note(row);
                }
                Err(error) => {
                    if let Some(engine::Error::UniqueViolation { index, .. }) = error.engine()
                        && conflict.arbiters.iter().any(|at| table.table.indexes()[*at].name == *index)
                    {
                        continue;
                    }
                    return Err(self.describe(error, table, row));
                }
            }
        }
    }

    /// Returns a row that has a key of this one, with the index of the key.
    fn in_the_way(&self, table: &TableInfo, row: &[Datum], arbiters: &[usize]) -> SqlResult<Option<(usize, RowId)>> {
        for at in arbiters {
            let columns = &table.table.indexes()[*at].columns;
            if columns.iter().any(|column| row[*column].is_null()) {
                continue;
            }
            let mut buffers = vec![Vec::new(); columns.len()];
            let key = columns
                .iter()
                .zip(&mut buffers)
                .map(|(column, buffer)| store(&row[*column], table.columns[*column].kind, buffer))
                .collect::<SqlResult<Vec<Value<'_>>>>()?;
            if let Some(found) = self.txn.newest(&table.table, *at, &key)? {
                return Ok(Some((*at, found.row_id())));
            }
        }
        Ok(None)
    }

    /// Runs `DO UPDATE`. Returns false if the conflicting row is gone.
    fn update_instead(
        &self,
        table: &TableInfo,
        row: &[Datum],
        (at, id, remembers): (usize, RowId, bool),
        (update, rules): (&ConflictUpdate, Option<&Arc<ConstraintRules>>),
        note: &mut dyn FnMut(&[Datum]) -> SqlResult<()>,
    ) -> SqlResult<bool> {
        if remembers && !self.is_first(table, id) {
            let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
            return Err(SqlError::new(SqlState::CARDINALITY_VIOLATION, message).hint(
                "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
            ));
        }
        let width = table.columns.len();
        let key = &table.table.indexes()[at].columns;
        let mut new = Vec::with_capacity(2 * width + 1);
        let (mut is_it, mut is_wanted, mut old) = (false, false, Vec::new());
        let mut patch = |writer: &mut RowWriter<'_>| {
            new.clear();
            new.extend(table.columns.iter().enumerate().map(|(at, column)| datum(writer.get(at), column.kind)));
            let kind = |column: usize| table.columns[column].kind.kind;
            is_it = key.iter().all(|column| types::ops::is_same(&new[*column], &row[*column], kind(*column)));
            if !is_it {
                return Ok(false);
            }
            new.push(Datum::Int8(id.0 as i64));
            new.extend_from_slice(row);
            let rows = RowStack { row: &new, outer: None };
            is_wanted = update.condition.as_ref().map_or(Ok(true), |condition| self.holds(condition, &rows))?;
            if is_wanted {
                let made = self.new_values(&update.assignments, &rows)?;
                if rules.is_some() {
                    old = new[..width].to_vec();
                }
                self.assign(table, 0, (&update.assignments.columns, made), &mut new, writer)?;
                if let Some(own) = rules.and_then(|rules| rules.tables.get(&table.oid)) {
                    self.check(own, &new[..width])?;
                }
            }
            Ok(is_wanted)
        };
        let changed = self.patch(table, id, &mut patch);
        if changed.map_err(|error| self.describe(error, table, &new))? {
            if let Some(rules) = rules {
                self.updated(rules, table, id, &old, &new[..width]);
            }
            note(&new[..width])?;
            return Ok(true);
        }
        self.forget(table, id);
        let is_settled = is_it && !is_wanted;
        if is_settled {
            // The row is locked nevertheless, as in PostgreSQL.
            self.txn.lock_row(&table.table, id, RowLock::NoKeyUpdate, Wait::Block)?;
        }
        Ok(is_settled)
    }
}
