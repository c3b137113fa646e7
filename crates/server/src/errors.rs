//! Errors of the protocol itself.
//!
//! **Invariant:** codes and texts are PostgreSQL 15's, where it has them.

use crate::conn::Gone;
use crate::frame::{Broken, Malformed};
use statement::{SqlError, SqlState};
use std::time::Duration;

fn error(state: &'static str, message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState(state), message)
}

/// A violation of the protocol.
pub(crate) fn protocol(message: impl Into<String>) -> SqlError {
    error("08P01", message)
}

pub(crate) fn malformed(malformed: Malformed) -> SqlError {
    match malformed {
        Malformed::Short | Malformed::Negative => protocol("insufficient data left in message"),
        Malformed::Long => protocol("invalid message format"),
        Malformed::Unterminated => protocol("invalid string in message"),
        Malformed::NotUtf8(bytes, count) => {
            let bytes: Vec<String> = bytes[..count].iter().map(|byte| format!("0x{byte:02x}")).collect();
            error("22021", format!("invalid byte sequence for encoding \"UTF8\": {}", bytes.join(" ")))
        }
    }
}

pub(crate) fn broken(broken: Broken) -> SqlError {
    match broken {
        Broken::Kind(kind) => unexpected(kind),
        Broken::Length(_) => protocol("invalid message length"),
        Broken::TooLong(length) => {
            error("54000", format!("a message of {length} bytes is longer than this server accepts"))
        }
    }
}

pub(crate) fn unexpected(kind: u8) -> SqlError {
    protocol(format!("invalid frontend message type {kind}"))
}

/// What is left to say to a client, if there is one.
pub(crate) fn gone(gone: Gone) -> Option<SqlError> {
    match gone {
        Gone::Client | Gone::Unread(_) => None,
        Gone::Idle => Some(idle(false)),
        Gone::NoRoom => Some(SqlError::no_room()),
        Gone::Fault => Some(error("XX000", "the statement ended by a fault of this program")),
        Gone::Confused => Some(protocol("terminating connection because protocol synchronization was lost")),
        Gone::Waited(time) => Some(waited(time)),
        Gone::Server => Some(error("57P01", "terminating connection due to administrator command")),
    }
}

/// A client that has waited for so long before the servers. The words are PgBouncer's.
fn waited(time: Duration) -> SqlError {
    protocol("query_wait_timeout")
        .detail(format!("The transaction waited for {} ms to be let in and for a connection.", time.as_millis()))
        .hint("Try again later, or raise overtake.query_wait_timeout.")
}

/// A client that has said nothing for too long.
pub(crate) fn idle(in_transaction: bool) -> SqlError {
    match in_transaction {
        true => error("25P03", "terminating connection due to idle-in-transaction timeout"),
        false => error("57P05", "terminating connection due to idle-session timeout"),
    }
}

pub(crate) fn out_of_memory(most: usize) -> SqlError {
    let detail = format!("Prepared statements and portals of one session may take {} kB.", most >> 10);
    error("53200", "out of memory").detail(detail).hint("Close some, or raise overtake.session_memory.")
}

pub(crate) fn copy_failed(why: &str) -> SqlError {
    error("57014", format!("COPY from stdin failed: {why}"))
}

/// Somebody has cancelled a statement that had not begun.
pub(crate) fn cancelled() -> SqlError {
    SqlError::cancelled("user request")
}

/// A statement that has not begun, and has no time left.
pub(crate) fn late_at_the_door() -> SqlError {
    SqlError::cancelled("statement timeout")
        .detail("Its time was over while it waited at the gate, or for a connection.")
        .hint("Raise statement_timeout, or the transaction's class by overtake.priority.")
}

pub(crate) fn unexpected_in_copy(kind: u8) -> SqlError {
    protocol(format!("unexpected message type 0x{kind:02X} during COPY from stdin"))
}

pub(crate) fn no_statement(name: &str) -> SqlError {
    error(
        "26000",
        match name {
            "" => "unnamed prepared statement does not exist".to_owned(),
            name => format!("prepared statement \"{name}\" does not exist"),
        },
    )
}

pub(crate) fn statement_exists(name: &str) -> SqlError {
    error("42P05", format!("prepared statement \"{name}\" already exists"))
}

pub(crate) fn no_portal(name: &str) -> SqlError {
    error("34000", format!("portal \"{name}\" does not exist"))
}

pub(crate) fn portal_exists(name: &str) -> SqlError {
    error("42P03", format!("cursor \"{name}\" already exists"))
}

pub(crate) fn cannot_be_run(name: &str) -> SqlError {
    error("55000", format!("portal \"{name}\" cannot be run"))
}

pub(crate) fn aborted() -> SqlError {
    error("25P02", "current transaction is aborted, commands ignored until end of transaction block")
}

/// A warning: outside of a block it does nothing.
pub(crate) fn local_alone() -> SqlError {
    error("25P01", "SET LOCAL can only be used in transaction blocks")
}

pub(crate) fn format_code(code: i16) -> SqlError {
    error("22023", format!("unsupported format code: {code}"))
}

pub(crate) fn parameter_formats(formats: usize, parameters: usize) -> SqlError {
    protocol(format!("bind message has {formats} parameter formats but {parameters} parameters"))
}

pub(crate) fn parameter_count(given: usize, statement: &str, wanted: usize) -> SqlError {
    protocol(format!(
        "bind message supplies {given} parameters, but prepared statement \"{statement}\" requires {wanted}"
    ))
}

pub(crate) fn result_formats(formats: usize, columns: usize) -> SqlError {
    protocol(format!("bind message has {formats} result formats but query has {columns} columns"))
}

pub(crate) fn target(message: &str, kind: u8) -> SqlError {
    protocol(format!("invalid {message} message subtype {kind}"))
}

pub(crate) fn too_many() -> SqlError {
    error("53300", "sorry, too many clients already")
}

pub(crate) fn reserved() -> SqlError {
    error("53300", "remaining connection slots are reserved for non-replication superuser connections")
}

pub(crate) fn too_many_of(role: &str) -> SqlError {
    error("53300", format!("too many connections for role \"{role}\""))
}

pub(crate) fn no_entry(from: &str, user: &str, database: &str, encryption: &str) -> SqlError {
    error(
        "28000",
        format!("no pg_hba.conf entry for host \"{from}\", user \"{user}\", database \"{database}\", {encryption}"),
    )
}

pub(crate) fn rejected(from: &str, user: &str, database: &str, encryption: &str) -> SqlError {
    let who = format!("host \"{from}\", user \"{user}\", database \"{database}\", {encryption}");
    error("28000", format!("pg_hba.conf rejects connection for {who}"))
}

pub(crate) fn no_role(name: &str) -> SqlError {
    error("28000", format!("role \"{name}\" does not exist"))
}

pub(crate) fn may_not_log_in(name: &str) -> SqlError {
    error("28000", format!("role \"{name}\" is not permitted to log in"))
}

pub(crate) fn wrong_password(user: &str) -> SqlError {
    error("28P01", format!("password authentication failed for user \"{user}\""))
}

pub(crate) fn downgraded() -> SqlError {
    let detail = "The client supports SCRAM channel binding but thinks the server does not.  \
                  However, this server does support channel binding.";
    error("28000", "SCRAM channel binding negotiation error").detail(detail)
}

pub(crate) fn unbound() -> SqlError {
    error("28000", "SCRAM channel binding check failed")
}

pub(crate) fn no_user() -> SqlError {
    error("28000", "no PostgreSQL user name specified in startup packet")
}

pub(crate) fn protocol_version(major: u16, minor: u16) -> SqlError {
    let what = format!("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.0");
    error("0A000", what)
}
