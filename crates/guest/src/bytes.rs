//! Bytes of values and calls, little endian: the other side of the server's `procs::format` and `procs::wire`.

use crate::decimal::Decimal;
use crate::error::{Error, Raised, Result};
use crate::value::{Date, Time, Timestamp, Uuid, Value};

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

/// Writes a value.
pub(crate) fn put_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(0),
        Value::Bool(value) => out.push(1 + u8::from(*value)),
        Value::Int(value) => put_tagged(3, &value.to_le_bytes(), out),
        Value::Float(value) => put_tagged(4, &value.to_le_bytes(), out),
        Value::Decimal(value) => {
            put_tagged(5, &value.unscaled().to_le_bytes(), out);
            out.extend_from_slice(&value.scale().to_le_bytes());
        }
        Value::Text(value) => {
            out.push(6);
            put_bytes(value.as_bytes(), out);
        }
        Value::Bytes(value) => {
            out.push(7);
            put_bytes(value, out);
        }
        Value::Date(value) => put_tagged(8, &value.0.to_le_bytes(), out),
        Value::Time(value) => put_tagged(9, &value.0.to_le_bytes(), out),
        Value::Timestamp(value) => put_tagged(10, &value.0.to_le_bytes(), out),
        Value::Uuid(value) => put_tagged(11, &value.0, out),
        Value::Literal(value) => {
            out.push(12);
            put_bytes(value.as_bytes(), out);
        }
        Value::Array(items) => {
            out.push(13);
            // More items exceed the area.
            out.extend_from_slice(&u32::try_from(items.len()).unwrap_or(u32::MAX).to_le_bytes());
            items.iter().for_each(|item| put_value(item, out));
        }
    }
}

fn put_tagged(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    out.extend_from_slice(bytes);
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
pub(crate) struct Reader<'a>(&'a [u8]);

/// Returns the error for bytes that are not understood: the server speaks another version.
fn garbled() -> Error {
    Error::new("39000", "the server broke the protocol")
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

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
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| garbled())
    }

    #[inline]
    pub(crate) fn value(&mut self) -> Result<Value> {
        // Most values are integers.
        if let Some((3, rest)) = self.0.split_first()
            && let Some((value, rest)) = rest.split_first_chunk()
        {
            self.0 = rest;
            return Ok(Value::Int(i64::from_le_bytes(*value)));
        }
        self.other_value()
    }

    fn other_value(&mut self) -> Result<Value> {
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

    /// Reads rows: arguments of an invocation, or what a cursor returns.
    pub(crate) fn rows<R: From<Vec<Value>>>(&mut self) -> Result<Vec<R>> {
        let count = self.u32()?;
        let width = self.u16()?;
        self.many(count, |reader| reader.values(width).map(R::from))
    }

    /// Reads so many of something. Each takes a byte or more, so the room made for them is bounded by what is there.
    fn many<T>(&mut self, count: u32, one: impl Fn(&mut Reader<'a>) -> Result<T>) -> Result<Vec<T>> {
        let mut all = Vec::with_capacity((count as usize).min(self.0.len()));
        for _ in 0..count {
            all.push(one(self)?);
        }
        Ok(all)
    }
}
