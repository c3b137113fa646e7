//! COPY FROM and COPY TO.
//!
//! **Invariant:** rows are inserted in chunks. If a row of a chunk is refused, the chunk is repeated row by row, so
//! that the error names the line.

use super::constraints::ConstraintEvent;
use super::{Flow, Run};
use catalog::TableInfo;
use catalog::storage::{datum, store};
use engine::Value;
use engine::memory::SMALL_BYTES;
use query::bind::{CopyFrom, CopySource, CopyTo};
use query::constraints::TableRules;
use query::copy::out::CopyWriter;
use query::copy::{CopyField, CopyFields, CopyFormat, CopyReader, NextRow, bad};
use query::rows::CopyPiece;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::holdings::MemoryUse;
use statement::pulse;
use std::collections::VecDeque;
use std::ops::Range;
use types::binary::{self, ValueOrigin, utf8};
use types::datum::Datum;
use types::{Kind, SqlType, text};

/// Number of rows that are inserted together.
const CHUNK_ROWS: usize = 256;
/// Maximum number of bytes of data in an error.
const SHOWN_BYTES_MAX: usize = 100;
/// Size of a piece of data for the client.
const PIECE_BYTES: usize = 1 << 16;
/// Maximum number of bytes that a COPY TO may keep.
const SENT_BYTES_MAX: usize = 1 << 30;

/// Progress of a COPY FROM.
#[derive(Clone, Debug)]
pub(crate) struct CopyState {
    reader: CopyReader,
    /// Position of the next row in the data.
    pub(crate) at: usize,
    pub(crate) rows: u64,
    /// True if the next line is the header.
    at_header: bool,
}

impl CopyState {
    pub(crate) fn new(from: &CopyFrom) -> CopyState {
        CopyState {
            reader: CopyReader::new(&from.options, from.places.len()),
            at: 0,
            rows: 0,
            at_header: from.options.header,
        }
    }
}

/// Value of a row to be inserted.
#[derive(Clone, Debug)]
enum CopyCell {
    Fixed(Value<'static>),
    /// Text in the data.
    Data(Range<usize>),
    /// Text that was converted.
    Made(Range<usize>),
    Other(usize),
}

/// Rows to be inserted.
struct CopyChunk<'c> {
    from: &'c CopyFrom,
    data: &'c [u8],
    cells: Vec<CopyCell>,
    made: Vec<u8>,
    datums: Vec<Datum>,
    lines: Vec<u64>,
}

/// Data for the client, which are freed piece by piece as they are sent.
#[derive(Debug, Default)]
pub(crate) struct CopyOutput {
    pieces: VecDeque<CopyPiece>,
    pub(crate) rows: u64,
}

impl CopyOutput {
    /// Takes the first piece.
    pub(crate) fn next(&mut self) -> Option<CopyPiece> {
        self.pieces.pop_front()
    }

    /// Returns true if all pieces were taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

impl Run<'_> {
    /// Inserts the complete rows of the data. Returns the foreign keys that can be checked only at the end; the next
    /// call gets them as `later`.
    pub(crate) fn copy_in(
        &self,
        from: &CopyFrom,
        state: &CopyState,
        data: &[u8],
        is_all: bool,
        later: &[ConstraintEvent],
    ) -> SqlResult<(CopyState, Vec<ConstraintEvent>)> {
        let mut state = state.clone();
        let own = from.rules.as_ref().and_then(|rules| rules.tables.get(&from.table.oid));
        let mut fields = CopyFields::default();
        let mut chunk = CopyChunk {
            from,
            data,
            cells: Vec::with_capacity(CHUNK_ROWS * from.table.columns.len()),
            made: Vec::new(),
            datums: Vec::new(),
            lines: Vec::with_capacity(CHUNK_ROWS),
        };
        loop {
            let next = state.reader.next(data, &mut state.at, is_all, &mut fields);
            let mut line = state.reader.line_number;
            match next {
                Ok(NextRow::Row) => {}
                Ok(NextRow::End) if state.at_header && from.options.header_must_match => {
                    // A missing header line counts as an empty one.
                    line += 1;
                    let is_null = from.options.null.is_empty();
                    fields.add(if is_null { CopyField::Null } else { CopyField::Raw(0..0) }, from.places.len());
                    fields.line = Some(0..0);
                }
                Ok(NextRow::More | NextRow::End) => break,
                Err(error) if state.reader.is_at_head() => return Err(error),
                Err(error) => return Err(error.context(line_context(from, data, &fields, line))),
            }
            if std::mem::take(&mut state.at_header) {
                if from.options.header_must_match {
                    let checked = self.check_header(from, data, &fields);
                    checked.map_err(|error| error.context(line_context(from, data, &fields, line)))?;
                }
                continue;
            }
            self.copy_row(&mut chunk, &fields, line)?;
            state.rows += 1;
            if chunk.lines.len() == CHUNK_ROWS {
                self.copy_chunk(&mut chunk)?;
            }
        }
        self.copy_chunk(&mut chunk)?;
        // A row may reference a later row of the same table. All other foreign keys are checked now, so that only one
        // piece's are kept.
        if !is_all && own.is_some_and(TableRules::refers_to_itself) {
            return Ok((state, self.changes().events.take().into()));
        }
        self.changes().events.borrow_mut().extend(later.iter().cloned());
        self.look_after()?;
        Ok((state, Vec::new()))
    }

    fn check_header(&self, from: &CopyFrom, data: &[u8], fields: &CopyFields) -> SqlResult<()> {
        if fields.found != from.places.len() {
            let (got, expected) = (fields.found, from.places.len());
            return Err(bad(format!("wrong number of fields in header line: got {got}, expected {expected}")));
        }
        for (at, place) in from.places.iter().enumerate() {
            let expected = &from.table.columns[*place].name;
            let number = at + 1;
            let Some(got) = fields.bytes(data, at) else {
                let message = format!(
                    "column name mismatch in header line field {number}: got null value (\"{}\"), expected \"{expected}\"",
                    from.options.null
                );
                return Err(bad(message));
            };
            if got != expected.as_bytes() {
                let got = String::from_utf8_lossy(got);
                let message = format!(
                    "column name mismatch in header line field {number}: got \"{got}\", expected \"{expected}\""
                );
                return Err(bad(message));
            }
        }
        Ok(())
    }

    /// Adds a row to the chunk.
    fn copy_row(&self, chunk: &mut CopyChunk<'_>, fields: &CopyFields, line: u64) -> SqlResult<()> {
        let (from, data) = (chunk.from, chunk.data);
        let table = &*from.table;
        let is_binary = from.options.format == CopyFormat::Binary;
        let in_line = |error: SqlError| error.context(line_context(from, data, fields, line));
        let (found, wanted) = (fields.found, from.places.len());
        if wanted < found {
            // For a table without columns, an empty line is one empty field.
            let is_nothing = wanted == 0 && found == 1 && fields.bytes(data, 0).is_some_and(<[u8]>::is_empty);
            if !is_nothing {
                return Err(in_line(bad("extra data after last expected column")));
            }
        }
        let first = chunk.cells.len();
        chunk.cells.resize(first + table.columns.len(), CopyCell::Fixed(Value::Null));
        for (number, place) in from.places.iter().enumerate() {
            let column = &table.columns[*place];
            let Some(field) = fields.all.get(number) else {
                return Err(in_line(bad(format!("missing data for column \"{}\"", column.name))));
            };
            let mut bytes = fields.bytes(data, number);
            if from.options.format == CopyFormat::Csv {
                let null = from.options.null.as_bytes();
                if bytes.is_none() && from.force_not_null.get(number) == Some(&true) {
                    bytes = Some(null);
                } else if bytes == Some(null) && from.force_null.get(number) == Some(&true) {
                    bytes = None;
                }
            }
            let Some(bytes) = bytes else { continue };
            let made = if is_binary {
                binary::input(bytes, column.kind, ValueOrigin::Field).map(|value| chunk.keep(value))
            } else {
                let raw = match field {
                    CopyField::Raw(range) if range.len() == bytes.len() => Some(range.clone()),
                    CopyField::Null | CopyField::Raw(_) | CopyField::Made(_) => None,
                };
                self.copy_cell(chunk, bytes, raw, column.kind)
            };
            chunk.cells[first + place] = made.map_err(|error| {
                // PostgreSQL checks the encoding of the whole line before it splits the line.
                if error.state() == SqlState::CHARACTER_NOT_IN_REPERTOIRE && !is_binary {
                    return error.context(format!("COPY {}, line {line}", table.name));
                }
                let mut context = format!("COPY {}, line {line}, column {}", table.name, column.name);
                if !is_binary {
                    context = format!("{context}: \"{}\"", shown(bytes));
                }
                error.context(context)
            })?;
        }
        let nothing = super::RowStack { row: &[], outer: None };
        for (at, value) in &from.defaults {
            let value = self.value(value, &nothing).map_err(in_line)?;
            chunk.cells[first + at] = chunk.keep(value);
        }
        chunk.lines.push(line);
        let is_missing = |(cell, column): (&CopyCell, &catalog::ColumnDef)| {
            column.not_null && matches!(cell, CopyCell::Fixed(Value::Null))
        };
        if chunk.cells[first..].iter().zip(&table.columns).any(is_missing) {
            let row = chunk.with_values(first, |values| row_of(table, values))?;
            self.not_null(table, &row).map_err(in_line)?;
        }
        if let Some(own) = from.rules.as_ref().and_then(|rules| rules.tables.get(&table.oid))
            && !own.checks.is_empty()
        {
            let row = chunk.with_values(first, |values| row_of(table, values))?;
            self.check(own, &row).map_err(in_line)?;
        }
        Ok(())
    }

    /// Converts a value. `raw` is its range in the data, if it stands there unchanged.
    fn copy_cell(
        &self,
        chunk: &mut CopyChunk<'_>,
        bytes: &[u8],
        raw: Option<Range<usize>>,
        kind: SqlType,
    ) -> SqlResult<CopyCell> {
        let short_enough = |length: Option<usize>| length.is_none_or(|length| bytes.len() <= length);
        match kind.kind {
            Kind::Int4 => {
                if let Some(value) = integer(bytes).and_then(|value| i32::try_from(value).ok()) {
                    return Ok(CopyCell::Fixed(Value::Int32(value)));
                }
            }
            Kind::Int8 => {
                if let Some(value) = integer(bytes) {
                    return Ok(CopyCell::Fixed(Value::Int64(value)));
                }
            }
            Kind::Int2 => {
                if let Some(value) = integer(bytes).and_then(|value| i16::try_from(value).ok()) {
                    return Ok(CopyCell::Fixed(Value::Int16(value)));
                }
            }
            Kind::Text | Kind::Varchar | Kind::Bpchar if short_enough(kind.max_length()) => {
                utf8(bytes)?;
                // Trailing blanks of this type are not stored.
                let blanks = match kind.kind {
                    Kind::Bpchar => bytes.iter().rev().take_while(|byte| **byte == b' ').count(),
                    _ => 0,
                };
                let length = bytes.len() - blanks;
                return Ok(match raw {
                    Some(range) => CopyCell::Data(range.start..range.start + length),
                    None => {
                        let start = chunk.made.len();
                        chunk.made.extend_from_slice(&bytes[..length]);
                        CopyCell::Made(start..chunk.made.len())
                    }
                });
            }
            _ => {}
        }
        let value = text::input(utf8(bytes)?, kind, &self.env.forms)?;
        Ok(chunk.keep(value))
    }

    /// Inserts the rows of the chunk.
    fn copy_chunk(&self, chunk: &mut CopyChunk<'_>) -> SqlResult<()> {
        let table = &*chunk.from.table;
        let rules = chunk.from.rules.as_ref();
        let width = table.columns.len();
        if chunk.lines.is_empty() {
            return Ok(());
        }
        chunk.with_values(0, |values| {
            let empty: &[Value<'_>] = &[];
            let rows: Vec<&[Value<'_>]> = match width {
                0 => vec![empty; chunk.lines.len()],
                width => values.chunks(width).collect(),
            };
            // Foreign keys need the ids of the rows.
            if rules.is_none() {
                match self.txn.insert_many(&table.table, &rows) {
                    Ok(()) => return Ok(()),
                    Err(engine::Error::UniqueViolation { .. } | engine::Error::InvalidValue { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            for (row, line) in rows.iter().zip(&chunk.lines) {
                match self.txn.insert(&table.table, row) {
                    Ok(id) => rules.iter().for_each(|rules| self.inserted(rules, table, id)),
                    Err(error) => {
                        let error = self.describe(error.into(), table, &row_of(table, row)?);
                        return Err(error.context(format!("COPY {}, line {line}", table.name)));
                    }
                }
            }
            Ok(())
        })?;
        chunk.cells.clear();
        chunk.made.clear();
        chunk.datums.clear();
        chunk.lines.clear();
        Ok(())
    }

    /// Returns the data of a COPY TO.
    pub(crate) fn copy_out(&self, to: &CopyTo) -> SqlResult<CopyOutput> {
        let (mut sent, mut total) = (CopyOutput::default(), 0);
        sent.rows = self.copy_pieces(to, &mut |piece| {
            self.sends(&mut total, piece.data.len())?;
            sent.pieces.push_back(piece);
            Ok(())
        })?;
        Ok(sent)
    }

    /// Passes the data of a COPY TO on, piece by piece. Returns the number of rows.
    pub(crate) fn copy_pieces(&self, to: &CopyTo, give: &mut dyn FnMut(CopyPiece) -> SqlResult<()>) -> SqlResult<u64> {
        let writer =
            CopyWriter { options: &to.options, kinds: &to.kinds, force_quote: &to.force_quote, forms: &self.env.forms };
        let (mut piece, mut buffer, mut rows) = (CopyPiece::default(), String::new(), 0);
        writer.begin(&to.names, &mut piece.data);
        // The binary header is sent with the first row, as PostgreSQL does: clients expect a row in each message.
        if !piece.data.is_empty() && to.options.format != CopyFormat::Binary {
            piece.end_message();
        }
        let mut each = |row: &[Datum]| {
            // Text of a value, and the buffer that it is moved to when it grows.
            let size = query::rows::bytes_of(row);
            if SMALL_BYTES < size {
                SqlError::check_room(3 * size)?;
            }
            writer.row(row, &mut buffer, &mut piece.data)?;
            piece.end_message();
            rows += 1;
            if PIECE_BYTES <= piece.data.len() {
                give(std::mem::take(&mut piece))?;
            }
            Ok(Flow::Continue(()))
        };
        match &to.rows {
            CopySource::Query(plan) => {
                let _ = self.rows(plan, None, &mut each)?;
            }
            CopySource::Change(modify) => {
                for row in self.modify(modify)?.returned {
                    let _ = each(&row)?;
                }
            }
        }
        let before = piece.data.len();
        writer.end(&mut piece.data);
        if before < piece.data.len() {
            piece.end_message();
        }
        if !piece.data.is_empty() {
            give(piece)?;
        }
        Ok(rows)
    }

    /// Counts data for the client as results of the statement.
    fn sends(&self, total: &mut usize, bytes: usize) -> SqlResult<()> {
        pulse::copies(bytes)?;
        let before = *total;
        *total += bytes;
        if before / SMALL_BYTES != *total / SMALL_BYTES {
            SqlError::check_room(SMALL_BYTES)?;
            self.spent.holdings.tell(&self.env.holdings, MemoryUse::Results, self.txn.bytes_made());
        }
        if *total <= SENT_BYTES_MAX {
            return Ok(());
        }
        Err(SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
            .detail("The data of COPY take more than 1 GiB.")
            .hint("Copy parts of the table, by COPY (SELECT ...)."))
    }
}

impl CopyChunk<'_> {
    fn keep(&mut self, value: Datum) -> CopyCell {
        if value.is_null() {
            return CopyCell::Fixed(Value::Null);
        }
        self.datums.push(value);
        CopyCell::Other(self.datums.len() - 1)
    }

    /// Passes the values of the rows from this cell on to `then`, in the engine's form.
    fn with_values<R>(&self, first: usize, then: impl FnOnce(&[Value<'_>]) -> SqlResult<R>) -> SqlResult<R> {
        let kinds = self.from.table.columns.iter().map(|column| column.kind);
        let mut buffers = vec![Vec::new(); self.datums.len()];
        let mut left = &mut buffers[..];
        let bad_text = |_| SqlError::new(SqlState::INTERNAL_ERROR, "text that was read before");
        let mut values = Vec::with_capacity(self.cells.len());
        for (cell, kind) in self.cells.get(first..).unwrap_or_default().iter().zip(kinds.cycle()) {
            values.push(match cell {
                CopyCell::Fixed(value) => *value,
                CopyCell::Data(range) => Value::Text(std::str::from_utf8(&self.data[range.clone()]).map_err(bad_text)?),
                CopyCell::Made(range) => Value::Text(std::str::from_utf8(&self.made[range.clone()]).map_err(bad_text)?),
                CopyCell::Other(at) => {
                    let Some((buffer, rest)) = std::mem::take(&mut left).split_first_mut() else {
                        return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a value that was not kept"));
                    };
                    left = rest;
                    store(&self.datums[*at], kind, buffer)?
                }
            });
        }
        then(&values)
    }
}

fn row_of(table: &TableInfo, values: &[Value<'_>]) -> SqlResult<Vec<Datum>> {
    Ok(values.iter().zip(&table.columns).map(|(value, column)| datum(*value, column.kind)).collect())
}

/// Parses a plain integer that has few enough digits to fit.
fn integer(bytes: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match bytes {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if !(1..=18).contains(&digits.len()) {
        return None;
    }
    let mut value = 0_i64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value * 10 + i64::from(digit - b'0');
    }
    Some(if is_negative { -value } else { value })
}

/// Returns the error context, `COPY t, line 2: "..."`.
fn line_context(from: &CopyFrom, data: &[u8], fields: &CopyFields, line: u64) -> String {
    let context = format!("COPY {}, line {line}", from.table.name);
    match fields.line.clone().and_then(|line| data.get(line)) {
        Some(text) if from.options.format != CopyFormat::Binary => {
            format!("{context}: \"{}\"", shown(text))
        }
        _ => context,
    }
}

/// Returns the part of the data that an error shows.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.len() <= SHOWN_BYTES_MAX {
        return text.into_owned();
    }
    format!("{}...", syntax::names::clipped(&text, SHOWN_BYTES_MAX))
}
