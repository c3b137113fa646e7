//! `to_char`, `to_number`, `to_date`, `to_timestamp`: formatting and parsing by a template.
//!
//! **Invariant:** a template is split like PostgreSQL's `formatting.c` does it, longest keyword first. Text that is not
//! a keyword stands for itself.

mod dates;
mod numbers;
mod roman;
mod scan;

use super::get::{float, int, interval, numeric, text};
use super::{Function, function, function_in};
use crate::Kind;
use crate::datum::Datum;
use statement::error::SqlResult;
use statement::pulse;

/// Part of a template.
#[derive(Clone, Debug, PartialEq)]
enum TemplateNode {
    /// Field of the value that is written or read.
    Field(TemplateField),
    /// A space, or in templates for dates a character that is neither letter nor digit.
    Separator(char),
    Letter(char),
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct TemplateField {
    /// Name as it is written in the template.
    name: &'static str,
    /// True after `FM`: without leading blanks and zeros.
    fill: bool,
    /// True after `TM`: names without blanks.
    translated: bool,
    ordinal: Option<OrdinalSuffix>,
}

/// Suffix `TH` or `th` after a number.
#[derive(Clone, Copy, Debug, PartialEq)]
enum OrdinalSuffix {
    Upper,
    Lower,
}

/// Work of one node of a template when it is written or read, in units of [`pulse::tick`].
const NODE: usize = 64;

/// Splits a template.
///
/// # Errors
/// Those of [`pulse::look`], as a template may be as long as any text.
fn nodes(template: &str, keywords: &[&'static str], is_date: bool) -> SqlResult<Vec<TemplateNode>> {
    let mut nodes = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        // Each keyword is compared with the text here.
        pulse::tick(2 * keywords.len())?;
        let (mut fill, mut translated) = (false, false);
        if is_date {
            let prefix = rest.get(..2).unwrap_or("");
            match prefix {
                "FM" | "fm" => fill = true,
                "TM" | "tm" => translated = true,
                _ => {}
            }
            if fill || translated {
                rest = &rest[2..];
            }
        }
        if let Some(name) = keywords.iter().filter(|name| rest.starts_with(**name)).max_by_key(|name| name.len()) {
            rest = &rest[name.len()..];
            let mut ordinal = None;
            if is_date {
                ordinal = match rest.get(..2) {
                    Some("TH") => Some(OrdinalSuffix::Upper),
                    Some("th") => Some(OrdinalSuffix::Lower),
                    _ => None,
                };
                if ordinal.is_some() || matches!(rest.get(..2), Some("SP" | "sp")) {
                    rest = &rest[2..];
                }
            }
            nodes.push(TemplateNode::Field(TemplateField { name, fill, translated, ordinal }));
            continue;
        }
        let mut letters = rest.chars();
        let Some(mut letter) = letters.next() else { break };
        if letter == '"' {
            while let Some(mut quoted) = letters.next() {
                pulse::tick(4)?;
                if quoted == '"' {
                    break;
                }
                if quoted == '\\' {
                    let escaped = letters.clone().next();
                    if let Some(escaped) = escaped {
                        letters.next();
                        quoted = escaped;
                    }
                }
                nodes.push(TemplateNode::Letter(quoted));
            }
            rest = letters.as_str();
            continue;
        }
        // A backslash stands for itself except before a quote.
        if letter == '\\' && letters.as_str().starts_with('"') {
            letters.next();
            letter = '"';
        }
        rest = letters.as_str();
        let is_separator = letter.is_ascii_whitespace() || letter == '\u{b}' || (is_date && is_sign(letter));
        nodes.push(if is_separator { TemplateNode::Separator(letter) } else { TemplateNode::Letter(letter) });
    }
    Ok(nodes)
}

/// Returns true for a character that may separate fields.
fn is_sign(letter: char) -> bool {
    letter.is_ascii_graphic() && !letter.is_ascii_alphanumeric()
}

/// Returns the letters after a number that make it an ordinal.
fn ordinal(digits: &str, case: OrdinalSuffix) -> &'static str {
    let last = digits.as_bytes().last().copied();
    let before = digits.len().checked_sub(2).and_then(|at| digits.as_bytes().get(at)).copied();
    let (upper, lower) = match last {
        _ if before == Some(b'1') => ("TH", "th"),
        Some(b'1') => ("ST", "st"),
        Some(b'2') => ("ND", "nd"),
        Some(b'3') => ("RD", "rd"),
        _ => ("TH", "th"),
    };
    match case {
        OrdinalSuffix::Upper => upper,
        OrdinalSuffix::Lower => lower,
    }
}

pub(super) fn functions() -> Vec<Function> {
    use Kind::{Date, Float4, Float8, Int4, Int8, Numeric, Text, Timestamp, Timestamptz};
    const TEXT: Kind = Kind::Text;
    vec![
        function("to_char", &[Timestamp, TEXT], Text, |a| {
            Ok(dates::moment_to_char(int(&a[0])?, None, text(&a[1])?)?.map_or(Datum::Null, Datum::text))
        }),
        function_in("to_char", &[Timestamptz, TEXT], Text, |a, env| {
            let micros = int(&a[0])?;
            let made = dates::moment_to_char(micros, Some(env.forms()), text(&a[1])?)?;
            Ok(made.map_or(Datum::Null, Datum::text))
        }),
        function("to_char", &[Kind::Interval, TEXT], Text, |a| {
            Ok(dates::interval_to_char(interval(&a[0])?, text(&a[1])?)?.map_or(Datum::Null, Datum::text))
        }),
        function("to_char", &[Int4, TEXT], Text, |a| {
            numbers::to_char(numbers::NumberInput::Int(int(&a[0])?), text(&a[1])?)
        }),
        function("to_char", &[Int8, TEXT], Text, |a| {
            numbers::to_char(numbers::NumberInput::Exact(numeric(&a[0])?.as_ref()), text(&a[1])?)
        }),
        function("to_char", &[Numeric, TEXT], Text, |a| {
            numbers::to_char(numbers::NumberInput::Exact(numeric(&a[0])?.as_ref()), text(&a[1])?)
        }),
        function("to_char", &[Float4, TEXT], Text, |a| {
            numbers::to_char(numbers::NumberInput::Float(float(&a[0])?, 6), text(&a[1])?)
        }),
        function("to_char", &[Float8, TEXT], Text, |a| {
            numbers::to_char(numbers::NumberInput::Float(float(&a[0])?, 15), text(&a[1])?)
        }),
        function("to_number", &[TEXT, TEXT], Numeric, |a| numbers::to_number(text(&a[0])?, text(&a[1])?)),
        function_in("to_timestamp", &[TEXT, TEXT], Timestamptz, |a, env| {
            scan::to_timestamp(text(&a[0])?, text(&a[1])?, env.forms()).map(Datum::Timestamp)
        }),
        function("to_date", &[TEXT, TEXT], Date, |a| scan::to_date(text(&a[0])?, text(&a[1])?).map(Datum::Date)),
    ]
}
