//! Rows of tables; row locks.
//!
//! **Invariant:** what finds rows is evaluated before the first of them is read, so that the row it was evaluated over may be
//! changed while they are gone through.

use super::{Each, Flow, Rows, Run};
use crate::catalog::TableInfo;
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult};
use crate::plan::{Access, Expr, Limit, List, Lock, Plan};
use crate::storage::{Fit, datum, fit, store};
use crate::types::SqlType;
use engine::{Direction, Row, RowId, Value};
use std::ops::Bound;

/// What an [`Access`] comes to over a row.
pub(super) enum Keys {
    All,
    /// As of [`Access::Index`]; limits say whether they are included.
    Index {
        index: usize,
        prefix: Vec<Datum>,
        lower: Option<(Datum, bool)>,
        upper: Option<(Datum, bool)>,
        direction: Direction,
    },
    /// Each once.
    AnyOf {
        index: usize,
        prefix: Vec<Datum>,
        list: Vec<Datum>,
    },
}

/// The type of an index's column.
fn kind_of(table: &TableInfo, index: usize, at: usize) -> SqlType {
    table.columns[table.table.indexes()[index].columns[at]].kind
}

impl<'a> Run<'a> {
    /// What rows of a table are wanted; nothing if there can be none.
    pub(super) fn look_up(&self, table: &TableInfo, access: &Access, rows: &Rows<'_>) -> SqlResult<Option<Keys>> {
        // No row is equal to null, or to what the column cannot have.
        let prefix_of = |index: usize, prefix: &[Expr]| {
            let mut values = Vec::with_capacity(prefix.len());
            for (at, value) in prefix.iter().enumerate() {
                let value = self.value(value, rows)?;
                if value.is_null() || fit(&value, kind_of(table, index, at)) != Fit::Exactly {
                    return Ok::<_, SqlError>(None);
                }
                values.push(value);
            }
            Ok(Some(values))
        };
        Ok(Some(match access {
            Access::All => Keys::All,
            Access::Index { index, prefix, lower, upper, backward } => {
                let bound = |limit: &Option<Limit>| match limit {
                    None => Ok(Some(None)),
                    Some(Limit { value, inclusive }) => match self.value(value, rows)? {
                        Datum::Null => Ok::<_, SqlError>(None),
                        // The condition above says it exactly.
                        value => Ok(match fit(&value, kind_of(table, *index, prefix.len())) {
                            Fit::Exactly => Some(Some((value, *inclusive))),
                            Fit::Between => Some(Some((value, true))),
                            Fit::Beyond => Some(None),
                        }),
                    },
                };
                let Some(values) = prefix_of(*index, prefix)? else { return Ok(None) };
                let (Some(lower), Some(upper)) = (bound(lower)?, bound(upper)?) else { return Ok(None) };
                let direction = if *backward { Direction::Backward } else { Direction::Forward };
                Keys::Index { index: *index, prefix: values, lower, upper, direction }
            }
            Access::AnyOf { index, prefix, list } => {
                let Some(values) = prefix_of(*index, prefix)? else { return Ok(None) };
                let mut list = match list {
                    List::Values(values) => {
                        values.iter().map(|value| self.value(value, rows)).collect::<SqlResult<Vec<_>>>()?
                    }
                    List::Array(array) => match self.value(array, rows)? {
                        Datum::Array(items) => items.into_vec(),
                        _ => return Ok(None),
                    },
                };
                let kind = kind_of(table, *index, prefix.len());
                list.retain(|value| !value.is_null() && fit(value, kind) == Fit::Exactly);
                list.sort_by(|left, right| crate::ops::compare(left, right, kind.kind));
                list.dedup_by(|left, right| crate::ops::compare(left, right, kind.kind).is_eq());
                Keys::AnyOf { index: *index, prefix: values, list }
            }
        }))
    }

    /// Rows of a table as the transaction sees them.
    pub(super) fn table_rows(
        &self,
        table: &TableInfo,
        keys: &Keys,
        each: &mut dyn FnMut(&Row<'_>) -> SqlResult<Flow>,
    ) -> SqlResult<Flow> {
        let txn = self.txn;
        match keys {
            Keys::All => {
                let mut all = Vec::new();
                txn.scan(&table.table, &[], |row| all.push(row))?;
                for row in &all {
                    if each(row)?.is_break() {
                        return Ok(Flow::Break(()));
                    }
                }
                Ok(Flow::Continue(()))
            }
            Keys::Index { index, prefix, lower: None, upper: None, direction } => {
                self.equal_rows(table, *index, prefix, *direction, each)
            }
            Keys::AnyOf { index, prefix, list } => {
                let mut key = prefix.clone();
                for value in list {
                    key.truncate(prefix.len());
                    key.push(value.clone());
                    if self.equal_rows(table, *index, &key, Direction::Forward, each)?.is_break() {
                        return Ok(Flow::Break(()));
                    }
                }
                Ok(Flow::Continue(()))
            }
            Keys::Index { index, prefix, lower, upper, direction } => {
                let mut buffers = vec![Vec::new(); prefix.len()];
                let key = stored(table, *index, prefix, &mut buffers)?;
                let (mut low_buffer, mut high_buffer) = (Vec::new(), Vec::new());
                let next = kind_of(table, *index, key.len());
                let low = match &lower {
                    Some((value, _)) => with(&key, store(value, next, &mut low_buffer)?),
                    None => key.clone(),
                };
                let high = match &upper {
                    Some((value, _)) => with(&key, store(value, next, &mut high_buffer)?),
                    None => key.clone(),
                };
                let side = |key: &[Value<'_>], limit: &Option<(Datum, bool)>| match limit {
                    Some((_, false)) => Bound::Excluded(()),
                    _ if key.is_empty() => Bound::Unbounded,
                    _ => Bound::Included(()),
                };
                let (from, to) = (side(&low, lower).map(|()| &low[..]), side(&high, upper).map(|()| &high[..]));
                for row in txn.range_between(&table.table, *index, from, to, *direction)? {
                    if each(&row)?.is_break() {
                        return Ok(Flow::Break(()));
                    }
                }
                Ok(Flow::Continue(()))
            }
        }
    }

    /// The rows whose first columns in an index are these.
    fn equal_rows(
        &self,
        table: &TableInfo,
        index: usize,
        values: &[Datum],
        direction: Direction,
        each: &mut dyn FnMut(&Row<'_>) -> SqlResult<Flow>,
    ) -> SqlResult<Flow> {
        let def = &table.table.indexes()[index];
        // One value, as most keys have, is kept without memory of its own.
        if let ([value], [column], true) = (values, &def.columns[..], def.unique) {
            let mut buffer = Vec::new();
            let value = store(value, table.columns[*column].kind, &mut buffer)?;
            return match self.txn.get(&table.table, index, &[value])? {
                Some(row) => each(&row),
                None => Ok(Flow::Continue(())),
            };
        }
        let mut buffers = vec![Vec::new(); values.len()];
        let key = stored(table, index, values, &mut buffers)?;
        if def.unique && key.len() == def.columns.len() {
            return match self.txn.get(&table.table, index, &key)? {
                Some(row) => each(&row),
                None => Ok(Flow::Continue(())),
            };
        }
        for row in self.txn.range(&table.table, index, &key, direction)? {
            if each(&row)?.is_break() {
                return Ok(Flow::Break(()));
            }
        }
        Ok(Flow::Continue(()))
    }

    pub(super) fn lock(
        &self,
        input: &Plan,
        locks: &[Lock],
        condition: Option<&Expr>,
        outer: Option<&Rows<'_>>,
        each: &mut Each<'_>,
    ) -> SqlResult<Flow> {
        self.rows(input, outer, &mut |row| {
            let mut row = row.to_vec();
            for lock in locks {
                let Datum::Int8(id) = row[lock.row_id()] else { continue };
                let Some(now) = self.txn.lock_row(&lock.table.table, RowId(id as u64), lock.mode, lock.wait)? else {
                    return Ok(Flow::Continue(()));
                };
                let mut columns = Vec::with_capacity(lock.table.columns.len() + 1);
                append(&mut columns, &lock.table, &now);
                row[lock.first..=lock.row_id()].clone_from_slice(&columns);
            }
            // As it is now.
            match condition {
                Some(condition) if !self.holds(condition, &Rows { row: &row, outer })? => Ok(Flow::Continue(())),
                _ => each(&row),
            }
        })
    }
}

fn stored<'v>(
    table: &TableInfo,
    index: usize,
    values: &'v [Datum],
    buffers: &'v mut [Vec<u8>],
) -> SqlResult<Vec<Value<'v>>> {
    let pairs = values.iter().zip(buffers).enumerate();
    pairs.map(|(at, (value, buffer))| store(value, kind_of(table, index, at), buffer)).collect()
}

fn with<'v>(key: &[Value<'v>], last: Value<'v>) -> Vec<Value<'v>> {
    key.iter().copied().chain([last]).collect()
}

/// A table's columns, then the row's id.
pub(super) fn append(row: &mut Vec<Datum>, table: &TableInfo, found: &Row<'_>) {
    row.extend(table.columns.iter().enumerate().map(|(at, column)| datum(found.get(at), column.kind)));
    row.push(Datum::Int8(found.row_id().0 as i64));
}

/// The columns that are looked at, into their places; the row's id is one behind the last.
pub(super) fn fill(places: &mut [Datum], table: &TableInfo, columns: Option<&[usize]>, found: &Row<'_>) {
    let mut one = |at: usize| {
        let value = match table.columns.get(at) {
            Some(column) => datum(found.get(at), column.kind),
            None => Datum::Int8(found.row_id().0 as i64),
        };
        if let Some(place) = places.get_mut(at) {
            *place = value;
        }
    };
    match columns {
        Some(columns) => columns.iter().for_each(|at| one(*at)),
        None => (0..=table.columns.len()).for_each(one),
    }
}
