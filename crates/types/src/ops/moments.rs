//! Functions that make, truncate and adjust dates, times and intervals.

use super::context::ContextFunction;
use super::datetime::{plus, plus_in_zone};
use super::fields::zone_named;
use super::get::{float, int, interval, mistyped, text};
use super::{Function, PlainFunction, function, function_in};
use crate::Kind;
use crate::calendar::{self, DAY, SECOND, days_in, days_of, split};
use crate::datetime::offset_of;
use crate::datum::Datum;
use crate::interval::{Interval, out_of_range};
use crate::zone::ZoneName;
use statement::error::{SqlError, SqlResult, SqlState};

fn is_infinite(micros: i64) -> bool {
    micros == i64::MAX || micros == i64::MIN
}

fn overflow(message: String) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
}

/// Returns the microseconds of a time of day from the arguments of `make_time`.
fn time_of(hour: i64, minute: i64, second: f64) -> SqlResult<i64> {
    let bad = || {
        // The format of C's %02g.
        let mut shown = String::new();
        crate::text::float::push_f64(&mut shown, second, -9);
        let shown = if shown.len() < 2 { format!("0{shown}") } else { shown };
        overflow(format!("time field value out of range: {hour}:{minute:02}:{shown}"))
    };
    let micros = (second * 1e6).round_ties_even();
    let is_24 = hour == 24 && (minute > 0 || second > 0.0);
    if !(0..=24).contains(&hour) || !(0..=59).contains(&minute) || second.is_nan() || !(0.0..=60.0).contains(&second) {
        return Err(bad());
    }
    if is_24 || micros > 60e6 {
        return Err(bad());
    }
    Ok((hour * 60 + minute) * 60 * SECOND + micros as i64)
}

fn make_time(args: &[Datum]) -> SqlResult<Datum> {
    time_of(int(&args[0])?, int(&args[1])?, float(&args[2])?).map(Datum::Time)
}

/// Returns the local time of `make_timestamp`'s arguments.
fn local_of(args: &[Datum]) -> SqlResult<i64> {
    let (written, month, day) = (int(&args[0])?, int(&args[1])?, int(&args[2])?);
    let year = if written < 0 { written + 1 } else { written };
    let real = written != 0 && (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
    if !real {
        return Err(overflow(format!("date field value out of range: {written}-{month:02}-{day:02}")));
    }
    let time = time_of(int(&args[3])?, int(&args[4])?, float(&args[5])?)?;
    calendar::moment(days_of(year, month, day), time)
        .map_err(|_| overflow(format!("date out of range: {written}-{month:02}-{day:02}")))
}

/// Returns the zone of `make_timestamptz`: an offset with its sign, an abbreviation, or a name.
fn zone_given(text: &str) -> SqlResult<ZoneName> {
    match text.as_bytes().first() {
        Some(b'0'..=b'9') => {
            let message = format!("invalid input syntax for type numeric time zone: \"{text}\"");
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                .hint("Numeric time zones must have \"-\" or \"+\" as first character."))
        }
        Some(b'+' | b'-') => offset_of(text)?.map_or_else(|| zone_named(text), Ok),
        _ => zone_named(text),
    }
}

fn make_interval(args: &[Datum]) -> SqlResult<Datum> {
    let part = |at: usize| args.get(at).map_or(Ok(0), int);
    let seconds = args.get(6).map_or(Ok(0.0), float)?;
    if !seconds.is_finite() {
        return Err(out_of_range());
    }
    let narrow = |value: i64| i32::try_from(value).map_err(|_| out_of_range());
    let micros = (seconds * 1e6).round_ties_even();
    if micros.abs() >= i64::MAX as f64 {
        return Err(out_of_range());
    }
    let clock = part(4)? * 3600 * SECOND + part(5)? * 60 * SECOND;
    Ok(Datum::Interval(Interval {
        months: narrow(part(0)? * 12 + part(1)?)?,
        days: narrow(part(2)? * 7 + part(3)?)?,
        micros: clock.checked_add(micros as i64).ok_or_else(out_of_range)?,
    }))
}

/// Carries whole units of `from` over to `to`, so many of them making one.
fn carried(to: i64, from: i64, unit: i64) -> SqlResult<(i64, i64)> {
    let to = to.checked_add(from / unit).ok_or_else(out_of_range)?;
    Ok((to, from % unit))
}

fn narrow(value: i64) -> SqlResult<i32> {
    i32::try_from(value).map_err(|_| out_of_range())
}

fn justify_hours(span: Interval) -> SqlResult<Interval> {
    let (mut days, mut micros) = carried(i64::from(span.days), span.micros, DAY)?;
    if days > 0 && micros < 0 {
        (days, micros) = (days - 1, micros + DAY);
    } else if days < 0 && micros > 0 {
        (days, micros) = (days + 1, micros - DAY);
    }
    Ok(Interval { days: narrow(days)?, micros, ..span })
}

fn justify_days(span: Interval) -> SqlResult<Interval> {
    let (mut months, mut days) = carried(i64::from(span.months), i64::from(span.days), 30)?;
    if months > 0 && days < 0 {
        (months, days) = (months - 1, days + 30);
    } else if months < 0 && days > 0 {
        (months, days) = (months + 1, days - 30);
    }
    Ok(Interval { months: narrow(months)?, days: narrow(days)?, ..span })
}

fn justify_interval(span: Interval) -> SqlResult<Interval> {
    let (mut months, mut days, mut micros) = (i64::from(span.months), i64::from(span.days), span.micros);
    // Days are carried to months first if both have the same sign, so that nothing overflows without need.
    if (days > 0 && micros > 0) || (days < 0 && micros < 0) {
        (months, days) = carried(months, days, 30)?;
    }
    (days, micros) = carried(days, micros, DAY)?;
    (months, days) = carried(months, days, 30)?;
    if months > 0 && (days < 0 || (days == 0 && micros < 0)) {
        (months, days) = (months - 1, days + 30);
    } else if months < 0 && (days > 0 || (days == 0 && micros > 0)) {
        (months, days) = (months + 1, days - 30);
    }
    if days > 0 && micros < 0 {
        (days, micros) = (days - 1, micros + DAY);
    } else if days < 0 && micros > 0 {
        (days, micros) = (days + 1, micros - DAY);
    }
    Ok(Interval { months: narrow(months)?, days: narrow(days)?, micros })
}

fn date_bin(args: &[Datum]) -> SqlResult<Datum> {
    let (stride, moment, origin) = (interval(&args[0])?, int(&args[1])?, int(&args[2])?);
    if is_infinite(moment) {
        return Ok(Datum::Timestamp(moment));
    }
    if is_infinite(origin) {
        return Err(overflow("origin out of range".to_owned()));
    }
    if stride.months != 0 {
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "timestamps cannot be binned into intervals containing months or years",
        ));
    }
    let stride = i64::from(stride.days)
        .checked_mul(DAY)
        .and_then(|days| days.checked_add(stride.micros))
        .ok_or_else(out_of_range)?;
    if stride <= 0 {
        return Err(overflow("stride must be greater than zero".to_owned()));
    }
    let behind = moment.checked_sub(origin).ok_or_else(out_of_range)?;
    let cut = origin.checked_add(behind - behind.rem_euclid(stride)).ok_or_else(calendar::timestamp_out_of_range)?;
    let (days, time) = split(cut);
    calendar::moment(days, time).map(Datum::Timestamp)
}

/// Returns true if two periods have a time in common. Their ends may be NULL, and may be given in either order.
fn overlaps(mut first: [Option<i64>; 2], mut second: [Option<i64>; 2]) -> Datum {
    for pair in [&mut first, &mut second] {
        let turned = match *pair {
            [None, Some(_)] => true,
            [Some(a), Some(b)] => b < a,
            _ => false,
        };
        if turned {
            pair.swap(0, 1);
        }
    }
    let ([Some(a), a_end], [Some(b), b_end]) = (first, second) else { return Datum::Null };
    let (early_end, late, late_end) = match a.cmp(&b) {
        std::cmp::Ordering::Greater => (b_end, a, a_end),
        std::cmp::Ordering::Less => (a_end, b, b_end),
        std::cmp::Ordering::Equal => {
            // Periods with equal starts overlap if both ends are known.
            return if a_end.is_none() || b_end.is_none() { Datum::Null } else { Datum::Bool(true) };
        }
    };
    match early_end {
        None => Datum::Null,
        Some(end) if late < end => Datum::Bool(true),
        // If the later period has no end, its start may be meant as its end.
        Some(_) if late_end.is_none() => Datum::Null,
        Some(_) => Datum::Bool(false),
    }
}

/// Returns the end of a period with this start. An interval as its end gives its length.
fn end_of(start: &Datum, end: &Datum, plus: impl Fn(i64, Interval) -> SqlResult<i64>) -> SqlResult<Option<i64>> {
    match end {
        Datum::Interval(_) if start.is_null() => Ok(None),
        Datum::Interval(span) => plus(int(start)?, *span).map(Some),
        other => moment_of(other),
    }
}

/// Returns a timestamp that may be null.
fn moment_of(datum: &Datum) -> SqlResult<Option<i64>> {
    if datum.is_null() { Ok(None) } else { int(datum).map(Some) }
}

fn to_timestamp(args: &[Datum]) -> SqlResult<Datum> {
    let seconds = float(&args[0])?;
    if seconds.is_nan() {
        return Err(overflow("timestamp cannot be NaN".to_owned()));
    }
    if seconds.is_infinite() {
        return Ok(Datum::Timestamp(if seconds > 0.0 { i64::MAX } else { i64::MIN }));
    }
    let bad = || {
        let mut shown = String::new();
        crate::text::float::push_f64(&mut shown, seconds, -9);
        overflow(format!("timestamp out of range: \"{shown}\""))
    };
    // Counted from 2000, as in PostgreSQL, so that the float loses the same digits.
    let from_2000 = ((seconds - f64::from(calendar::POSTGRES_EPOCH) * 86_400.0) * 1e6).round_ties_even();
    if from_2000.abs() > 9.2e18 {
        return Err(bad());
    }
    calendar::moment(i64::from(calendar::POSTGRES_EPOCH), from_2000 as i64).map(Datum::Timestamp).map_err(|_| bad())
}

pub(super) fn functions() -> Vec<Function> {
    use Kind::{Bool, Date, Float8, Int4, Interval as Span, Text, Time, Timestamp, Timestamptz};
    static PARTS: [Kind; 7] = [Int4, Int4, Int4, Int4, Int4, Int4, Float8];
    let mut all = vec![
        function("make_time", &[Int4, Int4, Float8], Time, make_time),
        function("make_timestamp", &[Int4, Int4, Int4, Int4, Int4, Float8], Timestamp, |a| {
            local_of(a).map(Datum::Timestamp)
        }),
        function_in("make_timestamptz", &[Int4, Int4, Int4, Int4, Int4, Float8], Timestamptz, |a, env| {
            let moment = env.forms().moment(local_of(a)?).ok_or_else(calendar::timestamp_out_of_range)?;
            Ok(Datum::Timestamp(moment))
        }),
        function("make_timestamptz", &[Int4, Int4, Int4, Int4, Int4, Float8, Text], Timestamptz, |a| {
            let local = local_of(a)?;
            let zone = zone_given(text(&a[6])?)?;
            let (days, time) = split(local);
            calendar::moment(days, time - i64::from(zone.offset_of_local(local)) * SECOND).map(Datum::Timestamp)
        }),
        function("justify_hours", &[Span], Span, |a| Ok(Datum::Interval(justify_hours(interval(&a[0])?)?))),
        function("justify_days", &[Span], Span, |a| Ok(Datum::Interval(justify_days(interval(&a[0])?)?))),
        function("justify_interval", &[Span], Span, |a| Ok(Datum::Interval(justify_interval(interval(&a[0])?)?))),
        function("date_bin", &[Span, Timestamp, Timestamp], Timestamp, date_bin),
        function("date_bin", &[Span, Timestamptz, Timestamptz], Timestamptz, date_bin),
        function("isfinite", &[Date], Bool, |a| match a[0] {
            Datum::Date(days) => Ok(Datum::Bool(days != i32::MAX && days != i32::MIN)),
            ref other => Err(mistyped(other)),
        }),
        function("isfinite", &[Timestamp], Bool, |a| Ok(Datum::Bool(!is_infinite(int(&a[0])?)))),
        function("isfinite", &[Timestamptz], Bool, |a| Ok(Datum::Bool(!is_infinite(int(&a[0])?)))),
        function("isfinite", &[Span], Bool, |a| interval(&a[0]).map(|_| Datum::Bool(true))),
        function("to_timestamp", &[Float8], Timestamptz, to_timestamp),
    ];
    for count in 0..=PARTS.len() {
        all.push(function("make_interval", &PARTS[..count], Span, make_interval));
    }
    let plain: PlainFunction =
        |a| Ok(overlaps([moment_of(&a[0])?, moment_of(&a[1])?], [moment_of(&a[2])?, moment_of(&a[3])?]));
    for kind in [Timestamp, Timestamptz, Time] {
        let own: &'static [Kind] = Box::leak(Box::new([kind; 4]));
        all.push(Function { strict: false, ..function("overlaps", own, Bool, plain) });
    }
    // A period may be given by its start and length. With a zone, the length depends on the clocks of the session.
    let local: ContextFunction = |a, _| {
        let end = |start: &Datum, end: &Datum| end_of(start, end, plus);
        Ok(overlaps([moment_of(&a[0])?, end(&a[0], &a[1])?], [moment_of(&a[2])?, end(&a[2], &a[3])?]))
    };
    let zoned: ContextFunction = |a, env| {
        let end = |start: &Datum, end: &Datum| end_of(start, end, |micros, span| plus_in_zone(micros, span, env));
        Ok(overlaps([moment_of(&a[0])?, end(&a[0], &a[1])?], [moment_of(&a[2])?, end(&a[2], &a[3])?]))
    };
    for (kind, eval) in [(Timestamp, local), (Timestamptz, zoned)] {
        for (first, second) in [(true, true), (true, false), (false, true)] {
            let end = |is_span| if is_span { Span } else { kind };
            let own: &'static [Kind] = Box::leak(Box::new([kind, end(first), kind, end(second)]));
            all.push(Function { strict: false, ..function_in("overlaps", own, Bool, eval) });
        }
    }
    all
}
