//! SQL values, and their conversions from and to those of Rust.

use crate::bytes::Reader;
use crate::decimal::Decimal;
use crate::error::{Error, Result};

/// SQL value.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// NULL
    #[default]
    Null,
    /// boolean
    Bool(bool),
    /// smallint, integer, bigint, oid
    Int(i64),
    /// real, double precision
    Float(f64),
    /// numeric
    Decimal(Decimal),
    /// text, varchar, char, name, json
    Text(String),
    /// bytea
    Bytes(Vec<u8>),
    /// date
    Date(Date),
    /// time
    Time(Time),
    /// timestamp, timestamptz
    Timestamp(Timestamp),
    /// uuid
    Uuid(Uuid),
    /// Value of any other type, in its text form. A `numeric` of more than 38 digits, NaN and Infinity are such values.
    Literal(String),
    /// Array of one dimension.
    Array(Vec<Value>),
}

/// Array of one dimension, whose items have one type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Array<T>(pub Vec<T>);

/// Date, in days since 1970-01-01. The greatest and the least number are `infinity` and `-infinity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date(pub i32);

/// Time of the day, in microseconds since midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

/// Time, in microseconds since 1970-01-01 UTC. The greatest and the least number are `infinity` and `-infinity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

/// UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl Value {
    /// Returns true for NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    fn kind(&self) -> &'static str {
        match self {
            Value::Null => "NULL",
            Value::Bool(_) => "a boolean",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a floating-point number",
            Value::Decimal(_) => "a decimal number",
            Value::Text(_) => "a text",
            Value::Bytes(_) => "bytes",
            Value::Date(_) => "a date",
            Value::Time(_) => "a time",
            Value::Timestamp(_) => "a timestamp",
            Value::Uuid(_) => "a UUID",
            Value::Literal(_) => "a literal",
            Value::Array(_) => "an array",
        }
    }
}

/// Type that a value can be read as.
pub trait FromValue: Sized {
    /// Reads the value.
    ///
    /// # Errors
    /// `22004` for NULL, `42804` for a value of another type, `22003` for a number that does not fit.
    fn from_value(value: &Value) -> Result<Self>;

    /// Reads the value from the bytes of a message, with the same result. Only this crate can do it without the value.
    #[doc(hidden)]
    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Self::from_value(&reader.value()?)
    }
}

#[cold]
fn mismatch<T>(value: &Value, wanted: &str) -> Result<T> {
    match value {
        Value::Null => Err(Error::new("22004", format!("{wanted} is expected instead of NULL"))),
        other => Err(Error::new("42804", format!("{wanted} is expected instead of {}", other.kind()))),
    }
}

impl<T: FromValue> FromValue for Array<T> {
    fn from_value(value: &Value) -> Result<Array<T>> {
        match value {
            Value::Array(items) => items.iter().map(T::from_value).collect::<Result<_>>().map(Array),
            other => mismatch(other, "an array"),
        }
    }

    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Array<T>> {
        match reader.items() {
            Some(count) => reader.many(count, T::read).map(Array),
            None => Array::from_value(&reader.value()?),
        }
    }
}

impl<T: Into<Value>> From<Array<T>> for Value {
    fn from(array: Array<T>) -> Value {
        Value::Array(array.0.into_iter().map(Into::into).collect())
    }
}

impl FromValue for Value {
    fn from_value(value: &Value) -> Result<Value> {
        Ok(value.clone())
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &Value) -> Result<Option<T>> {
        if value.is_null() { Ok(None) } else { T::from_value(value).map(Some) }
    }

    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Option<T>> {
        if reader.null().is_some() { Ok(None) } else { T::read(reader).map(Some) }
    }
}

impl FromValue for f64 {
    fn from_value(value: &Value) -> Result<f64> {
        match value {
            Value::Float(value) => Ok(*value),
            Value::Int(value) => Ok(*value as f64),
            other => mismatch(other, "a floating-point number"),
        }
    }
}

impl FromValue for Decimal {
    fn from_value(value: &Value) -> Result<Decimal> {
        match value {
            Value::Decimal(value) => Ok(*value),
            Value::Int(value) => Ok(Decimal::from(*value)),
            Value::Literal(text) => text.parse().map_err(|_| Decimal::refused(text)),
            other => mismatch(other, "a decimal number"),
        }
    }

    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Decimal> {
        match reader.decimal() {
            Some(value) => Ok(value),
            None => Decimal::from_value(&reader.value()?),
        }
    }
}

impl FromValue for String {
    fn from_value(value: &Value) -> Result<String> {
        match value {
            Value::Text(value) | Value::Literal(value) => Ok(value.clone()),
            other => mismatch(other, "a text"),
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<String> {
        match reader.value()? {
            Value::Text(value) | Value::Literal(value) => Ok(value),
            other => mismatch(&other, "a text"),
        }
    }
}

#[cold]
fn out_of_range(value: i64, of: &str) -> Error {
    Error::new("22003", format!("{value} is out of the range of {of}"))
}

macro_rules! integers {
    ($($integer:ty),*) => {
        $(impl FromValue for $integer {
            fn from_value(value: &Value) -> Result<$integer> {
                match value {
                    Value::Int(value) => {
                        <$integer>::try_from(*value).map_err(|_| out_of_range(*value, stringify!($integer)))
                    }
                    other => mismatch(other, "an integer"),
                }
            }

            #[inline]
            fn read(reader: &mut Reader<'_>) -> Result<$integer> {
                match reader.int() {
                    Some(value) => {
                        <$integer>::try_from(value).map_err(|_| out_of_range(value, stringify!($integer)))
                    }
                    None => <$integer>::from_value(&reader.value()?),
                }
            }
        })*
    };
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64, usize);

macro_rules! same_kind {
    ($($kind:ident, $of:ty, $wanted:literal;)*) => {
        $(impl FromValue for $of {
            fn from_value(value: &Value) -> Result<$of> {
                match value {
                    Value::$kind(value) => Ok(value.clone()),
                    other => mismatch(other, $wanted),
                }
            }
        })*
    };
}

same_kind! {
    Bool, bool, "a boolean";
    Bytes, Vec<u8>, "bytes";
    Date, Date, "a date";
    Time, Time, "a time";
    Timestamp, Timestamp, "a timestamp";
    Uuid, Uuid, "a UUID";
}

macro_rules! into_value {
    ($($from:ty, $value:ident => $made:expr;)*) => {
        $(impl From<$from> for Value {
            fn from($value: $from) -> Value {
                $made
            }
        })*
    };
}

into_value! {
    bool, value => Value::Bool(value);
    i8, value => Value::Int(i64::from(value));
    i16, value => Value::Int(i64::from(value));
    i32, value => Value::Int(i64::from(value));
    i64, value => Value::Int(value);
    u8, value => Value::Int(i64::from(value));
    u16, value => Value::Int(i64::from(value));
    u32, value => Value::Int(i64::from(value));
    f32, value => Value::Float(f64::from(value));
    f64, value => Value::Float(value);
    Decimal, value => Value::Decimal(value);
    String, value => Value::Text(value);
    &str, value => Value::Text(value.to_owned());
    &String, value => Value::Text(value.clone());
    Vec<u8>, value => Value::Bytes(value);
    &[u8], value => Value::Bytes(value.to_vec());
    Date, value => Value::Date(value);
    Time, value => Value::Time(value);
    Timestamp, value => Value::Timestamp(value);
    Uuid, value => Value::Uuid(value);
    &Value, value => value.clone();
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}
