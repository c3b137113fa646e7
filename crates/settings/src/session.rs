//! Settings of a session: `SET`, `SHOW`, `RESET`, and what the client is told of.
//!
//! **Invariant:** a value in here is one that its setting takes. What a transaction has changed goes back when it is rolled
//! back, and what it has changed for itself alone (`SET LOCAL`) at its end, too.

use crate::defs::{Context, DEFS, Def, find as position};
use crate::value::{Value, accepted, duration, plain};
use crate::{Defaults, Source, defs, text};
use engine::Isolation;
use stage::Class;
use statement::error::{SqlError, SqlResult, SqlState};
use std::borrow::Cow;
use std::time::Duration;
use types::forms::Forms;

/// What `version()` says.
pub const VERSION: &str = concat!(
    "PostgreSQL 15.0 (Overtake ",
    env!("CARGO_PKG_VERSION"),
    ") on x86_64-pc-linux-gnu, compiled by rustc, 64-bit"
);

/// The settings of one session.
#[derive(Clone, Debug)]
pub struct Settings {
    values: Vec<Value>,
    /// What the session began with.
    resets: Vec<Value>,
    /// Who has said that.
    sources: Vec<Source>,
    /// Changes of the open transaction: which, what it was before, whether for this transaction alone.
    changes: Vec<(usize, Value, bool)>,
    /// To be told to the client.
    unreported: Vec<usize>,
    hot: Hot,
    /// What those that concern text come to.
    pub forms: Forms,
    /// Grows whenever a value changes.
    version: u64,
    is_superuser: bool,
    /// Names of those that only this session knows, in lower case. Their values stand behind those of [`DEFS`].
    own: Vec<String>,
}

/// Where queries run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Each where it is better off.
    Auto,
    /// Row by row.
    Row,
    /// As analytics.
    Analytics,
}

/// What each statement asks, read from the values when one changes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Hot {
    class: Class,
    isolation: Isolation,
    is_read_only: bool,
    /// Whether the open transaction is as the next one will be.
    is_default: bool,
    path: Path,
    statement_timeout: Option<Duration>,
    lock_timeout: Option<Duration>,
    /// The number of `overtake.hot_key`.
    hot_key: Option<u64>,
    idle_in_transaction: Option<Duration>,
    idle: Option<Duration>,
    /// Statements that take longer are logged.
    log_from: Option<Duration>,
}

/// One line of `pg_settings`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingRow {
    /// What is the same for all.
    pub name: &'static str,
    /// In the setting's unit, a plain number.
    pub setting: String,
    /// As it is shown.
    pub shown: String,
    /// Its unit.
    pub unit: Option<&'static str>,
    /// What it is for.
    pub about: &'static str,
    /// Who may change it.
    pub context: &'static str,
    /// Its type.
    pub vartype: &'static str,
    /// Who has said what it is.
    pub source: &'static str,
    /// The least value, of numbers.
    pub min_val: Option<String>,
    /// The greatest.
    pub max_val: Option<String>,
    /// All values, if they can be counted.
    pub enumvals: Option<&'static [&'static str]>,
    /// What it is if nobody says.
    pub boot_val: String,
    /// What `RESET` makes of it.
    pub reset_val: String,
}

fn unknown(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\""))
}

/// # Errors
/// `42704`, `42602`: no session may have a setting of its own of this name.
fn check_own(name: &str) -> SqlResult<()> {
    if !name.contains('.') {
        return Err(unknown(name));
    }
    let invalid = |why: &str| {
        let message = format!("invalid configuration parameter name \"{name}\"");
        Err(SqlError::new(SqlState("42602"), message).detail(why))
    };
    let is_begin = |first: char| first.is_ascii_alphabetic() || first == '_' || !first.is_ascii();
    let is_simple = |part: &str| {
        part.starts_with(is_begin) && part.chars().all(|one| is_begin(one) || one.is_ascii_digit() || one == '$')
    };
    if !name.split('.').all(is_simple) {
        return invalid("Custom parameter names must be two or more simple identifiers separated by dots.");
    }
    match name.split_once('.') {
        Some((prefix, _)) if prefix.eq_ignore_ascii_case("overtake") => invalid("\"overtake\" is a reserved prefix."),
        _ => Ok(()),
    }
}

/// The settings that are the open transaction's own, and those that say what they are at its beginning.
const OF_TRANSACTION: [(&str, &str); 3] = [
    ("transaction_isolation", "default_transaction_isolation"),
    ("transaction_read_only", "default_transaction_read_only"),
    ("transaction_deferrable", "default_transaction_deferrable"),
];

/// The settings that are the open transaction's own, by any spelling.
pub fn of_transaction(name: &str) -> Option<&'static str> {
    OF_TRANSACTION.into_iter().map(|(own, _)| own).find(|own| own.eq_ignore_ascii_case(name))
}

/// What one of those is at the beginning of a transaction.
pub fn default_of(own: &'static str) -> &'static str {
    OF_TRANSACTION.into_iter().find(|(name, _)| *name == own).map_or(own, |(_, default)| default)
}

/// How a setting's name is written.
pub fn title(name: &str) -> Option<&'static str> {
    position(name).map(|at| DEFS[at].title)
}

/// A class by its name.
pub fn class_named(name: &str) -> Class {
    match name {
        "low" => Class::Low,
        "high" => Class::High,
        _ => Class::Normal,
    }
}

/// Highest class of a superuser's sessions, and where it stands among the settings, if nobody has said another.
fn default_max(is_superuser: bool, sources: &[Source]) -> Option<(usize, Value)> {
    let at = position("overtake.priority_max").filter(|at| is_superuser && sources[*at] == Source::Default)?;
    Some((at, Cow::Borrowed(Class::High.name())))
}

fn isolation_named(name: &str) -> Isolation {
    match name {
        "serializable" => Isolation::Serializable,
        "repeatable read" => Isolation::RepeatableRead,
        _ => Isolation::ReadCommitted,
    }
}

impl Settings {
    /// Settings of a new session of this role, all at their defaults.
    pub fn new(user: &str) -> Settings {
        Settings::with(user, true, &Defaults::default())
    }

    /// Those of a session of this role on a server with these values.
    pub fn with(user: &str, is_superuser: bool, defaults: &Defaults) -> Settings {
        let (mut values, sources): (Vec<Value>, Vec<Source>) = defaults.values.iter().cloned().unzip();
        for (name, value) in [
            ("session_authorization", Cow::Owned(user.to_owned())),
            ("is_superuser", Cow::Borrowed(if is_superuser { "on" } else { "off" })),
        ] {
            if let Some(at) = position(name) {
                values[at] = value;
            }
        }
        if let Some((at, highest)) = default_max(is_superuser, &sources) {
            values[at] = highest;
        }
        let unreported = (0..DEFS.len()).filter(|at| DEFS[*at].reported).collect();
        let hot = Hot::of(&values);
        let mut forms = Forms::default();
        for (def, value) in DEFS.iter().zip(&values) {
            text::apply(def.name, value, &mut forms);
        }
        let (resets, changes) = (values.clone(), Vec::new());
        let own = Vec::new();
        Settings { resets, values, sources, changes, unreported, hot, forms, version: 0, is_superuser, own }
    }

    fn find(&self, name: &str) -> Option<usize> {
        let own = || self.own.iter().position(|own| own.eq_ignore_ascii_case(name)).map(|at| DEFS.len() + at);
        position(name).or_else(own)
    }

    /// Finds a setting; one of this session's own is made if there is none.
    fn find_or_make(&mut self, name: &str) -> SqlResult<usize> {
        if let Some(at) = self.find(name) {
            return Ok(at);
        }
        check_own(name)?;
        self.own.push(name.to_lowercase());
        self.values.push(Cow::Borrowed(""));
        self.resets.push(Cow::Borrowed(""));
        self.sources.push(Source::Session);
        Ok(self.values.len() - 1)
    }

    /// A setting that somebody gives for a session that begins: what it goes back to later.
    pub fn start_with(&mut self, name: &str, value: &str, source: Source) -> SqlResult<()> {
        let at = self.find_or_make(name)?;
        let value = self.accepted(at, value)?;
        // What the administrator gives is not measured by what the session may give itself.
        if Source::Rule < source {
            self.check(at, &value)?;
        }
        self.put(at, value);
        self.resets[at].clone_from(&self.values[at]);
        self.sources[at] = source;
        Ok(())
    }

    /// All that a session begins with is said: what it shows is what it has.
    pub fn begun(&mut self) {
        if let (Some(at), Some(max)) = (position("overtake.priority"), position("overtake.priority_max"))
            && class_named(&self.values[at]) < self.class_max()
        {
            // A rule may give any class, and the session may come back to it.
            if self.sources[at] == Source::Rule {
                self.values[max] = self.values[at].clone();
                self.resets[max].clone_from(&self.values[max]);
                return;
            }
            self.values[at] = Cow::Owned(self.value("overtake.priority_max").to_owned());
            self.resets[at].clone_from(&self.values[at]);
            self.hot = Hot::of(&self.values);
        }
    }

    /// Takes the server's reloaded values, except of settings that the session, its role or its database has given.
    pub fn reload(&mut self, defaults: &Defaults) {
        for (at, (value, source)) in defaults.values.iter().enumerate() {
            // What the session shows of itself comes from nowhere else.
            let is_fixed = matches!(DEFS[at].context, Context::Internal) || of_transaction(DEFS[at].name).is_some();
            if is_fixed || !self.sources[at].is_of_server() {
                continue;
            }
            let is_own = self.values[at] != self.resets[at];
            self.resets[at].clone_from(value);
            self.sources[at] = *source;
            if !is_own && self.values[at] != *value {
                self.put(at, value.clone());
                self.note(at);
            }
        }
        if let Some((at, highest)) = default_max(self.is_superuser, &self.sources) {
            self.values[at] = highest.clone();
            self.resets[at] = highest;
        }
        self.begun();
    }

    /// Whether this session may give a setting this value.
    fn check(&self, at: usize, value: &str) -> SqlResult<()> {
        let Some(def) = DEFS.get(at) else { return Ok(()) };
        match def.context {
            Context::Internal => {
                let message = format!("parameter \"{}\" cannot be changed", def.title);
                return Err(SqlError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, message));
            }
            Context::Postmaster => {
                let message = format!("parameter \"{}\" cannot be changed without restarting the server", def.title);
                return Err(SqlError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, message));
            }
            Context::Superuser if !self.is_superuser => return Err(denied(def)),
            Context::Superuser | Context::User => {}
        }
        // Classes are ordered by importance, the highest first.
        if def.name == "overtake.priority" && class_named(value) < self.class_max() {
            let highest = self.value("overtake.priority_max");
            return Err(denied(def).detail(format!("The highest class of this role is {highest}.")));
        }
        Ok(())
    }

    /// The highest class that the session may have.
    pub fn class_max(&self) -> Class {
        class_named(self.value("overtake.priority_max"))
    }

    /// # Errors
    /// `42704`; `22023` for a value that it does not take; `55P02` for one that cannot be changed; `42501`.
    pub fn set(&mut self, name: &str, value: Option<&str>, is_local: bool) -> SqlResult<()> {
        let at = self.find_or_make(name)?;
        let value = match value {
            Some(value) => self.accepted(at, value)?,
            None => self.resets[at].clone(),
        };
        self.check(at, &value)?;
        self.change(at, value, is_local);
        Ok(())
    }

    fn change(&mut self, at: usize, value: Value, is_local: bool) {
        let before = self.put(at, value);
        self.changes.push((at, before, is_local));
        self.note(at);
    }

    /// As [`Settings::set`] for what the transaction itself is.
    pub fn set_of_transaction(&mut self, name: &str, value: &str) -> SqlResult<()> {
        self.set(name, Some(value), true)
    }

    /// The characteristics of the open transaction.
    pub fn characteristics(&self) -> Vec<(&'static str, String)> {
        let one = |(own, _): (&'static str, &'static str)| Some((own, self.values[position(own)?].to_string()));
        OF_TRANSACTION.into_iter().filter_map(one).collect()
    }

    /// A transaction begins: it is what the defaults say.
    pub fn begin(&mut self) {
        if self.hot.is_default {
            return;
        }
        for (own, default) in OF_TRANSACTION {
            if let (Some(own), Some(default)) = (position(own), position(default))
                && self.values[own] != self.values[default]
            {
                self.put(own, self.values[default].clone());
            }
        }
    }

    /// Sets all settings back to their defaults: `RESET ALL`.
    pub fn reset_all(&mut self) {
        for at in 0..self.values.len() {
            let is_of_transaction = DEFS.get(at).is_some_and(|def| of_transaction(def.name).is_some());
            if self.values[at] != self.resets[at] && !is_of_transaction {
                self.change(at, self.resets[at].clone(), false);
            }
        }
    }

    /// Gives a setting its value. Returns the one before.
    fn put(&mut self, at: usize, value: Value) -> Value {
        if let Some(def) = DEFS.get(at) {
            text::apply(def.name, &value, &mut self.forms);
        }
        let before = std::mem::replace(&mut self.values[at], value);
        self.hot = Hot::of(&self.values);
        self.version += 1;
        before
    }

    /// As long as it is the same, all values are.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The form in which a value is kept; of dates' style, what is not said stays as it is.
    fn accepted(&self, at: usize, value: &str) -> SqlResult<Value> {
        match DEFS.get(at) {
            None => Ok(Cow::Owned(value.to_owned())),
            Some(Def { takes: defs::Takes::DateStyle, .. }) => text::date_style(value, &self.forms).map(Cow::Owned),
            Some(def) => accepted(def, value),
        }
    }

    /// How a value will be shown once it is set; nothing: the default.
    ///
    /// # Errors
    /// As [`Settings::set`].
    pub fn would_show(&self, name: &str, value: Option<&str>) -> SqlResult<String> {
        let Some(at) = self.find(name) else {
            return check_own(name).map(|()| value.unwrap_or_default().to_owned());
        };
        let value = match value {
            Some(value) => self.accepted(at, value)?,
            None => self.resets[at].clone(),
        };
        self.check(at, &value)?;
        Ok(value.into_owned())
    }

    fn note(&mut self, at: usize) {
        if DEFS.get(at).is_some_and(|def| def.reported) && !self.unreported.contains(&at) {
            self.unreported.push(at);
        }
    }

    /// Its value.
    pub fn show(&self, name: &str) -> SqlResult<&str> {
        self.find(name).map(|at| &*self.values[at]).ok_or_else(|| unknown(name))
    }

    /// Tells whether the client is sent messages of a severity: `client_min_messages`.
    pub fn sends(&self, severity: &str) -> bool {
        match self.show("client_min_messages") {
            Ok("error") => false,
            Ok("warning") => severity == "WARNING",
            _ => true,
        }
    }

    /// All of them, for `SHOW ALL`: name, value, description.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &str, &'static str)> {
        let listed = DEFS.iter().zip(&self.values).filter(|(def, _)| def.is_listed());
        listed.map(|(def, value)| (def.title, &**value, def.about))
    }

    /// How many changes there are, for [`Settings::back_to`].
    pub fn mark(&self) -> usize {
        self.changes.len()
    }

    /// Takes back what was changed since.
    pub fn back_to(&mut self, mark: usize) {
        for (at, before, _) in self.changes.split_off(mark.min(self.changes.len())).into_iter().rev() {
            self.put(at, before);
            self.note(at);
        }
    }

    /// The transaction ends.
    pub fn end(&mut self, committed: bool) {
        if self.changes.is_empty() {
            return;
        }
        // Latest first: the oldest value of each is the last to be put back.
        for (at, before, is_local) in std::mem::take(&mut self.changes).into_iter().rev() {
            if is_local || !committed {
                self.put(at, before);
                self.note(at);
            }
        }
    }

    /// What the client has not been told.
    pub fn take_reports(&mut self) -> Vec<(&'static str, String)> {
        self.unreported.drain(..).map(|at| (DEFS[at].title, self.values[at].to_string())).collect()
    }

    /// The lines of `pg_settings`.
    pub fn rows(&self) -> impl Iterator<Item = SettingRow> {
        DEFS.iter().enumerate().filter(|(_, def)| def.is_listed()).map(|(at, def)| self.row(at, def))
    }

    fn row(&self, at: usize, def: &'static Def) -> SettingRow {
        let (min_val, max_val) = match def.takes {
            defs::Takes::Integer(least, most) => (Some(least.to_string()), Some(most.to_string())),
            defs::Takes::Milliseconds => (Some("0".to_owned()), Some(i32::MAX.to_string())),
            defs::Takes::Kilobytes(least) => (Some(least.to_string()), Some(i32::MAX.to_string())),
            defs::Takes::MillisecondsOrNever => (Some("-1".to_owned()), Some(i32::MAX.to_string())),
            defs::Takes::Text
            | defs::Takes::Names
            | defs::Takes::DateStyle
            | defs::Takes::TimeZone
            | defs::Takes::Switch
            | defs::Takes::Real
            | defs::Takes::OneOf(_)
            | defs::Takes::Fixed => (None, None),
        };
        SettingRow {
            name: def.title,
            setting: plain(def, &self.values[at]),
            shown: self.values[at].to_string(),
            unit: def.takes.unit(),
            about: def.about,
            context: def.context.name(),
            vartype: def.takes.vartype(),
            source: match self.values[at] == self.resets[at] {
                true => self.sources[at].name(),
                false => Source::Session.name(),
            },
            min_val,
            max_val,
            enumvals: if let defs::Takes::OneOf(all) = def.takes { Some(all) } else { None },
            boot_val: plain(def, def.default),
            reset_val: plain(def, &self.resets[at]),
        }
    }

    fn value(&self, name: &str) -> &str {
        position(name).map_or("", |at| &self.values[at])
    }

    /// The open transaction's.
    pub fn isolation(&self) -> Isolation {
        self.hot.isolation
    }

    /// Whether the open transaction only reads.
    pub fn is_read_only(&self) -> bool {
        self.hot.is_read_only
    }

    /// Where queries run.
    pub fn path(&self) -> Path {
        self.hot.path
    }

    /// Class of the session's transactions: `overtake.priority`.
    pub fn class(&self) -> Class {
        self.hot.class
    }

    /// `statement_timeout`; `None` if it is off.
    pub fn statement_timeout(&self) -> Option<Duration> {
        self.hot.statement_timeout
    }

    /// `lock_timeout`; `None` if it is off.
    pub fn lock_timeout(&self) -> Option<Duration> {
        self.hot.lock_timeout
    }

    /// Hash of `overtake.hot_key`; `None` if it is empty.
    pub fn hot_key(&self) -> Option<u64> {
        self.hot.hot_key
    }

    /// How long a client may say nothing.
    pub fn idle_limit(&self, in_transaction: bool) -> Option<Duration> {
        if in_transaction { self.hot.idle_in_transaction } else { self.hot.idle }
    }

    /// Statements that take as long as this are logged.
    pub fn log_from(&self) -> Option<Duration> {
        self.hot.log_from
    }
}

impl Hot {
    fn of(values: &[Value]) -> Hot {
        let value = |name| position(name).and_then(|at| values.get(at)).map_or("", |value| &**value);
        let limit = |name| duration(value(name)).filter(|limit| !limit.is_zero());
        Hot {
            // Classes are ordered by importance, the highest first.
            class: class_named(value("overtake.priority")).max(class_named(value("overtake.priority_max"))),
            isolation: isolation_named(value("transaction_isolation")),
            is_read_only: value("transaction_read_only") == "on",
            is_default: OF_TRANSACTION.iter().all(|(own, default)| value(own) == value(default)),
            path: match value("overtake.path") {
                "row" => Path::Row,
                "analytics" => Path::Analytics,
                _ => Path::Auto,
            },
            statement_timeout: limit("statement_timeout"),
            lock_timeout: limit("lock_timeout"),
            hot_key: syntax::fingerprint::of_key(value("overtake.hot_key")),
            idle_in_transaction: limit("idle_in_transaction_session_timeout"),
            idle: limit("idle_session_timeout"),
            log_from: duration(value("log_min_duration_statement")),
        }
    }
}

fn denied(def: &Def) -> SqlError {
    SqlError::new(SqlState("42501"), format!("permission denied to set parameter \"{}\"", def.title))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(settings.show(name).unwrap(), shown);
        }
        assert_eq!(settings.show("session_authorization").unwrap(), "anna");
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
        let now = |settings: &Settings| settings.show("lock_timeout").unwrap().to_owned();
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
