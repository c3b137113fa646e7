//! Reader of rows: choice of the format, and the text and binary formats.
//!
//! **Invariant:** a reader advances only when a whole row is available; until then its state does not change.

use super::{CopyField, CopyFields, CopyFormat, CopyOptions, bad};
use statement::error::{SqlError, SqlResult};
use statement::pulse;
use std::ops::Range;
use types::binary::utf8;

/// Outcome of an attempt to read a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextRow {
    /// A row was read.
    Row,
    /// The row is not complete yet.
    More,
    /// The data has ended.
    End,
}

/// Style of line ends, which the first line determines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineEnd {
    Unknown,
    Newline,
    Return,
    Both,
}

/// Reader of the rows of one COPY.
#[derive(Clone, Debug)]
pub struct CopyReader {
    pub(super) delimiter: u8,
    pub(super) null: Box<[u8]>,
    pub(super) quote: u8,
    pub(super) escape: u8,
    format: CopyFormat,
    pub(super) line_end: LineEnd,
    /// Number of the line in which the last row ended, from 1.
    pub line_number: u64,
    /// Number of columns of a row.
    pub(super) columns: usize,
    has_begun: bool,
    pub(super) has_ended: bool,
}

/// Meaning of a byte that may end a line.
pub(super) enum LineBoundary {
    /// Line end of this number of bytes.
    End(usize),
    /// Byte of the data.
    Data,
    /// Undecided until more data arrives.
    More,
}

/// Meaning of `\.` at some position.
pub(super) enum EndMarker {
    /// End of the data.
    End,
    /// End of the data, in a line whose end differs from those before.
    OtherStyle,
    /// No end of the data.
    None,
    /// Undecided until more data arrives.
    More,
}

/// Error message for [`EndMarker::OtherStyle`].
pub(super) const OTHER_STYLE: &str = "end-of-copy marker does not match previous newline style";

/// Signature at the start of the binary format.
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

impl CopyReader {
    /// Reader of rows with this many columns.
    pub fn new(options: &CopyOptions, columns: usize) -> CopyReader {
        CopyReader {
            delimiter: options.delimiter,
            null: options.null.as_bytes().into(),
            quote: options.quote,
            escape: options.escape,
            format: options.format,
            line_end: LineEnd::Unknown,
            line_number: 0,
            columns,
            has_begun: false,
            has_ended: false,
        }
    }

    /// True before the header of the binary format has been read.
    pub fn is_at_head(&self) -> bool {
        self.format == CopyFormat::Binary && !self.has_begun
    }

    /// Reads the row at `at`, and advances behind it. `is_all` means that no more data will follow.
    pub fn next(&mut self, data: &[u8], at: &mut usize, is_all: bool, fields: &mut CopyFields) -> SqlResult<NextRow> {
        fields.clear();
        if self.has_ended {
            *at = data.len();
            return Ok(NextRow::End);
        }
        match self.format {
            CopyFormat::Text => self.text(data, at, is_all, fields),
            CopyFormat::Csv => self.csv(data, at, is_all, fields),
            CopyFormat::Binary => self.binary(data, at, is_all, fields),
        }
    }

    /// Classifies the `\n` or `\r` at this position. The first line end decides the style of all.
    pub(super) fn line_end_at(&mut self, data: &[u8], at: usize, is_all: bool) -> SqlResult<LineBoundary> {
        let is_newline = data.get(at) == Some(&b'\n');
        let next = data.get(at + 1);
        if self.line_end == LineEnd::Unknown {
            self.line_end = match (is_newline, next) {
                (true, _) => LineEnd::Newline,
                (false, Some(b'\n')) => LineEnd::Both,
                (false, None) if !is_all => return Ok(LineBoundary::More),
                (false, _) => LineEnd::Return,
            };
        }
        Ok(match (self.line_end, is_newline) {
            (LineEnd::Newline, true) | (LineEnd::Return, false) => LineBoundary::End(1),
            (LineEnd::Both, false) => match next {
                Some(b'\n') => LineBoundary::End(2),
                None if !is_all => LineBoundary::More,
                _ => LineBoundary::Data,
            },
            _ => LineBoundary::Data,
        })
    }

    /// Classifies the `\.` at this position by the end of its line.
    pub(super) fn mark_at(&self, data: &[u8], at: usize, is_all: bool) -> EndMarker {
        let mut behind = at + 2;
        if self.line_end == LineEnd::Both {
            match data.get(behind) {
                None if !is_all => return EndMarker::More,
                Some(b'\n') => return EndMarker::OtherStyle,
                Some(b'\r') => behind += 1,
                _ => return EndMarker::None,
            }
        }
        match (data.get(behind), self.line_end) {
            (None, _) if !is_all => EndMarker::More,
            (Some(b'\n'), LineEnd::Return) | (Some(b'\r'), LineEnd::Newline | LineEnd::Both) => EndMarker::OtherStyle,
            (Some(b'\n' | b'\r'), _) => EndMarker::End,
            _ => EndMarker::None,
        }
    }

    fn text(&mut self, data: &[u8], at: &mut usize, is_all: bool, fields: &mut CopyFields) -> SqlResult<NextRow> {
        let (begin, delimiter) = (*at, self.delimiter);
        let (mut here, mut field, mut has_escape) = (begin, begin, false);
        loop {
            let Some(rest) = data.get(here..) else { return Ok(NextRow::More) };
            let is_special = |byte: &u8| matches!(*byte, b'\n' | b'\r' | b'\\') || *byte == delimiter;
            // Scans at most one slice between two checks for cancellation.
            let slice = &rest[..rest.len().min(pulse::SLICE)];
            let step = slice.iter().position(is_special);
            pulse::tick(1 + step.unwrap_or(slice.len()))?;
            if step.is_none() && slice.len() < rest.len() {
                here += slice.len();
                continue;
            }
            let Some(step) = step else {
                if !is_all {
                    return Ok(NextRow::More);
                }
                *at = data.len();
                if begin == data.len() {
                    return Ok(NextRow::End);
                }
                self.line_number += 1;
                self.text_field(data, field..data.len(), has_escape, fields)?;
                fields.line = Some(begin..data.len());
                return Ok(NextRow::Row);
            };
            here += step;
            match data[here] {
                b'\\' => {
                    let Some(next) = data.get(here + 1) else {
                        if !is_all {
                            return Ok(NextRow::More);
                        }
                        has_escape = true;
                        here += 1;
                        continue;
                    };
                    if *next == b'.' {
                        return self.end_mark(data, begin, (here, field, has_escape), at, is_all, fields);
                    }
                    has_escape = true;
                    here += 2;
                }
                b'\n' | b'\r' => match self.line_end_at(data, here, is_all)? {
                    LineBoundary::More => return Ok(NextRow::More),
                    LineBoundary::End(bytes) => {
                        self.line_number += 1;
                        self.text_field(data, field..here, has_escape, fields)?;
                        fields.line = Some(begin..here);
                        *at = here + bytes;
                        return Ok(NextRow::Row);
                    }
                    LineBoundary::Data => {
                        self.line_number += 1;
                        let is_newline = data[here] == b'\n';
                        let (what, how) = if is_newline { ("newline", "\\n") } else { ("carriage return", "\\r") };
                        return Err(bad(format!("literal {what} found in data"))
                            .hint(format!("Use \"{how}\" to represent {what}.")));
                    }
                },
                _ => {
                    let read = self.text_field(data, field..here, has_escape, fields);
                    read.inspect_err(|_| self.line_number += 1)?;
                    here += 1;
                    (field, has_escape) = (here, false);
                }
            }
        }
    }

    /// Reads `\.`. The data before it in the line is the last row; the data behind it is ignored.
    fn end_mark(
        &mut self,
        data: &[u8],
        begin: usize,
        (here, field, has_escape): (usize, usize, bool),
        at: &mut usize,
        is_all: bool,
        fields: &mut CopyFields,
    ) -> SqlResult<NextRow> {
        let corrupt = match self.mark_at(data, here, is_all) {
            EndMarker::More => return Ok(NextRow::More),
            EndMarker::End => None,
            EndMarker::OtherStyle => Some(OTHER_STYLE),
            EndMarker::None => Some("end-of-copy marker corrupt"),
        };
        if let Some(message) = corrupt {
            self.line_number += 1;
            return Err(bad(message));
        }
        self.has_ended = true;
        if here == begin {
            *at = data.len();
            return Ok(NextRow::End);
        }
        self.line_number += 1;
        self.text_field(data, field..here, has_escape, fields)?;
        fields.line = Some(begin..here);
        *at = here;
        Ok(NextRow::Row)
    }

    fn text_field(&self, data: &[u8], range: Range<usize>, has_escape: bool, fields: &mut CopyFields) -> SqlResult<()> {
        let raw = &data[range.clone()];
        // The null string is compared with the field as it was sent: `\N` is null, and `\\N` a text of two letters.
        if raw == &*self.null {
            fields.add(CopyField::Null, self.columns);
            return Ok(());
        }
        if !has_escape {
            fields.add(CopyField::Raw(range), self.columns);
            return Ok(());
        }
        let start = fields.made.len();
        pulse::tick(raw.len())?;
        let out = &mut fields.made;
        let mut bytes = raw.iter().copied().peekable();
        while let Some(byte) = bytes.next() {
            if byte != b'\\' {
                out.push(byte);
                continue;
            }
            let Some(next) = bytes.next() else {
                out.push(b'\\');
                break;
            };
            out.push(match next {
                b'b' => 8,
                b'f' => 12,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'v' => 11,
                b'0'..=b'7' => {
                    let mut value = u32::from(next - b'0');
                    for _ in 0..2 {
                        let Some(digit) = bytes.next_if(|byte| (b'0'..=b'7').contains(byte)) else { break };
                        value = value * 8 + u32::from(digit - b'0');
                    }
                    value as u8
                }
                b'x' if bytes.peek().is_some_and(u8::is_ascii_hexdigit) => {
                    let mut value = 0;
                    for _ in 0..2 {
                        let Some(digit) = bytes.next_if(u8::is_ascii_hexdigit) else { break };
                        value = value * 16 + (digit as char).to_digit(16).unwrap_or(0);
                    }
                    value as u8
                }
                other => other,
            });
        }
        // Octal and hexadecimal escapes can produce invalid UTF-8.
        let made = start..fields.made.len();
        utf8(&fields.made[made.clone()])?;
        fields.add(CopyField::Made(made), self.columns);
        Ok(())
    }

    fn binary(&mut self, data: &[u8], at: &mut usize, is_all: bool, fields: &mut CopyFields) -> SqlResult<NextRow> {
        let mut rest = ByteCursor { data, at: *at };
        let missing = |what: SqlError| if is_all { Err(what) } else { Ok(NextRow::More) };
        if !self.has_begun {
            let Some(signature) = rest.take(SIGNATURE.len()) else {
                return missing(bad("COPY file signature not recognized"));
            };
            if &data[signature] != SIGNATURE {
                return Err(bad("COPY file signature not recognized"));
            }
            let Some(flags) = rest.i32() else { return missing(bad("invalid COPY file header (missing flags)")) };
            if flags & (1 << 16) != 0 {
                return Err(bad("invalid COPY file header (WITH OIDS)"));
            }
            if flags >> 16 != 0 {
                return Err(bad("unrecognized critical flags in COPY file header"));
            }
            let Some(length) = rest.i32() else { return missing(bad("invalid COPY file header (missing length)")) };
            let length = usize::try_from(length).map_err(|_| bad("invalid COPY file header (missing length)"))?;
            if rest.take(length).is_none() {
                return missing(bad("invalid COPY file header (wrong length)"));
            }
            self.has_begun = true;
            *at = rest.at;
        }
        let Some(count) = rest.i16() else {
            // PostgreSQL accepts data that ends before a row, or within its first two bytes, as complete.
            return Ok(if is_all { NextRow::End } else { NextRow::More });
        };
        if count == -1 {
            self.line_number += 1;
            if rest.at < data.len() {
                return Err(bad("received copy data after EOF marker"));
            }
            self.has_ended = true;
            *at = rest.at;
            return Ok(NextRow::End);
        }
        let wrong = |reader: &mut CopyReader, error: SqlError| {
            reader.line_number += 1;
            Err(error)
        };
        if usize::try_from(count) != Ok(self.columns) {
            let error = bad(format!("row field count is {count}, expected {}", self.columns));
            return wrong(self, error);
        }
        let cut_off = |reader: &mut CopyReader| match is_all {
            true => wrong(reader, bad("unexpected EOF in COPY data")),
            false => Ok(NextRow::More),
        };
        for _ in 0..self.columns {
            let Some(length) = rest.i32() else { return cut_off(self) };
            if length == -1 {
                fields.add(CopyField::Null, self.columns);
                continue;
            }
            let Ok(length) = usize::try_from(length) else { return wrong(self, bad("invalid field size")) };
            let Some(range) = rest.take(length) else { return cut_off(self) };
            fields.add(CopyField::Raw(range), self.columns);
        }
        self.line_number += 1;
        *at = rest.at;
        Ok(NextRow::Row)
    }
}

/// Cursor over bytes.
struct ByteCursor<'d> {
    data: &'d [u8],
    at: usize,
}

impl ByteCursor<'_> {
    fn take(&mut self, count: usize) -> Option<Range<usize>> {
        let range = self.at..self.at.checked_add(count)?;
        self.data.get(range.clone())?;
        self.at = range.end;
        Some(range)
    }

    fn i32(&mut self) -> Option<i32> {
        let range = self.take(4)?;
        Some(i32::from_be_bytes(self.data[range].try_into().ok()?))
    }

    fn i16(&mut self) -> Option<i16> {
        let range = self.take(2)?;
        Some(i16::from_be_bytes(self.data[range].try_into().ok()?))
    }
}
