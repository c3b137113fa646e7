//! Accessors for the values of datums whose types an entry of the tables declares.
//!
//! **Invariant:** a value of another type is a bug of the binder, and an error: `XX000`, which names both types.

use crate::datum::Datum;
use crate::interval::Interval;
use crate::numeric::Numeric;
use statement::error::{SqlError, SqlResult, SqlState};
use std::borrow::Cow;

/// Returns the text of an argument.
#[inline]
pub fn text(datum: &Datum) -> SqlResult<&str> {
    if let Datum::Text(text) = datum { Ok(text) } else { Err(another(datum, "text")) }
}

/// Returns the bytes of an argument.
#[inline]
pub fn bytes(datum: &Datum) -> SqlResult<&[u8]> {
    if let Datum::Bytes(bytes) = datum { Ok(bytes) } else { Err(another(datum, "bytea")) }
}

/// Returns any integer, date, time or timestamp.
#[inline]
pub fn int(datum: &Datum) -> SqlResult<i64> {
    match datum {
        Datum::Int2(value) => Ok(i64::from(*value)),
        Datum::Int4(value) | Datum::Date(value) => Ok(i64::from(*value)),
        Datum::Int8(value) | Datum::Time(value) | Datum::Timestamp(value) => Ok(*value),
        Datum::Oid(value) => Ok(i64::from(*value)),
        Datum::Null
        | Datum::Bool(_)
        | Datum::Float4(_)
        | Datum::Float8(_)
        | Datum::Numeric(_)
        | Datum::Text(_)
        | Datum::Bytes(_)
        | Datum::Interval(_)
        | Datum::Uuid(_)
        | Datum::Array(_) => Err(another(datum, "bigint")),
    }
}

/// Returns any float.
#[inline]
pub fn float(datum: &Datum) -> SqlResult<f64> {
    match datum {
        Datum::Float4(value) => Ok(f64::from(*value)),
        Datum::Float8(value) => Ok(*value),
        other => Err(another(other, "double precision")),
    }
}

/// Returns any number but a float.
pub fn numeric(datum: &Datum) -> SqlResult<Cow<'_, Numeric>> {
    match datum {
        Datum::Numeric(value) => Ok(Cow::Borrowed(value)),
        other => int(other).map(|value| Cow::Owned(Numeric::from(value))),
    }
}

/// Returns the interval of an argument.
#[inline]
pub fn interval(datum: &Datum) -> SqlResult<Interval> {
    if let Datum::Interval(value) = datum { Ok(*value) } else { Err(another(datum, "interval")) }
}

/// Returns the boolean of an argument.
#[inline]
pub fn boolean(datum: &Datum) -> SqlResult<bool> {
    if let Datum::Bool(value) = datum { Ok(*value) } else { Err(another(datum, "boolean")) }
}

/// Returns the items of an array.
#[inline]
pub fn items(datum: &Datum) -> SqlResult<&[Datum]> {
    if let Datum::Array(items) = datum { Ok(items) } else { Err(another(datum, "array")) }
}

#[cold]
fn another(datum: &Datum, wanted: &str) -> SqlError {
    impossible(&format!("a value that should be {wanted} is {}", name_of(datum)))
}

/// Returns the type of a value, as an error names it.
fn name_of(datum: &Datum) -> &'static str {
    match datum {
        Datum::Null => "null",
        Datum::Bool(_) => "boolean",
        Datum::Int2(_) => "smallint",
        Datum::Int4(_) => "integer",
        Datum::Int8(_) => "bigint",
        Datum::Oid(_) => "oid",
        Datum::Float4(_) => "real",
        Datum::Float8(_) => "double precision",
        Datum::Numeric(_) => "numeric",
        Datum::Text(_) => "text",
        Datum::Bytes(_) => "bytea",
        Datum::Date(_) => "date",
        Datum::Time(_) => "time",
        Datum::Timestamp(_) => "timestamp",
        Datum::Interval(_) => "interval",
        Datum::Uuid(_) => "uuid",
        Datum::Array(_) => "array",
    }
}

/// Returns `XX000`: a value or state that the tables of functions, casts and aggregates rule out.
#[cold]
pub fn impossible(what: &str) -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, what)
}

/// Returns `XX000`: a value that the types of its expression rule out.
#[cold]
pub fn mistyped(value: &Datum) -> SqlError {
    impossible(&format!("unexpected value of type {}", name_of(value)))
}

/// Returns `22003`: out of range for the type.
pub(crate) fn out_of_range(type_name: &str) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{type_name} out of range"))
}

/// Returns `22012`.
pub(crate) fn division_by_zero() -> SqlError {
    SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}
