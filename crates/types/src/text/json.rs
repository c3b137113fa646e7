//! Check whether a text is JSON (RFC 8259). The text itself is the value.

use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;

/// Maximum nesting of arrays and objects.
const MAX_DEPTH: usize = 1000;

fn fault(detail: String) -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json").detail(detail)
}

struct JsonReader<'a> {
    text: &'a str,
    at: usize,
}

impl JsonReader<'_> {
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|byte| b" \t\n\r".contains(byte)).count();
        self.text.as_bytes().get(self.at).copied()
    }

    /// Returns the error for the text at the reader's position.
    fn unexpected(&mut self, expected: &str) -> SqlError {
        if self.peek().is_none() {
            return fault("The input string ended unexpectedly.".to_owned());
        }
        let rest = &self.text[self.at..];
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii();
        let len = rest.find(|c| !word(c)).unwrap_or(rest.len()).max(rest.chars().next().map_or(0, char::len_utf8));
        let token = &rest[..len];
        let known = matches!(token, "true" | "false" | "null" | "{" | "}" | "[" | "]" | ":" | ",")
            || token.bytes().all(|byte| byte.is_ascii_digit());
        if known {
            fault(format!("Expected {expected}, but found \"{token}\"."))
        } else {
            fault(format!("Token \"{token}\" is invalid."))
        }
    }

    fn string(&mut self) -> SqlResult<()> {
        let bytes = self.text.as_bytes();
        self.at += 1;
        loop {
            pulse::tick(2)?;
            match bytes.get(self.at) {
                None => return Err(fault(format!("Token \"{}\" is invalid.", self.text))),
                Some(b'"') => break,
                Some(b'\\') => match bytes.get(self.at + 1) {
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
                    Some(b'u')
                        if bytes
                            .get(self.at + 2..self.at + 6)
                            .is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) =>
                    {
                        self.at += 6;
                    }
                    Some(b'u') => return Err(fault("\"\\u\" must be followed by four hexadecimal digits.".to_owned())),
                    _ => {
                        let escaped = self.text[self.at + 1..].chars().next().map(String::from).unwrap_or_default();
                        return Err(fault(format!("Escape sequence \"\\{escaped}\" is invalid.")));
                    }
                },
                Some(byte) if *byte < 0x20 => {
                    return Err(fault(format!("Character with value 0x{byte:02x} must be escaped.")));
                }
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        Ok(())
    }

    fn number(&mut self) -> bool {
        let rest = &self.text[self.at..];
        let len = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c)).unwrap_or(rest.len());
        let unsigned = rest[..len].strip_prefix('-').unwrap_or(&rest[..len]);
        let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
            Some(at) => (&unsigned[..at], &unsigned[at + 1..]),
            None => (unsigned, "0"),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        self.at += len;
        digits(whole) && digits(fraction) && digits(exponent) && (whole == "0" || !whole.starts_with('0'))
    }

    fn value(&mut self, depth: usize) -> SqlResult<()> {
        pulse::tick(16)?;
        if depth > MAX_DEPTH {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded"));
        }
        match self.peek() {
            Some(b'"') => self.string(),
            Some(open @ (b'{' | b'[')) => {
                let close = if open == b'{' { b'}' } else { b']' };
                self.at += 1;
                if self.peek() == Some(close) {
                    self.at += 1;
                    return Ok(());
                }
                let mut first = true;
                loop {
                    // The messages are PostgreSQL's: before the first key, the object may also end.
                    if open == b'{' {
                        if self.peek() != Some(b'"') {
                            return Err(self.unexpected(if first { "string or \"}\"" } else { "string" }));
                        }
                        self.string()?;
                        if self.peek() != Some(b':') {
                            return Err(self.unexpected("\":\""));
                        }
                        self.at += 1;
                    }
                    first = false;
                    self.value(depth + 1)?;
                    match self.peek() {
                        Some(b',') => self.at += 1,
                        Some(byte) if byte == close => break,
                        _ => {
                            return Err(self.unexpected(if open == b'{' {
                                "\",\" or \"}\""
                            } else {
                                "\",\" or \"]\""
                            }));
                        }
                    }
                }
                self.at += 1;
                Ok(())
            }
            Some(b'-' | b'0'..=b'9') => {
                let start = self.at;
                if self.number() {
                    Ok(())
                } else {
                    Err(fault(format!("Token \"{}\" is invalid.", &self.text[start..self.at])))
                }
            }
            _ => {
                for word in ["true", "false", "null"] {
                    let behind = self.text[self.at..].strip_prefix(word);
                    if behind.is_some_and(|behind| !behind.starts_with(|c: char| c.is_ascii_alphanumeric())) {
                        self.at += word.len();
                        return Ok(());
                    }
                }
                Err(self.unexpected("JSON value"))
            }
        }
    }
}

/// Refuses a text that is not JSON.
pub(super) fn check(text: &str) -> SqlResult<()> {
    let mut reader = JsonReader { text, at: 0 };
    reader.value(0)?;
    if reader.peek().is_some() { Err(reader.unexpected("end of input")) } else { Ok(()) }
}
