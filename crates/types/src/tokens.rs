//! Tokens of the text forms of dates, times and intervals: words, numbers and signs.

/// Token of a text.
#[derive(Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// Digits, perhaps with one decimal point.
    Number(&'a str),
    /// Digits and names, separated by `-`, `/` or `.`.
    Date(&'a str),
    /// Digits and colons.
    Time(&'a str),
    Word(&'a str),
    /// A sign and digits, colons and points.
    Signed(&'a str),
    /// A sign and a word.
    SignedWord(bool, &'a str),
}

fn run(text: &str, mut of: impl FnMut(u8) -> bool) -> usize {
    text.bytes().position(|byte| !of(byte)).unwrap_or(text.len())
}

fn take_digits(rest: &str) -> (Token<'_>, usize) {
    let bytes = rest.as_bytes();
    let digits = run(rest, |b| b.is_ascii_digit());
    match bytes.get(digits) {
        Some(b':') => {
            let len = run(rest, |b| b.is_ascii_digit() || b == b':' || b == b'.');
            (Token::Time(&rest[..len]), len)
        }
        Some(&delimiter @ (b'-' | b'/' | b'.')) => {
            let second = digits + 1;
            match bytes.get(second) {
                Some(b) if b.is_ascii_digit() => {
                    let len = second + run(&rest[second..], |b| b.is_ascii_digit());
                    if bytes.get(len) == Some(&delimiter) {
                        let len = len + run(&rest[len..], |b| b.is_ascii_digit() || b == delimiter);
                        return (Token::Date(&rest[..len]), len);
                    }
                    (if delimiter == b'.' { Token::Number(&rest[..len]) } else { Token::Date(&rest[..len]) }, len)
                }
                Some(b) if b.is_ascii_alphabetic() => {
                    let len = second + run(&rest[second..], |b| b.is_ascii_alphanumeric() || b == delimiter);
                    (Token::Date(&rest[..len]), len)
                }
                _ if delimiter == b'.' => (Token::Number(&rest[..second]), second),
                _ => (Token::Date(&rest[..second]), second),
            }
        }
        _ => (Token::Number(&rest[..digits]), digits),
    }
}

/// Splits a text into tokens. Returns `None` for a text with characters that no date has.
pub(super) fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.as_bytes().get(at) {
        let rest = &text[at..];
        let (token, len) = match byte {
            b if b.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            b'0'..=b'9' => take_digits(rest),
            b'.' => {
                let len = 1 + run(&rest[1..], |b| b.is_ascii_digit());
                (Token::Number(&rest[..len]), len)
            }
            b if b.is_ascii_alphabetic() => {
                let letters = run(rest, |b| b.is_ascii_alphabetic());
                // A name before a separator begins a date if it is a month (`Jan-08-1999`), else perhaps
                // a zone (`Europe/Berlin`).
                let is_date = matches!(rest.as_bytes().get(letters), Some(b'-' | b'/' | b'.'));
                if is_date && month_of(&rest[..letters].to_ascii_lowercase()).is_some() {
                    let len = run(rest, |b| b.is_ascii_alphanumeric() || b"-/.".contains(&b));
                    (Token::Date(&rest[..len]), len)
                } else if is_date && rest.as_bytes()[letters] == b'/' {
                    let len = run(rest, |b| b.is_ascii_alphanumeric() || b"-/_+".contains(&b));
                    (Token::Word(&rest[..len]), len)
                } else {
                    (Token::Word(&rest[..letters]), letters)
                }
            }
            b'+' | b'-' => {
                let blanks = 1 + run(&rest[1..], |b| b.is_ascii_whitespace());
                let after = &rest[blanks..];
                match after.as_bytes().first() {
                    Some(b) if b.is_ascii_digit() || *b == b'.' => {
                        let len = blanks + run(after, |b| b.is_ascii_digit() || b":.-".contains(&b));
                        (Token::Signed(&rest[..len]), len)
                    }
                    Some(b) if b.is_ascii_alphabetic() => {
                        let len = run(after, |b| b.is_ascii_alphabetic());
                        (Token::SignedWord(byte == b'-', &after[..len]), blanks + len)
                    }
                    _ => return None,
                }
            }
            // Other punctuation separates tokens, and has no meaning.
            b if b.is_ascii_punctuation() => {
                at += 1;
                continue;
            }
            _ => return None,
        };
        found.push(token);
        at += len;
    }
    Some(found)
}

/// Returns the number of a month, given by its name.
pub(super) fn month_of(word: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    if word == "sept" {
        return Some(9);
    }
    let found = MONTHS.iter().position(|month| *month == word || (word.len() == 3 && month.starts_with(word)));
    found.map(|index| index as i64 + 1)
}

/// Returns true if the word names a day of the week.
pub(super) fn is_week_day(word: &str) -> bool {
    const DAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
    matches!(word, "tues" | "weds" | "wedn" | "thur" | "thurs")
        || DAYS.iter().any(|day| *day == word || (word.len() == 3 && day.starts_with(word)))
}
