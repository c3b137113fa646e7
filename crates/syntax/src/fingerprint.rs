//! Fingerprints of statements: statements that differ only in their values have the same number.
//!
//! Left out are literals and parameters (`$1`), comments, blanks, the case of letters, semicolons at the end, and the
//! number of values of an `IN`. So a prepared statement and the same one with its values written out have one
//! fingerprint.
//!
//! **Invariant:** one pass without allocation: the gate fingerprints each transaction that it classifies by its
//! statement. Texts that are not SQL have some number, too.

/// A value in a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Literal<'t> {
    /// A parameter; `$1` is 1.
    Parameter(usize),
    /// A placeholder `$name`, which occurs only in statements that a setting describes.
    Named(&'t [u8]),
    /// A literal as it is written: a number, or the text between quotes.
    Written(&'t [u8]),
}

const BEGIN: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;
/// Byte that occurs in no word.
const END_OF_WORD: u8 = 0xff;
const LITERAL: u8 = 0xfe;

fn mix(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(PRIME)
}

/// Mixes the last bytes, which have changed the lower bits only, into all bits.
fn spread(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}

/// Returns the hash of any bytes.
pub fn of_bytes<'t>(parts: impl IntoIterator<Item = &'t [u8]>) -> u64 {
    spread(parts.into_iter().flatten().fold(BEGIN, |hash, &byte| mix(hash, byte)))
}

/// Returns the hash of a hot key: a value, with the name before its colon, if there is one. `None` for an empty key.
pub fn of_key(key: &str) -> Option<u64> {
    let (name, value) = key.split_once(':').unwrap_or(("", key));
    (!key.is_empty()).then(|| of_value(of_bytes([name.as_bytes()]), value.as_bytes()))
}

/// Returns the hash of this value of a name, or of a statement, with this hash.
pub fn of_value(name: u64, value: &[u8]) -> u64 {
    of_bytes([&name.to_be_bytes()[..], value])
}

/// Returns the fingerprint of a statement.
pub fn of(text: &[u8]) -> u64 {
    walk(text, |_, _| {})
}

/// Returns the fingerprint of a statement. `see` is called for each of its values in order, with its number from 0.
pub fn walk<'t>(text: &'t [u8], mut see: impl FnMut(usize, Literal<'t>)) -> u64 {
    let mut hash = BEGIN;
    let (mut at, mut count) = (0, 0);
    let mut semicolons = 0;
    let mut list = ListPosition::No;
    while let Some(&byte) = text.get(at) {
        if byte.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        match (byte, text.get(at + 1)) {
            (b'-', Some(b'-')) | (b'/', Some(b'*')) => {
                at = end_of_comment(text, at).unwrap_or(text.len());
                continue;
            }
            (b';', _) => {
                (semicolons, at) = (semicolons + 1, at + 1);
                continue;
            }
            _ => {}
        }
        for _ in 0..std::mem::take(&mut semicolons) {
            hash = mix(hash, b';');
        }
        if let Some((literal, end)) = literal(text, at) {
            at = end;
            let is_first = list != ListPosition::Values;
            if list == ListPosition::Open {
                list = ListPosition::Values;
            }
            if is_first {
                see(count, literal);
                count += 1;
                hash = mix(hash, LITERAL);
            }
        } else if is_word(byte) {
            let begin = at;
            while let Some(&byte) = text.get(at).filter(|&&byte| is_word(byte) || byte == b'$') {
                hash = mix(hash, byte.to_ascii_lowercase());
                at += 1;
            }
            hash = mix(hash, END_OF_WORD);
            list = if text[begin..at].eq_ignore_ascii_case(b"in") { ListPosition::In } else { ListPosition::No };
        } else if byte == b'"' {
            let end = end_of_quoted(text, at, b'"', false);
            hash = text[at..end].iter().fold(hash, |hash, &byte| mix(hash, byte));
            (at, list) = (end, ListPosition::No);
        } else {
            at += 1;
            list = match (list, byte) {
                (ListPosition::In, b'(') => ListPosition::Open,
                // Before the next value of the same list.
                (ListPosition::Values, b',') => continue,
                _ => ListPosition::No,
            };
            hash = mix(hash, byte);
        }
    }
    spread(hash)
}

/// Position within a list of values that counts as one value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListPosition {
    No,
    /// After the word `IN`.
    In,
    /// After the opening parenthesis.
    Open,
    Values,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || 0x7f < byte
}

/// Returns the end of the comment that begins here, of either kind; `None` if a C-style comment has no end. C-style
/// comments nest, as in PostgreSQL.
pub fn end_of_comment(text: &[u8], begin: usize) -> Option<usize> {
    if text[begin] == b'-' {
        let length = text[begin..].iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        return Some(length.map_or(text.len(), |length| begin + length));
    }
    let (mut at, mut depth) = (begin, 0_usize);
    while at < text.len() {
        match &text[at..] {
            [b'/', b'*', ..] => (at, depth) = (at + 2, depth + 1),
            [b'*', b'/', ..] if depth <= 1 => return Some(at + 2),
            [b'*', b'/', ..] => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
    }
    None
}

/// Returns the end of the quoted text that begins here, after its closing quote; a doubled quote closes nothing.
fn end_of_quoted(text: &[u8], begin: usize, quote: u8, escapes: bool) -> usize {
    let mut at = begin + 1;
    while let Some(&byte) = text.get(at) {
        if escapes && byte == b'\\' {
            at += 2;
        } else if byte != quote {
            at += 1;
        } else if text.get(at + 1) == Some(&quote) {
            at += 2;
        } else {
            return at + 1;
        }
    }
    text.len()
}

/// Returns the value that begins here, and its end.
fn literal(text: &[u8], at: usize) -> Option<(Literal<'_>, usize)> {
    let next = text.get(at + 1).copied();
    let quoted = |begin: usize, escapes: bool| {
        let end = end_of_quoted(text, begin, b'\'', escapes);
        let inside = &text[begin + 1..end.max(begin + 1)];
        Some((Literal::Written(inside.strip_suffix(b"'").unwrap_or(inside)), end))
    };
    match text[at] {
        b'\'' => quoted(at, false),
        b'e' | b'E' if next == Some(b'\'') => quoted(at + 1, true),
        b'b' | b'B' | b'x' | b'X' | b'n' | b'N' if next == Some(b'\'') => quoted(at + 1, false),
        b'0'..=b'9' => Some(number(text, at)),
        b'.' if next.is_some_and(|next| next.is_ascii_digit()) => Some(number(text, at)),
        b'$' => dollar(text, at),
        _ => None,
    }
}

fn number(text: &[u8], begin: usize) -> (Literal<'_>, usize) {
    let mut end = begin + 1;
    while let Some(&byte) = text.get(end) {
        let is_sign_of_exponent = matches!(byte, b'+' | b'-') && matches!(text[end - 1], b'e' | b'E');
        if !(is_word(byte) || byte == b'.' || is_sign_of_exponent) {
            break;
        }
        end += 1;
    }
    (Literal::Written(&text[begin..end]), end)
}

/// Returns the parameter, or the dollar-quoted text, that begins here, and its end.
fn dollar(text: &[u8], at: usize) -> Option<(Literal<'_>, usize)> {
    let length = text[at + 1..].iter().take_while(|&&byte| is_word(byte)).count();
    let (word, end) = (&text[at + 1..at + 1 + length], at + 1 + length);
    if word.first().is_some_and(u8::is_ascii_digit) {
        let number = std::str::from_utf8(word).ok()?.parse().ok()?;
        return Some((Literal::Parameter(number), end));
    }
    if text.get(end) != Some(&b'$') {
        return (!word.is_empty()).then_some((Literal::Named(word), end));
    }
    let (tag, inside) = (&text[at..=end], &text[end + 1..]);
    let length = inside.windows(tag.len()).position(|window| window == tag);
    Some(match length {
        Some(length) => (Literal::Written(&inside[..length]), end + 1 + length + tag.len()),
        None => (Literal::Written(inside), text.len()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_form_make_no_difference() {
        let same = |one: &str, other: &str| assert_eq!(of(one.as_bytes()), of(other.as_bytes()), "{one} | {other}");
        same("select * from t where a = 1", "SELECT *\n FROM T WHERE a=$1 ;; ");
        same("select 'it''s', E'a\\'b', 1.5e-3, .5", "select $1, $2, $3, $4 -- five");
        same("select $$a 'b$$, $x$c $$ d$x$ from t", "/*+ priority=high */ select 'a', 1 /* x /* y */ */ from t");
        same("select 1 where a in (1, 2, 3) and b in ($1)", "select 1 where a in ('x') and b IN (4,5)");
        same("update t set a = a + -1", "update t set a=a+-20");
    }

    #[test]
    fn what_a_statement_does_makes_one() {
        let differ = |one: &str, other: &str| assert_ne!(of(one.as_bytes()), of(other.as_bytes()), "{one} | {other}");
        differ("select a from t", "select b from t");
        differ("select ab from t", "select a b from t");
        differ("select \"A\" from t", "select \"a\" from t");
        differ("select f(1)", "select f(1, 2)");
        differ("insert into t values (1)", "insert into t values (1), (2)");
        differ("select a from t2", "select a from t");
        differ("select a in (b, c)", "select a in (b)");
        differ("select a1", "select a 1");
        differ("begin; select 1", "begin select 1");
    }

    #[test]
    fn values_are_told_in_order() {
        let told = |text: &'static str| {
            let mut all = Vec::new();
            walk(text.as_bytes(), |number, literal| all.push((number, literal)));
            all.into_iter().map(|(_, literal)| literal).collect::<Vec<_>>()
        };
        let written = |text: &'static str| Literal::Written(text.as_bytes());
        assert_eq!(
            told("update t set a = 'x''y', b = $3 where id = 42"),
            [written("x''y"), Literal::Parameter(3), written("42")]
        );
        assert_eq!(told("select a in (1, 2), $key, 'open"), [written("1"), Literal::Named(b"key"), written("open")]);
    }

    #[test]
    fn keys_have_names() {
        let of_account = |value: &[u8]| Some(of_value(of_bytes([&b"accounts"[..]]), value));
        assert_eq!(of_key("accounts:7"), of_account(b"7"));
        assert_eq!(of_key("accounts:a:7"), of_account(b"a:7"));
        assert_ne!(of_key("7"), of_key("accounts:7"));
        assert_eq!(of_key(""), None);
    }

    #[test]
    fn garbage_has_a_number() {
        for text in
            ["'", "\"", "$", "$$", "$a$", "/*", "--", "e'\\", "e'", "x'", "1e", ".", "in (", "in (1,", "\u{e9}$"]
        {
            of(text.as_bytes());
        }
    }
}
