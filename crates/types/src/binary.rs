//! Values in the binary format of the wire protocol.

use super::calendar::{DAY, POSTGRES_EPOCH};
use super::forms::Forms;
use super::interval::Interval;
use super::numeric::Numeric;
use super::{Kind, SqlType};
use super::{calendar, modifier, text};
use crate::datum::Datum;
use crate::ops::build::{ITEMS_MAX, too_many_items};
use statement::error::{SqlError, SqlResult, SqlState};

/// Microseconds between the epochs of the calendar and of the wire format.
const EPOCH: i64 = POSTGRES_EPOCH as i64 * DAY;
/// Maximum number of dimensions of an array.
const DIMENSIONS_MAX: usize = 6;

/// Origin of the bytes of a value, named by the error for bytes beyond the value's own.
#[derive(Clone, Copy, Debug)]
pub enum ValueOrigin {
    /// A field of a row of COPY.
    Field,
    /// The parameter of a Bind with this number, from 1.
    Parameter(usize),
    /// The element of an array with this number, from 1.
    Element(usize),
}

impl ValueOrigin {
    fn surplus(self) -> SqlError {
        wrong(match self {
            ValueOrigin::Field => "incorrect binary data format".to_owned(),
            ValueOrigin::Parameter(number) => format!("incorrect binary data format in bind parameter {number}"),
            ValueOrigin::Element(number) => format!("improper binary format in array element {number}"),
        })
    }
}

fn wrong(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message.into())
}

fn insufficient() -> SqlError {
    SqlError::new(SqlState::PROTOCOL_VIOLATION, "insufficient data left in message")
}

/// Takes the next byte.
fn byte(bytes: &mut &[u8]) -> SqlResult<u8> {
    let (first, rest) =
        bytes.split_first().ok_or_else(|| SqlError::new(SqlState::PROTOCOL_VIOLATION, "no data left in message"))?;
    *bytes = rest;
    Ok(*first)
}

/// Takes the next `N` bytes.
pub(super) fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> SqlResult<[u8; N]> {
    let (first, rest): (&'a [u8; N], &'a [u8]) = bytes.split_first_chunk().ok_or_else(insufficient)?;
    *bytes = rest;
    Ok(*first)
}

/// Returns bytes as text, which is UTF-8 without zero bytes.
///
/// # Errors
/// `22021`.
pub fn utf8(bytes: &[u8]) -> SqlResult<&str> {
    let bad = |bytes: &[u8]| {
        let hex: Vec<String> = bytes.iter().map(|byte| format!("0x{byte:02x}")).collect();
        SqlError::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            format!("invalid byte sequence for encoding \"UTF8\": {}", hex.join(" ")),
        )
    };
    let text = std::str::from_utf8(bytes).map_err(|error| {
        if bytes[..error.valid_up_to()].contains(&0) {
            return bad(&[0]);
        }
        let rest = &bytes[error.valid_up_to()..];
        // The error shows as many bytes as the first one announces.
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

/// Reads a value that takes all the bytes, and fits it to the type's modifier as an assignment does.
///
/// # Errors
/// PostgreSQL's errors for bytes that are not a value of the type.
pub fn input(bytes: &[u8], kind: SqlType, source: ValueOrigin) -> SqlResult<Datum> {
    let mut rest = bytes;
    let mut datum = receive(&mut rest, kind)?;
    if 0 <= kind.typmod && !matches!(kind.kind, Kind::Array(_) | Kind::Json) {
        datum = modifier::apply(datum, kind, false)?;
    }
    if rest.is_empty() { Ok(datum) } else { Err(source.surplus()) }
}

/// Reads a value, and leaves the bytes after it.
fn receive(rest: &mut &[u8], kind: SqlType) -> SqlResult<Datum> {
    Ok(match kind.kind {
        Kind::Bool => Datum::Bool(byte(rest)? != 0),
        Kind::Bytea => Datum::Bytes(std::mem::take(rest).into()),
        Kind::InternalChar => Datum::text(utf8(&[byte(rest)?])?),
        Kind::Name => {
            let name = utf8(std::mem::take(rest))?;
            if name.len() > syntax::names::NAME_MAX {
                let error = SqlError::new(SqlState::NAME_TOO_LONG, "identifier too long");
                return Err(error.detail("Identifier must be less than 64 characters."));
            }
            Datum::text(name)
        }
        Kind::Text | Kind::Bpchar | Kind::Varchar | Kind::Unknown => Datum::text(utf8(std::mem::take(rest))?),
        Kind::Json => text::input(utf8(std::mem::take(rest))?, kind, &Forms::DEFAULT)?,
        Kind::Int8 => Datum::Int8(i64::from_be_bytes(take(rest)?)),
        Kind::Int2 => Datum::Int2(i16::from_be_bytes(take(rest)?)),
        Kind::Int4 => Datum::Int4(i32::from_be_bytes(take(rest)?)),
        Kind::Oid
        | Kind::Regclass
        | Kind::Regtype
        | Kind::Regproc
        | Kind::Regprocedure
        | Kind::Regnamespace
        | Kind::Regrole => Datum::Oid(u32::from_be_bytes(take(rest)?)),
        Kind::Float4 => Datum::Float4(f32::from_be_bytes(take(rest)?)),
        Kind::Float8 => Datum::Float8(f64::from_be_bytes(take(rest)?)),
        Kind::Date => match i32::from_be_bytes(take(rest)?) {
            infinite @ (i32::MAX | i32::MIN) => Datum::Date(infinite),
            days => Datum::Date(calendar::date(i64::from(days) + i64::from(POSTGRES_EPOCH))?),
        },
        Kind::Time => {
            let micros = i64::from_be_bytes(take(rest)?);
            if !(0..=DAY).contains(&micros) {
                return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "time out of range"));
            }
            Datum::Time(micros)
        }
        Kind::Timestamp | Kind::Timestamptz => match i64::from_be_bytes(take(rest)?) {
            infinite @ (i64::MAX | i64::MIN) => Datum::Timestamp(infinite),
            micros => Datum::Timestamp(calendar::moment(i64::from(POSTGRES_EPOCH), micros)?),
        },
        Kind::Interval => {
            let micros = i64::from_be_bytes(take(rest)?);
            let days = i32::from_be_bytes(take(rest)?);
            let months = i32::from_be_bytes(take(rest)?);
            Datum::Interval(Interval { months, days, micros })
        }
        Kind::Numeric => Datum::Numeric(Numeric::receive(rest)?),
        Kind::Uuid => Datum::Uuid(take(rest)?),
        Kind::Void => Datum::text(""),
        // A vector counts from 0, unlike an array, and has no NULL.
        Kind::Int2Vector | Kind::OidVector => {
            let bounds = receive_array(rest, kind.element().unwrap_or(kind))?;
            match bounds {
                ArrayItems { items, dimensions: 1, lower: 0 } if !items.iter().any(Datum::is_null) => {
                    Datum::Array(items.into())
                }
                _ => return Err(wrong(format!("invalid {} data", kind.kind.name()))),
            }
        }
        Kind::Array(element) => match receive_array(rest, SqlType { kind: element.kind(), typmod: kind.typmod })? {
            ArrayItems { items, .. } if items.is_empty() => Datum::Array(Box::default()),
            ArrayItems { items, dimensions: 1, lower: 1 } => Datum::Array(items.into()),
            ArrayItems { dimensions: 1, .. } => return Err(SqlError::unsupported("an array with bounds")),
            _ => return Err(SqlError::unsupported("an array of more than one dimension")),
        },
    })
}

/// Elements of an array in the order of the wire, row by row, and the bounds of the first dimension.
struct ArrayItems {
    items: Vec<Datum>,
    dimensions: usize,
    lower: i32,
}

fn receive_array(rest: &mut &[u8], element: SqlType) -> SqlResult<ArrayItems> {
    let limit = |message: String| SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message);
    let dimensions = i32::from_be_bytes(take(rest)?);
    let flags = i32::from_be_bytes(take(rest)?);
    let oid = u32::from_be_bytes(take(rest)?);
    let Ok(dimensions) = usize::try_from(dimensions) else {
        return Err(wrong(format!("invalid number of dimensions: {dimensions}")));
    };
    if dimensions > DIMENSIONS_MAX {
        return Err(limit(format!(
            "number of array dimensions ({dimensions}) exceeds the maximum allowed ({DIMENSIONS_MAX})"
        )));
    }
    if !(0..=1).contains(&flags) {
        return Err(wrong("invalid array flags"));
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
    let mut bounds = Vec::with_capacity(dimensions);
    for _ in 0..dimensions {
        bounds.push((i32::from_be_bytes(take(rest)?), i32::from_be_bytes(take(rest)?)));
    }
    let mut count = i32::from(dimensions > 0);
    for (length, _) in &bounds {
        count = if *length < 0 { None } else { count.checked_mul(*length) }.ok_or_else(too_many_items)?;
    }
    let count = usize::try_from(count).ok().filter(|count| *count <= ITEMS_MAX).ok_or_else(too_many_items)?;
    if let Some((_, lower)) = bounds.iter().find(|(length, lower)| lower.checked_add(*length).is_none()) {
        return Err(limit(format!("array lower bound is too large: {lower}")));
    }
    // Grows with the elements that are there, not with the count that the client claims.
    let mut items = Vec::new();
    for at in 0..count {
        let length = i32::from_be_bytes(take(rest)?);
        if length == -1 {
            items.push(Datum::Null);
            continue;
        }
        let item = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
        let (item, after) = item.ok_or_else(|| wrong("insufficient data left in message"))?;
        items.push(input(item, element, ValueOrigin::Element(at + 1))?);
        *rest = after;
    }
    Ok(ArrayItems { items, dimensions, lower: bounds.first().map_or(0, |(_, lower)| *lower) })
}

/// Returns a text in binary format.
pub fn text_form(text: &str, kind: SqlType) -> &[u8] {
    match text.as_bytes() {
        // A `"char"` always takes one byte.
        [first, ..] if kind.kind == Kind::InternalChar => std::slice::from_ref(first),
        [] if kind.kind == Kind::InternalChar => &[0],
        bytes => bytes,
    }
}

/// Appends a value in binary format. NULL appends nothing.
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
        Datum::Text(value) => out.extend_from_slice(text_form(value, kind)),
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
            // A vector has its dimension even if it is empty.
            let first = i32::from(matches!(kind.kind, Kind::Array(_)));
            let dimensions = i32::from(first == 0 || !items.is_empty());
            let header = [dimensions, i32::from(items.iter().any(Datum::is_null)), element.oid() as i32];
            header.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
            if dimensions != 0 {
                out.extend_from_slice(&(items.len() as i32).to_be_bytes());
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
