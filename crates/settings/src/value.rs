//! Values of settings: which are accepted, and the form in which they are shown.
//!
//! **Invariant:** [`accepted`] returns the form in which a value is shown, and takes that form, too.

use super::defs::SettingDef;
use super::takes::ValueType;
use super::text;
use statement::error::{SqlError, SqlResult, SqlState};
use std::borrow::Cow;
use std::time::Duration;
use syntax::names::{NAME_MAX, clipped};
use types::forms::Forms;

/// Value in the form in which it is shown.
pub type Value = Cow<'static, str>;

/// Returns the form in which a value is kept and shown.
///
/// # Errors
/// `22023` for a value that the setting does not take, `55P02` for a setting that cannot be changed.
pub fn accepted(def: &SettingDef, value: &str) -> SqlResult<Value> {
    let lower = value.trim().to_lowercase();
    let refused = || {
        let message = format!("invalid value for parameter \"{}\": \"{value}\"", def.title);
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
    };
    match def.takes {
        ValueType::Text if value.is_empty() => Ok(Cow::Borrowed("")),
        ValueType::Names if names_of(value).is_none() => Err(refused().detail("List syntax is invalid.")),
        ValueType::Names => Ok(Cow::Owned(value.to_owned())),
        ValueType::Text => Ok(Cow::Owned(value.to_owned())),
        ValueType::Switch => match switch(&lower) {
            Some(true) => Ok(Cow::Borrowed("on")),
            Some(false) => Ok(Cow::Borrowed("off")),
            None => {
                let message = format!("parameter \"{}\" requires a Boolean value", def.title);
                Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
            }
        },
        ValueType::MillisecondsOrNever if lower == "-1" => Ok(Cow::Borrowed("-1")),
        ValueType::Milliseconds | ValueType::MillisecondsOrNever => {
            let time = milliseconds(value).ok_or_else(|| {
                let text = value.trim();
                let is_number = text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first));
                let has_unit = is_number && text.chars().next_back().is_some_and(char::is_alphabetic);
                let hint = "Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\".";
                if has_unit { refused().hint(hint) } else { refused() }
            })?;
            Ok(shown(time, MILLISECONDS))
        }
        ValueType::Kilobytes(least) => {
            let number = kilobytes(value).ok_or_else(refused)?;
            if number < least {
                let (name, most) = (def.title, i32::MAX);
                let message =
                    format!("{number} kB is outside the valid range for parameter \"{name}\" ({least} .. {most})");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
            Ok(shown(number, KILOBYTES))
        }
        ValueType::Integer(least, most) => {
            let number = lower.parse::<i32>().map_err(|_| refused())?;
            if !(least..=most).contains(&number) {
                let message =
                    format!("{number} is outside the valid range for parameter \"{}\" ({least} .. {most})", def.title);
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
            Ok(Cow::Owned(number.to_string()))
        }
        ValueType::Real => {
            let number = lower.parse::<f64>().ok().filter(|number| number.is_finite()).ok_or_else(refused)?;
            Ok(Cow::Owned(number.to_string()))
        }
        ValueType::OneOf(all) if lower == "default" && !all.contains(&"default") => Ok(Cow::Borrowed(def.default)),
        // Only letters and digits are compared.
        ValueType::OneOf(all) if def.name == "client_encoding" => {
            let plain =
                |name: &str| name.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect::<String>();
            match all.iter().any(|one| plain(one) == plain(&lower)) {
                // Synonyms of the default are shown as the default.
                true => Ok(Cow::Borrowed(def.default)),
                false => Err(refused().hint(format!("Available values: {}.", all.join(", ")))),
            }
        }
        // Values that PostgreSQL accepts, but does not list.
        ValueType::OneOf(_) if def.name == "client_min_messages" && lower == "debug" => Ok(Cow::Borrowed("debug2")),
        ValueType::OneOf(_) if def.name == "client_min_messages" && lower == "info" => Ok(Cow::Borrowed("info")),
        ValueType::OneOf(all) => match all.iter().find(|one| one.eq_ignore_ascii_case(&lower)) {
            Some(one) => Ok(Cow::Borrowed(one)),
            None => Err(refused().hint(format!("Available values: {}.", all.join(", ")))),
        },
        ValueType::DateStyle => text::date_style(value, &Forms::DEFAULT).map(Cow::Owned),
        ValueType::TimeZone => text::time_zone(value).map(Cow::Owned),
        ValueType::Fixed => {
            let message = format!("parameter \"{}\" cannot be changed", def.title);
            Err(SqlError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, message))
        }
    }
}

fn switch(lower: &str) -> Option<bool> {
    // Any unambiguous prefix, as in PostgreSQL.
    let begins = |word: &str, least: usize| least <= lower.len() && word.starts_with(lower);
    if lower == "1" || lower == "on" || begins("true", 1) || begins("yes", 1) {
        Some(true)
    } else if lower == "0" || begins("off", 2) || begins("false", 1) || begins("no", 1) {
        Some(false)
    } else {
        None
    }
}

type Units = &'static [(u64, &'static str)];
const MILLISECONDS: Units = &[(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms")];
const KILOBYTES: Units = &[(1 << 30, "TB"), (1 << 20, "GB"), (1 << 10, "MB"), (1, "kB")];

/// Splits a text into a number and its unit.
fn parts(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..digits].parse().ok()?, text[digits..].trim()))
}

fn in_unit(text: &str, units: Units) -> Option<u64> {
    let (number, unit) = parts(text)?;
    let factor = match unit {
        "" => 1,
        unit => units.iter().find(|(_, name)| *name == unit)?.0,
    };
    number.checked_mul(factor).filter(|number| *number <= i32::MAX as u64)
}

fn milliseconds(text: &str) -> Option<u64> {
    match parts(text)? {
        // Rounded, as in PostgreSQL.
        (number, "us") => Some(number.saturating_add(500) / 1_000),
        _ => in_unit(text, MILLISECONDS),
    }
}

fn kilobytes(text: &str) -> Option<u64> {
    match parts(text)? {
        (number, "B") => Some(number.div_ceil(1024)),
        _ => in_unit(text, KILOBYTES),
    }
}

/// Returns a value of milliseconds.
pub fn duration(value: &str) -> Option<Duration> {
    milliseconds(value).map(Duration::from_millis)
}

/// Returns a value of kilobytes, in bytes.
pub fn bytes(value: &str) -> Option<usize> {
    usize::try_from(kilobytes(value)?.checked_mul(1024)?).ok()
}

/// Returns a value as a plain number in the setting's unit, as `pg_settings` shows it.
pub fn plain(def: &SettingDef, value: &str) -> String {
    let number = match def.takes {
        ValueType::Milliseconds | ValueType::MillisecondsOrNever => milliseconds(value),
        ValueType::Kilobytes(_) => kilobytes(value),
        ValueType::Text
        | ValueType::Names
        | ValueType::DateStyle
        | ValueType::TimeZone
        | ValueType::Switch
        | ValueType::Integer(..)
        | ValueType::Real
        | ValueType::OneOf(_)
        | ValueType::Fixed => None,
    };
    number.map_or_else(|| value.to_owned(), |number| number.to_string())
}

/// Formats a number with the largest unit that divides it.
fn shown(number: u64, units: Units) -> Value {
    match units.iter().find(|(unit, _)| number != 0 && number.is_multiple_of(*unit)) {
        Some((unit, name)) => Cow::Owned(format!("{}{name}", number / unit)),
        None => Cow::Borrowed("0"),
    }
}

/// Parses a list of names; `None` if it is malformed. A name without quotes is folded to lower case
/// (`SplitIdentifierString`).
pub fn names_of(list: &str) -> Option<Vec<String>> {
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c');
    let mut rest = list.trim_matches(is_space);
    let mut names = Vec::new();
    if rest.is_empty() {
        return Some(names);
    }
    loop {
        let name = match rest.strip_prefix('"') {
            // Two quotes in a row are one quote of the name.
            Some(quoted) => {
                let mut name = String::new();
                rest = quoted;
                loop {
                    let (part, behind) = rest.split_once('"')?;
                    name.push_str(part);
                    match behind.strip_prefix('"') {
                        Some(more) => {
                            name.push('"');
                            rest = more;
                        }
                        None => {
                            rest = behind;
                            break name;
                        }
                    }
                }
            }
            None => {
                let end = rest.find(|c: char| c == ',' || is_space(c)).unwrap_or(rest.len());
                let name = rest[..end].to_ascii_lowercase();
                rest = &rest[end..];
                if name.is_empty() {
                    return None;
                }
                name
            }
        };
        names.push(clipped(&name, NAME_MAX).to_owned());
        rest = rest.trim_start_matches(is_space);
        if rest.is_empty() {
            return Some(names);
        }
        rest = rest.strip_prefix(',')?.trim_start_matches(is_space);
    }
}

#[cfg(test)]
mod tests {
    use super::names_of;

    #[test]
    fn names_of_a_list() {
        let names = |list| names_of(list).map(|names| names.join("|"));
        for (list, expected) in [
            ("", Some("")),
            (" Public ", Some("public")),
            ("\"$user\", public", Some("$user|public")),
            ("\"B\",b,\"x, \"\"y\"", Some("B|b|x, \"y")),
            ("a.b", Some("a.b")),
            ("a b", None),
            ("a,", None),
            (",a", None),
            ("\"a", None),
            ("\"a\"b", None),
        ] {
            assert_eq!(names(list), expected.map(str::to_owned), "{list}");
        }
    }
}
