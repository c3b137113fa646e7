//! Rows of tables, queries and series, side by side with those that come before; row locks.

use super::{Each, Flow, Rows, Run};
use crate::catalog::TableInfo;
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::plan::{Access, Expr, Limit, Lock, Plan, Source};
use crate::storage::{Fit, datum, fit, store};
use crate::types::Kind;
use engine::{Direction, Row, RowId, Value};
use std::ops::Bound;

impl<'a> Run<'a> {
    #[allow(clippy::too_many_arguments, reason = "the fields of a join")]
    pub(super) fn join(
        &self,
        input: &Plan,
        source: &Source,
        is_outer: bool,
        condition: Option<&Expr>,
        width: usize,
        outer: Option<&Rows<'_>>,
        each: &mut Each<'_>,
    ) -> SqlResult<Flow> {
        // A query that does not depend on the input is run once.
        let mut kept = None;
        self.rows(input, outer, &mut |left| {
            let before = Rows { row: left, outer };
            let mut row = Vec::with_capacity(left.len() + width);
            let mut found = false;
            let flow = {
                let mut add = |fill: &mut dyn FnMut(&mut Vec<Datum>)| {
                    self.made_row()?;
                    row.clear();
                    row.extend_from_slice(left);
                    fill(&mut row);
                    if let Some(condition) = condition
                        && !self.holds(condition, &Rows { row: &row, outer })?
                    {
                        return Ok(Flow::Continue(()));
                    }
                    found = true;
                    each(&row)
                };
                match source {
                    Source::Table { table, access } => {
                        self.table_rows(table, access, &before, &mut |found| add(&mut |row| append(row, table, found)))?
                    }
                    Source::Query { plan, is_lateral: true } => {
                        self.rows(plan, Some(&before), &mut |found| add(&mut |row| row.extend_from_slice(found)))?
                    }
                    Source::Query { plan, is_lateral: false } => {
                        if kept.is_none() {
                            kept = Some(self.collect(plan, outer)?);
                        }
                        let mut flow = Flow::Continue(());
                        for found in kept.iter().flatten() {
                            flow = add(&mut |row| row.extend_from_slice(found))?;
                            if flow.is_break() {
                                break;
                            }
                        }
                        flow
                    }
                    Source::Series { from, to, step, kind } => {
                        self.series(from, to, step.as_ref(), &before, &mut |value| {
                            let value =
                                if kind.kind == Kind::Int4 { Datum::Int4(value as i32) } else { Datum::Int8(value) };
                            add(&mut |row| row.push(value.clone()))
                        })?
                    }
                }
            };
            if flow.is_continue() && is_outer && !found {
                row.clear();
                row.extend_from_slice(left);
                row.resize(left.len() + width, Datum::Null);
                return each(&row);
            }
            Ok(flow)
        })
    }

    fn series(
        &self,
        from: &Expr,
        to: &Expr,
        step: Option<&Expr>,
        rows: &Rows<'_>,
        each: &mut dyn FnMut(i64) -> SqlResult<Flow>,
    ) -> SqlResult<Flow> {
        let number = |expr: &Expr| self.value(expr, rows);
        let step = step.map_or(Ok(Datum::Int8(1)), number)?;
        let (Datum::Int8(mut at), Datum::Int8(to), Datum::Int8(step)) = (number(from)?, number(to)?, step) else {
            return Ok(Flow::Continue(()));
        };
        if step == 0 {
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "step size cannot equal zero"));
        }
        while if 0 < step { at <= to } else { to <= at } {
            if each(at)?.is_break() {
                return Ok(Flow::Break(()));
            }
            let Some(next) = at.checked_add(step) else { break };
            at = next;
        }
        Ok(Flow::Continue(()))
    }

    /// Rows of a table as the transaction sees them.
    pub(super) fn table_rows(
        &self,
        table: &TableInfo,
        access: &Access,
        rows: &Rows<'_>,
        each: &mut dyn FnMut(&Row<'_>) -> SqlResult<Flow>,
    ) -> SqlResult<Flow> {
        let txn = self.txn;
        match access {
            Access::All => {
                let mut all = Vec::new();
                txn.scan(&table.table, &[], |row| all.push(row))?;
                for row in &all {
                    if each(row)?.is_break() {
                        return Ok(Flow::Break(()));
                    }
                }
            }
            Access::Index { index, prefix, lower, upper } => {
                let def = &table.table.indexes()[*index];
                let mut values = Vec::with_capacity(prefix.len() + 1);
                for value in prefix {
                    values.push(self.value(value, rows)?);
                }
                let kind = |at: usize| table.columns[def.columns[at]].kind;
                // No row is equal to null, or to what the column cannot have.
                if values.iter().enumerate().any(|(at, value)| value.is_null() || fit(value, kind(at)) != Fit::Exactly)
                {
                    return Ok(Flow::Continue(()));
                }
                let bound = |limit: &Option<Limit>| match limit {
                    None => Ok(Some(None)),
                    Some(Limit { value, inclusive }) => match self.value(value, rows)? {
                        Datum::Null => Ok::<_, SqlError>(None),
                        // The condition above says it exactly.
                        value => Ok(match fit(&value, kind(prefix.len())) {
                            Fit::Exactly => Some(Some((value, *inclusive))),
                            Fit::Between => Some(Some((value, true))),
                            Fit::Beyond => Some(None),
                        }),
                    },
                };
                let (Some(lower), Some(upper)) = (bound(lower)?, bound(upper)?) else {
                    return Ok(Flow::Continue(()));
                };
                let mut buffers = vec![Vec::new(); values.len() + 2];
                let (first, last) = buffers.split_at_mut(values.len());
                let key = values
                    .iter()
                    .zip(first)
                    .enumerate()
                    .map(|(at, (value, buffer))| store(value, kind(at), buffer))
                    .collect::<SqlResult<Vec<Value<'_>>>>()?;
                if lower.is_none() && upper.is_none() {
                    if def.unique && key.len() == def.columns.len() {
                        return match txn.get(&table.table, *index, &key)? {
                            Some(row) => each(&row),
                            None => Ok(Flow::Continue(())),
                        };
                    }
                    for row in txn.range(&table.table, *index, &key, Direction::Forward)? {
                        if each(&row)?.is_break() {
                            return Ok(Flow::Break(()));
                        }
                    }
                    return Ok(Flow::Continue(()));
                }
                let [low_buffer, high_buffer] = last else { return Ok(Flow::Continue(())) };
                let next = kind(key.len());
                let low = match &lower {
                    Some((value, _)) => with(&key, store(value, next, low_buffer)?),
                    None => key.clone(),
                };
                let high = match &upper {
                    Some((value, _)) => with(&key, store(value, next, high_buffer)?),
                    None => key.clone(),
                };
                let side = |key: &[Value<'_>], limit: &Option<(Datum, bool)>| match limit {
                    Some((_, false)) => Bound::Excluded(()),
                    _ if key.is_empty() => Bound::Unbounded,
                    _ => Bound::Included(()),
                };
                let (from, to) = (side(&low, &lower).map(|()| &low[..]), side(&high, &upper).map(|()| &high[..]));
                for row in txn.range_between(&table.table, *index, from, to, Direction::Forward)? {
                    if each(&row)?.is_break() {
                        return Ok(Flow::Break(()));
                    }
                }
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

fn with<'v>(key: &[Value<'v>], last: Value<'v>) -> Vec<Value<'v>> {
    key.iter().copied().chain([last]).collect()
}

/// A table's columns, then the row's id.
pub(super) fn append(row: &mut Vec<Datum>, table: &TableInfo, found: &Row<'_>) {
    row.extend(table.columns.iter().enumerate().map(|(at, column)| datum(found.get(at), column.kind)));
    row.push(Datum::Int8(found.row_id().0 as i64));
}
