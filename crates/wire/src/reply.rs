//! Messages of the server, appended to one buffer that is written when no request is left to answer. The messages of
//! every execution are encoded here, and a test compares them with what `pgwire` encodes; `pgwire` encodes the rest.
//!
//! **Invariant:** the buffer holds complete messages. A message that turns out to be impossible is taken back.

use bytes::{BufMut, BytesMut};
use engine::memory::{SMALL_BYTES, has_room};
use pgwire::messages::Message;
use pgwire::messages::copy::{CopyInResponse, CopyOutResponse};
use pgwire::messages::data::ParameterDescription;
use pgwire::messages::response::{ErrorResponse, NoticeResponse};
use pgwire::messages::startup::{Authentication, BackendKeyData, NegotiateProtocolVersion, ParameterStatus, SecretKey};
use statement::outcome::CopyShape;
use statement::outcome::{CommandTag, TransactionStatus};
use statement::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use types::Datum;

/// Format of a value on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text format.
    Text,
    /// Binary format, as PostgreSQL's `typsend` functions write it.
    Binary,
}

/// Column of a `RowDescription`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column<'s> {
    /// Name of the column.
    pub name: &'s str,
    /// OID of its table, 0 if it is not the column of a table.
    pub table: u32,
    /// Number in its table, counted from 1; 0 if it is not the column of a table.
    pub number: i16,
    /// OID of its type.
    pub oid: u32,
    /// Length of its type; -1 for types of variable length.
    pub length: i16,
    /// Modifier of its type; -1 for none.
    pub typmod: i32,
}

/// Formats of a result's columns: one for all, or one for each.
#[derive(Clone, Debug)]
pub enum Formats {
    /// Single format for all columns.
    All(Format),
    /// Format of each column.
    Each(Arc<[Format]>),
}

impl Formats {
    /// Returns the format of a column; text if none was given.
    pub fn of(&self, column: usize) -> Format {
        match self {
            Formats::All(format) => *format,
            Formats::Each(formats) => formats.get(column).copied().unwrap_or(Format::Text),
        }
    }
}

/// Buffer of messages that wait to be written.
#[derive(Default)]
pub struct Replies {
    /// Complete messages.
    pub out: BytesMut,
}

impl Replies {
    fn put(&mut self, message: &impl Message) {
        let whole = self.out.len();
        if let Err(error) = message.encode(&mut self.out) {
            tracing::warn!(%error, "a message to a client was left out");
            self.out.truncate(whole);
        }
    }

    /// Appends an `ErrorResponse`.
    pub fn error(&mut self, severity: &str, error: &SqlError) {
        self.put(&ErrorResponse::new(fields(severity, error)));
    }

    /// Appends a `NoticeResponse`.
    pub fn notice(&mut self, severity: &str, error: &SqlError) {
        self.put(&NoticeResponse::new(fields(severity, error)));
    }

    /// Appends an `Authentication…`.
    pub fn authentication(&mut self, message: &Authentication) {
        self.put(message);
    }

    /// Appends a `NegotiateProtocolVersion`.
    pub fn negotiate(&mut self, newest: i32, unknown: Vec<String>) {
        self.put(&NegotiateProtocolVersion::new(newest, unknown));
    }

    /// Appends a `ParameterStatus`.
    pub fn parameter_status(&mut self, name: &str, value: String) {
        self.put(&ParameterStatus::new(name.to_owned(), value));
    }

    /// Appends a `BackendKeyData`.
    pub fn key(&mut self, pid: i32, secret: i32) {
        self.put(&BackendKeyData::new(pid, SecretKey::I32(secret)));
    }

    /// Appends a message without a body.
    fn word(&mut self, kind: u8) {
        self.out.extend_from_slice(&[kind, 0, 0, 0, 4]);
    }

    /// Appends a `ReadyForQuery`.
    pub fn ready(&mut self, status: TransactionStatus) {
        let letter = match status {
            TransactionStatus::Idle => b'I',
            TransactionStatus::Open => b'T',
            TransactionStatus::Failed => b'E',
        };
        self.out.extend_from_slice(&[b'Z', 0, 0, 0, 5, letter]);
    }

    /// Appends a `ParseComplete`.
    pub fn parse_complete(&mut self) {
        self.word(b'1');
    }

    /// Appends a `BindComplete`.
    pub fn bind_complete(&mut self) {
        self.word(b'2');
    }

    /// Appends a `CloseComplete`.
    pub fn close_complete(&mut self) {
        self.word(b'3');
    }

    /// Appends a `PortalSuspended`.
    pub fn suspended(&mut self) {
        self.word(b's');
    }

    /// Appends an `EmptyQueryResponse`.
    pub fn empty(&mut self) {
        self.word(b'I');
    }

    /// Appends a `NoData`.
    pub fn no_data(&mut self) {
        self.word(b'n');
    }

    /// Appends a `ParameterDescription`.
    pub fn parameters(&mut self, types: Vec<u32>) {
        self.put(&ParameterDescription::new(types));
    }

    /// Appends a `RowDescription`, or `NoData` for a statement without rows.
    pub fn columns<'c>(
        &mut self,
        columns: Option<impl IntoIterator<IntoIter: ExactSizeIterator<Item = Column<'c>>>>,
        formats: &Formats,
    ) {
        let Some(columns) = columns.map(IntoIterator::into_iter) else { return self.no_data() };
        let begin = self.begin(b'T');
        // Statements have fewer columns than this can hold.
        self.out.put_u16(columns.len() as u16);
        for (at, Column { name, table, number, oid, length, typmod }) in columns.enumerate() {
            let mut rest = [0; 19];
            rest[1..5].copy_from_slice(&table.to_be_bytes());
            rest[5..7].copy_from_slice(&number.to_be_bytes());
            rest[7..11].copy_from_slice(&oid.to_be_bytes());
            rest[11..13].copy_from_slice(&length.to_be_bytes());
            rest[13..17].copy_from_slice(&typmod.to_be_bytes());
            rest[18] = u8::from(formats.of(at) == Format::Binary);
            self.out.extend_from_slice(name.as_bytes());
            self.out.extend_from_slice(&rest);
        }
        self.end(begin);
    }

    /// Begins a message whose length is not known yet.
    fn begin(&mut self, kind: u8) -> usize {
        self.out.extend_from_slice(&[kind, 0, 0, 0, 0]);
        self.out.len() - 4
    }

    /// Ends the message. Such messages are far shorter than the limit of a length.
    fn end(&mut self, begin: usize) {
        let length = (self.out.len() - begin) as u32;
        self.out[begin..begin + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// Appends a `CopyInResponse`.
    pub fn copy_in(&mut self, shape: CopyShape) {
        let (format, columns, formats) = copy_formats(shape);
        self.put(&CopyInResponse::new(format, columns, formats));
    }

    /// Appends a `CopyOutResponse`.
    pub fn copy_out(&mut self, shape: CopyShape) {
        let (format, columns, formats) = copy_formats(shape);
        self.put(&CopyOutResponse::new(format, columns, formats));
    }

    /// Appends the `CommandComplete` of a command without a count of rows.
    pub fn command(&mut self, words: &'static str) {
        self.complete(&CommandTag { words, rows: None }, None);
    }

    /// Appends a `CopyDone`.
    pub fn copy_done(&mut self) {
        self.word(b'c');
    }

    /// Appends a `CommandComplete`, with the count of rows where the command has one.
    pub fn complete(&mut self, tag: &CommandTag, rows: Option<u64>) {
        let begin = self.begin(b'C');
        self.out.extend_from_slice(tag.words.as_bytes());
        if let Some(rows) = rows {
            let (mut digits, mut at, mut left) = ([b' '; 21], 21, rows);
            while {
                at -= 1;
                digits[at] = b'0' + (left % 10) as u8;
                left /= 10;
                left != 0
            } {}
            self.out.extend_from_slice(&digits[at - 1..]);
        }
        self.out.extend_from_slice(&[0]);
        self.end(begin);
    }

    /// Appends a `DataRow`, encoded in place, because most of the bytes are written here.
    ///
    /// `write` appends the value of a column in a format, without its length.
    pub fn row(
        &mut self,
        formats: &Formats,
        row: &[Datum],
        mut write: impl FnMut(usize, Format, &Datum, &mut BytesMut),
    ) -> SqlResult<()> {
        self.row_of(formats, row.len(), |column, format, out| match &row[column] {
            Datum::Null => Ok(false),
            value => {
                check_room(out, value.text_bytes())?;
                write(column, format, value, out);
                Ok(true)
            }
        })
    }

    /// Appends a `DataRow` of so many columns.
    ///
    /// `write` appends the value of a column in a format, without its length. For NULL it appends nothing and returns false.
    pub fn row_of(
        &mut self,
        formats: &Formats,
        columns: usize,
        write: impl FnMut(usize, Format, &mut BytesMut) -> SqlResult<bool>,
    ) -> SqlResult<()> {
        let whole = self.out.len();
        let written = self.try_row(formats, columns, write);
        if written.is_err() {
            self.out.truncate(whole);
        }
        written
    }

    /// Appends a `DataRow` of texts, for a table of this process.
    pub fn text_row<'v>(&mut self, values: impl ExactSizeIterator<Item = Option<&'v str>>) {
        let begin = self.begin(b'D');
        // Such tables have fewer columns than this can hold, and their texts fewer bytes.
        self.out.put_u16(values.len() as u16);
        for value in values {
            self.out.put_i32(value.map_or(-1, |text| text.len() as i32));
            self.out.extend_from_slice(value.unwrap_or_default().as_bytes());
        }
        self.end(begin);
    }

    fn try_row(
        &mut self,
        formats: &Formats,
        columns: usize,
        mut write: impl FnMut(usize, Format, &mut BytesMut) -> SqlResult<bool>,
    ) -> SqlResult<()> {
        let out = &mut self.out;
        out.put_u8(b'D');
        let begin = out.len();
        out.put_i32(0);
        out.put_i16(i16::try_from(columns).map_err(|_| too_big("a row's columns"))?);
        for column in 0..columns {
            let length_at = out.len();
            out.put_i32(-1);
            if write(column, formats.of(column), out)? {
                set_length(out, length_at, length_at + 4)?;
            }
        }
        set_length(out, begin, begin)
    }
}

/// Checks that the process has room for a value of so many bytes behind `out`.
///
/// # Errors
/// `53200`.
pub fn check_room(out: &BytesMut, bytes: usize) -> SqlResult<()> {
    // A buffer that grows copies itself into one of twice the size.
    if SMALL_BYTES < bytes && !has_room((out.len() + bytes) * 2) { Err(SqlError::no_room()) } else { Ok(()) }
}

/// Writes at `at` the number of bytes after `from`.
fn set_length(out: &mut BytesMut, at: usize, from: usize) -> SqlResult<()> {
    let length = i32::try_from(out.len() - from).map_err(|_| too_big("a row"))?;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Formats of a COPY: all columns have the same one.
fn copy_formats(shape: CopyShape) -> (i8, i16, Vec<i16>) {
    // Tables have fewer columns than this can hold.
    let columns = i16::try_from(shape.columns).unwrap_or(i16::MAX);
    (i8::from(shape.is_binary), columns, vec![i16::from(shape.is_binary); columns.unsigned_abs().into()])
}

fn too_big(what: &str) -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, format!("{what} exceeds what a message can carry"))
}

/// Fields of an error, in PostgreSQL's order.
fn fields(severity: &str, error: &SqlError) -> Vec<(u8, String)> {
    let mut fields = vec![
        (b'S', severity.to_owned()),
        (b'V', severity.to_owned()),
        (b'C', error.state().0.to_owned()),
        (b'M', error.message().to_owned()),
    ];
    fields.extend(error.detail_text().map(|text| (b'D', text.to_owned())));
    fields.extend(error.hint_text().map(|text| (b'H', text.to_owned())));
    fields.extend(error.context_text().map(|text| (b'W', text.to_owned())));
    if let Some(about) = error.about() {
        fields.push((b's', about.schema.clone()));
        fields.push((b't', about.table.clone()));
        fields.extend(about.column.iter().map(|name| (b'c', name.clone())));
        fields.extend(about.constraint.iter().map(|name| (b'n', name.clone())));
    }
    fields.extend(error.position().map(|position| (b'P', position.to_string())));
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgwire::messages::{copy, data, extendedquery as extended, response};

    #[test]
    fn what_is_written_here_is_what_pgwire_writes() {
        let is = |write: &dyn Fn(&mut Replies), theirs: &dyn Fn(&mut Replies)| {
            let (mut ours, mut wanted) = (Replies::default(), Replies::default());
            write(&mut ours);
            theirs(&mut wanted);
            assert_eq!(ours.out, wanted.out);
        };
        is(&Replies::parse_complete, &|to| to.put(&extended::ParseComplete::new()));
        is(&Replies::bind_complete, &|to| to.put(&extended::BindComplete::new()));
        is(&Replies::close_complete, &|to| to.put(&extended::CloseComplete::new()));
        is(&Replies::suspended, &|to| to.put(&extended::PortalSuspended::new()));
        is(&Replies::empty, &|to| to.put(&response::EmptyQueryResponse::new()));
        is(&Replies::no_data, &|to| to.put(&data::NoData::new()));
        is(&Replies::copy_done, &|to| to.put(&copy::CopyDone::new()));
        for (status, theirs) in [
            (TransactionStatus::Idle, response::TransactionStatus::Idle),
            (TransactionStatus::Open, response::TransactionStatus::Transaction),
            (TransactionStatus::Failed, response::TransactionStatus::Error),
        ] {
            is(&|to| to.ready(status), &|to| to.put(&response::ReadyForQuery::new(theirs)));
        }
        let column = |name| Column { name, table: 1 << 31, number: -3, oid: 23, length: -1, typmod: -1 };
        let theirs =
            |name: &str, format| data::FieldDescription::new(name.to_owned(), i32::MIN, -3, 23, -1, -1, format);
        let formats = Formats::Each([Format::Text, Format::Binary].into());
        is(&|to| to.columns(Some(vec![column("a"), column("é")]), &formats), &|to| {
            to.put(&data::RowDescription::new(vec![theirs("a", 0), theirs("é", 1)]));
        });
        is(&|to| to.columns(Some(Vec::new()), &formats), &|to| to.put(&data::RowDescription::new(Vec::new())));
        let tag = CommandTag { words: "INSERT 0", rows: None };
        for rows in [None, Some(0), Some(7), Some(1_234_567_890), Some(u64::MAX)] {
            let text = rows.map_or_else(|| tag.words.to_owned(), |rows| format!("{} {rows}", tag.words));
            is(&|to| to.complete(&tag, rows), &|to| to.put(&response::CommandComplete::new(text.clone())));
        }
    }
}
