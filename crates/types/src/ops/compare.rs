//! Comparison: one order for each type, and the operators based on it.

use super::{CallContext, Operator, operator, operator_in};
use crate::calendar::DAY;
use crate::datum::Datum;
use crate::numeric::Numeric;
use crate::{Element, Kind};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::plants::is_planted;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// Compares floats in PostgreSQL's order: NaN is equal to itself and greater than the rest, and -0 equals 0.
fn order_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// Converts a date to a timestamp for comparison. The result is wider than the calendar, which the infinities enclose.
fn moment(days: i32) -> i128 {
    match days {
        i32::MAX => i128::MAX,
        i32::MIN => i128::MIN,
        _ => i128::from(days) * i128::from(DAY),
    }
}

/// Converts a timestamp for comparison with a date.
fn wide(micros: i64) -> i128 {
    match micros {
        i64::MAX => i128::MAX,
        i64::MIN => i128::MIN,
        _ => i128::from(micros),
    }
}

fn integer(datum: &Datum) -> Option<i64> {
    Some(match datum {
        Datum::Int2(value) => i64::from(*value),
        Datum::Int4(value) => i64::from(*value),
        Datum::Int8(value) => *value,
        _ => return None,
    })
}

/// Compares arrays. Returns `None` if two items do not compare.
fn order_items(a: &[Datum], b: &[Datum], blanks: bool) -> Option<Ordering> {
    for (a, b) in a.iter().zip(b) {
        // Within arrays, NULL is greater than any value.
        let order = match (a.is_null(), b.is_null()) {
            (false, false) => order(a, b, blanks)?,
            (a, b) => a.cmp(&b),
        };
        if order.is_ne() {
            return Some(order);
        }
    }
    Some(a.len().cmp(&b.len()))
}

/// Compares two values that are not NULL. Returns `None` for values that do not compare. With `blanks`,
/// trailing blanks are ignored.
fn order(a: &Datum, b: &Datum, blanks: bool) -> Option<Ordering> {
    Some(match (a, b) {
        (Datum::Int4(a), Datum::Int4(b)) => a.cmp(b),
        (Datum::Int8(a), Datum::Int8(b)) | (Datum::Time(a), Datum::Time(b)) => a.cmp(b),
        (Datum::Text(a), Datum::Text(b)) if blanks => a.trim_end_matches(' ').cmp(b.trim_end_matches(' ')),
        (Datum::Text(a), Datum::Text(b)) => a.cmp(b),
        (Datum::Bool(a), Datum::Bool(b)) => a.cmp(b),
        (Datum::Oid(a), Datum::Oid(b)) => a.cmp(b),
        (Datum::Float4(a), Datum::Float4(b)) => order_floats(f64::from(*a), f64::from(*b)),
        (Datum::Float8(a), Datum::Float8(b)) => order_floats(*a, *b),
        (Datum::Float4(a), Datum::Float8(b)) => order_floats(f64::from(*a), *b),
        (Datum::Float8(a), Datum::Float4(b)) => order_floats(*a, f64::from(*b)),
        (Datum::Numeric(a), Datum::Numeric(b)) => a.cmp(b),
        (Datum::Bytes(a), Datum::Bytes(b)) => a.cmp(b),
        (Datum::Date(a), Datum::Date(b)) => a.cmp(b),
        (Datum::Timestamp(a), Datum::Timestamp(b)) => a.cmp(b),
        (Datum::Date(a), Datum::Timestamp(b)) => moment(*a).cmp(&wide(*b)),
        (Datum::Timestamp(a), Datum::Date(b)) => wide(*a).cmp(&moment(*b)),
        (Datum::Interval(a), Datum::Interval(b)) => a.length().cmp(&b.length()),
        (Datum::Uuid(_), Datum::Uuid(_)) if is_planted("uuids_are_equal") => Ordering::Equal,
        (Datum::Uuid(a), Datum::Uuid(b)) => a.cmp(b),
        (Datum::Array(a), Datum::Array(b)) => order_items(a, b, blanks)?,
        (Datum::Numeric(a), b) => a.cmp(&Numeric::from(integer(b)?)),
        (a, Datum::Numeric(b)) => Numeric::from(integer(a)?).cmp(b),
        (a, b) => integer(a)?.cmp(&integer(b)?),
    })
}

/// Compares two values for an operator.
///
/// # Errors
/// `XX000` for values that do not compare.
fn known_order(a: &Datum, b: &Datum, blanks: bool) -> SqlResult<Ordering> {
    order(a, b, blanks).ok_or_else(|| {
        let message = "a comparison of values of types that do not compare";
        SqlError::new(SqlState::INTERNAL_ERROR, message)
    })
}

/// Returns the rank of values that do not compare. Their order is never equal, so that none is mistaken for another.
fn rank(datum: &Datum) -> u8 {
    match datum {
        Datum::Bool(_) => 0,
        Datum::Int2(_) => 1,
        Datum::Int4(_) => 2,
        Datum::Int8(_) => 3,
        Datum::Oid(_) => 4,
        Datum::Float4(_) => 5,
        Datum::Float8(_) => 6,
        Datum::Numeric(_) => 7,
        Datum::Text(_) => 8,
        Datum::Bytes(_) => 9,
        Datum::Date(_) => 10,
        Datum::Time(_) => 11,
        Datum::Timestamp(_) => 12,
        Datum::Interval(_) => 13,
        Datum::Uuid(_) => 14,
        Datum::Array(_) => 15,
        Datum::Null => 16,
    }
}

fn ignores_blanks(kind: Kind) -> bool {
    matches!(kind, Kind::Bpchar | Kind::Array(Element::Bpchar))
}

/// Compares two values of one type, neither of them NULL, in the order of `ORDER BY` and with
/// the equality of `GROUP BY`.
pub fn compare(a: &Datum, b: &Datum, kind: Kind) -> Ordering {
    order(a, b, ignores_blanks(kind)).unwrap_or_else(|| {
        debug_assert!(false, "compared {a:?} with {b:?}");
        rank(a).cmp(&rank(b))
    })
}

/// Hashes a value so that values which [`compare`] considers equal have equal hashes. NULL has a hash, too.
pub fn hash<H: Hasher>(datum: &Datum, kind: Kind, state: &mut H) {
    let float = |value: f64, state: &mut H| {
        // All NaNs are equal, and so are both zeros.
        let value = if value.is_nan() { f64::NAN } else { value + 0.0 };
        value.to_bits().hash(state);
    };
    match datum {
        Datum::Null => state.write_u8(0),
        Datum::Bool(value) => value.hash(state),
        Datum::Int2(value) => i64::from(*value).hash(state),
        Datum::Int4(value) | Datum::Date(value) => i64::from(*value).hash(state),
        Datum::Int8(value) | Datum::Time(value) | Datum::Timestamp(value) => value.hash(state),
        Datum::Oid(value) => value.hash(state),
        Datum::Float4(value) => float(f64::from(*value), state),
        Datum::Float8(value) => float(*value, state),
        Datum::Numeric(value) => value.hash(state),
        Datum::Text(value) if ignores_blanks(kind) => value.trim_end_matches(' ').hash(state),
        Datum::Text(value) => value.hash(state),
        Datum::Bytes(value) => value.hash(state),
        Datum::Interval(value) => value.length().hash(state),
        Datum::Uuid(value) => value.hash(state),
        Datum::Array(items) => {
            items.len().hash(state);
            items.iter().for_each(|item| hash(item, kind.element().unwrap_or(kind), state));
        }
    }
}

/// Returns true if two values are equal, or both null.
pub fn is_same(left: &Datum, right: &Datum, kind: Kind) -> bool {
    match (left.is_null(), right.is_null()) {
        (false, false) => compare(left, right, kind).is_eq(),
        (left, right) => left && right,
    }
}

/// Returns true if the type has an order.
pub fn is_comparable(kind: Kind) -> bool {
    !matches!(kind, Kind::Json | Kind::Void | Kind::Array(Element::Json))
}

macro_rules! comparison {
    ($($name:literal $test:ident),*) => {
        /// Comparison operators by name, each with two functions: one for values as they are, one
        /// that ignores trailing blanks.
        const COMPARISONS: [(&str, super::PlainFunction, super::PlainFunction); 6] = [$((
            $name,
            |args| Ok(Datum::Bool(known_order(&args[0], &args[1], false)?.$test())),
            |args| Ok(Datum::Bool(known_order(&args[0], &args[1], true)?.$test())),
        )),*];
    };
}

comparison!("=" is_eq, "<>" is_ne, "<" is_lt, "<=" is_le, ">" is_gt, ">=" is_ge);

/// Groups of different types that compare without a cast.
const MIXED: [&[Kind]; 4] = [
    &[Kind::Int2, Kind::Int4, Kind::Int8],
    &[Kind::Float4, Kind::Float8],
    &[Kind::Date, Kind::Timestamp],
    &[Kind::Name, Kind::Text],
];

/// Converts a date, or a time with or without a zone, to a timestamp.
///
/// # Errors
/// `XX000` for any other value.
fn in_zone(datum: &Datum, is_local: bool, env: &dyn CallContext) -> SqlResult<i128> {
    let of = |local: i128| match i64::try_from(local) {
        Ok(narrow) => env.forms().moment(narrow).map_or(local, i128::from),
        Err(_) => local,
    };
    Ok(match datum {
        Datum::Date(days) => of(moment(*days)),
        Datum::Timestamp(micros) if is_local => of(wide(*micros)),
        Datum::Timestamp(micros) => wide(*micros),
        other => {
            let message = format!("no date nor time: {other:?}");
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, message));
        }
    })
}

macro_rules! zoned {
    ($($name:literal $test:ident),*) => {
        /// Comparisons of a value without a zone and one with a zone, in both orders.
        const ZONED: [(&str, super::context::ContextFunction, super::context::ContextFunction); 6] = [$((
            $name,
            |a, env| Ok(Datum::Bool(in_zone(&a[0], true, env)?.cmp(&in_zone(&a[1], false, env)?).$test())),
            |a, env| Ok(Datum::Bool(in_zone(&a[0], false, env)?.cmp(&in_zone(&a[1], true, env)?).$test())),
        )),*];
    };
}

zoned!("=" is_eq, "<>" is_ne, "<" is_lt, "<=" is_le, ">" is_gt, ">=" is_ge);

pub(super) fn operators() -> Vec<Operator> {
    let mut all = Vec::new();
    let own = |kind: &Kind| {
        // The other types are compared as the types to which they are cast.
        !matches!(
            kind,
            Kind::Json
                | Kind::Unknown
                | Kind::Varchar
                | Kind::Regclass
                | Kind::Regtype
                | Kind::Regproc
                | Kind::Regprocedure
                | Kind::Regnamespace
                | Kind::Regrole
                | Kind::Int2Vector
                | Kind::Void
        )
    };
    for (name, plain, blanks) in COMPARISONS {
        for kind in Kind::all().filter(own).filter(|kind| is_comparable(*kind)) {
            all.push(operator(name, kind, kind, Kind::Bool, if ignores_blanks(kind) { blanks } else { plain }));
        }
        for kinds in MIXED {
            for (left, right) in kinds.iter().flat_map(|left| kinds.iter().map(move |right| (*left, *right))) {
                if left != right {
                    all.push(operator(name, left, right, Kind::Bool, plain));
                }
            }
        }
    }
    for (name, right, left) in ZONED {
        for kind in [Kind::Date, Kind::Timestamp] {
            all.push(operator_in(name, kind, Kind::Timestamptz, Kind::Bool, right));
            all.push(operator_in(name, Kind::Timestamptz, kind, Kind::Bool, left));
        }
    }
    all
}
