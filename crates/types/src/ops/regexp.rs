//! Functions and operators of regular expressions.

use super::build::{self, TextBuilder};
use super::get::{int, text};
use super::{Function, Operator, PlainFunction, function, operator};
use crate::datum::Datum;
use crate::regex::{Regex, RegexOptions, Span, set_option};
use crate::{Element, Kind};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse::{self, slices};
use std::sync::Arc;

fn refused(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// Reads the letters of options. Returns true with them if `g` is among them.
fn options(flags: &str) -> SqlResult<(RegexOptions, bool)> {
    let (mut options, mut global) = (RegexOptions::default(), false);
    for letter in flags.chars() {
        if letter == 'g' {
            global = true;
            continue;
        }
        set_option(&mut options, letter)
            .map_err(|()| refused(format!("invalid regular expression option: \"{letter}\"")))??;
    }
    Ok((options, global))
}

fn no_global(of: &str) -> SqlError {
    refused(format!("{of} does not support the \"global\" option"))
}

/// Reads the options of a function that does not accept `g`.
fn options_without_global(flags: Option<&Datum>, of: &str) -> SqlResult<RegexOptions> {
    let (options, global) = options(flags.map_or(Ok(""), text)?)?;
    if global {
        return Err(no_global(of));
    }
    Ok(options)
}

fn chars(datum: &Datum) -> SqlResult<Vec<char>> {
    let mut chars = Vec::new();
    for slice in slices(text(datum)?) {
        pulse::tick(slice.len() * 2)?;
        chars.extend(slice.chars());
    }
    Ok(chars)
}

fn push_chars(out: &mut TextBuilder, chars: &[char]) -> SqlResult<()> {
    for some in chars.chunks(pulse::SLICE) {
        pulse::tick(1 + some.len())?;
        some.iter().try_for_each(|c| out.push(*c))?;
    }
    Ok(())
}

fn string(chars: &[char], (from, to): Span) -> SqlResult<Datum> {
    let mut out = TextBuilder::default();
    push_chars(&mut out, &chars[from..to])?;
    Ok(out.finish())
}

fn is_match(args: &[Datum], ignore_case: bool) -> SqlResult<bool> {
    let regex = Regex::new(text(&args[1])?, RegexOptions { ignore_case, ..RegexOptions::default() })?;
    regex.is_match(&chars(&args[0])?)
}

/// A match with its subexpressions.
type Match = Vec<Option<Span>>;

/// Returns matches one after another from a character on, all if `global`. With `split`, empty matches at the ends and
/// next to another match are left out.
fn matches(regex: &Regex, all: &[char], from: usize, global: bool, split: bool) -> SqlResult<Vec<Match>> {
    let mut found = Vec::new();
    let (mut start, mut end) = (from, 0);
    while let Some(spans) = regex.captures(all, start)? {
        let Some((so, eo)) = spans[0] else { break };
        if !split || (so < all.len() && eo > end) {
            found.push(spans);
        }
        end = eo;
        start = if so == eo { eo + 1 } else { eo };
        if !global || start > all.len() {
            break;
        }
    }
    Ok(found)
}

/// Returns the subexpressions of a match as an array, or the match if there are none.
fn groups(all: &[char], spans: &Match) -> SqlResult<Datum> {
    let own = if spans.len() > 1 { &spans[1..] } else { &spans[..] };
    let one = |span: &Option<Span>| span.map_or(Ok(Datum::Null), |span| string(all, span));
    build::array(own.iter().map(one).collect::<SqlResult<_>>()?)
}

fn regexp_match(args: &[Datum]) -> SqlResult<Datum> {
    let (options, global) = options(args.get(2).map_or(Ok(""), text)?)?;
    if global {
        return Err(no_global("regexp_match()").hint(USE_MATCHES));
    }
    let (regex, all) = (Regex::new(text(&args[1])?, options)?, chars(&args[0])?);
    matches(&regex, &all, 0, false, false)?.first().map_or(Ok(Datum::Null), |found| groups(&all, found))
}

const USE_MATCHES: &str = "Use the regexp_matches function instead.";

/// Returns the rows of `regexp_matches`.
///
/// # Errors
/// Those of the functions.
fn regexp_matches(args: &[Datum]) -> SqlResult<Vec<Datum>> {
    let (options, global) = options(args.get(2).map_or(Ok(""), text)?)?;
    let (regex, all) = (Regex::new(text(&args[1])?, options)?, chars(&args[0])?);
    matches(&regex, &all, 0, global, false)?.iter().map(|found| groups(&all, found)).collect()
}

/// Returns the parts of a text between matches: rows of `regexp_split_to_table`, items of `regexp_split_to_array`.
///
/// # Errors
/// Those of the functions.
pub fn regexp_split(args: &[Datum], of: &str) -> SqlResult<Vec<Datum>> {
    let options = options_without_global(args.get(2), of)?;
    let (regex, all) = (Regex::new(text(&args[1])?, options)?, chars(&args[0])?);
    let mut parts = Vec::new();
    let mut from = 0;
    for (so, eo) in matches(&regex, &all, 0, true, true)?.into_iter().filter_map(|spans| spans[0]) {
        parts.push(string(&all, (from, so))?);
        from = eo;
    }
    parts.push(string(&all, (from, all.len()))?);
    Ok(parts)
}

/// Returns the first subexpression, or the match if there is none.
fn first_group(all: &[char], spans: &Match) -> SqlResult<Datum> {
    spans.get(1).unwrap_or(&spans[0]).map_or(Ok(Datum::Null), |span| string(all, span))
}

fn substring(args: &[Datum]) -> SqlResult<Datum> {
    let (regex, all) = (Regex::new(text(&args[1])?, RegexOptions::default())?, chars(&args[0])?);
    regex.captures(&all, 0)?.map_or(Ok(Datum::Null), |spans| first_group(&all, &spans))
}

/// Appends a replacement, in which `\1` to `\9`, `\&` and `\\` have their special meanings.
fn push_replacement(out: &mut TextBuilder, replacement: &str, all: &[char], spans: &Match) -> SqlResult<()> {
    let mut rest = replacement.chars();
    while let Some(c) = rest.next() {
        pulse::tick(4)?;
        if c != '\\' {
            out.push(c)?;
            continue;
        }
        let mut after = rest.clone();
        let number = match after.next() {
            Some('&') => 0,
            Some(digit @ '1'..='9') => digit as usize - '0' as usize,
            Some('\\') => {
                out.push('\\')?;
                rest = after;
                continue;
            }
            _ => {
                out.push('\\')?;
                continue;
            }
        };
        rest = after;
        if let Some(Some((from, to))) = spans.get(number) {
            push_chars(out, &all[*from..*to])?;
        }
    }
    Ok(())
}

/// Replaces the match of this number from a character on, or all matches for 0.
fn replaced(regex: &Regex, source: &Datum, replacement: &str, from: usize, number: i64) -> SqlResult<Datum> {
    let all = chars(source)?;
    let mut out = TextBuilder::default();
    let (mut start, mut copied, mut count) = (from, 0, 0);
    while start <= all.len()
        && let Some(spans) = regex.captures(&all, start)?
        && let Some((so, eo)) = spans[0]
    {
        count += 1;
        start = if so == eo { eo + 1 } else { eo };
        if number > 0 && count != number {
            continue;
        }
        push_chars(&mut out, &all[copied..so])?;
        push_replacement(&mut out, replacement, &all, &spans)?;
        copied = eo;
        if number > 0 {
            break;
        }
    }
    push_chars(&mut out, &all[copied..])?;
    Ok(out.finish())
}

fn replace(args: &[Datum]) -> SqlResult<Datum> {
    let flags = args.get(3).map_or(Ok(""), text)?;
    // A digit may be meant as the start.
    if let Some(digit) = flags.chars().next().filter(char::is_ascii_digit) {
        let error = refused(format!("invalid regular expression option: \"{digit}\""));
        return Err(error.hint(
            "If you meant to use regexp_replace() with a start parameter, cast the fourth argument to integer explicitly.",
        ));
    }
    let (options, global) = options(flags)?;
    let regex = Regex::new(text(&args[1])?, options)?;
    replaced(&regex, &args[0], text(&args[2])?, 0, if global { 0 } else { 1 })
}

/// Returns a number among the arguments, which must be at least `least`.
fn number(args: &[Datum], at: usize, default: i64, least: i64, name: &str) -> SqlResult<i64> {
    let value = args.get(at).map_or(Ok(default), int)?;
    if value < least {
        return Err(refused(format!("invalid value for parameter \"{name}\": {value}")));
    }
    Ok(value)
}

fn replace_from(args: &[Datum]) -> SqlResult<Datum> {
    let start = number(args, 3, 1, 1, "start")?;
    let count = number(args, 4, 1, 0, "n")?;
    let (options, global) = options(args.get(5).map_or(Ok(""), text)?)?;
    // The number overrides the option `g`.
    let count = if global && args.len() < 5 { 0 } else { count };
    let regex = Regex::new(text(&args[1])?, options)?;
    replaced(&regex, &args[0], text(&args[2])?, start as usize - 1, count)
}

fn count(args: &[Datum]) -> SqlResult<Datum> {
    let start = number(args, 2, 1, 1, "start")? as usize - 1;
    let options = options_without_global(args.get(3), "regexp_count()")?;
    let (regex, all) = (Regex::new(text(&args[1])?, options)?, chars(&args[0])?);
    Ok(Datum::Int4(matches(&regex, &all, start, true, false)?.len() as i32))
}

fn like(args: &[Datum]) -> SqlResult<Datum> {
    let options = options_without_global(args.get(2), "regexp_like()")?;
    Ok(Datum::Bool(Regex::new(text(&args[1])?, options)?.is_match(&chars(&args[0])?)?))
}

/// Returns the subexpression of one number in the match of another.
fn one_of(
    args: &[Datum],
    [start, n, flags, group]: [usize; 4],
    of: &str,
) -> SqlResult<(Arc<Regex>, Vec<char>, Option<Span>)> {
    let from = number(args, start, 1, 1, "start")? as usize - 1;
    let n = number(args, n, 1, 1, "n")? as usize;
    let options = options_without_global(args.get(flags), of)?;
    let group = number(args, group, 0, 0, "subexpr")? as usize;
    let (regex, all) = (Regex::new(text(&args[1])?, options)?, chars(&args[0])?);
    // Without subexpressions, the whole match counts as the first.
    let group = if group == 1 && regex.groups == 0 { 0 } else { group };
    let found = matches(&regex, &all, from, true, false)?;
    let span = found.get(n - 1).and_then(|spans| spans.get(group).copied().flatten());
    Ok((regex, all, span))
}

fn instr(args: &[Datum]) -> SqlResult<Datum> {
    number(args, 2, 1, 1, "start")?;
    number(args, 3, 1, 1, "n")?;
    let end = args.get(4).map_or(Ok(0), int)?;
    if !(0..=1).contains(&end) {
        return Err(refused(format!("invalid value for parameter \"endoption\": {end}")));
    }
    let (_, _, span) = one_of(args, [2, 3, 5, 6], "regexp_instr()")?;
    Ok(Datum::Int4(span.map_or(0, |(from, to)| (if end == 1 { to } else { from }) as i32 + 1)))
}

fn substr(args: &[Datum]) -> SqlResult<Datum> {
    let (_, all, span) = one_of(args, [2, 3, 4, 5], "regexp_substr()")?;
    span.map_or(Ok(Datum::Null), |span| string(&all, span))
}

/// Converts a pattern of `SIMILAR TO` to a regular expression.
fn similar(pattern: &str, escape: Option<&str>) -> SqlResult<String> {
    let escape = escape.unwrap_or("\\");
    let mut chars = escape.chars();
    let escape = chars.next();
    if chars.next().is_some() {
        let error = SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string");
        return Err(error.hint("Escape string must be empty or one character."));
    }
    let mut out = String::from("^(?:");
    let (mut escaped, mut brackets, mut quotes) = (false, false, 0);
    for c in pattern.chars() {
        if escaped {
            if c == '"' && !brackets {
                // The part between two escaped quotes is the result of substring().
                match quotes {
                    0 => out.push_str("){1,1}?("),
                    1 => out.push_str("){1,1}(?:"),
                    _ => {
                        let message =
                            "SQL regular expression may not contain more than two escape-double-quote separators";
                        return Err(SqlError::new(SqlState::INVALID_USE_OF_ESCAPE_CHARACTER, message));
                    }
                }
                quotes += 1;
            } else {
                out.push('\\');
                out.push(c);
            }
            escaped = false;
        } else if Some(c) == escape {
            escaped = true;
        } else if brackets {
            if c == '\\' {
                out.push('\\');
            }
            out.push(c);
            brackets = c != ']';
        } else {
            match c {
                '[' => {
                    out.push('[');
                    brackets = true;
                }
                '%' => out.push_str(".*"),
                '_' => out.push('.'),
                '(' => out.push_str("(?:"),
                '\\' | '.' | '^' | '$' => {
                    out.push('\\');
                    out.push(c);
                }
                _ => out.push(c),
            }
        }
    }
    out.push_str(")$");
    Ok(out)
}

fn similar_function(args: &[Datum]) -> SqlResult<Datum> {
    similar(text(&args[0])?, args.get(1).map(text).transpose()?).map(Datum::text)
}

fn similar_substring(args: &[Datum]) -> SqlResult<Datum> {
    let pattern = similar(text(&args[1])?, Some(text(&args[2])?))?;
    substring(&[args[0].clone(), Datum::text(pattern)])
}

pub(super) fn operators() -> Vec<Operator> {
    let all: [(&'static str, PlainFunction); 4] = [
        ("~", |a| Ok(Datum::Bool(is_match(a, false)?))),
        ("~*", |a| Ok(Datum::Bool(is_match(a, true)?))),
        ("!~", |a| Ok(Datum::Bool(!is_match(a, false)?))),
        ("!~*", |a| Ok(Datum::Bool(!is_match(a, true)?))),
    ];
    let kinds = [Kind::Text, Kind::Bpchar, Kind::Name];
    all.iter().flat_map(|(name, eval)| kinds.map(|left| operator(name, left, Kind::Text, Kind::Bool, *eval))).collect()
}

pub(super) fn functions() -> Vec<Function> {
    use Kind::{Bool, Int4, Text};
    const TEXTS: Kind = Kind::Array(Element::Text);
    let mut all = vec![
        function("substring", &[Text, Text], Text, substring),
        function("substring", &[Text, Text, Text], Text, similar_substring),
        function("similar_to_escape", &[Text], Text, similar_function),
        function("similar_to_escape", &[Text, Text], Text, similar_function),
        function("regexp_match", &[Text, Text], TEXTS, regexp_match),
        function("regexp_match", &[Text, Text, Text], TEXTS, regexp_match),
        function("regexp_replace", &[Text, Text, Text], Text, replace),
        function("regexp_replace", &[Text, Text, Text, Text], Text, replace),
        function("regexp_replace", &[Text, Text, Text, Int4], Text, replace_from),
        function("regexp_replace", &[Text, Text, Text, Int4, Int4], Text, replace_from),
        function("regexp_replace", &[Text, Text, Text, Int4, Int4, Text], Text, replace_from),
    ];
    const SPLIT: &str = "regexp_split_to_array()";
    const SPLIT_ROWS: &str = "regexp_split_to_table()";
    let lines: [(&str, &[&'static [Kind]], Kind, PlainFunction); 7] = [
        // These return all rows as an array, which the binder makes a set.
        ("regexp_split_to_table", &[&[Text, Text], &[Text, Text, Text]], TEXTS, |a| {
            regexp_split(a, SPLIT_ROWS).and_then(build::array)
        }),
        ("regexp_matches", &[&[Text, Text], &[Text, Text, Text]], TEXTS, |a| regexp_matches(a).and_then(build::array)),
        ("regexp_split_to_array", &[&[Text, Text], &[Text, Text, Text]], TEXTS, |a| {
            regexp_split(a, SPLIT).and_then(build::array)
        }),
        ("regexp_like", &[&[Text, Text], &[Text, Text, Text]], Bool, like),
        ("regexp_count", &[&[Text, Text], &[Text, Text, Int4], &[Text, Text, Int4, Text]], Int4, count),
        (
            "regexp_instr",
            &[
                &[Text, Text],
                &[Text, Text, Int4],
                &[Text, Text, Int4, Int4],
                &[Text, Text, Int4, Int4, Int4],
                &[Text, Text, Int4, Int4, Int4, Text],
                &[Text, Text, Int4, Int4, Int4, Text, Int4],
            ],
            Int4,
            instr,
        ),
        (
            "regexp_substr",
            &[
                &[Text, Text],
                &[Text, Text, Int4],
                &[Text, Text, Int4, Int4],
                &[Text, Text, Int4, Int4, Text],
                &[Text, Text, Int4, Int4, Text, Int4],
            ],
            Text,
            substr,
        ),
    ];
    for (name, signatures, result, eval) in lines {
        all.extend(signatures.iter().map(|arguments| function(name, arguments, result, eval)));
    }
    all
}
