//! Intervals as text, in the four styles of `IntervalStyle`.

use super::calendar::{SECOND, push_padded, push_seconds};
use super::forms::IntervalStyle;
use super::interval::Interval;
use std::fmt::Write;

/// An interval in the usual units. The parts of its time have the same sign.
struct IntervalParts {
    years: i64,
    months: i64,
    days: i64,
    hours: i64,
    minutes: i64,
    /// Microseconds within a minute.
    micros: i64,
}

impl IntervalParts {
    fn of(interval: Interval) -> IntervalParts {
        IntervalParts {
            years: i64::from(interval.months / 12),
            months: i64::from(interval.months % 12),
            days: i64::from(interval.days),
            hours: interval.micros / (3600 * SECOND),
            minutes: interval.micros / (60 * SECOND) % 60,
            micros: interval.micros % (60 * SECOND),
        }
    }

    fn all(&self) -> [i64; 6] {
        [self.years, self.months, self.days, self.hours, self.minutes, self.micros]
    }
}

/// Appends seconds without a sign and without a leading zero: `6.5`.
fn push_short_seconds(out: &mut String, micros: i64) {
    let start = out.len();
    push_seconds(out, micros.abs());
    if out[start..].starts_with('0') {
        out.remove(start);
    }
}

impl Interval {
    /// Appends the interval as text.
    pub fn write(self, style: IntervalStyle, out: &mut String) {
        match style {
            IntervalStyle::Postgres => self.write_postgres(out),
            IntervalStyle::PostgresVerbose => self.write_verbose(out),
            IntervalStyle::SqlStandard => self.write_standard(out),
            IntervalStyle::Iso8601 => self.write_iso(out),
        }
    }

    /// Appends the interval in the style `postgres`.
    fn write_postgres(self, out: &mut String) {
        let start = out.len();
        let mut before = false;
        for (value, name) in [(self.months / 12, "year"), (self.months % 12, "mon"), (self.days, "day")] {
            if value == 0 {
                continue;
            }
            let blank = if out.len() > start { " " } else { "" };
            let plus = if before && value > 0 { "+" } else { "" };
            let plural = if value == 1 { "" } else { "s" };
            out.push_str(&format!("{blank}{plus}{value} {name}{plural}"));
            before = value < 0;
        }
        if out.len() > start && self.micros == 0 {
            return;
        }
        if out.len() > start {
            out.push(' ');
        }
        out.push_str(if self.micros < 0 {
            "-"
        } else if before {
            "+"
        } else {
            ""
        });
        let micros = self.micros.unsigned_abs();
        let second = SECOND.unsigned_abs();
        push_padded(out, (micros / (3600 * second)) as i64, 2);
        out.push(':');
        push_padded(out, (micros / (60 * second) % 60) as i64, 2);
        out.push(':');
        push_seconds(out, (micros % (60 * second)) as i64);
    }

    fn write_verbose(self, out: &mut String) {
        let parts = IntervalParts::of(self);
        // The first part that is not 0 decides whether the whole is `ago`.
        let mut ago = None;
        out.push('@');
        let named = [
            (parts.years, "year"),
            (parts.months, "mon"),
            (parts.days, "day"),
            (parts.hours, "hour"),
            (parts.minutes, "min"),
        ];
        for (value, unit) in named.into_iter().filter(|(value, _)| *value != 0) {
            let value = if *ago.get_or_insert(value < 0) { -value } else { value };
            let plural = if value == 1 { "" } else { "s" };
            let _ = write!(out, " {value} {unit}{plural}");
        }
        if parts.micros != 0 {
            let is_ago = *ago.get_or_insert(parts.micros < 0);
            out.push(' ');
            if (parts.micros < 0) != is_ago {
                out.push('-');
            }
            push_short_seconds(out, parts.micros);
            out.push_str(if parts.micros.abs() == SECOND { " sec" } else { " secs" });
        }
        match ago {
            None => out.push_str(" 0"),
            Some(true) => out.push_str(" ago"),
            Some(false) => {}
        }
    }

    fn write_standard(self, out: &mut String) {
        let mut parts = IntervalParts::of(self);
        let negative = parts.all().iter().any(|part| *part < 0);
        let positive = parts.all().iter().any(|part| *part > 0);
        let has_months = parts.years != 0 || parts.months != 0;
        let has_time = parts.all()[2..].iter().any(|part| *part != 0);
        if !negative && !positive {
            return out.push('0');
        }
        let clock = |parts: &IntervalParts, out: &mut String| {
            let _ = write!(out, "{}:", parts.hours.abs());
            push_padded(out, parts.minutes.abs(), 2);
            out.push(':');
            push_seconds(out, parts.micros.abs());
        };
        if (negative && positive) || (has_months && has_time) {
            let sign = |negative: bool| if negative { '-' } else { '+' };
            let months = sign(parts.years < 0 || parts.months < 0);
            let _ = write!(out, "{months}{}-{} ", parts.years.abs(), parts.months.abs());
            let _ = write!(out, "{}{} ", sign(parts.days < 0), parts.days.abs());
            out.push(sign(self.micros < 0));
            return clock(&parts, out);
        }
        if negative {
            out.push('-');
            parts.days = -parts.days;
        }
        if has_months {
            let _ = write!(out, "{}-{}", parts.years.abs(), parts.months.abs());
        } else {
            if parts.days != 0 {
                let _ = write!(out, "{} ", parts.days);
            }
            clock(&parts, out);
        }
    }

    fn write_iso(self, out: &mut String) {
        let parts = IntervalParts::of(self);
        if self == Interval::default() {
            return out.push_str("PT0S");
        }
        let push = |out: &mut String, value: i64, unit: char| {
            if value != 0 {
                let _ = write!(out, "{value}{unit}");
            }
        };
        out.push('P');
        push(out, parts.years, 'Y');
        push(out, parts.months, 'M');
        push(out, parts.days, 'D');
        if self.micros != 0 {
            out.push('T');
        }
        push(out, parts.hours, 'H');
        push(out, parts.minutes, 'M');
        if parts.micros != 0 {
            if parts.micros < 0 {
                out.push('-');
            }
            push_short_seconds(out, parts.micros);
            out.push('S');
        }
    }
}
