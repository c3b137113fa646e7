//! Session functions for the wire protocol besides statements: identity, time limits, settings with reports to the
//! client, roles.
//!
//! **Invariant:** no call blocks.

use super::server::ServerSettings;
use super::{Database, Portal, Session, TransactionBlock, queries};
use settings::priority;
use settings::roles::Roles;
use settings::roles::change::{Changed, RoleChange};
use settings::{SettingRow, SettingSource, Settings};
use stage::Class;
use statement::bulk::DeferredDrops;
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// With their severities.
pub(super) type Notices = Vec<(&'static str, SqlError)>;

impl Database {
    /// Who may log in.
    pub fn roles(&self) -> &Arc<Roles> {
        &self.roles
    }

    /// What a session begins with: of the server, its database, its role, a rule, and what the client says.
    pub(super) fn settings_of(
        &self,
        server: &ServerSettings,
        user: &str,
        database: &str,
        wishes: &[(String, String)],
    ) -> SqlResult<(Settings, Notices)> {
        // A session without a user is this program's own.
        let role = self.roles.get(user);
        let is_superuser = user.is_empty() || role.as_ref().is_some_and(|role| role.is_superuser);
        let mut settings = Settings::with(user, is_superuser, &server.defaults);
        let mut notices = Vec::new();
        let mut given = |list: &[(String, String)], source| {
            for (name, value) in list {
                // They were taken when they were given.
                if let Err(error) = settings.start_with(name, value, source) {
                    notices.push(("WARNING", error));
                }
            }
        };
        given(&self.roles.of_database(database), SettingSource::Database);
        if let Some(role) = &role {
            given(&role.settings, SettingSource::Role);
            given(role.settings_in.get(database).map_or(&[], |list| list), SettingSource::Role);
        }
        let application = wishes.iter().rev().find(|(name, _)| name == "application_name");
        let application = application.map_or("", |(_, value)| value);
        if let Some(class) = server.rules.of_session(user, database, application) {
            settings.start_with("overtake.priority", class.name(), SettingSource::Rule)?;
            // The client may ask for what the rule gives.
            settings.begun();
        }
        for (name, value) in wishes {
            settings.start_with(name, value, SettingSource::Client)?;
        }
        settings.begun();
        Ok((settings, notices))
    }
}

/// Bytes that a text takes while it is prepared, over its own, at least: its tokens, the tree, the plan.
pub(super) const COPIES: usize = 4;

impl Session {
    /// Settings to be reported to the client, all at first and then those that have changed since.
    pub fn take_reports(&mut self) -> Vec<(&'static str, String)> {
        self.settings.take_reports()
    }

    /// Notices since the last call that the client wants: errors in form, `NOTICE` or `WARNING` in severity.
    pub fn take_notices(&mut self) -> Vec<(&'static str, SqlError)> {
        let mut notices = std::mem::take(&mut self.notices);
        notices.retain(|(severity, _)| self.settings.sends(severity));
        notices
    }

    /// How long the client may now say nothing: `idle_in_transaction_session_timeout`, or `idle_session_timeout`.
    pub fn idle_limit(&self) -> Option<Duration> {
        self.settings.idle_limit(self.block == TransactionBlock::Explicit)
    }

    /// Statements that take as long as this are logged: `log_min_duration_statement`.
    pub fn log_from(&self) -> Option<Duration> {
        self.settings.log_from()
    }

    /// The lines of `pg_settings`.
    pub fn setting_rows(&self) -> Vec<SettingRow> {
        self.settings.rows().collect()
    }

    /// The class of the open transaction, or of the next one.
    pub fn class(&self) -> Class {
        self.hinted.unwrap_or_else(|| self.settings.class())
    }

    /// The class that the portal runs in, which may have one for itself.
    pub fn class_of(&self, portal: &Portal) -> Class {
        let own = portal.statement.class.filter(|_| !self.engine.is_open());
        own.unwrap_or_else(|| self.class())
    }

    /// The class that a statement has for itself, by a hint or a rule.
    pub(super) fn class_of_text(&self, text: &str) -> SqlResult<Option<Class>> {
        if let Some(class) = priority::hint(text)? {
            if class < self.settings.class_max() {
                let message = format!("permission denied to give a statement the class \"{}\"", class.name());
                return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
            }
            return Ok(Some(class));
        }
        if !self.server.rules.are_about_statements() {
            return Ok(None);
        }
        let application = self.settings.show("application_name")?;
        Ok(self.server.rules.of_statement(&self.user, &self.name_of_database, application, text))
    }

    /// Takes what its statements have left over, to be dropped where that delays nobody.
    pub fn take_leavings(&mut self) -> DeferredDrops {
        std::mem::take(&mut self.leavings)
    }

    /// Cancels from another thread what this session is doing.
    pub fn canceller(&self) -> Canceller {
        let (copy, bed) = (Arc::clone(&self.copy_flag), Arc::clone(&self.bed));
        let preparations = [&self.planning, &self.message].map(Arc::clone);
        Canceller(self.engine.canceller(), self.analysis.0.clone(), copy, bed, preparations)
    }

    /// Of `statement_timeout`, if there is one, what the statement under way has left: all of it before it begins.
    pub fn time_left(&self) -> Option<Duration> {
        match self.has_timer {
            true => self.deadline.map(|deadline| self.time.left(deadline)),
            false => self.settings.statement_timeout(),
        }
    }

    /// What the next transaction meets others at: `overtake.hot_key`.
    pub fn hot_key(&self) -> Option<u64> {
        self.settings.hot_key()
    }

    /// Whether no transaction has begun in the engine, and the portal begins none: it opens or ends a block, sets or shows
    /// something.
    pub fn does_nothing_inside(&self, portal: &Portal) -> bool {
        portal.statement.traits.begins_nothing && !self.engine.is_open()
    }

    /// Checks that the portal may run: in a failed transaction only what ends it, or goes back to a savepoint.
    ///
    /// # Errors
    /// `25P02`
    pub fn check_runnable(&self, portal: &Portal) -> SqlResult<()> {
        if self.has_failed && !portal.statement.traits.ends_or_goes_back {
            return Err(engine::Error::InFailedTransaction.into());
        }
        Ok(())
    }

    /// Begins the timer of `statement_timeout`, unless it runs: reading, waits and execution of a statement have one together, and a
    /// COPY has the same to its end. Returns when the statement has taken too long.
    pub(super) fn begin_timer(&mut self) -> Option<Instant> {
        if !std::mem::replace(&mut self.has_timer, true) {
            self.deadline = self.settings.statement_timeout().and_then(|timeout| self.time.now().checked_add(timeout));
        }
        self.deadline
    }

    /// The statement is done, or has failed. The next one has a timer of its own.
    pub(super) fn end_timer(&mut self) {
        self.has_timer = false;
    }

    /// What a client is told of an error, where this session knows more about it than the engine.
    pub(super) fn told(&self, error: SqlError, has_waited: bool) -> SqlError {
        let is_late = self.deadline.is_some_and(|deadline| self.time.is_past(deadline));
        match error.engine() {
            Some(engine::Error::Cancelled) if is_late => {
                error.with_message("canceling statement due to statement timeout")
            }
            // Who does not wait at all gets another message.
            Some(engine::Error::LockNotAvailable(wanted)) => {
                let what = crate::system::locks::named(&self.state(), wanted);
                match has_waited {
                    true => error
                        .with_message("canceling statement due to lock timeout")
                        .context(format!("while locking {what}")),
                    false => error.with_message(&format!("could not obtain lock on {what}")),
                }
            }
            Some(engine::Error::Deadlock(circle)) => {
                let detail = crate::system::locks::circle(&self.state(), circle);
                error.detail(detail)
            }
            _ => error,
        }
    }

    /// `SET`.
    pub(super) fn set_setting(&mut self, name: &str, value: Option<&str>, is_local: bool) -> SqlResult<()> {
        if is_local && self.engine.is_open() && name.eq_ignore_ascii_case("overtake.priority") {
            let message = "SET LOCAL overtake.priority must be called before any query";
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        self.settings.set(name, value, is_local)
    }

    /// `CREATE`, `ALTER`, `DROP ROLE` and the like.
    pub(super) fn change_roles(&mut self, change: &RoleChange) -> SqlResult<()> {
        if self.block == TransactionBlock::Explicit {
            return Err(SqlError::unsupported(format_args!("{} in a transaction block", change.tag())));
        }
        self.open_implicit();
        let changed = self.roles.get_or_insert_with(|| Box::new(Changed::new(Arc::clone(&self.database.roles))));
        changed.change(change, (&self.user, &self.name_of_database), &mut self.notices)
    }
}

/// See [`Session::canceller`].
#[derive(Clone)]
pub struct Canceller(
    engine::Canceller,
    queries::SharedAnalysis,
    Arc<super::copy::CopyFlag>,
    Arc<super::naps::SessionSleep>,
    [Arc<statement::planning::Planning>; 2],
);

impl Canceller {
    /// Makes the statement under way, if any, end with `57014`, and with it the rest of its message.
    pub fn cancel(&self) {
        self.0.cancel();
        self.1.cancel();
        self.2.cancel();
        self.3.cancel();
        self.4.iter().for_each(|preparation| preparation.cancel());
    }
}
