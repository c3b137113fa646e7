//! Settings that control how values look as text: `DateStyle`, `TimeZone` and others.

use statement::error::{SqlError, SqlResult, SqlState};
use types::forms::{DateOrder, DateStyle, Forms, IntervalStyle};
use types::interval::Interval;
use types::zone::Zone;

/// Parses a `DateStyle`; parts that it does not mention stay as they are now.
fn style(value: &str, now: (DateStyle, DateOrder)) -> SqlResult<(DateStyle, DateOrder)> {
    let refused = |detail: String| {
        let message = format!("invalid value for parameter \"DateStyle\": \"{value}\"");
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).detail(detail)
    };
    let (mut style, mut order) = (None, None);
    let mut is_german = false;
    for word in value.split(',').map(|word| word.trim().trim_matches('"').to_lowercase()) {
        let (new_style, new_order) = match &*word {
            "iso" => (Some(DateStyle::Iso), None),
            "sql" => (Some(DateStyle::Sql), None),
            "german" => {
                is_german = true;
                (Some(DateStyle::German), None)
            }
            word if word.starts_with("postgres") => (Some(DateStyle::Postgres), None),
            "ymd" => (None, Some(DateOrder::Ymd)),
            "dmy" => (None, Some(DateOrder::Dmy)),
            word if word.starts_with("euro") => (None, Some(DateOrder::Dmy)),
            "mdy" | "us" => (None, Some(DateOrder::Mdy)),
            word if word.starts_with("noneuro") => (None, Some(DateOrder::Mdy)),
            // Fills the parts that no other word gives, and conflicts with none.
            "default" => {
                style = style.or(Some(DateStyle::Iso));
                order = order.or(Some(DateOrder::Mdy));
                continue;
            }
            word => return Err(refused(format!("Unrecognized key word: \"{word}\"."))),
        };
        let conflicts = |old: bool| old.then(|| refused("Conflicting \"datestyle\" specifications.".to_owned()));
        let conflict = conflicts(style.is_some() && new_style.is_some() && style != new_style)
            .or_else(|| conflicts(order.is_some() && new_order.is_some() && order != new_order));
        if let Some(error) = conflict {
            return Err(error);
        }
        style = style.or(new_style);
        order = order.or(new_order);
    }
    // German implies an order, but only if no word gives another.
    let order = if is_german { order.or(Some(DateOrder::Dmy)) } else { order };
    Ok((style.unwrap_or(now.0), order.unwrap_or(now.1)))
}

/// Returns the complete form of a `DateStyle`.
pub(super) fn date_style(value: &str, now: &Forms) -> SqlResult<String> {
    let (style, order) = style(value, (now.date_style, now.date_order))?;
    let style = match style {
        DateStyle::Iso => "ISO",
        DateStyle::Sql => "SQL",
        DateStyle::Postgres => "Postgres",
        DateStyle::German => "German",
    };
    let order = match order {
        DateOrder::Mdy => "MDY",
        DateOrder::Dmy => "DMY",
        DateOrder::Ymd => "YMD",
    };
    Ok(format!("{style}, {order}"))
}

/// Parses a `TimeZone`: a name, hours east of UTC, or an interval.
fn zone(value: &str) -> SqlResult<Zone> {
    let refused = || {
        let message = format!("invalid value for parameter \"TimeZone\": \"{value}\"");
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
    };
    let beyond = || refused().detail("UTC timezone offset is out of range.");
    let trimmed = value.trim();
    if let Some((word, written)) = trimmed.split_at_checked("interval".len())
        && word.eq_ignore_ascii_case("interval")
    {
        let quoted = written.trim().strip_prefix('\'').and_then(|quoted| quoted.strip_suffix('\''));
        let span = Interval::parse(quoted.ok_or_else(refused)?, IntervalStyle::Postgres)?;
        if span.months != 0 {
            return Err(refused().detail("Cannot specify months in time zone interval."));
        }
        if span.days != 0 {
            return Err(refused().detail("Cannot specify days in time zone interval."));
        }
        let fits = span.micros.unsigned_abs() < 168 * 3_600_000_000;
        return if fits { Ok(Zone::fixed((span.micros / 1_000_000) as i32)) } else { Err(beyond()) };
    }
    match trimmed.parse::<f64>() {
        Ok(hours) if hours.abs() < 168.0 => Ok(Zone::fixed((hours * 3600.0) as i32)),
        Ok(_) => Err(beyond()),
        Err(_) => Zone::named(trimmed).ok_or_else(refused),
    }
}

/// Returns the name of the zone that a `TimeZone` means.
pub(super) fn time_zone(value: &str) -> SqlResult<String> {
    zone(value).map(|zone| zone.name().to_owned())
}

/// Applies an accepted value to the forms; returns true if the setting is one of theirs.
pub(super) fn apply(name: &str, value: &str, forms: &mut Forms) -> bool {
    match name {
        "datestyle" => {
            let (style, order) = style(value, (forms.date_style, forms.date_order)).unwrap_or_default();
            (forms.date_style, forms.date_order) = (style, order);
        }
        "timezone" => forms.zone = zone(value).unwrap_or_default(),
        "intervalstyle" => {
            forms.interval_style = match value {
                "postgres_verbose" => IntervalStyle::PostgresVerbose,
                "sql_standard" => IntervalStyle::SqlStandard,
                "iso_8601" => IntervalStyle::Iso8601,
                _ => IntervalStyle::Postgres,
            }
        }
        "extra_float_digits" => forms.extra_float_digits = value.parse().unwrap_or(1),
        "bytea_output" => forms.bytea_escape = value == "escape",
        _ => return false,
    }
    true
}
