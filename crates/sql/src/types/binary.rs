//! Values as the wire's binary format has them.

use super::calendar::{DAY, POSTGRES_EPOCH};
use super::forms::Forms;
use super::interval::Interval;
use super::numeric::Numeric;
use super::{Kind, SqlType};
use super::{calendar, modifier, text};
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};

/// Microseconds between the calendar's zero and the wire's.
const EPOCH: i64 = POSTGRES_EPOCH as i64 * DAY;

fn incorrect() -> SqlError {
    SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, "incorrect binary data format")
}

fn insufficient() -> SqlError {
    SqlError::new(SqlState("08P01"), "insufficient data left in message")
}

/// Exactly so many bytes.
fn exact<const N: usize>(bytes: &[u8]) -> SqlResult<[u8; N]> {
    bytes.try_into().map_err(|_| if bytes.len() < N { insufficient() } else { incorrect() })
}

/// The next so many bytes.
fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> SqlResult<[u8; N]> {
    let (first, rest): (&'a [u8; N], &'a [u8]) = bytes.split_first_chunk().ok_or_else(insufficient)?;
    *bytes = rest;
    Ok(*first)
}

/// Text in UTF8, without zero bytes.
///
/// # Errors
/// `22021`.
pub fn utf8(bytes: &[u8]) -> SqlResult<&str> {
    let bad = |bytes: &[u8]| {
        let hex: Vec<String> = bytes.iter().map(|byte| format!("0x{byte:02x}")).collect();
        SqlError::new(SqlState("22021"), format!("invalid byte sequence for encoding \"UTF8\": {}", hex.join(" ")))
    };
    let text = std::str::from_utf8(bytes).map_err(|error| {
        if bytes[..error.valid_up_to()].contains(&0) {
            return bad(&[0]);
        }
        let rest = &bytes[error.valid_up_to()..];
        // As many bytes as the first one announces.
        let announced = match rest[0] {
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF7 => 4,
            _ => 1,
        };
        bad(&rest[..announced.min(rest.len())])
    })?;
    if text.contains('\0') { Err(bad(&[0])) } else { Ok(text) }
}

/// Reads a value, and fits it to the type's modifier as an assignment does.
///
/// # Errors
/// PostgreSQL's for bytes that are no value of the type.
pub fn input(bytes: &[u8], kind: SqlType) -> SqlResult<Datum> {
    let datum = match kind.kind {
        Kind::Bool => Datum::Bool(exact::<1>(bytes)? != [0]),
        Kind::Bytea => Datum::Bytes(bytes.into()),
        Kind::InternalChar => Datum::text(utf8(&exact::<1>(bytes)?)?),
        Kind::Name => {
            let name = utf8(bytes)?;
            if name.len() > 63 {
                let error = SqlError::new(SqlState("42622"), "identifier too long");
                return Err(error.detail("Identifier must be less than 64 characters."));
            }
            Datum::text(name)
        }
        Kind::Text | Kind::Bpchar | Kind::Varchar | Kind::Unknown => Datum::text(utf8(bytes)?),
        Kind::Json => return text::input(utf8(bytes)?, kind, &Forms::DEFAULT),
        Kind::Int8 => Datum::Int8(i64::from_be_bytes(exact(bytes)?)),
        Kind::Int2 => Datum::Int2(i16::from_be_bytes(exact(bytes)?)),
        Kind::Int4 => Datum::Int4(i32::from_be_bytes(exact(bytes)?)),
        Kind::Oid | Kind::Regclass | Kind::Regtype | Kind::Regproc | Kind::Regnamespace | Kind::Regrole => {
            Datum::Oid(u32::from_be_bytes(exact(bytes)?))
        }
        Kind::Float4 => Datum::Float4(f32::from_be_bytes(exact(bytes)?)),
        Kind::Float8 => Datum::Float8(f64::from_be_bytes(exact(bytes)?)),
        Kind::Date => match i32::from_be_bytes(exact(bytes)?) {
            infinite @ (i32::MAX | i32::MIN) => Datum::Date(infinite),
            days => Datum::Date(calendar::date(i64::from(days) + i64::from(POSTGRES_EPOCH))?),
        },
        Kind::Time => {
            let micros = i64::from_be_bytes(exact(bytes)?);
            if !(0..=DAY).contains(&micros) {
                return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "time out of range"));
            }
            Datum::Time(micros)
        }
        Kind::Timestamp | Kind::Timestamptz => match i64::from_be_bytes(exact(bytes)?) {
            infinite @ (i64::MAX | i64::MIN) => Datum::Timestamp(infinite),
            micros => Datum::Timestamp(calendar::moment(i64::from(POSTGRES_EPOCH), micros)?),
        },
        Kind::Interval => {
            let mut rest = bytes;
            let micros = i64::from_be_bytes(take(&mut rest)?);
            let days = i32::from_be_bytes(take(&mut rest)?);
            let months = i32::from_be_bytes(exact(rest)?);
            Datum::Interval(Interval { months, days, micros })
        }
        Kind::Numeric => Datum::Numeric(Numeric::receive(bytes)?),
        Kind::Uuid => Datum::Uuid(exact(bytes)?),
        Kind::Void => Datum::text(""),
        Kind::Int2Vector | Kind::OidVector => {
            let element = kind.element().unwrap_or(kind);
            return array_input(bytes, element, 0);
        }
        Kind::Array(element) => {
            return array_input(bytes, SqlType { kind: element.kind(), typmod: kind.typmod }, 1);
        }
    };
    if kind.typmod < 0 { Ok(datum) } else { modifier::apply(datum, kind, false) }
}

fn array_input(bytes: &[u8], element: SqlType, first: i32) -> SqlResult<Datum> {
    let mut rest = bytes;
    let dimensions = i32::from_be_bytes(take(&mut rest)?);
    let flags = i32::from_be_bytes(take(&mut rest)?);
    let oid = u32::from_be_bytes(take(&mut rest)?);
    if !(0..=6).contains(&dimensions) {
        let message = format!("invalid number of dimensions: {dimensions}");
        return Err(SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message));
    }
    if !(0..=1).contains(&flags) {
        return Err(SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, "invalid array flags"));
    }
    if oid != element.oid() {
        let message = format!(
            "binary data has array element type {oid} ({}) instead of expected {} ({})",
            Kind::from_oid(oid).map_or_else(|| "???".to_owned(), Kind::name),
            element.oid(),
            element.kind.name()
        );
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
    }
    if dimensions == 0 {
        return Ok(Datum::Array(Box::default()));
    }
    if dimensions > 1 {
        return Err(SqlError::unsupported("an array of more than one dimension"));
    }
    let count = i32::from_be_bytes(take(&mut rest)?);
    let lower = i32::from_be_bytes(take(&mut rest)?);
    if lower != first {
        return Err(SqlError::unsupported("an array with bounds"));
    }
    let mut items = Vec::new();
    for _ in 0..count {
        let len = i32::from_be_bytes(take(&mut rest)?);
        if len == -1 {
            items.push(Datum::Null);
            continue;
        }
        let len = usize::try_from(len).map_err(|_| insufficient())?;
        let (item, after) = rest.split_at_checked(len).ok_or_else(insufficient)?;
        items.push(input(item, element)?);
        rest = after;
    }
    if rest.is_empty() { Ok(Datum::Array(items.into())) } else { Err(incorrect()) }
}

/// Appends a value in binary format; nothing for NULL.
pub fn output(datum: &Datum, kind: SqlType, out: &mut Vec<u8>) {
    match datum {
        Datum::Null => {}
        Datum::Bool(value) => out.push(u8::from(*value)),
        Datum::Int2(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Int4(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Int8(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Oid(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Float4(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Float8(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Numeric(value) => value.send(out),
        // "char" is always one byte.
        Datum::Text(value) if kind.kind == Kind::InternalChar => out.push(value.bytes().next().unwrap_or(0)),
        Datum::Text(value) => out.extend_from_slice(value.as_bytes()),
        Datum::Bytes(value) => out.extend_from_slice(value),
        Datum::Date(infinite @ (i32::MAX | i32::MIN)) => out.extend_from_slice(&infinite.to_be_bytes()),
        Datum::Date(days) => out.extend_from_slice(&(days - POSTGRES_EPOCH).to_be_bytes()),
        Datum::Time(micros) => out.extend_from_slice(&micros.to_be_bytes()),
        Datum::Timestamp(infinite @ (i64::MAX | i64::MIN)) => out.extend_from_slice(&infinite.to_be_bytes()),
        Datum::Timestamp(micros) => out.extend_from_slice(&(micros - EPOCH).to_be_bytes()),
        Datum::Interval(interval) => {
            out.extend_from_slice(&interval.micros.to_be_bytes());
            out.extend_from_slice(&interval.days.to_be_bytes());
            out.extend_from_slice(&interval.months.to_be_bytes());
        }
        Datum::Uuid(bytes) => out.extend_from_slice(bytes),
        Datum::Array(items) => {
            let element = kind.element().unwrap_or(Kind::Text.into());
            let header =
                [i32::from(!items.is_empty()), i32::from(items.iter().any(Datum::is_null)), element.oid() as i32];
            header.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
            if !items.is_empty() {
                out.extend_from_slice(&(items.len() as i32).to_be_bytes());
                let first = i32::from(matches!(kind.kind, Kind::Array(_)));
                out.extend_from_slice(&first.to_be_bytes());
            }
            for item in items {
                let start = out.len();
                out.extend_from_slice(&(-1_i32).to_be_bytes());
                if !item.is_null() {
                    output(item, element, out);
                    let len = (out.len() - start - 4) as i32;
                    out[start..start + 4].copy_from_slice(&len.to_be_bytes());
                }
            }
        }
    }
}
