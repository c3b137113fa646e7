//! Functions of bytea: digests, encodings, single bytes and bits.

use super::build::{self, BYTES_MAX, TextBuilder};
use super::get::{bytes, int, mistyped, text};
use super::{Function, function};
use crate::Kind;
use crate::datum::Datum;
use md5::{Digest, Md5};
use sha2::{Sha224, Sha256, Sha384, Sha512};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;

fn refused(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// Returns the two hexadecimal digits of a byte.
pub(crate) fn hex_digits(byte: u8) -> [char; 2] {
    [byte >> 4, byte & 15].map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)]))
}

/// Appends bytes in hexadecimal.
pub(crate) fn push_hex(bytes: &[u8], out: &mut TextBuilder) -> SqlResult<()> {
    for slice in bytes.chunks(pulse::SLICE) {
        pulse::tick(slice.len() * 4)?;
        for byte in slice {
            hex_digits(*byte).into_iter().try_for_each(|digit| out.push(digit))?;
        }
    }
    Ok(())
}

/// Returns the digest of bytes.
fn digest<D: Digest>(bytes: &[u8]) -> SqlResult<Box<[u8]>> {
    let mut state = D::new();
    for slice in bytes.chunks(pulse::SLICE) {
        pulse::tick(slice.len() * 4)?;
        state.update(slice);
    }
    Ok(state.finalize().as_slice().into())
}

fn md5_of(bytes: &[u8]) -> SqlResult<Datum> {
    let mut out = TextBuilder::default();
    push_hex(&digest::<Md5>(bytes)?, &mut out)?;
    Ok(out.finish())
}

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Number of characters in a line of base64.
const LINE: usize = 76;

fn push_base64(bytes: &[u8], out: &mut TextBuilder) -> SqlResult<()> {
    for (index, three) in bytes.chunks(3).enumerate() {
        if index > 0 && (index * 4).is_multiple_of(LINE) {
            pulse::tick(2 * LINE)?;
            out.push('\n')?;
        }
        let word = three.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= three.len() { char::from(letter) } else { '=' })?;
        }
    }
    Ok(())
}

/// Returns the bytes of a text in base64, or in hexadecimal digits.
///
/// # Errors
/// `22023` as `decode` has them; `57014`
pub fn decoded(text: &str, is_hex: bool) -> SqlResult<Vec<u8>> {
    if is_hex { from_hex(text) } else { from_base64(text) }
}

fn from_base64(text: &str) -> SqlResult<Vec<u8>> {
    let (mut word, mut place, mut ends) = (0_u32, 0, 0);
    let mut out = Vec::new();
    let blank = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r');
    for (at, c) in text.chars().enumerate() {
        if at.is_multiple_of(LINE) {
            pulse::tick(64 * LINE)?;
        }
        if blank(c) {
            continue;
        }
        let value = if c == '=' {
            if ends == 0 {
                ends = match place {
                    2 => 1,
                    3 => 2,
                    _ => return Err(refused("unexpected \"=\" while decoding base64 sequence")),
                };
            }
            0
        } else {
            let found = u8::try_from(c).ok().and_then(|c| LETTERS.iter().position(|letter| *letter == c));
            found.ok_or_else(|| refused(format!("invalid symbol \"{c}\" found while decoding base64 sequence")))? as u32
        };
        word = word << 6 | value;
        place += 1;
        if place == 4 {
            let three = [(word >> 16) as u8, (word >> 8) as u8, word as u8];
            out.extend_from_slice(&three[..if ends == 0 { 3 } else { ends }]);
            (word, place) = (0, 0);
        }
    }
    if place != 0 {
        let error = refused("invalid base64 end sequence");
        return Err(error.hint("Input data is missing padding, is truncated, or is otherwise corrupted."));
    }
    Ok(out)
}

fn from_hex(text: &str) -> SqlResult<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 2);
    let mut high = None;
    for (at, c) in text.chars().enumerate() {
        if at.is_multiple_of(LINE) {
            pulse::tick(4 * LINE)?;
        }
        if high.is_none() && matches!(c, ' ' | '\t' | '\n' | '\r') {
            continue;
        }
        let digit = c.to_digit(16).ok_or_else(|| refused(format!("invalid hexadecimal digit: \"{c}\"")))? as u8;
        match high.take() {
            None => high = Some(digit),
            Some(high) => out.push(high << 4 | digit),
        }
    }
    if high.is_some() {
        return Err(refused("invalid hexadecimal data: odd number of digits"));
    }
    Ok(out)
}

fn push_escape(bytes: &[u8], out: &mut TextBuilder) -> SqlResult<()> {
    for byte in bytes {
        match byte {
            b'\\' => out.push_str("\\\\")?,
            0 | 0x80.. => out.push_str(&format!("\\{byte:03o}"))?,
            byte => {
                pulse::tick(4)?;
                out.push(char::from(*byte))?;
            }
        }
    }
    Ok(())
}

/// Text encoding of bytes.
#[derive(Clone, Copy)]
enum Encoding {
    Hex,
    Base64,
    Escape,
}

impl Encoding {
    fn named(name: &str) -> SqlResult<Encoding> {
        match &*name.to_ascii_lowercase() {
            "hex" => Ok(Encoding::Hex),
            "base64" => Ok(Encoding::Base64),
            "escape" => Ok(Encoding::Escape),
            _ => Err(refused(format!("unrecognized encoding: \"{name}\""))),
        }
    }
}

/// Returns the length of bytes in an encoding.
fn encoded(bytes: &[u8], encoding: Encoding) -> SqlResult<usize> {
    Ok(match encoding {
        Encoding::Hex => bytes.len() * 2,
        Encoding::Base64 => bytes.len().div_ceil(3) * 4 + bytes.len() / (LINE * 3 / 4),
        Encoding::Escape => {
            let mut len = 0;
            for slice in bytes.chunks(pulse::SLICE) {
                pulse::tick(slice.len())?;
                let of = |byte: &u8| match byte {
                    b'\\' => 2,
                    0 | 0x80.. => 4,
                    _ => 1,
                };
                len += slice.iter().map(of).sum::<usize>();
            }
            len
        }
    })
}

fn encode(args: &[Datum]) -> SqlResult<Datum> {
    let (all, encoding) = (bytes(&args[0])?, Encoding::named(text(&args[1])?)?);
    if BYTES_MAX < encoded(all, encoding)? {
        let message = "result of encoding conversion is too large";
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    let mut out = TextBuilder::default();
    match encoding {
        Encoding::Hex => push_hex(all, &mut out)?,
        Encoding::Base64 => push_base64(all, &mut out)?,
        Encoding::Escape => push_escape(all, &mut out)?,
    }
    Ok(out.finish())
}

fn decode(args: &[Datum]) -> SqlResult<Datum> {
    let all = text(&args[0])?;
    let decoded = match Encoding::named(text(&args[1])?)? {
        Encoding::Hex => from_hex(all)?,
        Encoding::Base64 => from_base64(all)?,
        Encoding::Escape => {
            let escaped = all.strip_prefix("\\x").map(|rest| format!("\\\\x{rest}"));
            match crate::text::input(escaped.as_deref().unwrap_or(all), Kind::Bytea.into(), &Default::default())? {
                Datum::Bytes(bytes) => bytes.into_vec(),
                other => return Err(mistyped(&other)),
            }
        }
    };
    Ok(Datum::Bytes(decoded.into()))
}

/// Returns the index of a byte, or of the byte that holds a bit.
fn place(at: i64, len: usize, most: i64) -> SqlResult<usize> {
    usize::try_from(at).ok().filter(|_| (0..most).contains(&at) && len > 0).ok_or_else(|| {
        SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, format!("index {at} out of valid range, 0..{}", most - 1))
    })
}

fn get_byte(args: &[Datum]) -> SqlResult<Datum> {
    let all = bytes(&args[0])?;
    let at = place(int(&args[1])?, all.len(), all.len() as i64)?;
    Ok(Datum::Int4(i32::from(all[at])))
}

fn set_byte(args: &[Datum]) -> SqlResult<Datum> {
    let all = bytes(&args[0])?;
    let at = place(int(&args[1])?, all.len(), all.len() as i64)?;
    build::bytes(&[&all[..at], &[int(&args[2])? as u8], &all[at + 1..]])
}

fn get_bit(args: &[Datum]) -> SqlResult<Datum> {
    let all = bytes(&args[0])?;
    let at = place(int(&args[1])?, all.len(), all.len() as i64 * 8)?;
    Ok(Datum::Int4(i32::from(all[at / 8] >> (at % 8) & 1)))
}

fn set_bit(args: &[Datum]) -> SqlResult<Datum> {
    let all = bytes(&args[0])?;
    let at = place(int(&args[1])?, all.len(), all.len() as i64 * 8)?;
    let byte = match int(&args[2])? {
        0 => all[at / 8] & !(1 << (at % 8)),
        1 => all[at / 8] | 1 << (at % 8),
        _ => return Err(refused("new bit must be 0 or 1")),
    };
    build::bytes(&[&all[..at / 8], &[byte], &all[at / 8 + 1..]])
}

fn is_utf8(name: &str) -> SqlResult<()> {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    match &*plain.to_ascii_lowercase() {
        "utf8" | "unicode" => Ok(()),
        _ => Err(SqlError::unsupported(format_args!("the encoding \"{name}\""))),
    }
}

fn convert_from(args: &[Datum]) -> SqlResult<Datum> {
    is_utf8(text(&args[1])?)?;
    crate::binary::utf8(bytes(&args[0])?).map(Datum::text)
}

fn convert_to(args: &[Datum]) -> SqlResult<Datum> {
    is_utf8(text(&args[1])?)?;
    build::bytes(&[text(&args[0])?.as_bytes()])
}

/// Removes the bytes of a set from the ends.
fn trim(args: &[Datum], start: bool, end: bool) -> SqlResult<Datum> {
    let (mut all, set) = (bytes(&args[0])?, bytes(&args[1])?);
    while start
        && let [first, rest @ ..] = all
        && set.contains(first)
    {
        pulse::copies(set.len())?;
        all = rest;
    }
    while end
        && let [rest @ .., last] = all
        && set.contains(last)
    {
        pulse::copies(set.len())?;
        all = rest;
    }
    build::bytes(&[all])
}

fn position(args: &[Datum]) -> SqlResult<Datum> {
    let (all, part) = (bytes(&args[0])?, bytes(&args[1])?);
    if part.is_empty() {
        return Ok(Datum::Int4(1));
    }
    for at in 0..(all.len() + 1).saturating_sub(part.len()) {
        pulse::tick(1)?;
        if all[at] == part[0] && build::begins_with(&all[at..], part)? {
            return Ok(Datum::Int4(at as i32 + 1));
        }
    }
    Ok(Datum::Int4(0))
}

pub(super) fn functions() -> Vec<Function> {
    use Kind::{Bytea, Int4, Int8, Name, Text};
    vec![
        function("md5", &[Text], Text, |a| md5_of(text(&a[0])?.as_bytes())),
        function("md5", &[Bytea], Text, |a| md5_of(bytes(&a[0])?)),
        function("sha224", &[Bytea], Bytea, |a| digest::<Sha224>(bytes(&a[0])?).map(Datum::Bytes)),
        function("sha256", &[Bytea], Bytea, |a| digest::<Sha256>(bytes(&a[0])?).map(Datum::Bytes)),
        function("sha384", &[Bytea], Bytea, |a| digest::<Sha384>(bytes(&a[0])?).map(Datum::Bytes)),
        function("sha512", &[Bytea], Bytea, |a| digest::<Sha512>(bytes(&a[0])?).map(Datum::Bytes)),
        function("encode", &[Bytea, Text], Text, encode),
        function("decode", &[Text, Text], Bytea, decode),
        function("get_byte", &[Bytea, Int4], Int4, get_byte),
        function("set_byte", &[Bytea, Int4, Int4], Bytea, set_byte),
        function("get_bit", &[Bytea, Int8], Int4, get_bit),
        function("set_bit", &[Bytea, Int8, Int4], Bytea, set_bit),
        function("bit_count", &[Bytea], Int8, |a| {
            let mut count = 0;
            for slice in bytes(&a[0])?.chunks(pulse::SLICE) {
                pulse::copies(slice.len())?;
                count += slice.iter().map(|byte| i64::from(byte.count_ones())).sum::<i64>();
            }
            Ok(Datum::Int8(count))
        }),
        function("bit_length", &[Bytea], Int4, |a| Ok(Datum::Int4(bytes(&a[0])?.len() as i32 * 8))),
        function("convert_from", &[Bytea, Name], Text, convert_from),
        function("convert_to", &[Text, Name], Bytea, convert_to),
        function("btrim", &[Bytea, Bytea], Bytea, |a| trim(a, true, true)),
        function("ltrim", &[Bytea, Bytea], Bytea, |a| trim(a, true, false)),
        function("rtrim", &[Bytea, Bytea], Bytea, |a| trim(a, false, true)),
        function("position", &[Bytea, Bytea], Int4, position),
    ]
}
