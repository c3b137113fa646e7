//! Settings from a file, the environment and flags.
//!
//! **Invariant:** the names are the same everywhere; a name that does not exist is an error that names the nearest.

use crate::{Defaults, SettingSource};
use statement::SqlError;
use std::fmt;
use std::fs;
use std::path::Path;

/// Error in the settings, with its place.
#[derive(Debug)]
pub struct OptionError(String);

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OptionError {}

impl OptionError {
    /// Creates an error with this message.
    pub fn new(message: String) -> OptionError {
        OptionError(message)
    }

    /// Creates an error about the value of this setting.
    pub fn of(name: &str, why: String) -> OptionError {
        OptionError(format!("{name}: {why}"))
    }
}

fn wrong(place: impl fmt::Display, error: &SqlError) -> OptionError {
    let more = [error.detail_text(), error.hint_text()].into_iter().flatten().map(|text| format!(" {text}"));
    OptionError(format!("{place}: {}.{}", error.message(), more.collect::<String>()))
}

/// Prefix of environment variables: `OVERTAKE_PORT`; `OVERTAKE_PRIORITY` stands for `overtake.priority`.
pub const PREFIX: &str = "OVERTAKE_";
/// Variables with the prefix that are no settings: of the log, the tests and the build.
const OTHERS: &[&str] =
    &["LOG", "CI", "SLT_URL", "SLT_ONLY", "PLANT", "BLESS", "CHROMIUM", "CLIENTS", "PICTURES", "RUNSC"];

/// Reads lines `name = value` of a configuration file, in the form of `postgresql.conf`.
///
/// # Errors
/// An error with the number of the line.
pub fn read_file(path: &Path, into: &mut Defaults) -> Result<(), OptionError> {
    let text = fs::read_to_string(path).map_err(|error| OptionError(format!("{}: {error}", path.display())))?;
    for (at, line) in text.lines().enumerate() {
        let place = || format!("{}:{}", path.display(), at + 1);
        let Some((name, value)) = assignment(line).map_err(|what| OptionError(format!("{}: {what}", place())))? else {
            continue;
        };
        into.set(&name, &value, SettingSource::File).map_err(|error| wrong(place(), &error))?;
    }
    Ok(())
}

/// Returns the name and the value of a line; `None` for an empty line or a comment.
fn assignment(line: &str) -> Result<Option<(String, String)>, &'static str> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let end = line.find(|letter: char| letter == '=' || letter.is_whitespace()).ok_or("a value is missing")?;
    let (name, rest) = line.split_at(end);
    let rest = rest.trim_start();
    let rest = rest.strip_prefix('=').unwrap_or(rest).trim_start();
    let Some(quoted) = rest.strip_prefix('\'') else {
        let value = rest.split('#').next().unwrap_or("").trim();
        return if value.is_empty() {
            Err("a value is missing")
        } else {
            Ok(Some((name.to_owned(), value.to_owned())))
        };
    };
    let (mut value, mut letters) = (String::new(), quoted.chars());
    loop {
        match letters.next().ok_or("a quote is not closed")? {
            '\'' if letters.as_str().starts_with('\'') => {
                letters.next();
                value.push('\'');
            }
            '\'' => break,
            letter => value.push(letter),
        }
    }
    let rest = letters.as_str().trim_start();
    if rest.is_empty() || rest.starts_with('#') {
        Ok(Some((name.to_owned(), value)))
    } else {
        Err("more follows the value")
    }
}

/// Reads the variables that begin with [`PREFIX`]. Other programs may have such variables, too: one that is no setting
/// is left out, and reported in the returned messages for the log.
///
/// # Errors
/// An error for a value that its setting does not take.
pub fn read_environment(
    variables: impl Iterator<Item = (String, String)>,
    into: &mut Defaults,
) -> Result<Vec<String>, OptionError> {
    let mut unknown = Vec::new();
    for (variable, value) in variables {
        let Some(name) = variable.strip_prefix(PREFIX).filter(|name| !OTHERS.contains(name)) else { continue };
        let name = name.to_lowercase();
        let own = format!("overtake.{name}");
        let name = if into.has(&own) { own } else { name };
        if into.has(&name) {
            into.set(&name, &value, SettingSource::Environment).map_err(|error| wrong(&variable, &error))?;
            continue;
        }
        let near = into.nearest_short(&name).map(|near| near.strip_prefix("overtake.").unwrap_or(near).to_uppercase());
        let meant = near.map_or_else(String::new, |near| format!("; perhaps you meant {PREFIX}{near}"));
        unknown.push(format!("the environment variable {variable} is no setting and is ignored{meant}"));
    }
    Ok(unknown)
}

/// Reads one flag's `name=value`.
///
/// # Errors
/// The errors of [`Defaults::set`], with the flag.
pub fn read_flag(assignment: &str, into: &mut Defaults) -> Result<(), OptionError> {
    let (name, value) =
        assignment.split_once('=').ok_or_else(|| OptionError(format!("\"{assignment}\" is no NAME=VALUE")))?;
    into.set(name.trim(), value.trim(), SettingSource::CommandLine)
        .map_err(|error| wrong(format_args!("-c {assignment}"), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_postgresql_does() {
        let is = |line, name: &str, value: &str| {
            assert_eq!(assignment(line), Ok(Some((name.to_owned(), value.to_owned()))), "{line}");
        };
        is("port = 5433 # comment", "port", "5433");
        is("  port 5433", "port", "5433");
        is("listen_addresses='*'", "listen_addresses", "*");
        is("a.b = 'it''s # no comment' # one", "a.b", "it's # no comment");
        assert_eq!(assignment(" # port = 1"), Ok(None));
        for wrong in ["port", "port =", "port = 'x", "port = 'x' y", "port = # x"] {
            assert!(assignment(wrong).is_err(), "{wrong}");
        }
    }
}
