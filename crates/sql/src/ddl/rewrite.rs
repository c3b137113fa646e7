//! Copies of the rows of one table into another.
//!
//! **Invariant:** the old table is locked against writers, and no other transaction knows the new one. The copy
//! contains the rows that are committed now, and the changes of this transaction, whatever its snapshot: a row that is
//! left out is lost.

use super::Ddl;
use catalog::TableInfo;
use catalog::storage::{datum, store};
use engine::{RowId, Value};
use query::plan::Expr;
use statement::error::{SqlError, SqlResult, SqlState};
use types::datum::Datum;
use types::forms::Forms;
use types::{SqlType, text};

/// Source of a column of the new table.
pub(super) enum ColumnSource {
    /// Column of the old table, unchanged.
    Column(usize),
    /// Value computed from the old row.
    Made(Expr, SqlType),
}

/// Rows between two checks for a cancelled statement.
const ROWS_PER_LOOK: u64 = 1024;
/// Rows that are loaded together.
const BATCH_ROWS: usize = 8192;

impl Ddl<'_> {
    pub(super) fn copy_rows(&self, from: &TableInfo, to: &TableInfo, sources: &[ColumnSource]) -> SqlResult<()> {
        let columns: Option<Vec<usize>> =
            sources.iter().map(|source| if let ColumnSource::Column(at) = source { Some(*at) } else { None }).collect();
        if let Some(columns) = columns
            && self.load_columns(from, to, &columns)?
        {
            return Ok(());
        }
        self.insert_copies(from, to, sources)
    }

    /// Loads columns unchanged, by blocks. Returns false if some row does not fit; a copy row by row can tell which.
    fn load_columns(&self, from: &TableInfo, to: &TableInfo, columns: &[usize]) -> SqlResult<bool> {
        let snapshot = self.run.txn.newest_snapshot()?;
        let mut cancelled = Ok(());
        let batches = snapshot.scan(&from.table, columns, BATCH_ROWS).split(1).into_iter().flatten();
        let batches = batches.take_while(|_| {
            cancelled = self.run.txn.check_active();
            cancelled.is_ok()
        });
        let loaded = self.engine.load_unseen(&to.table, batches);
        cancelled?;
        match loaded {
            Ok(_) => Ok(true),
            Err(engine::Error::UniqueViolation { .. } | engine::Error::InvalidValue { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn insert_copies(&self, from: &TableInfo, to: &TableInfo, sources: &[ColumnSource]) -> SqlResult<()> {
        let snapshot = self.run.txn.newest_snapshot()?;
        let makes = sources.iter().any(|source| matches!(source, ColumnSource::Made(..)));
        // Defaults may take values from sequences that this statement creates.
        let run = crate::exec::Run { catalog: &self.state, ..self.run.again() };
        let mut buffers = vec![Vec::new(); sources.len()];
        let mut made = vec![Datum::Null; sources.len()];
        for id in 0..from.table.rows_bound() {
            if id.is_multiple_of(ROWS_PER_LOOK) {
                self.run.txn.check_active()?;
            }
            let copied = snapshot.with_row(&from.table, RowId(id), |row| {
                if makes {
                    let old: Vec<Datum> =
                        from.columns.iter().enumerate().map(|(at, column)| datum(row.get(at), column.kind)).collect();
                    for (source, made) in sources.iter().zip(&mut made) {
                        if let ColumnSource::Made(expr, _) = source {
                            *made = run.value_of(expr, &old)?;
                        }
                    }
                }
                let values = sources
                    .iter()
                    .zip(&made)
                    .zip(&mut buffers)
                    .map(|((source, made), buffer)| match source {
                        ColumnSource::Column(at) => Ok(row.get(*at)),
                        ColumnSource::Made(_, kind) => {
                            buffer.clear();
                            store(made, *kind, buffer)
                        }
                    })
                    .collect::<SqlResult<Vec<Value<'_>>>>()?;
                self.insert_one(to, &values)
            });
            copied.transpose()?;
        }
        Ok(())
    }

    fn insert_one(&self, to: &TableInfo, values: &[Value<'_>]) -> SqlResult<()> {
        let missing =
            to.columns.iter().zip(values).find(|(column, value)| column.not_null && matches!(value, Value::Null));
        if let Some((column, _)) = missing {
            let message = format!("column \"{}\" of relation \"{}\" contains null values", column.name, to.name);
            let error = SqlError::new(SqlState::NOT_NULL_VIOLATION, message);
            return Err(self.state.about(error, to).about_column(&column.name));
        }
        match self.run.txn.insert(&to.table, values) {
            Ok(_) => Ok(()),
            Err(error) => {
                let index = match &error {
                    engine::Error::UniqueViolation { index, .. } => Some(index.clone()),
                    _ => None,
                };
                let told = duplicate(error, to, values, &self.run.env.forms);
                Err(match index {
                    Some(index) => self.state.about(told, to).about_constraint(&index),
                    None => told,
                })
            }
        }
    }

    /// Inserts rows of all columns into a table that this transaction has created.
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
            self.insert_one(table, &values)?;
        }
        Ok(())
    }
}

/// Error for two rows with the same key of a new index.
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
