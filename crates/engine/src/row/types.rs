//! The table of types: storage and comparison of the values of each logical type.
//!
//! **Invariant:** layout, row writer, keys, redo and blocks know only the few storage classes. The definition of a type
//! stands here and, for its Arrow form, in `arrow.rs`; a new type is a new arm in each of their functions, and nothing
//! else changes. A raw value that came from [`Type::raw`] goes back by [`Type::value`] to an equal value.
//!
//! | type | class | order of keys |
//! |---|---|---|
//! | bool | 1 byte | unsigned |
//! | int16, int32, int64 | 2, 4, 8 bytes | signed |
//! | decimal up to 18 digits, more | 8, 16 bytes | signed |
//! | date, timestamp | 4, 8 bytes | signed |
//! | float64 | 8 bytes | as PostgreSQL's: NaN is the greatest and equals itself, both zeros are equal |
//! | text, bytes | any number of bytes | by their bytes |
//! | keyed bytes | any number of bytes | by the bytes of their keys |

use crate::error::InvalidValue;
use crate::row::value::{Type, Value};
use core::cmp::Ordering;

/// Storage class of the values of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storage {
    One,
    Two,
    Four,
    Eight,
    Sixteen,
    /// Bytes of any number, beside an 8-byte slot with their place.
    Bytes,
}

impl Storage {
    /// Returns the bytes in the fixed part of a row image.
    pub(crate) const fn slot_bytes(self) -> usize {
        match self {
            Storage::One => 1,
            Storage::Two => 2,
            Storage::Four => 4,
            Storage::Eight | Storage::Bytes => 8,
            Storage::Sixteen => 16,
        }
    }
}

/// A stored value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Raw<'a> {
    Null,
    One(u8),
    Two(u16),
    Four(u32),
    Eight(u64),
    Sixteen(u128),
    Bytes(&'a [u8]),
}

impl Raw<'_> {
    /// Returns a value of fixed length, borrowed from nowhere.
    pub(crate) fn fixed(self) -> Option<Raw<'static>> {
        Some(match self {
            Raw::Null => Raw::Null,
            Raw::One(v) => Raw::One(v),
            Raw::Two(v) => Raw::Two(v),
            Raw::Four(v) => Raw::Four(v),
            Raw::Eight(v) => Raw::Eight(v),
            Raw::Sixteen(v) => Raw::Sixteen(v),
            Raw::Bytes(_) => return None,
        })
    }
}

/// Order of stored values of fixed length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueOrder {
    Unsigned,
    Signed,
    Float,
    /// Order by the first part of the bytes, as [`key_part`] returns it.
    Keyed,
}

/// Number of digits up to which decimals are stored in 8 bytes.
pub(crate) const DIGITS_IN_I64: u8 = 18;

impl Type {
    /// Returns the storage class of the type's values.
    pub(crate) const fn storage(self) -> Storage {
        match self {
            Type::Bool => Storage::One,
            Type::Int16 => Storage::Two,
            Type::Int32 | Type::Date => Storage::Four,
            Type::Int64 | Type::Timestamp | Type::Float64 => Storage::Eight,
            Type::Decimal { precision, .. } if precision <= DIGITS_IN_I64 => Storage::Eight,
            Type::Decimal { .. } => Storage::Sixteen,
            Type::Text | Type::Bytes | Type::Keyed => Storage::Bytes,
        }
    }

    /// Returns the order of the type's stored values.
    pub(crate) const fn order(self) -> ValueOrder {
        match self {
            Type::Bool | Type::Text | Type::Bytes => ValueOrder::Unsigned,
            Type::Int16 | Type::Int32 | Type::Int64 | Type::Date | Type::Timestamp | Type::Decimal { .. } => {
                ValueOrder::Signed
            }
            Type::Float64 => ValueOrder::Float,
            Type::Keyed => ValueOrder::Keyed,
        }
    }

    /// Returns the value as it is stored; if the type has no such value, the reason.
    #[inline]
    pub(crate) fn raw(self, value: Value<'_>) -> Result<Raw<'_>, InvalidValue> {
        Ok(match (value, self) {
            (Value::Null, _) => Raw::Null,
            (Value::Bool(v), Type::Bool) => Raw::One(u8::from(v)),
            (Value::Int16(v), Type::Int16) => Raw::Two(v as u16),
            (Value::Int32(v), Type::Int32) | (Value::Date(v), Type::Date) => Raw::Four(v as u32),
            (Value::Int64(v), Type::Int64) | (Value::Timestamp(v), Type::Timestamp) => Raw::Eight(v as u64),
            (Value::Float64(v), Type::Float64) => Raw::Eight(v.to_bits()),
            (Value::Decimal(v), Type::Decimal { precision, .. }) => {
                if v.unsigned_abs() >= POWERS_OF_TEN[precision as usize] {
                    return Err(InvalidValue::OutOfRange);
                }
                if precision <= DIGITS_IN_I64 { Raw::Eight(v as i64 as u64) } else { Raw::Sixteen(v as u128) }
            }
            (Value::Text(text), Type::Text) => Raw::Bytes(text.as_bytes()),
            (Value::Bytes(bytes), Type::Bytes) | (Value::Keyed(bytes), Type::Keyed) => Raw::Bytes(bytes),
            _ => return Err(InvalidValue::OtherType),
        })
    }

    /// Returns the value of stored bytes. None if they are of no value: bytes that come from elsewhere.
    #[inline]
    pub(crate) fn value(self, raw: Raw<'_>) -> Option<Value<'_>> {
        Some(match (self, raw) {
            (_, Raw::Null) => Value::Null,
            (Type::Bool, Raw::One(v @ (0 | 1))) => Value::Bool(v == 1),
            (Type::Int16, Raw::Two(v)) => Value::Int16(v as i16),
            (Type::Int32, Raw::Four(v)) => Value::Int32(v as i32),
            (Type::Date, Raw::Four(v)) => Value::Date(v as i32),
            (Type::Int64, Raw::Eight(v)) => Value::Int64(v as i64),
            (Type::Timestamp, Raw::Eight(v)) => Value::Timestamp(v as i64),
            (Type::Float64, Raw::Eight(v)) => Value::Float64(f64::from_bits(v)),
            (Type::Decimal { .. }, Raw::Eight(v)) => Value::Decimal(i128::from(v as i64)),
            (Type::Decimal { .. }, Raw::Sixteen(v)) => Value::Decimal(v as i128),
            (Type::Text, Raw::Bytes(bytes)) => Value::Text(std::str::from_utf8(bytes).ok()?),
            (Type::Bytes, Raw::Bytes(bytes)) => Value::Bytes(bytes),
            (Type::Keyed, Raw::Bytes(bytes)) => Value::Keyed(bytes),
            _ => return None,
        })
    }
}

/// Least number that has more digits than the index.
const POWERS_OF_TEN: [u128; 39] = {
    let mut powers = [1; 39];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = 10 * powers[at - 1];
        at += 1;
    }
    powers
};

/// Returns the bits of a float, such that they compare, as unsigned numbers, as PostgreSQL's floats do.
#[inline]
pub(crate) fn float_order(v: f64) -> u64 {
    const SIGN: u64 = 1 << 63;
    // One NaN, and one zero.
    let bits = if v.is_nan() { f64::NAN.to_bits() & !SIGN } else { (v + 0.0).to_bits() };
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

/// Returns the part of keyed bytes by which they compare: the whole, if they do not tell.
#[inline]
pub(crate) fn key_part(bytes: &[u8]) -> &[u8] {
    let Some((rest, last)) = bytes.split_last_chunk::<4>() else { return bytes };
    let key = rest.len().checked_sub(u32::from_be_bytes(*last) as usize);
    key.map_or(bytes, |key| &rest[..key])
}

/// Compares two values of one type; returns none if one is null or their types differ.
pub(crate) fn compare(left: Value<'_>, right: Value<'_>) -> Option<Ordering> {
    Some(match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => left.cmp(&right),
        (Value::Int16(left), Value::Int16(right)) => left.cmp(&right),
        (Value::Int32(left), Value::Int32(right)) | (Value::Date(left), Value::Date(right)) => left.cmp(&right),
        (Value::Int64(left), Value::Int64(right)) => left.cmp(&right),
        (Value::Timestamp(left), Value::Timestamp(right)) => left.cmp(&right),
        (Value::Float64(left), Value::Float64(right)) => float_order(left).cmp(&float_order(right)),
        (Value::Decimal(left), Value::Decimal(right)) => left.cmp(&right),
        (Value::Text(left), Value::Text(right)) => left.cmp(right),
        (Value::Bytes(left), Value::Bytes(right)) => left.cmp(right),
        (Value::Keyed(left), Value::Keyed(right)) => key_part(left).cmp(key_part(right)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_from_storage() {
        let narrow = Type::Decimal { precision: 18, scale: 2 };
        let wide = Type::Decimal { precision: 19, scale: 2 };
        let all = [
            (Type::Bool, Value::Bool(true)),
            (Type::Int16, Value::Int16(i16::MIN)),
            (Type::Int32, Value::Int32(-7)),
            (Type::Date, Value::Date(i32::MIN)),
            (Type::Int64, Value::Int64(-7)),
            (Type::Timestamp, Value::Timestamp(i64::MIN)),
            (Type::Float64, Value::Float64(-0.5)),
            (narrow, Value::Decimal(1 - 10_i128.pow(18))),
            (wide, Value::Decimal(1 - 10_i128.pow(19))),
            (Type::Text, Value::Text("ü")),
            (Type::Bytes, Value::Bytes(&[0xff, 0])),
            (Type::Keyed, Value::Keyed(&[1, 9, 0, 0, 0, 1])),
        ];
        for (kind, value) in all {
            assert_eq!(kind.value(kind.raw(value).unwrap()), Some(value));
            assert_eq!(kind.raw(Value::Null).unwrap(), Raw::Null);
            for (other, _) in all.iter().filter(|(other, _)| *other != kind && (*other, kind) != (wide, narrow)) {
                assert!(other.raw(value).is_err(), "{value:?} is no {other:?}");
            }
        }
        assert!(narrow.raw(Value::Decimal(10_i128.pow(18))).is_err());
        assert_eq!(Type::Text.value(Raw::Bytes(&[0xff])), None);
        assert_eq!(Type::Bool.value(Raw::One(2)), None);
    }

    #[test]
    fn keyed_bytes_compare_by_their_keys() {
        let of = |key: &[u8], rest: &[u8]| [key, rest, &(rest.len() as u32).to_be_bytes()].concat();
        let (one, same, more) = (of(&[1], &[7, 7]), of(&[1], &[]), of(&[2], &[]));
        assert_eq!(Value::Keyed(&one), Value::Keyed(&same));
        assert_eq!(compare(Value::Keyed(&one), Value::Keyed(&more)), Some(Ordering::Less));
        // Bytes that say nonsense are all key.
        assert_eq!(key_part(&[1, 2]), &[1, 2]);
        assert_eq!(key_part(&[0, 0, 0, 9]), &[0, 0, 0, 9]);
    }

    #[test]
    fn floats_compare_as_in_postgresql() {
        let sorted = [f64::NEG_INFINITY, -1.5, -1e-300, 0.0, 1e-300, 2.0, f64::INFINITY, f64::NAN];
        for (at, low) in sorted.iter().enumerate() {
            for high in &sorted[at + 1..] {
                assert_eq!(compare(Value::Float64(*low), Value::Float64(*high)), Some(Ordering::Less));
            }
        }
        assert_eq!(Value::Float64(-0.0), Value::Float64(0.0));
        assert_eq!(Value::Float64(-f64::NAN), Value::Float64(f64::NAN));
    }
}
