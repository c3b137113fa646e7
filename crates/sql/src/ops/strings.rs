//! Functions of text and bytea, in characters, not bytes. Collation C: only ASCII letters have two cases.

use super::get::{bytes, int, text};
use super::{Env, Function, Operator, function, operator, operator_in};
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::{Element, Kind};
use engine::memory::SMALL_BYTES;

/// Longest result in bytes: PostgreSQL's limit of a value.
const MAX_BYTES: usize = 1 << 30;

fn error(state: &'static str, message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState(state), message)
}

fn characters(text: &str) -> i64 {
    text.chars().count() as i64
}

/// Where the character of this number begins, counted from 0; the end if there are fewer.
fn offset(text: &str, character: i64) -> usize {
    let Ok(number) = usize::try_from(character) else { return 0 };
    text.char_indices().nth(number).map_or(text.len(), |(at, _)| at)
}

/// First and last character, counted from 0, of a range as `substring` has it.
fn range(start: i64, length: Option<i64>) -> SqlResult<(i64, i64)> {
    match length {
        Some(length) if length < 0 => Err(error("22011", "negative substring length not allowed")),
        Some(length) => Ok(((start - 1).max(0), (start - 1 + length).max(0))),
        None => Ok(((start - 1).max(0), i64::MAX)),
    }
}

fn substring(args: &[Datum]) -> SqlResult<Datum> {
    let (from, to) = range(int(&args[1]), args.get(2).map(int))?;
    let rest = &text(&args[0])[offset(text(&args[0]), from)..];
    Ok(Datum::text(&rest[..offset(rest, to - from)]))
}

fn byte_substring(args: &[Datum]) -> SqlResult<Datum> {
    let (from, to) = range(int(&args[1]), args.get(2).map(int))?;
    let all = bytes(&args[0]);
    let clamp = |at: i64| usize::try_from(at).unwrap_or(usize::MAX).min(all.len());
    Ok(Datum::Bytes(all[clamp(from)..clamp(to).max(clamp(from))].into()))
}

fn position(args: &[Datum]) -> SqlResult<Datum> {
    let (all, part) = (text(&args[0]), text(&args[1]));
    Ok(Datum::Int4(all.find(part).map_or(0, |at| characters(&all[..at]) as i32 + 1)))
}

/// `trim` and its relatives: which ends, and the set of characters, if given.
fn trim(args: &[Datum], start: bool, end: bool) -> SqlResult<Datum> {
    let set = args.get(1).map_or(" ", text);
    let mut rest = text(&args[0]);
    if start {
        rest = rest.trim_start_matches(|c| set.contains(c));
    }
    if end {
        rest = rest.trim_end_matches(|c| set.contains(c));
    }
    Ok(Datum::text(rest))
}

fn pad(args: &[Datum], left: bool) -> SqlResult<Datum> {
    let (all, fill) = (text(&args[0]), args.get(2).map_or(" ", text));
    let wanted = int(&args[1]).max(0);
    let have = characters(all);
    if wanted <= have || fill.is_empty() {
        return Ok(Datum::text(&all[..offset(all, wanted)]));
    }
    let missing = (wanted - have) as usize;
    if missing.saturating_mul(4) > MAX_BYTES {
        return Err(error("54000", "requested length too large"));
    }
    if SMALL_BYTES < missing {
        SqlError::check_room(missing)?;
    }
    let filling: String = fill.chars().cycle().take(missing).collect();
    Ok(Datum::text(if left { filling + all } else { all.to_owned() + &filling }))
}

fn repeat(args: &[Datum]) -> SqlResult<Datum> {
    let (all, times) = (text(&args[0]), int(&args[1]).max(0) as usize);
    if all.len().saturating_mul(times) >= MAX_BYTES {
        return Err(error("54000", "requested length too large"));
    }
    let bytes = all.len() * times;
    if SMALL_BYTES < bytes {
        SqlError::check_room(bytes)?;
    }
    Ok(Datum::text(all.repeat(times)))
}

/// So many characters; of a negative number, all but so many.
fn count_of(all: &str, count: i64) -> i64 {
    if count < 0 { (characters(all) + count).max(0) } else { count }
}

fn left(args: &[Datum]) -> SqlResult<Datum> {
    let all = text(&args[0]);
    Ok(Datum::text(&all[..offset(all, count_of(all, int(&args[1])))]))
}

fn right(args: &[Datum]) -> SqlResult<Datum> {
    let all = text(&args[0]);
    let kept = count_of(all, int(&args[1]));
    Ok(Datum::text(&all[offset(all, characters(all) - kept)..]))
}

fn replace(args: &[Datum]) -> SqlResult<Datum> {
    let (all, from, to) = (text(&args[0]), text(&args[1]), text(&args[2]));
    Ok(if from.is_empty() { args[0].clone() } else { Datum::text(all.replace(from, to)) })
}

fn translate(args: &[Datum]) -> SqlResult<Datum> {
    let (all, from, to) = (text(&args[0]), text(&args[1]), text(&args[2]));
    let translated = all.chars().filter_map(|c| match from.chars().position(|known| known == c) {
        Some(number) => to.chars().nth(number),
        None => Some(c),
    });
    Ok(Datum::text(translated.collect::<String>()))
}

fn split_part(args: &[Datum]) -> SqlResult<Datum> {
    let (all, delimiter, number) = (text(&args[0]), text(&args[1]), int(&args[2]));
    if number == 0 {
        return Err(error("22023", "field position must not be zero"));
    }
    if delimiter.is_empty() {
        return Ok(Datum::text(if number == 1 || number == -1 { all } else { "" }));
    }
    let index = number.unsigned_abs() as usize - 1;
    // From the end, parts are still cut from the start: it matters where delimiters overlap.
    let part = if number > 0 {
        all.split(delimiter).nth(index)
    } else {
        let parts: Vec<&str> = all.split(delimiter).collect();
        parts.len().checked_sub(index + 1).map(|at| parts[at])
    };
    Ok(Datum::text(part.unwrap_or("")))
}

fn initcap(args: &[Datum]) -> SqlResult<Datum> {
    let mut inside = false;
    let changed = text(&args[0]).chars().map(|c| {
        let changed = if inside { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() };
        inside = c.is_ascii_alphanumeric();
        changed
    });
    Ok(Datum::text(changed.collect::<String>()))
}

fn chr(args: &[Datum]) -> SqlResult<Datum> {
    let code = int(&args[0]);
    if code == 0 {
        return Err(error("54000", "null character not permitted"));
    }
    if code < 0 {
        return Err(error("22023", "character number must be positive"));
    }
    if code > 0x10_FFFF {
        return Err(error("54000", format!("requested character too large for encoding: {code}")));
    }
    let found = u32::try_from(code).ok().and_then(char::from_u32);
    let character =
        found.ok_or_else(|| error("54000", format!("requested character not valid for encoding: {code}")))?;
    Ok(Datum::text(String::from(character)))
}

/// All arguments that are not NULL, as text.
fn join(args: &[Datum], separator: &str) -> Datum {
    let parts: Vec<&str> = args.iter().filter(|arg| !arg.is_null()).map(text).collect();
    Datum::text(parts.join(separator))
}

fn concat_ws(args: &[Datum]) -> SqlResult<Datum> {
    Ok(if args[0].is_null() { Datum::Null } else { join(&args[1..], text(&args[0])) })
}

fn two(args: &[Datum]) -> SqlResult<Datum> {
    let (left, right) = (text(&args[0]), text(&args[1]));
    let mut all = String::with_capacity(left.len() + right.len());
    all.push_str(left);
    all.push_str(right);
    Ok(Datum::text(all))
}

/// A value of this kind and a text, in both orders.
macro_rules! mixed {
    ($all:ident, $($kind:expr),*) => {$({
        const KIND: Kind = $kind;
        fn text_of(datum: &Datum, env: &Env) -> String {
            // As a cast to text, which of booleans is not what is shown.
            match datum {
                Datum::Bool(value) => value.to_string(),
                other => crate::types::text::to_string(other, KIND.into(), &env.forms),
            }
        }
        $all.push(operator_in("||", KIND, Kind::Text, Kind::Text, |a, env| Ok(Datum::text(text_of(&a[0], env) + text(&a[1])))));
        $all.push(operator_in("||", Kind::Text, KIND, Kind::Text, |a, env| {
            Ok(Datum::text(text(&a[0]).to_owned() + &text_of(&a[1], env)))
        }));
    })*};
}

/// Arrays with arrays, and with single elements.
fn arrays(all: &mut Vec<Operator>) {
    for element in Element::all() {
        let (array, single) = (Kind::Array(element), element.kind());
        // As `array_cat`, `array_append` and `array_prepend`.
        let joined = |left, right, eval| {
            let strict = cfg!(overtake_plant = "array_append_null");
            Operator { strict, ..operator("||", left, right, array, eval) }
        };
        all.push(joined(array, array, super::arrays::concat));
        // Of strings only text: `varchar || 'x'` is no array, and these would match exactly.
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
        operator("||", Bytea, Bytea, Bytea, |a| Ok(Datum::Bytes([bytes(&a[0]), bytes(&a[1])].concat().into()))),
        operator("^@", Text, Text, Kind::Bool, |a| Ok(Datum::Bool(text(&a[0]).starts_with(text(&a[1]))))),
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
        Kind::Regnamespace,
        Kind::Regrole
    );
    arrays(&mut all);
    all
}

pub(super) fn functions() -> Vec<Function> {
    use Kind::{Bool, Bpchar, Bytea, Int4, Text, Void};
    let mut all = vec![
        function("octet_length", &[Text], Int4, |a| Ok(Datum::Int4(text(&a[0]).len() as i32))),
        function("octet_length", &[Bpchar], Int4, |a| Ok(Datum::Int4(text(&a[0]).len() as i32))),
        function("octet_length", &[Bytea], Int4, |a| Ok(Datum::Int4(bytes(&a[0]).len() as i32))),
        function("bit_length", &[Text], Int4, |a| Ok(Datum::Int4(text(&a[0]).len() as i32 * 8))),
        function("length", &[Bytea], Int4, |a| Ok(Datum::Int4(bytes(&a[0]).len() as i32))),
        function("lower", &[Text], Text, |a| Ok(Datum::text(text(&a[0]).to_ascii_lowercase()))),
        function("upper", &[Text], Text, |a| Ok(Datum::text(text(&a[0]).to_ascii_uppercase()))),
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
        function("reverse", &[Text], Text, |a| Ok(Datum::text(text(&a[0]).chars().rev().collect::<String>()))),
        function("split_part", &[Text, Text, Int4], Text, split_part),
        function("starts_with", &[Text, Text], Bool, |a| Ok(Datum::Bool(text(&a[0]).starts_with(text(&a[1]))))),
        function("chr", &[Int4], Text, chr),
        function("ascii", &[Text], Int4, |a| {
            Ok(Datum::Int4(text(&a[0]).chars().next().map_or(0, |c| u32::from(c) as i32)))
        }),
        Function { strict: false, variadic: true, ..function("concat", &[Void], Text, |a| Ok(join(a, ""))) },
        Function { strict: false, variadic: true, ..function("concat_ws", &[Text, Void], Text, concat_ws) },
    ];
    for name in ["length", "char_length", "character_length"] {
        all.push(function(name, &[Text], Int4, |a| Ok(Datum::Int4(characters(text(&a[0])) as i32))));
        all.push(function(name, &[Bpchar], Int4, |a| {
            Ok(Datum::Int4(characters(text(&a[0]).trim_end_matches(' ')) as i32))
        }));
    }
    for name in ["substr", "substring"] {
        all.push(function(name, &[Text, Int4], Text, substring));
        all.push(function(name, &[Text, Int4, Int4], Text, substring));
        all.push(function(name, &[Bytea, Int4], Bytea, byte_substring));
        all.push(function(name, &[Bytea, Int4, Int4], Bytea, byte_substring));
    }
    let trims: [(&'static str, super::Plain); 3] =
        [("btrim", |a| trim(a, true, true)), ("ltrim", |a| trim(a, true, false)), ("rtrim", |a| trim(a, false, true))];
    for (name, eval) in trims {
        all.push(function(name, &[Text], Text, eval));
        all.push(function(name, &[Text, Text], Text, eval));
    }
    all
}
