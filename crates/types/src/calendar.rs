//! Conversion between days or microseconds since 1970-01-01 and years, months, days, and their text forms.
//!
//! Years are astronomical: 0 is 1 BC. The infinities are the greatest and the least number.

use statement::error::{SqlError, SqlResult, SqlState};

/// Microseconds in a second.
pub const SECOND: i64 = 1_000_000;
/// Microseconds in a day.
pub const DAY: i64 = 86_400 * SECOND;
/// 2000-01-01, the epoch of the wire's binary formats, in days since 1970-01-01.
pub const POSTGRES_EPOCH: i32 = 10_957;
/// 4714-11-24 BC, the first day of the calendar.
pub const FIRST_DATE: i64 = -2_440_588;
/// 5874897-12-31, the last day of the calendar.
pub const LAST_DATE: i64 = 2_145_042_905;

/// A day of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CivilDate {
    /// Astronomical year: 0 is 1 BC.
    pub year: i64,
    /// Month from 1 to 12.
    pub month: i64,
    /// Day from 1 to 31.
    pub day: i64,
}

/// Returns the days from 1970-01-01 to a day of the calendar.
pub fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Returns the day of the calendar so many days after 1970-01-01.
pub fn civil_of(days: i64) -> CivilDate {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    CivilDate { year: year + era * 400 + i64::from(month <= 2), month, day }
}

/// Returns the number of days of a month.
pub fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Splits a timestamp into days and microseconds of the day.
pub fn split(micros: i64) -> (i64, i64) {
    (micros.div_euclid(DAY), micros.rem_euclid(DAY))
}

/// Returns the error for a timestamp beyond the calendar.
pub fn timestamp_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range")
}

/// Returns the error for a day beyond the calendar.
pub fn date_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range")
}

/// Returns the timestamp of days and microseconds, if it is in the calendar. (This calendar ends on 294247-01-10,
/// thirty years before PostgreSQL's, since it counts from 1970.)
pub fn moment(days: i64, micros: i64) -> SqlResult<i64> {
    let all = days.checked_mul(DAY).and_then(|start| start.checked_add(micros));
    all.filter(|all| *all >= FIRST_DATE * DAY && *all < i64::MAX).ok_or_else(timestamp_out_of_range)
}

/// Returns the date of days since 1970-01-01, if it is in the calendar.
pub fn date(days: i64) -> SqlResult<i32> {
    i32::try_from(days).ok().filter(|_| (FIRST_DATE..=LAST_DATE).contains(&days)).ok_or_else(date_out_of_range)
}

/// Appends a number with at least `width` digits.
pub fn push_padded(out: &mut String, number: i64, width: usize) {
    let mut room = [0; 20];
    let digits = digits_in(&mut room, number.unsigned_abs());
    let sign = if number < 0 { "-" } else { "" };
    out.extend(std::iter::repeat_n('0', width.saturating_sub(sign.len() + digits.len())));
    out.push_str(sign);
    out.push_str(digits);
}

/// Returns the decimal digits of an integer, which are written into `room`. (`write!` takes five times as many instructions,
/// and results have many integers.)
pub(crate) fn digits_in(room: &mut [u8; 20], value: u64) -> &str {
    let (mut at, mut left) = (room.len(), value);
    while {
        at -= 1;
        room[at] = b'0' + (left % 10) as u8;
        left /= 10;
        left != 0
    } {}
    std::str::from_utf8(&room[at..]).unwrap_or_default()
}

/// Appends `HH:MM:SS`, and the fraction of the second if there is one.
pub fn push_time(out: &mut String, micros: i64) {
    push_padded(out, micros / (3600 * SECOND), 2);
    out.push(':');
    push_padded(out, micros / (60 * SECOND) % 60, 2);
    out.push(':');
    push_seconds(out, micros % (60 * SECOND));
}

/// Appends seconds with two digits, and the fraction without trailing zeros.
pub fn push_seconds(out: &mut String, micros: i64) {
    push_padded(out, micros / SECOND, 2);
    if micros % SECOND != 0 {
        out.push('.');
        push_padded(out, micros % SECOND, 6);
        out.truncate(out.trim_end_matches('0').len());
    }
}

/// Rounds to so many digits of a second, half away from `origin`.
fn round_micros(micros: i64, origin: i64, digits: u32) -> i64 {
    let unit = 10_i64.pow(6 - digits.min(6));
    let away = micros.saturating_sub(origin);
    let rounded = if away >= 0 { (away + unit / 2) / unit * unit } else { -((-away + unit / 2) / unit * unit) };
    origin.saturating_add(rounded)
}

/// Returns a timestamp rounded to so many digits of a second, as PostgreSQL rounds: half away from the year 2000.
pub fn round_timestamp(micros: i64, digits: u32) -> i64 {
    if micros == i64::MAX || micros == i64::MIN || digits >= 6 {
        return micros;
    }
    round_micros(micros, i64::from(POSTGRES_EPOCH) * DAY, digits)
}

/// Returns a time of day or a duration rounded to so many digits of a second.
pub fn round_time(micros: i64, digits: u32) -> i64 {
    if digits >= 6 { micros } else { round_micros(micros, 0, digits) }
}
