//! Functions and operators of arrays, all of one dimension.

use super::build::{self, ITEMS_MAX, TextBuilder, too_many_items};
use super::get::{impossible, int, items, text};
use super::polymorphic::{ParameterType, PolymorphicFunction};
use super::{CallContext, Eval, Function, Operator, PlainFunction, compare, function, operator};
use crate::datum::Datum;
use crate::{Element, Kind};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use std::cmp::Ordering;
use std::ops::ControlFlow;

/// Returns the kind of a type OID that [`Function::told_types`] passes.
///
/// # Errors
/// `XX000`
pub(super) fn kind_of(datum: Option<&Datum>) -> SqlResult<Kind> {
    let kind = if let Some(Datum::Oid(oid)) = datum { Kind::from_oid(*oid) } else { None };
    kind.ok_or_else(|| impossible("a function is not told the types of its arguments"))
}

/// Units of work for one comparison.
const COMPARISON: usize = 16;

/// Returns true if two items are equal, or both NULL.
fn is_same(a: &Datum, b: &Datum, kind: Kind) -> SqlResult<bool> {
    pulse::tick(COMPARISON)?;
    Ok(match (a.is_null(), b.is_null()) {
        (false, false) => compare(a, b, kind) == Ordering::Equal,
        (a, b) => a && b,
    })
}

/// Returns the items of an array, and none for NULL.
fn items_if_any(datum: &Datum) -> SqlResult<&[Datum]> {
    if datum.is_null() { Ok(&[]) } else { items(datum) }
}

pub(super) fn append(args: &[Datum]) -> SqlResult<Datum> {
    build::items(&[items_if_any(&args[0])?, std::slice::from_ref(&args[1])])
}

pub(super) fn prepend(args: &[Datum]) -> SqlResult<Datum> {
    build::items(&[std::slice::from_ref(&args[0]), items_if_any(&args[1])?])
}

pub(super) fn concat(args: &[Datum]) -> SqlResult<Datum> {
    match (&args[0], &args[1]) {
        (Datum::Null, other) | (other, Datum::Null) => Ok(other.clone()),
        (a, b) => build::items(&[items(a)?, items(b)?]),
    }
}

/// Returns the last of the passed types, that of the searched element.
fn element_kind(args: &[Datum], count: usize) -> SqlResult<Kind> {
    kind_of(args.get(count + 1))
}

fn position(args: &[Datum]) -> SqlResult<Datum> {
    // As many types follow the arguments.
    let count = args.len() / 2;
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let start = match args.get(2).filter(|_| count == 3) {
        None => 1,
        Some(Datum::Null) => {
            return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "initial position must not be null"));
        }
        Some(start) => int(start)?,
    };
    let kind = element_kind(args, count)?;
    let skipped = usize::try_from(start - 1).unwrap_or(0);
    for (at, item) in items(&args[0])?.iter().enumerate().skip(skipped) {
        if is_same(item, &args[1], kind)? {
            return Ok(Datum::Int4(at as i32 + 1));
        }
    }
    Ok(Datum::Null)
}

fn positions(args: &[Datum]) -> SqlResult<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let kind = element_kind(args, 2)?;
    let mut found = Vec::new();
    for (at, item) in items(&args[0])?.iter().enumerate() {
        if is_same(item, &args[1], kind)? {
            found.push(Datum::Int4(at as i32 + 1));
        }
    }
    build::array(found)
}

fn remove(args: &[Datum]) -> SqlResult<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let kind = element_kind(args, 2)?;
    let mut kept = Vec::new();
    for item in items(&args[0])? {
        if !is_same(item, &args[1], kind)? {
            kept.push(item.clone());
        }
    }
    build::array(kept)
}

fn replace(args: &[Datum]) -> SqlResult<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let kind = element_kind(args, 3)?;
    let replaced = |item: &Datum| {
        let item = if is_same(item, &args[1], kind)? { &args[2] } else { item };
        pulse::copies(build::bytes_of(item))?;
        Ok(item.clone())
    };
    build::array(items(&args[0])?.iter().map(replaced).collect::<SqlResult<_>>()?)
}

/// Returns a property of the first dimension. An empty array has no dimensions.
fn of_dimension(args: &[Datum], value: impl Fn(usize) -> i64) -> SqlResult<Datum> {
    let all = items(&args[0])?;
    Ok(if all.is_empty() || int(&args[1])? != 1 { Datum::Null } else { Datum::Int4(value(all.len()) as i32) })
}

/// Returns the items between two positions, as far as there are any.
fn slice(args: &[Datum]) -> SqlResult<Datum> {
    let all = items(&args[0])?;
    let (from, to) = (int(&args[1])?.max(1), int(&args[2])?.min(all.len() as i64));
    build::items(&[if from <= to { &all[from as usize - 1..to as usize] } else { &[] }])
}

fn trim(args: &[Datum]) -> SqlResult<Datum> {
    let all = items(&args[0])?;
    let count = int(&args[1])?;
    let kept = usize::try_from(count).ok().and_then(|count| all.len().checked_sub(count));
    let kept = kept.ok_or_else(|| {
        let message = format!("number of elements to trim must be between 0 and {}", all.len());
        SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
    })?;
    build::items(&[&all[..kept]])
}

fn fill(args: &[Datum]) -> SqlResult<Datum> {
    let refused = |message: &str| Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
    if args[1].is_null() {
        return refused("dimension array or low bound array cannot be null");
    }
    match items(&args[1])? {
        [] => build::array(Vec::new()),
        [Datum::Null] => refused("dimension values cannot be null"),
        [Datum::Int4(count)] => {
            let count = usize::try_from(*count).ok().filter(|count| *count <= ITEMS_MAX).ok_or_else(too_many_items)?;
            build::repeated(&args[0], count)
        }
        _ => Err(SqlError::unsupported("an array of more than one dimension")),
    }
}

fn width_bucket(args: &[Datum]) -> SqlResult<Datum> {
    let kind = kind_of(args.get(2))?;
    let thresholds = items(&args[1])?;
    if thresholds.iter().any(Datum::is_null) {
        return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "thresholds array must not contain NULLs"));
    }
    Ok(Datum::Int4(thresholds.partition_point(|low| compare(low, &args[0], kind) != Ordering::Greater) as i32))
}

fn to_string(args: &[Datum], env: &dyn CallContext) -> SqlResult<Datum> {
    let count = args.len() / 2;
    if args[0].is_null() || args[1].is_null() {
        return Ok(Datum::Null);
    }
    let null = args.get(2).filter(|null| count == 3 && !null.is_null()).map(text).transpose()?;
    let kind = kind_of(args.get(count))?;
    let kind = kind.element().ok_or_else(|| impossible("the items of what is no array"))?;
    let mut out = TextBuilder::default();
    let mut is_first = true;
    for item in items(&args[0])? {
        if item.is_null() && null.is_none() {
            continue;
        }
        if !std::mem::take(&mut is_first) {
            out.push_str(text(&args[1])?)?;
        }
        match null.filter(|_| item.is_null()) {
            Some(null) => out.push_str(null)?,
            None => crate::text::build(item, kind.into(), env.forms(), &mut out)?,
        }
    }
    Ok(out.finish())
}

/// Passes the parts of a text to `each`: items of `string_to_array`, rows of `string_to_table`.
///
/// # Errors
/// Those of [`pulse::tick`] and of `each`.
pub fn split(args: &[Datum], mut each: impl FnMut(Datum) -> SqlResult<()>) -> SqlResult<()> {
    let all = text(&args[0])?;
    let null = args.get(2).filter(|null| !null.is_null()).map(text).transpose()?;
    if all.is_empty() {
        return Ok(());
    }
    let mut add = |part: &str| {
        pulse::tick(COMPARISON)?;
        each(if null == Some(part) { Datum::Null } else { Datum::text(part) })?;
        Ok(ControlFlow::Continue(()))
    };
    match &args[1] {
        Datum::Null => all.chars().try_for_each(|c| add(c.encode_utf8(&mut [0; 4])).map(drop)),
        delimiter => build::split(all, text(delimiter)?, add),
    }
}

fn to_array(args: &[Datum]) -> SqlResult<Datum> {
    if args[0].is_null() {
        return Ok(Datum::Null);
    }
    let mut parts = Vec::new();
    split(args, |part| {
        if parts.len() == ITEMS_MAX {
            return Err(too_many_items());
        }
        parts.push(part);
        Ok(())
    })?;
    build::array(parts)
}

/// Returns true if all items of `b` are items of `a`. NULL is never among them.
fn contains(a: &[Datum], b: &[Datum], kind: Kind) -> SqlResult<Datum> {
    for item in b {
        if !is_in(item, a, kind)? {
            return Ok(Datum::Bool(false));
        }
    }
    Ok(Datum::Bool(true))
}

/// Returns true if an item that is not NULL is among others.
fn is_in(item: &Datum, all: &[Datum], kind: Kind) -> SqlResult<bool> {
    if item.is_null() {
        return Ok(false);
    }
    for other in all {
        pulse::tick(COMPARISON)?;
        if !other.is_null() && compare(item, other, kind).is_eq() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn overlaps(a: &[Datum], b: &[Datum], kind: Kind) -> SqlResult<Datum> {
    for item in b {
        if is_in(item, a, kind)? {
            return Ok(Datum::Bool(true));
        }
    }
    Ok(Datum::Bool(false))
}

pub(super) fn operators() -> Vec<Operator> {
    let mut all = Vec::new();
    for element in Element::all().filter(|element| super::is_comparable(element.kind())) {
        let kind = Kind::Array(element);
        let evals: [(&'static str, PlainFunction); 3] = if element == Element::Bpchar {
            [
                ("@>", |a| contains(items(&a[0])?, items(&a[1])?, Kind::Bpchar)),
                ("<@", |a| contains(items(&a[1])?, items(&a[0])?, Kind::Bpchar)),
                ("&&", |a| overlaps(items(&a[0])?, items(&a[1])?, Kind::Bpchar)),
            ]
        } else {
            [
                ("@>", |a| contains(items(&a[0])?, items(&a[1])?, Kind::Text)),
                ("<@", |a| contains(items(&a[1])?, items(&a[0])?, Kind::Text)),
                ("&&", |a| overlaps(items(&a[0])?, items(&a[1])?, Kind::Text)),
            ]
        };
        all.extend(evals.map(|(name, eval)| operator(name, kind, kind, Kind::Bool, eval)));
    }
    all
}

pub(super) fn functions() -> Vec<Function> {
    use Kind::Text;
    const TEXTS: Kind = Kind::Array(Element::Text);
    let lenient = |function: Function| Function { strict: false, ..function };
    vec![
        lenient(function("string_to_array", &[Text, Text], TEXTS, to_array)),
        lenient(function("string_to_array", &[Text, Text, Text], TEXTS, to_array)),
        // Positions in a vector, which counts from 0, by the number of its items or the positions in its array.
        function("[dims]", &[Kind::Int4], Text, |a| {
            let count = int(&a[0])?;
            Ok(if count == 0 { Datum::Null } else { Datum::text(format!("[0:{}]", count - 1)) })
        }),
        function("[positions]", &[Kind::Array(Element::Int4)], Kind::Array(Element::Int4), |a| {
            let places = items(&a[0])?.iter().map(|place| Ok(Datum::Int4(int(place)? as i32 - 1)));
            build::array(places.collect::<SqlResult<_>>()?)
        }),
        // A byte of a name, which counts from 0.
        function("[]", &[Kind::Name, Kind::Int4], Kind::InternalChar, |a| {
            let at = usize::try_from(int(&a[1])?).ok();
            let name = text(&a[0])?.as_bytes();
            let byte = at.and_then(|at| name.get(at).copied());
            match byte {
                None if at.is_some_and(|at| at < 64) => Ok(Datum::text("")),
                None => Ok(Datum::Null),
                Some(byte) if byte.is_ascii() => Ok(Datum::text(char::from(byte).to_string())),
                Some(_) => Err(SqlError::unsupported("a byte of a letter outside of ASCII as a \"char\"")),
            }
        }),
    ]
}

pub(super) fn lines() -> Vec<PolymorphicFunction> {
    use ParameterType::{Array, Arrays, Compatible, Element as Item, Is};
    const INT: ParameterType = Is(Kind::Int4);
    const TEXT: ParameterType = Is(Kind::Text);
    const INTS: ParameterType = Is(Kind::Array(Element::Int4));
    let line = |name, arguments, result, eval: PlainFunction| PolymorphicFunction {
        name,
        arguments,
        variadic: false,
        result,
        strict: true,
        told_types: false,
        eval: Eval::Plain(eval),
    };
    // Functions that accept NULL handle it themselves. Those that compare items are passed the
    // types, which decide equality.
    let lenient = |line: PolymorphicFunction| PolymorphicFunction { strict: false, ..line };
    let told = |line: PolymorphicFunction| PolymorphicFunction { strict: false, told_types: true, ..line };
    vec![
        line("[]", &[Array, INT], Item, |a| {
            let (all, at) = (items(&a[0])?, int(&a[1])?.checked_sub(1).and_then(|at| usize::try_from(at).ok()));
            Ok(at.and_then(|at| all.get(at)).cloned().unwrap_or_default())
        }),
        line("[:]", &[Array, INT, INT], Array, slice),
        lenient(line("array_append", &[Arrays, Compatible], Arrays, append)),
        lenient(line("array_prepend", &[Compatible, Arrays], Arrays, prepend)),
        lenient(line("array_cat", &[Arrays, Arrays], Arrays, concat)),
        told(line("array_position", &[Arrays, Compatible], INT, position)),
        told(line("array_position", &[Arrays, Compatible, INT], INT, position)),
        told(line("array_positions", &[Arrays, Compatible], INTS, positions)),
        told(line("array_remove", &[Arrays, Compatible], Arrays, remove)),
        told(line("array_replace", &[Arrays, Compatible, Compatible], Arrays, replace)),
        line("array_length", &[Array, INT], INT, |a| of_dimension(a, |len| len as i64)),
        line("array_upper", &[Array, INT], INT, |a| of_dimension(a, |len| len as i64)),
        line("array_lower", &[Array, INT], INT, |a| of_dimension(a, |_| 1)),
        line("array_ndims", &[Array], INT, |a| Ok(if items(&a[0])?.is_empty() { Datum::Null } else { Datum::Int4(1) })),
        line("array_dims", &[Array], TEXT, |a| {
            let all = items(&a[0])?;
            Ok(if all.is_empty() { Datum::Null } else { Datum::text(format!("[1:{}]", all.len())) })
        }),
        line("cardinality", &[Array], INT, |a| Ok(Datum::Int4(items(&a[0])?.len() as i32))),
        line("trim_array", &[Array, INT], Array, trim),
        lenient(line("array_fill", &[Item, INTS], Array, fill)),
        PolymorphicFunction { told_types: true, ..line("width_bucket", &[Compatible, Arrays], INT, width_bucket) },
        PolymorphicFunction {
            eval: Eval::InContext(to_string),
            ..told(line("array_to_string", &[Array, TEXT], TEXT, concat))
        },
        PolymorphicFunction {
            eval: Eval::InContext(to_string),
            ..told(line("array_to_string", &[Array, TEXT, TEXT], TEXT, concat))
        },
    ]
}
