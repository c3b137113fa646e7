//! Values and columns as the protocol writes them: the only place that calls the codecs of types.

use bytes::{BufMut, BytesMut};
use query::plan::ColumnInfo;
use query::rows::BatchValue;
use statement::SqlResult;
use types::binary::{self, ValueOrigin};
use types::forms::Forms;
use types::text;
use types::{Datum, SqlType};
use wire::reply::{Column, Format, check_room};

/// Reads the value of a parameter.
///
/// # Errors
/// The bytes are no value of this type.
pub(crate) fn parameter(number: usize, bytes: &[u8], format: Format, of: SqlType, forms: &Forms) -> SqlResult<Datum> {
    match format {
        Format::Text => text::input(binary::utf8(bytes)?, of, forms),
        Format::Binary => binary::input(bytes, of, ValueOrigin::Parameter(number)),
    }
}

/// Returns the format of values that are binary or not.
pub(crate) fn format_of(is_binary: bool) -> Format {
    if is_binary { Format::Binary } else { Format::Text }
}

/// Buffers for the values of some rows, one value at a time.
#[derive(Default)]
pub(crate) struct Scratch {
    text: String,
    binary: Vec<u8>,
}

/// Size of a buffer that is kept for the next value.
const SCRATCH_BYTES: usize = 64 << 10;

impl Scratch {
    fn text(&mut self, out: &mut BytesMut, write: impl FnOnce(&mut String)) {
        write(&mut self.text);
        out.extend_from_slice(self.text.as_bytes());
        self.text.clear();
        self.text.shrink_to(SCRATCH_BYTES);
    }

    fn binary(&mut self, out: &mut BytesMut, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.binary);
        out.extend_from_slice(&self.binary);
        self.binary.clear();
        self.binary.shrink_to(SCRATCH_BYTES);
    }
}

/// Appends a value of a row that is not null, without its length.
pub(crate) fn write(
    (columns, forms): (&[ColumnInfo], &Forms),
    scratch: &mut Scratch,
    at: usize,
    format: Format,
    value: &Datum,
    out: &mut BytesMut,
) {
    let of = kind_of(columns, at);
    match format {
        Format::Text => scratch.text(out, |written| text::output(value, of, forms, written)),
        Format::Binary => scratch.binary(out, |written| binary::output(value, of, written)),
    }
}

/// Appends a value of a batch, and returns false for NULL, for which it appends nothing.
///
/// # Errors
/// `53200` for a text that the process has no room for.
pub(crate) fn write_lent(
    given: (&[ColumnInfo], &Forms),
    scratch: &mut Scratch,
    at: usize,
    format: Format,
    value: &BatchValue<'_>,
    out: &mut BytesMut,
) -> SqlResult<bool> {
    let (columns, forms) = given;
    match value {
        BatchValue::Datum(Datum::Null) => return Ok(false),
        BatchValue::Datum(value) => {
            check_room(out, value.text_bytes())?;
            write(given, scratch, at, format, value, out);
        }
        BatchValue::Text { text, blanks } => {
            check_room(out, text.len() + blanks)?;
            out.extend_from_slice(match format {
                Format::Text => text.as_bytes(),
                Format::Binary => binary::text_form(text, kind_of(columns, at)),
            });
            out.put_bytes(b' ', *blanks);
        }
        BatchValue::Bytes(bytes) => {
            check_room(out, bytes.len())?;
            match format {
                Format::Text => scratch.text(out, |written| text::output_bytes(bytes, forms, written)),
                Format::Binary => out.extend_from_slice(bytes),
            }
        }
    }
    Ok(true)
}

fn kind_of(columns: &[ColumnInfo], at: usize) -> SqlType {
    columns.get(at).map_or(SqlType::from(types::Kind::Unknown), |column| column.kind)
}

/// Returns the descriptions of columns.
pub(crate) fn columns(of: &[ColumnInfo]) -> impl ExactSizeIterator<Item = Column<'_>> {
    of.iter().map(column)
}

fn column(of: &ColumnInfo) -> Column<'_> {
    Column {
        name: &of.name,
        table: of.table,
        number: of.number,
        oid: of.kind.oid(),
        length: of.kind.len(),
        typmod: of.kind.typmod,
    }
}
