//! Question to the server about the state that a client has left on a connection.
//!
//! **Invariant:** any state of a session that can outlive its transaction is either a setting, which can be made
//! elsewhere, or a reason to stay. A question without an answer is a reason to stay.

use crate::clients::priority::Setting;
use crate::servers::server_conn::{QuestionFailed, ServerConn};
use crate::servers::target;
use crate::statements::session_settings::{SessionSettings, literal};
use std::fmt::Write;

/// Settings of two parts that belong to the proxy. They are always asked for, as a role may have a default for them,
/// and `set_config` need not name them in a text.
pub(crate) const OWN: [&str; 3] = [target::NAME, Setting::Priority.name(), Setting::HotKey.name()];

/// Result of the question.
#[derive(Debug, Default)]
pub(crate) struct CheckResult {
    pub(crate) settings: SessionSettings,
    /// True if there is state that cannot be made elsewhere.
    pub(crate) holds: bool,
    /// True if that includes temporary objects: names may refer to them.
    pub(crate) has_temporary: bool,
    /// True if the server has not answered.
    pub(crate) failed: bool,
    /// True if the question was cancelled, or took too long.
    pub(crate) is_cancelled: bool,
}

/// Number of attempts for a question that is cancelled: the cancel was not meant for it. The session's
/// `statement_timeout` or a cancel of the client may hit it.
pub(crate) const TRIES: u8 = 20;

/// SQL of the question. All names are qualified with `pg_catalog`, independent of the search path. Everything in the
/// schema of temporary objects depends on that schema, so the server finds there what to remove when the session ends.
/// Once the settings are known, the session's `statement_timeout` does not count.
const QUESTION: &str = "\
SELECT 's', name, setting FROM pg_catalog.pg_settings WHERE source OPERATOR(pg_catalog.=) 'session'; \
SET LOCAL statement_timeout = 0; \
SELECT 's', 'role', pg_catalog.current_setting('role') \
UNION ALL SELECT 's', 'session_authorization', pg_catalog.current_setting('session_authorization') \
UNION ALL SELECT 'h', 'listen', NULL FROM pg_catalog.pg_listening_channels() \
UNION ALL SELECT 'h', 'lock', NULL FROM pg_catalog.pg_locks WHERE locktype OPERATOR(pg_catalog.=) 'advisory' \
AND pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() \
UNION ALL SELECT 'h', 'temp', NULL FROM pg_catalog.pg_depend \
WHERE refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass \
AND refobjid OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema() \
UNION ALL SELECT 'h', 'slot', NULL FROM pg_catalog.pg_replication_slots \
WHERE temporary AND active_pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() \
UNION ALL SELECT 'h', 'cursor', NULL FROM pg_catalog.pg_cursors WHERE is_holdable \
UNION ALL SELECT 'h', 'statement', NULL FROM pg_catalog.pg_prepared_statements WHERE from_sql";

/// Returns the question, with these settings, which the server does not list.
pub(crate) fn question<'n>(customs: impl Iterator<Item = &'n str>) -> String {
    let mut text = QUESTION.to_owned();
    for name in customs {
        let mut quoted = String::new();
        literal(&mut quoted, name);
        // Writing to a string cannot fail.
        let _ = write!(text, " UNION ALL SELECT 's', {quoted}, pg_catalog.current_setting({quoted}, true)");
    }
    text
}

impl CheckResult {
    /// Adds one row. `is_set` tells if an empty value of a setting of two parts was set by the client.
    pub(crate) fn row(
        &mut self,
        row: Vec<Option<String>>,
        user: &str,
        is_utf8: bool,
        is_set: impl FnOnce(&str) -> bool,
    ) {
        let mut columns = row.into_iter();
        let mut next = || columns.next().flatten();
        let (kind, name, value) = (next().unwrap_or_default(), next().unwrap_or_default(), next());
        let is_there = value.is_some();
        let value = value.unwrap_or_default();
        let is_as_ever = match &*name {
            "role" => value == "none",
            "session_authorization" => value == user,
            // The value belongs to the last transaction. The server keeps listing it as a setting of the session once a
            // session has set it.
            "transaction_isolation" | "transaction_read_only" | "transaction_deferrable" => true,
            // A setting of two parts is empty for ever after a reset, like one that was set to an empty value.
            name => value.is_empty() && name.contains('.') && !(is_there && is_set(name)),
        };
        match &*kind {
            "s" if is_as_ever => {}
            // The value may be in another encoding than the one in which it will be sent.
            "s" if !value.is_ascii() => {
                self.holds |= !is_utf8;
                self.settings.set(&name, &value);
            }
            "s" => self.settings.set(&name, &value),
            _ => {
                self.holds = true;
                self.has_temporary |= name == "temp";
            }
        }
    }
}

/// Asks the question at once, on a connection that runs nothing else.
pub(crate) async fn ask(
    server: &mut ServerConn,
    asked: &SessionSettings,
    user: &str,
) -> Result<CheckResult, QuestionFailed> {
    let customs = asked.iter().map(|(name, _)| name).filter(|&name| name.contains('.') && !OWN.contains(&name));
    let customs = customs.chain(OWN);
    let rows = server.ask_again(&question(customs)).await?;
    let mut found = CheckResult::default();
    for row in rows {
        found.row(row, user, server.params.is_utf8(), |name| asked.get(name) == Some(""));
    }
    Ok(found)
}
