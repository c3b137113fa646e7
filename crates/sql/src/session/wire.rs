//! Session functions for the wire protocol besides statements: identity, time limits, settings with reports to the
//! client, roles.
//!
//! **Invariant:** no call blocks.

use super::server::ServerSettings;
use super::{Database, Portal, Session, TransactionBlock, queries};
use crate::context::ROLE;
use settings::priority;
use settings::roles::Roles;
use settings::roles::change::{Changed, RoleChange};
use settings::{SettingRow, SettingSource, Settings};
use stage::{Class, IsolationLevel, StageClock};
use statement::bulk::DeferredDrops;
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Notices with their severities.
pub(super) type Notices = Vec<(&'static str, SqlError)>;

impl Database {
    /// Returns the roles, which decide who may log in.
    pub fn roles(&self) -> &Arc<Roles> {
        &self.roles
    }

    /// Returns the initial settings of a session: those of the server, its database, its role, a priority rule, and the
    /// client.
    pub(super) fn settings_of(
        &self,
        server: &ServerSettings,
        user: &str,
        database: &str,
        wishes: &[(String, String)],
    ) -> SqlResult<(Settings, Notices)> {
        // A session without a user belongs to this program.
        let role = self.roles.get(user);
        let is_superuser = user.is_empty() || role.as_ref().is_some_and(|role| role.is_superuser);
        let mut settings = Settings::with(user, is_superuser, &server.defaults);
        let mut notices = Vec::new();
        let mut given = |list: &[(String, String)], source| {
            for (name, value) in list {
                // A stored setting was valid when it was set, so an error now is only a warning.
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
            // The client may request the class that the rule gives.
            settings.begun();
        }
        for (name, value) in wishes {
            settings.start_with(name, value, SettingSource::Client)?;
        }
        settings.begun();
        Ok((settings, notices))
    }
}

/// Minimal memory of a text during its preparation, as a multiple of its length: tokens, tree, plan.
pub(super) const COPIES: usize = 4;

impl Session {
    /// Returns the settings to report to the client: all of them first, later those that have changed.
    pub fn take_reports(&mut self) -> Vec<(&'static str, String)> {
        self.settings.take_reports()
    }

    /// Returns the notices since the last call that the client wants, as errors with the severity `NOTICE` or
    /// `WARNING`.
    pub fn take_notices(&mut self) -> Vec<(&'static str, SqlError)> {
        let mut notices = std::mem::take(&mut self.notices);
        notices.retain(|(severity, _)| self.settings.sends(severity));
        notices
    }

    /// Returns the time that the client may now be idle: `idle_in_transaction_session_timeout` or
    /// `idle_session_timeout`.
    pub fn idle_limit(&self) -> Option<Duration> {
        self.settings.idle_limit(self.block == TransactionBlock::Explicit)
    }

    /// Returns the duration from which on statements are logged: `log_min_duration_statement`.
    pub fn log_from(&self) -> Option<Duration> {
        self.settings.log_from()
    }

    /// Returns the rows of `pg_settings`.
    pub fn setting_rows(&self) -> Vec<SettingRow> {
        self.settings.rows().collect()
    }

    /// Returns the strongest level of isolation at which code ran since the last call.
    pub fn take_isolation(&self) -> IsolationLevel {
        self.env.code.take_level()
    }

    /// Makes this the clock that the session advances: it enters the stages of parsing, planning and running.
    pub fn clock_by(&mut self, clock: &Arc<StageClock>) {
        self.clock = Arc::clone(clock);
        self.env.code.clock_by(clock);
    }

    /// Returns the class of the open transaction, or of the next one.
    pub fn class(&self) -> Class {
        self.hinted.unwrap_or_else(|| self.settings.class())
    }

    /// Returns the class of a portal, which may have its own.
    pub fn class_of(&self, portal: &Portal) -> Class {
        let own = portal.statement.class.filter(|_| !self.engine.is_open());
        own.unwrap_or_else(|| self.class())
    }

    /// Returns the class that a hint or a rule gives to a statement.
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

    /// Takes the memory that statements have left, so that the caller frees it where that delays nobody.
    pub fn take_leavings(&mut self) -> DeferredDrops {
        std::mem::take(&mut self.leavings)
    }

    /// Returns a handle that cancels the session's current work from another thread.
    pub fn canceller(&self) -> Canceller {
        let (copy, sleeper) = (Arc::clone(&self.copy_flag), Arc::clone(&self.sleeper));
        let preparations = [&self.planning, &self.message].map(Arc::clone);
        Canceller(self.engine.canceller(), self.analysis.0.clone(), copy, sleeper, preparations)
    }

    /// Returns the rest of `statement_timeout` for the statement under way, or all of it before a statement begins;
    /// `None` without a limit.
    pub fn time_left(&self) -> Option<Duration> {
        match self.has_timer {
            true => self.deadline.map(|deadline| self.time.left(deadline)),
            false => self.settings.statement_timeout(),
        }
    }

    /// Returns the conflict key of the next transaction: `overtake.hot_key`.
    pub fn hot_key(&self) -> Option<u64> {
        self.settings.hot_key()
    }

    /// True if the engine has no open transaction and the portal starts none: it begins or ends a block, sets or shows
    /// a setting.
    pub fn does_nothing_inside(&self, portal: &Portal) -> bool {
        portal.statement.traits.begins_nothing && !self.engine.is_open()
    }

    /// Checks that the portal may run. A failed transaction allows only its end and a rollback to a savepoint.
    ///
    /// # Errors
    /// Fails with `25P02` in a failed transaction.
    pub fn check_runnable(&self, portal: &Portal) -> SqlResult<()> {
        if self.has_failed && !portal.statement.traits.ends_or_goes_back {
            return Err(engine::Error::InFailedTransaction.into());
        }
        Ok(())
    }

    /// Starts the timer of `statement_timeout`, unless it runs. Parsing, waits and execution of a statement share one
    /// timer, and a COPY keeps it to its end. Returns the deadline.
    pub(super) fn begin_timer(&mut self) -> Option<Instant> {
        if !std::mem::replace(&mut self.has_timer, true) {
            self.deadline = self.settings.statement_timeout().and_then(|timeout| self.time.now().checked_add(timeout));
        }
        self.deadline
    }

    /// Ends the timer with the statement, so that the next one starts its own.
    pub(super) fn end_timer(&mut self) {
        self.has_timer = false;
    }

    /// Adds details to an error of the engine that this session knows.
    pub(super) fn told(&self, error: SqlError, has_waited: bool) -> SqlError {
        let is_late = self.deadline.is_some_and(|deadline| self.time.is_past(deadline));
        match error.engine() {
            Some(engine::Error::Cancelled) if is_late => {
                error.with_message("canceling statement due to statement timeout")
            }
            // NOWAIT has a message of its own.
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

    /// Sets a parameter, for the session or the transaction; `None` stands for the default. Characteristics of
    /// transactions are always set for the transaction.
    ///
    /// # Errors
    /// Those of `SET`, and of `SET TRANSACTION` for characteristics.
    pub(super) fn set_setting(&mut self, name: &str, value: Option<&str>, is_local: bool) -> SqlResult<()> {
        if let Some(own) = settings::of_transaction(name) {
            let shown = self.settings.would_show(own, value)?;
            return self.set_modes(&[(own, &shown)]);
        }
        self.check_role_setting(name, value)?;
        if is_local && self.engine.is_open() && name.eq_ignore_ascii_case("overtake.priority") {
            let message = "SET LOCAL overtake.priority must be called before any query";
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        self.settings.set(name, value, is_local)?;
        // Another session user begins as itself.
        if Session::ends_role(name) {
            self.settings.set(ROLE, None, is_local)?;
        }
        Ok(())
    }

    /// # Errors
    /// `0A000` in a transaction block, whose savepoints do not restore roles.
    pub(super) fn refuse_roles_in_block(&self, tag: &str) -> SqlResult<()> {
        match self.block {
            TransactionBlock::Explicit => Err(SqlError::unsupported(format_args!("{tag} in a transaction block"))),
            TransactionBlock::None | TransactionBlock::Implicit => Ok(()),
        }
    }

    /// Runs `CREATE ROLE`, `ALTER ROLE`, `DROP ROLE` and their like.
    pub(super) fn change_roles(&mut self, change: &RoleChange) -> SqlResult<()> {
        self.refuse_roles_in_block(change.tag())?;
        self.open_implicit();
        self.refresh_authority();
        let user = Arc::clone(&self.env.user);
        let changed = self.roles.get_or_insert_with(|| Box::new(Changed::new(Arc::clone(&self.database.roles))));
        changed.change(change, (&user, &self.name_of_database), &mut self.notices)
    }
}

/// Handle of [`Session::canceller`].
#[derive(Clone)]
pub struct Canceller(
    engine::Canceller,
    queries::SharedAnalysis,
    Arc<super::copy::CopyFlag>,
    Arc<super::sleeps::SessionSleep>,
    [Arc<statement::planning::Planning>; 2],
);

impl Canceller {
    /// Cancels the statement under way, if there is one, with `57014`, together with the rest of its message.
    pub fn cancel(&self) {
        // A call of a procedure looks whether the run is canceled after it has begun in the engine: it meets this cancel, or
        // the next.
        let is_procedure = self.1.is_procedure();
        if is_procedure {
            self.1.cancel();
        }
        self.0.cancel();
        self.2.cancel();
        self.3.cancel();
        self.4.iter().for_each(|preparation| preparation.cancel());
        // The session sees the end of any other run at once. Its client may send the next statement then, which this cancel
        // must not meet.
        if !is_procedure {
            self.1.cancel();
        }
    }
}
