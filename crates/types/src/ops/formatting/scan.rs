//! Timestamps and dates read from a text by a template.

use super::dates::{DAYS, KEYWORDS, MONTHS, iso_year_start};
use super::roman::MONTHS as ROMAN;
use super::{NODE, TemplateField, TemplateNode, is_sign, nodes};
use crate::calendar::{
    DAY, FIRST_DATE, LAST_DATE, SECOND, civil_of, days_in, days_of, round_timestamp, timestamp_out_of_range,
};
use crate::forms::Forms;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;

/// Convention of a date: by the calendar, or by ISO years and weeks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Convention {
    Gregorian,
    Iso,
}

/// Values that were read, 0 for those that were not.
#[derive(Debug, Default)]
struct ScannedFields {
    convention: Option<Convention>,
    hour: i32,
    is_half_day: bool,
    after_noon: i32,
    minute: i32,
    second: i32,
    seconds: i32,
    milliseconds: i32,
    micros: i32,
    /// Number of digits of a second that the last of `FF1` to `FF6` asks for.
    second_digits: Option<u32>,
    /// Day of the week from 1, Sunday.
    day_of_week: i32,
    day: i32,
    day_of_year: i32,
    month: i32,
    year: i32,
    year_digits: i32,
    is_bc: i32,
    week: i32,
    week_of_month: i32,
    century: i32,
    julian: i32,
    zone_sign: i32,
    zone_hour: i32,
    zone_minute: i32,
    ignored: i32,
}

fn invalid(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
}

fn overflow(text: &str) -> SqlError {
    let message = format!("date/time field value out of range: \"{text}\"");
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0xb
}

/// Returns the convention of a keyword, and whether it reads digits.
fn traits_of(name: &str) -> (Option<Convention>, bool) {
    let lower = name.to_lowercase();
    let convention = match &*lower {
        "ddd" | "dd" | "d" | "mm" | "month" | "mon" | "rm" | "ww" | "w" | "y,yyy" | "yyyy" | "yyy" | "yy" | "y" => {
            Some(Convention::Gregorian)
        }
        "iddd" | "id" | "iw" | "iyyy" | "iyy" | "iy" | "i" => Some(Convention::Iso),
        _ => None,
    };
    let is_word = matches!(
        &*lower,
        "a.d."
            | "a.m."
            | "ad"
            | "am"
            | "b.c."
            | "bc"
            | "day"
            | "dy"
            | "fx"
            | "month"
            | "mon"
            | "of"
            | "p.m."
            | "pm"
            | "rm"
            | "tz"
            | "tzh"
    );
    (convention, !is_word)
}

/// A text, and the position up to which it has been read.
struct TextScanner<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> TextScanner<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips one character.
    fn skip(&mut self) {
        self.at += self.rest().chars().next().map_or(0, char::len_utf8);
    }

    fn skip_spaces(&mut self) -> i32 {
        let from = self.at;
        while self.peek().is_some_and(is_space) {
            self.at += 1;
        }
        (self.at - from) as i32
    }

    /// Reads a number of so many digits, or of as many as there are if what follows cannot be taken for one of them.
    /// Returns its number of characters, too.
    fn number(&mut self, field: TemplateField, wanted: usize, is_free: bool) -> SqlResult<(i32, usize)> {
        let from = self.at;
        self.skip_spaces();
        let rest = self.rest();
        let given: String = rest.chars().take(wanted).collect();
        let (value, used) = if is_free {
            self.at = from;
            let (value, used) = leading_number(self.rest());
            (value, used)
        } else {
            if rest.len() < wanted {
                let message = format!("source string too short for \"{}\" formatting field", field.name);
                return Err(invalid(message)
                    .detail(format!("Field requires {wanted} characters, but only {} remain.", rest.len()))
                    .hint("If your source string is not fixed-width, try using the \"FM\" modifier."));
            }
            let (value, used) = leading_number(&given);
            if 0 < used && used < wanted {
                return Err(invalid(format!("invalid value \"{given}\" for \"{}\"", field.name))
                    .detail(format!("Field requires {wanted} characters, but only {used} could be parsed."))
                    .hint("If your source string is not fixed-width, try using the \"FM\" modifier."));
            }
            (value, used)
        };
        self.at += used;
        if used == 0 {
            return Err(invalid(format!("invalid value \"{given}\" for \"{}\"", field.name))
                .detail("Value must be an integer."));
        }
        let value = value.and_then(|value| i32::try_from(value).ok()).ok_or_else(|| {
            let message = format!("value for \"{}\" in source string is out of range", field.name);
            SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message).detail(format!(
                "Value must be in the range {} to {}.",
                i32::MIN,
                i32::MAX
            ))
        })?;
        Ok((value, self.at - from))
    }

    /// Reads the first of these names that stands here, in any case.
    fn name(&mut self, field: TemplateField, names: &[&str]) -> SqlResult<i32> {
        let rest = self.rest();
        let is_here = |name: &&str| rest.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name));
        match names.iter().position(is_here) {
            Some(at) => {
                self.at += names[at].len();
                Ok(at as i32)
            }
            None => {
                let word: String = rest.chars().take_while(|letter| !letter.is_ascii_whitespace()).collect();
                Err(invalid(format!("invalid value \"{word}\" for \"{}\"", field.name))
                    .detail("The given value did not match any of the allowed values for this field."))
            }
        }
    }
}

/// Reads the number at the start of a text like `strtol`. The number is `None` if it is too large. Returns the number
/// of bytes that it takes, too, 0 if there is none.
fn leading_number(text: &str) -> (Option<i64>, usize) {
    let bytes = text.as_bytes();
    let mut at = bytes.iter().take_while(|byte| is_space(**byte)).count();
    let negative = bytes.get(at) == Some(&b'-');
    at += usize::from(matches!(bytes.get(at), Some(b'-' | b'+')));
    let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return (Some(0), 0);
    }
    let value = text[at..at + digits].parse::<i64>().ok().map(|value| if negative { -value } else { value });
    (value, at + digits)
}

/// Sets a field that has no other value yet.
fn set(place: &mut i32, value: i32, field: TemplateField) -> SqlResult<()> {
    if *place != 0 && *place != value {
        let message = format!("conflicting values for \"{}\" field in formatting string", field.name);
        return Err(invalid(message).detail("This value contradicts a previous setting for the same field type."));
    }
    *place = value;
    Ok(())
}

/// Returns the year nearest to 2020 for one of fewer than four digits.
fn near_2020(year: i32) -> i32 {
    match year {
        ..70 => year + 2000,
        70..100 => year + 1900,
        100..520 => year + 2000,
        520..1000 => year + 1000,
        _ => year,
    }
}

fn read(text: &str, template: &str) -> SqlResult<ScannedFields> {
    let all = nodes(template, KEYWORDS, true)?;
    let mut found = ScannedFields::default();
    let mut reader = TextScanner { text, at: 0 };
    let mut is_exact = false;
    // Spaces that were skipped, minus those that the template has.
    let mut skipped = 0;
    for (place, node) in all.iter().enumerate() {
        pulse::tick(NODE)?;
        if reader.rest().is_empty() {
            break;
        }
        let is_fx = matches!(node, TemplateNode::Field(field) if field.name.eq_ignore_ascii_case("fx"));
        if !is_exact && !is_fx && (matches!(node, TemplateNode::Field(_)) || place == 0) {
            skipped += reader.skip_spaces();
        }
        let field = match node {
            TemplateNode::Separator(_) if is_exact => {
                reader.skip();
                continue;
            }
            TemplateNode::Separator(_) => {
                skipped -= 1;
                if reader.peek().is_some_and(|byte| is_space(byte) || is_sign(char::from(byte))) {
                    reader.at += 1;
                    skipped += 1;
                }
                continue;
            }
            TemplateNode::Letter(_) => {
                if !is_exact && 0 < skipped {
                    skipped -= 1;
                } else {
                    reader.skip();
                }
                continue;
            }
            TemplateNode::Field(field) => *field,
        };
        let (convention, _) = traits_of(field.name);
        if let Some(convention) = convention
            && *found.convention.get_or_insert(convention) != convention
        {
            return Err(invalid("invalid combination of date conventions".to_owned())
                .hint("Do not mix Gregorian and ISO week date conventions in a formatting template."));
        }
        if is_fx {
            is_exact = true;
        } else {
            let is_free = field.fill || is_number_over(field, all.get(place + 1));
            found.field(field, is_free, skipped, &mut reader)?;
        }
        if !is_exact {
            skipped = reader.skip_spaces();
        }
    }
    Ok(found)
}

/// Returns true if the following part shows that a number ends where its digits do.
fn is_number_over(field: TemplateField, next: Option<&TemplateNode>) -> bool {
    if field.ordinal.is_some() {
        return true;
    }
    match next {
        None => true,
        Some(TemplateNode::Field(next)) => !traits_of(next.name).1,
        Some(TemplateNode::Separator(letter) | TemplateNode::Letter(letter)) => !letter.is_ascii_digit(),
    }
}

impl ScannedFields {
    fn field(
        &mut self,
        field: TemplateField,
        is_free: bool,
        skipped: i32,
        reader: &mut TextScanner<'_>,
    ) -> SqlResult<()> {
        let lower = field.name.to_lowercase();
        let width = field.name.len();
        match &*lower {
            "a.m." | "p.m." => {
                let value = reader.name(field, &["a.m.", "p.m."])?;
                self.is_half_day = true;
                return set(&mut self.after_noon, value, field);
            }
            "am" | "pm" => {
                let value = reader.name(field, &["am", "pm"])?;
                self.is_half_day = true;
                return set(&mut self.after_noon, value, field);
            }
            "a.d." | "b.c." => return set(&mut self.is_bc, reader.name(field, &["a.d.", "b.c."])?, field),
            "ad" | "bc" => return set(&mut self.is_bc, reader.name(field, &["ad", "bc"])?, field),
            "month" => return set(&mut self.month, reader.name(field, &MONTHS)? + 1, field),
            "mon" => return set(&mut self.month, reader.name(field, &MONTHS.map(|name| &name[..3]))? + 1, field),
            "day" => return set(&mut self.day_of_week, reader.name(field, &DAYS)? + 1, field),
            "dy" => return set(&mut self.day_of_week, reader.name(field, &DAYS.map(|name| &name[..3]))? + 1, field),
            "rm" => return set(&mut self.month, 12 - reader.name(field, &ROMAN)?, field),
            "tz" | "of" => {
                let message = format!("formatting field \"{}\" is only supported in to_char", field.name);
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            "tzh" => {
                match reader.peek() {
                    Some(sign @ (b'+' | b'-' | b' ')) => {
                        self.zone_sign = if sign == b'-' { -1 } else { 1 };
                        reader.at += 1;
                    }
                    // A minus may have been taken for a separator.
                    _ if 0 < skipped && reader.text[..reader.at].ends_with('-') => self.zone_sign = -1,
                    _ => self.zone_sign = 1,
                }
                let (value, _) = reader.number(field, 2, is_free)?;
                return set(&mut self.zone_hour, value, field);
            }
            "tzm" => {
                if self.zone_sign == 0 {
                    self.zone_sign = 1;
                }
                let (value, _) = reader.number(field, 2, is_free)?;
                return set(&mut self.zone_minute, value, field);
            }
            "y,yyy" => {
                let rest = reader.rest();
                let (thousands, used) = leading_number(rest);
                let after = rest[used..].strip_prefix(',').unwrap_or("");
                let digits: String = after.chars().take(3).take_while(char::is_ascii_digit).collect();
                let (Some(thousands), Ok(years)) = (thousands.filter(|_| 0 < used), digits.parse::<i64>()) else {
                    return Err(invalid("invalid input string for \"Y,YYY\"".to_owned()));
                };
                reader.at += used + 1 + digits.len();
                self.year_digits = 4;
                return set(&mut self.year, (thousands * 1000 + years) as i32, field);
            }
            _ => {}
        }
        if let Some(digits) = lower.strip_prefix("ff") {
            self.second_digits = digits.parse().ok();
        }
        let wanted = match &*lower {
            "hh" | "hh12" | "hh24" => 2,
            "ms" => 3,
            "us" => 6,
            "iddd" => 3,
            "id" => 1,
            fraction if fraction.starts_with("ff") => fraction[2..].parse().unwrap_or(6),
            _ => width,
        };
        let (value, length) = reader.number(field, wanted, is_free)?;
        let place = match &*lower {
            "hh" | "hh12" => {
                self.is_half_day = true;
                &mut self.hour
            }
            "hh24" => &mut self.hour,
            "mi" => &mut self.minute,
            "ss" => &mut self.second,
            "ms" => &mut self.milliseconds,
            "us" => &mut self.micros,
            fraction if fraction.starts_with("ff") => &mut self.micros,
            "sssss" | "ssss" => &mut self.seconds,
            "mm" => &mut self.month,
            "ddd" | "iddd" => &mut self.day_of_year,
            "dd" => &mut self.day,
            "d" | "id" => &mut self.day_of_week,
            "ww" | "iw" => &mut self.week,
            "cc" => &mut self.century,
            "yyyy" | "iyyy" | "yyy" | "iyy" | "yy" | "iy" | "y" | "i" => &mut self.year,
            "w" => &mut self.week_of_month,
            "j" => &mut self.julian,
            "q" => {
                self.ignored = 0;
                &mut self.ignored
            }
            _ => {
                return Err(SqlError::new(
                    SqlState::INTERNAL_ERROR,
                    format!("unknown formatting field \"{}\"", field.name),
                ));
            }
        };
        set(place, value, field)?;
        match &*lower {
            "ms" => *place *= [100, 10].get(length.saturating_sub(1)).unwrap_or(&1),
            "us" => *place *= [100_000, 10_000, 1000, 100, 10].get(length.saturating_sub(1)).unwrap_or(&1),
            fraction if fraction.starts_with("ff") => {
                *place *= [100_000, 10_000, 1000, 100, 10].get(length.saturating_sub(1)).unwrap_or(&1);
            }
            "id" => *place = if 7 <= *place { 1 } else { *place + 1 },
            "yyyy" | "iyyy" => self.year_digits = 4,
            "yyy" | "iyy" | "yy" | "iy" | "y" | "i" => {
                if length < 4 {
                    *place = near_2020(*place);
                }
                self.year_digits = lower.trim_start_matches('i').len().max(1) as i32;
                if lower.starts_with('i') {
                    self.year_digits = lower.len() as i32;
                }
            }
            _ => {}
        }
        if field.ordinal.is_some() {
            reader.skip();
            reader.skip();
        }
        Ok(())
    }
}

/// A timestamp as it is given by a text.
struct ScannedTimestamp {
    /// Days since 1970.
    days: i64,
    /// Microseconds of the day.
    time: i64,
    /// Offset of the zone in seconds, if the text gives one.
    zone: Option<i64>,
    /// Number of digits of a second to round to, if the template gives one.
    second_digits: Option<u32>,
}

fn resolve(text: &str, template: &str) -> SqlResult<ScannedTimestamp> {
    let found = read(text, template)?;
    let wide = i64::from;
    let (mut hour, mut minute, mut second) = (0, 0, 0);
    if found.seconds != 0 {
        (hour, minute, second) = (found.seconds / 3600, found.seconds % 3600 / 60, found.seconds % 60);
    }
    if found.second != 0 {
        second = found.second;
    }
    if found.minute != 0 {
        minute = found.minute;
    }
    if found.hour != 0 {
        hour = found.hour;
    }
    if found.is_half_day {
        if !(1..=12).contains(&hour) {
            return Err(invalid(format!("hour \"{hour}\" is invalid for the 12-hour clock"))
                .hint("Use the 24-hour clock, or give an hour between 1 and 12."));
        }
        if found.after_noon != 0 && hour < 12 {
            hour += 12;
        } else if found.after_noon == 0 && hour == 12 {
            hour = 0;
        }
    }
    let (mut year, mut month, mut day) = (0_i64, 1_i64, 1_i64);
    // The known ones of the three, for parts that must be consistent.
    let (mut has_month, mut has_day) = (false, false);
    let mut has_year = false;
    let century = if found.is_bc != 0 { -wide(found.century) } else { wide(found.century) };
    if found.year != 0 {
        if found.century != 0 && found.year_digits <= 2 {
            let of_century = wide(found.year) % 100;
            year = match (of_century, 0 <= century) {
                (0, true) => century * 100,
                (0, false) => century * 100 + 1,
                (_, true) => of_century + (century - 1) * 100,
                (_, false) => (century + 1) * 100 - of_century + 1,
            };
        } else {
            year = if found.is_bc != 0 { -wide(found.year) } else { wide(found.year) };
            if year < 0 {
                year += 1;
            }
        }
        has_year = true;
    } else if found.century != 0 {
        year = if 0 <= century { (century - 1) * 100 + 1 } else { century * 100 + 1 };
        has_year = true;
    }
    let put = |days: i64| {
        let civil = civil_of(days);
        (civil.year, civil.month, civil.day)
    };
    let mut is_whole = false;
    if found.julian != 0 {
        (year, month, day) = put(wide(found.julian) - 2_440_588);
        is_whole = true;
    }
    let mut day_of_year = wide(found.day_of_year);
    if found.week != 0 {
        if found.convention == Some(Convention::Iso) {
            let monday = iso_year_start(year) + (wide(found.week) - 1) * 7;
            // Counted from Monday, with Sunday as the last day.
            let more = match found.day_of_week {
                0 => 0,
                1 => 6,
                day => wide(day) - 2,
            };
            (year, month, day) = put(monday + more);
            is_whole = true;
        } else {
            day_of_year = (wide(found.week) - 1) * 7 + 1;
        }
    }
    let mut own_day = wide(found.day);
    if found.week_of_month != 0 {
        own_day = (wide(found.week_of_month) - 1) * 7 + 1;
    }
    if own_day != 0 {
        day = own_day;
        has_day = true;
    }
    if found.month != 0 {
        month = wide(found.month);
        has_month = true;
    }
    if day_of_year != 0 && (month <= 1 || day <= 1) {
        if year == 0 && found.is_bc == 0 {
            return Err(invalid("cannot calculate day of year without year information".to_owned()));
        }
        if found.convention == Some(Convention::Iso) {
            (year, month, day) = put(iso_year_start(year) + day_of_year - 1);
            is_whole = true;
        } else {
            let (mut of, mut left) = (1, day_of_year);
            while of <= 12 && days_in(year, of) < left {
                left -= days_in(year, of);
                of += 1;
            }
            if month <= 1 {
                month = of;
            }
            if day <= 1 {
                day = left;
            }
            (has_month, has_day) = (true, true);
        }
    }
    let checks_month = has_month || is_whole;
    let checks_day = has_day || is_whole;
    let checks_all = is_whole || (has_year && has_month && has_day);
    if (checks_month && !(1..=12).contains(&month))
        || (checks_day && !(1..=31).contains(&day))
        || (checks_all && days_in(year, month) < day)
    {
        return Err(overflow(text));
    }
    let micros = wide(found.milliseconds) * 1000 + wide(found.micros);
    if !(0..24).contains(&hour)
        || !(0..60).contains(&minute)
        || !(0..60).contains(&second)
        || !(0..SECOND).contains(&micros)
    {
        return Err(overflow(text));
    }
    let zone = match found.zone_sign {
        0 => None,
        sign => {
            if !(0..=15).contains(&found.zone_hour) || !(0..60).contains(&found.zone_minute) {
                let message = format!("time zone displacement out of range: \"{text}\"");
                return Err(SqlError::new(SqlState::INVALID_TIME_ZONE_DISPLACEMENT_VALUE, message));
            }
            Some(wide(sign) * (wide(found.zone_hour) * 3600 + wide(found.zone_minute) * 60))
        }
    };
    let days = days_of(year, month, 1) + day - 1;
    let time = (wide(hour) * 3600 + wide(minute) * 60 + wide(second)) * SECOND + micros;
    Ok(ScannedTimestamp { days, time, zone, second_digits: found.second_digits })
}

/// Returns a timestamp. Without a zone in the text, it is local time in the session's zone.
pub(super) fn to_timestamp(text: &str, template: &str, forms: &Forms) -> SqlResult<i64> {
    let ScannedTimestamp { days, time, zone, second_digits } = resolve(text, template)?;
    let local = days.checked_mul(DAY).and_then(|start| start.checked_add(time)).ok_or_else(timestamp_out_of_range)?;
    let micros = match zone {
        None => forms.moment(local).ok_or_else(timestamp_out_of_range)?,
        Some(offset) => {
            let micros = local.checked_sub(offset * SECOND).ok_or_else(timestamp_out_of_range)?;
            if !(FIRST_DATE * DAY..i64::MAX).contains(&micros) {
                return Err(timestamp_out_of_range());
            }
            micros
        }
    };
    Ok(second_digits.map_or(micros, |digits| round_timestamp(micros, digits)))
}

/// Returns a date.
pub(super) fn to_date(text: &str, template: &str) -> SqlResult<i32> {
    let days = resolve(text, template)?.days;
    match i32::try_from(days) {
        Ok(date) if (FIRST_DATE..=LAST_DATE).contains(&days) => Ok(date),
        _ => {
            let message = format!("date out of range: \"{text}\"");
            Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message))
        }
    }
}
