//! A value of an SQL type.
//!
//! **Invariant:** the variant of a value follows from the [`Kind`] of its type, by the table at [`Datum`]. A function
//! that gets arguments of its declared kinds meets no other variants.

use crate::Kind;
use crate::interval::Interval;
use crate::numeric::Numeric;

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
    /// Creates a text.
    pub fn text(text: impl Into<Box<str>>) -> Datum {
        Datum::Text(text.into())
    }

    /// Returns the maximum number of bytes of the text or binary form, also within an array.
    pub fn written_max(&self) -> u64 {
        /// Maximum number of digits of a number, before and after the decimal point.
        const NUMERIC_MAX: u64 = 131_072 + 16_383;
        /// Maximum bytes of all other values, names of objects included.
        const OTHERS_MAX: u64 = 512;
        match self {
            // Each byte of a quoted text may have a backslash before it.
            Datum::Text(text) => 2 * text.len() as u64 + OTHERS_MAX,
            // `\000` for each byte, and that quoted.
            Datum::Bytes(bytes) => 5 * bytes.len() as u64 + OTHERS_MAX,
            Datum::Numeric(_) => NUMERIC_MAX + OTHERS_MAX,
            Datum::Array(items) => items.iter().map(Datum::written_max).sum::<u64>() + OTHERS_MAX,
            Datum::Null
            | Datum::Bool(_)
            | Datum::Int2(_)
            | Datum::Int4(_)
            | Datum::Int8(_)
            | Datum::Oid(_)
            | Datum::Float4(_)
            | Datum::Float8(_)
            | Datum::Date(_)
            | Datum::Time(_)
            | Datum::Timestamp(_)
            | Datum::Interval(_)
            | Datum::Uuid(_) => OTHERS_MAX,
        }
    }

    /// Returns true for a value of a type that has this variant, and false for NULL.
    pub fn is_of(&self, kind: Kind) -> bool {
        match kind {
            Kind::Bool => matches!(self, Datum::Bool(_)),
            Kind::Int2 => matches!(self, Datum::Int2(_)),
            Kind::Int4 => matches!(self, Datum::Int4(_)),
            Kind::Int8 => matches!(self, Datum::Int8(_)),
            Kind::Oid
            | Kind::Regclass
            | Kind::Regtype
            | Kind::Regproc
            | Kind::Regprocedure
            | Kind::Regnamespace
            | Kind::Regrole => {
                matches!(self, Datum::Oid(_))
            }
            Kind::Float4 => matches!(self, Datum::Float4(_)),
            Kind::Float8 => matches!(self, Datum::Float8(_)),
            Kind::Numeric => matches!(self, Datum::Numeric(_)),
            Kind::Text
            | Kind::Varchar
            | Kind::Bpchar
            | Kind::Name
            | Kind::InternalChar
            | Kind::Json
            | Kind::Unknown
            | Kind::Void => matches!(self, Datum::Text(_)),
            Kind::Bytea => matches!(self, Datum::Bytes(_)),
            Kind::Date => matches!(self, Datum::Date(_)),
            Kind::Time => matches!(self, Datum::Time(_)),
            Kind::Timestamp | Kind::Timestamptz => matches!(self, Datum::Timestamp(_)),
            Kind::Interval => matches!(self, Datum::Interval(_)),
            Kind::Uuid => matches!(self, Datum::Uuid(_)),
            Kind::Array(_) | Kind::Int2Vector | Kind::OidVector => matches!(self, Datum::Array(_)),
        }
    }

    /// Returns the bytes of a text or bytea, and 0 for a value of another type.
    pub fn text_bytes(&self) -> usize {
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

    /// Returns true for NULL.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }
}
