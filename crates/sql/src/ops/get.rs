//! Values out of datums whose variant is known from the table.
//!
//! A wrong variant is a fault of the binder: it stops a debug build, and gives an empty value otherwise.

use crate::datum::Datum;
use crate::error::{SqlError, SqlState};
use crate::types::interval::Interval;
use crate::types::numeric::Numeric;
use std::borrow::Cow;

fn wrong(datum: &Datum) {
    debug_assert!(false, "a value of another type than declared: {datum:?}");
}

pub(super) fn text(datum: &Datum) -> &str {
    match datum {
        Datum::Text(text) => text,
        other => {
            wrong(other);
            ""
        }
    }
}

pub(super) fn bytes(datum: &Datum) -> &[u8] {
    match datum {
        Datum::Bytes(bytes) => bytes,
        other => {
            wrong(other);
            &[]
        }
    }
}

/// Any integer, date, time or moment.
pub(super) fn int(datum: &Datum) -> i64 {
    match datum {
        Datum::Int2(value) => i64::from(*value),
        Datum::Int4(value) | Datum::Date(value) => i64::from(*value),
        Datum::Int8(value) | Datum::Time(value) | Datum::Timestamp(value) => *value,
        Datum::Oid(value) => i64::from(*value),
        other => {
            wrong(other);
            0
        }
    }
}

/// Any float.
pub(super) fn float(datum: &Datum) -> f64 {
    match datum {
        Datum::Float4(value) => f64::from(*value),
        Datum::Float8(value) => *value,
        other => {
            wrong(other);
            0.0
        }
    }
}

pub(super) fn numeric(datum: &Datum) -> Cow<'_, Numeric> {
    match datum {
        Datum::Numeric(value) => Cow::Borrowed(value),
        other => Cow::Owned(Numeric::from(int(other))),
    }
}

pub(super) fn interval(datum: &Datum) -> Interval {
    match datum {
        Datum::Interval(value) => *value,
        other => {
            wrong(other);
            Interval::default()
        }
    }
}

/// `XX000`: a value or state that the table of functions does not lead to.
pub(crate) fn impossible(what: &str) -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, format!("{what} of another type than declared"))
}

/// `XX000`: a value that the types of its expression exclude.
pub(crate) fn mistyped(value: &Datum) -> SqlError {
    impossible(&format!("{value:?}"))
}

/// `22003`: out of range for the type.
pub(super) fn out_of_range(type_name: &str) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{type_name} out of range"))
}

/// `22012`.
pub(super) fn division_by_zero() -> SqlError {
    SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}
