//! Rows of values.

use crate::bytes::{Reader, check_fits, put_value};
use crate::decimal::Decimal;
use crate::error::{Error, Result};
use crate::value::{Date, FromValue, Time, Timestamp, Uuid, Value};
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// Row of values.
///
/// A row of the server is the bytes of its message, until somebody wants all values: most code wants some, and as its own
/// types.
///
/// **Invariant:** without values, the message has those of all columns from `begin` on.
#[derive(Clone, Default)]
pub struct Row {
    message: Option<Arc<[u8]>>,
    begin: usize,
    columns: u16,
    /// True if the columns are the arguments of an entry: errors call them so.
    is_arguments: bool,
    values: OnceLock<Vec<Value>>,
}

impl Row {
    /// Returns a row of a message, which others share.
    pub(crate) fn within(message: &Arc<[u8]>, begin: usize, columns: u16) -> Row {
        Row { message: Some(Arc::clone(message)), begin, columns, ..Row::default() }
    }

    /// Returns a row of these bytes.
    pub(crate) fn of(bytes: &[u8], columns: u16) -> Row {
        Row { message: Some(Arc::from(bytes)), columns, ..Row::default() }
    }

    /// Returns the row as the arguments of an entry.
    pub(crate) fn into_arguments(mut self) -> Row {
        self.is_arguments = true;
        self
    }

    /// Returns a reader of the values; `None` for a row that has them already.
    #[inline]
    fn reader(&self) -> Option<Reader<'_>> {
        match (&self.message, self.values.get()) {
            (Some(message), None) => message.get(self.begin..).map(Reader::new),
            _ => None,
        }
    }

    /// Returns a reader of the columns one by one.
    #[inline]
    fn columns(&self) -> Columns<'_> {
        Columns { row: self, reader: self.reader(), next: 0 }
    }

    /// Reads the value of a column; the first is 0. Errors count columns as PostgreSQL's do, from 1.
    ///
    /// # Errors
    /// Those of [`FromValue`]; `42703` if the row has fewer columns.
    #[inline]
    pub fn get<T: FromValue>(&self, column: usize) -> Result<T> {
        if let Some(mut reader) = self.reader()
            && column < usize::from(self.columns)
        {
            for _ in 0..column {
                reader.skip()?;
            }
            return T::read(&mut reader).map_err(|error| self.at_column(error, column));
        }
        let value = self.deref().get(column).ok_or_else(|| self.no_column(column))?;
        T::from_value(value).map_err(|error| self.at_column(error, column))
    }

    /// Reads all values, as a tuple or as one value.
    ///
    /// # Errors
    /// Those of [`FromValue`]; `42703` if the row has another number of columns.
    pub fn read<T: FromRow>(&self) -> Result<T> {
        T::from_row(self)
    }

    #[cold]
    fn no_column(&self, column: usize) -> Error {
        let (number, width) = (column.saturating_add(1), self.len());
        let message = match self.is_arguments {
            true => format!("argument {number} of a routine that has {width}"),
            false => format!("column {number} of a row that has {width} columns"),
        };
        Error::new("42703", message)
    }

    #[cold]
    fn at_column(&self, error: Error, column: usize) -> Error {
        let kind = if self.is_arguments { "argument" } else { "column" };
        error.detail(format!("It is the value of {kind} {}.", column.saturating_add(1)))
    }

    #[cold]
    fn other_width(&self, columns: usize, width: usize) -> Error {
        let message = match self.is_arguments {
            true => format!("wrong number of arguments: the routine has {columns}, its code reads {width}"),
            false => format!("a row of {columns} values is read as {width}"),
        };
        Error::new("42703", message)
    }

    /// Returns the values.
    pub fn into_values(self) -> Vec<Value> {
        let _ = self.deref();
        self.values.into_inner().unwrap_or_default()
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Row").field(&self.deref()).finish()
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Row) -> bool {
        self.deref() == other.deref()
    }
}

impl From<Vec<Value>> for Row {
    fn from(values: Vec<Value>) -> Row {
        Row { values: OnceLock::from(values), ..Row::default() }
    }
}

impl Deref for Row {
    type Target = [Value];

    /// Returns the values.
    ///
    /// # Panics
    /// If the server has broken the protocol.
    fn deref(&self) -> &[Value] {
        self.values.get_or_init(|| {
            let message = self.message.as_deref().and_then(|message| message.get(self.begin..));
            Reader::new(message.unwrap_or_default()).values(self.columns).expect("the server keeps to the protocol")
        })
    }
}

/// Columns of a row, from the first to the last.
struct Columns<'a> {
    row: &'a Row,
    reader: Option<Reader<'a>>,
    next: usize,
}

impl Columns<'_> {
    #[inline]
    fn read<T: FromValue>(&mut self) -> Result<T> {
        let column = self.next;
        self.next += 1;
        match &mut self.reader {
            Some(reader) => T::read(reader).map_err(|error| self.row.at_column(error, column)),
            None => self.row.get(column),
        }
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

#[inline]
fn check_width(row: &Row, width: usize) -> Result<()> {
    let columns = if row.message.is_some() { usize::from(row.columns) } else { row.len() };
    if columns == width { Ok(()) } else { Err(row.other_width(columns, width)) }
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
    #[inline]
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
        self.deref().into_row(sink);
    }
}

impl IntoRow for &Row {
    fn into_row(self, sink: &mut ValueSink<'_>) {
        self.deref().into_row(sink);
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
            #[inline]
            fn into_row(self, sink: &mut ValueSink<'_>) {
                sink.put(&self.into());
            }
        }

        impl FromRow for $single {
            #[inline]
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
                let mut columns = row.columns();
                Ok(($(columns.read::<$name>()?,)+))
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

/// Writes a result of one row in place of what `out` holds. Returns false for a row without columns, which is none.
#[inline]
pub(crate) fn put_single(row: impl IntoRow, out: &mut Vec<u8>) -> Result<bool> {
    out.clear();
    out.extend_from_slice(&[1, 0, 0, 0, 0, 0]);
    let mut sink = ValueSink::new(out);
    row.into_row(&mut sink);
    let width = sink.count();
    if let Some(place) = out.get_mut(4..6) {
        place.copy_from_slice(&width.to_le_bytes());
    }
    check_fits(out.len(), "a result")?;
    Ok(width != 0)
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
            self.bytes = Vec::with_capacity(ROWS_BYTES);
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
    use crate::value::Array;

    /// Returns a value of each kind.
    fn every_kind() -> Vec<Value> {
        vec![
            Value::Int(-7),
            Value::Null,
            Value::Bool(true),
            Value::Float(1.5),
            Value::Decimal(Decimal::new(-1_250, 2)),
            Value::Text("añ".to_owned()),
            Value::Bytes(vec![3, 0, 3]),
            Value::Date(Date(3)),
            Value::Time(Time(4)),
            Value::Timestamp(Timestamp(5)),
            Value::Uuid(Uuid([3; 16])),
            Value::Literal("1 day".to_owned()),
            Value::Array(vec![Value::Int(1), Value::Null, Value::Text("b".to_owned())]),
            Value::Int(i64::MAX),
        ]
    }

    #[test]
    fn a_row_of_a_message_reads_as_its_values_do() {
        let values = every_kind();
        let mut bytes = vec![9, 9];
        values.as_slice().into_row(&mut ValueSink::new(&mut bytes));
        // What is behind the row belongs to the next one.
        bytes.extend_from_slice(&[99, 99]);
        let (made, message) = (Row::from(values.clone()), Arc::from(bytes));
        let sent = || Row::within(&message, 2, values.len() as u16);
        for column in 0..=values.len() {
            assert_eq!(sent().get::<Value>(column), made.get(column), "{column}");
            assert_eq!(sent().get::<i32>(column), made.get(column), "{column}");
            assert_eq!(sent().get::<Option<i64>>(column), made.get(column), "{column}");
            assert_eq!(sent().get::<Decimal>(column), made.get(column), "{column}");
            assert_eq!(sent().get::<String>(column), made.get(column), "{column}");
            assert_eq!(sent().get::<Array<Option<i64>>>(column), made.get(column), "{column}");
            assert_eq!(sent().get::<Timestamp>(column), made.get(column), "{column}");
        }
        assert_eq!((sent().read::<(i64, i64)>(), sent().len()), (made.read(), values.len()));
        assert_eq!((sent(), sent().into_values()), (made, values));
    }

    #[test]
    fn a_message_that_ends_too_early_is_an_error() {
        let mut bytes = Vec::new();
        every_kind().into_row(&mut ValueSink::new(&mut bytes));
        let columns = every_kind().len() as u16;
        for end in 0..bytes.len() {
            let message = Arc::from(&bytes[..end]);
            let error = crate::bytes::Message::from(&message, 0).row(columns).expect_err("it is too short");
            assert_eq!(error.message(), "the server broke the protocol");
            let error = Row::within(&message, 0, columns).get::<i64>(usize::from(columns) - 1).expect_err("no value");
            assert_eq!(error.message(), "the server broke the protocol");
        }
    }

    #[test]
    fn errors_count_columns_from_one() {
        let row = Row::from(vec![Value::Int(1), Value::Text("a".to_owned())]);
        let error = row.get::<i64>(1).expect_err("a text");
        let text = format!("{error:?}");
        assert!(text.contains("It is the value of column 2."), "{text}");
        let text = format!("{:?}", row.get::<i64>(2).expect_err("no column"));
        assert!(text.contains("column 3 of a row that has 2 columns"), "{text}");
        let text = format!("{:?}", row.read::<(String, String)>().expect_err("an integer"));
        assert!(text.contains("It is the value of column 1."), "{text}");
        let text = format!("{:?}", row.read::<i64>().expect_err("one column"));
        assert!(text.contains("a row of 2 values is read as 1"), "{text}");
    }

    #[test]
    fn errors_name_arguments() {
        let row = Row::from(vec![Value::Int(1), Value::Text("a".to_owned())]).into_arguments();
        let error = row.read::<(i64, i64, i64)>().expect_err("two arguments");
        assert_eq!(error.raised().map(|raised| raised.state), Some(*b"42703"));
        assert_eq!(error.message(), "wrong number of arguments: the routine has 2, its code reads 3");
        let error = row.get::<i64>(2).expect_err("no argument");
        assert_eq!(error.message(), "argument 3 of a routine that has 2");
        let error = row.get::<i64>(1).expect_err("a text");
        assert_eq!(error.raised().map(|raised| &*raised.detail), Some("It is the value of argument 2."));
    }
}
