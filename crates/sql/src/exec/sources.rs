//! Scans of tables, and row locks.
//!
//! **Invariant:** the keys of a scan are evaluated before its first row is read, so the row that they depend on may
//! change during the scan.

use super::write::row_id;
use super::{Flow, RowSink, RowStack, Run};
use catalog::TableInfo;
use catalog::storage::search::{KeyPosition, sought};
use catalog::storage::{datum, store};
use engine::{Direction, Row, RowId, Value};
use query::plan::{Access, Expr, KeyBound, KeyList, KeyValue, OuterJoin, Plan, TableRowLock};
use statement::error::{SqlError, SqlResult};
use statement::pulse;
use std::ops::Bound;
use types::datum::Datum;
use types::ops::mistyped;
use types::{Kind, SqlType};

/// Maximum number of columns of a key that is kept on the stack.
const NARROW_KEY_MAX: usize = 4;

/// Evaluated keys of an [`Access`].
pub(super) enum AccessKeys<'r> {
    All,
    /// Row that [`Access::Key`] has found.
    Row(Row<'r>),
    /// Keys of [`Access::Index`]; the limits tell if they are inclusive.
    Index {
        index: usize,
        prefix: Vec<Datum>,
        lower: Option<(Datum, bool)>,
        upper: Option<(Datum, bool)>,
        direction: Direction,
    },
    /// Distinct keys.
    AnyOf {
        index: usize,
        prefix: Vec<Datum>,
        list: Vec<Datum>,
    },
}

/// Returns the type of an index's column.
fn kind_of(table: &TableInfo, index: usize, at: usize) -> SqlType {
    table.columns[table.table.indexes()[index].columns[at]].kind
}

impl<'a> Run<'a> {
    /// Returns the value of a key; `None` if no row can have it: no row equals null, or a value outside the column's type.
    fn key_value(&self, value: Datum, from: Kind, kind: SqlType) -> SqlResult<Option<Datum>> {
        if value.is_null() {
            return Ok(None);
        }
        Ok(match sought(value, from, kind, &self.env.forms)? {
            KeyPosition::Exactly(value) => Some(value),
            KeyPosition::Between(..) | KeyPosition::Below | KeyPosition::Above => None,
        })
    }

    /// Returns the values of the first columns of an index; `None` if no row can have them.
    fn key_values(
        &self,
        table: &TableInfo,
        index: usize,
        key: &[KeyValue],
        rows: &RowStack<'_>,
    ) -> SqlResult<Option<Vec<Datum>>> {
        let mut values = Vec::with_capacity(key.len());
        for (at, KeyValue { value, kind }) in key.iter().enumerate() {
            let Some(value) = self.key_value(self.value(value, rows)?, *kind, kind_of(table, index, at))? else {
                return Ok(None);
            };
            values.push(value);
        }
        Ok(Some(values))
    }

    /// Returns the row with this key of a unique index.
    #[inline]
    pub(super) fn key_row<'r>(
        &'r self,
        table: &'r TableInfo,
        index: usize,
        key: &[KeyValue],
        rows: &RowStack<'_>,
    ) -> SqlResult<Option<Row<'r>>> {
        // A single value, the usual case, needs no allocation.
        if let [KeyValue { value, kind }] = key {
            let column = kind_of(table, index, 0);
            let Some(value) = self.key_value(self.value(value, rows)?, *kind, column)? else { return Ok(None) };
            let mut buffer = Vec::new();
            return Ok(self.txn.get(&table.table, index, &[store(&value, column, &mut buffer)?])?);
        }
        if NARROW_KEY_MAX < key.len() {
            let Some(values) = self.key_values(table, index, key, rows)? else { return Ok(None) };
            let mut buffers = vec![Vec::new(); values.len()];
            return Ok(self.txn.get(&table.table, index, &stored(table, index, &values, &mut buffers)?)?);
        }
        let mut values = [const { Datum::Null }; NARROW_KEY_MAX];
        for (at, (KeyValue { value, kind }, place)) in key.iter().zip(&mut values).enumerate() {
            let found = self.key_value(self.value(value, rows)?, *kind, kind_of(table, index, at))?;
            let Some(found) = found else { return Ok(None) };
            *place = found;
        }
        let mut buffers = [const { Vec::new() }; NARROW_KEY_MAX];
        let mut places = [Value::Null; NARROW_KEY_MAX];
        for (at, ((value, buffer), place)) in
            values.iter().zip(&mut buffers).zip(&mut places).take(key.len()).enumerate()
        {
            *place = store(value, kind_of(table, index, at), buffer)?;
        }
        Ok(self.txn.get(&table.table, index, &places[..key.len()])?)
    }

    /// Evaluates the keys of a scan; `None` if no row can match.
    pub(super) fn look_up<'r>(
        &'r self,
        table: &'r TableInfo,
        access: &Access,
        rows: &RowStack<'_>,
    ) -> SqlResult<Option<AccessKeys<'r>>> {
        Ok(Some(match access {
            Access::All => AccessKeys::All,
            Access::Key { index, values, decides: _ } => match self.key_row(table, *index, values, rows)? {
                Some(row) => AccessKeys::Row(row),
                None => return Ok(None),
            },
            Access::Index { index, prefix, lower, upper, backward } => {
                // `None` if no row can be within the limit; `Some(None)` if all rows are.
                let bound = |limit: &Option<Box<KeyBound>>, is_lower: bool| {
                    let Some(KeyBound { value: KeyValue { value, kind }, inclusive }) = limit.as_deref() else {
                        return Ok::<_, SqlError>(Some(None));
                    };
                    let value = self.value(value, rows)?;
                    if value.is_null() {
                        return Ok(None);
                    }
                    let column = kind_of(table, *index, prefix.len());
                    Ok(match sought(value, *kind, column, &self.env.forms)? {
                        KeyPosition::Exactly(value) => Some(Some((value, *inclusive))),
                        // The condition is also evaluated for each row.
                        KeyPosition::Between(low, high) => Some(Some((if is_lower { low } else { high }, true))),
                        KeyPosition::Below => is_lower.then_some(None),
                        KeyPosition::Above => (!is_lower).then_some(None),
                    })
                };
                let Some(values) = self.key_values(table, *index, prefix, rows)? else { return Ok(None) };
                let (Some(lower), Some(upper)) = (bound(lower, true)?, bound(upper, false)?) else {
                    return Ok(None);
                };
                let direction = if *backward { Direction::Backward } else { Direction::Forward };
                AccessKeys::Index { index: *index, prefix: values, lower, upper, direction }
            }
            Access::AnyOf { index, prefix, list } => {
                let Some(values) = self.key_values(table, *index, prefix, rows)? else { return Ok(None) };
                let kind = kind_of(table, *index, prefix.len());
                let mut keys = Vec::new();
                match list {
                    KeyList::Values(values) => {
                        for KeyValue { value, kind: from } in values {
                            keys.extend(self.key_value(self.value(value, rows)?, *from, kind)?);
                        }
                    }
                    KeyList::Array { array, kind: from } => match self.value(array, rows)? {
                        Datum::Array(items) => {
                            for item in items {
                                keys.extend(self.key_value(item, *from, kind)?);
                            }
                        }
                        // No row equals an element of a null array.
                        Datum::Null => return Ok(None),
                        other => return Err(mistyped(&other)),
                    },
                }
                let mut list = keys;
                list.sort_by(|left, right| types::ops::compare(left, right, kind.kind));
                list.dedup_by(|left, right| types::ops::compare(left, right, kind.kind).is_eq());
                AccessKeys::AnyOf { index: *index, prefix: values, list }
            }
        }))
    }

    /// Iterates over the rows of a table that the transaction sees.
    pub(super) fn table_rows(
        &self,
        table: &TableInfo,
        keys: &AccessKeys<'_>,
        each: &mut dyn FnMut(&Row<'_>) -> SqlResult<Flow>,
    ) -> SqlResult<Flow> {
        let txn = self.txn;
        match keys {
            AccessKeys::All => txn.try_scan(&table.table, &[], |row| {
                pulse::tick(pulse::ITEM)?;
                each(&row)
            }),
            AccessKeys::Row(row) => each(row),
            AccessKeys::Index { index, prefix, lower: None, upper: None, direction } => {
                self.equal_rows(table, *index, prefix, *direction, each)
            }
            AccessKeys::AnyOf { index, prefix, list } => {
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
            AccessKeys::Index { index, prefix, lower, upper, direction } => {
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

    /// Returns the rows with these values in the first columns of an index.
    fn equal_rows(
        &self,
        table: &TableInfo,
        index: usize,
        values: &[Datum],
        direction: Direction,
        each: &mut dyn FnMut(&Row<'_>) -> SqlResult<Flow>,
    ) -> SqlResult<Flow> {
        let def = &table.table.indexes()[index];
        // A single value, the usual case, needs no allocation.
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

    /// Returns the current columns of a claimed row, with its id; `None` if the row has not changed since the
    /// statement chose it.
    pub(super) fn newer(&self, table: &TableInfo, id: RowId, now: &Row<'_>) -> SqlResult<Option<Vec<Datum>>> {
        if self.txn.get_row(&table.table, id)?.is_some_and(|seen| seen.is_same_version(now)) {
            return Ok(None);
        }
        let mut columns = Vec::with_capacity(table.columns.len() + 1);
        append(&mut columns, table, now);
        Ok(Some(columns))
    }

    /// Locks the chosen rows, and checks those that have changed since again (PostgreSQL's `EvalPlanQual`).
    pub(super) fn lock(
        &self,
        input: &Plan,
        locks: &[TableRowLock],
        (joins, condition): (&[OuterJoin], Option<&Expr>),
        outer: Option<&RowStack<'_>>,
        each: &mut RowSink<'_>,
    ) -> SqlResult<Flow> {
        self.rows(input, outer, &mut |row| {
            let mut newer: Option<Vec<Datum>> = None;
            for lock in locks {
                let Some(id) = row_id(row, lock.row_id())? else { continue };
                // A row that another part of the statement has changed is left alone.
                if self.has_changed(&lock.table, id) {
                    return Ok(Flow::Continue(()));
                }
                let locked = self.txn.lock_newer(&lock.table.table, id, lock.mode, lock.wait)?;
                let Some((now, is_newer)) = locked else { return Ok(Flow::Continue(())) };
                if !is_newer {
                    continue;
                }
                let mut columns = Vec::with_capacity(lock.table.columns.len() + 1);
                append(&mut columns, &lock.table, &now);
                newer.get_or_insert_with(|| row.to_vec())[lock.first..=lock.row_id()].clone_from_slice(&columns);
            }
            let Some(mut row) = newer else { return each(row) };
            for OuterJoin { on, first, width } in joins {
                let places = *first..first + width;
                // The null side of an outer join stays so.
                let has_match = row[places.clone()].iter().any(|value| !value.is_null());
                if let Some(on) = on
                    && has_match
                    && !self.holds(on, &RowStack { row: &row, outer })?
                {
                    row[places].fill(Datum::Null);
                }
            }
            match condition {
                Some(condition) if !self.holds(condition, &RowStack { row: &row, outer })? => Ok(Flow::Continue(())),
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

/// Appends a table's columns and the row's id.
pub(super) fn append(row: &mut Vec<Datum>, table: &TableInfo, found: &Row<'_>) {
    row.extend(table.columns.iter().enumerate().map(|(at, column)| datum(found.get(at), column.kind)));
    row.push(Datum::Int8(found.row_id().0 as i64));
}

/// Fills the places with the columns that are used, and the row's id behind the last.
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
