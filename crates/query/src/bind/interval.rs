//! `INTERVAL '90' DAY`: literals with a field qualifier.
//!
//! **Invariant:** a bare number counts the smallest field named, and smaller fields are dropped, as PostgreSQL's
//! `AdjustIntervalForTypmod` does.

use super::{Binder, NameScope};
use crate::plan::{Expr, Typed};
use statement::error::{SqlError, SqlResult, SqlState};
use syntax::ast::{self, Constant, ExprKind, IntervalFields};
use types::Kind;
use types::calendar::{SECOND, round_time};
use types::datum::Datum;
use types::forms::{Forms, IntervalStyle};
use types::interval::Interval;

/// Field of an interval.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IntervalField {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
}

/// Returns the first and the smallest field of a qualifier.
fn ends_of(fields: IntervalFields) -> [IntervalField; 2] {
    match fields {
        IntervalFields::Year => [IntervalField::Year; 2],
        IntervalFields::Month => [IntervalField::Month; 2],
        IntervalFields::Day => [IntervalField::Day; 2],
        IntervalFields::Hour => [IntervalField::Hour; 2],
        IntervalFields::Minute => [IntervalField::Minute; 2],
        IntervalFields::Second => [IntervalField::Second; 2],
        IntervalFields::YearToMonth => [IntervalField::Year, IntervalField::Month],
        IntervalFields::DayToHour => [IntervalField::Day, IntervalField::Hour],
        IntervalFields::DayToMinute => [IntervalField::Day, IntervalField::Minute],
        IntervalFields::DayToSecond => [IntervalField::Day, IntervalField::Second],
        IntervalFields::HourToMinute => [IntervalField::Hour, IntervalField::Minute],
        IntervalFields::HourToSecond => [IntervalField::Hour, IntervalField::Second],
        IntervalFields::MinuteToSecond => [IntervalField::Minute, IntervalField::Second],
    }
}

/// Reads a literal with a field qualifier and, for seconds, a number of fractional digits.
fn with_fields(text: &str, fields: IntervalFields, digits: Option<u32>, forms: &Forms) -> SqlResult<Typed> {
    let [first, smallest] = ends_of(fields);
    let (unit, time) = match smallest {
        IntervalField::Year => ("year", 0),
        IntervalField::Month => ("month", 0),
        IntervalField::Day => ("day", 0),
        IntervalField::Hour => ("hour", 3_600 * SECOND),
        IntervalField::Minute => ("minute", 60 * SECOND),
        IntervalField::Second => ("second", 1),
    };
    let is_bare = text.trim().parse::<f64>().is_ok();
    let text = match (first, smallest) {
        (IntervalField::Minute, IntervalField::Second) => minutes_and_seconds(text),
        (IntervalField::Day, IntervalField::Hour) => days_and_hours(text),
        _ => text.to_owned(),
    };
    let text = if is_bare { format!("{} {unit}", text.trim()) } else { text };
    let Interval { mut months, mut days, mut micros } = Interval::parse(&text, forms.interval_style)?;
    match smallest {
        IntervalField::Year => (months, days, micros) = (months / 12 * 12, 0, 0),
        IntervalField::Month => (days, micros) = (0, 0),
        IntervalField::Day => micros = 0,
        IntervalField::Hour | IntervalField::Minute | IntervalField::Second => micros = micros / time * time,
    }
    if let Some(digits) = digits {
        micros = round_time(micros, digits);
    }
    Ok(Typed::new(Expr::Constant(Datum::Interval(Interval { months, days, micros })), Kind::Interval))
}

impl Binder<'_> {
    /// Binds a literal with a field qualifier. A definition keeps it in a form that every `IntervalStyle` reads alike.
    pub(super) fn interval_with_fields(
        &self,
        literal: &ast::Expr,
        fields: IntervalFields,
        modifiers: &[ast::Expr],
    ) -> SqlResult<Typed> {
        let ExprKind::Constant(Constant::Text(text)) = &literal.kind else {
            return Err(SqlError::unsupported("an interval of these fields"));
        };
        let digits = match modifiers {
            [] => None,
            [ast::Expr { kind: ExprKind::Constant(Constant::Integer(digits)), .. }] => u32::try_from(*digits).ok(),
            _ => return Err(SqlError::unsupported("an interval with this precision")),
        };
        let typed = with_fields(text, fields, digits, self.env.forms());
        let typed = typed.map_err(|error| self.at_expr(error, literal))?.at(literal.span);
        if let Expr::Constant(value) = &typed.expr {
            let mut plain = String::new();
            types::text::output(value, Kind::Interval.into(), &Forms::default(), &mut plain);
            if plain != **text {
                self.note(literal.span, || super::NameTarget::Moment(plain));
            }
        }
        Ok(typed)
    }

    /// Returns the value of the setting for `SET TIME ZONE INTERVAL '...'`.
    pub fn zone_interval(&self, literal: &ast::Expr) -> SqlResult<String> {
        let fields = match &literal.kind {
            ExprKind::Cast { to, .. } => to.fields,
            _ => None,
        };
        let is_fit = |field: IntervalField| matches!(field, IntervalField::Hour | IntervalField::Minute);
        if !fields.is_none_or(|fields| ends_of(fields).into_iter().all(is_fit)) {
            let message = "time zone interval must be HOUR or HOUR TO MINUTE";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let value = self.expr(literal, &NameScope::inside(None))?;
        let Expr::Constant(Datum::Interval(interval)) = value.expr else {
            return Err(SqlError::unsupported("this time zone"));
        };
        let mut written = String::new();
        interval.write(IntervalStyle::Postgres, &mut written);
        Ok(format!("INTERVAL '{written}'"))
    }
}

/// Rewrites `1 2` as `1 2:00`, since the second number counts hours with this qualifier.
fn days_and_hours(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        [days, hours] if days.parse::<i32>().is_ok() && hours.parse::<i32>().is_ok() => format!("{days} {hours}:00"),
        _ => text.to_owned(),
    }
}

/// Rewrites `1 2:03` as `1 00:2:03`, since two numbers are minutes and seconds with this qualifier.
fn minutes_and_seconds(text: &str) -> String {
    let word = |word: &str| {
        let (sign, clock) = word.split_at(word.len() - word.trim_start_matches(['+', '-']).len());
        if clock.matches(':').count() == 1 { format!("{sign}00:{clock}") } else { word.to_owned() }
    };
    text.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}
