//! Changes of rows.
//!
//! **Invariant:** what a statement changes was chosen, and its new values were made, before it changes anything, so its queries
//! never see its own changes. A row that somebody else has changed since is judged anew by the condition, and its new
//! values are made from it as it is (PostgreSQL's `EvalPlanQual`); where that would need a query it is a conflict.

use super::{Rows, Run};
use crate::catalog::TableInfo;
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::plan::{Change, Expr, OnConflict, Target};
use crate::storage::{datum, store};
use crate::types::forms::Forms;
use crate::types::text;
use engine::{RowId, RowWriter, Value};

/// What a change has done.
pub(crate) struct Changed {
    pub(crate) rows: u64,
    /// What it returns of each.
    pub(crate) returned: Vec<Box<[Datum]>>,
}

impl Run<'_> {
    pub(crate) fn change(&self, change: &Change, returning: Option<&[Expr]>) -> SqlResult<Changed> {
        let mut changed = Changed { rows: 0, returned: Vec::new() };
        let mut note = |row: &[Datum]| {
            changed.rows += 1;
            if let Some(columns) = returning {
                let values = columns.iter().map(|column| self.value(column, &Rows { row, outer: None }));
                changed.returned.push(values.collect::<SqlResult<_>>()?);
            }
            Ok::<_, SqlError>(())
        };
        match change {
            Change::Insert { table, input, conflict } => {
                for row in self.collect(input, None)? {
                    if self.insert(table, &row, conflict.as_ref())? {
                        note(&row)?;
                    }
                }
            }
            Change::Update { target, values } => {
                let mut chosen = Vec::new();
                for row in self.collect(&target.input, None)? {
                    let rows = Rows { row: &row, outer: None };
                    let new =
                        values.iter().map(|(_, value)| self.value(value, &rows)).collect::<SqlResult<Vec<_>>>()?;
                    chosen.push((row, new));
                }
                for (row, new) in chosen {
                    if let Some(row) = self.update(target, &row, values, &new)? {
                        note(&row)?;
                    }
                }
            }
            Change::Delete { target } => {
                for row in self.collect(&target.input, None)? {
                    if let Some(row) = self.delete(target, &row)? {
                        note(&row)?;
                    }
                }
            }
        }
        Ok(changed)
    }

    fn insert(&self, table: &TableInfo, row: &[Datum], conflict: Option<&OnConflict>) -> SqlResult<bool> {
        not_null(table, row, &self.env.forms)?;
        let mut buffers = vec![Vec::new(); row.len()];
        let values = row
            .iter()
            .zip(&table.columns)
            .zip(&mut buffers)
            .map(|((value, column), buffer)| store(value, column.kind, buffer))
            .collect::<SqlResult<Vec<Value<'_>>>>()?;
        match self.txn.insert(&table.table, &values) {
            Ok(_) => Ok(true),
            Err(engine::Error::UniqueViolation { .. }) if matches!(conflict, Some(OnConflict::Nothing)) => Ok(false),
            Err(error) => Err(describe(error, table, row, &self.env.forms)),
        }
    }

    fn update(
        &self,
        target: &Target,
        chosen: &[Datum],
        values: &[(usize, Expr)],
        made: &[Datum],
    ) -> SqlResult<Option<Vec<Datum>>> {
        let Target { table, first, .. } = target;
        let Datum::Int8(id) = chosen[first + table.columns.len()] else { return Ok(None) };
        let mut new = Vec::new();
        let mut failed = None;
        let changed = self.txn.update_if(&table.table, RowId(id as u64), |writer| {
            match self.patch(target, chosen, values, made, writer) {
                Ok(Some(row)) => {
                    new = row;
                    true
                }
                Ok(None) => false,
                Err(error) => {
                    failed = Some(error);
                    false
                }
            }
        });
        match (failed, changed) {
            (Some(error), _) => Err(error),
            (None, Ok(changed)) => Ok(changed.then_some(new)),
            (None, Err(error)) => Err(describe(error, table, &new, &self.env.forms)),
        }
    }

    /// Changes a row as it is now. Returns it as it is then; nothing if the condition does not hold any more.
    fn patch(
        &self,
        target: &Target,
        chosen: &[Datum],
        values: &[(usize, Expr)],
        made: &[Datum],
        writer: &mut RowWriter<'_>,
    ) -> SqlResult<Option<Vec<Datum>>> {
        let Target { table, first, .. } = target;
        let chosen = &chosen[*first..=first + table.columns.len()];
        let mut row: Vec<Datum> =
            table.columns.iter().enumerate().map(|(at, column)| datum(writer.get(at), column.kind)).collect();
        row.push(chosen[table.columns.len()].clone());
        let new: Vec<(usize, Datum)> = if row == chosen {
            values.iter().zip(made).map(|((at, _), value)| (*at, value.clone())).collect()
        } else {
            if values.iter().any(|(_, value)| value.has_query()) {
                return Err(conflict());
            }
            if !self.still_holds(target, &row)? {
                return Ok(None);
            }
            let rows = Rows { row: &row, outer: None };
            values.iter().map(|(at, value)| Ok((*at, self.value(value, &rows)?))).collect::<SqlResult<_>>()?
        };
        for (at, value) in new {
            row[at] = value;
        }
        not_null(table, &row, &self.env.forms)?;
        let mut buffer = Vec::new();
        for (at, _) in values {
            buffer.clear();
            writer.set(*at, store(&row[*at], table.columns[*at].kind, &mut buffer)?);
        }
        Ok(Some(row))
    }

    /// Whether the condition holds for a row that has changed since it was chosen.
    fn still_holds(&self, target: &Target, row: &[Datum]) -> SqlResult<bool> {
        let Some(condition) = &target.condition else { return Ok(true) };
        if condition.has_query() {
            return Err(conflict());
        }
        self.holds(condition, &Rows { row, outer: None })
    }

    fn delete(&self, target: &Target, chosen: &[Datum]) -> SqlResult<Option<Vec<Datum>>> {
        let Target { table, first, .. } = target;
        let chosen = &chosen[*first..=first + table.columns.len()];
        let Datum::Int8(id) = chosen[table.columns.len()] else { return Ok(None) };
        let mut old = Vec::new();
        let mut failed = None;
        let deleted = self.txn.delete_if(&table.table, RowId(id as u64), |row| {
            old.clear();
            super::sources::append(&mut old, table, row);
            let holds = if old == chosen { Ok(true) } else { self.still_holds(target, &old) };
            match holds {
                Ok(holds) => holds,
                Err(error) => {
                    failed = Some(error);
                    false
                }
            }
        });
        match (failed, deleted) {
            (Some(error), _) => Err(error),
            (None, deleted) => Ok(deleted?.then_some(old)),
        }
    }
}

/// `40001`
fn conflict() -> SqlError {
    engine::Error::WriteConflict { table: String::new() }.into()
}

/// # Errors
/// `23502`
fn not_null(table: &TableInfo, row: &[Datum], forms: &Forms) -> SqlResult<()> {
    let missing = table.columns.iter().zip(row).find(|(column, value)| column.not_null && value.is_null());
    let Some((column, _)) = missing else { return Ok(()) };
    let message =
        format!("null value in column \"{}\" of relation \"{}\" violates not-null constraint", column.name, table.name);
    let values: Vec<String> = table
        .columns
        .iter()
        .zip(row)
        .map(
            |(column, value)| {
                if value.is_null() { "null".to_owned() } else { text::to_string(value, column.kind, forms) }
            },
        )
        .collect();
    Err(SqlError::new(SqlState::NOT_NULL_VIOLATION, message)
        .detail(format!("Failing row contains ({}).", values.join(", "))))
}

/// An error of the engine about this row, in PostgreSQL's words.
fn describe(error: engine::Error, table: &TableInfo, row: &[Datum], forms: &Forms) -> SqlError {
    let engine::Error::UniqueViolation { index, .. } = &error else { return error.into() };
    let def = table.table.indexes().iter().find(|def| def.name == *index);
    let columns: &[usize] = def.map_or(&[], |def| &def.columns);
    let names: Vec<&str> = columns.iter().map(|at| &*table.columns[*at].name).collect();
    let values: Vec<String> =
        columns.iter().filter_map(|at| Some(text::to_string(row.get(*at)?, table.columns[*at].kind, forms))).collect();
    let detail = format!("Key ({})=({}) already exists.", names.join(", "), values.join(", "));
    SqlError::from(error).detail(detail)
}
