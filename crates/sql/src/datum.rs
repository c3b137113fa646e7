//! A value.
//!
//! **Invariant:** a value's variant follows from its type's [`Kind`](crate::types::Kind), by the table at [`Datum`]; a function that is given
//! arguments of the kinds it was declared with meets no other variants.

use crate::types::interval::Interval;
use crate::types::numeric::Numeric;

/// A value of any type, or none.
///
/// | variant | kinds |
/// |---|---|
/// | `Bool` | bool |
/// | `Int2`, `Int4`, `Int8` | int2, int4, int8 |
/// | `Oid` | oid, regclass, regtype |
/// | `Float4`, `Float8` | float4, float8 |
/// | `Numeric` | numeric |
/// | `Text` | text, varchar, bpchar (with its blanks), name, "char", json, unknown |
/// | `Bytes` | bytea |
/// | `Date` | date: days since 1970-01-01; [`i32::MAX`] and [`i32::MIN`] are the infinities |
/// | `Time` | time: microseconds since midnight, 0 to 86,400,000,000 |
/// | `Timestamp` | timestamp, timestamptz (UTC): microseconds since 1970-01-01; [`i64::MAX`] and [`i64::MIN`] are the infinities |
/// | `Interval` | interval |
/// | `Uuid` | uuid |
/// | `Array` | arrays of one dimension |
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "the table above")]
pub enum Datum {
    #[default]
    Null,
    Bool(bool),
    Int2(i16),
    Int4(i32),
    Int8(i64),
    Oid(u32),
    Float4(f32),
    Float8(f64),
    Numeric(Numeric),
    Text(Box<str>),
    Bytes(Box<[u8]>),
    Date(i32),
    Time(i64),
    Timestamp(i64),
    Interval(Interval),
    Uuid([u8; 16]),
    Array(Box<[Datum]>),
}

impl Datum {
    /// Text.
    pub fn text(text: impl Into<Box<str>>) -> Datum {
        Datum::Text(text.into())
    }

    /// Bytes of a text or bytea; 0 for a value of another type.
    pub(crate) fn text_bytes(&self) -> usize {
        match self {
            Datum::Text(text) => text.len(),
            Datum::Bytes(bytes) => bytes.len(),
            Datum::Null
            | Datum::Bool(_)
            | Datum::Int2(_)
            | Datum::Int4(_)
            | Datum::Int8(_)
            | Datum::Oid(_)
            | Datum::Float4(_)
            | Datum::Float8(_)
            | Datum::Numeric(_)
            | Datum::Date(_)
            | Datum::Time(_)
            | Datum::Timestamp(_)
            | Datum::Interval(_)
            | Datum::Uuid(_)
            | Datum::Array(_) => 0,
        }
    }

    /// Whether there is no value.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }
}
