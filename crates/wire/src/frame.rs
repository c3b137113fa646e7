//! Splits the input of clients into messages, and messages into fields.
//!
//! `pgwire` decodes messages too, but reads past a message's end and panics when one is shorter than it claims (0.42,
//! `Bind`, `Parse`), and silently mends text that is not UTF-8. So reading is done here; a test compares it with what
//! `pgwire` encodes.
//!
//! **Invariant:** nothing is allocated on the word of a length or count that the client sent, and no input panics: what
//! does not fit is a [`Malformed`].

/// Reason why the bytes of a message are malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Fewer bytes than its fields need.
    Short,
    /// More bytes than its fields need.
    Long,
    /// A string without a terminating zero byte.
    Unterminated,
    /// A string that is not UTF-8; the first invalid bytes and their number.
    NotUtf8([u8; 4], usize),
    /// A negative length other than -1, which stands for NULL.
    Negative,
}

/// Message after which the stream cannot go on: the start of the next message is unknown, or not worth waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The first byte is no kind of message.
    Kind(u8),
    /// The length is smaller than its own size.
    Length(i32),
    /// The message is longer than this server accepts.
    TooLong(usize),
}

/// Kinds that a client may send.
const KINDS: &[u8] = b"QPBDECHSXdcfFp";
/// Longest message of a kind that carries names at most. The bound is PostgreSQL's.
pub(crate) const SMALL_MAX: usize = 10_000;
/// Size of kind and length, in bytes.
pub const HEAD: usize = 5;

/// Longest body of a message of this kind.
fn longest(kind: u8, message_max: usize) -> usize {
    match kind {
        b'Q' | b'P' | b'B' | b'd' | b'F' => message_max,
        _ => SMALL_MAX.min(message_max),
    }
}

/// Returns the kind and the length of the body of the next message, if they have arrived.
pub fn head(input: &[u8]) -> Result<Option<(u8, usize)>, Broken> {
    let Some((&kind, rest)) = input.split_first() else { return Ok(None) };
    // The kind is checked before the length has arrived, so that a stray client is not waited for.
    if !KINDS.contains(&kind) {
        return Err(Broken::Kind(kind));
    }
    let Some(length) = rest.first_chunk::<4>() else { return Ok(None) };
    let length = i32::from_be_bytes(*length);
    let body = usize::try_from(length).ok().and_then(|total| total.checked_sub(4));
    Ok(Some((kind, body.ok_or(Broken::Length(length))?)))
}

/// Returns the kind and the length, head included, of the next message, if it has arrived as a whole.
pub fn whole(input: &[u8], message_max: usize) -> Result<Option<(u8, usize)>, Broken> {
    let Some((kind, length)) = head(input)? else { return Ok(None) };
    if longest(kind, message_max) < length {
        return Err(Broken::TooLong(length));
    }
    Ok((HEAD + length <= input.len()).then_some((kind, HEAD + length)))
}

/// True if `Sync` comes next, and has arrived.
pub fn is_sync(input: &[u8]) -> bool {
    matches!(head(input), Ok(Some((b'S', 0))))
}

/// Reader of the fields of one body, in order.
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Starts at the first field of a body.
    pub fn of(body: &'a [u8]) -> Fields<'a> {
        Fields(body)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (field, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(*field)
    }

    /// Reads a byte.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Reads a count. It is unsigned, because PostgreSQL's drivers send more than [`i16::MAX`] parameters.
    pub fn count(&mut self) -> Result<usize, Malformed> {
        self.array().map(|bytes| usize::from(u16::from_be_bytes(bytes)))
    }

    /// Reads a signed number of four bytes.
    pub fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    /// Reads an unsigned number of four bytes.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a text up to its zero byte.
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        let end = self.0.iter().position(|&byte| byte == 0).ok_or(Malformed::Unterminated)?;
        let (text, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        utf8(text)
    }

    /// Reads a value behind its length; -1 stands for NULL.
    pub fn value(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        let length = self.i32()?;
        if length == -1 {
            return Ok(None);
        }
        let length = usize::try_from(length).map_err(|_| Malformed::Negative)?;
        let (value, rest) = self.0.split_at_checked(length).ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(Some(value))
    }

    /// Reads `count` numbers of two bytes.
    pub fn formats(&mut self) -> Result<Codes<'a>, Malformed> {
        let count = self.count()?;
        let (codes, rest) = self.0.split_at_checked(2 * count).ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(Codes(codes))
    }

    /// Number of bytes that are left.
    pub fn left(&self) -> usize {
        self.0.len()
    }

    /// Checks that no bytes are left.
    pub fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::Long) }
    }
}

/// Text that a client sent.
pub fn utf8(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|error| {
        let bad = &bytes[error.valid_up_to()..];
        // As many bytes as PostgreSQL's message shows: as many as the first byte announces, as far as they are there.
        let promised = match bad.first() {
            Some(0xc2..=0xdf) => 2,
            Some(0xe0..=0xef) => 3,
            Some(0xf0..=0xf4) => 4,
            _ => 1,
        };
        let count = promised.min(bad.len());
        let mut first = [0; 4];
        first[..count].copy_from_slice(&bad[..count]);
        Malformed::NotUtf8(first, count)
    })
}

/// Body of a `Parse`.
#[derive(Debug, PartialEq, Eq)]
pub struct Parse<'a> {
    /// Name of the statement.
    pub name: &'a str,
    /// Text of the statement.
    pub text: &'a str,
    /// OIDs of the parameter types, as far as they are given.
    pub types: Vec<u32>,
}

impl<'a> Parse<'a> {
    /// Reads the body of a `Parse`.
    pub fn read(body: &'a [u8]) -> Result<Parse<'a>, Malformed> {
        let mut fields = Fields::of(body);
        let (name, text) = (fields.text()?, fields.text()?);
        let count = fields.count()?;
        if fields.left() / 4 < count {
            return Err(Malformed::Short);
        }
        let types = (0..count).map(|_| fields.u32()).collect::<Result<_, _>>()?;
        fields.end()?;
        Ok(Parse { name, text, types })
    }
}

/// Format codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codes<'a>(&'a [u8]);

impl<'a> Codes<'a> {
    /// Number of codes.
    pub fn count(self) -> usize {
        self.0.len() / 2
    }

    /// Returns the codes in order.
    pub fn iter(self) -> impl Iterator<Item = i16> + use<'a> {
        self.0.as_chunks::<2>().0.iter().map(|code| i16::from_be_bytes(*code))
    }
}

/// Values with their lengths before them, all of them complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values<'a> {
    count: usize,
    bytes: &'a [u8],
}

impl<'a> Values<'a> {
    /// Number of values.
    pub fn count(self) -> usize {
        self.count
    }

    /// Returns the values in order; `None` for NULL.
    pub fn iter(self) -> impl Iterator<Item = Option<&'a [u8]>> + use<'a> {
        let mut fields = Fields(self.bytes);
        // They were read without an error before.
        (0..self.count).map_while(move |_| fields.value().ok())
    }
}

/// Body of a `Bind`.
#[derive(Debug, PartialEq, Eq)]
pub struct Bind<'a> {
    /// Name of the portal.
    pub portal: &'a str,
    /// Name of the statement.
    pub statement: &'a str,
    /// Formats of the parameters.
    pub formats: Codes<'a>,
    /// Values of the parameters.
    pub values: Values<'a>,
    /// Formats of the result's columns.
    pub results: Codes<'a>,
}

impl<'a> Bind<'a> {
    /// Reads the body of a `Bind`.
    pub fn read(body: &'a [u8]) -> Result<Bind<'a>, Malformed> {
        let mut fields = Fields::of(body);
        let (portal, statement) = (fields.text()?, fields.text()?);
        let formats = fields.formats()?;
        let (count, begin) = (fields.count()?, fields.0);
        for _ in 0..count {
            fields.value()?;
        }
        let values = Values { count, bytes: &begin[..begin.len() - fields.left()] };
        let results = fields.formats()?;
        fields.end()?;
        Ok(Bind { portal, statement, formats, values, results })
    }
}

/// Reads the target of `Describe` or `Close`: `S` or `P` (unchecked), and a name.
pub fn target(body: &[u8]) -> Result<(u8, &str), Malformed> {
    let mut fields = Fields::of(body);
    let target = (fields.u8()?, fields.text()?);
    fields.end()?;
    Ok(target)
}

/// Reads an `Execute`: a portal and the maximum number of rows, 0 for all.
pub fn execute(body: &[u8]) -> Result<(&str, i32), Malformed> {
    let mut fields = Fields::of(body);
    let execute = (fields.text()?, fields.i32()?);
    fields.end()?;
    Ok(execute)
}

/// Reads the text of a `Query`.
pub fn query(body: &[u8]) -> Result<&str, Malformed> {
    let mut fields = Fields::of(body);
    let text = fields.text()?;
    fields.end()?;
    Ok(text)
}

#[cfg(test)]
mod tests;
