//! Types of columns and values of cells.
//!
//! **Invariant:** a decimal is exact everywhere. It travels as its unscaled integer; the scale belongs to the column.

use crate::row::types::compare;

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Type {
    /// True or false.
    Bool,
    /// 16-bit signed integer.
    Int16,
    /// 32-bit signed integer.
    Int32,
    /// 64-bit signed integer.
    Int64,
    /// 64-bit binary floating point.
    Float64,
    /// Exact decimal, at most 38 digits. Up to 18 digits are stored in 8 bytes, more in 16.
    Decimal {
        /// Digits in all, 1 to 38.
        precision: u8,
        /// Digits after the point, 0 to `precision`.
        scale: i8,
    },
    /// UTF-8 text.
    Text,
    /// Byte string.
    Bytes,
    /// Bytes of which the first part is a key: values compare by it alone. The last four bytes, in big endian, are the
    /// number of bytes before them that are not of the key. No key may be a proper prefix of another.
    Keyed,
    /// Days since 1970-01-01.
    Date,
    /// Microseconds since 1970-01-01 00:00.
    Timestamp,
}

/// A cell, borrowed. Equal floats are those that PostgreSQL calls equal: NaN equals itself, and so do the two zeros.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    /// No value.
    Null,
    /// True or false.
    Bool(bool),
    /// 16-bit integer.
    Int16(i16),
    /// 32-bit integer.
    Int32(i32),
    /// 64-bit integer.
    Int64(i64),
    /// 64-bit binary floating point.
    Float64(f64),
    /// Unscaled integer of a decimal; the column has the scale.
    Decimal(i128),
    /// Text.
    Text(&'a str),
    /// Byte string.
    Bytes(&'a [u8]),
    /// Bytes that begin with their key.
    Keyed(&'a [u8]),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since 1970-01-01 00:00.
    Timestamp(i64),
}

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Value<'_>) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (one, other) => compare(*one, *other).is_some_and(|ordering| ordering.is_eq()),
        }
    }
}

impl Eq for Value<'_> {}
