//! Intervals: months, days and microseconds, which have no fixed ratio to each other.
//!
//! Two intervals compare as if a month had 30 days and a day 24 hours.

use super::calendar::{DAY, SECOND};
use super::datetime::fraction_micros;
use super::forms::IntervalStyle;
use super::tokens::{Token, tokens};
use statement::error::{SqlError, SqlResult, SqlState};

/// An interval of time, with PostgreSQL's parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Interval {
    /// Months, of 28 to 31 days.
    pub months: i32,
    /// Days, of 23 to 25 hours.
    pub days: i32,
    /// Microseconds.
    pub micros: i64,
}

/// Returns the error for an interval out of range.
pub fn out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")
}

/// Reason for which a text is not an interval.
enum IntervalError {
    Syntax,
    Range,
}

/// Sum of the parts read so far.
#[derive(Default)]
struct IntervalSum {
    months: i64,
    days: i64,
    micros: i64,
    /// Units that have been given, one bit each.
    seen: u32,
}

/// Bit of seconds.
const SECONDS: u32 = 4;
/// Bits of seconds, milliseconds and microseconds.
const ALL_SECONDS: u32 = 7;

/// Returns a unit: its bit, and its size in months, days and microseconds.
fn unit(word: &str) -> Option<(u32, i64, i64, i64)> {
    Some(match word {
        "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecond" | "microseconds" | "microsecon" => {
            (1, 0, 0, 1)
        }
        "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecond" | "milliseconds" | "millisecon" => {
            (2, 0, 0, 1000)
        }
        "s" | "sec" | "secs" | "second" | "seconds" => (SECONDS, 0, 0, SECOND),
        "m" | "min" | "mins" | "minute" | "minutes" => (8, 0, 0, 60 * SECOND),
        "h" | "hr" | "hrs" | "hour" | "hours" => (16, 0, 0, 3600 * SECOND),
        "d" | "day" | "days" => (32, 0, 1, 0),
        "w" | "week" | "weeks" => (64, 0, 7, 0),
        "mon" | "mons" | "month" | "months" => (128, 1, 0, 0),
        "y" | "yr" | "yrs" | "year" | "years" => (256, 12, 0, 0),
        "dec" | "decs" | "decade" | "decades" => (512, 120, 0, 0),
        "c" | "cent" | "century" | "centuries" => (1024, 1200, 0, 0),
        "mil" | "mils" | "millennium" | "millennia" => (2048, 12_000, 0, 0),
        _ => return None,
    })
}

impl IntervalSum {
    /// Adds a number of units. The fraction goes to the next smaller part, as in PostgreSQL.
    fn add(
        &mut self,
        negative: bool,
        number: &str,
        (bit, months, days, micros): (u32, i64, i64, i64),
    ) -> Result<(), IntervalError> {
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return Err(IntervalError::Syntax);
        }
        // Seconds with a fraction count as milliseconds and microseconds, too.
        let bits = if bit == SECONDS && fraction.bytes().any(|digit| digit != b'0') { ALL_SECONDS } else { bit };
        if self.seen & bits != 0 {
            return Err(IntervalError::Syntax);
        }
        self.seen |= bits;
        let sign = if negative { -1 } else { 1 };
        let whole = if whole.is_empty() { 0 } else { whole.parse::<i64>().map_err(|_| IntervalError::Range)? } * sign;
        let fraction = if fraction.is_empty() {
            0.0
        } else {
            format!("0.{fraction}").parse::<f64>().map_err(|_| IntervalError::Syntax)? * sign as f64
        };
        let times = |unit: i64| whole.checked_mul(unit).ok_or(IntervalError::Range);
        let plus = |sum: &mut i64, more: i64| sum.checked_add(more).map(|all| *sum = all).ok_or(IntervalError::Range);
        plus(&mut self.months, times(months)?)?;
        plus(&mut self.days, times(days)?)?;
        plus(&mut self.micros, times(micros)?)?;
        if fraction == 0.0 {
            return Ok(());
        }
        if micros != 0 {
            plus(&mut self.micros, (fraction * micros as f64).round_ties_even() as i64)?;
        } else if months > 1 {
            plus(&mut self.months, (fraction * months as f64).round_ties_even() as i64)?;
        } else {
            // A month counts 30 days here, and a day 24 hours.
            let in_days = fraction * if months == 1 { 30.0 } else { days as f64 };
            let whole = in_days.trunc();
            plus(&mut self.days, whole as i64)?;
            let rest = if days == 1 { fraction } else { in_days - whole };
            plus(&mut self.micros, (rest * DAY as f64).round_ties_even() as i64)?;
        }
        Ok(())
    }

    /// Adds `HH:MM[:SS[.fraction]]`.
    fn add_clock(&mut self, negative: bool, text: &str) -> Result<(), IntervalError> {
        if self.seen & 0b11111 != 0 {
            return Err(IntervalError::Syntax);
        }
        self.seen |= 0b11111;
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let parts = whole
            .split(':')
            .map(|part| {
                if part.is_empty() {
                    Err(IntervalError::Syntax)
                } else {
                    part.parse::<i64>().map_err(|_| IntervalError::Range)
                }
            })
            .collect::<Result<Vec<i64>, IntervalError>>()?;
        let (hours, minutes, seconds) = match parts[..] {
            [hours, minutes] if !text.contains('.') => (hours, minutes, 0),
            [minutes, seconds] => (0, minutes, seconds),
            [hours, minutes, seconds] => (hours, minutes, seconds),
            _ => return Err(IntervalError::Syntax),
        };
        if minutes > 59 || seconds > 60 {
            return Err(IntervalError::Range);
        }
        let fraction = fraction_micros(fraction).ok_or(IntervalError::Syntax)?;
        let micros = hours
            .checked_mul(3600)
            .and_then(|all| all.checked_add(minutes * 60 + seconds)?.checked_mul(SECOND)?.checked_add(fraction))
            .ok_or(IntervalError::Range)?;
        self.micros = self.micros.checked_add(if negative { -micros } else { micros }).ok_or(IntervalError::Range)?;
        Ok(())
    }

    fn done(self, negate: bool) -> Result<Interval, IntervalError> {
        let sign = if negate { -1 } else { 1 };
        let signed = |part: i64| part.checked_mul(sign).ok_or(IntervalError::Range);
        let narrow = |part: i64| i32::try_from(signed(part)?).map_err(|_| IntervalError::Range);
        Ok(Interval { months: narrow(self.months)?, days: narrow(self.days)?, micros: signed(self.micros)? })
    }
}

/// Reads `P1Y2M3DT4H5M6S`.
fn parse_iso(text: &str) -> Result<Interval, IntervalError> {
    let mut sum = IntervalSum::default();
    let mut rest = text;
    let mut in_time = false;
    if rest.is_empty() {
        return Err(IntervalError::Syntax);
    }
    while !rest.is_empty() {
        if let (false, Some(after)) = (in_time, rest.strip_prefix('T')) {
            (in_time, rest) = (true, after);
            continue;
        }
        let len = rest.find(|c: char| !c.is_ascii_digit() && !"+-.".contains(c)).ok_or(IntervalError::Syntax)?;
        let (number, after) = rest.split_at(len);
        let unsigned = number.strip_prefix(['-', '+']).unwrap_or(number);
        if unsigned.is_empty() || unsigned.contains(['-', '+']) {
            return Err(IntervalError::Syntax);
        }
        let word = match (in_time, after.as_bytes()[0]) {
            (false, b'Y') => "y",
            (false, b'M') => "mon",
            (false, b'W') => "w",
            (false, b'D') => "d",
            (true, b'H') => "h",
            (true, b'M') => "m",
            (true, b'S') => "s",
            _ => return Err(IntervalError::Syntax),
        };
        sum.add(number.starts_with('-'), unsigned, unit(word).ok_or(IntervalError::Syntax)?)?;
        rest = &after[1..];
    }
    sum.done(false)
}

fn parse_words(text: &str, style: IntervalStyle) -> Result<Interval, IntervalError> {
    let tokens = tokens(text).filter(|tokens| !tokens.is_empty()).ok_or(IntervalError::Syntax)?;
    // In the standard's style, a single sign at the start applies to all parts.
    let signs = tokens.iter().filter(|token| matches!(token, Token::Signed(_) | Token::SignedWord(..))).count();
    let all_negative = style == IntervalStyle::SqlStandard && signs == 1 && text.starts_with('-');
    let mut sum = IntervalSum::default();
    let mut negate = false;
    let mut index = 0;
    while index < tokens.len() {
        let (negative, value) = match tokens[index] {
            Token::Number(value) | Token::Time(value) | Token::Date(value) => (false, value),
            Token::Signed(value) => (value.starts_with('-'), value[1..].trim_start()),
            Token::Word(word) if index > 0 && index + 1 == tokens.len() && word.eq_ignore_ascii_case("ago") => {
                negate = true;
                break;
            }
            _ => return Err(IntervalError::Syntax),
        };
        let negative = negative || all_negative;
        index += 1;
        if value.contains(':') {
            sum.add_clock(negative, value)?;
        } else if let Some((years, months)) = value.split_once(['-', '/']) {
            let months: i64 = months.parse().map_err(|_| IntervalError::Syntax)?;
            if months >= 12 {
                return Err(IntervalError::Range);
            }
            sum.add(negative, years, (256, 12, 0, 0))?;
            sum.add(negative, &months.to_string(), (128, 1, 0, 0))?;
        } else {
            match tokens.get(index) {
                Some(Token::Word(word)) if !word.eq_ignore_ascii_case("ago") => {
                    let found = unit(&word.to_ascii_lowercase()).ok_or(IntervalError::Syntax)?;
                    sum.add(negative, value, found)?;
                    index += 1;
                }
                Some(Token::Time(_)) => sum.add(negative, value, (32, 0, 1, 0))?,
                Some(Token::Signed(next)) if next.contains(':') => sum.add(negative, value, (32, 0, 1, 0))?,
                None | Some(Token::Word(_)) => sum.add(negative, value, (SECONDS, 0, 0, SECOND))?,
                Some(_) => return Err(IntervalError::Syntax),
            }
        }
    }
    sum.done(negate)
}

impl Interval {
    /// Reads the formats of PostgreSQL and ISO 8601.
    ///
    /// # Errors
    /// `22007`, `22015`.
    pub fn parse(text: &str, style: IntervalStyle) -> SqlResult<Interval> {
        let trimmed = text.trim();
        let found = match trimmed.strip_prefix('P') {
            Some(rest) => parse_iso(rest),
            None => parse_words(trimmed, style),
        };
        found.map_err(|fault| match fault {
            IntervalError::Syntax => {
                let message = format!("invalid input syntax for type interval: \"{text}\"");
                SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
            }
            IntervalError::Range => SqlError::new(
                SqlState::INTERVAL_FIELD_OVERFLOW,
                format!("interval field value out of range: \"{text}\""),
            ),
        })
    }

    /// Returns the length in microseconds by which intervals are compared: a month has 30 days, and a day 24 hours.
    pub fn length(self) -> i128 {
        (i128::from(self.months) * 30 + i128::from(self.days)) * i128::from(DAY) + i128::from(self.micros)
    }

    /// Adds each part.
    ///
    /// # Errors
    /// `22008`.
    pub fn plus(self, other: Interval) -> SqlResult<Interval> {
        let months = self.months.checked_add(other.months);
        let days = self.days.checked_add(other.days);
        let micros = self.micros.checked_add(other.micros);
        match (months, days, micros) {
            (Some(months), Some(days), Some(micros)) => Ok(Interval { months, days, micros }),
            _ => Err(out_of_range()),
        }
    }

    /// Negates each part.
    ///
    /// # Errors
    /// `22008`.
    pub fn negated(self) -> SqlResult<Interval> {
        match (self.months.checked_neg(), self.days.checked_neg(), self.micros.checked_neg()) {
            (Some(months), Some(days), Some(micros)) => Ok(Interval { months, days, micros }),
            _ => Err(out_of_range()),
        }
    }

    /// Scales each part by `scale`. The fraction of months goes to days, the fraction of days to microseconds.
    ///
    /// # Errors
    /// `22008`.
    pub fn scaled(self, scale: impl Fn(f64) -> f64) -> SqlResult<Interval> {
        let rounded = |x: f64| (x * 1e6).round_ties_even() / 1e6;
        let (months, days) = (scale(f64::from(self.months)), scale(f64::from(self.days)));
        let fits = |x: f64| x.is_finite() && x >= f64::from(i32::MIN) && x <= f64::from(i32::MAX);
        if !fits(months) || !fits(days) {
            return Err(out_of_range());
        }
        let month_days = rounded((months - months.trunc()) * 30.0);
        let mut seconds = rounded((days - days.trunc() + month_days - month_days.trunc()) * 86_400.0);
        let mut whole_days = days.trunc() as i64;
        if seconds.abs() >= 86_400.0 {
            whole_days += (seconds / 86_400.0) as i64;
            seconds -= (seconds / 86_400.0).trunc() * 86_400.0;
        }
        whole_days += month_days as i64;
        let micros = (scale(self.micros as f64) + seconds * 1e6).round_ties_even();
        if !micros.is_finite() || micros.abs() >= i64::MAX as f64 {
            return Err(out_of_range());
        }
        let days = i32::try_from(whole_days).map_err(|_| out_of_range())?;
        Ok(Interval { months: months.trunc() as i32, days, micros: micros as i64 })
    }
}
