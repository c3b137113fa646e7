//! Values and columns as the protocol writes them: the only place that calls the codecs of types.

use bytes::BytesMut;
use query::plan::ColumnInfo;
use statement::SqlResult;
use types::binary::{self, ValueOrigin};
use types::forms::Forms;
use types::text;
use types::{Datum, SqlType};
use wire::reply::{Column, Format};

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

fn output(value: &Datum, format: Format, of: SqlType, forms: &Forms, out: &mut BytesMut) -> SqlResult<()> {
    match format {
        Format::Text => {
            let mut written = String::new();
            text::output(value, of, forms, &mut written);
            out.extend_from_slice(written.as_bytes());
        }
        Format::Binary => {
            let mut written = Vec::new();
            binary::output(value, of, &mut written);
            out.extend_from_slice(&written);
        }
    }
    Ok(())
}

/// Appends a value of a row that is not null, without its length.
///
/// # Errors
/// The type has no such format.
pub(crate) fn write(
    (columns, forms): (&[ColumnInfo], &Forms),
    at: usize,
    format: Format,
    value: &Datum,
    out: &mut BytesMut,
) -> SqlResult<()> {
    let kind = columns.get(at).map_or(SqlType::from(types::Kind::Unknown), |column| column.kind);
    output(value, format, kind, forms, out)
}

/// Returns the descriptions of columns.
pub(crate) fn columns(of: &[ColumnInfo]) -> Vec<Column<'_>> {
    of.iter().map(column).collect()
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
