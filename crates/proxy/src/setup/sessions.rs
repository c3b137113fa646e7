//! Settings of sessions in the proxy's own configuration: clients' sessions at the servers begin with them.
//!
//! The settings of a role or a database at the server (`ALTER ROLE … SET`) precede them, and so do those that a client
//! asks for at its login; `RESET` goes back to them.
//!
//! **Invariant:** each of them reaches every session, or is refused by name when the proxy starts. A setting that a
//! server does not know is refused by the server at the login.

use crate::clients::leftovers;
use crate::clients::priority;
use crate::statements::session_settings::{SessionSettings, literal};
use settings::sources::OptionError;
use settings::{Defaults, SettingSource};

/// Settings that only a superuser may set for a session.
const SUPERUSERS: &[&str] =
    &["deadlock_timeout", "lc_messages", "log_min_duration_statement", "session_replication_role", "wal_compression"];

/// Settings that clients' sessions begin with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionDefaults(SessionSettings);

/// Reads the settings of sessions.
///
/// # Errors
/// A setting cannot reach the servers' sessions.
pub(crate) fn read(settings: &Defaults) -> Result<SessionDefaults, OptionError> {
    let mut sessions = SessionSettings::default();
    let said = settings.all().filter(|own| !own.is_of_server && settings.source(own.name) != SettingSource::Default);
    for setting in said {
        let name = setting.name;
        if leftovers::OWN.contains(&name) || name == priority::MAX {
            // The proxy applies these itself.
            continue;
        }
        let refused = |why: &str| {
            Err(OptionError::of(name, format!("it cannot be given to sessions of the servers behind: {why}")))
        };
        if name.starts_with("overtake.") {
            return refused("only Overtake's own engine has it");
        }
        if SUPERUSERS.contains(&name) {
            return refused("there it takes a superuser. Set it at the servers, by ALTER DATABASE for instance");
        }
        if name == "session_authorization" {
            return refused("it is the role that a client has logged in with");
        }
        if let Some(rest) = name.strip_prefix("transaction_") {
            return refused(&format!("it is a transaction's. Say default_transaction_{rest}"));
        }
        sessions.set(name, setting.value);
    }
    Ok(SessionDefaults(sessions))
}

/// Statement by which a session that has asked for these settings begins with the configured ones, except for those
/// that the server has for its role or database. All names are qualified with `pg_catalog`.
pub(crate) fn begin(SessionDefaults(sessions): &SessionDefaults, asked: &SessionSettings) -> String {
    let mut rows = String::new();
    for (name, value) in sessions.iter().filter(|(name, _)| asked.get(name).is_none()) {
        rows.push_str(if rows.is_empty() { "(" } else { ", (" });
        literal(&mut rows, name);
        rows.push_str(", ");
        literal(&mut rows, value);
        rows.push(')');
    }
    if rows.is_empty() {
        return rows;
    }
    format!(
        "SELECT pg_catalog.set_config(c.name, c.value, false) FROM (VALUES {rows}) AS c (name, value) \
         WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_settings s \
         WHERE pg_catalog.lower(s.name) OPERATOR(pg_catalog.=) c.name \
         AND s.source OPERATOR(pg_catalog.=) ANY (ARRAY['global', 'database', 'user', 'database user'])); "
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use settings::sources::read_flag;

    fn said(flags: &[&str]) -> Result<SessionDefaults, String> {
        let mut settings = Defaults::default();
        for flag in flags {
            read_flag(flag, &mut settings).expect("a setting");
        }
        read(&settings).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_said_of_sessions_goes_to_the_servers_or_is_refused_by_name() {
        assert_eq!(said(&[]), Ok(SessionDefaults::default()));
        let sessions = said(&["statement_timeout=1500ms", "port=7", "overtake.priority=low", "TimeZone=UTC"]);
        let sessions = sessions.expect("settings");
        let names: Vec<&str> = sessions.0.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["statement_timeout", "timezone"]);
        let asked = SessionSettings::from_iter([("timezone".to_owned(), "GMT".to_owned())]);
        let text = begin(&sessions, &asked);
        assert!(text.contains("(VALUES (E'statement_timeout', E'1500ms')) AS"), "{text}");
        assert_eq!(begin(&SessionDefaults(asked.clone()), &asked), "");
        for wrong in
            ["overtake.path=row", "deadlock_timeout=2s", "log_min_duration_statement=1s", "transaction_read_only=on"]
        {
            let error = said(&[wrong]).expect_err(wrong);
            assert!(error.starts_with(wrong.split('=').next().unwrap_or_default()), "{error}");
        }
    }
}
