//! Initial values of sessions: the server's own values, from its file, its environment and its command line.
//!
//! **Invariant:** every value is one that its setting takes; a later source replaces an earlier one's value, whatever
//! the order in which they are read.

use super::defs::{DEFS, find, nearest, nearest_short};
use super::takes::SettingContext;
use super::value::{Value, accepted, bytes, duration};
use statement::error::{SqlError, SqlResult, SqlState};
use std::borrow::Cow;
use std::time::Duration;

/// Source of a setting's value. A later source takes precedence over an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingSource {
    /// The built-in default.
    Default,
    /// The configuration file.
    File,
    /// An environment variable.
    Environment,
    /// A flag of the command line.
    CommandLine,
    /// `ALTER DATABASE`.
    Database,
    /// `ALTER ROLE`.
    Role,
    /// A rule of the configuration.
    Rule,
    /// The client, when it connected.
    Client,
    /// `SET`.
    Session,
}

impl SettingSource {
    /// Returns true if a reload may replace a value from this source.
    pub fn is_of_server(self) -> bool {
        match self {
            SettingSource::Default | SettingSource::File | SettingSource::Environment | SettingSource::CommandLine => {
                true
            }
            SettingSource::Database
            | SettingSource::Role
            | SettingSource::Rule
            | SettingSource::Client
            | SettingSource::Session => false,
        }
    }

    /// Returns the name of the source in `pg_settings`.
    pub fn name(self) -> &'static str {
        match self {
            SettingSource::Default => "default",
            SettingSource::File | SettingSource::Rule => "configuration file",
            SettingSource::Environment => "environment variable",
            SettingSource::CommandLine => "command line",
            SettingSource::Database => "database",
            SettingSource::Role => "user",
            SettingSource::Client => "client",
            SettingSource::Session => "session",
        }
    }
}

/// A setting with its value on this server.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'d> {
    /// Name, in lower case.
    pub name: &'static str,
    /// Value, in the form in which it is shown.
    pub value: &'d str,
    /// Default value.
    pub default: &'static str,
    /// True if the value is taken at the server's start, and no session can set it.
    pub is_of_server: bool,
}

/// Values of all settings on this server.
#[derive(Clone, Debug)]
pub struct Defaults {
    /// Values and their sources, by the setting's position in the table.
    pub values: Vec<(Value, SettingSource)>,
}

impl Default for Defaults {
    fn default() -> Defaults {
        Defaults { values: DEFS.iter().map(|def| (Cow::Borrowed(def.default), SettingSource::Default)).collect() }
    }
}

impl Defaults {
    /// Sets a value, unless a later source has set one.
    ///
    /// # Errors
    /// `42704` for a name that does not exist, with the nearest one; `55P02` for a setting that cannot be changed; the
    /// errors of [`accepted`] for the value.
    pub fn set(&mut self, name: &str, value: &str, source: SettingSource) -> SqlResult<()> {
        let at = find(name).ok_or_else(|| unknown(name))?;
        let def = &DEFS[at];
        if def.context == SettingContext::Internal {
            let message = format!("parameter \"{}\" cannot be changed", def.title);
            return Err(SqlError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, message));
        }
        let value = accepted(def, value)?;
        if self.values[at].1 <= source {
            self.values[at] = (value, source);
        }
        Ok(())
    }

    /// Returns true if the setting exists.
    pub fn has(&self, name: &str) -> bool {
        find(name).is_some()
    }

    /// Returns the setting whose name, without `overtake.`, is most like this one, if any is much like it.
    pub fn nearest_short(&self, name: &str) -> Option<&'static str> {
        nearest_short(name)
    }

    /// Returns a setting's value as it is shown; empty for a setting that does not exist.
    pub fn get(&self, name: &str) -> &str {
        find(name).and_then(|at| self.values.get(at)).map_or("", |(value, _)| value)
    }

    /// Returns the settings that no session can set.
    pub fn of_server(&self) -> impl Iterator<Item = Setting<'_>> {
        self.all().filter(|setting| setting.is_of_server)
    }

    /// Returns all settings except those that cannot be changed.
    pub fn all(&self) -> impl Iterator<Item = Setting<'_>> {
        let changeable = DEFS.iter().zip(&self.values).filter(|(def, _)| def.context != SettingContext::Internal);
        changeable.map(|(def, (value, _))| Setting {
            name: def.name,
            value,
            default: def.default,
            is_of_server: def.context == SettingContext::Postmaster,
        })
    }

    /// Returns the source of a setting's value.
    pub fn source(&self, name: &str) -> SettingSource {
        find(name).and_then(|at| self.values.get(at)).map_or(SettingSource::Default, |(_, source)| *source)
    }

    /// Returns the value of a setting that is a time.
    pub fn duration(&self, name: &str) -> Duration {
        duration(self.get(name)).unwrap_or_default()
    }

    /// Returns the value of a setting that is a size, in bytes.
    pub fn bytes(&self, name: &str) -> usize {
        bytes(self.get(name)).unwrap_or_default()
    }

    /// Returns the value of a setting that is an integer.
    pub fn number(&self, name: &str) -> i32 {
        self.get(name).parse().unwrap_or_default()
    }

    /// Returns the value of a setting that is a real number.
    pub fn real(&self, name: &str) -> f64 {
        self.get(name).parse().unwrap_or_default()
    }

    /// Returns the value of a setting that is Boolean.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name) == "on"
    }
}

/// Creates the error for a setting that does not exist.
pub fn unknown(name: &str) -> SqlError {
    let error = SqlError::new(SqlState::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\""));
    match nearest(name) {
        Some(near) => error.hint(format!("Perhaps you meant \"{near}\".")),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_sources_count_more() {
        let mut defaults = Defaults::default();
        defaults.set("Port", "6000", SettingSource::Environment).expect("a port");
        defaults.set("port", "7000", SettingSource::File).expect("a port");
        assert_eq!((defaults.number("port"), defaults.source("port")), (6000, SettingSource::Environment));
        defaults.set("port", "8000", SettingSource::CommandLine).expect("a port");
        assert_eq!(defaults.number("port"), 8000);
        for (name, value, state) in [
            ("prot", "1", "42704"),
            ("port", "x", "22023"),
            ("port", "70000", "22023"),
            ("server_version", "16", "55P02"),
        ] {
            let error = defaults.set(name, value, SettingSource::File).expect_err(name);
            assert_eq!(error.state().0, state, "{name}");
        }
        let error = defaults.set("statment_timeout", "1", SettingSource::File).expect_err("a slip");
        assert_eq!(error.hint_text(), Some("Perhaps you meant \"statement_timeout\"."));
        assert_eq!((defaults.bytes("overtake.message_max"), defaults.is_on("ssl")), (64 << 20, false));
    }
}
