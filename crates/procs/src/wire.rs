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
    TypesOf,
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
        let mut row = Vec::with_capacity(columns.len());
        push_values(reader, columns, &mut row)?;
        each(row)?;
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

/// Greatest number of values for which room is kept.
const VALUES_KEPT: usize = 256;

/// Room for the values of calls, kept from one request of an invocation to the next.
#[derive(Debug, Default)]
pub struct ServeRoom {
    row: Vec<Datum>,
    /// Calls that were read before they are made, with their codes.
    foreseen: Vec<ComingCall>,
    codes: Vec<u8>,
    /// Values of these calls.
    values: Vec<Datum>,
}

impl ServeRoom {
    /// Forgets all values, and keeps the room, but for what is more than usual.
    fn clear(&mut self) {
        self.row.clear();
        self.foreseen.clear();
        self.codes.clear();
        self.values.clear();
        // Statements may have any number of parameters.
        self.row.shrink_to(VALUES_KEPT);
        self.values.shrink_to(VALUES_KEPT);
    }
}

/// Executes a batch of calls. Writes the answers in place of what `answer` holds.
///
/// # Errors
/// That of the first call that fails, with which the invocation must end; `39000` for bytes that do not follow the
/// format.
pub fn serve(engine: &mut dyn EngineCalls, request: &[u8], answer: &mut Vec<u8>) -> SqlResult<()> {
    serve_within(engine, request, answer, &mut ServeRoom::default())
}

/// Does what [`serve`] does, with room kept from earlier requests.
///
/// # Errors
/// Those of [`serve`].
pub fn serve_within(
    engine: &mut dyn EngineCalls,
    request: &[u8],
    answer: &mut Vec<u8>,
    room: &mut ServeRoom,
) -> SqlResult<()> {
    // A request that ended by a panic may have left calls.
    room.clear();
    let served = serve_all(engine, request, answer, room);
    room.clear();
    served
}

fn serve_all(
    engine: &mut dyn EngineCalls,
    request: &[u8],
    answer: &mut Vec<u8>,
    room: &mut ServeRoom,
) -> SqlResult<()> {
    answer.clear();
    let mut reader = WireReader::new(request);
    if reader.is_empty() {
        return Err(garbled("an empty request"));
    }
    if FORESEEN_BYTES_MIN <= request.len() {
        reader = foresee(engine, reader, room);
        for (call, code) in room.foreseen.iter().zip(&room.codes) {
            pulse::tick(pulse::ITEM)?;
            serve_foreseen(
                engine,
                (call.what, *code),
                room.values.get(call.values.clone()).unwrap_or_default(),
                answer,
            )?;
            check_fits(answer, "an answer to a call")?;
        }
    }
    if room.row.capacity() == 0 {
        room.row.reserve(ROW_VALUES);
    }
    while !reader.is_empty() {
        // Some calls do no work that counts, and code may make them for ever without a wait.
        pulse::tick(pulse::ITEM)?;
        serve_one(engine, &mut reader, &mut room.row, answer)?;
        check_fits(answer, "an answer to a call")?;
    }
    Ok(())
}

/// Reads the calls with which a request begins, up to the first that writes a row or reaches none by a key, and tells the
/// engine of them. Returns the reader behind them. A call with something wrong is left to [`serve_one`]: its error comes
/// when it is its turn.
fn foresee<'a>(engine: &mut dyn EngineCalls, mut reader: WireReader<'a>, room: &mut ServeRoom) -> WireReader<'a> {
    let ServeRoom { foreseen, codes, values, .. } = room;
    while foreseen.len() < FORESEEN_MAX {
        let (begin, mut ahead) = (values.len(), reader);
        let Ok(Some((what, code))) = foresee_one(engine, &mut ahead, values) else {
            values.truncate(begin);
            break;
        };
        foreseen.push(ComingCall { what, values: begin..values.len() });
        codes.push(code);
        reader = ahead;
    }
    if 1 < foreseen.len() {
        engine.foresee(foreseen, values);
    }
    reader
}

fn foresee_one(
    engine: &mut dyn EngineCalls,
    reader: &mut WireReader<'_>,
    values: &mut Vec<Datum>,
) -> SqlResult<Option<(ComingKind, u8)>> {
    if reader.is_empty() {
        return Ok(None);
    }
    let code = reader.u8()?;
    let (what, of) = match code {
        code::GET => {
            let locks = flag(reader)?;
            let table = TableHandle(reader.u16()?);
            (ComingKind::Get { table, locks }, TypesOf::Key(table))
        }
        code::DELETE => {
            let table = TableHandle(reader.u16()?);
            (ComingKind::Delete(table), TypesOf::Key(table))
        }
        code::EXECUTE | code::QUERY => {
            let statement = StatementHandle(reader.u16()?);
            (ComingKind::Statement(statement), TypesOf::Parameters(statement))
        }
        _ => return Ok(None),
    };
    engine.with_types(of, &mut |types| push_values(reader, types, values))?;
    Ok(Some((what, code)))
}

/// Executes a call that was read before.
fn serve_foreseen(
    engine: &mut dyn EngineCalls,
    (what, code): (ComingKind, u8),
    values: &[Datum],
    answer: &mut Vec<u8>,
) -> SqlResult<()> {
    match what {
        ComingKind::Get { table, locks } => get(engine, table, values, locks, answer),
        ComingKind::Delete(table) => delete(engine, table, values, answer),
        ComingKind::Statement(statement) if code == code::QUERY => query(engine, statement, values, answer),
        ComingKind::Statement(statement) => execute(engine, statement, values, answer),
    }
}

/// Reads values in place of what `row` holds.
fn read_values(reader: &mut WireReader<'_>, of: &[SqlType], row: &mut Vec<Datum>) -> SqlResult<()> {
    row.clear();
    push_values(reader, of, row)
}

/// Reads values behind those of `row`.
fn push_values(reader: &mut WireReader<'_>, of: &[SqlType], row: &mut Vec<Datum>) -> SqlResult<()> {
    row.reserve(of.len());
    of.iter().try_for_each(|one| reader.push_datum(*one, row))
}

/// Reads the values of a call.
fn read_types(
    engine: &mut dyn EngineCalls,
    of: TypesOf,
    reader: &mut WireReader<'_>,
    row: &mut Vec<Datum>,
) -> SqlResult<()> {
    engine.with_types(of, &mut |types| read_values(reader, types, row))
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
            read_types(engine, TypesOf::Key(table), reader, row)?;
            get(engine, table, row, locks, answer)?;
        }
        code::PUT => {
            let is_new = flag(reader)?;
            let table = TableHandle(reader.u16()?);
            read_types(engine, TypesOf::Columns(table), reader, row)?;
            engine.put(table, row, is_new)?;
        }
        code::DELETE => {
            let table = TableHandle(reader.u16()?);
            read_types(engine, TypesOf::Key(table), reader, row)?;
            delete(engine, table, row, answer)?;
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
            read_types(engine, TypesOf::Parameters(statement), reader, row)?;
            execute(engine, statement, row, answer)?;
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
            read_types(engine, TypesOf::Parameters(statement), reader, row)?;
            query(engine, statement, row, answer)?;
        }
        code => return Err(garbled(&format!("{code} is the code of no call"))),
    }
    Ok(())
}

/// Writes the row with a key, if there is one.
fn get(
    engine: &mut dyn EngineCalls,
    table: TableHandle,
    key: &[Datum],
    locks: bool,
    answer: &mut Vec<u8>,
) -> SqlResult<()> {
    let begin = answer.len();
    answer.push(1);
    let is_found = engine.get_typed(table, key, locks, &mut |columns, row| {
        row.iter().zip(columns).for_each(|(value, of)| put(value, *of, answer));
        Ok(ControlFlow::Break(()))
    })?;
    if !is_found {
        answer.truncate(begin);
        answer.push(0);
    }
    Ok(())
}

fn delete(engine: &mut dyn EngineCalls, table: TableHandle, key: &[Datum], answer: &mut Vec<u8>) -> SqlResult<()> {
    let was_there = engine.delete(table, key)?;
    answer.push(u8::from(was_there));
    Ok(())
}

fn execute(
    engine: &mut dyn EngineCalls,
    statement: StatementHandle,
    parameters: &[Datum],
    answer: &mut Vec<u8>,
) -> SqlResult<()> {
    let executed = engine.execute(statement, parameters)?;
    answer.extend_from_slice(&executed.rows.to_le_bytes());
    answer.push(u8::from(executed.cursor.is_some()));
    if let Some(cursor) = executed.cursor {
        answer.extend_from_slice(&cursor.0.to_le_bytes());
    }
    Ok(())
}

/// Executes a statement, and writes the rows of its result, as many as fit.
fn query(
    engine: &mut dyn EngineCalls,
    statement: StatementHandle,
    parameters: &[Datum],
    answer: &mut Vec<u8>,
) -> SqlResult<()> {
    let place = answer.len();
    answer.extend_from_slice(&0_u64.to_le_bytes());
    let mut packet = RowPacket::begin(answer, 0);
    let executed = engine.query(statement, parameters, &mut |columns, row| packet.add(columns, row))?;
    packet.end(executed.cursor.is_none());
    if let Some(cursor) = executed.cursor {
        answer.extend_from_slice(&cursor.0.to_le_bytes());
    }
    if let Some(place) = answer.get_mut(place..place + 8) {
        place.copy_from_slice(&executed.rows.to_le_bytes());
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
