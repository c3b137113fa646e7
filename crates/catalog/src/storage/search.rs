//! Values of other types among the keys of an index: `int4_column = bigint`, `timestamptz_column > date`.
//!
//! **Invariant:** every key for which the comparison holds lies where [`sought`] says. Other keys in that range are
//! refused by the condition above the look-up, so a search may find too much, never too little. Conversions that depend
//! on the session's time zone use the one in force when the statement runs.

use super::decimal;
use statement::error::{SqlError, SqlResult, SqlState};
use types::calendar::{DAY, SECOND};
use types::datum::Datum;
use types::forms::Forms;
use types::numeric::Numeric;
use types::{Kind, SqlType};

/// Exactness with which a value of one type is found among keys of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPrecision {
    /// At most one key value is equal to it.
    Exact,
    /// Several key values may be equal to it, next to each other.
    Near,
}

/// Position of a value among the values that a key can have.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyPosition {
    /// The value itself is a possible key.
    Exactly(Datum),
    /// Values equal to it, or next to it, lie between these two, both included.
    Between(Datum, Datum),
    /// Every key is greater than the value.
    Below,
    /// Every key is less than the value.
    Above,
}

/// Returns the precision with which a value of one type is searched in an index of another, or `None` if it cannot be.
pub fn precision(value: Kind, key: Kind) -> Option<KeyPrecision> {
    let is_text = |kind: Kind| matches!(kind, Kind::Text | Kind::Varchar | Kind::Name);
    let is_integer = |kind: Kind| matches!(kind, Kind::Int2 | Kind::Int4 | Kind::Int8);
    let is_float = |kind: Kind| matches!(kind, Kind::Float4 | Kind::Float8);
    if value == key
        || (is_text(value) && is_text(key))
        || ((is_integer(value) || value == Kind::Numeric) && is_integer(key))
        || (is_float(value) && is_float(key))
    {
        return Some(KeyPrecision::Exact);
    }
    let is_time = |kind: Kind| matches!(kind, Kind::Date | Kind::Timestamp | Kind::Timestamptz);
    if is_float(value) && is_integer(key) {
        // Beyond 2^53 several integers are one float.
        return Some(if key == Kind::Int8 { KeyPrecision::Near } else { KeyPrecision::Exact });
    }
    if is_time(value) && is_time(key) {
        // Where clocks are put forward, two local times are one moment.
        return Some(if value == Kind::Timestamptz { KeyPrecision::Near } else { KeyPrecision::Exact });
    }
    None
}

/// Returns true if a cast keeps the order of a column's values, so that a comparison with its result is one with the
/// column.
pub fn keeps_order(from: Kind, to: Kind) -> bool {
    matches!(
        (from, to),
        (Kind::Int2, Kind::Int4 | Kind::Int8 | Kind::Numeric | Kind::Float8)
            | (Kind::Int4, Kind::Int8 | Kind::Numeric | Kind::Float8)
            | (Kind::Int8, Kind::Numeric | Kind::Float8)
            | (Kind::Date, Kind::Timestamp)
    )
}

/// Finds the place of a value, which is not NULL, among those of a key. [`precision`] says which pairs are supported.
///
/// # Errors
/// `XX000` for a pair that is not supported.
pub fn sought(value: Datum, from: Kind, key: SqlType, forms: &Forms) -> SqlResult<KeyPosition> {
    let beyond = |is_above: bool| if is_above { KeyPosition::Above } else { KeyPosition::Below };
    Ok(match (value, key.kind) {
        (Datum::Numeric(number), Kind::Numeric) => {
            if decimal(key).is_none() {
                return Ok(KeyPosition::Exactly(Datum::Numeric(number)));
            }
            match number.with_typmod(key.typmod) {
                Ok(rounded) if rounded.is_finite() && rounded == number => KeyPosition::Exactly(Datum::Numeric(number)),
                Ok(rounded) if rounded.is_finite() => {
                    KeyPosition::Between(Datum::Numeric(rounded.clone()), Datum::Numeric(rounded))
                }
                Ok(_) | Err(_) => beyond(0 < number.signum()),
            }
        }
        (Datum::Int2(value), Kind::Int2 | Kind::Int4 | Kind::Int8) => integer(i128::from(value), key.kind),
        (Datum::Int4(value), Kind::Int2 | Kind::Int4 | Kind::Int8) => integer(i128::from(value), key.kind),
        (Datum::Int8(value), Kind::Int2 | Kind::Int4 | Kind::Int8) => integer(i128::from(value), key.kind),
        (Datum::Numeric(number), Kind::Int2 | Kind::Int4 | Kind::Int8) => match number.to_i128() {
            Some(rounded) => match integer(rounded, key.kind) {
                KeyPosition::Exactly(near) if Numeric::from_parts(rounded, 0) != number => {
                    KeyPosition::Between(near.clone(), near)
                }
                found @ (KeyPosition::Exactly(_)
                | KeyPosition::Between(..)
                | KeyPosition::Below
                | KeyPosition::Above) => found,
            },
            None => beyond(0 < number.signum()),
        },
        (Datum::Float4(value), Kind::Int2 | Kind::Int4 | Kind::Int8) => float(f64::from(value), key.kind),
        (Datum::Float8(value), Kind::Int2 | Kind::Int4 | Kind::Int8) => float(value, key.kind),
        (value @ (Datum::Float4(_) | Datum::Float8(_)), Kind::Float4 | Kind::Float8) => KeyPosition::Exactly(value),
        (Datum::Date(days), Kind::Timestamp | Kind::Timestamptz) => match days {
            i32::MAX => KeyPosition::Exactly(Datum::Timestamp(i64::MAX)),
            i32::MIN => KeyPosition::Exactly(Datum::Timestamp(i64::MIN)),
            _ => match i64::from(days).checked_mul(DAY) {
                Some(local) if key.kind == Kind::Timestamptz => moment(local, forms),
                Some(local) => KeyPosition::Exactly(Datum::Timestamp(local)),
                // Between the last moment of the calendar and infinity.
                None => KeyPosition::Between(Datum::Timestamp(i64::MAX), Datum::Timestamp(i64::MAX)),
            },
        },
        (Datum::Timestamp(local), Kind::Timestamptz) if from == Kind::Timestamp => moment(local, forms),
        (Datum::Timestamp(micros), Kind::Timestamp) if from == Kind::Timestamptz => {
            let local = forms.local(micros);
            if forms.zone.is_steady(micros.saturating_sub(MARGIN), micros.saturating_add(MARGIN)) {
                KeyPosition::Exactly(Datum::Timestamp(local))
            } else {
                around(local)
            }
        }
        (Datum::Timestamp(micros), Kind::Date) => match micros {
            i64::MAX => KeyPosition::Exactly(Datum::Date(i32::MAX)),
            i64::MIN => KeyPosition::Exactly(Datum::Date(i32::MIN)),
            _ => {
                let is_zoned = from == Kind::Timestamptz;
                let local = if is_zoned { forms.local(micros) } else { micros };
                let day = |away: i64| Datum::Date((local.div_euclid(DAY) + away) as i32);
                match local.rem_euclid(DAY) {
                    _ if is_zoned => KeyPosition::Between(day(-2), day(2)),
                    0 => KeyPosition::Exactly(day(0)),
                    _ => KeyPosition::Between(day(0), day(0)),
                }
            }
        },
        (value, kind) if precision(from, kind) == Some(KeyPrecision::Exact) && is_alike(from, kind) => {
            KeyPosition::Exactly(value)
        }
        (_, kind) => {
            let message = format!("a value of type {} among keys of type {}", from.name(), kind.name());
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, message));
        }
    })
}

/// Returns true if the values of both types have the same form.
fn is_alike(value: Kind, key: Kind) -> bool {
    let is_text = |kind: Kind| matches!(kind, Kind::Text | Kind::Varchar | Kind::Name);
    value == key || (is_text(value) && is_text(key))
}

/// Bound on the shift of any zone's clocks, and on the distance of any zone from UTC, in microseconds.
const MARGIN: i64 = 26 * 3600 * SECOND;

fn around(local: i64) -> KeyPosition {
    KeyPosition::Between(Datum::Timestamp(local.saturating_sub(MARGIN)), Datum::Timestamp(local.saturating_add(MARGIN)))
}

/// Finds the moment at which the session's clocks show this local time.
fn moment(local: i64, forms: &Forms) -> KeyPosition {
    match forms.moment(local) {
        Some(moment) => KeyPosition::Exactly(Datum::Timestamp(moment)),
        // Beyond the calendar, comparisons take the local time as it is.
        None => around(local),
    }
}

fn integer(value: i128, kind: Kind) -> KeyPosition {
    let found = if kind == Kind::Int2 {
        i16::try_from(value).ok().map(Datum::Int2)
    } else if kind == Kind::Int4 {
        i32::try_from(value).ok().map(Datum::Int4)
    } else {
        i64::try_from(value).ok().map(Datum::Int8)
    };
    match found {
        Some(found) => KeyPosition::Exactly(found),
        None if value < 0 => KeyPosition::Below,
        None => KeyPosition::Above,
    }
}

/// Bound from which on a float may stand for several integers, which differ by less than [`APART`].
const DENSE: f64 = 9_007_199_254_740_992.0;
const APART: i128 = 2048;

fn float(value: f64, kind: Kind) -> KeyPosition {
    if value.is_nan() || 1e20 < value {
        return KeyPosition::Above;
    }
    if value < -1e20 {
        return KeyPosition::Below;
    }
    let nearest = value.trunc() as i128;
    if value.abs() < DENSE {
        return match integer(nearest, kind) {
            KeyPosition::Exactly(near) if value.fract() != 0.0 => KeyPosition::Between(near.clone(), near),
            found @ (KeyPosition::Exactly(_) | KeyPosition::Between(..) | KeyPosition::Below | KeyPosition::Above) => {
                found
            }
        };
    }
    match (integer(nearest - APART, kind), integer(nearest + APART, kind)) {
        (KeyPosition::Above, _) => KeyPosition::Above,
        (_, KeyPosition::Below) => KeyPosition::Below,
        (KeyPosition::Exactly(low), KeyPosition::Exactly(high)) => KeyPosition::Between(low, high),
        (KeyPosition::Exactly(low), _) => KeyPosition::Between(low, Datum::Int8(i64::MAX)),
        (_, KeyPosition::Exactly(high)) => KeyPosition::Between(Datum::Int8(i64::MIN), high),
        _ => KeyPosition::Above,
    }
}
