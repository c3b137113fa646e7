//! The rows of one table into another.
//!
//! **Invariant:** the old table is locked so that nobody writes to it, and nobody but this transaction knows the new one. The copies
//! are this transaction's inserts: whoever sees the new description sees them.

use super::Ddl;
use crate::catalog::TableInfo;
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::plan::Expr;
use crate::storage::{datum, store};
use crate::types::forms::Forms;
use crate::types::{SqlType, text};
use engine::Value;

/// Where a column of the new table comes from.
pub(super) enum Source {
    /// A column of the old one, as it is.
    Column(usize),
    /// A value made from the old row.
    Made(Expr, SqlType),
}

/// Rows between two looks whether the statement was cancelled.
const ROWS_PER_LOOK: usize = 1024;

impl Ddl<'_> {
    pub(super) fn copy_rows(&self, from: &TableInfo, to: &TableInfo, sources: &[Source]) -> SqlResult<()> {
        let txn = self.run.txn;
        let mut rows = Vec::new();
        txn.scan(&from.table, &[], |row| rows.push(row))?;
        let makes = sources.iter().any(|source| matches!(source, Source::Made(..)));
        let mut buffers = vec![Vec::new(); sources.len()];
        let mut made = vec![Datum::Null; sources.len()];
        for (number, row) in rows.iter().enumerate() {
            if number % ROWS_PER_LOOK == 0 {
                txn.check_active()?;
            }
            if makes {
                let old: Vec<Datum> =
                    from.columns.iter().enumerate().map(|(at, column)| datum(row.get(at), column.kind)).collect();
                for (source, made) in sources.iter().zip(&mut made) {
                    if let Source::Made(expr, _) = source {
                        *made = self.run.value_of(expr, &old)?;
                    }
                }
            }
            let values = sources
                .iter()
                .zip(&made)
                .zip(&mut buffers)
                .map(|((source, made), buffer)| match source {
                    Source::Column(at) => Ok(row.get(*at)),
                    Source::Made(_, kind) => {
                        buffer.clear();
                        store(made, *kind, buffer)
                    }
                })
                .collect::<SqlResult<Vec<Value<'_>>>>()?;
            let missing =
                to.columns.iter().zip(&values).find(|(column, value)| column.not_null && matches!(value, Value::Null));
            if let Some((column, _)) = missing {
                let message = format!("column \"{}\" of relation \"{}\" contains null values", column.name, to.name);
                return Err(SqlError::new(SqlState::NOT_NULL_VIOLATION, message));
            }
            if let Err(error) = txn.insert(&to.table, &values) {
                return Err(duplicate(error, to, &values, &self.run.env.forms));
            }
        }
        Ok(())
    }

    /// Inserts rows of all columns into a table that this transaction has made.
    pub(super) fn insert_all(&self, table: &TableInfo, rows: &[Box<[Datum]>]) -> SqlResult<()> {
        let mut buffers = vec![Vec::new(); table.columns.len()];
        for row in rows {
            let values = row
                .iter()
                .zip(&table.columns)
                .zip(&mut buffers)
                .map(|((value, column), buffer)| {
                    buffer.clear();
                    store(value, column.kind, buffer)
                })
                .collect::<SqlResult<Vec<Value<'_>>>>()?;
            self.run.txn.insert(&table.table, &values)?;
        }
        Ok(())
    }
}

/// Two rows have the key of a new index.
fn duplicate(error: engine::Error, table: &TableInfo, values: &[Value<'_>], forms: &Forms) -> SqlError {
    let engine::Error::UniqueViolation { index, .. } = &error else { return error.into() };
    let Some(index) = table.indexes.iter().find(|one| one.name == *index) else { return error.into() };
    let columns: Vec<&str> = index.columns.iter().map(|at| &*table.columns[*at].name).collect();
    let shown: Vec<String> = index
        .columns
        .iter()
        .map(|at| {
            let kind = table.columns[*at].kind;
            text::to_string(&datum(values[*at], kind), kind, forms)
        })
        .collect();
    let state = SqlError::from(error.clone()).state();
    SqlError::new(state, format!("could not create unique index \"{}\"", index.name)).detail(format!(
        "Key ({})=({}) is duplicated.",
        columns.join(", "),
        shown.join(", ")
    ))
}
