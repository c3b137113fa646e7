//! Rows as text for another engine to read: `|` between cells, nothing for null, no quotes.
//!
//! Invariant: what is written is what [`super::Cell`] shows, value by value; the generator's texts have neither `|` nor line
//! breaks. It goes through no [`super::Cell`], because a benchmark waits for millions of rows.

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal128Type, Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use std::io::{Result, Write};

/// Writes the rows of `batch`, a line each.
///
/// # Errors
/// Those of `out`.
///
/// # Panics
/// The batch has a column of a type that no table of TPC-H has.
pub fn write_rows(batch: &RecordBatch, out: &mut impl Write) -> Result<()> {
    for row in 0..batch.num_rows() {
        for (at, column) in batch.columns().iter().enumerate() {
            if 0 < at {
                out.write_all(b"|")?;
            }
            write_cell(column.as_ref(), row, out)?;
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

fn write_cell(column: &dyn Array, row: usize, out: &mut impl Write) -> Result<()> {
    if column.is_null(row) {
        return Ok(());
    }
    match column.data_type() {
        DataType::Int32 => write!(out, "{}", column.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => write!(out, "{}", column.as_primitive::<Int64Type>().value(row)),
        DataType::Utf8View => out.write_all(column.as_string_view().value(row).as_bytes()),
        DataType::Date32 => {
            let (year, month, day) = super::cell::civil(column.as_primitive::<Date32Type>().value(row));
            write!(out, "{year:04}-{month:02}-{day:02}")
        }
        DataType::Decimal128(_, 2) => {
            let value = column.as_primitive::<Decimal128Type>().value(row);
            let sign = if value < 0 { "-" } else { "" };
            let digits = value.unsigned_abs();
            // Eighteen digits are written much faster than thirty-eight.
            match u64::try_from(digits) {
                Ok(digits) => write!(out, "{sign}{}.{:02}", digits / 100, digits % 100),
                Err(_) => write!(out, "{sign}{}.{:02}", digits / 100, digits % 100),
            }
        }
        other => panic!("no table of TPC-H has a column of type {other}"),
    }
}
