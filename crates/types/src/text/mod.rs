//! Text forms of values: for literals, for the text format of the wire, and for output.

mod array;
pub mod dates;
pub mod float;
mod json;

use super::calendar::{self, digits_in};
use super::datetime;
use super::forms::Forms;
use super::interval::Interval;
use super::modifier;
use super::numeric::Numeric;
use super::regtype;
use super::{Kind, SqlType};
use crate::datum::Datum;
use crate::ops::build::TextBuilder;
use crate::ops::bytes::{hex_digits, push_hex};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse::{self, SLICE};
use std::fmt::Write;
use syntax::names::{NAME_MAX, clipped};

/// Returns the error for a text that is not a value of the type.
pub fn invalid(type_name: &str, text: &str) -> SqlError {
    let message = format!("invalid input syntax for type {type_name}: \"{text}\"");
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
}

fn out_of_range(type_name: &str, text: &str) -> SqlError {
    let message = format!("value \"{text}\" is out of range for type {type_name}");
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
}

/// Trims the blanks that C's `isspace` knows.
fn trimmed(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b')
}

fn integer<T: TryFrom<i128>>(text: &str, type_name: &str) -> SqlResult<T> {
    let written = trimmed(text);
    let digits = written.strip_prefix(['-', '+']).unwrap_or(written);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid(type_name, text));
    }
    let value = written.parse::<i128>().ok().and_then(|value| T::try_from(value).ok());
    value.ok_or_else(|| out_of_range(type_name, text))
}

fn oid(text: &str) -> SqlResult<u32> {
    let value: i64 = integer(text, "oid")?;
    // -1 is accepted as 4294967295.
    u32::try_from(value)
        .or_else(|_| i32::try_from(value).map(|value| value as u32))
        .map_err(|_| out_of_range("oid", text))
}

fn boolean(text: &str) -> SqlResult<bool> {
    let word = trimmed(text).to_ascii_lowercase();
    let is = |full: &str, least: usize| word.len() >= least && full.starts_with(&word);
    if is("true", 1) || is("yes", 1) || is("on", 2) || word == "1" {
        Ok(true)
    } else if is("false", 1) || is("no", 1) || is("off", 2) || word == "0" {
        Ok(false)
    } else {
        Err(invalid("boolean", text))
    }
}

fn bytea(text: &str) -> SqlResult<Box<[u8]>> {
    if let Some(hex) = text.strip_prefix("\\x") {
        let mut bytes = Vec::with_capacity(hex.len() / 2);
        let mut first = None;
        for (at, c) in hex.chars().enumerate() {
            // A text may be long, so its work is counted slice by slice.
            if at.is_multiple_of(SLICE) {
                pulse::tick(4 * SLICE)?;
            }
            // Blanks may stand between bytes, but not between the two digits of one.
            if first.is_none() && c.is_ascii_whitespace() {
                continue;
            }
            let digit = c.to_digit(16).ok_or_else(|| {
                SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid hexadecimal digit: \"{c}\""))
            })? as u8;
            match first.take() {
                None => first = Some(digit),
                Some(high) => bytes.push(high << 4 | digit),
            }
        }
        if first.is_some() {
            let message = "invalid hexadecimal data: odd number of digits";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        return Ok(bytes.into());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        pulse::tick(2)?;
        rest = match (byte, after) {
            (b'\\', [b'\\', after @ ..]) => {
                bytes.push(b'\\');
                after
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                after
            }
            (b'\\', _) => {
                return Err(SqlError::new(
                    SqlState::INVALID_TEXT_REPRESENTATION,
                    "invalid input syntax for type bytea",
                ));
            }
            _ => {
                bytes.push(byte);
                after
            }
        };
    }
    Ok(bytes.into())
}

fn uuid(text: &str) -> SqlResult<[u8; 16]> {
    let bad = || invalid("uuid", text);
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}').ok_or_else(bad)?,
        None => text,
    };
    let mut value = [0_u8; 16];
    let mut rest = inner.as_bytes();
    for (index, byte) in value.iter_mut().enumerate() {
        let [high, low, after @ ..] = rest else { return Err(bad()) };
        let digit = |c: u8| (c as char).to_digit(16).map(|digit| digit as u8).ok_or_else(bad);
        *byte = digit(*high)? << 4 | digit(*low)?;
        // A hyphen may follow every four digits.
        rest = match after {
            [b'-', after @ ..] if index % 2 == 1 && index < 15 => after,
            _ => after,
        };
    }
    if rest.is_empty() { Ok(value) } else { Err(bad()) }
}

/// Returns the OID of a type, given by name or OID as for `regtype`.
fn regtype(text: &str) -> SqlResult<u32> {
    let written = trimmed(text);
    if written == "-" {
        return Ok(0);
    }
    if written.bytes().all(|byte| byte.is_ascii_digit()) && !written.is_empty() {
        return oid(written);
    }
    regtype::type_number(written)
}

/// Reads a `"char"`: the first byte of a text, or the byte that `\ooo` stands for in octal. Bytes beyond ASCII are
/// refused, since a value is stored as a text here.
fn one_byte(text: &str) -> SqlResult<String> {
    let byte = match text.as_bytes() {
        [b'\\', high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7'] => {
            (high - b'0') << 6 | (middle - b'0') << 3 | (low - b'0')
        }
        [] => 0,
        [first, ..] => *first,
    };
    match byte {
        0 => Ok(String::new()),
        1..=127 => Ok(String::from(char::from(byte))),
        128..=255 => Err(SqlError::unsupported("a \"char\" beyond ASCII")),
    }
}

/// Reads a value, and fits it to the type's modifier as an assignment does.
///
/// # Errors
/// PostgreSQL's errors for a text that is not a value of the type.
pub fn input(text: &str, to: SqlType, forms: &Forms) -> SqlResult<Datum> {
    let datum = match to.kind {
        Kind::Bool => Datum::Bool(boolean(text)?),
        Kind::Bytea => Datum::Bytes(bytea(text)?),
        Kind::InternalChar => Datum::text(one_byte(text)?),
        Kind::Name => Datum::text(clipped(text, NAME_MAX)),
        Kind::Int8 => Datum::Int8(integer(text, "bigint")?),
        Kind::Int2 => Datum::Int2(integer(text, "smallint")?),
        Kind::Int4 => Datum::Int4(integer(text, "integer")?),
        Kind::Text | Kind::Unknown | Kind::Bpchar | Kind::Varchar => Datum::text(text),
        Kind::Oid => Datum::Oid(oid(text)?),
        Kind::Json => {
            json::check(text)?;
            Datum::text(text)
        }
        Kind::Float4 => Datum::Float4(float::parse_f32(text)?),
        Kind::Float8 => Datum::Float8(float::parse_f64(text)?),
        Kind::Date => Datum::Date(datetime::parse_date(text, forms)?),
        Kind::Time => Datum::Time(datetime::parse_time(text, forms)?),
        Kind::Timestamp => Datum::Timestamp(datetime::parse_timestamp(text, false, forms)?),
        Kind::Timestamptz => Datum::Timestamp(datetime::parse_timestamp(text, true, forms)?),
        Kind::Interval => Datum::Interval(Interval::parse(text, forms.interval_style)?),
        Kind::Numeric => Datum::Numeric(Numeric::parse(text)?),
        Kind::Regclass | Kind::Regproc | Kind::Regprocedure | Kind::Regnamespace | Kind::Regrole => match trimmed(text)
        {
            "-" => Datum::Oid(0),
            digits if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Datum::Oid(oid(digits)?)
            }
            name => match &forms.naming {
                Some(naming) => Datum::Oid(naming.number_of(to.kind, name)?),
                None => return Err(SqlError::unsupported(format_args!("a name as {} here", to.kind.name()))),
            },
        },
        Kind::Int2Vector => {
            let item = |word: &str| Ok(Datum::Int2(integer(word, "smallint")?));
            Datum::Array(text.split_ascii_whitespace().map(item).collect::<SqlResult<_>>()?)
        }
        Kind::OidVector => {
            let item = |word: &str| Ok(Datum::Oid(oid(word)?));
            Datum::Array(text.split_ascii_whitespace().map(item).collect::<SqlResult<_>>()?)
        }
        Kind::Regtype => Datum::Oid(regtype(text)?),
        Kind::Uuid => Datum::Uuid(uuid(text)?),
        Kind::Void => Datum::text(""),
        // The elements' input applies the modifier, so that it is not applied again below.
        Kind::Array(element) => {
            return array::input(text, SqlType { kind: element.kind(), typmod: to.typmod }, forms);
        }
    };
    if to.typmod < 0 { Ok(datum) } else { modifier::apply(datum, to, false) }
}

/// Appends bytes in the format `bytea_output = escape`.
fn push_escaped(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b' '..=b'~' => out.push(char::from(*byte)),
            other => out.push_str(&format!("\\{other:03o}")),
        }
    }
}

/// Appends an integer in decimal.
fn push_integer(out: &mut String, value: i64) {
    if value < 0 {
        out.push('-');
    }
    out.push_str(digits_in(&mut [0; 20], value.unsigned_abs()));
}

/// Appends a `bytea` as text.
pub fn output_bytes(bytes: &[u8], forms: &Forms, out: &mut String) {
    if forms.bytea_escape {
        return push_escaped(bytes, out);
    }
    out.reserve(2 * bytes.len() + 2);
    out.push_str("\\x");
    out.extend(bytes.iter().flat_map(|byte| hex_digits(*byte)));
}

/// Appends a value as text. NULL appends nothing.
pub fn output(datum: &Datum, kind: SqlType, forms: &Forms, out: &mut String) {
    let written = match datum {
        Datum::Null => return,
        Datum::Bool(value) => {
            out.push(if *value { 't' } else { 'f' });
            Ok(())
        }
        Datum::Int2(value) => {
            push_integer(out, i64::from(*value));
            Ok(())
        }
        Datum::Int4(value) => {
            push_integer(out, i64::from(*value));
            Ok(())
        }
        Datum::Int8(value) => {
            push_integer(out, *value);
            Ok(())
        }
        Datum::Oid(value) => {
            let name = match kind.kind {
                Kind::Regtype => regtype::type_shown(*value),
                Kind::Regclass | Kind::Regproc | Kind::Regprocedure | Kind::Regnamespace | Kind::Regrole => match value
                {
                    // OID 0 stands for no object. Without names, or for an unknown object, the OID itself is written.
                    0 => Some("-".to_owned()),
                    number => forms.naming.as_ref().and_then(|naming| naming.name_of(kind.kind, *number)),
                },
                Kind::Bool
                | Kind::Bytea
                | Kind::InternalChar
                | Kind::Name
                | Kind::Int8
                | Kind::Int2
                | Kind::Int4
                | Kind::Text
                | Kind::Oid
                | Kind::Json
                | Kind::Float4
                | Kind::Float8
                | Kind::Unknown
                | Kind::Bpchar
                | Kind::Varchar
                | Kind::Date
                | Kind::Time
                | Kind::Timestamp
                | Kind::Timestamptz
                | Kind::Interval
                | Kind::Numeric
                | Kind::Int2Vector
                | Kind::OidVector
                | Kind::Uuid
                | Kind::Void
                | Kind::Array(_) => None,
            };
            match name {
                Some(name) => write!(out, "{name}"),
                None => write!(out, "{value}"),
            }
        }
        Datum::Float4(value) => {
            float::push_f32(out, *value, forms.extra_float_digits);
            Ok(())
        }
        Datum::Float8(value) => {
            float::push_f64(out, *value, forms.extra_float_digits);
            Ok(())
        }
        Datum::Numeric(value) => write!(out, "{value}"),
        Datum::Text(value) => {
            out.push_str(value);
            Ok(())
        }
        Datum::Bytes(bytes) => {
            output_bytes(bytes, forms, out);
            Ok(())
        }
        Datum::Date(days) => {
            dates::push_date(out, *days, forms);
            Ok(())
        }
        Datum::Time(micros) => {
            calendar::push_time(out, *micros);
            Ok(())
        }
        Datum::Timestamp(micros) => {
            dates::push_timestamp(out, *micros, kind.kind == Kind::Timestamptz, forms);
            Ok(())
        }
        Datum::Interval(interval) => {
            interval.write(forms.interval_style, out);
            Ok(())
        }
        Datum::Uuid(bytes) => bytes.iter().enumerate().try_for_each(|(index, byte)| {
            let hyphen = if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(out, "{hyphen}{byte:02x}")
        }),
        Datum::Array(items) if matches!(kind.kind, Kind::Int2Vector | Kind::OidVector) => {
            let element = kind.element().unwrap_or(kind);
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { " " });
                output(item, element, forms, out);
            }
            Ok(())
        }
        Datum::Array(items) => {
            array::output(items, kind.element().unwrap_or(Kind::Text.into()), forms, out);
            Ok(())
        }
    };
    debug_assert!(written.is_ok(), "writing to a string cannot fail");
}

/// Appends a value as text. NULL appends nothing.
///
/// # Errors
/// `54000` for a result that would be too long, `57014`.
pub(crate) fn build(datum: &Datum, kind: SqlType, forms: &Forms, out: &mut TextBuilder) -> SqlResult<()> {
    match datum {
        Datum::Text(text) => out.push_str(text),
        Datum::Bytes(bytes) if !forms.bytea_escape => {
            out.push_str("\\x")?;
            push_hex(bytes, out)
        }
        Datum::Bytes(bytes) => bytes.chunks(SLICE).try_for_each(|slice| {
            pulse::tick(16 * slice.len())?;
            out.write(|out| push_escaped(slice, out))
        }),
        Datum::Array(items) if matches!(kind.kind, Kind::Array(_)) => {
            array::build(items, kind.element().unwrap_or(Kind::Text.into()), forms, out)
        }
        Datum::Numeric(number) => {
            number.count_work()?;
            out.write(|out| output(datum, kind, forms, out))
        }
        other => out.write(|out| output(other, kind, forms, out)),
    }
}

/// Returns a value as text.
pub fn to_string(datum: &Datum, kind: SqlType, forms: &Forms) -> String {
    let mut out = String::new();
    output(datum, kind, forms, &mut out);
    out
}
