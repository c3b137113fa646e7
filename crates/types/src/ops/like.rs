//! LIKE, and the escape character of its pattern.

use super::get::text;
use super::{Function, Operator, function, operator};
use crate::Kind;
use crate::datum::Datum;
use crate::ops::build::TextBuilder;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;

fn bad_end() -> SqlError {
    SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "LIKE pattern must not end with escape character")
}

/// Number of steps of a match between two counts of work.
const STEPS: usize = 4096;

/// Returns true if the text matches the pattern. With `fold`, both cases of ASCII letters are equal, the only
/// letters that collation C knows.
///
/// # Errors
/// `22025`.
pub fn matches(value: &str, pattern: &str, fold: bool) -> SqlResult<bool> {
    let same = |a: char, b: char| if fold { a.eq_ignore_ascii_case(&b) } else { a == b };
    let (mut text, mut rest) = (value.chars(), pattern.chars());
    // Place of the last %: pattern and text to go back to, the latter one character further each time.
    let mut back: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    let mut steps = 0_usize;
    loop {
        steps += 1;
        if steps.is_multiple_of(STEPS) {
            pulse::tick(2 * STEPS)?;
        }
        let mut after = rest.clone();
        let hit = match after.next() {
            Some('%') => {
                back = Some((after.clone(), text.clone()));
                rest = after;
                continue;
            }
            None => {
                if text.as_str().is_empty() {
                    return Ok(true);
                }
                false
            }
            Some(expected) => match text.clone().next() {
                // Of the rest of the pattern, PostgreSQL checks only whether it consists of %.
                None => return Ok(false),
                Some(_) if expected == '_' => true,
                Some(found) if expected == '\\' => same(after.next().ok_or_else(bad_end)?, found),
                Some(found) => same(expected, found),
            },
        };
        if hit {
            text.next();
            rest = after;
            continue;
        }
        let Some((pattern, from)) = &mut back else { return Ok(false) };
        if from.next().is_none() {
            return Ok(false);
        }
        (rest, text) = (pattern.clone(), from.clone());
    }
}

/// Returns the pattern with backslash as its escape character, if it was written with another.
fn with_escape(args: &[Datum]) -> SqlResult<Datum> {
    let (pattern, escape) = (text(&args[0])?, text(&args[1])?);
    let mut chars = escape.chars();
    let escape = chars.next();
    if chars.next().is_some() {
        let error = SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string");
        return Err(error.hint("Escape string must be empty or one character."));
    }
    let mut out = TextBuilder::default();
    let mut escaped = false;
    for c in pattern.chars() {
        if Some(c) == escape && !escaped {
            out.push('\\')?;
            escaped = true;
            continue;
        }
        if c == '\\' && escape != Some('\\') && !escaped {
            out.push('\\')?;
        }
        pulse::tick(4)?;
        out.push(c)?;
        escaped = false;
    }
    Ok(out.finish())
}

pub(super) fn operators() -> Vec<Operator> {
    let like: [(&str, super::PlainFunction); 4] = [
        ("~~", |a| Ok(Datum::Bool(matches(text(&a[0])?, text(&a[1])?, false)?))),
        ("!~~", |a| Ok(Datum::Bool(!matches(text(&a[0])?, text(&a[1])?, false)?))),
        ("~~*", |a| Ok(Datum::Bool(matches(text(&a[0])?, text(&a[1])?, true)?))),
        ("!~~*", |a| Ok(Datum::Bool(!matches(text(&a[0])?, text(&a[1])?, true)?))),
    ];
    let kinds = [Kind::Text, Kind::Bpchar, Kind::Name];
    like.iter().flat_map(|(name, eval)| kinds.map(|left| operator(name, left, Kind::Text, Kind::Bool, *eval))).collect()
}

pub(super) fn functions() -> Vec<Function> {
    vec![function("like_escape", &[Kind::Text, Kind::Text], Kind::Text, with_escape)]
}
