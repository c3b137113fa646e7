//! Arrays of one dimension as text: `{1,2,NULL,"a b"}`.

use super::{input as input_element, output as output_element};
use crate::SqlType;
use crate::datum::Datum;
use crate::forms::Forms;
use crate::ops::build::TextBuilder;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse::{self, slices};

fn malformed(text: &str, detail: &str) -> SqlError {
    let message = format!("malformed array literal: \"{text}\"");
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message).detail(detail)
}

/// Reads an array of such elements.
pub(super) fn input(text: &str, element: SqlType, forms: &Forms) -> SqlResult<Datum> {
    const END: &str = "Unexpected end of input.";
    let body = text.trim_start();
    if body.starts_with('[') {
        return Err(SqlError::unsupported("an array with bounds"));
    }
    let Some(body) = body.strip_prefix('{') else {
        return Err(malformed(text, "Array value must start with \"{\" or dimension information."));
    };
    let mut items = Vec::new();
    let mut chars = body.chars().peekable();
    loop {
        while chars.next_if(|c| c.is_ascii_whitespace()).is_some() {}
        let mut item = String::new();
        // Length of the item without trailing blanks. Quoted or escaped characters stay.
        let mut kept = 0;
        let mut quoted = false;
        let end = loop {
            pulse::tick(4)?;
            match chars.next() {
                None => return Err(malformed(text, END)),
                Some('"') => {
                    if quoted || kept > 0 || !item.is_empty() {
                        return Err(malformed(text, "Unexpected array element."));
                    }
                    quoted = true;
                    loop {
                        pulse::tick(4)?;
                        match chars.next() {
                            None => return Err(malformed(text, END)),
                            Some('"') => break,
                            Some('\\') => item.push(chars.next().ok_or_else(|| malformed(text, END))?),
                            Some(c) => item.push(c),
                        }
                    }
                    kept = item.len();
                }
                Some('{') if item.is_empty() && !quoted => {
                    return Err(SqlError::unsupported("an array of more than one dimension"));
                }
                Some('{') => return Err(malformed(text, "Unexpected \"{\" character.")),
                Some(end @ (',' | '}')) => break end,
                Some(c) if c.is_ascii_whitespace() => item.push(c),
                Some(_) if quoted => return Err(malformed(text, "Unexpected array element.")),
                Some('\\') => {
                    item.push(chars.next().ok_or_else(|| malformed(text, END))?);
                    kept = item.len();
                }
                Some(c) => {
                    item.push(c);
                    kept = item.len();
                }
            }
        };
        item.truncate(kept);
        if item.is_empty() && !quoted {
            if end == '}' && items.is_empty() {
                break;
            }
            return Err(malformed(text, &format!("Unexpected \"{end}\" character.")));
        }
        items.push(if !quoted && item.eq_ignore_ascii_case("null") {
            Datum::Null
        } else {
            input_element(&item, element, forms)?
        });
        if end == '}' {
            break;
        }
    }
    if chars.any(|c| !c.is_ascii_whitespace()) {
        return Err(malformed(text, "Junk after closing right brace."));
    }
    Ok(Datum::Array(items.into()))
}

/// Appends an array like [`output`].
///
/// # Errors
/// `54000` for a result that would be too long, `57014`.
pub(super) fn build(items: &[Datum], element: SqlType, forms: &Forms, out: &mut TextBuilder) -> SqlResult<()> {
    for (index, item) in items.iter().enumerate() {
        out.push(if index == 0 { '{' } else { ',' })?;
        let mut written = TextBuilder::default();
        super::build(item, element, forms, &mut written)?;
        let written = written.into_string();
        if item.is_null() {
            out.push_str("NULL")?;
        } else if is_special(&written) {
            out.push('"')?;
            for slice in slices(&written) {
                pulse::tick(4 * slice.len())?;
                for c in slice.chars() {
                    if matches!(c, '"' | '\\') {
                        out.push('\\')?;
                    }
                    out.push(c)?;
                }
            }
            out.push('"')?;
        } else {
            out.push_str(&written)?;
        }
    }
    out.push_str(if items.is_empty() { "{}" } else { "}" })
}

/// Returns true if an element must be quoted.
fn is_special(written: &str) -> bool {
    let special = |c: char| c.is_ascii_whitespace() || c == '\x0b' || "\"\\{},".contains(c);
    written.is_empty() || written.eq_ignore_ascii_case("null") || written.contains(special)
}

/// Appends an array of such elements.
pub(super) fn output(items: &[Datum], element: SqlType, forms: &Forms, out: &mut String) {
    out.push('{');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        if item.is_null() {
            out.push_str("NULL");
            continue;
        }
        let start = out.len();
        output_element(item, element, forms, out);
        let written = &out[start..];
        if is_special(written) {
            let written = written.replace('\\', "\\\\").replace('"', "\\\"");
            out.truncate(start);
            out.push('"');
            out.push_str(&written);
            out.push('"');
        }
    }
    out.push('}');
}
