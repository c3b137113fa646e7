//! Type modifiers: lengths, precisions and scales of columns and casts.

use super::calendar::{round_time, round_timestamp};
use super::{Kind, SqlType};
use crate::datum::Datum;
use statement::error::{SqlError, SqlResult, SqlState};

/// Fits a value of type `to.kind` to the modifier. `explicit` stands for a cast written in the statement: it truncates
/// a value that is too long, while an assignment refuses it.
///
/// # Errors
/// `22001`, `22003`.
pub fn apply(datum: Datum, to: SqlType, explicit: bool) -> SqlResult<Datum> {
    if to.typmod < 0 {
        return Ok(datum);
    }
    Ok(match (datum, to.kind) {
        (Datum::Text(text), Kind::Varchar | Kind::Bpchar) => Datum::Text(fit(text, to, explicit)?),
        (Datum::Numeric(number), Kind::Numeric) => Datum::Numeric(number.with_typmod(to.typmod)?),
        (datum, Kind::Time | Kind::Timestamp | Kind::Timestamptz | Kind::Interval) => {
            let Some(digits) = to.second_digits() else { return Ok(datum) };
            match datum {
                Datum::Time(micros) => Datum::Time(round_time(micros, digits)),
                Datum::Timestamp(micros) => Datum::Timestamp(round_timestamp(micros, digits)),
                Datum::Interval(mut interval) => {
                    interval.micros = round_time(interval.micros, digits);
                    Datum::Interval(interval)
                }
                datum => datum,
            }
        }
        (Datum::Array(items), Kind::Array(element)) => {
            let to = SqlType { kind: element.kind(), typmod: to.typmod };
            let fitted = items.into_vec().into_iter().map(|item| apply(item, to, explicit));
            Datum::Array(fitted.collect::<SqlResult<_>>()?)
        }
        (datum, _) => datum,
    })
}

/// Truncates or pads a text to the length of a character type. Blanks beyond it may be removed in any case.
fn fit(text: Box<str>, to: SqlType, explicit: bool) -> SqlResult<Box<str>> {
    let Some(length) = to.max_length() else { return Ok(text) };
    match text.char_indices().nth(length) {
        Some((at, _)) => {
            if !explicit && text[at..].bytes().any(|byte| byte != b' ') {
                let message = format!("value too long for type {}", to.name());
                return Err(SqlError::new(SqlState::STRING_DATA_RIGHT_TRUNCATION, message));
            }
            Ok(text[..at].into())
        }
        None if to.kind == Kind::Bpchar => {
            let missing = length - text.chars().count();
            if missing == 0 {
                return Ok(text);
            }
            Ok((text.into_string() + &" ".repeat(missing)).into())
        }
        None => Ok(text),
    }
}
