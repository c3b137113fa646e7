//! Values as bytes that begin with a key: intervals, arrays, and numerics without a precision.
//!
//! **Invariant:** keys compare as the values do, and no key is a proper prefix of another. Differences between equal
//! values (the display scale of 1.0 and 1.00, a month and 30 days) follow the key. The last four bytes are the length
//! of that part.
//!
//! ```text
//! key of an array    01 and the item's key, or 02 (null), for each item; then 00
//! bool               one byte
//! integers, times    big endian, the sign bit flipped
//! float              8 bytes, flipped so that they compare               then 1, if it is -0, else 0
//! numeric            the ordering part of `Numeric::to_key`              then the scale, 2 bytes
//! text               its bytes, 00; of char(n) without the blanks at its end, whose number follows, 4 bytes
//! bytea              its bytes, 00 written as 00 FF; 00 01
//! interval           its length in microseconds, 16 bytes                then months and days, 4 bytes each
//! ```

use engine::Value;
use types::Kind;
use types::calendar::DAY;
use types::datum::Datum;
use types::interval::Interval;
use types::numeric::Numeric;
use types::numeric::key::ordering_part;

const SIGN_64: u64 = 1 << 63;
const SIGN_128: u128 = 1 << 127;

/// Writes the value to `buffer`.
pub(super) fn store<'a>(datum: &Datum, kind: Kind, buffer: &'a mut Vec<u8>) -> Value<'a> {
    buffer.clear();
    let mut rest = Vec::new();
    put(datum, kind, buffer, &mut rest);
    buffer.extend_from_slice(&rest);
    buffer.extend_from_slice(&(rest.len() as u32).to_be_bytes());
    Value::Keyed(buffer)
}

fn put_signed(value: i64, key: &mut Vec<u8>) {
    key.extend_from_slice(&(value as u64 ^ SIGN_64).to_be_bytes());
}

fn put_float(value: f64, key: &mut Vec<u8>, rest: &mut Vec<u8>) {
    let bits = if value.is_nan() { f64::NAN.to_bits() & !SIGN_64 } else { (value + 0.0).to_bits() };
    let ordered = if bits & SIGN_64 == 0 { bits | SIGN_64 } else { !bits };
    key.extend_from_slice(&ordered.to_be_bytes());
    rest.push(u8::from(value == 0.0 && value.is_sign_negative()));
}

fn put(datum: &Datum, kind: Kind, key: &mut Vec<u8>, rest: &mut Vec<u8>) {
    match datum {
        // Only items of arrays can be null here, and a null item has no key.
        Datum::Null => {}
        Datum::Bool(value) => key.push(u8::from(*value)),
        Datum::Int2(value) => put_signed(i64::from(*value), key),
        Datum::Int4(value) | Datum::Date(value) => put_signed(i64::from(*value), key),
        Datum::Int8(value) | Datum::Time(value) | Datum::Timestamp(value) => put_signed(*value, key),
        Datum::Oid(value) => put_signed(i64::from(*value), key),
        Datum::Float4(value) => put_float(f64::from(*value), key, rest),
        Datum::Float8(value) => put_float(*value, key, rest),
        Datum::Numeric(value) => {
            let both = value.to_key();
            let ordering = ordering_part(&both);
            key.extend_from_slice(ordering);
            rest.extend_from_slice(&both[ordering.len()..]);
        }
        Datum::Text(text) if kind == Kind::Bpchar => {
            let shown = text.trim_end_matches(' ');
            key.extend_from_slice(shown.as_bytes());
            key.push(0);
            rest.extend_from_slice(&((text.len() - shown.len()) as u32).to_be_bytes());
        }
        Datum::Text(text) => {
            key.extend_from_slice(text.as_bytes());
            key.push(0);
        }
        Datum::Bytes(bytes) => {
            for byte in bytes {
                key.push(*byte);
                if *byte == 0 {
                    key.push(0xff);
                }
            }
            key.extend_from_slice(&[0, 1]);
        }
        Datum::Interval(interval) => {
            key.extend_from_slice(&(interval.length() as u128 ^ SIGN_128).to_be_bytes());
            rest.extend_from_slice(&interval.months.to_be_bytes());
            rest.extend_from_slice(&interval.days.to_be_bytes());
        }
        Datum::Uuid(bytes) => key.extend_from_slice(bytes),
        Datum::Array(items) => {
            for item in items {
                key.push(if item.is_null() { 2 } else { 1 });
                put(item, kind.element().unwrap_or(Kind::Unknown), key, rest);
            }
            key.push(0);
        }
    }
}

fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (first, after) = bytes.split_first_chunk::<N>()?;
    *bytes = after;
    Some(first)
}

fn take_signed(key: &mut &[u8]) -> Option<i64> {
    take(key).map(|bytes| (u64::from_be_bytes(*bytes) ^ SIGN_64) as i64)
}

fn take_float(key: &mut &[u8], rest: &mut &[u8]) -> Option<f64> {
    let ordered = u64::from_be_bytes(*take(key)?);
    let bits = if ordered & SIGN_64 == 0 { !ordered } else { ordered ^ SIGN_64 };
    let [is_negative_zero] = take(rest)?;
    Some(if *is_negative_zero == 1 { -0.0 } else { f64::from_bits(bits) })
}

fn read(kind: Kind, key: &mut &[u8], rest: &mut &[u8]) -> Option<Datum> {
    Some(match kind {
        Kind::Bool => Datum::Bool(*take::<1>(key)? == [1]),
        Kind::Int2 => Datum::Int2(take_signed(key)? as i16),
        Kind::Int4 => Datum::Int4(take_signed(key)? as i32),
        Kind::Date => Datum::Date(take_signed(key)? as i32),
        Kind::Int8 => Datum::Int8(take_signed(key)?),
        Kind::Time => Datum::Time(take_signed(key)?),
        Kind::Timestamp | Kind::Timestamptz => Datum::Timestamp(take_signed(key)?),
        Kind::Oid
        | Kind::Regclass
        | Kind::Regtype
        | Kind::Regproc
        | Kind::Regprocedure
        | Kind::Regnamespace
        | Kind::Regrole => Datum::Oid(take_signed(key)? as u32),
        Kind::Float4 => Datum::Float4(take_float(key, rest)? as f32),
        Kind::Float8 => Datum::Float8(take_float(key, rest)?),
        Kind::Numeric => {
            let scale: &[u8; 2] = take(rest)?;
            Datum::Numeric(Numeric::from_key(&[Numeric::take_key(key)?, scale].concat())?)
        }
        Kind::Text
        | Kind::Varchar
        | Kind::Bpchar
        | Kind::Name
        | Kind::Json
        | Kind::InternalChar
        | Kind::Unknown
        | Kind::Void => {
            let (text, after) = key.split_at_checked(key.iter().position(|byte| *byte == 0)?)?;
            *key = after.get(1..)?;
            let text = std::str::from_utf8(text).ok()?;
            if kind != Kind::Bpchar {
                return Some(Datum::text(text));
            }
            // Bytes that `store` did not write must not ask for more blanks than a char(n) can have.
            let blanks = u32::from_be_bytes(*take(rest)?) as usize;
            Datum::text(text.to_owned() + &" ".repeat(blanks.min(10_485_760)))
        }
        Kind::Bytea => {
            let mut bytes = Vec::new();
            loop {
                match take(key)? {
                    [0] => match take(key)? {
                        [0xff] => bytes.push(0),
                        [1] => break,
                        _ => return None,
                    },
                    [byte] => bytes.push(*byte),
                }
            }
            Datum::Bytes(bytes.into())
        }
        Kind::Interval => {
            let length = (u128::from_be_bytes(*take(key)?) ^ SIGN_128) as i128;
            let (months, days) = (i32::from_be_bytes(*take(rest)?), i32::from_be_bytes(*take(rest)?));
            // Only the length is in the key; microseconds are what months and days leave of it.
            let whole = (i128::from(months) * 30 + i128::from(days)) * i128::from(DAY);
            Datum::Interval(Interval { months, days, micros: i64::try_from(length - whole).ok()? })
        }
        Kind::Uuid => Datum::Uuid(*take(key)?),
        Kind::Array(_) | Kind::Int2Vector | Kind::OidVector => {
            let element = kind.element()?;
            let mut items = Vec::new();
            loop {
                match take(key)? {
                    [0] => break,
                    [1] => items.push(read(element, key, rest)?),
                    [2] => items.push(Datum::Null),
                    _ => return None,
                }
            }
            Datum::Array(items.into())
        }
    })
}

/// Returns the value that `store` wrote, or `None` if the bytes are not of that form.
pub fn datum(bytes: &[u8], kind: Kind) -> Option<Datum> {
    let (both, len) = bytes.split_last_chunk::<4>()?;
    let (mut key, mut rest) = both.split_at_checked(both.len().checked_sub(u32::from_be_bytes(*len) as usize)?)?;
    read(kind, &mut key, &mut rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::forms::Forms;
    use types::{Element, text};

    /// Goal: keys order as the values do. Lines are in ascending order; the values of one line are equal.
    #[test]
    fn keys_compare_as_values_and_values_come_back() {
        let array = Kind::Array;
        for (kind, lines) in [
            (Kind::Interval, &["-1 mon", "-29 days", "0", "1 day|24:00", "1 mon -1 day|29 days", "1 mon|30 days"][..]),
            (
                Kind::Numeric,
                &["-Infinity", "-1e300", "-1.5", "0|0.00", "1|1.0|1.000", "1.01", "100", "Infinity", "NaN"],
            ),
            (array(Element::Int4), &["{}", "{-1}", "{-1,5}", "{0}", "{0,NULL}", "{1}", "{NULL}", "{NULL,1}"]),
            (array(Element::Text), &["{}", "{\"\"}", "{\"\",a}", "{a}", "{a,b}", "{ab}", "{NULL}"]),
            (
                array(Element::Bytea),
                &["{\"\"}", "{\"\\\\x00\"}", "{\"\\\\x0000\"}", "{\"\\\\x00ff\"}", "{\"\\\\x01\"}"],
            ),
            (array(Element::Float8), &["{-Infinity}", "{-1}", "{0}|{-0}", "{1e-300}", "{Infinity}", "{NaN}"]),
            (array(Element::Numeric), &["{1}|{1.0}", "{1,2}", "{2}|{2.00}", "{2,-1}"]),
            (array(Element::Interval), &["{1 day}|{24:00}", "{1 mon}|{30 days}"]),
            (array(Element::Bool), &["{f}", "{t}", "{NULL}"]),
            (array(Element::Date), &["{-infinity}", "{1999-01-01}", "{infinity}"]),
        ] {
            let mut before: Option<Vec<u8>> = None;
            for line in lines {
                let mut same: Option<Vec<u8>> = None;
                for written in line.split('|') {
                    let value = text::input(written, kind.into(), &Forms::DEFAULT).expect("a value");
                    let mut buffer = Vec::new();
                    store(&value, kind, &mut buffer);
                    let back = datum(&buffer, kind).expect("it comes back");
                    let shown = |value: &Datum| text::to_string(value, kind.into(), &Forms::DEFAULT);
                    assert_eq!(shown(&back), shown(&value));
                    if let Some(same) = &same {
                        assert_eq!(Value::Keyed(same), Value::Keyed(&buffer), "{line}");
                    }
                    same = Some(buffer);
                }
                let (Some(before), Some(now)) = (before.replace(same.clone().unwrap_or_default()), same) else {
                    continue;
                };
                let key = |bytes: &[u8]| {
                    let (both, len) = bytes.split_last_chunk::<4>().expect("a length");
                    both[..both.len() - u32::from_be_bytes(*len) as usize].to_vec()
                };
                assert!(key(&before) < key(&now), "{line} of {}", kind.name());
                assert!(!key(&now).starts_with(&key(&before)), "{line} of {}", kind.name());
            }
        }
    }

    #[test]
    fn bytes_of_somebody_else_are_no_value() {
        for bytes in [&[][..], &[1, 2, 3], &[0, 0, 0, 9], &[1, 0, 0, 0, 0]] {
            assert_eq!(datum(bytes, Kind::Interval), None);
            assert_eq!(datum(bytes, Kind::Numeric).filter(|_| bytes.len() < 5), None);
        }
    }
}
