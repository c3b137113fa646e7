//! Calls and invocations as bytes: the one format of every sandboxed level.
//!
//! Both sides use one *exchange area* of [`AREA_BYTES`]: part of the guest's memory at level `wasm`, of a mapping at
//! `process` and above, of a page range in a virtual machine. Over a socket, the same bytes follow their length.
//!
//! An **invocation** fills the area with arguments, and the code replaces them by its result:
//!
//! ```text
//! arguments, result: rows in 4 bytes, columns in 2, values row by row (see `format`)
//! ```
//!
//! A scalar function gets one or more rows of arguments (at most 1,024) and returns as many rows of one column. A
//! procedure gets one row and returns at most one. A set-returning function gets one row and returns any number; rows
//! that do not fit are emitted by calls.
//!
//! A **request** is a batch of calls, one behind the other; the area then holds their **answers**, one behind the
//! other. The first error ends the invocation: nothing is answered.
//!
//! | call | code | fields | answer |
//! |---|---:|---|---|
//! | get | 1 | flags in 1 (bit 0: lock the row), table in 2, values of the key | 0, or 1 and the values of the columns |
//! | put | 2 | flags in 1 (bit 0: insert only), table in 2, values of the columns | |
//! | delete | 3 | table in 2, values of the key | 0 or 1 |
//! | scan | 4 | flags in 1 (bit 0: descending), table in 2, number of values in 2, first values of the key | cursor in 4 |
//! | next | 5 | cursor in 4, greatest number of rows in 4 | as a result, then 1 if no row is left, else 0 |
//! | close | 6 | cursor in 4 | |
//! | execute | 7 | statement in 2, values of the parameters | rows in 8, then 0, or 1 and a cursor in 4 |
//! | notice | 8 | level in 1 (0 debug, 1 log, 2 info, 3 notice, 4 warning), text | |
//! | raise | 9 | SQLSTATE in 5, then message, detail and hint as texts, empty for none | never |
//! | emit | 10 | as a result | |
//! | commit | 11 | | |
//! | rollback | 12 | | |
//! | query | 13 | as of execute | rows in 8, rows as a result, then 1, or 0 and a cursor in 4 over the rest |
//!
//! **Invariant:** an answer never exceeds the area: rows of `next` that do not fit are left for the next call, and any
//! other answer beyond it is `54000`.

use crate::calls::{
    ComingCall, ComingKind, CursorHandle, EngineCalls, NoticeLevel, StatementHandle, TableHandle, TransactionEnd,
};
use crate::format::{WireReader, garbled, put};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use std::ops::ControlFlow;
use types::SqlType;
use types::datum::Datum;

/// Bytes of the exchange area.
pub const AREA_BYTES: usize = 1 << 20;
/// Greatest number of rows of arguments in one invocation.
pub const BATCH_MAX: usize = 1_024;
/// Bytes of an answer besides rows: those that `next` leaves free for its end.
const END_BYTES: usize = 16;

/// Values of a call for which there is room from the beginning.
const ROW_VALUES: usize = 8;
/// Bytes of a request from which on its calls are looked at before they are made: fewer are one call or two.
const FORESEEN_BYTES_MIN: usize = 64;
/// Greatest number of calls that are looked at before.
const FORESEEN_MAX: usize = 40;

/// Kinds of calls, by their codes.
#[allow(missing_docs, reason = "the table of this module")]
pub mod code {
    pub const GET: u8 = 1;
    pub const PUT: u8 = 2;
    pub const DELETE: u8 = 3;
    pub const SCAN: u8 = 4;
    pub const NEXT: u8 = 5;
    pub const CLOSE: u8 = 6;
    pub const EXECUTE: u8 = 7;
    pub const NOTICE: u8 = 8;
    pub const RAISE: u8 = 9;
    pub const EMIT: u8 = 10;
    pub const COMMIT: u8 = 11;
    pub const ROLLBACK: u8 = 12;
    pub const QUERY: u8 = 13;
}

/// Returns the error for a message that does not fit the area.
fn too_large(what: &str) -> SqlError {
    let message = format!("{what} of the routine exceeds {} kB", AREA_BYTES >> 10);
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

fn check_fits(bytes: &[u8], what: &str) -> SqlResult<()> {
    if AREA_BYTES < bytes.len() { Err(too_large(what)) } else { Ok(()) }
}

/// Writes rows of values of these types behind `out`.
fn put_rows(rows: &[&[Datum]], columns: &[SqlType], out: &mut Vec<u8>) {
    out.extend_from_slice(&(rows.len() as u32).to_le_bytes());
    out.extend_from_slice(&(columns.len() as u16).to_le_bytes());
    for row in rows {
        for (value, of) in row.iter().zip(columns) {
            put(value, *of, out);
        }
    }
}

/// Writes the arguments of an invocation, in place of what `out` holds.
///
/// # Errors
/// `54000` if they exceed the area.
pub fn put_arguments(rows: &[&[Datum]], columns: &[SqlType], out: &mut Vec<u8>) -> SqlResult<()> {
    out.clear();
    put_rows(rows, columns, out);
    check_fits(out, "an argument")
}

/// Reads rows of values of these types, and passes each to `each`.
fn rows_of(
    reader: &mut WireReader<'_>,
    columns: &[SqlType],
    each: &mut dyn FnMut(Vec<Datum>) -> SqlResult<()>,
) -> SqlResult<()> {
    let count = reader.u32()?;
    let width = usize::from(reader.u16()?);
    if width != columns.len() && count != 0 {
        return Err(garbled(&format!("rows of {width} columns instead of {}", columns.len())));
    }
    for _ in 0..count {
        // A row without columns takes no bytes, so that their number has no bound.
        if columns.is_empty() && 1 < count {
            return Err(garbled("several rows without columns"));
        }
        pulse::tick(pulse::ITEM)?;
        each(values(reader, columns)?)?;
    }
    Ok(())
}

/// Reads the result of an invocation.
///
/// # Errors
/// `39000` for bytes that do not follow the format; `42804` and the like for values that are not of these types.
pub fn result(bytes: &[u8], columns: &[SqlType]) -> SqlResult<Vec<Vec<Datum>>> {
    let mut reader = WireReader::new(bytes);
    // Most results are one row.
    let mut all = Vec::with_capacity(1);
    rows_of(&mut reader, columns, &mut |row| {
        all.push(row);
        Ok(())
    })?;
    if reader.is_empty() { Ok(all) } else { Err(garbled("bytes after the result")) }
}

/// Executes a batch of calls. Writes the answers in place of what `answer` holds.
///
/// # Errors
/// That of the first call that fails, with which the invocation must end; `39000` for bytes that do not follow the
/// format.
pub fn serve(engine: &mut dyn EngineCalls, request: &[u8], answer: &mut Vec<u8>) -> SqlResult<()> {
    answer.clear();
    let mut reader = WireReader::new(request);
    if reader.is_empty() {
        return Err(garbled("an empty request"));
    }
    if FORESEEN_BYTES_MIN <= request.len() {
        foresee(engine, reader);
    }
    let mut row = Vec::with_capacity(ROW_VALUES);
    while !reader.is_empty() {
        // Some calls do no work that counts, and code may make them for ever without a wait.
        pulse::tick(pulse::ITEM)?;
        serve_one(engine, &mut reader, &mut row, answer)?;
        check_fits(answer, "an answer to a call")?;
    }
    Ok(())
}

/// Tells the engine of the calls with which a request begins, up to the first that writes a row or reaches none by a
/// key. What is wrong with them is found when they are made.
fn foresee(engine: &mut dyn EngineCalls, mut reader: WireReader<'_>) {
    let (mut calls, mut values) = (Vec::with_capacity(FORESEEN_MAX), Vec::new());
    while calls.len() < FORESEEN_MAX
        && let Ok(Some(what)) = foresee_one(engine, &mut reader, &mut values)
    {
        let begin = calls.last().map_or(0, |last: &ComingCall| last.values.end);
        calls.push(ComingCall { what, values: begin..values.len() });
    }
    if 1 < calls.len() {
        engine.foresee(&calls, &values);
    }
}

fn foresee_one(
    engine: &mut dyn EngineCalls,
    reader: &mut WireReader<'_>,
    values: &mut Vec<Datum>,
) -> SqlResult<Option<ComingKind>> {
    if reader.is_empty() {
        return Ok(None);
    }
    let (what, of) = match reader.u8()? {
        code::GET => {
            let locks = flag(reader)?;
            let table = TableHandle(reader.u16()?);
            (ComingKind::Get { table, locks }, engine.key(table)?)
        }
        code::DELETE => {
            let table = TableHandle(reader.u16()?);
            (ComingKind::Delete(table), engine.key(table)?)
        }
        code::EXECUTE | code::QUERY => {
            let statement = StatementHandle(reader.u16()?);
            (ComingKind::Statement(statement), engine.parameters(statement)?)
        }
        _ => return Ok(None),
    };
    for one in &*of {
        values.push(reader.datum(*one)?);
    }
    Ok(Some(what))
}

fn values(reader: &mut WireReader<'_>, of: &[SqlType]) -> SqlResult<Vec<Datum>> {
    let mut all = Vec::with_capacity(of.len());
    read_values(reader, of, &mut all)?;
    Ok(all)
}

/// Reads values in place of what `row` holds.
fn read_values(reader: &mut WireReader<'_>, of: &[SqlType], row: &mut Vec<Datum>) -> SqlResult<()> {
    row.clear();
    for one in of {
        row.push(reader.datum(*one)?);
    }
    Ok(())
}

/// Reads a byte of flags, of which only bit 0 is known.
fn flag(reader: &mut WireReader<'_>) -> SqlResult<bool> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        flags => Err(garbled(&format!("unknown flags {flags:#x}"))),
    }
}

/// Executes one call. `row` is room for its values, which the calls of a batch share.
fn serve_one(
    engine: &mut dyn EngineCalls,
    reader: &mut WireReader<'_>,
    row: &mut Vec<Datum>,
    answer: &mut Vec<u8>,
) -> SqlResult<()> {
    match reader.u8()? {
        code::GET => {
            let locks = flag(reader)?;
            let table = TableHandle(reader.u16()?);
            read_values(reader, &engine.key(table)?, row)?;
            let columns = engine.columns(table)?;
            let begin = answer.len();
            answer.push(1);
            let is_found = engine.get(table, row, locks, &mut |row| {
                row.iter().zip(&*columns).for_each(|(value, of)| put(value, *of, answer));
                Ok(ControlFlow::Break(()))
            })?;
            if !is_found {
                answer.truncate(begin);
                answer.push(0);
            }
        }
        code::PUT => {
            let is_new = flag(reader)?;
            let table = TableHandle(reader.u16()?);
            read_values(reader, &engine.columns(table)?, row)?;
            engine.put(table, row, is_new)?;
        }
        code::DELETE => {
            let table = TableHandle(reader.u16()?);
            read_values(reader, &engine.key(table)?, row)?;
            let was_there = engine.delete(table, row)?;
            answer.push(u8::from(was_there));
        }
        code::SCAN => {
            let is_descending = flag(reader)?;
            let table = TableHandle(reader.u16()?);
            let count = usize::from(reader.u16()?);
            let key = engine.key(table)?;
            let key = key.get(..count).ok_or_else(|| garbled("more values than the key has columns"))?;
            read_values(reader, key, row)?;
            let cursor = engine.scan(table, row, is_descending)?;
            answer.extend_from_slice(&cursor.0.to_le_bytes());
        }
        code::NEXT => next(engine, CursorHandle(reader.u32()?), reader.u32()?, answer)?,
        code::CLOSE => engine.close(CursorHandle(reader.u32()?))?,
        code::EXECUTE => {
            let statement = StatementHandle(reader.u16()?);
            read_values(reader, &engine.parameters(statement)?, row)?;
            let executed = engine.execute(statement, row)?;
            answer.extend_from_slice(&executed.rows.to_le_bytes());
            answer.push(u8::from(executed.cursor.is_some()));
            if let Some(cursor) = executed.cursor {
                answer.extend_from_slice(&cursor.0.to_le_bytes());
            }
        }
        code::NOTICE => {
            let level = match reader.u8()? {
                0 => NoticeLevel::Debug,
                1 => NoticeLevel::Log,
                2 => NoticeLevel::Info,
                3 => NoticeLevel::Notice,
                4 => NoticeLevel::Warning,
                level => return Err(garbled(&format!("{level} is the level of no notice"))),
            };
            engine.notice(level, reader.text()?)?;
        }
        code::RAISE => return Err(raised(reader)?),
        code::EMIT => {
            let columns = engine.result();
            rows_of(reader, &columns, &mut |row| engine.emit(&row))?;
        }
        code::COMMIT => engine.end_transaction(TransactionEnd::Commit)?,
        code::ROLLBACK => engine.end_transaction(TransactionEnd::Rollback)?,
        code::QUERY => {
            let statement = StatementHandle(reader.u16()?);
            read_values(reader, &engine.parameters(statement)?, row)?;
            let place = answer.len();
            answer.extend_from_slice(&0_u64.to_le_bytes());
            let mut packet = RowPacket::begin(answer, 0);
            let executed = engine.query(statement, row, &mut |columns, row| packet.add(columns, row))?;
            packet.end(executed.cursor.is_none());
            if let Some(cursor) = executed.cursor {
                answer.extend_from_slice(&cursor.0.to_le_bytes());
            }
            if let Some(place) = answer.get_mut(place..place + 8) {
                place.copy_from_slice(&executed.rows.to_le_bytes());
            }
        }
        code => return Err(garbled(&format!("{code} is the code of no call"))),
    }
    Ok(())
}

/// Writes the next rows of a cursor, as many as fit.
fn next(engine: &mut dyn EngineCalls, cursor: CursorHandle, count: u32, answer: &mut Vec<u8>) -> SqlResult<()> {
    let columns = engine.cursor_columns(cursor)?;
    let mut packet = RowPacket::begin(answer, columns.len());
    let is_over = engine.next(cursor, count, &mut |row| packet.add(&columns, row))?;
    packet.end(is_over);
    Ok(())
}

/// Rows of an answer, as many as fit.
struct RowPacket<'a> {
    answer: &'a mut Vec<u8>,
    /// Length of the answer before them.
    begin: usize,
    rows: u32,
    columns: usize,
}

impl RowPacket<'_> {
    /// Begins a packet of rows with so many columns, or as many as the first row has.
    fn begin(answer: &mut Vec<u8>, columns: usize) -> RowPacket<'_> {
        let begin = answer.len();
        answer.extend_from_slice(&[0; 6]);
        RowPacket { answer, begin, rows: 0, columns }
    }

    /// Adds a row. Breaks if it does not fit.
    fn add(&mut self, columns: &[SqlType], row: &[Datum]) -> SqlResult<ControlFlow<()>> {
        let before = self.answer.len();
        row.iter().zip(columns).for_each(|(value, of)| put(value, *of, self.answer));
        if self.answer.len() + END_BYTES <= AREA_BYTES {
            self.rows += 1;
            self.columns = columns.len();
            return Ok(ControlFlow::Continue(()));
        }
        self.answer.truncate(before);
        // The row waits for an answer of its own, unless this one has nothing else.
        if self.rows == 0 && self.begin == 0 { Err(too_large("a row")) } else { Ok(ControlFlow::Break(())) }
    }

    /// Ends the packet.
    fn end(self, is_over: bool) {
        if let Some(place) = self.answer.get_mut(self.begin..self.begin + 4) {
            place.copy_from_slice(&self.rows.to_le_bytes());
        }
        if let Some(place) = self.answer.get_mut(self.begin + 4..self.begin + 6) {
            place.copy_from_slice(&(self.columns as u16).to_le_bytes());
        }
        self.answer.push(u8::from(is_over));
    }
}

/// Reads the error that code raises.
fn raised(reader: &mut WireReader<'_>) -> SqlResult<SqlError> {
    let state = reader.array::<5>()?;
    let (message, detail, hint) = (reader.text()?, reader.text()?, reader.text()?);
    let known = std::str::from_utf8(&state).ok().and_then(SqlState::raised);
    // An error that begins with 00, 01 or 02 would be none.
    let known = known.filter(|state| !matches!(state.class(), "00" | "01" | "02"));
    let mut error = SqlError::new(known.unwrap_or(SqlState::RAISE_EXCEPTION), message);
    if !detail.is_empty() {
        error = error.detail(detail);
    }
    if !hint.is_empty() {
        error = error.hint(hint);
    }
    Ok(error)
}
