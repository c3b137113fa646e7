//! Storage of values of SQL types in the engine's tables.
//!
//! | SQL | engine |
//! |---|---|
//! | bool, int2, int4, int8, float8, date, timestamp, text, bytea | the same |
//! | timestamptz | timestamp, UTC |
//! | varchar, name, json | text |
//! | char(n) | text without the blanks at its end |
//! | float4 | float64 |
//! | oid, regclass, regtype, time | int64 |
//! | numeric(p, s) of at most 38 digits | decimal |
//! | uuid | bytes |
//! | any other numeric, interval, arrays | keyed bytes: see [`keyed`] |
//!
//! **Invariant:** [`datum`] gives back the value that `store` was given; stored values compare as PostgreSQL's
//! operators do, so an index of the engine is an index of SQL.

pub mod keyed;
pub mod search;

use engine::{Type, Value};
use statement::error::{SqlError, SqlResult};
use types::datum::Datum;
use types::numeric::Numeric;
use types::{Kind, SqlType};

const DIGITS_MAX: i32 = 38;

/// Returns the precision and scale of a numeric that is stored as an integer of at most 128 bits; `None` for another
/// type.
pub fn decimal(kind: SqlType) -> Option<(u8, i8)> {
    let (precision, scale) = kind.precision_and_scale()?;
    (precision <= DIGITS_MAX && (0..=precision).contains(&scale)).then_some((precision as u8, scale as i8))
}

/// Returns the engine's type for a column of this SQL type.
///
/// # Errors
/// `0A000` for types that have no columns yet.
pub fn column_type(kind: SqlType) -> SqlResult<Type> {
    Ok(match kind.kind {
        Kind::Bool => Type::Bool,
        Kind::Int2 => Type::Int16,
        Kind::Int4 => Type::Int32,
        Kind::Int8 | Kind::Time => Type::Int64,
        Kind::Oid
        | Kind::Regclass
        | Kind::Regtype
        | Kind::Regproc
        | Kind::Regprocedure
        | Kind::Regnamespace
        | Kind::Regrole => Type::Int64,
        Kind::Float4 | Kind::Float8 => Type::Float64,
        Kind::Text | Kind::Varchar | Kind::Bpchar | Kind::Name | Kind::Json | Kind::InternalChar => Type::Text,
        Kind::Bytea | Kind::Uuid => Type::Bytes,
        Kind::Date => Type::Date,
        Kind::Timestamp | Kind::Timestamptz => Type::Timestamp,
        Kind::Numeric => match decimal(kind) {
            Some((precision, scale)) => Type::Decimal { precision, scale },
            None => Type::Keyed,
        },
        Kind::Interval | Kind::Array(_) => Type::Keyed,
        Kind::Unknown | Kind::Void | Kind::Int2Vector | Kind::OidVector => {
            return Err(SqlError::unsupported(format_args!("a column of type {}", kind.name())));
        }
    })
}

/// Returns the SQL type of a column of this engine type: where several types are stored alike, the plain one.
/// [`column_type`] gives the same engine type back.
///
/// # Errors
/// `0A000` for keyed bytes, which do not say which type they hold.
pub fn sql_type(kind: Type) -> SqlResult<SqlType> {
    Ok(match kind {
        Type::Bool => Kind::Bool.into(),
        Type::Int16 => Kind::Int2.into(),
        Type::Int32 => Kind::Int4.into(),
        Type::Int64 => Kind::Int8.into(),
        Type::Float64 => Kind::Float8.into(),
        Type::Decimal { precision, scale } => SqlType::numeric(precision.into(), scale.into()),
        Type::Text => Kind::Text.into(),
        Type::Bytes => Kind::Bytea.into(),
        Type::Date => Kind::Date.into(),
        Type::Timestamp => Kind::Timestamp.into(),
        Type::Keyed => return Err(SqlError::unsupported("a column of keyed bytes that no statement has defined")),
    })
}

/// Converts a value to its stored form; parts that are not borrowed from the datum are kept in `buffer`.
pub fn store<'a>(datum: &'a Datum, kind: SqlType, buffer: &'a mut Vec<u8>) -> SqlResult<Value<'a>> {
    Ok(match datum {
        Datum::Null => Value::Null,
        Datum::Bool(value) => Value::Bool(*value),
        Datum::Int2(value) => Value::Int16(*value),
        Datum::Int4(value) => Value::Int32(*value),
        Datum::Int8(value) | Datum::Time(value) => Value::Int64(*value),
        Datum::Oid(value) => Value::Int64(i64::from(*value)),
        Datum::Float4(value) => Value::Float64(f64::from(*value)),
        Datum::Float8(value) => Value::Float64(*value),
        // Blanks at the end do not count in comparisons, and come back from the type's length.
        Datum::Text(text) if kind.kind == Kind::Bpchar => Value::Text(text.trim_end_matches(' ')),
        Datum::Text(text) => Value::Text(text),
        Datum::Bytes(bytes) => Value::Bytes(bytes),
        Datum::Uuid(bytes) => Value::Bytes(bytes),
        Datum::Date(days) => Value::Date(*days),
        Datum::Timestamp(micros) => Value::Timestamp(*micros),
        Datum::Numeric(number) => match decimal(kind) {
            Some((_, scale)) => {
                let unscaled = number.to_i128_with_scale(u32::from(scale.unsigned_abs()));
                Value::Decimal(
                    unscaled.ok_or_else(|| SqlError::unsupported("NaN and infinity in numeric of a precision"))?,
                )
            }
            None => keyed::store(datum, kind.kind, buffer),
        },
        Datum::Interval(_) | Datum::Array(_) => keyed::store(datum, kind.kind, buffer),
    })
}

/// Converts a stored value back to a datum.
pub fn datum(value: Value<'_>, kind: SqlType) -> Datum {
    match (value, kind.kind) {
        (Value::Null, _) => Datum::Null,
        (Value::Bool(value), _) => Datum::Bool(value),
        (Value::Int16(value), _) => Datum::Int2(value),
        (Value::Int32(value), _) => Datum::Int4(value),
        (
            Value::Int64(value),
            Kind::Oid
            | Kind::Regclass
            | Kind::Regtype
            | Kind::Regproc
            | Kind::Regprocedure
            | Kind::Regnamespace
            | Kind::Regrole,
        ) => Datum::Oid(value as u32),
        (Value::Int64(value), Kind::Time) => Datum::Time(value),
        (Value::Int64(value), _) => Datum::Int8(value),
        (Value::Float64(value), Kind::Float4) => Datum::Float4(value as f32),
        (Value::Float64(value), _) => Datum::Float8(value),
        (Value::Text(text), Kind::Bpchar) => {
            let missing = kind.max_length().unwrap_or(0).saturating_sub(text.chars().count());
            Datum::text(text.to_owned() + &" ".repeat(missing))
        }
        (Value::Text(text), _) => Datum::text(text),
        (Value::Bytes(bytes), Kind::Uuid) => Datum::Uuid(bytes.try_into().unwrap_or_default()),
        (Value::Bytes(bytes), _) => Datum::Bytes(bytes.into()),
        (Value::Keyed(bytes), _) => keyed::datum(bytes, kind.kind).unwrap_or_default(),
        (Value::Date(days), _) => Datum::Date(days),
        (Value::Timestamp(micros), _) => Datum::Timestamp(micros),
        (Value::Decimal(unscaled), _) => {
            let scale = decimal(kind).map_or(0, |(_, scale)| scale);
            Datum::Numeric(Numeric::from_parts(unscaled, u16::from(scale.unsigned_abs())))
        }
    }
}
