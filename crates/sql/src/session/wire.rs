//! What the wire asks of a session beside its statements: limits of time, settings with a word to the client.
//!
//! **Invariant:** nothing here blocks, as in the whole session.

use super::{Block, Session};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::settings::{SettingRow, Settings};
use std::time::Duration;

impl Session {
    /// How long the client may now say nothing: `idle_in_transaction_session_timeout`, or `idle_session_timeout`.
    pub fn idle_limit(&self) -> Option<Duration> {
        self.settings.idle_limit(self.block == Block::Explicit)
    }

    /// Statements that take as long as this are logged: `log_min_duration_statement`.
    pub fn log_from(&self) -> Option<Duration> {
        self.settings.log_from()
    }

    /// The lines of `pg_settings`.
    pub fn setting_rows(&self) -> Vec<SettingRow> {
        self.settings.rows().collect()
    }

    /// `SET`. Settings that mean nothing here are taken, and the client is told.
    pub(super) fn set_setting(&mut self, name: &str, value: Option<&str>, is_local: bool) -> SqlResult<()> {
        if is_local && self.engine.is_open() && name.eq_ignore_ascii_case("overtake.priority") {
            let message = "SET LOCAL overtake.priority must be called before any query";
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        self.settings.set(name, value, is_local)?;
        if Settings::is_inert(name) && value.is_some() {
            let message = format!("parameter \"{}\" has no effect on this server", name.to_lowercase());
            self.notices.push(("NOTICE", SqlError::new(SqlState("00000"), message)));
        }
        Ok(())
    }
}
