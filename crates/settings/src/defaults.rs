//! What sessions begin with: the server's own values, from its file, its environment and its command line.
//!
//! **Invariant:** every value is one that its setting takes; a later source replaces an earlier one's value, whatever the
//! order in which they are read.

use super::defs::{Context, DEFS, find, nearest, nearest_short};
use super::value::{Value, accepted, bytes, duration};
use statement::error::{SqlError, SqlResult, SqlState};
use std::borrow::Cow;
use std::time::Duration;

/// Who has said what a setting is. Later ones count more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Nobody.
    Default,
    /// The configuration file.
    File,
    /// An environment variable.
    Environment,
    /// A flag.
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

impl Source {
    /// Tells whether a reload may replace a value from this source.
    pub fn is_of_server(self) -> bool {
        match self {
            Source::Default | Source::File | Source::Environment | Source::CommandLine => true,
            Source::Database | Source::Role | Source::Rule | Source::Client | Source::Session => false,
        }
    }

    /// As `pg_settings` writes it.
    pub fn name(self) -> &'static str {
        match self {
            Source::Default => "default",
            Source::File | Source::Rule => "configuration file",
            Source::Environment => "environment variable",
            Source::CommandLine => "command line",
            Source::Database => "database",
            Source::Role => "user",
            Source::Client => "client",
            Source::Session => "session",
        }
    }
}

/// Setting with its value on this server.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'d> {
    /// Name, in lower case.
    pub name: &'static str,
    /// Value, as it is shown.
    pub value: &'d str,
    /// Default value.
    pub default: &'static str,
    /// True if the server's start takes it, and no session can set it.
    pub is_of_server: bool,
}

/// The server's values of all settings.
#[derive(Clone, Debug)]
pub struct Defaults {
    /// Values by the setting's place in the table, and where each comes from.
    pub values: Vec<(Value, Source)>,
}

impl Default for Defaults {
    fn default() -> Defaults {
        Defaults { values: DEFS.iter().map(|def| (Cow::Borrowed(def.default), Source::Default)).collect() }
    }
}

impl Defaults {
    /// Gives a setting a value, unless a later source has.
    ///
    /// # Errors
    /// `42704` for a name that does not exist, with the nearest one; what the setting does not take.
    pub fn set(&mut self, name: &str, value: &str, source: Source) -> SqlResult<()> {
        let at = find(name).ok_or_else(|| unknown(name))?;
        let def = &DEFS[at];
        if def.context == Context::Internal {
            let message = format!("parameter \"{}\" cannot be changed", def.title);
            return Err(SqlError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, message));
        }
        let value = accepted(def, value)?;
        if self.values[at].1 <= source {
            self.values[at] = (value, source);
        }
        Ok(())
    }

    /// Whether there is such a setting.
    pub fn has(&self, name: &str) -> bool {
        find(name).is_some()
    }

    /// The setting whose name, without `overtake.`, is most like this one, if any is much like it.
    pub fn nearest_short(&self, name: &str) -> Option<&'static str> {
        nearest_short(name)
    }

    /// A setting's value as it is shown; empty for one that does not exist.
    pub fn get(&self, name: &str) -> &str {
        find(name).and_then(|at| self.values.get(at)).map_or("", |(value, _)| value)
    }

    /// Settings that are the server's.
    pub fn of_server(&self) -> impl Iterator<Item = Setting<'_>> {
        self.all().filter(|setting| setting.is_of_server)
    }

    /// All settings but those that nobody can change.
    pub fn all(&self) -> impl Iterator<Item = Setting<'_>> {
        let changeable = DEFS.iter().zip(&self.values).filter(|(def, _)| def.context != Context::Internal);
        changeable.map(|(def, (value, _))| Setting {
            name: def.name,
            value,
            default: def.default,
            is_of_server: def.context == Context::Postmaster,
        })
    }

    /// Who has said it.
    pub fn source(&self, name: &str) -> Source {
        find(name).and_then(|at| self.values.get(at)).map_or(Source::Default, |(_, source)| *source)
    }

    /// A setting that is a time.
    pub fn duration(&self, name: &str) -> Duration {
        duration(self.get(name)).unwrap_or_default()
    }

    /// A setting that is a size, in bytes.
    pub fn bytes(&self, name: &str) -> usize {
        bytes(self.get(name)).unwrap_or_default()
    }

    /// A setting that is a number.
    pub fn number(&self, name: &str) -> i32 {
        self.get(name).parse().unwrap_or_default()
    }

    /// A setting that is a number, with a fraction perhaps.
    pub fn real(&self, name: &str) -> f64 {
        self.get(name).parse().unwrap_or_default()
    }

    /// A setting that is a switch.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name) == "on"
    }
}

/// There is no such setting.
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
        defaults.set("Port", "6000", Source::Environment).expect("a port");
        defaults.set("port", "7000", Source::File).expect("a port");
        assert_eq!((defaults.number("port"), defaults.source("port")), (6000, Source::Environment));
        defaults.set("port", "8000", Source::CommandLine).expect("a port");
        assert_eq!(defaults.number("port"), 8000);
        for (name, value, state) in [
            ("prot", "1", "42704"),
            ("port", "x", "22023"),
            ("port", "70000", "22023"),
            ("server_version", "16", "55P02"),
        ] {
            let error = defaults.set(name, value, Source::File).expect_err(name);
            assert_eq!(error.state().0, state, "{name}");
        }
        let error = defaults.set("statment_timeout", "1", Source::File).expect_err("a slip");
        assert_eq!(error.hint_text(), Some("Perhaps you meant \"statement_timeout\"."));
        assert_eq!((defaults.bytes("overtake.message_max"), defaults.is_on("ssl")), (64 << 20, false));
    }
}
