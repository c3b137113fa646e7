//! Statements on one row by its key, without the operators of a plan.
//!
//! **Invariant:** the rows, the errors and the locks are those of the plan that the statement was made of: it evaluates
//! the same expressions in the same order, and waits at the same places.

use super::constraints::row_of;
use super::sources::append;
use super::write::within_newer;
use super::{Flow, RowSink, RowStack, Run};
use catalog::TableInfo;
use catalog::storage::{datum, store};
use engine::{Lookup, Row, RowId, RowWriter, Value};
use query::change::{Assignments, Change, ChangeTarget, Modify};
use query::keyed::{KEYED_WIDTH_MAX, Keyed, KeyedLock, KeyedRead, KeyedUpdate, NarrowValues, RowKey};
use query::plan::{Expr, Plan};
use query::routine::BodyWork;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use types::Kind;
use types::datum::Datum;

/// Values of a row that is kept on the stack.
type NarrowRow = [Datum; KEYED_WIDTH_MAX];

/// Number of columns of a row for which a smaller place is enough.
const FEW: usize = 4;

const EMPTY: NarrowRow = [const { Datum::Null }; KEYED_WIDTH_MAX];
const NOTHING: RowStack<'static> = RowStack { row: &[], outer: None };

impl Run<'_> {
    /// Runs a keyed statement. Passes its row to `each`. Returns the number of rows that it has changed; `None` for a
    /// query.
    pub(super) fn keyed(&self, work: &BodyWork, keyed: &Keyed, each: &mut RowSink<'_>) -> SqlResult<Option<u64>> {
        let modify = match (keyed, work) {
            (Keyed::Read(read), _) => return self.keyed_row(read, each).map(|_| None),
            (Keyed::Insert | Keyed::Update(_) | Keyed::Delete(_), BodyWork::Change(modify)) => modify,
            _ => return Err(mixed_up()),
        };
        self.txn.hold_command()?;
        let changed = match (keyed, &modify.change) {
            (Keyed::Insert, Change::Insert { .. }) => self.keyed_insert(modify, each)?,
            (Keyed::Update(update), Change::Update { target, assignments, rules: None }) => {
                self.keyed_update(target, assignments, update, each)?
            }
            // A delete makes room, so it may use memory that is kept back for that.
            (Keyed::Delete(key), Change::Delete { target, rules: None }) => {
                pulse::with_reserve(|| self.keyed_delete(target, key))?
            }
            _ => return Err(mixed_up()),
        };
        self.txn.release_command();
        Ok(Some(u64::from(changed)))
    }

    /// Asks for the memory of rows that are about to be reached, each by a key with these parameters. Keys of other types
    /// than their columns are left out.
    pub(super) fn foresee<'r>(&self, rows: impl Iterator<Item = (&'r TableInfo, &'r RowKey, &'r [Datum])>) {
        let mut keys = [[Value::Null; FORESEEN_KEY_MAX]; FORESEEN_MAX];
        let mut found = Vec::with_capacity(FORESEEN_MAX);
        for (table, key, parameters) in rows {
            if let Some(place) = keys.get_mut(found.len())
                && let Some(()) = foreseen_key(table, key, parameters, place)
            {
                found.push((table, key));
            }
        }
        let mut lookups = Vec::with_capacity(found.len());
        for ((table, key), values) in found.into_iter().zip(&keys) {
            let values = values.get(..key.values.len()).unwrap_or_default();
            lookups.push(Lookup { table: &table.table, index: key.index, key: values });
        }
        // A hint that fails does no harm.
        let _ = self.txn.prefetch(&lookups);
    }

    /// Passes the row that has the key to `each`, after it is locked if the read says so.
    fn keyed_row(&self, read: &KeyedRead, each: &mut RowSink<'_>) -> SqlResult<Flow> {
        let KeyedRead { table, key, columns, lock } = read;
        let found = self.key_row(table, key.index, &key.values, &NOTHING)?;
        let found = match (found, lock) {
            (Some(found), Some(lock)) => self.locked_row(table, &found, lock)?,
            (found, _) => found,
        };
        let Some(found) = found else { return Ok(Flow::Continue(())) };
        let one = |at: &usize| datum(found.get(*at), table.columns[*at].kind);
        let values = columns.iter().map(one);
        // Places that are not needed cost almost as much as the others: each is filled and dropped.
        if columns.len() <= FEW {
            each(filled(&mut [const { Datum::Null }; FEW], values))
        } else if columns.len() <= KEYED_WIDTH_MAX {
            each(filled(&mut { EMPTY }, values))
        } else {
            each(&values.collect::<Vec<_>>())
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

    /// Inserts a row. Returns false if there is another with its key, and nothing was to be done then.
    fn keyed_insert(&self, modify: &Modify, each: &mut RowSink<'_>) -> SqlResult<bool> {
        let Change::Insert { table, input: Plan::Values(rows), conflict, rules: None } = &modify.change else {
            return Err(mixed_up());
        };
        let [values] = &rows[..] else { return Err(mixed_up()) };
        let mut made = EMPTY;
        self.made_row()?;
        let row = self.evaluated(values, &NOTHING, &mut made)?;
        let row = row.get(..values.len()).unwrap_or_default();
        let whole = || row.iter().map(|value| (*value).clone()).collect::<Vec<_>>();
        let returned = |row: &[Datum], each: &mut RowSink<'_>| match &modify.returning {
            Some(returning) => {
                let returned = self.values(returning, &RowStack { row, outer: None })?;
                each(&returned).map(drop)
            }
            None => Ok(()),
        };
        if let Some(conflict) = conflict {
            let mut is_changed = false;
            self.insert_or(table, &whole(), (conflict, false), None, &mut |row| {
                is_changed = true;
                returned(row, each)
            })?;
            return Ok(is_changed);
        }
        if table.columns.iter().zip(row).any(|(column, value)| column.not_null && value.is_null()) {
            self.not_null(table, &whole())?;
        }
        let mut buffers = [const { Vec::new() }; KEYED_WIDTH_MAX];
        let mut stored = [Value::Null; KEYED_WIDTH_MAX];
        for (((value, column), buffer), place) in row.iter().zip(&table.columns).zip(&mut buffers).zip(&mut stored) {
            *place = store(value, column.kind, buffer)?;
        }
        let inserted = self.txn.insert(&table.table, stored.get(..values.len()).unwrap_or_default());
        if let Err(error) = inserted {
            return Err(self.describe(error.into(), table, &whole()));
        }
        if modify.returning.is_some() {
            returned(&whole(), each)?;
        }
        Ok(true)
    }

    /// Updates the row that has the key. Returns false if there is none.
    fn keyed_update(
        &self,
        target: &ChangeTarget,
        assignments: &Assignments,
        update: &KeyedUpdate,
        each: &mut RowSink<'_>,
    ) -> SqlResult<bool> {
        let ChangeTarget { table, condition, .. } = target;
        let KeyedUpdate { key, values, returning } = update;
        let Some(found) = self.key_row(table, key.index, &key.values, &NOTHING)? else { return Ok(false) };
        self.made_row()?;
        let id = found.row_id();
        let mut read = EMPTY;
        let rows = narrow(&mut read, values, table, |at| found.get(at));
        let mut made = EMPTY;
        let made = self.evaluated(&values.values, &rows, &mut made)?;
        let made = made.iter().copied().take(values.values.len());
        let (mut newer, mut newer_made) = (Vec::new(), Vec::new());
        let mut result = EMPTY;
        let mut patch = |writer: &mut RowWriter<'_>| {
            if writer.is_newer() {
                (newer, newer_made) = match self.for_newer(table, id, (condition.as_ref(), assignments), writer)? {
                    Some(both) => both,
                    None => return Ok(false),
                };
                self.assign_alone(table, &assignments.columns, newer_made.iter(), writer)?;
            } else {
                self.assign_alone(table, &assignments.columns, made.clone(), writer)?;
            }
            if let Some(returning) = returning {
                narrow(&mut result, returning, table, |at| writer.get(at));
            }
            Ok(true)
        };
        let changed = self.patch(table, id, &mut patch);
        match changed {
            Ok(true) => {
                if let Some(NarrowValues { values, reads }) = returning {
                    let row = result.get(..reads.len()).unwrap_or_default();
                    let returned = self.values(values, &RowStack { row, outer: None })?;
                    each(&returned).map(drop)?;
                }
                Ok(true)
            }
            Ok(false) => Ok(false),
            Err(error) if !matches!(error.engine(), Some(engine::Error::UniqueViolation { .. })) => Err(error),
            Err(error) => {
                // The error shows all columns of the row as the statement has changed it.
                let (mut row, made) = match newer.is_empty() {
                    true => (row_of(table, &found), made.cloned().collect()),
                    false => (newer, newer_made),
                };
                assignments.columns.iter().zip(made).for_each(|(at, value)| row[*at] = value);
                Err(self.describe(error, table, &row))
            }
        }
    }

    /// Returns the row to be updated as it is now, with its new values; `None` if it does not meet the condition any
    /// more.
    #[cold]
    fn for_newer(
        &self,
        table: &TableInfo,
        id: RowId,
        (condition, assignments): (Option<&Expr>, &Assignments),
        writer: &RowWriter<'_>,
    ) -> SqlResult<Option<(Vec<Datum>, Vec<Datum>)>> {
        let columns = table.columns.iter().enumerate();
        let mut row: Vec<Datum> = columns.map(|(at, column)| datum(writer.get(at), column.kind)).collect();
        row.push(Datum::Int8(id.0 as i64));
        let rows = RowStack { row: &row, outer: None };
        if let Some(condition) = condition
            && !self.holds(condition, &rows).map_err(|error| within_newer(error, table))?
        {
            return Ok(None);
        }
        let made = self.new_values(assignments, &rows).map_err(|error| within_newer(error, table))?;
        Ok(Some((row, made)))
    }

    /// Deletes the row that has the key. Returns false if there is none.
    fn keyed_delete(&self, target: &ChangeTarget, key: &RowKey) -> SqlResult<bool> {
        let ChangeTarget { table, condition, .. } = target;
        let Some(found) = self.key_row(table, key.index, &key.values, &NOTHING)? else { return Ok(false) };
        self.made_row()?;
        let id = found.row_id();
        // Another transaction may have changed the row since it was found.
        let judge = |row: &Row<'_>| {
            let Some(newer) = self.newer(table, id, row)? else { return Ok(true) };
            let rows = RowStack { row: &newer, outer: None };
            let holds = condition.as_ref().map_or(Ok(true), |condition| self.holds(condition, &rows));
            holds.map_err(|error| within_newer(error, table))
        };
        let mut failed = None;
        let deleted = self.txn.delete_if(&table.table, id, |row| {
            judge(row).unwrap_or_else(|error: SqlError| {
                failed = Some(error);
                false
            })
        });
        match (failed, deleted) {
            (Some(error), _) => Err(error),
            (None, Err(engine::Error::NoSuchRow { .. })) => Ok(false),
            (None, deleted) => Ok(deleted?),
        }
    }

    /// Evaluates values, at most [`KEYED_WIDTH_MAX`]. Parameters and constants are not copied; others are kept in `made`.
    fn evaluated<'v>(
        &'v self,
        values: &'v [Expr],
        rows: &RowStack<'_>,
        made: &'v mut NarrowRow,
    ) -> SqlResult<[&'v Datum; KEYED_WIDTH_MAX]> {
        for (value, place) in values.iter().zip(made.iter_mut()) {
            if !matches!(value, Expr::Parameter(_) | Expr::Constant(_)) {
                *place = self.value(value, rows)?;
            }
        }
        let mut all = [&Datum::Null; KEYED_WIDTH_MAX];
        for ((value, made), place) in values.iter().zip(&*made).zip(&mut all) {
            *place = match value {
                Expr::Parameter(at) => &self.parameters[*at],
                Expr::Constant(constant) => constant,
                _ => made,
            };
        }
        Ok(all)
    }
}

/// Greatest number of rows that are foreseen at a time.
const FORESEEN_MAX: usize = 40;
/// Greatest number of columns of a key that is foreseen.
const FORESEEN_KEY_MAX: usize = 4;

/// Fills a key with values. Returns `None` if one is null, or not of its column's type, or if the key is too long.
fn foreseen_key<'v>(
    table: &TableInfo,
    key: &'v RowKey,
    parameters: &'v [Datum],
    place: &mut [Value<'v>; FORESEEN_KEY_MAX],
) -> Option<()> {
    let columns = &table.table.indexes().get(key.index)?.columns;
    let place = place.get_mut(..key.values.len())?;
    for ((place, value), column) in place.iter_mut().zip(&key.values).zip(columns) {
        let value = match &value.value {
            Expr::Parameter(at) => parameters.get(*at)?,
            Expr::Constant(constant) => constant,
            _ => return None,
        };
        let kind = table.columns.get(*column)?.kind.kind;
        // Keys of integers have no buffer.
        *place = match (value, kind) {
            (Datum::Int2(value), Kind::Int2) => Value::Int16(*value),
            (Datum::Int4(value), Kind::Int4) => Value::Int32(*value),
            (Datum::Int8(value), Kind::Int8) => Value::Int64(*value),
            _ => return None,
        };
    }
    Some(())
}

/// Fills a row with the columns that expressions read.
fn narrow<'v, 'r>(
    row: &'r mut NarrowRow,
    values: &NarrowValues,
    table: &TableInfo,
    get: impl Fn(usize) -> Value<'v>,
) -> RowStack<'r> {
    let row = row.get_mut(..values.reads.len()).unwrap_or_default();
    row.iter_mut().zip(&values.reads).for_each(|(place, at)| *place = datum(get(*at), table.columns[*at].kind));
    RowStack { row, outer: None }
}

/// Fills the first places with values. Returns them.
fn filled(places: &mut [Datum], values: impl ExactSizeIterator<Item = Datum>) -> &[Datum] {
    let places = places.get_mut(..values.len()).unwrap_or_default();
    places.iter_mut().zip(values).for_each(|(place, value)| *place = value);
    places
}

fn mixed_up() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "a keyed statement of another plan")
}
