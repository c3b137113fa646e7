//! Text forms of dates and timestamps, in the four styles of `DateStyle`.

use crate::calendar::{CivilDate, civil_of, push_padded, push_time, split};
use crate::forms::{DateOrder, DateStyle, Forms};

/// Names of months in English.
pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// Names of the days of the week in English, Sunday first.
pub(crate) const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Maximum number of characters of a zone's abbreviation that are written.
const ABBREVIATION_MAX: usize = 10;

fn push_year(out: &mut String, year: i64) {
    push_padded(out, if year > 0 { year } else { 1 - year }, 4);
}

/// Appends day and month in the session's order.
fn push_day_and_month(out: &mut String, civil: CivilDate, order: DateOrder, between: char) {
    let (first, second) = if order == DateOrder::Dmy { (civil.day, civil.month) } else { (civil.month, civil.day) };
    push_padded(out, first, 2);
    out.push(between);
    push_padded(out, second, 2);
}

fn push_civil(out: &mut String, civil: CivilDate, forms: &Forms) {
    match forms.date_style {
        DateStyle::Iso => {
            push_year(out, civil.year);
            out.push('-');
            push_padded(out, civil.month, 2);
            out.push('-');
            push_padded(out, civil.day, 2);
        }
        DateStyle::German => {
            push_day_and_month(out, civil, DateOrder::Dmy, '.');
            out.push('.');
            push_year(out, civil.year);
        }
        DateStyle::Sql | DateStyle::Postgres => {
            let between = if forms.date_style == DateStyle::Sql { '/' } else { '-' };
            push_day_and_month(out, civil, forms.date_order, between);
            out.push(between);
            push_year(out, civil.year);
        }
    }
}

/// Appends a date.
pub(super) fn push_date(out: &mut String, days: i32, forms: &Forms) {
    match days {
        i32::MAX => out.push_str("infinity"),
        i32::MIN => out.push_str("-infinity"),
        _ => {
            let civil = civil_of(i64::from(days));
            push_civil(out, civil, forms);
            if civil.year <= 0 {
                out.push_str(" BC");
            }
        }
    }
}

/// Appends an offset: `+02`, `-05:30`.
pub(crate) fn push_offset(out: &mut String, offset: i32) {
    let size = i64::from(offset.unsigned_abs());
    out.push(if offset < 0 { '-' } else { '+' });
    push_padded(out, size / 3600, 2);
    if size % 3600 != 0 {
        out.push(':');
        push_padded(out, size / 60 % 60, 2);
    }
    if size % 60 != 0 {
        out.push(':');
        push_padded(out, size % 60, 2);
    }
}

/// Appends a timestamp. With `with_zone`, it is the local time of the session's zone, with the zone.
pub(super) fn push_timestamp(out: &mut String, micros: i64, with_zone: bool, forms: &Forms) {
    match micros {
        i64::MAX => return out.push_str("infinity"),
        i64::MIN => return out.push_str("-infinity"),
        _ => {}
    }
    let (days, time) = split(if with_zone { forms.local(micros) } else { micros });
    let civil = civil_of(days);
    // Only the style Postgres writes the day of the week and the name of the month, and the year at the end.
    if forms.date_style == DateStyle::Postgres {
        let month = MONTHS.get(civil.month as usize - 1).map_or("", |name| &name[..3]);
        out.push_str(&DAYS[(days + 4).rem_euclid(7) as usize][..3]);
        out.push(' ');
        if forms.date_order == DateOrder::Dmy {
            push_padded(out, civil.day, 2);
            out.push(' ');
            out.push_str(month);
        } else {
            out.push_str(month);
            out.push(' ');
            push_padded(out, civil.day, 2);
        }
        out.push(' ');
        push_time(out, time);
        out.push(' ');
        push_year(out, civil.year);
    } else {
        push_civil(out, civil, forms);
        out.push(' ');
        push_time(out, time);
    }
    if with_zone && forms.date_style == DateStyle::Iso {
        push_offset(out, forms.zone.offset_at(micros));
    } else if with_zone {
        out.push(' ');
        out.extend(forms.zone.at(micros).abbreviation.chars().take(ABBREVIATION_MAX));
    }
    if civil.year <= 0 {
        out.push_str(" BC");
    }
}
