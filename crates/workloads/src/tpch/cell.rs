//! Values of an answer, as they are compared and as files hold them.
//!
//! Invariant: a cell keeps its value exactly; decimals are unscaled integers with their scale, and equal decimals of
//! different scales have the same canonical text.

use std::fmt;

/// Value of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    /// Null.
    Null,
    /// Exact number: `unscaled / 10^scale`. Integers have scale 0.
    Number {
        /// Number without its point.
        unscaled: i128,
        /// Number of digits after the point.
        scale: u8,
    },
    /// Floating-point number, equal to others only within a tolerance.
    Float(f64),
    /// Text.
    Text(String),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since 1970-01-01 00:00.
    Timestamp(i64),
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Null => Ok(()),
            Cell::Number { unscaled, scale: 0 } => write!(f, "{unscaled}"),
            Cell::Number { unscaled, scale } => {
                let (scale, one) = (usize::from(*scale), 10u128.pow(u32::from(*scale)));
                let sign = if *unscaled < 0 { "-" } else { "" };
                let digits = unscaled.unsigned_abs();
                write!(f, "{sign}{}.{:0scale$}", digits / one, digits % one)
            }
            Cell::Float(value) => write!(f, "{value:?}"),
            Cell::Text(text) => f.write_str(text),
            Cell::Date(days) => {
                let (year, month, day) = civil(*days);
                write!(f, "{year:04}-{month:02}-{day:02}")
            }
            Cell::Timestamp(micros) => {
                const DAY: i64 = 86_400_000_000;
                let (days, of_day) = (micros.div_euclid(DAY), micros.rem_euclid(DAY));
                let (seconds, micros) = (of_day / 1_000_000, of_day % 1_000_000);
                let [hour, minute, second] = [seconds / 3_600, seconds / 60 % 60, seconds % 60];
                write!(f, "{} {hour:02}:{minute:02}:{second:02}", Cell::Date(days as i32))?;
                if micros == 0 { Ok(()) } else { write!(f, ".{micros:06}") }
            }
        }
    }
}

impl Cell {
    /// Returns the number with the smallest scale that holds it, so that equal numbers look equal.
    pub(crate) fn canonical(self) -> Cell {
        match self {
            Cell::Number { mut unscaled, mut scale } => {
                while 0 < scale && unscaled % 10 == 0 {
                    unscaled /= 10;
                    scale -= 1;
                }
                Cell::Number { unscaled, scale }
            }
            other => other,
        }
    }

    /// Returns the nearest floating-point number; only numbers have one.
    pub(crate) fn as_f64(&self) -> Option<f64> {
        match self {
            Cell::Number { unscaled, scale } => Some(*unscaled as f64 / 10f64.powi(i32::from(*scale))),
            Cell::Float(value) => Some(*value),
            Cell::Null | Cell::Text(_) | Cell::Date(_) | Cell::Timestamp(_) => None,
        }
    }
}

/// Returns year, month and day of a day number (Howard Hinnant's `civil_from_days`).
pub(crate) fn civil(days: i32) -> (i32, u32, u32) {
    let shifted = i64::from(days) + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year as i32, month as u32, day as u32)
}
