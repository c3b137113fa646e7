//! Bytes of values and calls, little endian: the other side of the server's `procs::format` and `procs::wire`.

use crate::decimal::Decimal;
use crate::error::{Error, Raised, Result};
use crate::row::Row;
use crate::value::{Date, Time, Timestamp, Uuid, Value};
use std::sync::Arc;

/// Bytes of the area through which calls and answers pass. No batch of calls, row or result may be greater.
pub const AREA_BYTES: usize = 1 << 20;

/// Codes of calls.
pub(crate) mod code {
    pub(crate) const GET: u8 = 1;
    pub(crate) const PUT: u8 = 2;
    pub(crate) const DELETE: u8 = 3;
    pub(crate) const SCAN: u8 = 4;
    pub(crate) const NEXT: u8 = 5;
    pub(crate) const CLOSE: u8 = 6;
    pub(crate) const EXECUTE: u8 = 7;
    pub(crate) const NOTICE: u8 = 8;
    pub(crate) const RAISE: u8 = 9;
    pub(crate) const EMIT: u8 = 10;
    pub(crate) const COMMIT: u8 = 11;
    pub(crate) const ROLLBACK: u8 = 12;
    pub(crate) const QUERY: u8 = 13;
}

/// Writes a length in 4 bytes, and the bytes.
pub(crate) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    // Longer ones exceed the area, which is checked before they are sent.
    out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Writes a value. Inlined, so that nothing is left of the choice where the kind is known.
#[inline(always)]
pub(crate) fn put_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(0),
        Value::Bool(value) => out.push(1 + u8::from(*value)),
        Value::Int(value) => put_word(3, *value, out),
        Value::Float(value) => put_word(4, value.to_bits().cast_signed(), out),
        Value::Decimal(value) => {
            let mut bytes = [0; 19];
            bytes[0] = 5;
            bytes[1..17].copy_from_slice(&value.unscaled().to_le_bytes());
            bytes[17..].copy_from_slice(&value.scale().to_le_bytes());
            out.extend_from_slice(&bytes);
        }
        Value::Text(value) => put_tagged(6, value.as_bytes(), out),
        Value::Bytes(value) => put_tagged(7, value, out),
        Value::Date(value) => {
            let [a, b, c, d] = value.0.to_le_bytes();
            out.extend_from_slice(&[8, a, b, c, d]);
        }
        Value::Time(value) => put_word(9, value.0, out),
        Value::Timestamp(value) => put_word(10, value.0, out),
        Value::Uuid(value) => {
            let mut bytes = [11; 17];
            bytes[1..].copy_from_slice(&value.0);
            out.extend_from_slice(&bytes);
        }
        Value::Literal(value) => put_tagged(12, value.as_bytes(), out),
        Value::Array(items) => put_items(items, out),
    }
}

/// Writes a tag and 8 bytes at once: each piece would look for room of its own.
#[inline(always)]
fn put_word(tag: u8, value: i64, out: &mut Vec<u8>) {
    let mut bytes = [tag; 9];
    bytes[1..].copy_from_slice(&value.to_le_bytes());
    out.extend_from_slice(&bytes);
}

fn put_tagged(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    put_bytes(bytes, out);
}

fn put_items(items: &[Value], out: &mut Vec<u8>) {
    out.push(13);
    // More items exceed the area.
    out.extend_from_slice(&u32::try_from(items.len()).unwrap_or(u32::MAX).to_le_bytes());
    items.iter().for_each(|item| put_value(item, out));
}

/// Writes the call that raises an error.
pub(crate) fn put_raise(raised: &Raised, out: &mut Vec<u8>) {
    out.push(code::RAISE);
    out.extend_from_slice(&raised.state);
    for text in [&raised.message, &raised.detail, &raised.hint] {
        put_bytes(shortened(text).as_bytes(), out);
    }
}

/// Returns the beginning of a text that fits a message together with two others, without the zero bytes that no SQL
/// text can have.
pub(crate) fn shortened(text: &str) -> String {
    let text = text.get(..text.floor_char_boundary(AREA_BYTES / 8)).unwrap_or(text);
    text.replace('\0', " ")
}

/// Checks that a message fits the area.
pub(crate) fn check_fits(bytes: usize, what: &str) -> Result<()> {
    if bytes <= AREA_BYTES {
        return Ok(());
    }
    Err(Error::new("54000", format!("{what} of the routine exceeds {} kB", AREA_BYTES >> 10)))
}

/// Cursor over bytes that the server has sent.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

/// Returns the error for bytes that are not understood: the server speaks another version.
#[cold]
fn garbled() -> Error {
    Error::new("39000", "the server broke the protocol")
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// Returns the bytes that are not read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or_else(garbled)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn bool(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(garbled()),
        }
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.u32()? as usize;
        let (first, rest) = self.0.split_at_checked(len).ok_or_else(garbled)?;
        self.0 = rest;
        Ok(first)
    }

    fn text(&mut self) -> Result<String> {
        std::str::from_utf8(self.bytes()?).map(str::to_owned).map_err(|_| garbled())
    }

    /// Reads the rest of a value if it has this tag.
    #[inline]
    fn tagged<const N: usize>(&mut self, tag: u8) -> Option<[u8; N]> {
        let rest = self.0.strip_prefix(&[tag])?;
        let (bytes, rest) = rest.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    /// Reads a value if it is an integer.
    #[inline]
    pub(crate) fn int(&mut self) -> Option<i64> {
        self.tagged(3).map(i64::from_le_bytes)
    }

    /// Reads a value if it is NULL.
    #[inline]
    pub(crate) fn null(&mut self) -> Option<()> {
        self.tagged::<0>(0).map(|_| ())
    }

    /// Reads a value if it is a decimal number.
    #[inline]
    pub(crate) fn decimal(&mut self) -> Option<Decimal> {
        let bytes = self.tagged::<18>(5)?;
        let (unscaled, scale) = (bytes.first_chunk::<16>()?, bytes.last_chunk::<2>()?);
        Some(Decimal::new(i128::from_le_bytes(*unscaled), u16::from_le_bytes(*scale)))
    }

    /// Reads the number of an array's items, if the value is an array.
    #[inline]
    pub(crate) fn items(&mut self) -> Option<u32> {
        self.tagged(13).map(u32::from_le_bytes)
    }

    /// Passes over a value.
    #[inline]
    pub(crate) fn skip(&mut self) -> Result<()> {
        // Most values are integers.
        if self.int().is_some() { Ok(()) } else { self.skip_other() }
    }

    fn skip_other(&mut self) -> Result<()> {
        let len = match self.u8()? {
            0..=2 => 0,
            3 | 4 | 9 | 10 => 8,
            5 => 18,
            6 | 7 | 12 => self.u32()? as usize,
            8 => 4,
            11 => 16,
            13 => {
                for _ in 0..self.u32()? {
                    self.skip()?;
                }
                0
            }
            _ => return Err(garbled()),
        };
        self.0 = self.0.get(len..).ok_or_else(garbled)?;
        Ok(())
    }

    /// Passes over so many values.
    pub(crate) fn skip_all(&mut self, count: u16) -> Result<()> {
        (0..count).try_for_each(|_| self.skip())
    }

    pub(crate) fn value(&mut self) -> Result<Value> {
        Ok(match self.u8()? {
            0 => Value::Null,
            1 => Value::Bool(false),
            2 => Value::Bool(true),
            3 => Value::Int(i64::from_le_bytes(self.array()?)),
            4 => Value::Float(f64::from_le_bytes(self.array()?)),
            5 => Value::Decimal(Decimal::new(i128::from_le_bytes(self.array()?), self.u16()?)),
            6 => Value::Text(self.text()?),
            7 => Value::Bytes(self.bytes()?.to_vec()),
            8 => Value::Date(Date(i32::from_le_bytes(self.array()?))),
            9 => Value::Time(Time(i64::from_le_bytes(self.array()?))),
            10 => Value::Timestamp(Timestamp(i64::from_le_bytes(self.array()?))),
            11 => Value::Uuid(Uuid(self.array()?)),
            12 => Value::Literal(self.text()?),
            13 => {
                let count = self.u32()?;
                Value::Array(self.many(count, Reader::value)?)
            }
            _ => return Err(garbled()),
        })
    }

    pub(crate) fn values(&mut self, count: u16) -> Result<Vec<Value>> {
        self.many(u32::from(count), Reader::value)
    }

    /// Reads so many of something. Each takes a byte or more, so the room made for them is bounded by what is there.
    pub(crate) fn many<T>(&mut self, count: u32, one: impl Fn(&mut Reader<'a>) -> Result<T>) -> Result<Vec<T>> {
        let mut all = Vec::with_capacity((count as usize).min(self.0.len()));
        for _ in 0..count {
            all.push(one(self)?);
        }
        Ok(all)
    }
}

/// Message of the server, which rows share: they are read when somebody wants their values.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    bytes: &'a Arc<[u8]>,
    pub(crate) reader: Reader<'a>,
}

impl<'a> Message<'a> {
    /// Returns the message from this byte on.
    pub(crate) fn from(bytes: &'a Arc<[u8]>, at: usize) -> Message<'a> {
        Message { bytes, reader: Reader(bytes.get(at..).unwrap_or_default()) }
    }

    /// Returns the place of the next byte.
    pub(crate) fn place(&self) -> usize {
        self.bytes.len() - self.reader.0.len()
    }

    /// Takes a row of so many columns.
    pub(crate) fn row(&mut self, columns: u16) -> Result<Row> {
        let row = Row::within(self.bytes, self.place(), columns);
        self.reader.skip_all(columns)?;
        Ok(row)
    }

    /// Takes rows: arguments of an invocation, or what a cursor returns.
    pub(crate) fn rows(&mut self) -> Result<Vec<Row>> {
        let count = self.reader.u32()?;
        let width = self.reader.u16()?;
        self.rows_of(count, width)
    }

    /// Takes so many rows of so many columns.
    pub(crate) fn rows_of(&mut self, count: u32, width: u16) -> Result<Vec<Row>> {
        let mut all = Vec::with_capacity((count as usize).min(self.reader.0.len()));
        for _ in 0..count {
            all.push(self.row(width)?);
        }
        Ok(all)
    }
}
