//! Functions of text and bytea, in characters, not bytes. With collation C, only ASCII letters have two cases.

use super::build::{self, TextBuilder};
use super::get::{bytes, int, text};
use super::{CallContext, Function, Operator, function, operator, operator_in};
use crate::datum::Datum;
use crate::{Element, Kind};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse::{self, slices};
use std::collections::HashMap;
use std::ops::ControlFlow;

fn error(state: SqlState, message: impl Into<String>) -> SqlError {
    SqlError::new(state, message)
}

pub(super) fn characters(text: &str) -> SqlResult<i64> {
    let mut count = 0;
    for slice in slices(text) {
        pulse::copies(slice.len())?;
        count += slice.chars().count() as i64;
    }
    Ok(count)
}

/// Returns the byte offset of a character, counted from 0, or the end if there are fewer.
pub(super) fn offset(text: &str, character: i64) -> SqlResult<usize> {
    let Ok(mut number) = usize::try_from(character) else { return Ok(0) };
    let mut at = 0;
    for slice in slices(text) {
        pulse::copies(slice.len())?;
        let count = slice.chars().count();
        if number < count {
            return Ok(at + slice.char_indices().nth(number).map_or(slice.len(), |(at, _)| at));
        }
        number -= count;
        at += slice.len();
    }
    Ok(at)
}

/// Returns the first and last character, counted from 0, of the range that `substring` takes.
fn range(start: i64, length: Option<i64>) -> SqlResult<(i64, i64)> {
    match length {
        Some(length) if length < 0 => Err(error(SqlState::SUBSTRING_ERROR, "negative substring length not allowed")),
        Some(length) => Ok(((start - 1).max(0), (start - 1 + length).max(0))),
        None => Ok(((start - 1).max(0), i64::MAX)),
    }
}

fn substring(args: &[Datum]) -> SqlResult<Datum> {
    let (from, to) = range(int(&args[1])?, args.get(2).map(int).transpose()?)?;
    let rest = &text(&args[0])?[offset(text(&args[0])?, from)?..];
    build::text(&rest[..offset(rest, to - from)?])
}

fn byte_substring(args: &[Datum]) -> SqlResult<Datum> {
    let (from, to) = range(int(&args[1])?, args.get(2).map(int).transpose()?)?;
    let all = bytes(&args[0])?;
    let clamp = |at: i64| usize::try_from(at).unwrap_or(usize::MAX).min(all.len());
    build::bytes(&[&all[clamp(from)..clamp(to).max(clamp(from))]])
}

fn position(args: &[Datum]) -> SqlResult<Datum> {
    let (all, part) = (text(&args[0])?, text(&args[1])?);
    if part.is_empty() {
        return Ok(Datum::Int4(1));
    }
    let mut found = None;
    build::occurrences(all, part, |at| {
        found = Some(at);
        Ok(ControlFlow::Break(()))
    })?;
    let number = found.map(|at| characters(&all[..at])).transpose()?;
    Ok(Datum::Int4(number.map_or(0, |before| before as i32 + 1)))
}

/// Trims a text at the chosen ends by a set of characters, blanks by default: `trim` and its variants.
fn trim(args: &[Datum], start: bool, end: bool) -> SqlResult<Datum> {
    let set = args.get(1).map_or(Ok(" "), text)?;
    let mut rest = text(&args[0])?;
    while start && let Some(first) = rest.chars().next() {
        pulse::copies(set.len())?;
        if !set.contains(first) {
            break;
        }
        rest = &rest[first.len_utf8()..];
    }
    while end && let Some(last) = rest.chars().next_back() {
        pulse::copies(set.len())?;
        if !set.contains(last) {
            break;
        }
        rest = &rest[..rest.len() - last.len_utf8()];
    }
    build::text(rest)
}

fn pad(args: &[Datum], left: bool) -> SqlResult<Datum> {
    let (all, fill) = (text(&args[0])?, args.get(2).map_or(Ok(" "), text)?);
    let wanted = int(&args[1])?.max(0);
    let have = characters(all)?;
    if fill.is_empty() {
        return build::text(&all[..offset(all, wanted)?]);
    }
    // PostgreSQL computes with the longest characters.
    build::fits((wanted as usize).checked_mul(4))?;
    if wanted <= have {
        return build::text(&all[..offset(all, wanted)?]);
    }
    let (missing, own) = (wanted - have, characters(fill)?);
    build::has_room(missing as usize)?;
    let mut out = TextBuilder::default();
    if !left {
        out.push_str(all)?;
    }
    for _ in 0..missing / own {
        out.push_str(fill)?;
    }
    out.push_str(&fill[..offset(fill, missing % own)?])?;
    if left {
        out.push_str(all)?;
    }
    Ok(out.finish())
}

fn repeat(args: &[Datum]) -> SqlResult<Datum> {
    let (all, times) = (text(&args[0])?, int(&args[1])?.max(0) as usize);
    let bytes = build::fits(all.len().checked_mul(times))?;
    // Short texts are appended many at a time.
    let block = all.repeat(times.min(pulse::SLICE / all.len().max(1)).max(times.min(1)));
    let mut out = TextBuilder::with_capacity(bytes)?;
    while !block.is_empty() && block.len() <= bytes - out.len() {
        out.push_str(&block)?;
    }
    out.push_str(&block[..bytes - out.len()])?;
    Ok(out.finish())
}

/// Returns the number of characters to keep. A negative number keeps all but so many.
fn count_of(all: &str, count: i64) -> SqlResult<i64> {
    Ok(if count < 0 { (characters(all)? + count).max(0) } else { count })
}

fn left(args: &[Datum]) -> SqlResult<Datum> {
    let all = text(&args[0])?;
    build::text(&all[..offset(all, count_of(all, int(&args[1])?)?)?])
}

fn right(args: &[Datum]) -> SqlResult<Datum> {
    let all = text(&args[0])?;
    let count = int(&args[1])?;
    if count == i64::from(i32::MIN) {
        // PostgreSQL negates the count as an integer, which overflows to itself: nothing is removed.
        return build::text(all);
    }
    let kept = count_of(all, count)?;
    build::text(&all[offset(all, characters(all)? - kept)?..])
}

fn replace(args: &[Datum]) -> SqlResult<Datum> {
    let (all, from, to) = (text(&args[0])?, text(&args[1])?, text(&args[2])?);
    let (mut out, mut copied) = (TextBuilder::default(), 0);
    build::occurrences(all, from, |at| {
        out.push_str(&all[copied..at])?;
        out.push_str(to)?;
        copied = at + from.len();
        Ok(ControlFlow::Continue(()))
    })?;
    out.push_str(&all[copied..])?;
    Ok(out.finish())
}

fn translate(args: &[Datum]) -> SqlResult<Datum> {
    let (all, from, to) = (text(&args[0])?, text(&args[1])?, text(&args[2])?);
    let mut places: HashMap<char, Option<char>> = HashMap::new();
    let mut others = to.chars();
    for slice in slices(from) {
        pulse::tick(slice.len() * 16)?;
        for c in slice.chars() {
            let other = others.next();
            // The first of equal characters counts.
            places.entry(c).or_insert(other);
        }
    }
    let mut out = TextBuilder::default();
    for slice in slices(all) {
        pulse::tick(slice.len() * 2)?;
        for c in slice.chars() {
            if let Some(c) = places.get(&c).copied().unwrap_or(Some(c)) {
                out.push(c)?;
            }
        }
    }
    Ok(out.finish())
}

fn split_part(args: &[Datum]) -> SqlResult<Datum> {
    let (all, delimiter, number) = (text(&args[0])?, text(&args[1])?, int(&args[2])?);
    if number == 0 {
        return Err(error(SqlState::INVALID_PARAMETER_VALUE, "field position must not be zero"));
    }
    if delimiter.is_empty() {
        return build::text(if number == 1 || number == -1 { all } else { "" });
    }
    // Even from the end, parts are cut from the start, which matters if delimiters overlap.
    let mut wanted = number - 1;
    if number < 0 {
        let mut count = 0;
        build::split(all, delimiter, |_| {
            count += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        wanted = count + number;
    }
    let (mut at, mut found) = (0, "");
    build::split(all, delimiter, |part| {
        if at == wanted {
            found = part;
            return Ok(ControlFlow::Break(()));
        }
        at += 1;
        Ok(ControlFlow::Continue(()))
    })?;
    build::text(found)
}

fn initcap(args: &[Datum]) -> SqlResult<Datum> {
    let mut inside = false;
    build::mapped(text(&args[0])?, |c| {
        let changed = if inside { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() };
        inside = c.is_ascii_alphanumeric();
        changed
    })
}

fn chr(args: &[Datum]) -> SqlResult<Datum> {
    let code = int(&args[0])?;
    if code == 0 {
        return Err(error(SqlState::PROGRAM_LIMIT_EXCEEDED, "null character not permitted"));
    }
    if code < 0 {
        return Err(error(SqlState::INVALID_PARAMETER_VALUE, "character number must be positive"));
    }
    if code > 0x10_FFFF {
        return Err(error(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("requested character too large for encoding: {code}"),
        ));
    }
    let found = u32::try_from(code).ok().and_then(char::from_u32);
    let character = found.ok_or_else(|| {
        error(SqlState::PROGRAM_LIMIT_EXCEEDED, format!("requested character not valid for encoding: {code}"))
    })?;
    Ok(Datum::text(String::from(character)))
}

/// Joins all arguments that are not NULL, as text.
fn join(args: &[Datum], separator: &str) -> SqlResult<Datum> {
    let mut out = TextBuilder::default();
    for (at, part) in args.iter().filter(|arg| !arg.is_null()).enumerate() {
        if 0 < at {
            out.push_str(separator)?;
        }
        out.push_str(text(part)?)?;
    }
    Ok(out.finish())
}

fn reverse(args: &[Datum]) -> SqlResult<Datum> {
    let mut rest = text(&args[0])?;
    let mut out = TextBuilder::with_capacity(rest.len())?;
    while !rest.is_empty() {
        let (before, slice) = rest.split_at(rest.floor_char_boundary(rest.len().saturating_sub(pulse::SLICE)));
        pulse::tick(slice.len())?;
        slice.chars().rev().try_for_each(|c| out.push(c))?;
        rest = before;
    }
    Ok(out.finish())
}

fn concat_ws(args: &[Datum]) -> SqlResult<Datum> {
    if args[0].is_null() { Ok(Datum::Null) } else { join(&args[1..], text(&args[0])?) }
}

fn starts_with(args: &[Datum]) -> SqlResult<Datum> {
    Ok(Datum::Bool(build::begins_with(text(&args[0])?.as_bytes(), text(&args[1])?.as_bytes())?))
}

fn two(args: &[Datum]) -> SqlResult<Datum> {
    build::texts(&[text(&args[0])?, text(&args[1])?])
}

/// Defines `||` of a value of this kind and a text, in both orders.
macro_rules! mixed {
    ($all:ident, $($kind:expr),*) => {$({
        const KIND: Kind = $kind;
        fn push(out: &mut TextBuilder, datum: &Datum, env: &dyn CallContext) -> SqlResult<()> {
            // The text is that of a cast, which for booleans differs from the output.
            match datum {
                Datum::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
                other => crate::text::build(other, KIND.into(), env.forms(), out),
            }
        }
        $all.push(operator_in("||", KIND, Kind::Text, Kind::Text, |a, env| {
            let mut out = TextBuilder::default();
            push(&mut out, &a[0], env)?;
            out.push_str(text(&a[1])?)?;
            Ok(out.finish())
        }));
        $all.push(operator_in("||", Kind::Text, KIND, Kind::Text, |a, env| {
            let mut out = TextBuilder::default();
            out.push_str(text(&a[0])?)?;
            push(&mut out, &a[1], env)?;
            Ok(out.finish())
        }));
    })*};
}

/// Adds `||` of arrays with arrays, and with single elements.
fn arrays(all: &mut Vec<Operator>) {
    for element in Element::all() {
        let (array, single) = (Kind::Array(element), element.kind());
        // The same as `array_cat`, `array_append` and `array_prepend`.
        let joined = |left, right, eval| {
            let strict = statement::plants::is_planted("array_append_null");
            Operator { strict, ..operator("||", left, right, array, eval) }
        };
        all.push(joined(array, array, super::arrays::concat));
        // Of the string types only text: `varchar || 'x'` is not an array, but these would match exactly.
        if matches!(single, Kind::Varchar | Kind::Bpchar | Kind::Name | Kind::InternalChar) {
            continue;
        }
        all.push(joined(array, single, super::arrays::append));
        all.push(joined(single, array, super::arrays::prepend));
    }
}

pub(super) fn operators() -> Vec<Operator> {
    use Kind::{Bytea, Text};
    let mut all = vec![
        operator("||", Text, Text, Text, two),
        operator("||", Bytea, Bytea, Bytea, |a| build::bytes(&[bytes(&a[0])?, bytes(&a[1])?])),
        operator("^@", Text, Text, Kind::Bool, starts_with),
    ];
    mixed!(all, Kind::Bool, Kind::Int2, Kind::Int4, Kind::Int8, Kind::Float4, Kind::Float8, Kind::Numeric, Kind::Oid);
    mixed!(
        all,
        Kind::Date,
        Kind::Time,
        Kind::Timestamp,
        Kind::Timestamptz,
        Kind::Interval,
        Kind::Uuid,
        Kind::Json,
        Kind::Bytea,
        Kind::Regclass,
        Kind::Regtype,
        Kind::Regproc,
        Kind::Regprocedure,
        Kind::Regnamespace,
        Kind::Regrole
    );
    arrays(&mut all);
    all
}

pub(super) fn functions() -> Vec<Function> {
    use Kind::{Bool, Bpchar, Bytea, Int4, Text, Void};
    let mut all = vec![
        function("octet_length", &[Text], Int4, |a| Ok(Datum::Int4(text(&a[0])?.len() as i32))),
        function("octet_length", &[Bpchar], Int4, |a| Ok(Datum::Int4(text(&a[0])?.len() as i32))),
        function("octet_length", &[Bytea], Int4, |a| Ok(Datum::Int4(bytes(&a[0])?.len() as i32))),
        function("bit_length", &[Text], Int4, |a| Ok(Datum::Int4(text(&a[0])?.len() as i32 * 8))),
        function("length", &[Bytea], Int4, |a| Ok(Datum::Int4(bytes(&a[0])?.len() as i32))),
        function("lower", &[Text], Text, |a| build::mapped(text(&a[0])?, |c| c.to_ascii_lowercase())),
        function("upper", &[Text], Text, |a| build::mapped(text(&a[0])?, |c| c.to_ascii_uppercase())),
        function("initcap", &[Text], Text, initcap),
        function("position", &[Text, Text], Int4, position),
        function("strpos", &[Text, Text], Int4, position),
        function("replace", &[Text, Text, Text], Text, replace),
        function("translate", &[Text, Text, Text], Text, translate),
        function("left", &[Text, Int4], Text, left),
        function("right", &[Text, Int4], Text, right),
        function("lpad", &[Text, Int4], Text, |a| pad(a, true)),
        function("lpad", &[Text, Int4, Text], Text, |a| pad(a, true)),
        function("rpad", &[Text, Int4], Text, |a| pad(a, false)),
        function("rpad", &[Text, Int4, Text], Text, |a| pad(a, false)),
        function("repeat", &[Text, Int4], Text, repeat),
        function("reverse", &[Text], Text, reverse),
        function("split_part", &[Text, Text, Int4], Text, split_part),
        function("starts_with", &[Text, Text], Bool, starts_with),
        function("chr", &[Int4], Text, chr),
        function("ascii", &[Text], Int4, |a| {
            Ok(Datum::Int4(text(&a[0])?.chars().next().map_or(0, |c| u32::from(c) as i32)))
        }),
        Function { strict: false, variadic: true, ..function("concat", &[Void], Text, |a| join(a, "")) },
        Function { strict: false, variadic: true, ..function("concat_ws", &[Text, Void], Text, concat_ws) },
    ];
    // The trailing blanks of a `bpchar` do not count.
    for name in ["length", "char_length", "character_length"] {
        all.push(function(name, &[Text], Int4, |a| Ok(Datum::Int4(characters(text(&a[0])?)? as i32))));
        all.push(function(name, &[Bpchar], Int4, |a| {
            Ok(Datum::Int4(characters(text(&a[0])?.trim_end_matches(' '))? as i32))
        }));
    }
    for name in ["substr", "substring"] {
        all.push(function(name, &[Text, Int4], Text, substring));
        all.push(function(name, &[Text, Int4, Int4], Text, substring));
        all.push(function(name, &[Bytea, Int4], Bytea, byte_substring));
        all.push(function(name, &[Bytea, Int4, Int4], Bytea, byte_substring));
    }
    let trims: [(&'static str, super::PlainFunction); 3] =
        [("btrim", |a| trim(a, true, true)), ("ltrim", |a| trim(a, true, false)), ("rtrim", |a| trim(a, false, true))];
    for (name, eval) in trims {
        all.push(function(name, &[Text], Text, eval));
        all.push(function(name, &[Text, Text], Text, eval));
    }
    all
}
