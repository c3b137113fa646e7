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
/// Least memory of an instance, in kilobytes: the exchange area and a stack.
const MEMORY_MIN_KB: u64 = 4 << 10;
/// Greatest memory of an instance, in kilobytes.
const MEMORY_MAX_KB: u64 = 2 << 20;

/// Changes the isolation of a routine.
///
/// # Errors
/// `22023` for an unknown parameter, or a value that it does not take; `42809` for a routine in SQL.
pub(super) fn set(routine: &mut Routine, parameters: &[StorageParameter]) -> SqlResult<()> {
    for StorageParameter { name, value } in parameters {
        let name = name.to_string();
        let Some(value) = value.as_deref() else {
            return Err(refused(format!("parameter \"{name}\" requires a value")));
        };
        set_one(&mut routine.isolation, &name, value)?;
    }
    let names = |wanted: &str| parameters.iter().any(|parameter| parameter.name.to_string() == wanted);
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
        "time_limit" => isolation.limits.time = Some(Duration::from_millis(number(name, value, "ms")?)),
        "memory_limit" => {
            let kilobytes = number(name, value, "kB")?;
            if !(MEMORY_MIN_KB..=MEMORY_MAX_KB).contains(&kilobytes) {
                let message = format!(
                    "{kilobytes} kB is outside the valid range for parameter \"{name}\" ({MEMORY_MIN_KB} kB .. {MEMORY_MAX_KB} kB)"
                );
                return Err(refused(message));
            }
            isolation.limits.memory = kilobytes << 10;
        }
        "row_limit" => isolation.limits.rows = Some(number(name, value, "")?),
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

/// Reads a positive number, with a unit of time or memory behind it unless it is in the parameter's own.
fn number(name: &str, value: &str, unit: &str) -> SqlResult<u64> {
    let wrong = || refused(format!("invalid value for parameter \"{name}\": \"{value}\""));
    let digits = value.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(value.len());
    let (number, given) = value.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let factor = match (unit, given.trim()) {
        (_, "") => 1,
        ("ms", "ms") | ("kB", "kB") => 1,
        ("ms", "s") => 1_000,
        ("ms", "min") => 60_000,
        ("kB", "MB") => 1 << 10,
        ("kB", "GB") => 1 << 20,
        _ => return Err(wrong()),
    };
    number.checked_mul(factor).filter(|number| 0 < *number && *number <= u64::from(u32::MAX)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        let read = |value, unit| number("n", value, unit).map_err(|error| error.state().0);
        assert_eq!(read("15", "ms"), Ok(15));
        assert_eq!(read("2s", "ms"), Ok(2_000));
        assert_eq!(read("2 MB", "kB"), Ok(2_048));
        for (value, unit) in [("0", "ms"), ("-1", "ms"), ("", "ms"), ("1MB", "ms"), ("1s", ""), ("99999999999", "")] {
            assert_eq!(read(value, unit), Err("22023"), "{value} {unit}");
        }
    }
}
