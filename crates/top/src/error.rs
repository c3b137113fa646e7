//! Errors of `overtake top`.

use thiserror::Error;

/// Reason for which `overtake top` ends.
#[derive(Debug, Error)]
pub enum Error {
    /// The target is malformed. The message is for the person who typed it.
    #[error("{0}")]
    Target(String),
    /// The server cannot be reached, or refuses the login.
    #[error("cannot connect to {target}: {reason}")]
    Connect {
        /// Target of the connection.
        target: String,
        /// Reason of the failure.
        reason: String,
    },
    /// The server answers, but has no gate to show.
    #[error("{target} is no Overtake: {reason}")]
    Foreign {
        /// Target of the connection.
        target: String,
        /// Error that the server reported.
        reason: String,
    },
    /// The connection was lost, or a view could not be read.
    #[error("{0}")]
    Lost(String),
    /// The terminal or standard output failed.
    #[error("cannot show it: {0}")]
    Output(#[from] std::io::Error),
}

/// Returns the message of PostgreSQL's error, or the driver's with its cause.
pub(crate) fn reason(error: &tokio_postgres::Error) -> String {
    if let Some(told) = error.as_db_error() {
        return told.message().to_owned();
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
