//! Values as bytes, as sandboxed code reads and writes them.
//!
//! Each value begins with a tag, and all numbers are little endian:
//!
//! | tag | value | bytes after the tag |
//! |---:|---|---|
//! | 0 | NULL | |
//! | 1, 2 | false, true | |
//! | 3 | smallint, integer, bigint, oid | 8, signed |
//! | 4 | real, double precision | 8 |
//! | 5 | numeric, unscaled value and scale | 16, signed, and 2 |
//! | 6 | text, varchar, char, name, json | length in 4, UTF-8 |
//! | 7 | bytea | length in 4, bytes |
//! | 8 | date: days since 1970-01-01 | 4, signed |
//! | 9 | time: microseconds since midnight | 8, signed |
//! | 10 | timestamp, timestamptz: microseconds since 1970-01-01 UTC | 8, signed |
//! | 11 | uuid | 16 |
//! | 12 | any other value, as its text form | length in 4, UTF-8 |
//! | 13 | array of one dimension | number of items in 4, items |
//!
//! Infinite dates and timestamps are the greatest and the least number. Code may send text (6, 12) for a value of any
//! type; it is read as a literal is.
//!
//! **Invariant:** reading never allocates more than the bytes that are there.

use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use types::calendar;
use types::datum::Datum;
use types::forms::Forms;
use types::numeric::Numeric;
use types::{Kind, SqlType, modifier, text};

/// Value that code has sent, of a type that is not yet checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WireValue<'a> {
    /// NULL
    Null,
    /// Truth value.
    Bool(bool),
    /// Integer of any width.
    Int(i64),
    /// Floating-point number.
    Float(f64),
    /// Unscaled value, and its number of digits after the decimal point.
    Decimal(i128, u16),
    /// Text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since midnight.
    Time(i64),
    /// Microseconds since 1970-01-01 UTC.
    Timestamp(i64),
    /// UUID.
    Uuid([u8; 16]),
    /// Text form of a value.
    Literal(&'a str),
    /// Items of an array, none of which is an array.
    Array(WireItems<'a>),
}

/// Items of an array, checked to be values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WireItems<'a> {
    count: u32,
    bytes: &'a [u8],
}

impl<'a> WireItems<'a> {
    /// Returns the items.
    ///
    /// # Errors
    /// None that the check has not found.
    pub fn iter(self) -> impl Iterator<Item = SqlResult<WireValue<'a>>> {
        let mut reader = WireReader::new(self.bytes);
        (0..self.count).map(move |_| reader.value())
    }
}

/// Returns the error for bytes that do not follow the format.
pub fn garbled(what: &str) -> SqlError {
    SqlError::new(SqlState::EXTERNAL_ROUTINE_INVOCATION_EXCEPTION, format!("the routine broke the protocol: {what}"))
}

/// Cursor over bytes that code has sent.
#[derive(Clone, Copy, Debug)]
pub struct WireReader<'a>(&'a [u8]);

impl<'a> WireReader<'a> {
    /// Creates a reader of these bytes.
    pub fn new(bytes: &'a [u8]) -> WireReader<'a> {
        WireReader(bytes)
    }

    /// Returns true if all bytes are read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads `N` bytes.
    ///
    /// # Errors
    /// `39000`
    pub fn array<const N: usize>(&mut self) -> SqlResult<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or_else(|| garbled("a message ends too early"))?;
        self.0 = rest;
        Ok(*first)
    }

    /// Reads a byte.
    ///
    /// # Errors
    /// `39000`
    pub fn u8(&mut self) -> SqlResult<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Reads a number of 2 bytes.
    ///
    /// # Errors
    /// `39000`
    pub fn u16(&mut self) -> SqlResult<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Reads a number of 4 bytes.
    ///
    /// # Errors
    /// `39000`
    pub fn u32(&mut self) -> SqlResult<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads bytes after their length.
    ///
    /// # Errors
    /// `39000`
    pub fn bytes(&mut self) -> SqlResult<&'a [u8]> {
        let len = self.u32()? as usize;
        let (first, rest) = self.0.split_at_checked(len).ok_or_else(|| garbled("a message ends too early"))?;
        self.0 = rest;
        Ok(first)
    }

    /// Reads text after its length.
    ///
    /// # Errors
    /// `39000`; `22021` for text that is not UTF-8, or has a zero byte.
    pub fn text(&mut self) -> SqlResult<&'a str> {
        types::binary::utf8(self.bytes()?)
    }

    /// Reads a value.
    ///
    /// # Errors
    /// `39000`; `22021`
    pub fn value(&mut self) -> SqlResult<WireValue<'a>> {
        Ok(match self.u8()? {
            0 => WireValue::Null,
            1 => WireValue::Bool(false),
            2 => WireValue::Bool(true),
            3 => WireValue::Int(i64::from_le_bytes(self.array()?)),
            4 => WireValue::Float(f64::from_le_bytes(self.array()?)),
            5 => WireValue::Decimal(i128::from_le_bytes(self.array()?), self.u16()?),
            6 => WireValue::Text(self.text()?),
            7 => WireValue::Bytes(self.bytes()?),
            8 => WireValue::Date(i32::from_le_bytes(self.array()?)),
            9 => WireValue::Time(i64::from_le_bytes(self.array()?)),
            10 => WireValue::Timestamp(i64::from_le_bytes(self.array()?)),
            11 => WireValue::Uuid(self.array()?),
            12 => WireValue::Literal(self.text()?),
            13 => WireValue::Array(self.items()?),
            tag => return Err(garbled(&format!("{tag} is the tag of no value"))),
        })
    }

    /// Reads the items of an array.
    fn items(&mut self) -> SqlResult<WireItems<'a>> {
        let count = self.u32()?;
        let all = self.0;
        for _ in 0..count {
            pulse::tick(pulse::ITEM)?;
            // The tag is looked at first, so arrays in arrays do not nest calls.
            if self.0.first() == Some(&13) {
                return Err(garbled("an array within an array"));
            }
            self.value()?;
        }
        let bytes = all.get(..all.len() - self.0.len()).unwrap_or_default();
        Ok(WireItems { count, bytes })
    }

    /// Reads a value of this type.
    ///
    /// # Errors
    /// As [`WireReader::value`] and [`datum`].
    pub fn datum(&mut self, to: SqlType) -> SqlResult<Datum> {
        datum(self.value()?, to)
    }

    /// Reads a value of this type, and puts it behind `row`.
    ///
    /// # Errors
    /// As [`WireReader::datum`].
    #[inline]
    pub fn push_datum(&mut self, to: SqlType, row: &mut Vec<Datum>) -> SqlResult<()> {
        // Most values are integers, whose types have no modifiers. The ways stay apart: a place that they have in common
        // would be read in pieces of another size than it was written, for which processors wait.
        if let Some((3, rest)) = self.0.split_first()
            && let Some((bytes, rest)) = rest.split_first_chunk()
        {
            let value = i64::from_le_bytes(*bytes);
            match to.kind {
                Kind::Int4 => {
                    let value = i32::try_from(value).map_err(|_| out_of_range(to.kind))?;
                    self.0 = rest;
                    row.push(Datum::Int4(value));
                    return Ok(());
                }
                Kind::Int8 => {
                    self.0 = rest;
                    push_int8(value, row);
                    return Ok(());
                }
                _ => {}
            }
        }
        self.push_other(to, row)
    }

    #[inline(never)]
    fn push_other(&mut self, to: SqlType, row: &mut Vec<Datum>) -> SqlResult<()> {
        row.push(self.datum(to)?);
        Ok(())
    }
}

#[inline(never)]
fn push_int8(value: i64, row: &mut Vec<Datum>) {
    row.push(Datum::Int8(value));
}

/// Returns the value as one of this type.
///
/// # Errors
/// `42804` for a value of another type; `22003` for a number beyond the type's range; `22P02` and the like for text
/// that is no value of the type; `22001` for text that is too long.
pub fn datum(value: WireValue<'_>, to: SqlType) -> SqlResult<Datum> {
    let kind = to.kind;
    let made = match (value, kind) {
        (WireValue::Null, _) => return Ok(Datum::Null),
        (WireValue::Bool(value), Kind::Bool) => Datum::Bool(value),
        (WireValue::Int(value), Kind::Int2) => Datum::Int2(i16::try_from(value).map_err(|_| out_of_range(kind))?),
        (WireValue::Int(value), Kind::Int4) => Datum::Int4(i32::try_from(value).map_err(|_| out_of_range(kind))?),
        (WireValue::Int(value), Kind::Int8) => return Ok(Datum::Int8(value)),
        (
            WireValue::Int(value),
            Kind::Oid
            | Kind::Regclass
            | Kind::Regtype
            | Kind::Regproc
            | Kind::Regprocedure
            | Kind::Regnamespace
            | Kind::Regrole,
        ) => Datum::Oid(u32::try_from(value).map_err(|_| out_of_range(kind))?),
        (WireValue::Int(value), Kind::Numeric) => Datum::Numeric(Numeric::from_parts(i128::from(value), 0)),
        (WireValue::Int(value), Kind::Float8) => Datum::Float8(value as f64),
        (WireValue::Float(value), Kind::Float8) => Datum::Float8(value),
        (WireValue::Float(value), Kind::Float4) => {
            let narrow = value as f32;
            if narrow.is_infinite() && value.is_finite() {
                return Err(out_of_range(kind));
            }
            Datum::Float4(narrow)
        }
        (WireValue::Decimal(unscaled, scale), Kind::Numeric) => {
            Datum::Numeric(Numeric::from_parts(unscaled, scale).in_range()?)
        }
        // Languages whose integers have no greatest one send those beyond 64 bits so.
        (WireValue::Decimal(unscaled, 0), Kind::Int2 | Kind::Int4 | Kind::Int8) if i64::try_from(unscaled).is_err() => {
            return Err(out_of_range(kind));
        }
        (WireValue::Text(value), Kind::Text | Kind::Varchar | Kind::Bpchar) => Datum::text(value),
        (WireValue::Bytes(value), Kind::Bytea) => Datum::Bytes(value.into()),
        (WireValue::Date(infinite @ (i32::MIN | i32::MAX)), Kind::Date) => Datum::Date(infinite),
        (WireValue::Date(days), Kind::Date) => Datum::Date(calendar::date(days.into())?),
        (WireValue::Time(value), Kind::Time) if (0..=calendar::DAY).contains(&value) => Datum::Time(value),
        (WireValue::Time(_), Kind::Time) => return Err(out_of_range(kind)),
        (WireValue::Timestamp(infinite @ (i64::MIN | i64::MAX)), Kind::Timestamp | Kind::Timestamptz) => {
            Datum::Timestamp(infinite)
        }
        (WireValue::Timestamp(micros), Kind::Timestamp | Kind::Timestamptz) => {
            Datum::Timestamp(calendar::moment(0, micros)?)
        }
        (WireValue::Uuid(value), Kind::Uuid) => Datum::Uuid(value),
        (WireValue::Array(items), Kind::Array(_) | Kind::Int2Vector | Kind::OidVector) => {
            let element = SqlType { kind: kind.element().unwrap_or(Kind::Unknown), typmod: to.typmod };
            return items.iter().map(|item| datum(item?, element)).collect::<SqlResult<_>>().map(Datum::Array);
        }
        (WireValue::Text(value) | WireValue::Literal(value), _) => return text::input(value, to, &Forms::DEFAULT),
        (
            WireValue::Bool(_)
            | WireValue::Int(_)
            | WireValue::Float(_)
            | WireValue::Decimal(..)
            | WireValue::Bytes(_)
            | WireValue::Date(_)
            | WireValue::Time(_)
            | WireValue::Timestamp(_)
            | WireValue::Uuid(_)
            | WireValue::Array(_),
            _,
        ) => {
            let message = format!("the routine sent {} for a value of type {}", name_of(value), kind.name());
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        }
    };
    if 0 <= to.typmod { modifier::apply(made, to, false) } else { Ok(made) }
}

fn name_of(value: WireValue<'_>) -> &'static str {
    match value {
        WireValue::Null => "NULL",
        WireValue::Bool(_) => "a boolean",
        WireValue::Int(_) => "an integer",
        WireValue::Float(_) => "a floating-point number",
        WireValue::Decimal(..) => "a decimal number",
        WireValue::Text(_) => "a text",
        WireValue::Bytes(_) => "bytes",
        WireValue::Date(_) => "a date",
        WireValue::Time(_) => "a time",
        WireValue::Timestamp(_) => "a timestamp",
        WireValue::Uuid(_) => "a UUID",
        WireValue::Literal(_) => "a literal",
        WireValue::Array(_) => "an array",
    }
}

#[cold]
fn out_of_range(kind: Kind) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{} out of range", kind.name()))
}

fn put_bytes(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    // A value has fewer than 2^30 bytes.
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Writes a value of this type behind `out`.
pub fn put(datum: &Datum, of: SqlType, out: &mut Vec<u8>) {
    let put_int = |value: i64, out: &mut Vec<u8>| {
        // At once: each piece would look for room of its own.
        let mut bytes = [3; 9];
        bytes[1..].copy_from_slice(&value.to_le_bytes());
        out.extend_from_slice(&bytes);
    };
    match datum {
        Datum::Null => out.push(0),
        Datum::Bool(value) => out.push(if *value { 2 } else { 1 }),
        Datum::Int2(value) => put_int(i64::from(*value), out),
        Datum::Int4(value) => put_int(i64::from(*value), out),
        Datum::Int8(value) => put_int(*value, out),
        Datum::Oid(value) => put_int(i64::from(*value), out),
        Datum::Float4(value) => {
            out.push(4);
            out.extend_from_slice(&f64::from(*value).to_le_bytes());
        }
        Datum::Float8(value) => {
            out.push(4);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Datum::Numeric(value) => match value.to_i128_with_scale(value.scale()) {
            Some(unscaled) => {
                out.push(5);
                out.extend_from_slice(&unscaled.to_le_bytes());
                out.extend_from_slice(&(value.scale() as u16).to_le_bytes());
            }
            None => put_bytes(12, text::to_string(datum, of, &Forms::DEFAULT).as_bytes(), out),
        },
        Datum::Text(value) => put_bytes(6, value.as_bytes(), out),
        Datum::Bytes(value) => put_bytes(7, value, out),
        Datum::Date(value) => {
            out.push(8);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Datum::Time(value) => {
            out.push(9);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Datum::Timestamp(value) => {
            out.push(10);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Datum::Uuid(value) => {
            out.push(11);
            out.extend_from_slice(value);
        }
        Datum::Interval(_) => put_bytes(12, text::to_string(datum, of, &Forms::DEFAULT).as_bytes(), out),
        Datum::Array(items) => {
            out.push(13);
            out.extend_from_slice(&(items.len() as u32).to_le_bytes());
            let element = SqlType { kind: of.kind.element().unwrap_or(Kind::Unknown), typmod: of.typmod };
            items.iter().for_each(|item| put(item, element, out));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use types::Element;

    #[test]
    fn values_of_every_kind_come_back() {
        for (kind, texts) in [
            (Kind::Bool, &["t", "f"][..]),
            (Kind::Int2, &["-32768", "32767"]),
            (Kind::Int4, &["-2147483648", "7"]),
            (Kind::Int8, &["-9223372036854775808", "9223372036854775807"]),
            (Kind::Oid, &["4294967295"]),
            (Kind::Float4, &["1.5", "NaN", "-Infinity"]),
            (Kind::Float8, &["1e300", "-0"]),
            (Kind::Numeric, &["1.50", "-0.001", "NaN", "Infinity", "1e200", "170141183460469231731687303715884105727"]),
            (Kind::Text, &["", "häß"]),
            (Kind::Bpchar, &["ab  "]),
            (Kind::Name, &["n"]),
            (Kind::Json, &["{\"a\": 1}"]),
            (Kind::Bytea, &["\\x00ff"]),
            (Kind::Date, &["2026-11-29", "infinity", "4713-01-01 BC"]),
            (Kind::Time, &["23:59:59.999999", "24:00"]),
            (Kind::Timestamp, &["2026-11-29 10:00:00.000001", "-infinity"]),
            (Kind::Timestamptz, &["2026-11-29 10:00:00+00"]),
            (Kind::Interval, &["1 mon -3 days 04:05:06"]),
            (Kind::Uuid, &["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
            (Kind::Array(Element::Int4), &["{}", "{1,NULL,3}"]),
            (Kind::Array(Element::Interval), &["{\"1 day\",NULL}"]),
            (Kind::Array(Element::Text), &["{a,\"b c\",NULL}"]),
        ] {
            for written in texts {
                let value = text::input(written, kind.into(), &Forms::DEFAULT).expect("a value");
                let mut bytes = Vec::new();
                put(&value, kind.into(), &mut bytes);
                let mut reader = WireReader::new(&bytes);
                let back = reader.datum(kind.into()).expect("a value");
                assert!(reader.is_empty());
                let shown = |datum: &Datum| text::to_string(datum, kind.into(), &Forms::DEFAULT);
                assert_eq!(shown(&back), shown(&value), "{}", kind.name());
                for end in 0..bytes.len() {
                    let cut = WireReader::new(&bytes[..end]).datum(kind.into());
                    let state = cut.map(|cut| shown(&cut)).expect_err("cut short").state();
                    assert_eq!(state, SqlState::EXTERNAL_ROUTINE_INVOCATION_EXCEPTION);
                }
            }
        }
    }

    #[test]
    fn values_of_other_types_are_refused() {
        let state = |value, kind: Kind| datum(value, kind.into()).expect_err("refused").state().0;
        assert_eq!(state(WireValue::Int(40_000), Kind::Int2), "22003");
        assert_eq!(state(WireValue::Int(-1), Kind::Oid), "22003");
        for (integer, kind) in [(1 << 63, Kind::Int8), (-(1 << 63) - 1, Kind::Int4), (i128::MAX, Kind::Int2)] {
            let error = datum(WireValue::Decimal(integer, 0), kind.into()).expect_err("refused");
            assert_eq!((error.state().0, error.message()), ("22003", &*format!("{} out of range", kind.name())));
        }
        for (unscaled, scale) in [((1 << 63) - 1, 0), (-(1 << 63), 0), (1 << 63, 1)] {
            assert_eq!(state(WireValue::Decimal(unscaled, scale), Kind::Int8), "42804", "{unscaled} {scale}");
        }
        assert_eq!(state(WireValue::Float(1e300), Kind::Float4), "22003");
        assert_eq!(state(WireValue::Time(-1), Kind::Time), "22003");
        // Days and times that no text form has.
        for days in [i32::MIN + 1, -2_440_589, 2_145_042_906, i32::MAX - 1] {
            assert_eq!(state(WireValue::Date(days), Kind::Date), "22008", "{days}");
        }
        for micros in [i64::MIN + 1, -2_440_588 * calendar::DAY - 1] {
            assert_eq!(state(WireValue::Timestamp(micros), Kind::Timestamp), "22008", "{micros}");
        }
        for infinite in [i64::MIN, i64::MAX] {
            assert!(datum(WireValue::Timestamp(infinite), Kind::Timestamptz.into()).is_ok());
        }
        assert!(datum(WireValue::Date(i32::MAX), Kind::Date.into()).is_ok());
        assert_eq!(state(WireValue::Int(1), Kind::Text), "42804");
        assert_eq!(state(WireValue::Bytes(b"a"), Kind::Text), "42804");
        // Scales that the format of numbers does not have. SQL refuses them in the same words.
        for unscaled in [0, 1, i128::MIN] {
            for scale in [16_384, u16::MAX] {
                let beyond = datum(WireValue::Decimal(unscaled, scale), Kind::Numeric.into()).expect_err("refused");
                assert_eq!((beyond.state().0, beyond.message()), ("22003", "value overflows numeric format"));
                let in_sql = text::input(&format!("{unscaled}e-{scale}"), Kind::Numeric.into(), &Forms::DEFAULT);
                assert_eq!(in_sql.expect_err("refused"), beyond, "{unscaled} {scale}");
            }
            assert!(datum(WireValue::Decimal(unscaled, 16_383), Kind::Numeric.into()).is_ok());
        }
        assert_eq!(state(WireValue::Text("x"), Kind::Int4), "22P02");
        let short = SqlType { kind: Kind::Varchar, typmod: 4 + 2 };
        assert_eq!(datum(WireValue::Text("abc"), short).expect_err("too long").state().0, "22001");
    }

    proptest! {
        #[test]
        fn bytes_of_any_kind_are_read_or_refused(bytes: Vec<u8>) {
            let mut reader = WireReader::new(&bytes);
            while let Ok(value) = reader.value() {
                for kind in [Kind::Numeric, Kind::Text, Kind::Date, Kind::Array(Element::Int4)] {
                    let _ = datum(value, kind.into());
                }
            }
        }
    }
}
