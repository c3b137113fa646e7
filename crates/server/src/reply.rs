//! What the server says, appended to one buffer that is written when there is nothing left to answer.
//!
//! **Invariant:** what is in the buffer is whole messages. One that turns out not to be possible is taken back.

use crate::backend::{Backend, Column, CopyShape, Format};
use bytes::{BufMut, BytesMut};
use pgwire::messages::Message;
use pgwire::messages::copy::{CopyDone, CopyInResponse, CopyOutResponse};
use pgwire::messages::data::{FieldDescription, NoData, ParameterDescription, RowDescription};
use pgwire::messages::extendedquery::{BindComplete, CloseComplete, ParseComplete, PortalSuspended};
use pgwire::messages::response::{
    CommandComplete, EmptyQueryResponse, ErrorResponse, NoticeResponse, ReadyForQuery, TransactionStatus as Status,
};
use pgwire::messages::startup::{Authentication, BackendKeyData, NegotiateProtocolVersion, ParameterStatus, SecretKey};
use sql::session::{Tag, TransactionStatus};
use sql::{Datum, SqlError, SqlResult, SqlState};
use std::sync::Arc;

/// Formats of a result's columns: one for all, or one for each.
#[derive(Clone, Debug)]
pub(crate) enum Formats {
    All(Format),
    Each(Arc<[Format]>),
}

impl Formats {
    pub(crate) fn of(&self, column: usize) -> Format {
        match self {
            Formats::All(format) => *format,
            Formats::Each(formats) => formats.get(column).copied().unwrap_or(Format::Text),
        }
    }
}

/// What stands to be written.
#[derive(Default)]
pub(crate) struct Replies {
    pub(crate) out: BytesMut,
}

impl Replies {
    fn put(&mut self, message: &impl Message) {
        let whole = self.out.len();
        if let Err(error) = message.encode(&mut self.out) {
            tracing::warn!(%error, "a message to a client was left out");
            self.out.truncate(whole);
        }
    }

    pub(crate) fn error(&mut self, severity: &str, error: &SqlError) {
        self.put(&ErrorResponse::new(fields(severity, error)));
    }

    pub(crate) fn notice(&mut self, severity: &str, error: &SqlError) {
        self.put(&NoticeResponse::new(fields(severity, error)));
    }

    pub(crate) fn authentication(&mut self, message: &Authentication) {
        self.put(message);
    }

    pub(crate) fn negotiate(&mut self, newest: i32, unknown: Vec<String>) {
        self.put(&NegotiateProtocolVersion::new(newest, unknown));
    }

    pub(crate) fn parameter_status(&mut self, name: &str, value: String) {
        self.put(&ParameterStatus::new(name.to_owned(), value));
    }

    pub(crate) fn key(&mut self, pid: i32, secret: i32) {
        self.put(&BackendKeyData::new(pid, SecretKey::I32(secret)));
    }

    pub(crate) fn ready(&mut self, status: TransactionStatus) {
        self.put(&ReadyForQuery::new(match status {
            TransactionStatus::Idle => Status::Idle,
            TransactionStatus::Open => Status::Transaction,
            TransactionStatus::Failed => Status::Error,
        }));
    }

    pub(crate) fn parse_complete(&mut self) {
        self.put(&ParseComplete::new());
    }

    pub(crate) fn bind_complete(&mut self) {
        self.put(&BindComplete::new());
    }

    pub(crate) fn close_complete(&mut self) {
        self.put(&CloseComplete::new());
    }

    pub(crate) fn suspended(&mut self) {
        self.put(&PortalSuspended::new());
    }

    pub(crate) fn empty(&mut self) {
        self.put(&EmptyQueryResponse::new());
    }

    pub(crate) fn no_data(&mut self) {
        self.put(&NoData::new());
    }

    pub(crate) fn parameters(&mut self, types: Vec<u32>) {
        self.put(&ParameterDescription::new(types));
    }

    /// `RowDescription`, or `NoData` for a statement without rows.
    pub(crate) fn columns(&mut self, columns: Option<Vec<Column>>, formats: &Formats) {
        let Some(columns) = columns else { return self.no_data() };
        let fields = columns.into_iter().enumerate().map(|(at, column)| {
            let format = match formats.of(at) {
                Format::Text => 0,
                Format::Binary => 1,
            };
            let table = column.table.cast_signed();
            FieldDescription::new(column.name, table, column.number, column.oid, column.length, column.typmod, format)
        });
        self.put(&RowDescription::new(fields.collect()));
    }

    pub(crate) fn copy_in(&mut self, shape: CopyShape) {
        let (format, columns, formats) = copy_formats(shape);
        self.put(&CopyInResponse::new(format, columns, formats));
    }

    pub(crate) fn copy_out(&mut self, shape: CopyShape) {
        let (format, columns, formats) = copy_formats(shape);
        self.put(&CopyOutResponse::new(format, columns, formats));
    }

    pub(crate) fn copy_done(&mut self) {
        self.put(&CopyDone::new());
    }

    /// `CommandComplete`, with the count of rows where the command has one.
    pub(crate) fn complete(&mut self, tag: &Tag, rows: Option<u64>) {
        let text = match rows {
            Some(rows) => format!("{} {rows}", tag.words),
            None => tag.words.to_owned(),
        };
        self.put(&CommandComplete::new(text));
    }

    /// One row. It is written in place: this is where most bytes go.
    pub(crate) fn row<B: Backend>(
        &mut self,
        backend: &mut B,
        statement: &B::Statement,
        formats: &Formats,
        row: &[Datum],
    ) -> SqlResult<()> {
        let whole = self.out.len();
        let written = self.try_row(backend, statement, formats, row);
        if written.is_err() {
            self.out.truncate(whole);
        }
        written
    }

    fn try_row<B: Backend>(
        &mut self,
        backend: &mut B,
        statement: &B::Statement,
        formats: &Formats,
        row: &[Datum],
    ) -> SqlResult<()> {
        let out = &mut self.out;
        out.put_u8(b'D');
        let begin = out.len();
        out.put_i32(0);
        out.put_i16(i16::try_from(row.len()).map_err(|_| too_big("a row's columns"))?);
        for (column, value) in row.iter().enumerate() {
            if value.is_null() {
                out.put_i32(-1);
                continue;
            }
            let length_at = out.len();
            out.put_i32(0);
            backend.write(statement, column, formats.of(column), value, out)?;
            set_length(out, length_at, length_at + 4)?;
        }
        set_length(out, begin, begin)
    }
}

/// Writes at `at` how many bytes there are after `from`.
fn set_length(out: &mut BytesMut, at: usize, from: usize) -> SqlResult<()> {
    let length = i32::try_from(out.len() - from).map_err(|_| too_big("a row"))?;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Of a COPY all columns have one format.
fn copy_formats(shape: CopyShape) -> (i8, i16, Vec<i16>) {
    // Tables have no more columns than this holds.
    let columns = i16::try_from(shape.columns).unwrap_or(i16::MAX);
    (i8::from(shape.is_binary), columns, vec![i16::from(shape.is_binary); columns.unsigned_abs().into()])
}

fn too_big(what: &str) -> SqlError {
    SqlError::new(SqlState("54000"), format!("{what} exceeds what a message can carry"))
}

/// Fields in PostgreSQL's order.
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
