//! Errors of `overtake top`.

use thiserror::Error;

/// Reason for which `overtake top` ends.
#[derive(Debug, Error)]
pub enum Error {
    /// Where to connect makes no sense: for whoever has typed it.
    #[error("{0}")]
    Target(String),
    /// Nobody is there, or does not let us in.
    #[error("cannot connect to {target}: {reason}")]
    Connect {
        /// Where.
        target: String,
        /// Why.
        reason: String,
    },
    /// Somebody is there, who has no gate to show.
    #[error("{target} is no Overtake: {reason}")]
    Foreign {
        /// Where.
        target: String,
        /// What it said.
        reason: String,
    },
    /// The connection was lost, or a view could not be read.
    #[error("{0}")]
    Lost(String),
    /// The terminal, or standard output.
    #[error("cannot show it: {0}")]
    Output(#[from] std::io::Error),
}

/// What PostgreSQL's errors say, or the driver's with its cause.
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
