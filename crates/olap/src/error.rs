//! Errors, with one variant for each *reaction* of the caller.

use datafusion::error::DataFusionError;
use statement::{SqlError, SqlState};
use std::sync::Arc;
use tokio::task::JoinError;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Failure of a query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text cannot be planned: its author has to change it.
    #[error("{0}")]
    Statement(String),
    /// The data made the query fail, for instance by a division by zero.
    #[error("{0}")]
    Execution(String),
    /// The query was canceled.
    #[error("canceling statement due to user request")]
    Cancelled,
    /// The memory for queries, or the maximum number of rows, does not suffice.
    #[error("out of memory: {0}")]
    OutOfMemory(String),
    /// Bug in an operator: the query is lost, everything else goes on.
    #[error("panic in a query: {0}")]
    Panicked(String),
    /// The runtime stopped before the query ended.
    #[error("the runtime has stopped")]
    Stopped,
    /// The operating system refused a thread.
    #[error("cannot start a worker: {0}")]
    NoThread(String),
}

impl Error {
    /// Classifies the error of a run.
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

    /// Wraps a refusal by the binder or by the lowering.
    pub(crate) fn refused(error: SqlError) -> Error {
        let detail = error.detail_text().map(|detail| format!(": {detail}")).unwrap_or_default();
        Error::Statement(format!("{}{detail}", error.message()))
    }

    /// Classifies the error of planning.
    pub(crate) fn statement(error: DataFusionError) -> Error {
        Error::Statement(error.strip_backtrace())
    }

    /// Returns the text of a caught panic.
    pub(crate) fn panicked(payload: &(dyn std::any::Any + Send)) -> Error {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Error::Panicked(text.unwrap_or_else(|| "no message".to_owned()))
    }
}

/// Returns the error of a failed query for a session: that of our own kernels and scans, however it is wrapped; a lack
/// of memory; or an internal error. After an internal error the session runs the query by rows, which tells an error of
/// the data from a fault of analytics. So the log has the only trace of a fault.
pub(crate) fn sql_error(error: DataFusionError) -> SqlError {
    if let Some(own) = own_error(&error) {
        return own;
    }
    match Error::execution(error) {
        Error::OutOfMemory(detail) => SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
            .detail(with_holders(detail))
            .hint("Queries that run as analytics share the setting overtake.analytics_memory."),
        error => sql_error_of(error),
    }
}

/// Logs a failure for which our code has no error, and returns it as an internal error.
fn internal(error: &Error) -> SqlError {
    match error {
        Error::Panicked(_) => tracing::error!(%error, "an analytic query has panicked"),
        error => tracing::warn!(%error, "an analytic query has failed"),
    }
    SqlError::new(SqlState::INTERNAL_ERROR, error.to_string())
}

/// Returns the error of a run as [`sql_error`] does. Of the faults of the data, DataFusion's operators find one themselves: a
/// scalar subquery with a second row. `asks_for_one_row` is true if the query has one that may have it.
pub(crate) fn sql_error_of_run(error: DataFusionError, asks_for_one_row: bool) -> SqlError {
    let is_of_data = asks_for_one_row && matches!(error.find_root(), DataFusionError::Execution(_));
    if is_of_data && own_error(&error).is_none() {
        let message = "more than one row returned by a subquery used as an expression";
        return SqlError::new(SqlState::CARDINALITY_VIOLATION, message);
    }
    sql_error(error)
}

/// Returns the error of our own kernels and scans, however it is wrapped.
fn own_error(error: &DataFusionError) -> Option<SqlError> {
    let mut causes = std::iter::successors(Some(error as &dyn std::error::Error), |cause| cause.source());
    causes.find_map(|cause| match cause.downcast_ref::<SqlError>() {
        Some(own) => Some(own.clone()),
        None => cause.downcast_ref::<engine::Error>().map(|own| own.clone().into()),
    })
}

/// Returns the detail of DataFusion's memory error, with the holders of the memory, unless it is our own.
fn with_holders(detail: String) -> String {
    let holders = engine::memory::in_words();
    if detail.contains("tables and indexes") { detail } else { format!("{detail}. {holders}") }
}

/// Returns the error for a session.
pub(crate) fn sql_error_of(error: Error) -> SqlError {
    match error {
        Error::Cancelled => SqlError::from(engine::Error::Cancelled),
        Error::Stopped => {
            SqlError::new(SqlState::ADMIN_SHUTDOWN, "terminating connection due to administrator command")
        }
        Error::OutOfMemory(detail) => SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory").detail(detail),
        error => internal(&error),
    }
}
