//! Types of columns and values of cells.
//!
//! Invariant: a decimal is exact everywhere. It travels as its unscaled integer; the scale belongs to the column.

use arrow_schema::{DataType, TimeUnit};

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Type {
    /// 32-bit signed integer.
    Int32,
    /// 64-bit signed integer.
    Int64,
    /// Exact decimal, at most 38 digits. Up to 18 digits are stored in 8 bytes, more in 16.
    Decimal {
        /// Digits in all, 1 to 38.
        precision: u8,
        /// Digits after the point, 0 to `precision`.
        scale: i8,
    },
    /// UTF-8 text.
    Text,
    /// Days since 1970-01-01.
    Date,
    /// Microseconds since 1970-01-01 00:00.
    Timestamp,
}

impl Type {
    /// The Arrow type that scans return.
    pub fn arrow(self) -> DataType {
        match self {
            Type::Int32 => DataType::Int32,
            Type::Int64 => DataType::Int64,
            Type::Decimal { precision, scale } => DataType::Decimal128(precision, scale),
            Type::Text => DataType::Utf8View,
            Type::Date => DataType::Date32,
            Type::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        }
    }

    /// Bytes in the fixed part of a row image.
    pub(crate) const fn slot_bytes(self) -> usize {
        match self {
            Type::Int32 | Type::Date => 4,
            Type::Int64 | Type::Timestamp | Type::Text => 8,
            Type::Decimal { precision, .. } => {
                if precision <= DIGITS_IN_I64 {
                    8
                } else {
                    16
                }
            }
        }
    }
}

/// Decimals with at most so many digits are stored as `i64`.
pub(crate) const DIGITS_IN_I64: u8 = 18;

/// Whether the unscaled `value` has at most `precision` digits.
#[inline]
pub(crate) fn fits_precision(value: i128, precision: u8) -> bool {
    value.unsigned_abs() < 10u128.pow(u32::from(precision))
}

/// One cell, borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// No value.
    Null,
    /// 32-bit integer.
    Int32(i32),
    /// 64-bit integer.
    Int64(i64),
    /// The unscaled integer of a decimal; the column has the scale.
    Decimal(i128),
    /// Text.
    Text(&'a str),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since 1970-01-01 00:00.
    Timestamp(i64),
}
