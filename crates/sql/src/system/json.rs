//! Internal functions by which the binder implements `json_build_object` and similar ones.
//!
//! **Invariant:** arguments are JSON already, as text.

use statement::error::{SqlError, SqlResult, SqlState};
use types::datum::Datum;
use types::forms::{DateStyle, Forms};
use types::ops::json::quoted;
use types::ops::{CallContext, Function, impossible, mistyped};
use types::{Element, Kind, text};

fn words(value: &Datum) -> SqlResult<&str> {
    if value.is_null() { Ok("null") } else { types::ops::get::text(value) }
}

fn all_words(values: &[Datum]) -> SqlResult<Vec<&str>> {
    values.iter().map(words).collect()
}

/// Returns a number as JSON; one that JSON cannot represent becomes a string.
fn number(text: &str) -> String {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    if is_number { text.to_owned() } else { quoted(text) }
}

fn object(args: &[Datum]) -> SqlResult<Datum> {
    let mut parts = Vec::with_capacity(args.len() / 2);
    for (at, pair) in args.chunks(2).enumerate() {
        let [key, value] = pair else { return Err(impossible("a key without a value")) };
        if key.is_null() {
            let message = format!("argument {} cannot be null", 2 * at + 1);
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).hint("Object keys should be text."));
        }
        parts.push(format!("{} : {}", words(key)?, words(value)?));
    }
    Ok(Datum::text(format!("{{{}}}", parts.join(", "))))
}

/// Returns a moment in ISO 8601, whatever DateStyle is: with a `T`, and minutes in the zone's offset.
fn moment(value: &Datum, kind: Kind, env: &dyn CallContext) -> SqlResult<Datum> {
    if !value.is_null() && !value.is_of(kind) {
        return Err(mistyped(value));
    }
    let forms = Forms { date_style: DateStyle::Iso, ..env.forms().clone() };
    let written = text::to_string(value, kind.into(), &forms);
    let (moment, era) = match written.strip_suffix(" BC") {
        Some(moment) => (moment, " BC"),
        None => (&*written, ""),
    };
    let mut moment = moment.replacen(' ', "T", 1);
    if kind == Kind::Timestamptz
        && let Some(sign) = moment.rfind(['+', '-']).filter(|at| moment[*at..].len() == 3)
    {
        moment.insert_str(sign + 3, ":00");
    }
    Ok(Datum::text(quoted(&(moment + era))))
}

/// Joins items or members, without spaces.
fn items(values: &[Datum]) -> SqlResult<String> {
    Ok(all_words(values)?.join(","))
}

pub(super) fn functions() -> Vec<Function> {
    const TEXT: Kind = Kind::Text;
    const TEXTS: Kind = Kind::Array(Element::Text);
    let line = |name, eval| Function { strict: true, ..types::ops::line_in(name, &[TEXT], TEXT, eval) };
    let many =
        |name, eval| Function { strict: false, variadic: true, ..types::ops::line_in(name, &[TEXT], TEXT, eval) };
    vec![
        line("json_key", |a, _| Ok(Datum::text(quoted(words(&a[0])?)))),
        line("json_string", |a, _| Ok(Datum::text(quoted(words(&a[0])?)))),
        line("json_number", |a, _| Ok(Datum::text(number(words(&a[0])?)))),
        many("json_object_of", |a, _| object(a)),
        many("json_record_of", |a, _| {
            let members = a.chunks(2).map(|pair| Ok(all_words(pair)?.join(":"))).collect::<SqlResult<Vec<String>>>()?;
            Ok(Datum::text(format!("{{{}}}", members.join(","))))
        }),
        types::ops::line_in("json_items", &[TEXTS], TEXT, |a, _| match &a[0] {
            Datum::Null => Ok(Datum::Null),
            all => Ok(Datum::text(format!("[{}]", items(types::ops::get::items(all)?)?))),
        }),
        types::ops::line_in("json_moment", &[Kind::Date], TEXT, |a, env| moment(&a[0], Kind::Date, env)),
        types::ops::line_in("json_moment", &[Kind::Timestamp], TEXT, |a, env| moment(&a[0], Kind::Timestamp, env)),
        types::ops::line_in("json_moment", &[Kind::Timestamptz], TEXT, |a, env| moment(&a[0], Kind::Timestamptz, env)),
        many("json_array_of", |a, _| Ok(Datum::text(format!("[{}]", all_words(a)?.join(", "))))),
    ]
}
