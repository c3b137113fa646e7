//! Access to the parts of JSON texts.
//!
//! **Invariant:** the texts were checked when they were read, so they are well formed. A part is
//! returned as it is written.

use super::build::{self, TextBuilder};
use super::get::{int, items, text};
use super::{Function, Operator, function, operator};
use crate::datum::Datum;
use crate::{Element, Kind};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;

/// Returns a text as a JSON string.
pub fn quoted(text: &str) -> String {
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

fn is_space(byte: u8) -> bool {
    b" \t\n\r".contains(&byte)
}

fn trimmed(json: &str) -> &str {
    json.trim_matches([' ', '\t', '\n', '\r'])
}

/// Returns the end of the value that begins here.
fn end_of(json: &str, from: usize) -> SqlResult<usize> {
    let bytes = json.as_bytes();
    let (mut at, mut depth, mut in_text) = (from, 0_usize, false);
    while let Some(byte) = bytes.get(at) {
        pulse::tick(2)?;
        match byte {
            b'\\' if in_text => at += 1,
            b'"' => {
                in_text = !in_text;
                if !in_text && depth == 0 {
                    return Ok(at + 1);
                }
            }
            _ if in_text => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return Ok(at),
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Ok(at + 1);
                }
            }
            b',' | b':' if depth == 0 => return Ok(at),
            byte if depth == 0 && is_space(*byte) => return Ok(at),
            _ => {}
        }
        at += 1;
    }
    Ok(at.min(json.len()))
}

/// Returns the parts of an array or object. For an object, keys and values alternate.
fn parts(json: &str) -> SqlResult<Vec<&str>> {
    let json = trimmed(json);
    let bytes = json.as_bytes();
    let mut parts = Vec::new();
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        pulse::tick(16)?;
        if is_space(*byte) || matches!(byte, b',' | b':') {
            at += 1;
        } else if matches!(byte, b'}' | b']') {
            break;
        } else {
            let end = end_of(json, at)?;
            parts.push(&json[at..end]);
            at = end.max(at + 1);
        }
    }
    Ok(parts)
}

fn is_object(json: &str) -> bool {
    trimmed(json).starts_with('{')
}

fn is_array(json: &str) -> bool {
    trimmed(json).starts_with('[')
}

/// Returns the keys, as text, and values of an object.
fn members(json: &str) -> SqlResult<Vec<(String, &str)>> {
    parts(json)?.chunks_exact(2).map(|pair| Ok((unquoted(pair[0])?, pair[1]))).collect()
}

/// Returns the characters of a JSON string.
fn unquoted(json: &str) -> SqlResult<String> {
    let inner = json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or(json);
    let mut out = TextBuilder::default();
    let mut letters = inner.chars();
    let refused = |detail: &str| {
        SqlError::new(SqlState::UNTRANSLATABLE_CHARACTER, "unsupported Unicode escape sequence")
            .detail(detail.to_owned())
    };
    while let Some(letter) = letters.next() {
        pulse::tick(4)?;
        if letter != '\\' {
            out.push(letter)?;
            continue;
        }
        match letters.next() {
            Some('b') => out.push('\u{8}')?,
            Some('f') => out.push('\u{c}')?,
            Some('n') => out.push('\n')?,
            Some('r') => out.push('\r')?,
            Some('t') => out.push('\t')?,
            Some('u') => {
                let unit = |letters: &mut std::str::Chars<'_>| {
                    let hex: String = letters.take(4).collect();
                    u32::from_str_radix(&hex, 16).unwrap_or(0)
                };
                let mut code = unit(&mut letters);
                if code == 0 {
                    return Err(refused("\\u0000 cannot be converted to text."));
                }
                // A high surrogate is followed by a low one, in an escape of its own.
                if (0xd800..0xdc00).contains(&code) && letters.as_str().starts_with("\\u") {
                    letters.nth(1);
                    let low = unit(&mut letters);
                    code = 0x1_0000 + ((code - 0xd800) << 10) + low.wrapping_sub(0xdc00);
                }
                out.push(char::from_u32(code).ok_or_else(|| refused("Unicode surrogates stand alone."))?)?;
            }
            Some(other) => out.push(other)?,
            None => {}
        }
    }
    Ok(out.into_string())
}

/// Returns a value as text: the characters of a JSON string, and NULL for JSON's null.
fn as_text(json: &str) -> SqlResult<Datum> {
    match trimmed(json) {
        "null" => Ok(Datum::Null),
        quoted if quoted.starts_with('"') => unquoted(quoted).map(Datum::text),
        other => build::text(other),
    }
}

fn given(found: Option<&str>, wants_text: bool) -> SqlResult<Datum> {
    match found {
        None => Ok(Datum::Null),
        Some(json) if wants_text => as_text(json),
        Some(json) => build::text(json),
    }
}

fn member<'j>(json: &'j str, key: &str) -> SqlResult<Option<&'j str>> {
    if !is_object(json) {
        return Ok(None);
    }
    // The last of several members with one key counts.
    Ok(members(json)?.into_iter().rfind(|(own, _)| own == key).map(|(_, value)| value))
}

fn item(json: &str, at: i64) -> SqlResult<Option<&str>> {
    if !is_array(json) {
        return Ok(None);
    }
    let items = parts(json)?;
    let at = if at < 0 { at + items.len() as i64 } else { at };
    Ok(usize::try_from(at).ok().and_then(|at| items.get(at)).copied())
}

fn at_path(json: &Datum, path: &Datum, wants_text: bool) -> SqlResult<Datum> {
    let mut found = text(json)?;
    for step in items(path)? {
        if step.is_null() {
            return Ok(Datum::Null);
        }
        let step = text(step)?;
        let next = match step.trim().parse::<i64>() {
            Ok(at) if is_array(found) => item(found, at)?,
            _ => member(found, step)?,
        };
        match next {
            Some(next) => found = next,
            None => return Ok(Datum::Null),
        }
    }
    given(Some(found), wants_text)
}

fn wrong(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// Returns the elements of an array, or the error for another value.
fn elements<'j>(json: &'j str, name: &str) -> SqlResult<Vec<&'j str>> {
    match () {
        () if is_array(json) => parts(json),
        () if is_object(json) => Err(wrong(&format!("cannot call {name} on a non-array"))),
        () => Err(wrong(&format!("cannot call {name} on a scalar"))),
    }
}

fn object<'j>(json: &'j str, name: &str) -> SqlResult<Vec<(String, &'j str)>> {
    match () {
        () if is_object(json) => members(json),
        () if is_array(json) => Err(wrong(&format!("cannot call {name} on an array"))),
        () => Err(wrong(&format!("cannot call {name} on a scalar"))),
    }
}

/// Returns the members for `json_each`, which has error messages of its own.
fn taken_apart(json: &str) -> SqlResult<Vec<(String, &str)>> {
    match () {
        () if is_object(json) => members(json),
        () if is_array(json) => Err(wrong("cannot deconstruct an array as an object")),
        () => Err(wrong("cannot deconstruct a scalar")),
    }
}

fn length(json: &str) -> SqlResult<Datum> {
    match () {
        () if is_array(json) => Ok(Datum::Int4(parts(json)?.len() as i32)),
        () if is_object(json) => Err(wrong("cannot get array length of a non-array")),
        () => Err(wrong("cannot get array length of a scalar")),
    }
}

fn kind_of(json: &str) -> &'static str {
    match trimmed(json).as_bytes().first() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "number",
    }
}

/// Appends a value without the members that are null.
fn without_nulls(json: &str, out: &mut TextBuilder) -> SqlResult<()> {
    let json = trimmed(json);
    if is_object(json) {
        out.push('{')?;
        let mut is_first = true;
        for pair in parts(json)?.chunks_exact(2).filter(|pair| pair[1] != "null") {
            if !std::mem::take(&mut is_first) {
                out.push(',')?;
            }
            out.push_str(pair[0])?;
            out.push(':')?;
            without_nulls(pair[1], out)?;
        }
        out.push('}')?;
    } else if is_array(json) {
        out.push('[')?;
        for (at, part) in parts(json)?.into_iter().enumerate() {
            if 0 < at {
                out.push(',')?;
            }
            without_nulls(part, out)?;
        }
        out.push(']')?;
    } else {
        out.push_str(json)?;
    }
    Ok(())
}

fn all(items: impl Iterator<Item = SqlResult<Datum>>) -> SqlResult<Datum> {
    build::array(items.collect::<SqlResult<Vec<_>>>()?)
}

pub(super) fn operators() -> Vec<Operator> {
    use Kind::{Int4, Json, Text};
    const PATH: Kind = Kind::Array(Element::Text);
    vec![
        operator("->", Json, Text, Json, |a| given(member(text(&a[0])?, text(&a[1])?)?, false)),
        operator("->>", Json, Text, Text, |a| given(member(text(&a[0])?, text(&a[1])?)?, true)),
        operator("->", Json, Int4, Json, |a| given(item(text(&a[0])?, int(&a[1])?)?, false)),
        operator("->>", Json, Int4, Text, |a| given(item(text(&a[0])?, int(&a[1])?)?, true)),
        operator("#>", Json, PATH, Json, |a| at_path(&a[0], &a[1], false)),
        operator("#>>", Json, PATH, Text, |a| at_path(&a[0], &a[1], true)),
    ]
}

/// Returns the object of these keys and values, which are texts.
fn object_of<'a>(members: impl Iterator<Item = (&'a Datum, &'a Datum)>) -> SqlResult<Datum> {
    let mut out = TextBuilder::default();
    out.push('{')?;
    for (at, (key, value)) in members.enumerate() {
        if key.is_null() {
            return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "null value not allowed for object key"));
        }
        if 0 < at {
            out.push_str(", ")?;
        }
        out.push_str(&quoted(text(key)?))?;
        out.push_str(" : ")?;
        out.push_str(&if value.is_null() { "null".to_owned() } else { quoted(text(value)?) })?;
    }
    out.push('}')?;
    Ok(out.finish())
}

/// Returns the functions of JSON. Functions that return sets return all rows as an array, which the binder makes a set.
pub(super) fn functions() -> Vec<Function> {
    use Kind::{Int4, Json, Text};
    const JSON: Kind = Kind::Json;
    const TEXTS: Kind = Kind::Array(Element::Text);
    let path = |name, result, eval| Function { variadic: true, ..function(name, &[JSON, Text], result, eval) };
    vec![
        function("json_array_length", &[JSON], Int4, |a| length(text(&a[0])?)),
        function("json_typeof", &[JSON], Text, |a| Ok(Datum::text(kind_of(text(&a[0])?)))),
        function("json_strip_nulls", &[JSON], Json, |a| {
            let mut out = TextBuilder::default();
            without_nulls(text(&a[0])?, &mut out)?;
            Ok(out.finish())
        }),
        path("json_extract_path", Json, |a| at_path(&a[0], &Datum::Array(a[1..].into()), false)),
        path("json_extract_path_text", Text, |a| at_path(&a[0], &Datum::Array(a[1..].into()), true)),
        function("json_object", &[TEXTS], Json, |a| {
            let all = items(&a[0])?;
            if all.len() % 2 == 1 {
                return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, "array must have even number of elements"));
            }
            object_of(all.chunks_exact(2).map(|pair| (&pair[0], &pair[1])))
        }),
        // An empty array has no dimensions, for which PostgreSQL has a message of its own.
        function("json_object", &[TEXTS, TEXTS], Json, |a| {
            let (keys, values) = (items(&a[0])?, items(&a[1])?);
            if keys.len() != values.len() {
                let has_none = keys.is_empty() || values.is_empty();
                let message = if has_none { "wrong number of array subscripts" } else { "mismatched array dimensions" };
                return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
            }
            object_of(keys.iter().zip(values))
        }),
        function("json_array_elements", &[JSON], TEXTS, |a| {
            all(elements(text(&a[0])?, "json_array_elements")?.into_iter().map(|one| Ok(Datum::text(one))))
        }),
        function("json_array_elements_text", &[JSON], TEXTS, |a| {
            all(elements(text(&a[0])?, "json_array_elements_text")?.into_iter().map(as_text))
        }),
        function("json_object_keys", &[JSON], TEXTS, |a| {
            all(object(text(&a[0])?, "json_object_keys")?.into_iter().map(|(key, _)| Ok(Datum::text(key))))
        }),
        function("json_each", &[JSON], TEXTS, |a| {
            all(taken_apart(text(&a[0])?)?.into_iter().map(|(_, value)| Ok(Datum::text(value))))
        }),
        function("json_each_keys", &[JSON], TEXTS, |a| {
            all(taken_apart(text(&a[0])?)?.into_iter().map(|(key, _)| Ok(Datum::text(key))))
        }),
        function("json_each_text", &[JSON], TEXTS, |a| {
            all(taken_apart(text(&a[0])?)?.into_iter().map(|(_, value)| as_text(value)))
        }),
    ]
}
