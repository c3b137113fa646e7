//! What can go wrong, one variant for each *reaction* of the caller.

use datafusion::error::DataFusionError;
use statement::{SqlError, SqlState};
use std::sync::Arc;
use tokio::task::JoinError;

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a query gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text cannot be planned: its author must change it.
    #[error("{0}")]
    Statement(String),
    /// The data made it fail, for instance by a division by zero.
    #[error("{0}")]
    Execution(String),
    /// It was cancelled.
    #[error("canceling statement due to user request")]
    Cancelled,
    /// The runtime's memory for queries, or its limit on an answer's rows, does not suffice.
    #[error("out of memory: {0}")]
    OutOfMemory(String),
    /// A bug in an operator: the query is lost, all else goes on.
    #[error("panic in a query: {0}")]
    Panicked(String),
    /// The runtime stopped before the query ended.
    #[error("the runtime has stopped")]
    Stopped,
    /// The operating system gave no thread.
    #[error("cannot start a worker: {0}")]
    NoThread(String),
}

impl Error {
    /// What a failed run means to the caller.
    pub(crate) fn execution(error: DataFusionError) -> Error {
        // Operators that spawn tasks wrap the join error in their own ways, several deep.
        let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |cause| cause.source());
        for cause in causes {
            let shared = || cause.downcast_ref::<Arc<JoinError>>().map(Arc::as_ref);
            if let Some(join) = cause.downcast_ref::<JoinError>().or_else(shared) {
                return if join.is_panic() { Error::Panicked(join.to_string()) } else { Error::Stopped };
            }
        }
        match error.find_root() {
            DataFusionError::ResourcesExhausted(message) => Error::OutOfMemory(message.clone()),
            _ => Error::Execution(error.strip_backtrace()),
        }
    }

    /// What the binder, or the way from its plan to DataFusion's, refuses.
    pub(crate) fn refused(error: SqlError) -> Error {
        let detail = error.detail_text().map(|detail| format!(": {detail}")).unwrap_or_default();
        Error::Statement(format!("{}{detail}", error.message()))
    }

    /// What failed planning means to the caller.
    pub(crate) fn statement(error: DataFusionError) -> Error {
        Error::Statement(error.strip_backtrace())
    }

    /// The text of a caught panic.
    pub(crate) fn panicked(payload: &(dyn std::any::Any + Send)) -> Error {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Error::Panicked(text.unwrap_or_else(|| "no message".to_owned()))
    }
}

const TOO_MANY_ROWS: &str = "Scalar subquery returned more than one row";

/// What a session is told of a failed query: what our own kernels and scans said, wherever it is wrapped; everything else
/// is a fault of this program, but for memory.
pub(crate) fn sql_error(error: DataFusionError) -> SqlError {
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |cause| cause.source());
    for cause in causes {
        if let Some(own) = cause.downcast_ref::<SqlError>() {
            return own.clone();
        }
        if let Some(own) = cause.downcast_ref::<engine::Error>() {
            return own.clone().into();
        }
    }
    match Error::execution(error) {
        Error::OutOfMemory(detail) => SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
            .detail(with_holders(detail))
            .hint("Queries that run as analytics share the setting overtake.analytics_memory."),
        // All that DataFusion says of it is this text.
        Error::Execution(text) if text.contains(TOO_MANY_ROWS) => {
            let message = "more than one row returned by a subquery used as an expression";
            SqlError::new(SqlState::CARDINALITY_VIOLATION, message)
        }
        other => SqlError::new(SqlState::INTERNAL_ERROR, other.to_string()),
    }
}

/// What DataFusion says when its pool is used up, with who holds the memory, unless that is what it was told.
fn with_holders(detail: String) -> String {
    let holders = engine::memory::in_words();
    if detail.contains("tables and indexes") { detail } else { format!("{detail}. {holders}") }
}

/// As a session is told of it.
pub(crate) fn sql_error_of(error: Error) -> SqlError {
    match error {
        Error::Cancelled => SqlError::from(engine::Error::Cancelled),
        Error::Stopped => {
            SqlError::new(SqlState::ADMIN_SHUTDOWN, "terminating connection due to administrator command")
        }
        Error::OutOfMemory(detail) => SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory").detail(detail),
        other => SqlError::new(SqlState::INTERNAL_ERROR, other.to_string()),
    }
}
