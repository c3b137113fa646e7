//! Timestamps and intervals in the format of a template.

use super::roman::MONTHS as ROMAN;
use super::{NODE, TemplateField, TemplateNode, nodes, ordinal};
use crate::calendar::{SECOND, civil_of, days_of, split};
use crate::forms::Forms;
use crate::interval::Interval;
pub(super) use crate::text::dates::{DAYS, MONTHS};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::plants::is_planted;
use statement::pulse;

/// Fields of templates for dates.
pub(super) const KEYWORDS: &[&str] = &[
    "A.D.", "A.M.", "AD", "AM", "B.C.", "BC", "CC", "DAY", "DDD", "DD", "DY", "Day", "Dy", "D", "FF1", "FF2", "FF3",
    "FF4", "FF5", "FF6", "FX", "HH24", "HH12", "HH", "IDDD", "ID", "IW", "IYYY", "IYY", "IY", "I", "J", "MI", "MM",
    "MONTH", "MON", "MS", "Month", "Mon", "OF", "P.M.", "PM", "Q", "RM", "SSSSS", "SSSS", "SS", "TZH", "TZM", "TZ",
    "US", "WW", "W", "Y,YYY", "YYYY", "YYY", "YY", "Y", "a.d.", "a.m.", "ad", "am", "b.c.", "bc", "cc", "day", "ddd",
    "dd", "dy", "d", "ff1", "ff2", "ff3", "ff4", "ff5", "ff6", "fx", "hh24", "hh12", "hh", "iddd", "id", "iw", "iyyy",
    "iyy", "iy", "i", "j", "mi", "mm", "month", "mon", "ms", "of", "p.m.", "pm", "q", "rm", "sssss", "ssss", "ss",
    "tzh", "tzm", "tz", "us", "ww", "w", "y,yyy", "yyyy", "yyy", "yy", "y",
];

/// Fields of a timestamp or interval that a template may show.
struct BrokenDownTime {
    /// Astronomical year. For an interval, its years.
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    day_of_year: i64,
    /// Days since 1970. `None` for an interval.
    date: Option<i64>,
    /// Seconds east of Greenwich, and the zone's abbreviation.
    zone: (i64, String),
}

/// Formats a timestamp. With `forms`, it is shown in the session's zone. Returns `None` for the
/// infinities and an empty template.
pub(super) fn moment_to_char(micros: i64, forms: Option<&Forms>, template: &str) -> SqlResult<Option<String>> {
    if template.is_empty() || micros == i64::MAX || micros == i64::MIN {
        return Ok(None);
    }
    let (local, zone) = match forms {
        None => (micros, (0, String::new())),
        Some(forms) => {
            let at = forms.zone.at(micros);
            (forms.local(micros), (i64::from(at.offset), at.abbreviation.to_string()))
        }
    };
    let (days, time) = split(local);
    let civil = civil_of(days);
    let broken = BrokenDownTime {
        year: civil.year,
        month: civil.month,
        day: civil.day,
        hour: time / (3600 * SECOND),
        minute: time / (60 * SECOND) % 60,
        second: time / SECOND % 60,
        micros: time % SECOND,
        day_of_year: days - days_of(civil.year, 1, 1) + 1,
        date: Some(days),
        zone,
    };
    write(&broken, template).map(Some)
}

/// Formats an interval.
pub(super) fn interval_to_char(interval: Interval, template: &str) -> SqlResult<Option<String>> {
    if template.is_empty() {
        return Ok(None);
    }
    let (year, month) = (i64::from(interval.months / 12), i64::from(interval.months % 12));
    let (day, time) = (i64::from(interval.days), interval.micros);
    let broken = BrokenDownTime {
        year,
        month,
        day,
        hour: time / (3600 * SECOND),
        minute: time / (60 * SECOND) % 60,
        second: time / SECOND % 60,
        micros: time % SECOND,
        day_of_year: (year * 12 + month) * 30 + day,
        date: None,
        zone: (0, String::new()),
    };
    write(&broken, template).map(Some)
}

fn write(broken: &BrokenDownTime, template: &str) -> SqlResult<String> {
    let mut out = String::new();
    for node in nodes(template, KEYWORDS, true)? {
        pulse::tick(NODE)?;
        match node {
            TemplateNode::Separator(letter) | TemplateNode::Letter(letter) => out.push(letter),
            TemplateNode::Field(field) => {
                let written = broken.field(field)?;
                out.push_str(&written.text);
                if let (true, Some(case)) = (written.is_number, field.ordinal) {
                    out.push_str(ordinal(&written.text, case));
                }
            }
        }
    }
    Ok(out)
}

struct FormattedField {
    text: String,
    /// True if the text is a number, which may be made an ordinal.
    is_number: bool,
}

fn word(text: impl Into<String>) -> FormattedField {
    FormattedField { text: text.into(), is_number: false }
}

/// Formats a number with leading zeros. A sign takes one of the places.
fn number(value: i64, width: usize, field: TemplateField) -> FormattedField {
    let sign = usize::from(value < 0 && is_planted("interval_format_wide"));
    let width = if field.fill { 0 } else { width + sign };
    FormattedField { text: format!("{value:0width$}"), is_number: true }
}

/// Formats a number with leading zeros, and one more place if the whole that it is a part of is negative.
fn part_of(whole: i64, value: i64, width: usize, field: TemplateField) -> FormattedField {
    number(value, width + usize::from(whole < 0), field)
}

/// Returns the ISO year and week of a day.
pub(super) fn iso_week(days: i64) -> (i64, i64) {
    let thursday = days - (days + 3).rem_euclid(7) + 3;
    let year = civil_of(thursday).year;
    (year, (thursday - days_of(year, 1, 1)) / 7 + 1)
}

/// Returns the first day of the first week of an ISO year.
pub(super) fn iso_year_start(year: i64) -> i64 {
    let fourth = days_of(year, 1, 4);
    fourth - (fourth + 3).rem_euclid(7)
}

/// Returns a Julian day as PostgreSQL computes it, by divisions that round towards zero. Months and
/// days may have either sign.
fn julian_of(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if 2 < month { (year + 4800, month + 1) } else { (year + 4799, month + 13) };
    let century = year / 100;
    year * 365 - 32_167 + year / 4 - century + century / 4 + 7834 * month / 256 + day
}

/// Returns the Monday of the first week of an ISO year, as a Julian day.
fn first_monday(year: i64) -> i64 {
    let fourth = julian_of(year, 1, 4);
    fourth - fourth.rem_euclid(7)
}

impl BrokenDownTime {
    /// Returns the day for a field that an interval does not have.
    fn date(&self) -> SqlResult<i64> {
        self.date.ok_or_else(|| {
            SqlError::new(SqlState::INVALID_DATETIME_FORMAT, "invalid format specification for an interval value")
                .hint("Intervals are not tied to specific calendar dates.")
        })
    }

    /// Returns the year as it is shown: there is no year 0.
    fn counted(&self, year: i64) -> i64 {
        if self.date.is_some() && year <= 0 { 1 - year } else { year }
    }

    /// Formats a name, padded, in upper or lower case like the first letters of the field.
    fn name(&self, name: &str, field: TemplateField, width: usize) -> FormattedField {
        let mut letters = field.name.chars();
        let first = letters.next().is_some_and(char::is_uppercase);
        let second = letters.next().is_some_and(char::is_uppercase);
        let name = match (first, second) {
            (true, true) => name.to_uppercase(),
            (true, false) => name.to_owned(),
            _ => name.to_lowercase(),
        };
        let width = if field.fill || field.translated { 0 } else { width };
        word(format!("{name:<width$}"))
    }

    fn field(&self, field: TemplateField) -> SqlResult<FormattedField> {
        let lower = field.name.to_lowercase();
        let is_upper = field.name.starts_with(char::is_uppercase);
        let cased = |upper: &str| word(if is_upper { upper.to_owned() } else { upper.to_lowercase() });
        let year = self.counted(self.year);
        let day_of_week = |days: i64| (days + 4).rem_euclid(7);
        Ok(match &*lower {
            "a.m." | "p.m." => cased(if 12 <= self.hour % 24 { "P.M." } else { "A.M." }),
            "am" | "pm" => cased(if 12 <= self.hour % 24 { "PM" } else { "AM" }),
            "hh" | "hh12" => {
                let hour = if self.hour % 12 == 0 { 12 } else { self.hour % 12 };
                part_of(self.hour, hour, 2, field)
            }
            "hh24" => part_of(self.hour, self.hour, 2, field),
            "mi" => part_of(self.minute, self.minute, 2, field),
            "ss" => part_of(self.second, self.second, 2, field),
            "ff1" => self.fraction(1),
            "ff2" => self.fraction(2),
            "ff3" | "ms" => self.fraction(3),
            "ff4" => self.fraction(4),
            "ff5" => self.fraction(5),
            "ff6" | "us" => self.fraction(6),
            "sssss" | "ssss" => {
                let seconds = self.hour * 3600 + self.minute * 60 + self.second;
                FormattedField { text: seconds.to_string(), is_number: true }
            }
            "tz" => {
                // Fields that need a date or a zone are refused for an interval, which has neither.
                self.date()?;
                cased(&self.zone.1)
            }
            "tzh" => {
                self.date()?;
                word(format!("{}{:02}", if self.zone.0 < 0 { '-' } else { '+' }, self.zone.0.abs() / 3600))
            }
            "tzm" => {
                self.date()?;
                word(format!("{:02}", self.zone.0.abs() % 3600 / 60))
            }
            "of" => {
                self.date()?;
                let offset = self.zone.0.abs();
                let width = if field.fill { 0 } else { 2 };
                let mut text = format!("{}{:0width$}", if self.zone.0 < 0 { '-' } else { '+' }, offset / 3600);
                if offset % 3600 != 0 {
                    text.push_str(&format!(":{:02}", offset % 3600 / 60));
                }
                word(text)
            }
            "a.d." | "b.c." => {
                self.date()?;
                cased(if self.year <= 0 { "B.C." } else { "A.D." })
            }
            "ad" | "bc" => {
                self.date()?;
                cased(if self.year <= 0 { "BC" } else { "AD" })
            }
            "month" | "mon" => {
                self.date()?;
                let name = usize::try_from(self.month - 1).ok().and_then(|at| MONTHS.get(at)).copied().unwrap_or("");
                if lower == "mon" { self.name(&name[..3], field, 0) } else { self.name(name, field, 9) }
            }
            "mm" => part_of(self.month, self.month, 2, field),
            "day" | "dy" => {
                let name = DAYS.get(day_of_week(self.date()?) as usize).copied().unwrap_or("");
                if lower == "dy" { self.name(&name[..3], field, 0) } else { self.name(name, field, 9) }
            }
            "ddd" => number(self.day_of_year, 3, field),
            "iddd" => {
                let day = match self.date {
                    Some(date) => date - iso_year_start(iso_week(date).0) + 1,
                    None => self.julian() - first_monday(self.interval_week().0) + 1,
                };
                number(day, 3, field)
            }
            "dd" => number(self.day, 2, field),
            "d" => number(day_of_week(self.date()?) + 1, 1, field),
            "id" => {
                let day = day_of_week(self.date()?);
                number(if day == 0 { 7 } else { day }, 1, field)
            }
            "ww" => number((self.day_of_year - 1) / 7 + 1, 2, field),
            "iw" => number(self.date.map_or_else(|| self.interval_week(), iso_week).1, 2, field),
            "q" if self.month == 0 => word(""),
            "q" => FormattedField { text: ((self.month - 1) / 3 + 1).to_string(), is_number: true },
            "cc" => {
                let century = match self.date {
                    None => self.year / 100,
                    Some(_) if 0 < self.year => (self.year - 1) / 100 + 1,
                    Some(_) => self.year / 100 - 1,
                };
                if century.abs() <= 99 { part_of(century, century, 2, field) } else { number(century, 0, field) }
            }
            "y,yyy" => {
                FormattedField { text: format!("{},{:03}", year / 1000, year - year / 1000 * 1000), is_number: true }
            }
            "yyyy" => part_of(year, year, 4, field),
            "yyy" => part_of(year, year % 1000, 3, field),
            "yy" => part_of(year, year % 100, 2, field),
            "y" => number(year % 10, 1, field),
            "iyyy" => part_of(year, self.iso_year(), 4, field),
            "iyy" => part_of(year, self.iso_year() % 1000, 3, field),
            "iy" => part_of(year, self.iso_year() % 100, 2, field),
            "i" => number(self.iso_year() % 10, 1, field),
            "rm" if self.month == 0 && self.year == 0 => word(""),
            "rm" => {
                // As in PostgreSQL, the months of a negative interval count backwards.
                let at = match self.month {
                    0 if 0 <= self.year => 0,
                    0 => 11,
                    month if month < 0 => -(month + 1),
                    month => 12 - month,
                };
                let name = usize::try_from(at).ok().and_then(|at| ROMAN.get(at)).copied().unwrap_or("");
                let width = if field.fill { 0 } else { 4 };
                cased(&format!("{name:<width$}"))
            }
            "w" => number((self.day - 1) / 7 + 1, 1, field),
            "j" => {
                let day = self.date.map_or_else(|| self.julian(), |date| date + 2_440_588);
                FormattedField { text: day.to_string(), is_number: true }
            }
            _ => word(""),
        })
    }

    fn iso_year(&self) -> i64 {
        self.counted(self.date.map_or_else(|| self.interval_week(), iso_week).0)
    }

    /// Returns an interval's fields as a Julian day.
    fn julian(&self) -> i64 {
        julian_of(self.year, self.month, self.day)
    }

    /// Returns the ISO year and week of an interval's fields.
    fn interval_week(&self) -> (i64, i64) {
        let day = self.julian();
        let mut year = self.year;
        if day < first_monday(year) {
            year -= 1;
        }
        let week = (day - first_monday(year)) / 7 + 1;
        if week < 52 {
            return (year, week);
        }
        // For the week, PostgreSQL looks at the year after the interval's own, for the year at the one after that.
        let (next, own_next) = (first_monday(year + 1), first_monday(self.year + 1));
        let of_year = if next <= day { year + 1 } else { year };
        (of_year, if own_next <= day { (day - own_next) / 7 + 1 } else { week })
    }

    fn fraction(&self, digits: u32) -> FormattedField {
        let value = self.micros / 10_i64.pow(6 - digits);
        FormattedField { text: format!("{value:0width$}", width = digits as usize), is_number: true }
    }
}
