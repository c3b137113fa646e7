//! Calls of the database.

use crate::batch::Batch;
use crate::bytes::{Message, Reader, check_fits, code, put_bytes, shortened};
use crate::cursor::Cursor;
use crate::error::Result;
use crate::row::{FromRow, IntoRow, Row, Rows, ValueSink};
use crate::value::FromValue;
use std::sync::Arc;

/// Greatest number of bytes of emitted rows that are sent together, unless one row has more.
const EMIT_BYTES: usize = 64 << 10;

/// Table of the manifest. [`module!`](crate::module!) defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    pub(crate) number: u16,
    pub(crate) columns: u16,
}

impl Table {
    /// Creates the table with this number in the manifest, and so many columns.
    pub const fn numbered(number: u16, columns: u16) -> Table {
        Table { number, columns }
    }
}

/// SQL statement of the manifest. [`module!`](crate::module!) defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement(pub(crate) u16);

impl Statement {
    /// Creates the statement with this number in the manifest.
    pub const fn numbered(number: u16) -> Statement {
        Statement(number)
    }
}

/// Level of a notice, as in `RAISE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's names")]
pub enum NoticeLevel {
    Debug,
    Log,
    Info,
    Notice,
    Warning,
}

/// Result of a statement.
#[derive(Debug)]
pub struct Executed {
    /// Rows that the statement has changed, or returned.
    pub rows: u64,
    /// Cursor over the rows of the result; `None` for a statement without any.
    pub cursor: Option<Cursor>,
}

/// Result of a query that was made in a batch.
#[derive(Debug)]
pub struct Queried {
    /// Rows that the statement has changed, or returned.
    pub count: u64,
    /// Rows of the result, as many as have fitted the answer.
    pub rows: Vec<Row>,
    /// Cursor over the others; `None` if there are none.
    pub rest: Option<Cursor>,
}

/// Bytes of a request for which there is room from the beginning.
const REQUEST_BYTES: usize = 256;

/// Database at the other end of a channel.
pub trait Host {
    /// Returns the room for requests and for the result of one invocation.
    fn room(&mut self) -> Vec<u8> {
        Vec::with_capacity(REQUEST_BYTES)
    }

    /// Sends a batch of calls, and returns the answers.
    ///
    /// # Errors
    /// When the invocation must end.
    fn exchange(&mut self, request: &[u8]) -> Result<&[u8]>;
}

/// Invocation of an entry: its arguments, and the way to the database.
///
/// # Errors
/// All calls fail with the error of the same SQL. The invocation ends with it, whatever the code returns.
pub struct Call<'h> {
    host: &'h mut dyn Host,
    pub(crate) request: Vec<u8>,
    pub(crate) arguments: Row,
    emitted: Rows,
}

impl std::fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("arguments", &self.arguments).finish_non_exhaustive()
    }
}

impl<'h> Call<'h> {
    pub(crate) fn new(host: &'h mut dyn Host) -> Call<'h> {
        let request = host.room();
        Call { host, request, arguments: Row::default(), emitted: Rows::default() }
    }

    /// Reads all arguments, as a tuple or as one value.
    ///
    /// # Errors
    /// As [`Row::read`].
    pub fn arguments<T: FromRow>(&self) -> Result<T> {
        self.arguments.read()
    }

    /// Reads an argument; the first is 0.
    ///
    /// # Errors
    /// As [`Row::get`].
    pub fn argument<T: FromValue>(&self, at: usize) -> Result<T> {
        self.arguments.get(at)
    }

    /// Begins a batch of calls, which the database makes at once.
    pub fn batch(&mut self) -> Batch<'_, 'h> {
        Batch::new(self)
    }

    /// Sends the request, and returns the answers.
    pub(crate) fn exchange(&mut self) -> Result<Reader<'_>> {
        check_fits(self.request.len(), "a batch of calls")?;
        let answer = self.host.exchange(&self.request)?;
        Ok(Reader::new(answer))
    }

    /// Sends the request, and returns the answers in memory that rows can share.
    pub(crate) fn exchange_shared(&mut self) -> Result<Arc<[u8]>> {
        self.exchange().map(|answer| Arc::from(answer.rest()))
    }

    /// Begins a request that consists of one call.
    pub(crate) fn begin(&mut self, code: u8) -> &mut Vec<u8> {
        self.request.clear();
        self.request.push(code);
        &mut self.request
    }

    /// Returns the row with this key; `None` if there is none. `key` has the columns of the primary key.
    pub fn get(&mut self, table: Table, key: impl IntoRow) -> Result<Option<Row>> {
        self.get_row(table, key, false)
    }

    /// Returns the row with this key, after it is locked as `SELECT … FOR UPDATE` does.
    pub fn get_for_update(&mut self, table: Table, key: impl IntoRow) -> Result<Option<Row>> {
        self.get_row(table, key, true)
    }

    fn get_row(&mut self, table: Table, key: impl IntoRow, locks: bool) -> Result<Option<Row>> {
        self.request.clear();
        put_get(table, key, locks, &mut self.request);
        let mut answer = self.exchange()?;
        Ok(answer.bool()?.then(|| Row::of(answer.rest(), table.columns)))
    }

    /// Inserts a row, or updates the row with its key. `row` has the columns of the table in the manifest.
    pub fn put(&mut self, table: Table, row: impl IntoRow) -> Result<()> {
        self.request.clear();
        put_put(table, row, false, &mut self.request);
        self.exchange().map(drop)
    }

    /// Inserts a row.
    ///
    /// # Errors
    /// `23505` if there is a row with its key.
    pub fn insert(&mut self, table: Table, row: impl IntoRow) -> Result<()> {
        self.request.clear();
        put_put(table, row, true, &mut self.request);
        self.exchange().map(drop)
    }

    /// Deletes the row with this key. Returns true if there was one.
    pub fn delete(&mut self, table: Table, key: impl IntoRow) -> Result<bool> {
        self.request.clear();
        put_delete(table, key, &mut self.request);
        self.exchange()?.bool()
    }

    /// Opens a cursor over the rows whose key begins with these values, in the order of the key. `()` is all rows.
    pub fn scan(&mut self, table: Table, prefix: impl IntoRow) -> Result<Cursor> {
        self.scan_rows(table, prefix, false)
    }

    /// Opens a cursor over the rows whose key begins with these values, the greatest key first.
    pub fn scan_descending(&mut self, table: Table, prefix: impl IntoRow) -> Result<Cursor> {
        self.scan_rows(table, prefix, true)
    }

    fn scan_rows(&mut self, table: Table, prefix: impl IntoRow, is_descending: bool) -> Result<Cursor> {
        self.request.clear();
        put_scan(table, prefix, is_descending, &mut self.request);
        Ok(Cursor::numbered(self.exchange()?.u32()?))
    }

    /// Executes a statement of the manifest.
    pub fn execute(&mut self, statement: Statement, parameters: impl IntoRow) -> Result<Executed> {
        self.request.clear();
        put_execute(statement, parameters, &mut self.request);
        read_executed(&mut self.exchange()?)
    }

    /// Executes a statement of the manifest, and returns all rows of its result.
    pub fn query(&mut self, statement: Statement, parameters: impl IntoRow) -> Result<Vec<Row>> {
        self.request.clear();
        put_query(statement, parameters, &mut self.request);
        let answer = self.exchange_shared()?;
        let Queried { count: _, mut rows, rest } = read_queried(&mut Message::from(&answer, 0))?;
        if let Some(cursor) = rest {
            for row in cursor.rows(self) {
                rows.push(row?);
            }
        }
        Ok(rows)
    }

    /// Commits the transaction, and begins another. Cursors are closed, and locks are gone.
    ///
    /// # Errors
    /// `2D000` unless the entry is a procedure that `CALL` runs outside a transaction block, without `SECURITY DEFINER`
    /// and `SET`; those of a commit.
    pub fn commit(&mut self) -> Result<()> {
        self.begin(code::COMMIT);
        self.exchange().map(drop)
    }

    /// Rolls the transaction back to the last commit, and begins another. Cursors are closed, and locks are gone.
    ///
    /// # Errors
    /// As [`Call::commit`].
    pub fn rollback(&mut self) -> Result<()> {
        self.begin(code::ROLLBACK);
        self.exchange().map(drop)
    }

    /// Sends a notice to the client.
    pub fn notice(&mut self, level: NoticeLevel, message: &str) -> Result<()> {
        self.request.clear();
        put_notice(level, message, &mut self.request);
        self.exchange().map(drop)
    }

    /// Adds a row to the result of a set-returning function. Rows are sent in packets, the last when the entry returns.
    pub fn emit(&mut self, row: impl IntoRow) -> Result<()> {
        let mut one = Rows::default();
        one.push(row)?;
        if EMIT_BYTES < self.emitted.bytes() + one.bytes() {
            self.flush()?;
        }
        self.emitted.append(one)
    }

    /// Sends the rows that were emitted and not sent.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if self.emitted.is_empty() {
            return Ok(());
        }
        self.request.clear();
        self.request.push(code::EMIT);
        self.emitted.put(&mut self.request)?;
        self.emitted.clear();
        self.exchange().map(drop)
    }

    /// Returns the rows that were emitted and not sent.
    pub(crate) fn emitted(&mut self) -> &mut Rows {
        &mut self.emitted
    }
}

fn put_table(code: u8, flag: bool, table: Table, out: &mut Vec<u8>) {
    let [low, high] = table.number.to_le_bytes();
    out.extend_from_slice(&[code, u8::from(flag), low, high]);
}

pub(crate) fn put_get(table: Table, key: impl IntoRow, locks: bool, out: &mut Vec<u8>) {
    put_table(code::GET, locks, table, out);
    key.into_row(&mut ValueSink::new(out));
}

pub(crate) fn put_put(table: Table, row: impl IntoRow, is_new: bool, out: &mut Vec<u8>) {
    put_table(code::PUT, is_new, table, out);
    row.into_row(&mut ValueSink::new(out));
}

pub(crate) fn put_delete(table: Table, key: impl IntoRow, out: &mut Vec<u8>) {
    out.push(code::DELETE);
    out.extend_from_slice(&table.number.to_le_bytes());
    key.into_row(&mut ValueSink::new(out));
}

pub(crate) fn put_scan(table: Table, prefix: impl IntoRow, is_descending: bool, out: &mut Vec<u8>) {
    put_table(code::SCAN, is_descending, table, out);
    let place = out.len();
    out.extend_from_slice(&[0, 0]);
    let mut sink = ValueSink::new(out);
    prefix.into_row(&mut sink);
    let count = sink.count().to_le_bytes();
    if let Some(place) = out.get_mut(place..place + 2) {
        place.copy_from_slice(&count);
    }
}

pub(crate) fn put_execute(statement: Statement, parameters: impl IntoRow, out: &mut Vec<u8>) {
    out.push(code::EXECUTE);
    out.extend_from_slice(&statement.0.to_le_bytes());
    parameters.into_row(&mut ValueSink::new(out));
}

pub(crate) fn put_query(statement: Statement, parameters: impl IntoRow, out: &mut Vec<u8>) {
    out.push(code::QUERY);
    out.extend_from_slice(&statement.0.to_le_bytes());
    parameters.into_row(&mut ValueSink::new(out));
}

pub(crate) fn put_notice(level: NoticeLevel, message: &str, out: &mut Vec<u8>) {
    let level = match level {
        NoticeLevel::Debug => 0,
        NoticeLevel::Log => 1,
        NoticeLevel::Info => 2,
        NoticeLevel::Notice => 3,
        NoticeLevel::Warning => 4,
    };
    out.extend_from_slice(&[code::NOTICE, level]);
    put_bytes(shortened(message).as_bytes(), out);
}

pub(crate) fn read_get(answer: &mut Message<'_>, columns: u16) -> Result<Option<Row>> {
    if answer.reader.bool()? { answer.row(columns).map(Some) } else { Ok(None) }
}

pub(crate) fn read_queried(answer: &mut Message<'_>) -> Result<Queried> {
    let count = answer.reader.u64()?;
    let rows = answer.rows()?;
    let rest = if answer.reader.bool()? { None } else { Some(Cursor::numbered(answer.reader.u32()?)) };
    Ok(Queried { count, rows, rest })
}

pub(crate) fn read_executed(answer: &mut Reader<'_>) -> Result<Executed> {
    let rows = answer.u64()?;
    let cursor = if answer.bool()? { Some(Cursor::numbered(answer.u32()?)) } else { None };
    Ok(Executed { rows, cursor })
}
