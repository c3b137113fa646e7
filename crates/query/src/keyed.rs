//! Statements on one row by its key, and inserts of one row: what is left of their plans once the executor's general
//! operators are taken away.
//!
//! **Invariant:** a keyed statement has the rows, the errors and the locks of the plan that it was made of. A plan of
//! any other shape has none, and runs in the executor: so does a change with checks, foreign keys, subqueries or calls
//! of stored routines.

use crate::change::{Assignments, Change, ChangeTarget, Modify, NewValue, OnConflict};
use crate::plan::{Access, Expr, JoinStep, Joins, KeyValue, Plan, RowSource, TableRowLock, rewrite, visit};
use catalog::TableInfo;
use engine::{RowLock, Wait};
use statement::error::{SqlError, SqlState};
use std::sync::Arc;

/// Greatest number of values of a row that a keyed statement handles: they are kept on the stack.
pub const KEYED_WIDTH_MAX: usize = 16;

/// Statement on one row.
#[derive(Debug)]
pub enum Keyed {
    /// Read of the row that has a key.
    Read(KeyedRead),
    /// `INSERT` of one row of simple values, with any `ON CONFLICT` whose expressions are simple, too.
    Insert,
    /// `UPDATE` of the row that has a key.
    Update(KeyedUpdate),
    /// `DELETE` of the row that has a key, without `RETURNING`.
    Delete(RowKey),
}

/// Key of a unique index, whose values are parameters and constants.
#[derive(Debug)]
pub struct RowKey {
    /// Index.
    pub index: usize,
    /// Values.
    pub values: Vec<KeyValue>,
}

/// Read of the row that has a key.
#[derive(Debug)]
pub struct KeyedRead {
    /// Description of the table.
    pub table: Arc<TableInfo>,
    /// Key of the row.
    pub key: RowKey,
    /// Positions of the columns that the result consists of.
    pub columns: Box<[usize]>,
    /// Lock of the row; `None` for a read without one.
    pub lock: Option<KeyedLock>,
}

/// Lock of the row that a keyed read has found.
#[derive(Debug)]
pub struct KeyedLock {
    /// Mode of the lock.
    pub mode: RowLock,
    /// Behaviour when another transaction has locked the row.
    pub wait: Wait,
    /// Condition that a newer version of the row has to meet, too.
    pub condition: Option<Expr>,
}

/// Update of the row that has a key.
#[derive(Debug)]
pub struct KeyedUpdate {
    /// Key of the row.
    pub key: RowKey,
    /// New values, in the order of the assignments.
    pub values: NarrowValues,
    /// Values of `RETURNING`; `None` without it.
    pub returning: Option<NarrowValues>,
}

/// Expressions over a row that has only the columns that they read.
#[derive(Debug)]
pub struct NarrowValues {
    /// Expressions over that row.
    pub values: Box<[Expr]>,
    /// Positions of its columns in the table.
    pub reads: Box<[usize]>,
}

impl Keyed {
    /// Returns the keyed statement that does the work of a query.
    pub(crate) fn of_query(plan: &Plan) -> Option<Keyed> {
        KeyedRead::of(plan).map(Keyed::Read)
    }

    /// Returns the keyed statement that does the work of a change.
    pub(crate) fn of_change(Modify { change, returning, with }: &Modify) -> Option<Keyed> {
        if !with.is_empty() {
            return None;
        }
        match change {
            Change::Insert { table, input: Plan::Values(rows), conflict, rules: None } => {
                let [values] = &rows[..] else { return None };
                let is_simple = values.len() <= KEYED_WIDTH_MAX
                    && values.iter().all(is_value)
                    && conflict.as_deref().is_none_or(is_simple_conflict)
                    && returning.iter().flatten().all(is_over_row);
                (is_simple && table.columns.len() == values.len()).then_some(Keyed::Insert)
            }
            Change::Update { target, assignments, rules: None } => {
                let key = of_target(target)?;
                let Assignments { columns: _, values } = assignments;
                let one = |value: &NewValue| match value {
                    NewValue::One(value) => Some(value.clone()),
                    NewValue::Row { .. } => None,
                };
                let width = target.table.columns.len();
                let values = NarrowValues::new(values.iter().map(one).collect::<Option<_>>()?, width)?;
                let returning = match returning {
                    Some(returning) => Some(NarrowValues::new(returning.clone(), width)?),
                    None => None,
                };
                Some(Keyed::Update(KeyedUpdate { key, values, returning }))
            }
            Change::Delete { target, rules: None } if returning.is_none() => of_target(target).map(Keyed::Delete),
            Change::Insert { .. } | Change::Update { .. } | Change::Delete { .. } => None,
        }
    }
}

impl KeyedRead {
    fn of(plan: &Plan) -> Option<KeyedRead> {
        let Plan::Project { input, columns } = plan else { return None };
        let (input, lock) = match &**input {
            Plan::Lock { input, locks, joins, condition } if joins.is_empty() => {
                let [TableRowLock { table: _, first: 0, mode, wait }] = locks[..] else { return None };
                (input, Some(KeyedLock { mode, wait, condition: condition.clone() }))
            }
            _ => (input, None),
        };
        let (table, key) = key_of(input)?;
        let column = |value: &Expr| match value {
            Expr::Column(at) if *at < table.columns.len() => Some(*at),
            _ => None,
        };
        let columns = columns.iter().map(column).collect::<Option<_>>()?;
        Some(KeyedRead { table: Arc::clone(table), key, columns, lock })
    }
}

impl NarrowValues {
    /// Moves the columns of a table with so many of them to the row of those that are read.
    fn new(mut values: Vec<Expr>, width: usize) -> Option<NarrowValues> {
        if KEYED_WIDTH_MAX < values.len() || !values.iter().all(is_over_row) {
            return None;
        }
        let mut reads = Vec::new();
        for value in &mut values {
            let moved = rewrite(value, 0, &mut |expr, _| {
                let Expr::Column(at) = expr else { return Ok(false) };
                // The slot behind the columns is the row id.
                if width <= *at {
                    return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a value beyond the columns"));
                }
                let slot = reads.iter().position(|read| read == at).unwrap_or_else(|| {
                    reads.push(*at);
                    reads.len() - 1
                });
                *expr = Expr::Column(slot);
                Ok(true)
            });
            moved.ok()?;
        }
        (reads.len() <= KEYED_WIDTH_MAX)
            .then(|| NarrowValues { values: values.into_boxed_slice(), reads: reads.into_boxed_slice() })
    }
}

/// Returns the key of the row to change, if that is the only way in which it is chosen.
fn of_target(target: &ChangeTarget) -> Option<RowKey> {
    let ChangeTarget { table, input, first: 0, condition, is_joined: false, needed: _ } = target else { return None };
    let (chosen, key) = key_of(input)?;
    (Arc::ptr_eq(table, chosen) && condition.iter().all(is_over_row)).then_some(key)
}

/// Returns the table and the key of a plan that reads one row by parameters and constants alone.
fn key_of(plan: &Plan) -> Option<(&Arc<TableInfo>, RowKey)> {
    let Plan::Joins(Joins { when: None, steps, width: _ }) = plan else { return None };
    let [JoinStep { source, is_outer: false, on: _, filter: None, first: 0, width: _, kept: None }] = &steps[..] else {
        return None;
    };
    let RowSource::Table { table, access: Access::Key { index, values, decides: true }, columns: _ } = source else {
        return None;
    };
    let is_fixed = values.iter().all(|key| matches!(key.value, Expr::Parameter(_) | Expr::Constant(_)));
    is_fixed.then(|| (table, RowKey { index: *index, values: values.clone() }))
}

fn is_simple_conflict(conflict: &OnConflict) -> bool {
    let Some(update) = &conflict.update else { return true };
    let is_simple = |value: &NewValue| match value {
        NewValue::One(value) => is_over_row(value),
        NewValue::Row { .. } => false,
    };
    update.condition.iter().all(is_over_row) && update.assignments.values.iter().all(is_simple)
}

/// Returns true for an expression over a row that evaluates nothing but operators, functions and casts.
fn is_over_row(expr: &Expr) -> bool {
    is_made_of(expr, &|part| !matches!(part, Expr::Sequence { .. }))
}

/// Returns true for such an expression without a row. It may take numbers from sequences.
fn is_value(expr: &Expr) -> bool {
    is_made_of(expr, &|part| !matches!(part, Expr::Column(_)))
}

fn is_made_of(expr: &Expr, is_wanted: &dyn Fn(&Expr) -> bool) -> bool {
    let mut is_simple = true;
    visit(expr, 0, &mut |part, _| {
        is_simple &= is_wanted(part)
            && match part {
                Expr::Constant(_)
                | Expr::Parameter(_)
                | Expr::Column(_)
                | Expr::Call { .. }
                | Expr::Cast { .. }
                | Expr::And(_)
                | Expr::Or(_)
                | Expr::Not(_)
                | Expr::IsNull(_)
                | Expr::IsBool(..)
                | Expr::IsSame { .. }
                | Expr::Case { .. }
                | Expr::Coalesce(_)
                | Expr::Extreme { .. }
                | Expr::Array(_)
                | Expr::Now { .. }
                | Expr::Sequence { .. } => true,
                Expr::Outer { .. }
                | Expr::Let { .. }
                | Expr::Local(_)
                | Expr::Scalar(_)
                | Expr::Exists(_)
                | Expr::InQuery { .. }
                | Expr::InList { .. }
                | Expr::Quantified { .. }
                | Expr::ArrayQuery(_)
                | Expr::Routine(_)
                | Expr::Advisory { .. } => false,
            };
    });
    is_simple
}
