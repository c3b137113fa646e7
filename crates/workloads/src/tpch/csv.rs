//! Rows as text for another engine to read: `|` between cells, nothing for null, no quotes.
//!
//! Invariant: the text is that of [`super::Cell`], value by value; the generator's texts have neither `|` nor line
//! breaks. It is written without a [`super::Cell`], because a benchmark waits for millions of rows.

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal128Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use std::io::{Result, Write};

/// Writes the rows of `batch`, one line each.
///
/// # Errors
/// Errors of `out`.
///
/// # Panics
/// If the batch has a column of a type that no table of these workloads has.
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
        DataType::Decimal128(_, scale) => {
            write_decimal(column.as_primitive::<Decimal128Type>().value(row), *scale, out)
        }
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            let value = column.as_primitive::<TimestampMicrosecondType>().value(row);
            write!(out, "{}", super::cell::Cell::Timestamp(value))
        }
        other => panic!("no table of our workloads has a column of type {other}"),
    }
}

fn write_decimal(value: i128, scale: i8, out: &mut impl Write) -> Result<()> {
    let places = usize::from(scale.unsigned_abs());
    let sign = if value < 0 { "-" } else { "" };
    match u64::try_from(value.unsigned_abs()) {
        Ok(digits) if scale == 0 => write!(out, "{sign}{digits}"),
        // Numbers of eighteen digits are written much faster than those of thirty-eight.
        Ok(digits) if places <= 18 => {
            let one = 10_u64.pow(u32::from(scale.unsigned_abs()));
            write!(out, "{sign}{}.{:0places$}", digits / one, digits % one)
        }
        _ => write!(out, "{}", super::cell::Cell::Number { unscaled: value, scale: scale.unsigned_abs() }),
    }
}
