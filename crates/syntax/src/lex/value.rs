//! Values of literals and names.
//!
//! **Invariant:** the token is one that the scanner has made of the text, so its quotes are at the right places.

use super::{Lexeme, Lexer, Span, Token};
use crate::names::{NAME_MAX, clipped};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse::{self, SLICE};

/// SQLSTATE `22025`: an unknown escape after a backslash.
const INVALID_ESCAPE: SqlState = SqlState::INVALID_ESCAPE_SEQUENCE;
/// SQLSTATE `22021`: bytes that are no text.
const NOT_IN_REPERTOIRE: SqlState = SqlState::CHARACTER_NOT_IN_REPERTOIRE;

/// Returns a name in its effective form: folded to lower case unless it is quoted, and truncated to [`NAME_MAX`] bytes.
///
/// The second value is the name before it was truncated, if it was.
///
/// # Errors
/// The errors of Unicode escapes.
pub fn name(text: &str, token: Token) -> SqlResult<(Box<str>, Option<String>)> {
    let own = token.span.of(text);
    let whole: String = match token.lexeme {
        Lexeme::Quoted => doubled(&own[1..own.len() - 1], '"'),
        Lexeme::UnicodeQuoted => {
            let (literal, escape) = with_escape(text, token)?;
            let own = literal.span.of(text);
            let inner = doubled(&own[3..own.len() - 1], '"');
            let name = unescaped(&inner, escape, token.span.position(text) + 3)?;
            if name.is_empty() {
                return Err(near("zero-length delimited identifier", text, token));
            }
            name
        }
        _ if own.len() <= NAME_MAX => return Ok((folded(own), None)),
        _ => own.to_ascii_lowercase(),
    };
    let short = clipped(&whole, NAME_MAX);
    if short.len() < whole.len() {
        return Ok((short.into(), Some(whole)));
    }
    Ok((whole.into_boxed_str(), None))
}

/// Folds a word to lower case; letters beyond ASCII stay as they are.
fn folded(word: &str) -> Box<str> {
    let mut name: Box<str> = word.into();
    name.make_ascii_lowercase();
    name
}

/// Returns the text of a literal: `'…'`, `E'…'`, `U&'…'`, `$$…$$`, or the digits of `B'…'` and `X'…'`.
///
/// # Errors
/// An error for an invalid escape; `57014`.
pub fn string(text: &str, token: Token) -> SqlResult<String> {
    let own = token.span.of(text);
    match token.lexeme {
        Lexeme::DollarText => {
            let tag = own[1..].find('$').map_or(own.len(), |at| at + 2);
            pulse::copied(&own[tag..own.len() - tag])
        }
        Lexeme::EscapeText => {
            let escape = |rest: &str, at: usize, bytes: &mut Vec<u8>| {
                escaped(rest, bytes).map_err(|fault| fault.error(text, token, at))
            };
            let bytes = quoted(own, 1, escape)?;
            // An escape can give any byte: the first that is no text is reported, and NUL is none.
            let zero = bytes.iter().position(|byte| *byte == 0);
            match String::from_utf8(bytes) {
                Ok(value) => zero.map_or(Ok(value), |_| Err(not_utf8(&[0], 0))),
                Err(error) => {
                    let bad = error.utf8_error().valid_up_to();
                    Err(not_utf8(error.as_bytes(), zero.map_or(bad, |zero| zero.min(bad))))
                }
            }
        }
        Lexeme::UnicodeText => {
            let (literal, escape) = with_escape(text, token)?;
            unescaped(&plain(literal.span.of(text), 2)?, escape, token.span.position(text) + 3)
        }
        Lexeme::Bits | Lexeme::Hex => plain(own, 1),
        _ => plain(own, 0),
    }
}

/// Returns the text of a literal without escapes, whose quote is at `from`.
fn plain(own: &str, from: usize) -> SqlResult<String> {
    let inner = &own[from + 1..own.len() - 1];
    if inner.len() <= SLICE && !inner.contains('\'') {
        return Ok(inner.to_owned());
    }
    let bytes = quoted(own, from, |_, _, bytes| {
        bytes.push(b'\\');
        Ok(1)
    })?;
    // Only quotes and blanks were left out, which are whole characters.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the bytes of a literal whose quote is at `from`. `escape` appends the value of a backslash escape: it gets
/// the text from there on and its place in the literal, and returns the length of the escape.
fn quoted(
    own: &str,
    from: usize,
    escape: impl Fn(&str, usize, &mut Vec<u8>) -> SqlResult<usize>,
) -> SqlResult<Vec<u8>> {
    let all = own.as_bytes();
    let mut bytes = Vec::with_capacity(own.len());
    let mut at = from + 1;
    loop {
        let rest = &all[at..(at + SLICE).min(all.len())];
        let run = rest.iter().position(|byte| matches!(byte, b'\'' | b'\\')).unwrap_or(rest.len());
        pulse::tick(1 + run)?;
        bytes.extend_from_slice(&rest[..run]);
        at += run;
        match rest.get(run) {
            None => {}
            Some(b'\\') => at += escape(&own[at..], at, &mut bytes)?,
            Some(_) if all.get(at + 1) == Some(&b'\'') => {
                bytes.push(b'\'');
                at += 2;
            }
            Some(_) if at + 1 == all.len() => return Ok(bytes),
            Some(_) => at = behind_gap(all, at + 1),
        }
    }
}

/// Returns the place after the quote with which a literal goes on, after blanks and comments.
fn behind_gap(all: &[u8], mut at: usize) -> usize {
    while let Some(byte) = all.get(at) {
        at += match byte {
            b'\'' => return at + 1,
            b'-' => all[at..].iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(all.len()),
            _ => 1,
        };
    }
    at
}

/// Replaces each doubled quote by one.
fn doubled(inner: &str, quote: char) -> String {
    let both: String = [quote, quote].iter().collect();
    inner.replace(&both, quote.encode_utf8(&mut [0; 4]))
}

/// Reads at most this many digits from a place on: returns their count and their number.
fn digits(all: &[u8], from: usize, most: usize, radix: u32) -> (usize, u32) {
    let digits = all.iter().skip(from).take(most).map_while(|byte| char::from(*byte).to_digit(radix));
    digits.fold((0, 0), |(count, number), digit| (count + 1, number * radix + digit))
}

/// Reads the code unit of a `\uXXXX` or `\UXXXXXXXX`; returns it and the length of the escape.
fn code_unit(all: &[u8], at: usize) -> Option<(u32, usize)> {
    let wanted = match all.get(at..at + 2)? {
        b"\\u" => 4,
        b"\\U" => 8,
        _ => return None,
    };
    let (count, number) = digits(all, at + 2, wanted, 16);
    (count == wanted).then_some((number, 2 + wanted))
}

/// Appends the value of the escape with which the text begins, and returns its length.
fn escaped(rest: &str, bytes: &mut Vec<u8>) -> Result<usize, EscapeFault> {
    let all = rest.as_bytes();
    let byte = match all.get(1) {
        None => return Ok(1),
        Some(b'b') => b'\x08',
        Some(b'f') => b'\x0c',
        Some(b'n') => b'\n',
        Some(b'r') => b'\r',
        Some(b't') => b'\t',
        Some(b'0'..=b'7') => {
            let (count, number) = digits(all, 1, 3, 8);
            // Bits beyond one byte are dropped, as in PostgreSQL.
            bytes.push(number as u8);
            return Ok(1 + count);
        }
        Some(b'x') => match digits(all, 2, 2, 16) {
            (0, _) => b'x',
            (count, number) => {
                bytes.push(number as u8);
                return Ok(2 + count);
            }
        },
        Some(b'u' | b'U') => {
            let (first, length) = code_unit(all, 0).ok_or(EscapeFault::Invalid)?;
            let (code, length) = match first {
                0xD800..=0xDBFF => match code_unit(all, length) {
                    Some((second @ 0xDC00..=0xDFFF, more)) => {
                        (0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00), length + more)
                    }
                    _ => return Err(EscapeFault::Surrogate),
                },
                0xDC00..=0xDFFF => return Err(EscapeFault::Surrogate),
                code => (code, length),
            };
            let letter = char::from_u32(code).filter(|letter| *letter != '\0').ok_or(EscapeFault::Value)?;
            bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
            return Ok(length);
        }
        // Any other character stands for itself.
        Some(_) => {
            let length = rest[1..].chars().next().map_or(0, char::len_utf8);
            bytes.extend_from_slice(&all[1..=length]);
            return Ok(1 + length);
        }
    };
    bytes.push(byte);
    Ok(2)
}

/// Fault of an escape.
#[derive(Clone, Copy)]
enum EscapeFault {
    Invalid,
    Surrogate,
    Value,
}

impl EscapeFault {
    /// Creates the error of an escape that is `at` bytes after the token's beginning.
    fn error(self, text: &str, token: Token, at: usize) -> SqlError {
        let start = token.span.start as usize + at;
        let near = &text[start..token.span.end as usize];
        let syntax = |what: &str| SqlError::new(SqlState::SYNTAX_ERROR, format!("{what} at or near \"{near}\""));
        let error = match self {
            EscapeFault::Invalid => SqlError::new(INVALID_ESCAPE, "invalid Unicode escape")
                .hint("Unicode escapes must be \\uXXXX or \\UXXXXXXXX."),
            EscapeFault::Surrogate => syntax("invalid Unicode surrogate pair"),
            EscapeFault::Value => syntax("invalid Unicode escape value"),
        };
        error.at(Span::new(start, start).position(text))
    }
}

/// Creates the error `22021` for escapes whose bytes are no text.
fn not_utf8(bytes: &[u8], at: usize) -> SqlError {
    let shown: Vec<String> = bytes[at..].iter().take(1).map(|byte| format!("0x{byte:02x}")).collect();
    let shown = shown.join(" ");
    SqlError::new(NOT_IN_REPERTOIRE, format!("invalid byte sequence for encoding \"UTF8\": {shown}"))
}

/// Returns the text of a `U&` literal or name with its escapes replaced. `place` is the position of its first
/// character, which is after `U&` and a quote.
///
/// # Errors
/// `42601`, with its position; `57014`.
pub(crate) fn unescaped(raw: &str, escape: char, place: usize) -> SqlResult<String> {
    let error = |at: usize, message: &str| SqlError::new(SqlState::SYNTAX_ERROR, message).at(place + at);
    pulse::tick(raw.len() * 8)?;
    let characters: Vec<char> = raw.chars().collect();
    let mut result = String::with_capacity(raw.len());
    let mut first_half: Option<u32> = None;
    let mut at = 0;
    while let Some(&next) = characters.get(at) {
        let begin = at;
        if next != escape || characters.get(at + 1) == Some(&escape) {
            if first_half.is_some() {
                return Err(error(begin, "invalid Unicode surrogate pair"));
            }
            result.push(next);
            at += if next == escape { 2 } else { 1 };
            continue;
        }
        let digits = if characters.get(at + 1) == Some(&'+') { at + 2..at + 8 } else { at + 1..at + 5 };
        at = digits.end;
        let digits = characters.get(digits).unwrap_or_default().iter().map(|digit| digit.to_digit(16));
        let number = digits.reduce(|number, digit| Some(number? << 4 | digit?)).flatten().ok_or_else(|| {
            error(begin, "invalid Unicode escape").hint("Unicode escapes must be \\XXXX or \\+XXXXXX.")
        })?;
        // A character beyond the basic plane may be a surrogate pair: two escapes in a row.
        let code = match (first_half.take(), number) {
            (None, 0xD800..=0xDBFF) => {
                first_half = Some(number);
                continue;
            }
            (Some(first), 0xDC00..=0xDFFF) => 0x1_0000 + ((first - 0xD800) << 10) + (number - 0xDC00),
            (Some(_), _) | (None, 0xDC00..=0xDFFF) => return Err(error(begin, "invalid Unicode surrogate pair")),
            (None, number) => number,
        };
        match char::from_u32(code) {
            Some(character) if character != '\0' => result.push(character),
            _ => return Err(error(begin, "invalid Unicode escape value")),
        }
    }
    match first_half {
        Some(_) => Err(error(characters.len(), "invalid Unicode surrogate pair")),
        None => Ok(result),
    }
}

/// Returns the literal or name with which a token with Unicode escapes begins, and the character of its `UESCAPE`, or a
/// backslash.
fn with_escape(text: &str, token: Token) -> SqlResult<(Token, char)> {
    let end = token.span.end as usize;
    let mut rest = Lexer::at(&text[..end], token.span.start as usize);
    let (literal, last) = (rest.read_alone()?, text[..end].rfind('\''));
    if literal.span.end == token.span.end {
        return Ok((literal, '\\'));
    }
    // The scanner has checked that it is one character in quotes.
    let escape = last.and_then(|last| text[..last].chars().next_back());
    Ok((literal, escape.unwrap_or('\\')))
}

/// Returns the character of `UESCAPE`, which the token gives.
///
/// # Errors
/// An error for a token that is no text, or a character that cannot be an escape.
pub(super) fn escape_of(text: &str, token: Token) -> SqlResult<char> {
    if token.lexeme != Lexeme::Text {
        return Err(near("UESCAPE must be followed by a simple string literal", text, token));
    }
    let value = plain(token.span.of(text), 0)?;
    let mut characters = value.chars();
    match (characters.next(), characters.next()) {
        (Some(one), None)
            if one.is_ascii() && !one.is_ascii_hexdigit() && !one.is_ascii_whitespace() && !"+'\"".contains(one) =>
        {
            Ok(one)
        }
        _ => Err(near("invalid Unicode escape character", text, token)),
    }
}

/// Creates the error `42601` with the token that it is about.
pub fn near(message: &str, text: &str, token: Token) -> SqlError {
    let message = match token.lexeme {
        Lexeme::End => format!("{message} at end of input"),
        _ => format!("{message} at or near \"{}\"", token.span.of(text)),
    };
    SqlError::new(SqlState::SYNTAX_ERROR, message).at(token.span.position(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lex::Lexer;

    fn read(text: &str) -> Result<String, String> {
        let token = Lexer::new(text).next_token().expect("nobody cancels");
        let read = match token.lexeme {
            Lexeme::Word | Lexeme::Quoted | Lexeme::UnicodeQuoted => name(text, token).map(|(name, _)| name.into()),
            _ => string(text, token),
        };
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn literals_have_their_values() {
        for (text, value) in [
            ("'it''s'", "it's"),
            ("'a' \n 'b'\n--it's\n'c'''", "abc'"),
            ("'a' -- it's\n'b'", "ab"),
            ("''", ""),
            ("'a\\n'", "a\\n"),
            ("e'a\\n\\t\\\\\\'\\x41\\101\\u00e9\\U0001F600\\uD83D\\uDE00\\q\\é''z'", "a\n\t\\'AAé😀😀qé'z"),
            ("e'\\xc3\\xa9'", "é"),
            ("$$a'b$$", "a'b"),
            ("$t$a$$b$t$", "a$$b"),
            ("b'01'", "01"),
            ("X'1F'", "1F"),
            ("U&'d\\0061t\\+000061 \\\\ it''s'", "data \\ it's"),
            ("ABc_é", "abc_é"),
            ("ÄB", "Äb"),
            ("\"A\"\"b\"", "A\"b"),
            ("U&\"d\\0061ta\"", "data"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(value), "{text}");
        }
        let long = "x".repeat(70);
        assert_eq!(read(&long).as_deref(), Ok(&long[..63]));
    }

    #[test]
    fn escapes_that_stand_for_nothing_are_errors() {
        for (text, error) in [
            ("e'\\u12'", "invalid Unicode escape (SQLSTATE 22025)"),
            ("e'\\uD83D x'", "invalid Unicode surrogate pair at or near \"\\uD83D x'\" (SQLSTATE 42601)"),
            ("e'\\xff'", "invalid byte sequence for encoding \"UTF8\": 0xff (SQLSTATE 22021)"),
            ("e'abc\\0def'", "invalid byte sequence for encoding \"UTF8\": 0x00 (SQLSTATE 22021)"),
            ("e'\\x00'", "invalid byte sequence for encoding \"UTF8\": 0x00 (SQLSTATE 22021)"),
            ("e'\\400\\777'", "invalid byte sequence for encoding \"UTF8\": 0x00 (SQLSTATE 22021)"),
            ("U&'\\zzzz'", "invalid Unicode escape (SQLSTATE 42601)"),
        ] {
            assert_eq!(read(text), Err(error.to_owned()), "{text}");
        }
    }
}
