//! Arithmetic of dates, times, timestamps and intervals. Infinite values stay as they are.

use super::get::{division_by_zero, float, int, interval};
use super::{CallContext, Operator, operator, operator_in, prefix};
use crate::Kind;
use crate::calendar::{self, DAY, civil_of, days_in, days_of, split};
use crate::datum::Datum;
use crate::interval::{Interval, out_of_range};
use statement::error::{SqlError, SqlResult, SqlState};

fn is_infinite(micros: i64) -> bool {
    micros == i64::MAX || micros == i64::MIN
}

/// Returns the timestamp at which a date begins.
///
/// # Errors
/// `22008`.
pub(super) fn date_to_timestamp(days: i32) -> SqlResult<i64> {
    match days {
        i32::MAX => Ok(i64::MAX),
        i32::MIN => Ok(i64::MIN),
        _ => calendar::moment(i64::from(days), 0)
            .map_err(|_| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range for timestamp")),
    }
}

/// Returns the day of a timestamp.
pub(super) fn timestamp_to_date(micros: i64) -> i32 {
    match micros {
        i64::MAX => i32::MAX,
        i64::MIN => i32::MIN,
        _ => split(micros).0 as i32,
    }
}

/// Returns the day so many months later. A day that the month does not have becomes its last.
fn plus_months(days: i64, months: i32) -> i64 {
    let civil = civil_of(days);
    let months = civil.year * 12 + civil.month - 1 + i64::from(months);
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
    days_of(year, month, civil.day.min(days_in(year, month)))
}

/// Adds an interval to a timestamp, with months and days by the local time of the session's zone.
pub(super) fn plus_in_zone(micros: i64, span: Interval, env: &dyn CallContext) -> SqlResult<i64> {
    if is_infinite(micros) {
        return Ok(micros);
    }
    let back = |days: i64, time: i64| {
        let local = days.checked_mul(DAY).and_then(|start| start.checked_add(time));
        local.and_then(|local| env.forms().moment(local)).ok_or_else(calendar::timestamp_out_of_range)
    };
    let mut micros = micros;
    if span.months != 0 {
        let (days, time) = split(env.forms().local(micros));
        micros = back(plus_months(days, span.months), time)?;
    }
    if span.days != 0 {
        let (days, time) = split(env.forms().local(micros));
        micros = back(days + i64::from(span.days), time)?;
    }
    let (days, time) = split(micros);
    calendar::moment(days, time.checked_add(span.micros).ok_or_else(calendar::timestamp_out_of_range)?)
}

/// Adds an interval to a timestamp: months first, then days, then the rest. A day that the month does
/// not have becomes its last.
pub(super) fn plus(micros: i64, span: Interval) -> SqlResult<i64> {
    if is_infinite(micros) {
        return Ok(micros);
    }
    let (mut days, time) = split(micros);
    if span.months != 0 {
        days = plus_months(days, span.months);
    }
    days += i64::from(span.days);
    let time = time.checked_add(span.micros).ok_or_else(calendar::timestamp_out_of_range)?;
    calendar::moment(days, time)
}

fn difference(a: i64, b: i64) -> SqlResult<Interval> {
    if is_infinite(a) || is_infinite(b) {
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "cannot subtract infinite timestamps"));
    }
    let micros = a.checked_sub(b).ok_or_else(out_of_range)?;
    Ok(Interval { months: 0, days: (micros / DAY) as i32, micros: micros % DAY })
}

fn date_plus(args: [&Datum; 2], sign: i64) -> SqlResult<Datum> {
    let days = int(args[0])?;
    if days == i64::from(i32::MAX) || days == i64::from(i32::MIN) {
        return Ok(args[0].clone());
    }
    calendar::date(days + sign * int(args[1])?).map(Datum::Date)
}

fn date_minus_date(args: &[Datum]) -> SqlResult<Datum> {
    let infinite = |days: i64| days == i64::from(i32::MAX) || days == i64::from(i32::MIN);
    let (a, b) = (int(&args[0])?, int(&args[1])?);
    if infinite(a) || infinite(b) {
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "cannot subtract infinite dates"));
    }
    i32::try_from(a - b).map(Datum::Int4).map_err(|_| calendar::date_out_of_range())
}

/// Returns a date or timestamp as a timestamp.
fn moment_of(datum: &Datum) -> SqlResult<i64> {
    match datum {
        Datum::Date(days) => date_to_timestamp(*days),
        other => int(other),
    }
}

fn moment_plus(moment: &Datum, span: Interval) -> SqlResult<Datum> {
    Ok(Datum::Timestamp(plus(moment_of(moment)?, span)?))
}

fn date_and_time(date: &Datum, time: &Datum) -> SqlResult<Datum> {
    let start = moment_of(date)?;
    if is_infinite(start) {
        return Ok(Datum::Timestamp(start));
    }
    let (days, _) = split(start);
    Ok(Datum::Timestamp(calendar::moment(days, int(time)?)?))
}

/// Adds an interval to a time of day. Only its microseconds count, and the sum wraps around at midnight.
fn time_plus(time: &Datum, micros: i64) -> SqlResult<Datum> {
    Ok(Datum::Time((i128::from(int(time)?) + i128::from(micros)).rem_euclid(i128::from(DAY)) as i64))
}

pub(super) fn operators() -> Vec<Operator> {
    use Kind::{Date, Float8, Int4, Interval as Span, Time, Timestamp, Timestamptz};
    let mut all = vec![
        operator("+", Span, Span, Span, |a| Ok(Datum::Interval(interval(&a[0])?.plus(interval(&a[1])?)?))),
        operator("-", Span, Span, Span, |a| {
            let (left, right) = (interval(&a[0])?, interval(&a[1])?);
            let months = left.months.checked_sub(right.months).ok_or_else(out_of_range)?;
            let days = left.days.checked_sub(right.days).ok_or_else(out_of_range)?;
            let micros = left.micros.checked_sub(right.micros).ok_or_else(out_of_range)?;
            Ok(Datum::Interval(Interval { months, days, micros }))
        }),
        prefix("-", Span, Span, |a| Ok(Datum::Interval(interval(&a[0])?.negated()?))),
        operator("*", Span, Float8, Span, |a| {
            let factor = float(&a[1])?;
            Ok(Datum::Interval(interval(&a[0])?.scaled(|part| part * factor)?))
        }),
        operator("*", Float8, Span, Span, |a| {
            let factor = float(&a[0])?;
            Ok(Datum::Interval(interval(&a[1])?.scaled(|part| part * factor)?))
        }),
        operator("/", Span, Float8, Span, |a| {
            let divisor = float(&a[1])?;
            if divisor == 0.0 {
                return Err(division_by_zero());
            }
            Ok(Datum::Interval(interval(&a[0])?.scaled(|part| part / divisor)?))
        }),
        operator("+", Date, Int4, Date, |a| date_plus([&a[0], &a[1]], 1)),
        operator("+", Int4, Date, Date, |a| date_plus([&a[1], &a[0]], 1)),
        operator("-", Date, Int4, Date, |a| date_plus([&a[0], &a[1]], -1)),
        operator("-", Date, Date, Int4, date_minus_date),
        operator("+", Date, Time, Timestamp, |a| date_and_time(&a[0], &a[1])),
        operator("+", Time, Date, Timestamp, |a| date_and_time(&a[1], &a[0])),
        operator("-", Time, Time, Span, |a| {
            Ok(Datum::Interval(Interval { months: 0, days: 0, micros: int(&a[0])? - int(&a[1])? }))
        }),
        operator("+", Time, Span, Time, |a| time_plus(&a[0], interval(&a[1])?.micros)),
        operator("+", Span, Time, Time, |a| time_plus(&a[1], interval(&a[0])?.micros)),
        operator("-", Time, Span, Time, |a| time_plus(&a[0], interval(&a[1])?.micros.wrapping_neg())),
    ];
    all.push(operator("-", Timestamptz, Timestamptz, Span, |a| {
        Ok(Datum::Interval(difference(int(&a[0])?, int(&a[1])?)?))
    }));
    // With a zone, days and months depend on the clocks of the session, so these operators need its context.
    all.push(operator_in("+", Timestamptz, Span, Timestamptz, |a, env| {
        Ok(Datum::Timestamp(plus_in_zone(int(&a[0])?, interval(&a[1])?, env)?))
    }));
    all.push(operator_in("+", Span, Timestamptz, Timestamptz, |a, env| {
        Ok(Datum::Timestamp(plus_in_zone(int(&a[1])?, interval(&a[0])?, env)?))
    }));
    all.push(operator_in("-", Timestamptz, Span, Timestamptz, |a, env| {
        Ok(Datum::Timestamp(plus_in_zone(int(&a[0])?, interval(&a[1])?.negated()?, env)?))
    }));
    for (kind, result) in [(Date, Timestamp), (Timestamp, Timestamp)] {
        all.push(operator("+", kind, Span, result, |a| moment_plus(&a[0], interval(&a[1])?)));
        all.push(operator("+", Span, kind, result, |a| moment_plus(&a[1], interval(&a[0])?)));
        all.push(operator("-", kind, Span, result, |a| moment_plus(&a[0], interval(&a[1])?.negated()?)));
        if kind != Date {
            all.push(operator("-", kind, kind, Span, |a| Ok(Datum::Interval(difference(int(&a[0])?, int(&a[1])?)?))));
        }
    }
    all
}

/// Returns the difference in years, months and days of the calendar: `age`.
pub(super) fn age(first: i64, second: i64) -> SqlResult<Datum> {
    if is_infinite(first) || is_infinite(second) {
        return Err(SqlError::unsupported("the age of an infinite timestamp"));
    }
    let ((a, a_time), (b, b_time)) = (split(first), split(second));
    let (a, b) = (civil_of(a), civil_of(b));
    let sign = if first < second { -1 } else { 1 };
    let mut micros = (a_time - b_time) * sign;
    let mut days = (a.day - b.day) * sign;
    let mut months = ((a.year - b.year) * 12 + a.month - b.month) * sign;
    if micros < 0 {
        micros += DAY;
        days -= 1;
    }
    // A month is borrowed from the earlier of the two.
    let early = if sign < 0 { a } else { b };
    while days < 0 {
        days += days_in(early.year, early.month);
        months -= 1;
    }
    Ok(Datum::Interval(Interval { months: (months * sign) as i32, days: (days * sign) as i32, micros: micros * sign }))
}
