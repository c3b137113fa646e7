//! `ALTER PROCEDURE … SET (isolation = …)`: levels, channels and limits of code that is no SQL.
//!
//! **Invariant:** a channel is one of its level's, and no limit is 0.

use catalog::{Isolation, Routine};
use procs::{Channel, Level};
use statement::error::{SqlError, SqlResult, SqlState};
use std::time::Duration;
use syntax::ast::{Name, StorageParameter};

/// Names of the parameters.
const NAMES: [&str; 6] = ["isolation", "channel", "time_limit", "memory_limit", "row_limit", "urgent"];

/// Parameter whose value is a number.
struct NumberParameter {
    /// Units with their factors. The first one is that of a number without a unit.
    units: &'static [(&'static str, u64)],
    /// Least and greatest number, in the first unit.
    range: (u64, u64),
}

const TIME_LIMIT: NumberParameter = NumberParameter {
    units: &[("ms", 1), ("s", 1_000), ("min", 60_000), ("h", 3_600_000), ("d", 86_400_000)],
    range: (1, i32::MAX as u64),
};
/// The least memory holds the exchange area and a stack.
const MEMORY_LIMIT: NumberParameter = NumberParameter {
    units: &[("kB", 1), ("MB", 1 << 10), ("GB", 1 << 20), ("TB", 1 << 30)],
    range: (4 << 10, 2 << 20),
};
const ROW_LIMIT: NumberParameter = NumberParameter { units: &[], range: (1, u32::MAX as u64) };

/// Changes the isolation of a routine.
///
/// # Errors
/// `22023` for an unknown parameter, or a value that it does not take; `42809` for a routine in SQL.
pub(super) fn set(routine: &mut Routine, parameters: &[StorageParameter]) -> SqlResult<()> {
    let mut seen: Vec<String> = Vec::with_capacity(parameters.len());
    for StorageParameter { name, value } in parameters {
        let name = name.to_string();
        if seen.contains(&name) {
            return Err(refused(format!("parameter \"{name}\" specified more than once")));
        }
        let Some(value) = value.as_deref() else {
            return Err(refused(format!("parameter \"{name}\" requires a value")));
        };
        set_one(&mut routine.isolation, &name, value)?;
        seen.push(name);
    }
    let names = |wanted: &str| seen.iter().any(|name| name == wanted);
    if names("isolation") && !names("channel") {
        forget_channel(routine);
    }
    check(routine)
}

/// Forgets a channel that was chosen for another level: it does not keep the routine from this one.
fn forget_channel(routine: &mut Routine) {
    if let Some((level, channel)) = routine.level()
        && !level.channels().contains(&channel)
    {
        routine.isolation.channel = None;
    }
}

/// Resets parameters of a routine's isolation.
///
/// # Errors
/// As [`set`].
pub(super) fn reset(routine: &mut Routine, names: &[Name]) -> SqlResult<()> {
    let usual = Isolation::default();
    let is_moved = names.iter().any(|name| &**name == "isolation");
    for name in names {
        let isolation = &mut routine.isolation;
        match &**name {
            "isolation" => isolation.level = usual.level,
            "channel" => isolation.channel = usual.channel,
            "time_limit" => isolation.limits.time = usual.limits.time,
            "memory_limit" => isolation.limits.memory = usual.limits.memory,
            "row_limit" => isolation.limits.rows = usual.limits.rows,
            "urgent" => isolation.is_urgent = usual.is_urgent,
            other => return Err(unknown(other)),
        }
    }
    if is_moved {
        forget_channel(routine);
    }
    check(routine)
}

fn set_one(isolation: &mut Isolation, name: &str, value: &str) -> SqlResult<()> {
    match name {
        "isolation" => isolation.level = Some(Level::named(value).ok_or_else(|| bad_word(name, value, levels()))?),
        "channel" => isolation.channel = Some(Channel::named(value).ok_or_else(|| bad_word(name, value, channels()))?),
        "time_limit" => isolation.limits.time = Some(Duration::from_millis(TIME_LIMIT.read(name, value)?)),
        "memory_limit" => isolation.limits.memory = MEMORY_LIMIT.read(name, value)? << 10,
        "row_limit" => isolation.limits.rows = Some(ROW_LIMIT.read(name, value)?),
        "urgent" => isolation.is_urgent = switch(name, value)?,
        other => return Err(unknown(other)),
    }
    Ok(())
}

/// Checks what the parameters say together.
fn check(routine: &Routine) -> SqlResult<()> {
    let Some(own) = routine.language.level() else {
        if routine.isolation == Isolation::default() {
            return Ok(());
        }
        let message = format!("{} \"{}\" is written in SQL", routine.kind.word(), routine.name);
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
            .detail("Isolation applies to code of modules only: SQL reaches nothing but the database."));
    };
    let level = routine.isolation.level.unwrap_or(own);
    let Some(channel) = routine.isolation.channel else { return Ok(()) };
    if level.channels().contains(&channel) {
        return Ok(());
    }
    let valid: Vec<&str> = level.channels().iter().map(|channel| channel.name()).collect();
    Err(refused(format!("isolation level \"{level}\" has no channel \"{channel}\""))
        .hint(format!("Valid channels are {}; RESET (channel) chooses the first.", valid.join(", "))))
}

fn levels() -> Vec<&'static str> {
    Level::ALL.into_iter().map(Level::name).collect()
}

fn channels() -> Vec<&'static str> {
    Channel::ALL.into_iter().map(Channel::name).collect()
}

fn refused(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message.into())
}

fn unknown(name: &str) -> SqlError {
    refused(format!("unrecognized parameter \"{name}\"")).hint(format!("Valid parameters are {}.", NAMES.join(", ")))
}

fn bad_word(name: &str, value: &str, valid: Vec<&'static str>) -> SqlError {
    refused(format!("invalid value for parameter \"{name}\": \"{value}\""))
        .hint(format!("Available values: {}.", valid.join(", ")))
}

/// Reads a Boolean, as settings take it.
fn switch(name: &str, value: &str) -> SqlResult<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" => Ok(true),
        "false" | "off" | "no" | "0" => Ok(false),
        _ => Err(refused(format!("invalid value for boolean option \"{name}\": {value}"))),
    }
}

impl NumberParameter {
    /// Reads a number, which may have a unit.
    ///
    /// # Errors
    /// `22023` with the valid units or the range.
    fn read(&self, name: &str, value: &str) -> SqlResult<u64> {
        let wrong = || refused(format!("invalid value for parameter \"{name}\": \"{value}\""));
        let digits = value.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(value.len());
        let (digits, given) = value.split_at(digits);
        if digits.is_empty() {
            return Err(wrong());
        }
        let factor = match given.trim() {
            "" => 1,
            given => match self.units.iter().find(|(unit, _)| *unit == given) {
                Some((_, factor)) => *factor,
                None if self.units.is_empty() => return Err(wrong()),
                None => {
                    let units: Vec<&str> = self.units.iter().map(|(unit, _)| *unit).collect();
                    return Err(wrong().hint(format!("Valid units for this parameter are {}.", units.join(", "))));
                }
            },
        };
        let (least, most) = self.range;
        let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
        let number = number.ok_or_else(|| wrong().hint("Value exceeds integer range."))?;
        if (least..=most).contains(&number) {
            return Ok(number);
        }
        let unit = self.units.first().map_or(String::new(), |(unit, _)| format!(" {unit}"));
        Err(refused(format!(
            "{number}{unit} is outside the valid range for parameter \"{name}\" ({least}{unit} .. {most}{unit})"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units_and_a_range() {
        let read = |parameter: &NumberParameter, value| {
            parameter.read("n", value).map_err(|error| (error.message().to_owned(), error.hint_text().is_some()))
        };
        assert_eq!(read(&TIME_LIMIT, "15"), Ok(15));
        assert_eq!(read(&TIME_LIMIT, "2s"), Ok(2_000));
        assert_eq!(read(&MEMORY_LIMIT, "8 MB"), Ok(8_192));
        assert_eq!(read(&ROW_LIMIT, "7"), Ok(7));
        let outside =
            |value, range| Err((format!("{value} is outside the valid range for parameter \"n\" ({range})"), false));
        assert_eq!(read(&TIME_LIMIT, "0"), outside("0 ms", "1 ms .. 2147483647 ms"));
        assert_eq!(read(&MEMORY_LIMIT, "1MB"), outside("1024 kB", "4096 kB .. 2097152 kB"));
        assert_eq!(read(&ROW_LIMIT, "4294967296"), outside("4294967296", "1 .. 4294967295"));
        let wrong = |value, has_hint| Err((format!("invalid value for parameter \"n\": \"{value}\""), has_hint));
        assert_eq!(read(&TIME_LIMIT, "1MB"), wrong("1MB", true));
        assert_eq!(read(&TIME_LIMIT, "999999999999999999d"), wrong("999999999999999999d", true));
        for value in ["-1", "", "ms"] {
            assert_eq!(read(&TIME_LIMIT, value), wrong(value, false));
        }
        assert_eq!(read(&ROW_LIMIT, "1s"), wrong("1s", false));
    }
}
