//! Settings of a session: `SET`, `SHOW`, `RESET`, and what the client is told of.
//!
//! **Invariant:** a value in here is one that its setting takes. What a transaction has changed goes back when it is rolled
//! back, and what it has changed for itself alone (`SET LOCAL`) at its end, too.

use crate::error::{SqlError, SqlResult, SqlState};
use engine::Isolation;
use stage::Class;
use std::time::Duration;

/// What `version()` says.
pub(crate) const VERSION: &str = concat!(
    "PostgreSQL 15.0 (Overtake ",
    env!("CARGO_PKG_VERSION"),
    ") on x86_64-pc-linux-gnu, compiled by rustc, 64-bit"
);

/// One setting.
struct Def {
    name: &'static str,
    /// As PostgreSQL writes it, for the client.
    title: &'static str,
    default: &'static str,
    takes: Takes,
    /// Whether the client is told of changes.
    reported: bool,
    about: &'static str,
}

#[derive(Clone, Copy, PartialEq)]
enum Takes {
    /// Anything.
    Text,
    /// `on` or `off`.
    Switch,
    /// Milliseconds, or a number with a unit.
    Milliseconds,
    /// A whole number.
    Number,
    /// One of these.
    OneOf(&'static [&'static str]),
    /// Nothing else than what it is.
    Fixed,
}

const LEVELS: &[&str] = &["read committed", "repeatable read", "serializable", "read uncommitted"];
const PATHS: &[&str] = &["auto", "row", "analytics"];
const PRIORITIES: &[&str] = &["low", "normal", "high"];

const fn def(name: &'static str, default: &'static str, takes: Takes, about: &'static str) -> Def {
    Def { name, title: name, default, takes, reported: false, about }
}

const fn told(
    name: &'static str,
    title: &'static str,
    default: &'static str,
    takes: Takes,
    about: &'static str,
) -> Def {
    Def { name, title, default, takes, reported: true, about }
}

/// In the order of their names.
static DEFS: &[Def] = &[
    told(
        "application_name",
        "application_name",
        "",
        Takes::Text,
        "Sets the application name to be reported in statistics and logs.",
    ),
    told(
        "client_encoding",
        "client_encoding",
        "UTF8",
        Takes::OneOf(&["utf8", "utf-8", "unicode"]),
        "Sets the client's character set encoding.",
    ),
    def(
        "client_min_messages",
        "notice",
        Takes::OneOf(&["debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error"]),
        "Sets the message levels that are sent to the client.",
    ),
    told(
        "datestyle",
        "DateStyle",
        "ISO, MDY",
        Takes::OneOf(&["iso, mdy", "iso"]),
        "Sets the display format for date and time values.",
    ),
    def(
        "default_transaction_isolation",
        "read committed",
        Takes::OneOf(LEVELS),
        "Sets the transaction isolation level of each new transaction.",
    ),
    def(
        "default_transaction_read_only",
        "off",
        Takes::Switch,
        "Sets the default read-only status of new transactions.",
    ),
    def("extra_float_digits", "1", Takes::Number, "Sets the number of digits displayed for floating-point values."),
    def(
        "idle_in_transaction_session_timeout",
        "0",
        Takes::Milliseconds,
        "Sets the maximum allowed idle time between queries, when in a transaction.",
    ),
    told("integer_datetimes", "integer_datetimes", "on", Takes::Fixed, "Shows whether datetimes are integer based."),
    told(
        "intervalstyle",
        "IntervalStyle",
        "postgres",
        Takes::OneOf(&["postgres"]),
        "Sets the display format for interval values.",
    ),
    told("is_superuser", "is_superuser", "on", Takes::Fixed, "Shows whether the current user is a superuser."),
    def("lock_timeout", "0", Takes::Milliseconds, "Sets the maximum allowed duration of any wait for a lock."),
    def(
        "overtake.path",
        "auto",
        Takes::OneOf(PATHS),
        "Sets where queries run: row by row in the session, or as analytics; auto chooses for each.",
    ),
    def(
        "overtake.priority",
        "normal",
        Takes::OneOf(PRIORITIES),
        "Sets the class of the session's transactions: high overtakes normal, normal overtakes low.",
    ),
    def(
        "search_path",
        "\"$user\", public",
        Takes::Text,
        "Sets the schema search order for names that are not schema-qualified.",
    ),
    told(
        "server_encoding",
        "server_encoding",
        "UTF8",
        Takes::Fixed,
        "Shows the server (database) character set encoding.",
    ),
    told("server_version", "server_version", "15.0 (Overtake 0.0.0)", Takes::Fixed, "Shows the server version."),
    def("server_version_num", "150000", Takes::Fixed, "Shows the server version as an integer."),
    told("session_authorization", "session_authorization", "postgres", Takes::Fixed, "Shows the session user name."),
    told(
        "standard_conforming_strings",
        "standard_conforming_strings",
        "on",
        Takes::OneOf(&["on"]),
        "Causes '...' strings to treat backslashes literally.",
    ),
    def("statement_timeout", "0", Takes::Milliseconds, "Sets the maximum allowed duration of any statement."),
    told(
        "timezone",
        "TimeZone",
        "UTC",
        Takes::OneOf(&["utc", "gmt", "etc/utc", "default"]),
        "Sets the time zone for displaying and interpreting time stamps.",
    ),
    def(
        "transaction_isolation",
        "read committed",
        Takes::OneOf(LEVELS),
        "Sets the current transaction's isolation level.",
    ),
    def("transaction_read_only", "off", Takes::Switch, "Sets the current transaction's read-only status."),
];

/// The settings of one session.
pub(crate) struct Settings {
    values: Vec<String>,
    /// What the session began with.
    resets: Vec<String>,
    /// Changes of the open transaction: which, what it was before, whether for this transaction alone.
    changes: Vec<(usize, String, bool)>,
    /// To be told to the client.
    unreported: Vec<usize>,
}

fn find(name: &str) -> SqlResult<usize> {
    let name = name.to_lowercase();
    let at = DEFS.binary_search_by(|def| def.name.cmp(&name));
    at.map_err(|_| {
        SqlError::new(SqlState::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\""))
    })
}

/// The settings that are the open transaction's own, by any spelling.
pub(crate) fn of_transaction(name: &str) -> Option<&'static str> {
    let own = ["transaction_isolation", "transaction_read_only"];
    own.into_iter().find(|own| own.eq_ignore_ascii_case(name))
}

/// How a setting's name is written.
pub(crate) fn title(name: &str) -> Option<&'static str> {
    find(name).ok().map(|at| DEFS[at].title)
}

impl Settings {
    pub(crate) fn new(user: &str) -> Settings {
        let mut values: Vec<String> = DEFS.iter().map(|def| def.default.to_owned()).collect();
        if let Ok(at) = find("session_authorization") {
            user.clone_into(&mut values[at]);
        }
        let unreported = (0..DEFS.len()).filter(|at| DEFS[*at].reported).collect();
        Settings { resets: values.clone(), values, changes: Vec::new(), unreported }
    }

    /// A setting that the client gives when it connects: what it goes back to later.
    pub(crate) fn start_with(&mut self, name: &str, value: &str) -> SqlResult<()> {
        let at = find(name)?;
        self.values[at] = accepted(&DEFS[at], value)?;
        self.resets[at].clone_from(&self.values[at]);
        Ok(())
    }

    /// # Errors
    /// `42704`; `22023` for a value that it does not take; `55P02` for one that cannot be changed.
    pub(crate) fn set(&mut self, name: &str, value: Option<&str>, is_local: bool) -> SqlResult<()> {
        let at = find(name)?;
        let value = match value {
            Some(value) => accepted(&DEFS[at], value)?,
            None => self.resets[at].clone(),
        };
        let before = std::mem::replace(&mut self.values[at], value);
        self.changes.push((at, before, is_local));
        self.note(at);
        Ok(())
    }

    /// As [`Settings::set`] for what the transaction itself is.
    pub(crate) fn set_of_transaction(&mut self, name: &str, value: &str) -> SqlResult<()> {
        self.set(name, Some(value), true)
    }

    pub(crate) fn reset_all(&mut self) {
        for (at, def) in DEFS.iter().enumerate() {
            if self.values[at] != self.resets[at] && of_transaction(def.name).is_none() {
                let before = std::mem::replace(&mut self.values[at], self.resets[at].clone());
                self.changes.push((at, before, false));
                self.note(at);
            }
        }
    }

    fn note(&mut self, at: usize) {
        if DEFS[at].reported && !self.unreported.contains(&at) {
            self.unreported.push(at);
        }
    }

    /// Its title and value.
    pub(crate) fn show(&self, name: &str) -> SqlResult<(&'static str, &str)> {
        let at = find(name)?;
        Ok((DEFS[at].title, &self.values[at]))
    }

    /// All of them: name, value, description.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, &str, &'static str)> {
        DEFS.iter().zip(&self.values).map(|(def, value)| (def.title, &**value, def.about))
    }

    /// How many changes there are, for [`Settings::back_to`].
    pub(crate) fn mark(&self) -> usize {
        self.changes.len()
    }

    /// Takes back what was changed since.
    pub(crate) fn back_to(&mut self, mark: usize) {
        for (at, before, _) in self.changes.split_off(mark.min(self.changes.len())).into_iter().rev() {
            self.values[at] = before;
            self.note(at);
        }
    }

    /// The transaction ends.
    pub(crate) fn end(&mut self, committed: bool) {
        // Latest first: the oldest value of each is the last to be put back.
        for (at, before, is_local) in std::mem::take(&mut self.changes).into_iter().rev() {
            if is_local || !committed {
                self.values[at] = before;
                self.note(at);
            }
        }
    }

    /// What the client has not been told.
    pub(crate) fn take_reports(&mut self) -> Vec<(&'static str, String)> {
        self.unreported.drain(..).map(|at| (DEFS[at].title, self.values[at].clone())).collect()
    }

    fn value(&self, name: &str) -> &str {
        find(name).map_or("", |at| &self.values[at])
    }

    pub(crate) fn isolation(&self, name: &str) -> Isolation {
        match self.value(name) {
            "serializable" => Isolation::Serializable,
            "repeatable read" => Isolation::RepeatableRead,
            _ => Isolation::ReadCommitted,
        }
    }

    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.value(name) == "on"
    }

    pub(crate) fn class(&self) -> Class {
        match self.value("overtake.priority") {
            "low" => Class::Low,
            "high" => Class::High,
            _ => Class::Normal,
        }
    }

    /// Nothing if it is 0.
    pub(crate) fn timeout(&self, name: &str) -> Option<Duration> {
        milliseconds(self.value(name)).filter(|timeout| !timeout.is_zero())
    }
}

fn accepted(def: &Def, value: &str) -> SqlResult<String> {
    let lower = value.trim().to_lowercase();
    let refused = || {
        let message = format!("invalid value for parameter \"{}\": \"{value}\"", def.title);
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
    };
    match def.takes {
        Takes::Text => Ok(value.to_owned()),
        Takes::Switch => match &*lower {
            "on" | "true" | "yes" | "1" => Ok("on".to_owned()),
            "off" | "false" | "no" | "0" => Ok("off".to_owned()),
            _ => {
                let message = format!("parameter \"{}\" requires a Boolean value", def.title);
                Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
            }
        },
        Takes::Milliseconds => {
            let time = milliseconds(&lower).ok_or_else(refused)?;
            Ok(shown(time))
        }
        Takes::Number => lower.parse::<i32>().map(|number| number.to_string()).map_err(|_| refused()),
        Takes::OneOf(all) if lower == "default" && !all.contains(&"default") => Ok(def.default.to_owned()),
        Takes::OneOf(all) if all.contains(&&*lower) => {
            // What stands for the default is shown as that.
            let is_free = matches!(def.name, "client_encoding" | "datestyle" | "timezone");
            Ok(if is_free { def.default.to_owned() } else { lower })
        }
        Takes::OneOf(all) => Err(refused().hint(format!("Available values: {}.", all.join(", ")))),
        Takes::Fixed => {
            let message = format!("parameter \"{}\" cannot be changed", def.title);
            Err(SqlError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, message))
        }
    }
}

fn milliseconds(text: &str) -> Option<Duration> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok().filter(|number| *number <= i32::MAX as u64)?;
    let unit = match text[digits..].trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    Some(Duration::from_millis(number.checked_mul(unit)?))
}

/// With the largest unit that does it without a remainder.
fn shown(time: Duration) -> String {
    let milliseconds = time.as_millis();
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")];
    match units.into_iter().find(|(unit, _)| milliseconds != 0 && milliseconds.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", milliseconds / unit),
        None if milliseconds == 0 => "0".to_owned(),
        None => format!("{milliseconds}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_stand_in_order() {
        assert!(DEFS.is_sorted_by_key(|def| def.name));
    }

    #[test]
    fn values_are_checked_and_shown_as_postgresql_does() {
        let mut settings = Settings::new("anna");
        for (name, value, shown) in [
            ("statement_timeout", "1500", "1500ms"),
            ("Statement_Timeout", "2s", "2s"),
            ("lock_timeout", "120000", "2min"),
            ("default_transaction_read_only", "TRUE", "on"),
            ("overtake.priority", "HIGH", "high"),
            ("client_encoding", "utf8", "UTF8"),
        ] {
            settings.set(name, Some(value), false).unwrap();
            assert_eq!(settings.show(name).unwrap().1, shown);
        }
        assert_eq!(settings.show("session_authorization").unwrap().1, "anna");
        for (name, value, state) in [
            ("nothing", "1", "42704"),
            ("overtake.priority", "highest", "22023"),
            ("statement_timeout", "soon", "22023"),
            ("client_encoding", "latin1", "22023"),
            ("server_version", "16", "55P02"),
        ] {
            assert_eq!(settings.set(name, Some(value), false).unwrap_err().state().0, state, "{name}");
        }
    }

    #[test]
    fn a_rollback_takes_changes_back_and_every_end_local_ones() {
        let mut settings = Settings::new("anna");
        let now = |settings: &Settings| settings.show("lock_timeout").unwrap().1.to_owned();
        settings.set("lock_timeout", Some("1s"), false).unwrap();
        settings.end(true);
        settings.set("lock_timeout", Some("2s"), false).unwrap();
        settings.set("lock_timeout", Some("3s"), false).unwrap();
        settings.end(false);
        assert_eq!(now(&settings), "1s");
        settings.set("lock_timeout", Some("4s"), true).unwrap();
        assert_eq!(now(&settings), "4s");
        settings.end(true);
        assert_eq!(now(&settings), "1s");
        settings.set("lock_timeout", None, false).unwrap();
        assert_eq!(now(&settings), "0");
    }
}
