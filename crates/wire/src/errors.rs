//! Errors of the protocol itself.
//!
//! **Invariant:** codes and texts are those of PostgreSQL 15, where it has them.

use crate::frame::{Broken, Malformed};
use crate::reply::Formats;
use crate::wait::Gone;
use statement::error::Cancellation;
use statement::{SqlError, SqlResult, SqlState};
use std::time::Duration;

fn error(state: SqlState, message: impl Into<String>) -> SqlError {
    SqlError::new(state, message)
}

/// Violation of the protocol.
pub fn protocol(message: impl Into<String>) -> SqlError {
    error(SqlState::PROTOCOL_VIOLATION, message)
}

/// `08P01` or `22021`: the body of a message does not match its kind.
pub fn malformed(malformed: Malformed) -> SqlError {
    match malformed {
        Malformed::Short | Malformed::Negative => protocol("insufficient data left in message"),
        Malformed::Long => protocol("invalid message format"),
        Malformed::Unterminated => protocol("invalid string in message"),
        Malformed::NotUtf8(bytes, count) => {
            let bytes: Vec<String> = bytes[..count].iter().map(|byte| format!("0x{byte:02x}")).collect();
            error(
                SqlState::CHARACTER_NOT_IN_REPERTOIRE,
                format!("invalid byte sequence for encoding \"UTF8\": {}", bytes.join(" ")),
            )
        }
    }
}

/// `08P01` or `54000`: the boundary of the next message cannot be determined.
pub fn broken(broken: Broken) -> SqlError {
    match broken {
        Broken::Kind(kind) => unexpected(kind),
        Broken::Length(_) => protocol("invalid message length"),
        Broken::TooLong(length) => error(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("a message of {length} bytes is longer than this server accepts"),
        ),
    }
}

/// `08P01`: a message that is not allowed here.
pub fn unexpected(kind: u8) -> SqlError {
    protocol(format!("invalid frontend message type {kind}"))
}

/// Error to report to the client before the connection closes, if there is one.
pub fn gone(gone: Gone) -> Option<SqlError> {
    match gone {
        Gone::Client | Gone::Unread(_) => None,
        Gone::Idle => Some(idle(false)),
        Gone::NoRoom => Some(SqlError::no_room()),
        Gone::Fault => Some(error(SqlState::INTERNAL_ERROR, "the statement ended by a fault of this program")),
        Gone::Confused => Some(protocol("terminating connection because protocol synchronization was lost")),
        Gone::Waited(time) => Some(waited(time)),
        Gone::Server => Some(error(SqlState::ADMIN_SHUTDOWN, "terminating connection due to administrator command")),
    }
}

/// Error for a client that has waited this long for a server. The text is PgBouncer's.
fn waited(time: Duration) -> SqlError {
    protocol("query_wait_timeout")
        .detail(format!("The transaction waited for {} ms to be let in and for a connection.", time.as_millis()))
        .hint("Try again later, or raise overtake.query_wait_timeout.")
}

/// Error for a client that has been silent for too long.
pub fn idle(in_transaction: bool) -> SqlError {
    match in_transaction {
        true => error(
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            "terminating connection due to idle-in-transaction timeout",
        ),
        false => error(SqlState::IDLE_SESSION_TIMEOUT, "terminating connection due to idle-session timeout"),
    }
}

/// `53200`: prepared statements and portals of the session take more than `most` bytes.
pub fn out_of_memory(most: usize) -> SqlError {
    let detail = format!("Prepared statements and portals of one session may take {} kB.", most >> 10);
    error(SqlState::OUT_OF_MEMORY, "out of memory").detail(detail).hint("Close some, or raise overtake.session_memory.")
}

/// `57014`: the client has given up its COPY.
pub fn copy_failed(why: &str) -> SqlError {
    error(SqlState::QUERY_CANCELED, format!("COPY from stdin failed: {why}"))
}

/// Error for a statement that was cancelled before it began.
pub fn cancelled() -> SqlError {
    SqlError::cancelled(Cancellation::UserRequest)
}

/// Error for a statement whose `statement_timeout` expired before it began.
pub fn late_at_admission() -> SqlError {
    SqlError::cancelled(Cancellation::StatementTimeout)
        .detail("Its time was over while it waited at the gate, or for a connection.")
        .hint("Raise statement_timeout, or the transaction's class by overtake.priority.")
}

/// `08P01`: a message that is not allowed in a COPY.
pub fn unexpected_in_copy(kind: u8) -> SqlError {
    protocol(format!("unexpected message type 0x{kind:02X} during COPY from stdin"))
}

/// `26000`: no such prepared statement.
pub fn no_statement(name: &str) -> SqlError {
    error(
        SqlState::INVALID_SQL_STATEMENT_NAME,
        match name {
            "" => "unnamed prepared statement does not exist".to_owned(),
            name => format!("prepared statement \"{name}\" does not exist"),
        },
    )
}

/// `42P05`: the prepared statement exists already.
pub fn statement_exists(name: &str) -> SqlError {
    error(SqlState::DUPLICATE_PREPARED_STATEMENT, format!("prepared statement \"{name}\" already exists"))
}

/// `34000`: no such portal.
pub fn no_portal(name: &str) -> SqlError {
    error(SqlState::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
}

/// `42P03`: the portal exists already.
pub fn portal_exists(name: &str) -> SqlError {
    error(SqlState::DUPLICATE_CURSOR, format!("cursor \"{name}\" already exists"))
}

/// `55000`: the portal cannot be run.
pub fn cannot_be_run(name: &str) -> SqlError {
    error(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, format!("portal \"{name}\" cannot be run"))
}

/// `25P02`: the transaction is aborted.
pub fn aborted() -> SqlError {
    error(
        SqlState::IN_FAILED_SQL_TRANSACTION,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}

/// Warning that SET LOCAL does nothing outside of a transaction block.
pub fn local_alone() -> SqlError {
    error(SqlState::NO_ACTIVE_SQL_TRANSACTION, "SET LOCAL can only be used in transaction blocks")
}

/// `22023`: unknown format code.
pub fn format_code(code: i16) -> SqlError {
    error(SqlState::INVALID_PARAMETER_VALUE, format!("unsupported format code: {code}"))
}

/// `08P01`: the numbers of formats and of parameters differ.
pub fn parameter_formats(formats: usize, parameters: usize) -> SqlError {
    protocol(format!("bind message has {formats} parameter formats but {parameters} parameters"))
}

/// `08P01`: the statement has another number of parameters.
pub fn parameter_count(given: usize, statement: &str, wanted: usize) -> SqlError {
    protocol(format!(
        "bind message supplies {given} parameters, but prepared statement \"{statement}\" requires {wanted}"
    ))
}

/// `08P01`: the numbers of formats and of columns differ.
pub fn result_formats(formats: usize, columns: usize) -> SqlError {
    protocol(format!("bind message has {formats} result formats but query has {columns} columns"))
}

/// Returns an error unless there is one format for all columns, or one for each of so many.
///
/// # Errors
/// `08P01`
pub fn check_formats(formats: &Formats, columns: usize) -> SqlResult<()> {
    match formats {
        Formats::Each(each) if each.len() != columns => Err(result_formats(each.len(), columns)),
        Formats::All(_) | Formats::Each(_) => Ok(()),
    }
}

/// `08P01`: neither a statement nor a portal is named.
pub fn target(message: &str, kind: u8) -> SqlError {
    protocol(format!("invalid {message} message subtype {kind}"))
}

/// `53300`: all connections are in use.
pub fn too_many() -> SqlError {
    error(SqlState::TOO_MANY_CONNECTIONS, "sorry, too many clients already")
}

/// `53300`: the remaining connections are reserved.
pub fn reserved() -> SqlError {
    error(
        SqlState::TOO_MANY_CONNECTIONS,
        "remaining connection slots are reserved for non-replication superuser connections",
    )
}

/// `53300`: the role has reached its limit of sessions.
pub fn too_many_of(role: &str) -> SqlError {
    error(SqlState::TOO_MANY_CONNECTIONS, format!("too many connections for role \"{role}\""))
}

/// `28000`: no rule of `pg_hba.conf` matches the client.
pub fn no_entry(from: &str, user: &str, database: &str, encryption: &str) -> SqlError {
    error(
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
        format!("no pg_hba.conf entry for host \"{from}\", user \"{user}\", database \"{database}\", {encryption}"),
    )
}

/// `28000`: a rule of `pg_hba.conf` rejects the client.
pub fn rejected(from: &str, user: &str, database: &str, encryption: &str) -> SqlError {
    let who = format!("host \"{from}\", user \"{user}\", database \"{database}\", {encryption}");
    error(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, format!("pg_hba.conf rejects connection for {who}"))
}

/// `28000`: no such role.
pub fn no_role(name: &str) -> SqlError {
    error(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, format!("role \"{name}\" does not exist"))
}

/// `28000`: the role has no `LOGIN`.
pub fn may_not_log_in(name: &str) -> SqlError {
    error(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, format!("role \"{name}\" is not permitted to log in"))
}

/// `28P01`: the password is wrong.
pub fn wrong_password(user: &str) -> SqlError {
    error(SqlState::INVALID_PASSWORD, format!("password authentication failed for user \"{user}\""))
}

/// `28000`: the client believes that the server does not support channel binding.
pub fn downgraded() -> SqlError {
    let detail = "The client supports SCRAM channel binding but thinks the server does not.  \
                  However, this server does support channel binding.";
    error(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, "SCRAM channel binding negotiation error").detail(detail)
}

/// `28000`: the proof belongs to another connection.
pub fn unbound() -> SqlError {
    error(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, "SCRAM channel binding check failed")
}

/// `28000`: a start-up packet without a user.
pub fn no_user() -> SqlError {
    error(SqlState::INVALID_AUTHORIZATION_SPECIFICATION, "no PostgreSQL user name specified in startup packet")
}

/// `0A000`: an unknown version of the protocol.
pub fn protocol_version(major: u16, minor: u16) -> SqlError {
    let what = format!("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.0");
    error(SqlState::FEATURE_NOT_SUPPORTED, what)
}
