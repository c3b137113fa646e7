//! Aggregates of ordered values: `percentile_cont`, `percentile_disc`, `mode`.

use super::compare;
use super::get::{float, interval};
use crate::Kind;
use crate::datum::Datum;
use statement::error::{SqlError, SqlResult, SqlState};

/// Aggregate over ordered values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum OrderedAggregate {
    /// Interpolation between the two nearest values.
    Continuous,
    /// First value whose position is not below the fraction.
    Discrete,
    /// Most frequent value.
    Mode,
}

/// Returns the result over ordered values, at least one, none of them null.
pub(super) fn finish(what: OrderedAggregate, values: &[Datum], own: &Datum, kind: Kind) -> SqlResult<Datum> {
    match (what, own) {
        (OrderedAggregate::Mode, _) => Ok(mode(values, kind)),
        (_, Datum::Array(fractions)) => {
            let one = |fraction: &Datum| percentile(what, values, fraction);
            fractions.iter().map(one).collect::<SqlResult<Vec<_>>>().map(|all| Datum::Array(all.into()))
        }
        (_, fraction) => percentile(what, values, fraction),
    }
}

fn mode(values: &[Datum], kind: Kind) -> Datum {
    let mut best: &[Datum] = &[];
    for run in values.chunk_by(|left, right| compare(left, right, kind).is_eq()) {
        if best.len() < run.len() {
            best = run;
        }
    }
    best.first().cloned().unwrap_or_default()
}

fn percentile(what: OrderedAggregate, values: &[Datum], fraction: &Datum) -> SqlResult<Datum> {
    if fraction.is_null() {
        return Ok(Datum::Null);
    }
    let fraction = float(fraction)?;
    if !(0.0..=1.0).contains(&fraction) {
        let message = format!("percentile value {fraction} is not between 0 and 1");
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
    }
    let count = values.len();
    let at = |place: f64| values.get((place as usize).min(count.saturating_sub(1))).cloned().unwrap_or_default();
    if what == OrderedAggregate::Discrete {
        return Ok(at((fraction * count as f64).ceil().max(1.0) - 1.0));
    }
    let place = fraction * (count as f64 - 1.0);
    let (low, high) = (at(place.floor()), at(place.ceil()));
    if place.floor() == place.ceil() {
        return Ok(low);
    }
    let part = place - place.floor();
    Ok(match &low {
        Datum::Interval(from) => {
            let span = interval(&high)?.plus(from.negated()?)?;
            Datum::Interval(from.plus(span.scaled(|value| value * part)?)?)
        }
        _ => Datum::Float8(float(&low)? + part * (float(&high)? - float(&low)?)),
    })
}
