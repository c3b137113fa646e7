//! Fields of dates and times: `extract`, `date_part`, `date_trunc`, and functions that make a date from fields.

use super::get::{int, interval, text};
use super::{CallContext, Function, datetime, function, function_in};
use crate::Kind;
use crate::calendar::{self, CivilDate, DAY, SECOND, civil_of, days_of, split};
use crate::datum::Datum;
use crate::interval::Interval;
use crate::numeric::Numeric;
use crate::zone::ZoneName;
use statement::error::{SqlError, SqlResult, SqlState};

/// Returns the canonical name of a field, given by any of PostgreSQL's names.
fn field(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    Some(match name.as_str() {
        "microseconds" | "microsecond" | "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecon" => {
            "microseconds"
        }
        "milliseconds" | "millisecond" | "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecon" => {
            "milliseconds"
        }
        "second" | "seconds" | "s" | "sec" | "secs" => "second",
        "minute" | "minutes" | "m" | "min" | "mins" => "minute",
        "hour" | "hours" | "h" | "hr" | "hrs" => "hour",
        "day" | "days" | "d" => "day",
        "week" | "weeks" | "w" => "week",
        "month" | "months" | "mon" | "mons" => "month",
        "quarter" | "qtr" => "quarter",
        "year" | "years" | "y" | "yr" | "yrs" => "year",
        "decade" | "decades" | "dec" | "decs" => "decade",
        "century" | "centuries" | "c" | "cent" => "century",
        "millennium" | "millennia" | "mil" | "mils" => "millennium",
        "epoch" => "epoch",
        "dow" => "dow",
        "isodow" => "isodow",
        "doy" => "doy",
        "isoyear" => "isoyear",
        "julian" | "jd" | "j" => "julian",
        "timezone" => "timezone",
        "timezone_h" | "timezone_hour" => "timezone_hour",
        "timezone_m" | "timezone_minute" => "timezone_minute",
        _ => return None,
    })
}

/// Returns a field that is a unit of time, whether or not it truncates anything.
fn truncatable(name: &str, kind: Kind) -> SqlResult<&'static str> {
    let unit = |known: &&str| !matches!(*known, "dow" | "isodow" | "doy" | "isoyear" | "epoch" | "julian");
    field(name).filter(unit).ok_or_else(|| {
        let message = format!("unit \"{}\" not recognized for type {}", name.to_ascii_lowercase(), kind.name());
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
    })
}

fn refused(name: &str, kind: Kind) -> SqlError {
    let (verb, state) = match field(name) {
        Some(_) => ("supported", SqlState::FEATURE_NOT_SUPPORTED),
        None => ("recognized", SqlState::INVALID_PARAMETER_VALUE),
    };
    SqlError::new(state, format!("unit \"{}\" not {verb} for type {}", name.to_ascii_lowercase(), kind.name()))
}

/// Returns a number of microseconds in another unit, which consists of 10^`scale` of them.
fn micros_as(micros: i64, scale: u16) -> Numeric {
    Numeric::from_parts(i128::from(micros), scale)
}

/// Returns a field of a time of day.
fn of_clock(name: &str, micros: i64) -> Option<Numeric> {
    let minute = 60 * SECOND;
    Some(match name {
        "microseconds" => Numeric::from(micros % minute),
        "milliseconds" => micros_as(micros % minute, 3),
        "second" => micros_as(micros % minute, 6),
        "minute" => Numeric::from(micros / minute % 60),
        "hour" => Numeric::from(micros / (60 * minute)),
        _ => return None,
    })
}

/// Returns year and week of ISO 8601.
fn iso_week(days: i64) -> (i64, i64) {
    // The year of a week is that of its Thursday.
    let thursday = days - (days + 3).rem_euclid(7) + 3;
    let year = civil_of(thursday).year;
    (year, (thursday - days_of(year, 1, 1)) / 7 + 1)
}

/// Returns a year without a year 0: 1 BC is -1.
fn counted(year: i64) -> i64 {
    if year > 0 { year } else { year - 1 }
}

fn of_day(name: &str, days: i64) -> Option<Numeric> {
    let civil = civil_of(days);
    // Centuries and millennia of both eras begin with year 1.
    let group = |size: i64| if civil.year > 0 { (civil.year + size - 1) / size } else { -((size - civil.year) / size) };
    Some(Numeric::from(match name {
        "day" => civil.day,
        "month" => civil.month,
        "quarter" => (civil.month - 1) / 3 + 1,
        "year" => counted(civil.year),
        "decade" => civil.year.div_euclid(10),
        "century" => group(100),
        "millennium" => group(1000),
        "week" => iso_week(days).1,
        "isoyear" => counted(iso_week(days).0),
        "dow" => (days + 4).rem_euclid(7),
        "isodow" => (days + 3).rem_euclid(7) + 1,
        "doy" => days - days_of(civil.year, 1, 1) + 1,
        "julian" => days + 2_440_588,
        "epoch" => days * 86_400,
        _ => return None,
    }))
}

/// Returns a field of infinity: infinite if the field grows with time, otherwise `None`.
fn of_infinity(name: &str, positive: bool) -> Option<Numeric> {
    let grows = matches!(name, "year" | "decade" | "century" | "millennium" | "isoyear" | "julian" | "epoch");
    grows.then_some(if positive { Numeric::INFINITY } else { Numeric::NEGATIVE_INFINITY })
}

fn extract_date(name: &str, days: i32) -> SqlResult<Option<Numeric>> {
    let known = field(name).filter(|name| of_day(name, 0).is_some()).ok_or_else(|| refused(name, Kind::Date))?;
    if days == i32::MAX || days == i32::MIN {
        return Ok(of_infinity(known, days > 0));
    }
    Ok(of_day(known, i64::from(days)))
}

/// Returns a field of a timestamp, in local time so many seconds east of UTC, or without a zone.
fn extract_timestamp(name: &str, micros: i64, offset: Option<i32>) -> SqlResult<Option<Numeric>> {
    let kind = if offset.is_some() { Kind::Timestamptz } else { Kind::Timestamp };
    let known = field(name).ok_or_else(|| refused(name, kind))?;
    let is_zone = known.starts_with("timezone");
    if micros == i64::MAX || micros == i64::MIN {
        return Ok(of_infinity(known, micros > 0));
    }
    if is_zone && kind == Kind::Timestamp {
        return Err(refused(name, kind));
    }
    let offset = i64::from(offset.unwrap_or(0));
    let (days, time) = split(micros.saturating_add(offset * SECOND));
    Ok(match known {
        "timezone" => Some(Numeric::from(offset)),
        "timezone_hour" => Some(Numeric::from(offset / 3600)),
        "timezone_minute" => Some(Numeric::from(offset / 60 % 60)),
        "epoch" => Some(micros_as(micros, 6)),
        "julian" => {
            let part = Numeric::from(time).div(&Numeric::from(DAY))?;
            Some(Numeric::from(days + 2_440_588).add(&part)?)
        }
        _ => of_clock(known, time).or_else(|| of_day(known, days)),
    })
}

fn extract_time(name: &str, micros: i64) -> SqlResult<Option<Numeric>> {
    let found = field(name).and_then(|known| match known {
        "epoch" => Some(micros_as(micros, 6)),
        _ => of_clock(known, micros),
    });
    found.map(Some).ok_or_else(|| refused(name, Kind::Time))
}

fn extract_interval(name: &str, span: Interval) -> SqlResult<Option<Numeric>> {
    let (years, months) = (i64::from(span.months / 12), i64::from(span.months % 12));
    let found = field(name).and_then(|known| match known {
        "day" => Some(Numeric::from(span.days)),
        "month" => Some(Numeric::from(months)),
        "quarter" => Some(Numeric::from(months / 3 + 1)),
        "year" => Some(Numeric::from(years)),
        "decade" => Some(Numeric::from(years / 10)),
        "century" => Some(Numeric::from(years / 100)),
        "millennium" => Some(Numeric::from(years / 1000)),
        "epoch" => {
            // A year counts 365.25 days here, a month 30.
            let quarters = i128::from(1461 * years + 120 * months + 4 * i64::from(span.days));
            Some(Numeric::from_parts(quarters * 21_600 * i128::from(SECOND) + i128::from(span.micros), 6))
        }
        _ => of_clock(known, span.micros),
    });
    found.map(Some).ok_or_else(|| refused(name, Kind::Interval))
}

fn trunc_civil(name: &str, days: i64) -> Option<CivilDate> {
    let CivilDate { year, month, day } = civil_of(days);
    let (year, month, day) = match name {
        "day" => (year, month, day),
        "month" => (year, month, 1),
        "quarter" => (year, (month - 1) / 3 * 3 + 1, 1),
        "year" => (year, 1, 1),
        "decade" if year > 0 => (year / 10 * 10, 1, 1),
        "decade" => (-((8 - (year - 1)) / 10) * 10, 1, 1),
        "century" if year > 0 => ((year + 99) / 100 * 100 - 99, 1, 1),
        "century" => (-((99 - (year - 1)) / 100) * 100 + 1, 1, 1),
        "millennium" if year > 0 => ((year + 999) / 1000 * 1000 - 999, 1, 1),
        "millennium" => (-((999 - (year - 1)) / 1000) * 1000 + 1, 1, 1),
        "week" => return Some(civil_of(days - (days + 3).rem_euclid(7))),
        _ => return None,
    };
    Some(CivilDate { year, month, day })
}

/// Returns the unit of a field of a time of day, in microseconds.
fn clock_unit(name: &str) -> Option<i64> {
    Some(match name {
        "microseconds" => 1,
        "milliseconds" => 1000,
        "second" => SECOND,
        "minute" => 60 * SECOND,
        "hour" => 3600 * SECOND,
        _ => return None,
    })
}

fn trunc_timestamp(name: &str, micros: i64, kind: Kind) -> SqlResult<Datum> {
    if micros == i64::MAX || micros == i64::MIN {
        return Ok(Datum::Timestamp(micros));
    }
    let known = truncatable(name, kind)?;
    let unit = clock_unit(known);
    if unit.is_none() && trunc_civil(known, 0).is_none() {
        return Err(refused(name, kind));
    }
    let (days, _) = split(micros);
    Ok(Datum::Timestamp(match (unit, trunc_civil(known, days)) {
        (Some(unit), _) => micros - micros.rem_euclid(unit),
        (None, Some(civil)) => calendar::moment(days_of(civil.year, civil.month, civil.day), 0)?,
        (None, None) => micros,
    }))
}

fn offset_at(moment: &Datum, env: &dyn CallContext) -> SqlResult<i32> {
    Ok(env.forms().zone.offset_at(int(moment)?))
}

/// Returns the zone of this name.
///
/// # Errors
/// `22023`.
pub(super) fn zone_named(name: &str) -> SqlResult<ZoneName> {
    ZoneName::find(name).ok_or_else(|| {
        let message = format!("time zone \"{name}\" not recognized");
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
    })
}

/// Truncates a timestamp in the local time of a zone.
fn trunc_in_zone(name: &str, micros: i64, zone: &ZoneName) -> SqlResult<Datum> {
    if micros == i64::MAX || micros == i64::MIN {
        return Ok(Datum::Timestamp(micros));
    }
    let offset = zone.offset_at(micros);
    let shown = micros.saturating_add(i64::from(offset) * SECOND);
    let Datum::Timestamp(cut) = trunc_timestamp(name, shown, Kind::Timestamptz)? else { return Ok(Datum::Null) };
    // A day begins with the offset in force at its own midnight.
    let is_clock = field(name).and_then(clock_unit).is_some();
    let offset = if is_clock { offset } else { zone.offset_of_local(cut) };
    Ok(Datum::Timestamp(cut - i64::from(offset) * SECOND))
}

fn trunc_interval(name: &str, span: Interval) -> SqlResult<Datum> {
    let known = truncatable(name, Kind::Interval)?;
    let months = |unit: i32| Interval { months: span.months / unit * unit, days: 0, micros: 0 };
    Ok(Datum::Interval(match known {
        "day" => Interval { micros: 0, ..span },
        "month" => months(1),
        "quarter" => months(3),
        "year" => months(12),
        "decade" => months(120),
        "century" => months(1200),
        "millennium" => months(12_000),
        _ => match clock_unit(known) {
            Some(unit) => Interval { micros: span.micros / unit * unit, ..span },
            None if known == "week" => {
                let error = refused(name, Kind::Interval);
                return Err(error.detail("Months usually have fractional weeks."));
            }
            None => return Err(refused(name, Kind::Interval)),
        },
    }))
}

fn make_date(args: &[Datum]) -> SqlResult<Datum> {
    let (written, month, day) = (int(&args[0])?, int(&args[1])?, int(&args[2])?);
    let year = if written < 0 { written + 1 } else { written };
    let real = written != 0 && (1..=12).contains(&month) && (1..=calendar::days_in(year, month)).contains(&day);
    if !real {
        let message = format!("date field value out of range: {written}-{month:02}-{day:02}");
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message));
    }
    calendar::date(days_of(year, month, day)).map(Datum::Date).map_err(|_| {
        let message = format!("date out of range: {written}-{month:02}-{day:02}");
        SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
    })
}

/// Returns a field as `extract` does, as numeric. `date_part` returns float8.
fn exact(found: Option<Numeric>) -> Datum {
    found.map_or(Datum::Null, Datum::Numeric)
}

fn rough(found: Option<Numeric>) -> Datum {
    found.map_or(Datum::Null, |number| Datum::Float8(number.to_f64()))
}

/// Returns a field of a timestamp as `date_part` does. As in PostgreSQL, the epoch is divided as a float.
fn part(name: &str, micros: i64, offset: Option<i32>) -> SqlResult<Datum> {
    let found = extract_timestamp(name, micros, offset)?;
    let is_epoch = field(name) == Some("epoch") && found.as_ref().is_some_and(Numeric::is_finite);
    Ok(if is_epoch { Datum::Float8(micros as f64 / 1e6) } else { rough(found) })
}

pub(super) fn functions() -> Vec<Function> {
    use Kind::{Date, Float8, Int4, Interval as Span, Numeric as Exact, Text, Time, Timestamp, Timestamptz};
    macro_rules! both {
        ($all:ident, $kind:ident, $args:ident => $found:expr) => {
            $all.push(function("extract", &[Text, $kind], Exact, |$args| Ok(exact($found))));
            $all.push(function("date_part", &[Text, $kind], Float8, |$args| Ok(rough($found))));
        };
    }
    let mut all = vec![
        function("extract", &[Text, Date], Exact, |a| Ok(exact(extract_date(text(&a[0])?, int(&a[1])? as i32)?))),
        function("date_part", &[Text, Date], Float8, |a| {
            let moment = datetime::date_to_timestamp(int(&a[1])? as i32)?;
            part(text(&a[0])?, moment, None)
        }),
        function("date_trunc", &[Text, Timestamp], Timestamp, |a| {
            trunc_timestamp(text(&a[0])?, int(&a[1])?, Timestamp)
        }),
        function_in("date_trunc", &[Text, Timestamptz], Timestamptz, |a, env| {
            trunc_in_zone(text(&a[0])?, int(&a[1])?, &ZoneName::Zone(env.forms().zone.clone()))
        }),
        function("date_trunc", &[Text, Timestamptz, Text], Timestamptz, |a| {
            if matches!(a[1], Datum::Timestamp(i64::MAX | i64::MIN)) {
                return Ok(a[1].clone());
            }
            trunc_in_zone(text(&a[0])?, int(&a[1])?, &zone_named(text(&a[2])?)?)
        }),
        function("date_trunc", &[Text, Span], Span, |a| trunc_interval(text(&a[0])?, interval(&a[1])?)),
        function("make_date", &[Int4, Int4, Int4], Date, make_date),
        function("age", &[Timestamp, Timestamp], Span, |a| datetime::age(int(&a[0])?, int(&a[1])?)),
        function_in("age", &[Timestamptz, Timestamptz], Span, |a, env| {
            datetime::age(env.forms().local(int(&a[0])?), env.forms().local(int(&a[1])?))
        }),
        function_in("age", &[Timestamp], Span, |a, env| datetime::age(env.forms().today() * DAY, int(&a[0])?)),
        function_in("age", &[Timestamptz], Span, |a, env| {
            datetime::age(env.forms().today() * DAY, env.forms().local(int(&a[0])?))
        }),
    ];
    all.push(function("extract", &[Text, Timestamp], Exact, |a| {
        Ok(exact(extract_timestamp(text(&a[0])?, int(&a[1])?, None)?))
    }));
    all.push(function_in("extract", &[Text, Timestamptz], Exact, |a, env| {
        Ok(exact(extract_timestamp(text(&a[0])?, int(&a[1])?, Some(offset_at(&a[1], env)?))?))
    }));
    all.push(function("date_part", &[Text, Timestamp], Float8, |a| part(text(&a[0])?, int(&a[1])?, None)));
    all.push(function_in("date_part", &[Text, Timestamptz], Float8, |a, env| {
        part(text(&a[0])?, int(&a[1])?, Some(offset_at(&a[1], env)?))
    }));
    both!(all, Time, a => extract_time(text(&a[0])?, int(&a[1])?)?);
    all.push(function("extract", &[Text, Span], Exact, |a| {
        Ok(exact(extract_interval(text(&a[0])?, interval(&a[1])?)?))
    }));
    all.push(function("date_part", &[Text, Span], Float8, |a| {
        let span = interval(&a[1])?;
        if field(text(&a[0])?) == Some("epoch") {
            // As in PostgreSQL, floats are used throughout here.
            let years = f64::from(span.months / 12) * (365.25 * 86_400.0);
            let months = f64::from(span.months % 12) * (30.0 * 86_400.0);
            return Ok(Datum::Float8(span.micros as f64 / 1e6 + years + months + f64::from(span.days) * 86_400.0));
        }
        Ok(rough(extract_interval(text(&a[0])?, span)?))
    }));
    all
}
