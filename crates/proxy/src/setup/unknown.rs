//! Unknown settings whose names begin with `overtake.`, which no client may set.
//!
//! A server accepts any name of two parts, so a typing error would be accepted and do nothing. PostgreSQL reserves the
//! prefixes of its extensions for that reason, and so does our own engine.
//!
//! **Invariant:** in a transaction the server refuses the setting, so that the transaction fails there, too: it is
//! asked to show a setting that does not exist. Its error is replaced by the proxy's.

use crate::clients::client::Client;
use crate::clients::priority::{self, PriorityCommand, Setting, command};
use crate::statements::message;
use server::reload::is_changeable;
use settings::{Defaults, SettingSource};
use statement::{SqlError, SqlState};

const PREFIX: &str = "overtake.";
/// Character that no setting's name ends with, so a name with it cannot be shown.
const MARK: char = '$';

/// Returns the error for a client that sets this, if no client may have it.
pub(crate) fn refused(settings: &Defaults, name: &str) -> Option<SqlError> {
    if !name.starts_with(PREFIX) {
        return None;
    }
    if name == priority::MAX {
        let error =
            SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied to set parameter \"{name}\""));
        return Some(error.hint(
            "A superuser of the server gives it to a role by ALTER ROLE ... SET, the front's configuration to all.",
        ));
    }
    if !settings.has(name) {
        return settings.clone().set(name, "", SettingSource::CommandLine).err();
    }
    settings.of_server().any(|own| own.name == name).then(|| {
        let why = if is_changeable(name) { "now" } else { "without restarting the server" };
        let error =
            SqlError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, format!("parameter \"{name}\" cannot be changed {why}"));
        error.hint("It is a setting of the gate before the servers, for all its clients.")
    })
}

impl Client {
    /// Returns the error that replaces an `ErrorResponse` with this body, if that is about an unknown setting of the
    /// proxy's.
    pub(crate) fn said_of_unknown(&self, body: &[u8]) -> Option<SqlError> {
        if message::state(body) != Some(SqlState::UNDEFINED_OBJECT) {
            return None;
        }
        // The message may be in any language.
        let said = message::field(body, b'M')?;
        let (name, _) = said[said.find(PREFIX)?..].split_once(MARK)?;
        if name == Setting::Priority.name() {
            return Some(priority::denied(self.priority.max()));
        }
        refused(&self.shared.options().settings, name)
    }

    /// Turns a SET that the client may not run, in a message of this kind, into a SHOW of the name with [`MARK`], which
    /// is no longer.
    pub(crate) fn ask_for_unknown(&self, kind: u8, body: &mut [u8]) {
        let begin = match kind {
            b'Q' => 0,
            b'P' => message::text(body).map_or(0, |(name, _)| name.len() + 1),
            _ => return,
        };
        let Some(text) = body.get_mut(begin..) else { return };
        let Some(length) = message::text(text).map(|(text, _)| text.len()) else { return };
        let name = match command(&text[..length]) {
            Some(PriorityCommand::SetOther(name)) if refused(&self.shared.options().settings, &name).is_some() => name,
            Some(PriorityCommand::Set(set)) if self.priority.denies(&set) => Setting::Priority.name().to_owned(),
            _ => return,
        };
        let show = format!("{:length$}", format!("SHOW {name}{MARK}"));
        if show.len() == length {
            text[..length].copy_from_slice(show.as_bytes());
        }
    }
}
