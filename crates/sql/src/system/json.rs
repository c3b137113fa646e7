//! What the binder makes of `json_build_object` and its like.
//!
//! **Invariant:** arguments are JSON already, as text.

use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::ops::Function;
use crate::types::Kind;

fn words(value: &Datum) -> &str {
    match value {
        Datum::Text(text) => text,
        Datum::Null => "null",
        _ => "",
    }
}

/// A text in JSON's quotes.
fn string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if u32::from(control) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// Numbers are as they are, but for what JSON has no numbers for.
fn number(text: &str) -> String {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    if is_number { text.to_owned() } else { string(text) }
}

fn object(args: &[Datum]) -> SqlResult<Datum> {
    let mut parts = Vec::with_capacity(args.len() / 2);
    for (at, pair) in args.chunks(2).enumerate() {
        let [key, value] = pair else { continue };
        if key.is_null() {
            let message = format!("argument {} cannot be null", 2 * at + 1);
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).hint("Object keys should be text."));
        }
        parts.push(format!("{} : {}", words(key), words(value)));
    }
    Ok(Datum::text(format!("{{{}}}", parts.join(", "))))
}

pub(super) fn functions() -> Vec<Function> {
    const TEXT: Kind = Kind::Text;
    let line = |name, eval| Function { strict: true, ..crate::ops::line_in(name, &[TEXT], TEXT, eval) };
    let many =
        |name, eval| Function { strict: false, variadic: true, ..crate::ops::line_in(name, &[TEXT], TEXT, eval) };
    vec![
        line("json_key", |a, _| Ok(Datum::text(string(words(&a[0]))))),
        line("json_string", |a, _| Ok(Datum::text(string(words(&a[0]))))),
        line("json_number", |a, _| Ok(Datum::text(number(words(&a[0]))))),
        many("json_object_of", |a, _| object(a)),
        many("json_array_of", |a, _| {
            Ok(Datum::text(format!("[{}]", a.iter().map(words).collect::<Vec<_>>().join(", "))))
        }),
    ]
}
