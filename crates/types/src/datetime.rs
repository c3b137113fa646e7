//! Dates and times from text: ISO format and the other formats that PostgreSQL accepts, by the order of `DateStyle`.
//!
//! The text is split into tokens, each of which fills fields. Only then are the fields checked.

use super::calendar::{self, DAY, SECOND};
use super::forms::{DateOrder, Forms};
use super::tokens::{Token, is_week_day, month_of, tokens};
use super::zone::{Zone, ZoneName};
use statement::error::{SqlError, SqlResult, SqlState};

/// Reason for which a text is not a date or time.
enum DateTimeError {
    Syntax,
    Range,
    /// Month or day out of range, for which the style may be the reason.
    MonthOrDay,
    Zone,
    Other(SqlError),
}

type DateTimeResult<T> = Result<T, DateTimeError>;

#[derive(Default)]
struct DateTimeFields {
    year: Option<i64>,
    /// True if the year was written with at most two digits.
    short_year: bool,
    month: Option<i64>,
    text_month: bool,
    day: Option<i64>,
    bc: Option<bool>,
    time: Option<i64>,
    hour: i64,
    afternoon: Option<bool>,
    zone: Option<ZoneName>,
    order: DateOrder,
    /// Time of the transaction's start, if the text is `now`.
    now: Option<i64>,
    /// Days since 1970, written as a Julian day.
    julian: Option<i64>,
    day_of_year: Option<i64>,
    infinity: Option<bool>,
    epoch: bool,
}

fn number(digits: &str) -> DateTimeResult<i64> {
    digits.parse().map_err(|_| if digits.is_empty() { DateTimeError::Syntax } else { DateTimeError::Range })
}

/// Returns the microseconds of a fraction. `digits` are those after the decimal point.
pub(super) fn fraction_micros(digits: &str) -> Option<i64> {
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    if digits.is_empty() {
        return Some(0);
    }
    format!("0.{digits}").parse::<f64>().ok().map(|part| (part * 1e6).round_ties_even() as i64)
}

/// Returns the microseconds since midnight of `HH:MM[:SS[.fraction]]`, and the hour.
fn clock(text: &str) -> DateTimeResult<(i64, i64)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let parts: Vec<&str> = whole.split(':').collect();
    let fraction = fraction_micros(fraction).ok_or(DateTimeError::Syntax)?;
    let (hour, minute, second) = match parts[..] {
        [hour, minute] if !text.contains('.') => (number(hour)?, number(minute)?, 0),
        // `12:34.5` is minutes and seconds.
        [minute, second] => (0, number(minute)?, number(second)?),
        [hour, minute, second] => (number(hour)?, number(minute)?, number(second)?),
        _ => return Err(DateTimeError::Syntax),
    };
    // The start of a leap second is the next minute.
    if minute > 59
        || second > 60
        || (second == 60 && fraction > 0)
        || hour > 24
        || (hour == 24 && (minute, second, fraction) != (0, 0, 0))
    {
        return Err(DateTimeError::Range);
    }
    Ok((((hour * 60 + minute) * 60 + second) * SECOND + fraction, hour))
}

fn offset(text: &str) -> DateTimeResult<ZoneName> {
    let negative = text.starts_with('-');
    let text = text[1..].trim_start();
    let (hour, minute, second) = if text.contains(':') {
        let parts = text.split(':').map(number).collect::<DateTimeResult<Vec<i64>>>()?;
        (parts[0], parts.get(1).copied().unwrap_or(0), parts.get(2).copied().unwrap_or(0))
    } else {
        let value = number(text)?;
        if text.len() > 2 { (value / 100, value % 100, 0) } else { (value, 0, 0) }
    };
    if hour > 15 || minute > 59 || second > 59 {
        return Err(DateTimeError::Zone);
    }
    let seconds = (hour * 60 + minute) * 60 + second;
    let seconds = seconds as i32;
    Ok(ZoneName::Offset(if negative { -seconds } else { seconds }))
}

/// Reads an offset from UTC with its sign (`+05:30`, east). Returns `None` if the text is not an offset.
///
/// # Errors
/// `22023` for an offset beyond 15:59:59.
pub fn offset_of(text: &str) -> SqlResult<Option<ZoneName>> {
    match offset(text) {
        Ok(zone) => Ok(Some(zone)),
        Err(DateTimeError::Zone | DateTimeError::Range) => {
            let message = format!("numeric time zone \"{text}\" out of range");
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
        Err(DateTimeError::Syntax | DateTimeError::MonthOrDay | DateTimeError::Other(_)) => Ok(None),
    }
}

impl DateTimeFields {
    fn has_date(&self) -> bool {
        self.julian.is_some() || (self.year.is_some() && (self.day_of_year.is_some() || self.day.is_some()))
    }

    fn set_year(&mut self, digits: &str) -> DateTimeResult<()> {
        self.year = Some(number(digits)?);
        self.short_year = digits.len() <= 2;
        Ok(())
    }

    /// Adds a number of a date. Its meaning depends on the fields that are known already.
    fn date_number(&mut self, digits: &str) -> DateTimeResult<()> {
        let long = digits.len() >= 3 || self.order == DateOrder::Ymd;
        let value = number(digits)?;
        match (self.year, self.month, self.day) {
            (Some(_), None, None) if digits.len() == 3 && (1..=366).contains(&value) => self.day_of_year = Some(value),
            (None, None, None) if long => self.set_year(digits)?,
            (None, None, None) if self.order == DateOrder::Dmy => self.day = Some(value),
            (None, None, None) | (Some(_), None, None) | (None, None, Some(_)) => self.month = Some(value),
            (None, Some(_), None) if self.text_month && long => self.set_year(digits)?,
            (Some(year), Some(_), None) if self.text_month && digits.len() >= 3 && self.short_year => {
                self.day = Some(year);
                self.set_year(digits)?;
            }
            (_, Some(_), None) => self.day = Some(value),
            (None, Some(_), Some(_)) => self.set_year(digits)?,
            _ => return Err(DateTimeError::Syntax),
        }
        Ok(())
    }

    /// Adds a number without separators: 19990108, 990108; after a date, or a `T`, 040506 or 0405.
    fn run_of_digits(&mut self, text: &str, is_time: bool) -> DateTimeResult<()> {
        let (digits, fraction) = text.split_once('.').unwrap_or((text, ""));
        if self.time.is_none() && (is_time || self.has_date()) && matches!(digits.len(), 2 | 4 | 6) {
            let mut written = digits.as_bytes().chunks(2).map(|two| String::from_utf8_lossy(two)).collect::<Vec<_>>();
            if written.len() == 1 {
                written.push("00".into());
            }
            let fraction = if fraction.is_empty() { String::new() } else { format!(".{fraction}") };
            let (time, hour) = clock(&(written.join(":") + &fraction))?;
            (self.time, self.hour) = (Some(time), hour);
            return Ok(());
        }
        if self.has_date() || text.contains('.') || digits.len() < 6 {
            return Err(DateTimeError::Syntax);
        }
        let (rest, day) = digits.split_at(digits.len() - 2);
        let (year, month) = rest.split_at(rest.len() - 2);
        self.set_year(year)?;
        (self.month, self.day) = (Some(number(month)?), Some(number(day)?));
        Ok(())
    }

    fn date_token(&mut self, text: &str) -> DateTimeResult<()> {
        let parts: Vec<&str> = text.split(['-', '/', '.']).filter(|part| !part.is_empty()).collect();
        let is_word = |part: &&str| part.as_bytes()[0].is_ascii_alphabetic();
        // The name of a month stands first or in the middle.
        if parts.len() > 3 || (parts.len() == 3 && is_word(&parts[2])) {
            return Err(DateTimeError::Syntax);
        }
        for part in parts.iter().filter(|part| part.as_bytes()[0].is_ascii_alphabetic()) {
            self.month = Some(month_of(&part.to_ascii_lowercase()).ok_or(DateTimeError::Syntax)?);
            self.text_month = true;
        }
        for part in parts.iter().filter(|part| !part.as_bytes()[0].is_ascii_alphabetic()) {
            self.date_number(part)?;
        }
        Ok(())
    }

    /// Sets the day to the one so many days from today.
    fn set_day(&mut self, forms: &Forms, days: i64) {
        let civil = calendar::civil_of(forms.today() + days);
        self.julian = Some(calendar::days_of(civil.year, civil.month, civil.day));
    }

    fn word(&mut self, word: &str, forms: &Forms) -> DateTimeResult<()> {
        match word {
            "am" | "pm" => self.afternoon = Some(word == "pm"),
            "ad" | "bc" => self.bc = Some(word == "bc"),
            "infinity" => self.infinity = Some(true),
            "epoch" => self.epoch = true,
            "allballs" => (self.time, self.zone) = (Some(0), Some(ZoneName::Offset(0))),
            "at" | "on" => {}
            "now" => {
                self.set_day(forms, 0);
                self.now = Some(forms.now_us);
                self.time = Some(calendar::split(forms.local(forms.now_us)).1);
            }
            "today" => self.set_day(forms, 0),
            "tomorrow" => self.set_day(forms, 1),
            "yesterday" => self.set_day(forms, -1),
            _ if self.zone.is_none() && ZoneName::abbreviation(word).is_some() => {
                self.zone = ZoneName::abbreviation(word)
            }
            _ if is_week_day(word) => {}
            _ => {
                if let Some(month) = month_of(word) {
                    // `08 Jan`: the number that was taken for a month is the day.
                    if let (Some(first), None, false) = (self.month, self.day, self.text_month) {
                        if !(1..=31).contains(&first) {
                            return Err(DateTimeError::Syntax);
                        }
                        self.day = Some(first);
                    }
                    (self.month, self.text_month) = (Some(month), true);
                } else if self.zone.is_none() {
                    self.zone = Some(Zone::named(word).map(ZoneName::Zone).ok_or_else(|| {
                        if word.contains('/') {
                            let message = format!("time zone \"{}\" not recognized", word.to_ascii_lowercase());
                            DateTimeError::Other(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
                        } else {
                            DateTimeError::Syntax
                        }
                    })?);
                } else {
                    return Err(DateTimeError::Syntax);
                }
            }
        }
        Ok(())
    }

    fn read(text: &str, forms: &Forms) -> DateTimeResult<DateTimeFields> {
        let tokens = tokens(text).filter(|tokens| !tokens.is_empty()).ok_or(DateTimeError::Syntax)?;
        let mut fields = DateTimeFields { order: forms.date_order, ..DateTimeFields::default() };
        let mut after_t = false;
        let mut after_j = false;
        for (index, token) in tokens.iter().enumerate() {
            match *token {
                Token::Time(text) => {
                    let (time, hour) = clock(text)?;
                    if fields.time.replace(time).is_some() {
                        return Err(DateTimeError::Syntax);
                    }
                    fields.hour = hour;
                }
                Token::Number(digits) if after_j => fields.julian = Some(number(digits)? - 2_440_588),
                // `1999.008`: a year, and the day of the year.
                Token::Number(digits) if !after_t && digits.len() == 8 && digits.find('.') == Some(4) => {
                    fields.set_year(&digits[..4])?;
                    fields.day_of_year = Some(number(&digits[5..])?);
                }
                Token::Number(digits) if after_t || digits.len() > 4 => fields.run_of_digits(digits, after_t)?,
                Token::Number(digits) if digits.contains('.') => return Err(DateTimeError::Syntax),
                Token::Number(digits) if fields.has_date() && fields.time.is_none() && digits.len() == 4 => {
                    fields.run_of_digits(digits, true)?;
                }
                Token::Number(digits) => fields.date_number(digits)?,
                // `040506-08`: a time and its zone, after the date.
                Token::Date(text)
                    if (after_t || fields.has_date())
                        && text.as_bytes()[0].is_ascii_digit()
                        && let Some(at) = text.find('-') =>
                {
                    if fields.time.is_some() || fields.zone.is_some() {
                        return Err(DateTimeError::Syntax);
                    }
                    fields.zone = Some(offset(&text[at..])?);
                    fields.run_of_digits(&text[..at], true)?;
                }
                Token::Date(text) => {
                    fields.date_token(text)?;
                    // Such a token completes the date, in whichever order its parts are.
                    let has_day = fields.day_of_year.is_some() || (fields.month.is_some() && fields.day.is_some());
                    if fields.year.is_none() || !has_day {
                        return Err(DateTimeError::Syntax);
                    }
                }
                // An offset may follow a day without a time, too, which then starts at midnight.
                Token::Signed(text) if (fields.time.is_some() || fields.year.is_some()) && fields.zone.is_none() => {
                    fields.zone = Some(offset(text)?);
                }
                // `UTC+3`, as POSIX defines it, is not supported here.
                Token::Signed(_) => return Err(DateTimeError::Syntax),
                Token::SignedWord(negative, word) if word.eq_ignore_ascii_case("infinity") => {
                    fields.infinity = Some(!negative);
                }
                Token::SignedWord(..) => return Err(DateTimeError::Syntax),
                Token::Word(word) => {
                    let name = word;
                    let word = word.to_ascii_lowercase();
                    after_t = word == "t" && index + 1 < tokens.len();
                    after_j = matches!(word.as_str(), "j" | "jd" | "julian") && index + 1 < tokens.len();
                    if !after_t && !after_j {
                        fields.word(if name.contains('/') { name } else { &word }, forms)?;
                    }
                    continue;
                }
            }
            (after_t, after_j) = (false, false);
        }
        if (fields.infinity.is_some() || fields.epoch || fields.now.is_some()) && tokens.len() > 1 {
            return Err(DateTimeError::Syntax);
        }
        Ok(fields)
    }

    /// Returns the days since 1970-01-01.
    fn days(&self) -> DateTimeResult<i64> {
        if let Some(days) = self.julian {
            return Ok(days);
        }
        let year = match (self.year, self.bc) {
            (None, _) => None,
            (Some(year), Some(true)) if year <= 0 => return Err(DateTimeError::Range),
            (Some(year), Some(true)) => Some(1 - year),
            (Some(year), _) if self.short_year && year < 70 => Some(year + 2000),
            (Some(year), _) if self.short_year && year < 100 => Some(year + 1900),
            (Some(year), _) if year <= 0 => return Err(DateTimeError::Range),
            (year, _) => year,
        };
        if let (Some(year), Some(day)) = (year, self.day_of_year) {
            return Ok(calendar::days_of(year, 1, 1) + day - 1);
        }
        // Parts that cannot be a month or day are refused as such, even if the date is incomplete.
        let month_fits = self.month.is_none_or(|month| (1..=12).contains(&month));
        if !month_fits || self.day.is_some_and(|day| !(1..=31).contains(&day)) {
            return Err(DateTimeError::MonthOrDay);
        }
        let (Some(year), Some(month), Some(day)) = (year, self.month, self.day) else {
            return Err(DateTimeError::Syntax);
        };
        if day > calendar::days_in(year, month) || year > 10_000_000 {
            return Err(DateTimeError::Range);
        }
        Ok(calendar::days_of(year, month, day))
    }

    fn micros(&self) -> DateTimeResult<i64> {
        let time = self.time.unwrap_or(0);
        match self.afternoon {
            Some(_) if self.hour > 12 => Err(DateTimeError::Range),
            Some(true) if self.hour != 12 => Ok(time + DAY / 2),
            Some(false) if self.hour == 12 => Ok(time - DAY / 2),
            _ => Ok(time),
        }
    }
}

/// Converts a fault of this text to the error that PostgreSQL gives.
fn told<T>(found: DateTimeResult<T>, text: &str, type_name: &str) -> SqlResult<T> {
    let range = || {
        let message = format!("date/time field value out of range: \"{text}\"");
        SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
    };
    found.map_err(|fault| match fault {
        DateTimeError::Syntax => {
            let message = format!("invalid input syntax for type {type_name}: \"{text}\"");
            SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
        }
        DateTimeError::Range => range(),
        DateTimeError::MonthOrDay => range().hint("Perhaps you need a different \"datestyle\" setting."),
        DateTimeError::Zone => SqlError::new(
            SqlState::INVALID_TIME_ZONE_DISPLACEMENT_VALUE,
            format!("time zone displacement out of range: \"{text}\""),
        ),
        DateTimeError::Other(error) => error,
    })
}

/// Reads a date: days since 1970-01-01.
///
/// # Errors
/// `22007`, `22008`.
pub fn parse_date(text: &str, forms: &Forms) -> SqlResult<i32> {
    let fields = told(DateTimeFields::read(text, forms), text, "date")?;
    match fields.infinity {
        Some(positive) => return Ok(if positive { i32::MAX } else { i32::MIN }),
        None if fields.epoch => return Ok(0),
        None => {}
    }
    let days = told(fields.days().and_then(|days| fields.micros().map(|_| days)), text, "date")?;
    calendar::date(days)
        .map_err(|_| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("date out of range: \"{text}\"")))
}

/// Reads a time of day, in microseconds.
///
/// # Errors
/// `22007`, `22008`.
pub fn parse_time(text: &str, forms: &Forms) -> SqlResult<i64> {
    const NAME: &str = "time";
    let mut found = DateTimeFields::read(text, forms);
    // `040506` alone is a time here.
    if text.trim().bytes().all(|b| b.is_ascii_digit()) {
        let mut fields = DateTimeFields::default();
        found = fields.run_of_digits(text.trim(), true).map(|()| fields);
    }
    let fields = told(found, text, NAME)?;
    if fields.time.is_none() || fields.infinity.is_some() {
        return told(Err(DateTimeError::Syntax), text, NAME);
    }
    // Only a date determines the offset of a zone.
    if matches!(fields.zone, Some(ZoneName::Zone(_))) && !fields.has_date() {
        return told(Err(DateTimeError::Syntax), text, NAME);
    }
    if fields.year.is_some() || fields.month.is_some() {
        told(fields.days(), text, NAME)?;
    }
    told(fields.micros(), text, NAME)
}

/// Reads a timestamp: microseconds since 1970-01-01, in UTC if `with_zone`. Otherwise a zone in the text is ignored.
///
/// # Errors
/// `22007`, `22008`, `22009`.
pub fn parse_timestamp(text: &str, with_zone: bool, forms: &Forms) -> SqlResult<i64> {
    let name = if with_zone { "timestamp with time zone" } else { "timestamp" };
    let fields = told(DateTimeFields::read(text, forms), text, name)?;
    match fields.infinity {
        Some(positive) => return Ok(if positive { i64::MAX } else { i64::MIN }),
        None if fields.epoch => return Ok(0),
        None => {}
    }
    let days = told(fields.days(), text, name)?;
    let mut micros = told(fields.micros(), text, name)?;
    if with_zone {
        if let Some(now) = fields.now {
            return Ok(now);
        }
        let shown = days.saturating_mul(DAY).saturating_add(micros);
        let offset = match &fields.zone {
            Some(zone) => zone.offset_of_local(shown),
            None => forms.zone.offset_of_local(shown),
        };
        micros -= i64::from(offset) * SECOND;
    }
    calendar::moment(days, micros)
        .map_err(|_| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("timestamp out of range: \"{text}\"")))
}
