//! The table of casts.
//!
//! A cast changes the kind and leaves the type's modifier alone: [`crate::modifier::apply`] comes after it, and knows
//! whether the cast is written in the statement. Any type has casts to and from text by way of the value's text form,
//! PostgreSQL's "I/O conversion": the one to text is an assignment cast, the one from text is explicit. A literal of
//! type `unknown` becomes any type.

use super::build::{self, TextBuilder};
use super::get::{boolean, float, impossible, int, items, mistyped, numeric, out_of_range, text};
use super::{CallContext, arithmetic, datetime};
use crate::calendar::split;
use crate::datum::Datum;
use crate::interval::Interval;
use crate::numeric::Numeric;
use crate::text as written;
use crate::{Element, Kind, SqlType};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Context in which a cast may be used without being written. Each context includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CastContext {
    /// Any expression.
    Implicit,
    /// Assignment of a value to a column.
    Assignment,
    /// Casts that are written in the statement only.
    Explicit,
}

/// Entry of the table of casts. Casts are strict.
#[derive(Debug)]
pub struct Cast {
    /// Source type.
    pub from: Kind,
    /// Target type.
    pub to: Kind,
    /// Context in which the cast may be used.
    pub context: CastContext,
    /// Changes the kind. The second argument is the target, whose modifier is not applied.
    pub eval: CastEval,
}

/// Function that changes the kind of a value.
pub type CastEval = fn(&Datum, SqlType, &dyn CallContext) -> SqlResult<Datum>;

fn same(datum: &Datum, _: SqlType, _: &dyn CallContext) -> SqlResult<Datum> {
    Ok(datum.clone())
}

/// Casts to a type by way of text.
fn read(datum: &Datum, to: SqlType, env: &dyn CallContext) -> SqlResult<Datum> {
    written::input(text(datum)?, SqlType::from(to.kind), env.forms())
}

fn without_blanks(datum: &Datum, _: SqlType, _: &dyn CallContext) -> SqlResult<Datum> {
    Ok(Datum::text(text(datum)?.trim_end_matches(' ')))
}

fn to_integer(datum: &Datum, to: SqlType, _: &dyn CallContext) -> SqlResult<Datum> {
    let value = match datum {
        Datum::Numeric(number) => {
            return Ok(match to.kind {
                Kind::Int2 => Datum::Int2(number.to_integer("smallint")?),
                Kind::Int4 => Datum::Int4(number.to_integer("integer")?),
                Kind::Int8 => Datum::Int8(number.to_integer("bigint")?),
                other => return Err(impossible(&format!("a cast to {} as one to an integer", other.name()))),
            });
        }
        Datum::Float4(_) | Datum::Float8(_) => {
            let value = float(datum)?.round_ties_even();
            // 2^63 itself is out of range, and the conversion below saturates, so both bounds are checked here.
            if !(-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) {
                return Err(out_of_range(&to.kind.name()));
            }
            value as i64
        }
        other => int(other)?,
    };
    let refused = || out_of_range(&to.kind.name());
    Ok(match to.kind {
        Kind::Int2 => Datum::Int2(i16::try_from(value).map_err(|_| refused())?),
        Kind::Int4 => Datum::Int4(i32::try_from(value).map_err(|_| refused())?),
        Kind::Int8 => Datum::Int8(value),
        other => return Err(impossible(&format!("a cast to {} as one to an integer", other.name()))),
    })
}

/// Casts an oid, an unsigned integer of 32 bits. As an int4, it keeps its bits.
fn oid_to_integer(datum: &Datum, to: SqlType, _: &dyn CallContext) -> SqlResult<Datum> {
    Ok(if to.kind == Kind::Int4 { Datum::Int4(int(datum)? as u32 as i32) } else { Datum::Int8(int(datum)?) })
}

fn to_oid(datum: &Datum, _: SqlType, _: &dyn CallContext) -> SqlResult<Datum> {
    if let Datum::Int8(value) = datum {
        return u32::try_from(*value).map(Datum::Oid).map_err(|_| out_of_range("OID"));
    }
    Ok(Datum::Oid(int(datum)? as u32))
}

fn to_float8(datum: &Datum, _: SqlType, _: &dyn CallContext) -> SqlResult<Datum> {
    Ok(Datum::Float8(match datum {
        Datum::Float4(value) => f64::from(*value),
        Datum::Numeric(number) => {
            let value = number.to_f64();
            if value.is_infinite() && number.is_finite() {
                let message = format!("\"{number}\" is out of range for type double precision");
                return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
            }
            value
        }
        other => int(other)? as f64,
    }))
}

fn to_float4(datum: &Datum, _: SqlType, _: &dyn CallContext) -> SqlResult<Datum> {
    Ok(Datum::Float4(match datum {
        Datum::Float8(value) => {
            let narrow = *value as f32;
            arithmetic::checked_float(f64::from(narrow), value.is_infinite(), *value == 0.0)?;
            narrow
        }
        Datum::Numeric(number) if number.is_finite() => written::float::parse_f32(&number.to_string())?,
        Datum::Numeric(number) => number.to_f64() as f32,
        other => int(other)? as f32,
    }))
}

fn to_numeric(datum: &Datum, _: SqlType, _: &dyn CallContext) -> SqlResult<Datum> {
    Ok(Datum::Numeric(match datum {
        Datum::Float4(value) => Numeric::from_f64(f64::from(*value), 6),
        Datum::Float8(value) => Numeric::from_f64(*value, 15),
        other => numeric(other)?.into_owned(),
    }))
}

fn to_timestamp(datum: &Datum, _: SqlType, _: &dyn CallContext) -> SqlResult<Datum> {
    Ok(match datum {
        Datum::Date(days) => Datum::Timestamp(datetime::date_to_timestamp(*days)?),
        Datum::Timestamp(micros) => Datum::Timestamp(*micros),
        other => return Err(mistyped(other)),
    })
}

/// Casts a date, or a time without a zone, which is local time in the session's zone.
fn to_timestamptz(datum: &Datum, _: SqlType, env: &dyn CallContext) -> SqlResult<Datum> {
    let (local, refused) = match datum {
        Datum::Date(days) => (datetime::date_to_timestamp(*days)?, "date out of range for timestamp"),
        other => (int(other)?, "timestamp out of range"),
    };
    let moment = env.forms().moment(local).map(Datum::Timestamp);
    moment.ok_or_else(|| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, refused))
}

/// Returns the local time of a timestamp in the session's zone.
fn local(datum: &Datum, _: SqlType, env: &dyn CallContext) -> SqlResult<Datum> {
    Ok(Datum::Timestamp(env.forms().local(int(datum)?)))
}

fn to_time(datum: &Datum, _: SqlType, _: &dyn CallContext) -> SqlResult<Datum> {
    Ok(match datum {
        Datum::Interval(span) => Datum::Time(split(span.micros).1),
        // As in PostgreSQL, an infinite timestamp has no time of day: NULL.
        Datum::Timestamp(i64::MAX | i64::MIN) => Datum::Null,
        other => Datum::Time(split(int(other)?).1),
    })
}

/// Casts an integer to a `"char"`, a byte. This server supports only the bytes of ASCII.
fn to_char(datum: &Datum, _: SqlType, _: &dyn CallContext) -> SqlResult<Datum> {
    match int(datum)? {
        0 => Ok(Datum::text("")),
        code @ 1..=127 => Ok(Datum::text(String::from(code as u8 as char))),
        -128..=-1 => Err(SqlError::unsupported("a \"char\" beyond ASCII")),
        _ => Err(out_of_range("\"char\"")),
    }
}

fn bool_text(datum: &Datum, _: SqlType, _: &dyn CallContext) -> SqlResult<Datum> {
    Ok(Datum::text(if boolean(datum)? { "true" } else { "false" }))
}

// The declared casts with PostgreSQL's contexts. Casts by way of text and those of arrays are derived from them.
fn lines() -> Vec<(Kind, Kind, CastContext, CastEval)> {
    use CastContext::{Assignment, Explicit, Implicit};
    use Kind::{
        Bool, Bpchar, Date, Float4, Float8, Int2, Int4, Int8, InternalChar, Name, Numeric as Exact, Oid, Regclass,
        Regnamespace, Regproc, Regprocedure, Regrole, Regtype, Text, Time, Timestamp, Timestamptz, Varchar,
    };
    let mut all: Vec<(Kind, Kind, CastContext, CastEval)> = vec![
        (Int4, Bool, Explicit, |datum, _, _| Ok(Datum::Bool(int(datum)? != 0))),
        (Bool, Int4, Explicit, |datum, _, _| Ok(Datum::Int4(i32::from(boolean(datum)?)))),
        (InternalChar, Int4, Explicit, |datum, _, _| {
            Ok(Datum::Int4(text(datum)?.chars().next().map_or(0, |c| u32::from(c) as i32)))
        }),
        (Int4, InternalChar, Explicit, to_char),
        (Float4, Float8, Implicit, to_float8),
        (Float8, Float4, Assignment, to_float4),
        (Float4, Exact, Assignment, to_numeric),
        (Float8, Exact, Assignment, to_numeric),
        (Exact, Float4, Implicit, to_float4),
        (Exact, Float8, Implicit, to_float8),
        (Text, Name, Implicit, read),
        (Varchar, Name, Implicit, read),
        (Bpchar, Name, Implicit, |datum, to, env| read(&without_blanks(datum, to, env)?, to, env)),
        (Bpchar, Text, Implicit, without_blanks),
        (Bpchar, Varchar, Implicit, without_blanks),
        (Text, Bpchar, Implicit, same),
        (Text, Varchar, Implicit, same),
        (Varchar, Text, Implicit, same),
        (Varchar, Bpchar, Implicit, same),
        (Name, Text, Implicit, same),
        (Name, Bpchar, Assignment, same),
        (Name, Varchar, Assignment, same),
        (InternalChar, Text, Implicit, same),
        (InternalChar, Bpchar, Assignment, same),
        (InternalChar, Varchar, Assignment, same),
        (Bool, Text, Assignment, bool_text),
        (Bool, Varchar, Assignment, bool_text),
        (Bool, Bpchar, Assignment, bool_text),
        (Text, Regclass, Implicit, read),
        (Varchar, Regclass, Implicit, read),
        (Date, Timestamp, Implicit, to_timestamp),
        (Date, Timestamptz, Implicit, to_timestamptz),
        (Timestamp, Timestamptz, Implicit, to_timestamptz),
        (Timestamptz, Timestamp, Assignment, local),
        (Timestamp, Time, Assignment, to_time),
        (Timestamptz, Time, Assignment, |datum, to, env| to_time(&local(datum, to, env)?, to, env)),
        (Kind::Interval, Time, Assignment, to_time),
        (Time, Kind::Interval, Implicit, |datum, _, _| {
            Ok(Datum::Interval(Interval { months: 0, days: 0, micros: int(datum)? }))
        }),
        (Timestamp, Date, Assignment, |datum, _, _| Ok(Datum::Date(datetime::timestamp_to_date(int(datum)?)))),
        (Timestamptz, Date, Assignment, |datum, _, env| {
            Ok(Datum::Date(datetime::timestamp_to_date(env.forms().local(int(datum)?))))
        }),
    ];
    let integers = [Int2, Int4, Int8];
    let references = [Regclass, Regtype, Regproc, Regprocedure, Regnamespace, Regrole];
    for (index, from) in integers.into_iter().enumerate() {
        // An integer widens implicitly, and narrows only in an assignment, as it may be out of range.
        for (other, to) in integers.into_iter().enumerate().filter(|(other, _)| *other != index) {
            all.push((from, to, if other > index { Implicit } else { Assignment }, to_integer));
        }
        all.push((from, Float4, Implicit, to_float4));
        all.push((from, Float8, Implicit, to_float8));
        all.push((from, Exact, Implicit, to_numeric));
        all.extend([Float4, Float8, Exact].map(|other| (other, from, Assignment, to_integer as CastEval)));
        all.push((from, Oid, Implicit, to_oid));
        all.extend(references.map(|to| (from, to, Implicit, to_oid as CastEval)));
    }
    for from in references.into_iter().chain([Oid]) {
        all.push((from, Int4, Assignment, oid_to_integer));
        all.push((from, Int8, Assignment, oid_to_integer));
    }
    for other in references {
        all.push((Oid, other, Implicit, same));
        all.push((other, Oid, Implicit, same));
    }
    all.push((Regproc, Regprocedure, Implicit, same));
    all.push((Regprocedure, Regproc, Implicit, same));
    all.push((Kind::Int2Vector, Kind::Array(Element::Int2), Implicit, same));
    all.push((Kind::OidVector, Kind::Array(Element::Oid), Implicit, same));
    for from in [Text, Varchar, Bpchar] {
        all.push((from, InternalChar, Assignment, read));
    }
    all
}

fn shown_as(datum: &Datum, kind: Kind, env: &dyn CallContext) -> SqlResult<Datum> {
    if !datum.is_of(kind) {
        return Err(mistyped(datum));
    }
    let mut out = TextBuilder::default();
    written::build(datum, kind.into(), env.forms(), &mut out)?;
    Ok(out.finish())
}

/// Defines the casts to text by way of a value's text form, by kind.
macro_rules! as_text {
    ($($kind:ident),*; $($element:ident),*) => {
        const AS_TEXT: &[(Kind, CastEval)] = &[
            $((Kind::$kind, |datum, _, env| shown_as(datum, Kind::$kind, env)),)*
            $((Kind::Array(Element::$element), |datum, _, env| shown_as(datum, Kind::Array(Element::$element), env)),)*
        ];
    };
}

as_text!(
    Bool, Bytea, InternalChar, Name, Int8, Int2, Int4, Text, Oid, Json, Float4, Float8, Unknown, Bpchar, Varchar, Date, Time,
    Timestamp, Timestamptz, Interval, Numeric, Regclass, Regtype, Regproc, Regprocedure, Regnamespace, Regrole,
    Int2Vector, OidVector, Uuid, Void;
    Bool, Bytea, InternalChar, Name, Int8, Int2, Int4, Text, Oid, Json, Float4, Float8, Bpchar, Varchar, Date, Time,
    Timestamp, Timestamptz, Interval, Numeric, Uuid, Regtype
);

/// Defines the casts of arrays, element by element. The cast of the elements determines the source type.
macro_rules! by_element {
    ($($element:ident),*) => {
        const BY_ELEMENT: &[(Element, CastEval)] = &[$((Element::$element, |datum, to, env| {
            let Some(element) = to.element() else { return Err(impossible("a cast of an array to what is none")) };
            let cast = find_cast(Element::$element.kind(), element.kind, CastContext::Explicit);
            let items = items(datum)?.iter().map(|item| {
                pulse::tick(16)?;
                match cast {
                    Some(cast) if !item.is_null() => (cast.eval)(item, element, env),
                    _ => Ok(item.clone()),
                }
            });
            build::array(items.collect::<SqlResult<_>>()?)
        })),*];
    };
}

by_element!(
    Bool,
    Bytea,
    InternalChar,
    Name,
    Int8,
    Int2,
    Int4,
    Text,
    Oid,
    Json,
    Float4,
    Float8,
    Bpchar,
    Varchar,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    Interval,
    Numeric,
    Uuid,
    Regtype
);

/// Returns the cast of [`find_cast`] by way of text.
fn by_text(from: Kind, to: Kind) -> Option<(CastContext, CastEval)> {
    let is_string = |kind: Kind| kind.category() == 'S';
    if from == to || matches!(to, Kind::Void | Kind::Unknown) {
        return None;
    }
    if from == Kind::Unknown {
        return Some((CastContext::Implicit, read));
    }
    if is_string(to) {
        let eval = AS_TEXT.iter().find(|(kind, _)| *kind == from)?.1;
        return Some((CastContext::Assignment, eval));
    }
    is_string(from).then_some((CastContext::Explicit, read))
}

static TABLE: LazyLock<HashMap<(Kind, Kind), &'static Cast>> = LazyLock::new(|| {
    let mut table = HashMap::new();
    let mut put = |from, to, context, eval| {
        table.entry((from, to)).or_insert_with(|| &*Box::leak(Box::new(Cast { from, to, context, eval })));
    };
    // The first entry of a pair counts, so the declared casts come before those by way of text.
    for (from, to, context, eval) in lines() {
        put(from, to, context, eval);
    }
    for from in Kind::all() {
        for to in Kind::all() {
            if let Some((context, eval)) = by_text(from, to) {
                put(from, to, context, eval);
            }
        }
    }
    // Arrays take the context of their elements' cast. When they run, they need the casts of elements to be there.
    let scalar: Vec<(Kind, Kind, CastContext)> =
        table.values().map(|cast: &&Cast| (cast.from, cast.to, cast.context)).collect();
    for (from, to, context) in scalar {
        if let (Some(Kind::Array(from)), Some(to)) = (from.array_of(), to.array_of())
            && let Some((_, eval)) = BY_ELEMENT.iter().find(|(element, _)| *element == from)
        {
            let cast = Cast { from: Kind::Array(from), to, context, eval: *eval };
            table.entry((cast.from, cast.to)).or_insert_with(|| &*Box::leak(Box::new(cast)));
        }
    }
    // Vectors are arrays, too.
    for vector in [Kind::Int2Vector, Kind::OidVector] {
        let Some(array) = vector.element().and_then(Kind::array_of) else { continue };
        for to in Element::all().map(Kind::Array) {
            if let Some(cast) = table.get(&(array, to)).copied() {
                let cast = Cast { from: vector, context: cast.context.max(CastContext::Assignment), ..*cast };
                table.entry((vector, to)).or_insert_with(|| &*Box::leak(Box::new(cast)));
            }
        }
    }
    table
});

/// Returns the cast from one kind to another that may be used in this context. Returns `None` if there is none, or
/// if the kinds are the same.
pub fn find_cast(from: Kind, to: Kind, context: CastContext) -> Option<&'static Cast> {
    TABLE.get(&(from, to)).copied().filter(|cast| cast.context <= context)
}

/// Returns the cast to text for an argument of any type: the value as it is shown.
pub fn shown(from: Kind) -> Option<&'static Cast> {
    static SHOWN: LazyLock<Vec<Cast>> = LazyLock::new(|| {
        let line = |(from, eval): &(Kind, CastEval)| Cast {
            from: *from,
            to: Kind::Text,
            context: CastContext::Implicit,
            eval: *eval,
        };
        AS_TEXT.iter().map(line).collect()
    });
    if from == Kind::Text { None } else { SHOWN.iter().find(|cast| cast.from == from) }
}
