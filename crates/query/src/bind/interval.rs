//! `INTERVAL '90' DAY`: a literal whose last field the statement names.
//!
//! **Invariant:** a bare number counts the smallest field named, and what is smaller than that is dropped, as PostgreSQL's
//! `AdjustIntervalForTypmod` drops it.

use super::{Binder, Scope};
use crate::plan::{Expr, Typed};
use sqlparser::ast::{self, DateTimeField};
use statement::error::{SqlError, SqlResult, SqlState};
use types::Kind;
use types::calendar::{SECOND, round_time};
use types::datum::Datum;
use types::forms::{Forms, IntervalStyle};
use types::interval::Interval;

/// The value of a literal with fields.
fn with_fields(of: &ast::Interval, forms: &Forms) -> SqlResult<Typed> {
    let ast::Interval { value, leading_field, leading_precision, last_field, fractional_seconds_precision } = of;
    let refused = || SqlError::unsupported(format_args!("the expression {of}"));
    let Some(leading) = leading_field else { return Err(refused()) };
    // The library calls the digits of `SECOND (2)` the leading field's.
    let digits = match (leading, leading_precision, last_field, fractional_seconds_precision) {
        (_, None, _, None) => None,
        (DateTimeField::Second, Some(digits), None, None) => Some(*digits),
        (_, None, Some(DateTimeField::Second), Some(digits)) => Some(*digits),
        _ => return Err(refused()),
    };
    let ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::SingleQuotedString(text), .. }) = &**value else {
        return Err(refused());
    };
    let smallest = last_field.as_ref().unwrap_or(leading);
    let (unit, time) = match smallest {
        DateTimeField::Year => ("year", 0),
        DateTimeField::Month => ("month", 0),
        DateTimeField::Day => ("day", 0),
        DateTimeField::Hour => ("hour", 3_600 * SECOND),
        DateTimeField::Minute => ("minute", 60 * SECOND),
        DateTimeField::Second => ("second", 1),
        _ => return Err(refused()),
    };
    let is_bare = text.trim().parse::<f64>().is_ok();
    let is_minute_to_second = matches!((leading, smallest), (DateTimeField::Minute, DateTimeField::Second));
    let is_day_to_hour = matches!((leading, smallest), (DateTimeField::Day, DateTimeField::Hour));
    let text = match (is_minute_to_second, is_day_to_hour) {
        (true, _) => minutes_and_seconds(text),
        (_, true) => days_and_hours(text),
        (false, false) => text.clone(),
    };
    let text = if is_bare { format!("{} {unit}", text.trim()) } else { text };
    let Interval { mut months, mut days, mut micros } = Interval::parse(&text, forms.interval_style)?;
    match smallest {
        DateTimeField::Year => (months, days, micros) = (months / 12 * 12, 0, 0),
        DateTimeField::Month => (days, micros) = (0, 0),
        DateTimeField::Day => micros = 0,
        _ => micros = micros / time * time,
    }
    if let Some(digits) = digits {
        micros = round_time(micros, u32::try_from(digits).unwrap_or(u32::MAX));
    }
    Ok(Typed::new(Expr::Constant(Datum::Interval(Interval { months, days, micros })), Kind::Interval))
}

impl Binder<'_> {
    /// A literal with fields. A definition keeps it as every `IntervalStyle` reads it.
    pub(super) fn interval_with_fields(&self, of: &ast::Interval) -> SqlResult<Typed> {
        let typed = with_fields(of, self.env.forms())?;
        if let (Expr::Constant(value), ast::Expr::Value(written)) = (&typed.expr, &*of.value)
            && let ast::Value::SingleQuotedString(text) = &written.value
        {
            let mut plain = String::new();
            types::text::output(value, Kind::Interval.into(), &Forms::default(), &mut plain);
            if plain != *text {
                self.note(written.span, || super::Noted::Moment(plain));
            }
        }
        Ok(typed)
    }

    /// What `SET TIME ZONE INTERVAL '...'` makes of the setting.
    pub fn zone_interval(&self, of: &ast::Interval) -> SqlResult<String> {
        let is_fit = |field: &DateTimeField| matches!(field, DateTimeField::Hour | DateTimeField::Minute);
        if !of.leading_field.iter().chain(&of.last_field).all(is_fit) {
            let message = "time zone interval must be HOUR or HOUR TO MINUTE";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let value = self.expr(&ast::Expr::Interval(of.clone()), &Scope::inside(None))?;
        let Expr::Constant(Datum::Interval(interval)) = value.expr else {
            return Err(SqlError::unsupported(format_args!("{of} as a time zone")));
        };
        let mut written = String::new();
        interval.write(IntervalStyle::Postgres, &mut written);
        Ok(format!("INTERVAL '{written}'"))
    }
}

/// `1 2` as `1 2:00`: with these fields a second number is of hours.
fn days_and_hours(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        [days, hours] if days.parse::<i32>().is_ok() && hours.parse::<i32>().is_ok() => format!("{days} {hours}:00"),
        _ => text.to_owned(),
    }
}

/// `1 2:03` as `1 00:2:03`: with these fields two numbers are minutes and seconds.
fn minutes_and_seconds(text: &str) -> String {
    let word = |word: &str| {
        let (sign, clock) = word.split_at(word.len() - word.trim_start_matches(['+', '-']).len());
        if clock.matches(':').count() == 1 { format!("{sign}00:{clock}") } else { word.to_owned() }
    };
    text.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}
