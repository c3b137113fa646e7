//! The statements of generated transactions.
//!
//! **Invariant:** a statement notes all that its client learns, and nothing else. It may run in an urgent context.

use super::model::Predicate;
use super::notes::{KEYS_MAX, Note, content_of, value_of};
use crate::tpcc::Random;
use core::ops::Bound;
use engine::{
    Column, Comparison, Condition, Direction, Error, IndexDef, Result, Row, RowId, RowLock, Table, TableDef, Txn, Type,
    Value, Wait,
};

const KEY: usize = 0;
const GROUP: usize = 1;
const VALUE: usize = 2;
const BY_KEY: usize = 0;
const BY_GROUP: usize = 1;

/// Returns the definition of the table that histories are made on.
pub(super) fn table_def() -> TableDef {
    let column = |name| Column::required(name, Type::Int64);
    TableDef {
        name: "history".to_owned(),
        columns: vec![column("key"), column("group"), column("value")],
        indexes: vec![IndexDef::unique("history_pkey", &[KEY]), IndexDef::plain("history_group", &[GROUP])],
    }
}

/// Statement of a generated transaction.
#[derive(Debug, Clone, Copy)]
pub(super) enum HistoryStatement {
    Get(usize),
    Range {
        low: usize,
        high: usize,
        direction: Direction,
        limit: usize,
    },
    /// Reads a range by the second index.
    Groups {
        low: i64,
        high: i64,
        direction: Direction,
    },
    /// Reads by a scan with conditions.
    Scan {
        low: i64,
        high: i64,
    },
    Insert(usize),
    Update(usize),
    Delete(usize),
    /// Updates the row's key.
    Move(usize, usize),
    /// Locks the row.
    Lock(usize, RowLock, Wait),
}

impl HistoryStatement {
    /// Draws a random statement on `keys` keys, of which the first are the hottest.
    pub(super) fn random(random: &mut Random, keys: usize, may_write: bool) -> HistoryStatement {
        let mut key = || {
            let last = keys as i32 - 1;
            random.uniform(0, last).min(random.uniform(0, last)) as usize
        };
        let (one, other) = (key(), key());
        let (low, high) = (one.min(other), one.max(other).min(one.min(other) + 7));
        let direction = if random.percent(50) { Direction::Forward } else { Direction::Backward };
        let limit = if random.percent(50) { random.uniform(1, 3) as usize } else { KEYS_MAX };
        let group = i64::from(random.uniform(0, 7));
        let last_group = (group + i64::from(random.uniform(0, 1))).min(7);
        match random.uniform(1, if may_write { 100 } else { 50 }) {
            1..=25 => HistoryStatement::Get(one),
            26..=40 => HistoryStatement::Range { low, high, direction, limit },
            41..=46 => HistoryStatement::Groups { low: group, high: last_group, direction },
            47..=50 => HistoryStatement::Scan { low: group, high: last_group },
            51..=62 => HistoryStatement::Insert(one),
            63..=88 => HistoryStatement::Update(one),
            89..=93 => HistoryStatement::Delete(one),
            94..=95 => HistoryStatement::Move(one, other),
            _ => {
                let mode = RowLock::ALL[random.uniform(0, 3) as usize];
                let wait = match random.uniform(1, 10) {
                    1 => Wait::NoWait,
                    2..=3 => Wait::SkipLocked,
                    _ => Wait::Block,
                };
                HistoryStatement::Lock(one, mode, wait)
            }
        }
    }
}

/// Writer of a statement's values: the attempt's number, and the number of values that it has written.
pub(super) struct ValueWriter {
    pub(super) number: u64,
    pub(super) values: u64,
}

impl ValueWriter {
    fn value(&mut self) -> u64 {
        self.values += 1;
        value_of(self.number, self.values)
    }
}

pub(super) fn row_values(key: usize, value: u64) -> [Value<'static>; 3] {
    [Value::Int64(key as i64), Value::Int64(content_of(value).group), Value::Int64(value as i64)]
}

fn key_of(row: &Row<'_>) -> usize {
    row.get_i64(KEY) as usize
}

/// Notes that the row was read.
fn found(notes: &mut Vec<Note>, row: &Row<'_>) -> u64 {
    let (key, value) = (key_of(row), row.get_i64(VALUE) as u64);
    notes.push(Note::Found { key, value });
    1 << key
}

/// Runs a statement and adds what it learns to `notes`.
pub(super) fn run(
    txn: &Txn<'_>,
    table: &Table,
    statement: HistoryStatement,
    writer: &mut ValueWriter,
    notes: &mut Vec<Note>,
) -> Result<()> {
    match statement {
        HistoryStatement::Get(key) => get(txn, table, key, notes).map(|_| ()),
        HistoryStatement::Range { low, high, direction, limit } => {
            let (first, last) = ([Value::Int64(low as i64)], [Value::Int64(high as i64)]);
            let (first, last) = (Bound::Included(&first[..]), Bound::Included(&last[..]));
            let rows = txn.range_between(table, BY_KEY, first, last, direction)?;
            let (mut mask, mut count, mut end) = (0, 0, None);
            for row in rows.take(limit) {
                mask |= found(notes, &row);
                count += 1;
                end = Some(key_of(&row));
            }
            // A range scan that ended early has not looked behind its last row.
            let (low, high) = match (direction, end.filter(|_| count == limit)) {
                (_, None) => (low, high),
                (Direction::Forward, Some(end)) => (low, end),
                (Direction::Backward, Some(end)) => (end, high),
            };
            notes.push(Note::Looked { predicate: Predicate::Keys(low, high), found: mask });
            Ok(())
        }
        HistoryStatement::Groups { low, high, direction } => {
            let (first, last) = ([Value::Int64(low)], [Value::Int64(high)]);
            let (first, last) = (Bound::Included(&first[..]), Bound::Included(&last[..]));
            let rows = txn.range_between(table, BY_GROUP, first, last, direction)?;
            let mask = rows.fold(0, |mask, row| mask | found(notes, &row));
            notes.push(Note::Looked { predicate: Predicate::Groups(low, high), found: mask });
            Ok(())
        }
        HistoryStatement::Scan { low, high } => {
            let mut mask = 0;
            let conditions = [
                Condition::compare(GROUP, Comparison::GreaterOrEqual, Value::Int64(low)),
                Condition::compare(GROUP, Comparison::LessOrEqual, Value::Int64(high)),
            ];
            txn.scan(table, &conditions, |row| mask |= found(notes, &row))?;
            notes.push(Note::Looked { predicate: Predicate::Groups(low, high), found: mask });
            Ok(())
        }
        HistoryStatement::Insert(key) => {
            let value = writer.value();
            match txn.insert(table, &row_values(key, value)) {
                Ok(_) => notes.push(Note::Wrote { key, value, base: None }),
                // The row exists already. A failed insert leaves no trace.
                Err(Error::UniqueViolation { .. }) => {}
                Err(error) => return Err(error),
            }
            Ok(())
        }
        HistoryStatement::Update(key) => {
            let Some(row) = get(txn, table, key, notes)? else { return Ok(()) };
            update(txn, table, row, key, key, writer, notes)
        }
        HistoryStatement::Delete(key) => {
            let Some(row) = get(txn, table, key, notes)? else { return Ok(()) };
            let mut base = None;
            let deleted = txn.delete_if(table, row, |row| {
                base = Some((key_of(row), row.get_i64(VALUE) as u64));
                true
            })?;
            // At READ COMMITTED the row may have moved, or be gone, since the statement began.
            if let Some((key, base)) = base.filter(|_| deleted) {
                notes.push(Note::Removed { key, base: Some(base) });
            }
            Ok(())
        }
        HistoryStatement::Lock(key, mode, wait) => {
            let Some(row) = get(txn, table, key, notes)? else { return Ok(()) };
            if let Some(row) = txn.lock_row(table, row, mode, wait)? {
                notes.push(Note::Locked { key: key_of(&row), value: row.get_i64(VALUE) as u64 });
            }
            Ok(())
        }
        HistoryStatement::Move(key, to) => {
            let Some(row) = get(txn, table, key, notes)? else { return Ok(()) };
            update(txn, table, row, key, to, writer, notes)
        }
    }
}

fn get(txn: &Txn<'_>, table: &Table, key: usize, notes: &mut Vec<Note>) -> Result<Option<RowId>> {
    let row = txn.get(table, BY_KEY, &[Value::Int64(key as i64)])?;
    let mask = row.map_or(0, |row| found(notes, &row));
    notes.push(Note::Looked { predicate: Predicate::Keys(key, key), found: mask });
    Ok(row.map(|row| row.row_id()))
}

fn update(
    txn: &Txn<'_>,
    table: &Table,
    row: RowId,
    key: usize,
    to: usize,
    writer: &mut ValueWriter,
    notes: &mut Vec<Note>,
) -> Result<()> {
    let value = writer.value();
    let mut base = None;
    let result = txn.update_if(table, row, |row| {
        base = Some((row.get_i64(KEY) as usize, row.get_i64(VALUE) as u64));
        if key != to {
            row.set_i64(KEY, to as i64);
        }
        row.set_i64(GROUP, content_of(value).group);
        row.set_i64(VALUE, value as i64);
        true
    });
    match (result, base) {
        (Ok(true), Some((at, base))) => {
            // At READ COMMITTED the row may have moved since the statement began.
            let end = if key == to { at } else { to };
            if end == at {
                notes.push(Note::Wrote { key: end, value, base: Some(base) });
            } else {
                notes.push(Note::Removed { key: at, base: Some(base) });
                notes.push(Note::Wrote { key: end, value, base: None });
            }
        }
        // Deleted since the statement began, or the new key exists: nothing happened.
        (Ok(_) | Err(Error::UniqueViolation { .. }), _) => {}
        (Err(error), _) => return Err(error),
    }
    Ok(())
}
