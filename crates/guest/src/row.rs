//! Rows of values.

use crate::bytes::{check_fits, put_value};
use crate::decimal::Decimal;
use crate::error::{Error, Result};
use crate::value::{Date, FromValue, Time, Timestamp, Uuid, Value};
use std::ops::Deref;

/// Row of values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row(Vec<Value>);

impl Row {
    /// Reads the value of a column; the first is 0. Errors count columns as PostgreSQL's do, from 1.
    ///
    /// # Errors
    /// Those of [`FromValue`]; `42703` if the row has fewer columns.
    pub fn get<T: FromValue>(&self, column: usize) -> Result<T> {
        let number = column.saturating_add(1);
        let value = self.0.get(column).ok_or_else(|| {
            Error::new("42703", format!("column {number} of a row that has {} columns", self.0.len()))
        })?;
        T::from_value(value).map_err(|error| error.detail(format!("It is the value of column {number}.")))
    }

    /// Reads all values, as a tuple or as one value.
    ///
    /// # Errors
    /// Those of [`FromValue`]; `42703` if the row has another number of columns.
    pub fn read<T: FromRow>(&self) -> Result<T> {
        T::from_row(self)
    }

    /// Returns the values.
    pub fn into_values(self) -> Vec<Value> {
        self.0
    }
}

impl From<Vec<Value>> for Row {
    fn from(values: Vec<Value>) -> Row {
        Row(values)
    }
}

impl Deref for Row {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.0
    }
}

/// Type that a row can be read as.
pub trait FromRow: Sized {
    /// Reads the row.
    ///
    /// # Errors
    /// Those of [`FromValue`]; `42703` if the row has another number of columns.
    fn from_row(row: &Row) -> Result<Self>;
}

fn check_width(row: &Row, width: usize) -> Result<()> {
    if row.len() == width {
        return Ok(());
    }
    Err(Error::new("42703", format!("a row of {} values is read as {width}", row.len())))
}

/// Receiver of the values of a row.
#[derive(Debug)]
pub struct ValueSink<'a> {
    out: &'a mut Vec<u8>,
    count: u16,
}

impl<'a> ValueSink<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>) -> ValueSink<'a> {
        ValueSink { out, count: 0 }
    }

    /// Adds a value.
    pub fn put(&mut self, value: &Value) {
        put_value(value, self.out);
        self.count = self.count.saturating_add(1);
    }

    pub(crate) fn count(&self) -> u16 {
        self.count
    }
}

/// Row to be sent: values of a key, columns of a table, parameters of a statement, a result.
///
/// Tuples, arrays, vectors and slices of values are rows, and so is one value alone. `()` is the row without columns.
pub trait IntoRow {
    /// Passes the values to `sink`, in order.
    fn into_row(self, sink: &mut ValueSink<'_>);
}

impl IntoRow for () {
    fn into_row(self, _sink: &mut ValueSink<'_>) {}
}

impl IntoRow for &[Value] {
    fn into_row(self, sink: &mut ValueSink<'_>) {
        self.iter().for_each(|value| sink.put(value));
    }
}

impl<const N: usize> IntoRow for [Value; N] {
    fn into_row(self, sink: &mut ValueSink<'_>) {
        self.as_slice().into_row(sink);
    }
}

impl<const N: usize> IntoRow for &[Value; N] {
    fn into_row(self, sink: &mut ValueSink<'_>) {
        self.as_slice().into_row(sink);
    }
}

impl IntoRow for Vec<Value> {
    fn into_row(self, sink: &mut ValueSink<'_>) {
        self.as_slice().into_row(sink);
    }
}

impl IntoRow for &Vec<Value> {
    fn into_row(self, sink: &mut ValueSink<'_>) {
        self.as_slice().into_row(sink);
    }
}

impl IntoRow for Row {
    fn into_row(self, sink: &mut ValueSink<'_>) {
        self.0.into_row(sink);
    }
}

impl IntoRow for &Row {
    fn into_row(self, sink: &mut ValueSink<'_>) {
        self.0.as_slice().into_row(sink);
    }
}

impl<T: Into<Value>> IntoRow for Option<T> {
    fn into_row(self, sink: &mut ValueSink<'_>) {
        sink.put(&self.into());
    }
}

macro_rules! single_values {
    ($($single:ty),*) => {
        $(impl IntoRow for $single {
            fn into_row(self, sink: &mut ValueSink<'_>) {
                sink.put(&self.into());
            }
        }

        impl FromRow for $single {
            fn from_row(row: &Row) -> Result<$single> {
                check_width(row, 1)?;
                row.get(0)
            }
        })*
    };
}

single_values!(
    Value,
    bool,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    f64,
    Decimal,
    String,
    Vec<u8>,
    Date,
    Time,
    Timestamp,
    Uuid
);

impl IntoRow for &str {
    fn into_row(self, sink: &mut ValueSink<'_>) {
        sink.put(&self.into());
    }
}

macro_rules! tuples {
    ($($name:ident)+; $count:literal) => {
        impl<$($name: Into<Value>),+> IntoRow for ($($name,)+) {
            #[allow(non_snake_case, reason = "a name for each type")]
            fn into_row(self, sink: &mut ValueSink<'_>) {
                let ($($name,)+) = self;
                $(sink.put(&$name.into());)+
            }
        }

        impl<$($name: FromValue),+> FromRow for ($($name,)+) {
            fn from_row(row: &Row) -> Result<($($name,)+)> {
                check_width(row, $count)?;
                let mut columns = 0..$count;
                Ok(($(row.get::<$name>(columns.next().unwrap_or_default())?,)+))
            }
        }
    };
}

tuples!(A; 1);
tuples!(A B; 2);
tuples!(A B C; 3);
tuples!(A B C D; 4);
tuples!(A B C D E; 5);
tuples!(A B C D E F; 6);
tuples!(A B C D E F G; 7);
tuples!(A B C D E F G H; 8);
tuples!(A B C D E F G H I; 9);
tuples!(A B C D E F G H I J; 10);
tuples!(A B C D E F G H I J K; 11);
tuples!(A B C D E F G H I J K L; 12);

/// Array of [`Value`](crate::Value)s, each made from an expression of any type that can become one.
#[macro_export]
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        [$($crate::Value::from($value)),*]
    };
}

/// Bytes of rows for which there is room from the first one on.
const ROWS_BYTES: usize = 64;

/// Rows to be sent together.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    rows: u32,
    width: u16,
    bytes: Vec<u8>,
}

impl Rows {
    /// Adds a row. One without columns is none.
    pub(crate) fn push(&mut self, row: impl IntoRow) -> Result<()> {
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(ROWS_BYTES);
        }
        let mut sink = ValueSink::new(&mut self.bytes);
        row.into_row(&mut sink);
        let width = sink.count();
        if width == 0 { Ok(()) } else { self.count(1, width) }
    }

    /// Adds the rows of others.
    pub(crate) fn append(&mut self, mut others: Rows) -> Result<()> {
        if others.is_empty() {
            return Ok(());
        }
        self.bytes.append(&mut others.bytes);
        self.count(others.rows, others.width)
    }

    fn count(&mut self, rows: u32, width: u16) -> Result<()> {
        if self.rows != 0 && self.width != width {
            let message = format!("a row of {width} columns after one of {}", self.width);
            return Err(Error::new("42804", message));
        }
        self.width = width;
        self.rows += rows;
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns the bytes of the values.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets the rows, and keeps their room.
    pub(crate) fn clear(&mut self) {
        self.rows = 0;
        self.bytes.clear();
    }

    /// Writes the rows.
    pub(crate) fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(&self.rows.to_le_bytes());
        out.extend_from_slice(&self.width.to_le_bytes());
        out.extend_from_slice(&self.bytes);
        check_fits(out.len(), "a result")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_count_columns_from_one() {
        let row = Row(vec![Value::Int(1), Value::Text("a".to_owned())]);
        let error = row.get::<i64>(1).expect_err("a text");
        let text = format!("{error:?}");
        assert!(text.contains("It is the value of column 2."), "{text}");
        let text = format!("{:?}", row.get::<i64>(2).expect_err("no column"));
        assert!(text.contains("column 3 of a row that has 2 columns"), "{text}");
        let text = format!("{:?}", row.read::<(String, String)>().expect_err("an integer"));
        assert!(text.contains("It is the value of column 1."), "{text}");
    }
}
