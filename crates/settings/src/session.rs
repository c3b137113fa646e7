//! Settings of a session: `SET`, `SHOW`, `RESET`, and reports to the client.
//!
//! **Invariant:** every value is one that its setting takes. Changes of a transaction are undone when it is rolled
//! back; those for the transaction alone (`SET LOCAL`) also when it commits.

use crate::defs::{DEFS, SettingDef, find as position};
use crate::takes::{SettingContext, ValueType};
use crate::value::{Value, accepted, duration, plain};
use crate::{Defaults, SettingSource, text};
use engine::Isolation;
use stage::Class;
use statement::error::{SqlError, SqlResult, SqlState};
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use types::forms::Forms;

/// Severities of messages, the least important first, in the order of `client_min_messages`.
const SEVERITIES: [&str; 10] =
    ["debug5", "debug4", "debug3", "debug2", "debug1", "log", "info", "notice", "warning", "error"];

/// Returns the place of a severity among all.
fn importance(severity: &str) -> usize {
    let severity = if severity.eq_ignore_ascii_case("debug") { "debug2" } else { severity };
    SEVERITIES.iter().position(|one| one.eq_ignore_ascii_case(severity)).unwrap_or(SEVERITIES.len())
}

/// Result of `version()`.
pub const VERSION: &str = concat!(
    "PostgreSQL 15.0 (Overtake ",
    env!("CARGO_PKG_VERSION"),
    ") on x86_64-pc-linux-gnu, compiled by rustc, 64-bit"
);

/// The settings of one session.
#[derive(Clone, Debug)]
pub struct Settings {
    values: Vec<Value>,
    /// Values to which `RESET` returns: those that the session began with.
    resets: Vec<Value>,
    /// Sources of the reset values.
    sources: Vec<SettingSource>,
    /// Changes of the open transaction: position, value before, and true if the change is for this transaction alone.
    changes: Vec<(usize, Value, bool)>,
    /// Positions of settings whose values are to be reported to the client.
    unreported: Vec<usize>,
    hot: StatementSettings,
    /// Forms of values as text, from the settings that concern them.
    pub forms: Forms,
    /// Counter of changes.
    version: u64,
    is_superuser: bool,
    /// Names of the custom settings of this session, in lower case. Their values stand behind those of [`DEFS`].
    own: Vec<String>,
}

/// Execution path of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Row by row or as analytics, whichever suits the query.
    Auto,
    /// Row by row.
    Row,
    /// Analytical execution.
    Analytics,
}

/// Settings that each statement reads, derived from the values when one changes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct StatementSettings {
    class: Class,
    isolation: Isolation,
    is_read_only: bool,
    /// True if the open transaction has the characteristics that the next one will have.
    is_default: bool,
    path: Path,
    statement_timeout: Option<Duration>,
    lock_timeout: Option<Duration>,
    /// Hash of `overtake.hot_key`.
    hot_key: Option<u64>,
    idle_in_transaction: Option<Duration>,
    idle: Option<Duration>,
    /// Time from which on statements are logged.
    log_from: Option<Duration>,
}

/// A row of `pg_settings`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingRow {
    /// Name of the setting.
    pub name: &'static str,
    /// Value as a plain number in the setting's unit.
    pub setting: String,
    /// Value as it is shown.
    pub shown: String,
    /// Unit of the value.
    pub unit: Option<&'static str>,
    /// Description of the setting.
    pub about: &'static str,
    /// Context in which the setting may be changed.
    pub context: &'static str,
    /// Type of the values.
    pub vartype: &'static str,
    /// Source of the value.
    pub source: &'static str,
    /// Least value, of numbers.
    pub min_val: Option<String>,
    /// Greatest value, of numbers.
    pub max_val: Option<String>,
    /// Possible values of an enumeration.
    pub enumvals: Option<&'static [&'static str]>,
    /// Built-in default.
    pub boot_val: String,
    /// Value that `RESET` restores.
    pub reset_val: String,
}

fn unknown(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\""))
}

/// Checks the name of a custom setting.
///
/// # Errors
/// `42704`, `42602` if a session may not have a setting of this name.
fn check_own(name: &str) -> SqlResult<()> {
    if !name.contains('.') {
        return Err(unknown(name));
    }
    let invalid = |why: &str| {
        let message = format!("invalid configuration parameter name \"{name}\"");
        Err(SqlError::new(SqlState::INVALID_NAME, message).detail(why))
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

/// Settings that are characteristics of the open transaction, each with the setting that is its default.
const OF_TRANSACTION: [(&str, &str); 3] = [
    ("transaction_isolation", "default_transaction_isolation"),
    ("transaction_read_only", "default_transaction_read_only"),
    ("transaction_deferrable", "default_transaction_deferrable"),
];

/// Settings that name roles, which `RESET ALL` leaves as they are.
const OF_ROLES: [&str; 3] = ["role", "session_authorization", "is_superuser"];

/// Returns the name of a transaction characteristic, in any case.
pub fn of_transaction(name: &str) -> Option<&'static str> {
    OF_TRANSACTION.into_iter().map(|(own, _)| own).find(|own| own.eq_ignore_ascii_case(name))
}

/// Returns the setting that is the default of a transaction characteristic.
pub fn default_of(own: &'static str) -> &'static str {
    OF_TRANSACTION.into_iter().find(|(name, _)| *name == own).map_or(own, |(_, default)| default)
}

/// Returns a setting's name as PostgreSQL writes it.
pub fn title(name: &str) -> Option<&'static str> {
    position(name).map(|at| DEFS[at].title)
}

/// Returns a class by its name.
pub fn class_named(name: &str) -> Class {
    match name {
        "low" => Class::Low,
        "high" => Class::High,
        _ => Class::Normal,
    }
}

/// Returns the highest class of a superuser's sessions, and its position among the settings, if no source has set
/// another.
fn default_max(is_superuser: bool, sources: &[SettingSource]) -> Option<(usize, Value)> {
    let at = position("overtake.priority_max").filter(|at| is_superuser && sources[*at] == SettingSource::Default)?;
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
    /// Creates the settings of a session of this role, all at their defaults.
    pub fn new(user: &str) -> Settings {
        Settings::with(user, true, &Defaults::default())
    }

    /// Creates the settings of a session of this role on a server with these values.
    pub fn with(user: &str, is_superuser: bool, defaults: &Defaults) -> Settings {
        let (mut values, sources): (Vec<Value>, Vec<SettingSource>) = defaults.values.iter().cloned().unzip();
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
        let hot = StatementSettings::of(&values);
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

    /// Finds a setting; creates a custom one if there is none.
    fn find_or_make(&mut self, name: &str) -> SqlResult<usize> {
        if let Some(at) = self.find(name) {
            return Ok(at);
        }
        check_own(name)?;
        self.own.push(name.to_lowercase());
        self.values.push(Cow::Borrowed(""));
        self.resets.push(Cow::Borrowed(""));
        self.sources.push(SettingSource::Session);
        Ok(self.values.len() - 1)
    }

    /// Sets a value with which the session begins: `RESET` returns to it.
    pub fn start_with(&mut self, name: &str, value: &str, source: SettingSource) -> SqlResult<()> {
        let at = self.find_or_make(name)?;
        let value = self.accepted(at, value)?;
        // Values of the administrator are not limited by what the session may set itself.
        if SettingSource::Rule < source {
            self.check(at, &value)?;
        }
        self.put(at, value);
        self.resets[at].clone_from(&self.values[at]);
        self.sources[at] = source;
        Ok(())
    }

    /// Completes the start of the session once all its values are set: it caps the class at the highest, so that the
    /// session shows the class that it has.
    pub fn begun(&mut self) {
        if let (Some(at), Some(max)) = (position("overtake.priority"), position("overtake.priority_max"))
            && class_named(&self.values[at]) < self.class_max()
        {
            // A rule may give any class, and the session may return to it.
            if self.sources[at] == SettingSource::Rule {
                self.values[max] = self.values[at].clone();
                self.resets[max].clone_from(&self.values[max]);
                return;
            }
            self.values[at] = Cow::Owned(self.value("overtake.priority_max").to_owned());
            self.resets[at].clone_from(&self.values[at]);
            self.hot = StatementSettings::of(&self.values);
        }
    }

    /// Takes the server's reloaded values, except of settings that the session, its role or its database has given.
    pub fn reload(&mut self, defaults: &Defaults) {
        for (at, (value, source)) in defaults.values.iter().enumerate() {
            // Values that describe the session itself come from no other source.
            let is_fixed =
                matches!(DEFS[at].context, SettingContext::Internal) || of_transaction(DEFS[at].name).is_some();
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

    /// Checks that this session may give a setting this value.
    fn check(&self, at: usize, value: &str) -> SqlResult<()> {
        let Some(def) = DEFS.get(at) else { return Ok(()) };
        match def.context {
            SettingContext::Internal => {
                let message = format!("parameter \"{}\" cannot be changed", def.title);
                return Err(SqlError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, message));
            }
            SettingContext::Postmaster => {
                let message = format!("parameter \"{}\" cannot be changed without restarting the server", def.title);
                return Err(SqlError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, message));
            }
            SettingContext::Superuser if !self.is_superuser => return Err(denied(def)),
            SettingContext::Superuser | SettingContext::User => {}
        }
        // Classes are ordered by importance, the highest first.
        if def.name == "overtake.priority" && class_named(value) < self.class_max() {
            let highest = self.value("overtake.priority_max");
            return Err(denied(def).detail(format!("The highest class of this role is {highest}.")));
        }
        Ok(())
    }

    /// Returns the highest class that the session may have.
    pub fn class_max(&self) -> Class {
        class_named(self.value("overtake.priority_max"))
    }

    /// Sets a value: `SET`, or `RESET` for `None`.
    ///
    /// # Errors
    /// `42704`; `22023` for a value that the setting does not take; `55P02` for a setting that cannot be changed;
    /// `42501`.
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

    /// Sets a characteristic of the open transaction, as [`Settings::set`] does.
    pub fn set_of_transaction(&mut self, name: &str, value: &str) -> SqlResult<()> {
        self.set(name, Some(value), true)
    }

    /// Returns the characteristics of the open transaction.
    pub fn characteristics(&self) -> Vec<(&'static str, String)> {
        let one = |(own, _): (&'static str, &'static str)| Some((own, self.values[position(own)?].to_string()));
        OF_TRANSACTION.into_iter().filter_map(one).collect()
    }

    /// Begins a transaction with the default characteristics.
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

    /// Returns true if the current role is a superuser.
    pub fn is_superuser(&self) -> bool {
        self.is_superuser
    }

    /// Takes over if the current role is a superuser. No transaction undoes that: it follows from the role.
    pub fn set_superuser(&mut self, is_superuser: bool) {
        if self.is_superuser == is_superuser {
            return;
        }
        self.is_superuser = is_superuser;
        if let Some(at) = position("is_superuser") {
            self.put(at, Cow::Borrowed(if is_superuser { "on" } else { "off" }));
            self.note(at);
        }
    }

    /// Sets all settings back to their defaults: `RESET ALL`.
    pub fn reset_all(&mut self) {
        for at in 0..self.values.len() {
            let stays = |def: &SettingDef| of_transaction(def.name).is_some() || OF_ROLES.contains(&def.name);
            let is_of_transaction = DEFS.get(at).is_some_and(stays);
            if self.values[at] != self.resets[at] && !is_of_transaction {
                self.change(at, self.resets[at].clone(), false);
            }
        }
    }

    /// Sets a value, and returns the one before.
    fn put(&mut self, at: usize, value: Value) -> Value {
        if let Some(def) = DEFS.get(at) {
            text::apply(def.name, &value, &mut self.forms);
        }
        let before = std::mem::replace(&mut self.values[at], value);
        self.hot = StatementSettings::of(&self.values);
        // One counter for all: copies that have changed differently have different versions.
        static VERSION: AtomicU64 = AtomicU64::new(0);
        self.version = 1 + VERSION.fetch_add(1, Ordering::Relaxed);
        before
    }

    /// Returns the version. Settings and their copies with the same version have the same values.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the form in which a value is kept. Parts that a `DateStyle` does not mention stay as they are.
    fn accepted(&self, at: usize, value: &str) -> SqlResult<Value> {
        match DEFS.get(at) {
            None => Ok(Cow::Owned(value.to_owned())),
            Some(SettingDef { takes: ValueType::DateStyle, .. }) => {
                text::date_style(value, &self.forms).map(Cow::Owned)
            }
            Some(def) => accepted(def, value),
        }
    }

    /// Returns the form in which a value would be shown once it is set; the default for `None`.
    ///
    /// # Errors
    /// The errors of [`Settings::set`].
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

    /// Returns the value of a setting.
    pub fn show(&self, name: &str) -> SqlResult<&str> {
        self.find(name).map(|at| &*self.values[at]).ok_or_else(|| unknown(name))
    }

    /// Returns true if the client is sent messages of a severity: `client_min_messages`.
    pub fn sends(&self, severity: &str) -> bool {
        // INFO is what the client has asked for.
        severity == "INFO" || importance(self.show("client_min_messages").unwrap_or_default()) <= importance(severity)
    }

    /// Returns all settings, for `SHOW ALL`: name, value, description.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &str, &'static str)> {
        let listed = DEFS.iter().zip(&self.values).filter(|(def, _)| def.is_listed());
        listed.map(|(def, value)| (def.title, &**value, def.about))
    }

    /// Returns the number of changes so far, for [`Settings::back_to`].
    pub fn mark(&self) -> usize {
        self.changes.len()
    }

    /// Undoes the changes since the mark.
    pub fn back_to(&mut self, mark: usize) {
        for (at, before, _) in self.changes.split_off(mark.min(self.changes.len())).into_iter().rev() {
            self.put(at, before);
            self.note(at);
        }
    }

    /// Ends the transaction.
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

    /// Takes the values that are to be reported to the client.
    pub fn take_reports(&mut self) -> Vec<(&'static str, String)> {
        self.unreported.drain(..).map(|at| (DEFS[at].title, self.values[at].to_string())).collect()
    }

    /// Returns the rows of `pg_settings`.
    pub fn rows(&self) -> impl Iterator<Item = SettingRow> {
        DEFS.iter().enumerate().filter(|(_, def)| def.is_listed()).map(|(at, def)| self.row(at, def))
    }

    fn row(&self, at: usize, def: &'static SettingDef) -> SettingRow {
        let (min_val, max_val) = match def.takes {
            ValueType::Integer(least, most) => (Some(least.to_string()), Some(most.to_string())),
            ValueType::Milliseconds => (Some("0".to_owned()), Some(i32::MAX.to_string())),
            ValueType::Kilobytes(least) => (Some(least.to_string()), Some(i32::MAX.to_string())),
            ValueType::MillisecondsOrNever => (Some("-1".to_owned()), Some(i32::MAX.to_string())),
            ValueType::Text
            | ValueType::Names
            | ValueType::DateStyle
            | ValueType::TimeZone
            | ValueType::Switch
            | ValueType::Real
            | ValueType::OneOf(_)
            | ValueType::Fixed => (None, None),
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
                false => SettingSource::Session.name(),
            },
            min_val,
            max_val,
            enumvals: if let ValueType::OneOf(all) = def.takes { Some(all) } else { None },
            boot_val: plain(def, def.default),
            reset_val: plain(def, &self.resets[at]),
        }
    }

    fn value(&self, name: &str) -> &str {
        position(name).map_or("", |at| &self.values[at])
    }

    /// Returns the isolation level of the open transaction.
    pub fn isolation(&self) -> Isolation {
        self.hot.isolation
    }

    /// Returns true if the open transaction is read-only.
    pub fn is_read_only(&self) -> bool {
        self.hot.is_read_only
    }

    /// Returns the execution path of queries: `overtake.path`.
    pub fn path(&self) -> Path {
        self.hot.path
    }

    /// Returns the class of the session's transactions: `overtake.priority`.
    pub fn class(&self) -> Class {
        self.hot.class
    }

    /// Returns `statement_timeout`; `None` if it is off.
    pub fn statement_timeout(&self) -> Option<Duration> {
        self.hot.statement_timeout
    }

    /// Returns `lock_timeout`; `None` if it is off.
    pub fn lock_timeout(&self) -> Option<Duration> {
        self.hot.lock_timeout
    }

    /// Returns the hash of `overtake.hot_key`; `None` if it is empty.
    pub fn hot_key(&self) -> Option<u64> {
        self.hot.hot_key
    }

    /// Returns the time limit of an idle client, inside or outside of a transaction; `None` if it is off.
    pub fn idle_limit(&self, in_transaction: bool) -> Option<Duration> {
        if in_transaction { self.hot.idle_in_transaction } else { self.hot.idle }
    }

    /// Returns the time from which on statements are logged.
    pub fn log_from(&self) -> Option<Duration> {
        self.hot.log_from
    }
}

impl StatementSettings {
    fn of(values: &[Value]) -> StatementSettings {
        let value = |name| position(name).and_then(|at| values.get(at)).map_or("", |value| &**value);
        let limit = |name| duration(value(name)).filter(|limit| !limit.is_zero());
        StatementSettings {
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

fn denied(def: &SettingDef) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied to set parameter \"{}\"", def.title))
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
