//! What can go wrong, one variant for each *reaction* of the caller.
//!
//! Invariant: a transaction that got a retryable error has no effect that anybody else can see, and the same transaction
//! run again from its start may succeed. Nothing here mentions SQL.

use crate::locks::{Waited, Wanted};
use std::sync::Arc;

/// The engine's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// [`Error::TransactionState`] where a transaction is needed.
pub(crate) const NO_TRANSACTION: &str = "there is no transaction in progress";
/// [`Error::TransactionState`] where none may be.
pub(crate) const IN_TRANSACTION: &str = "there is already a transaction in progress";
/// Reasons of [`Error::InvalidValue`] and [`Error::InvalidDefinition`] that have a code of their own.
pub(crate) const IS_NULL: &str = "null in a column that is not nullable";
pub(crate) const OUT_OF_RANGE: &str = "numeric value out of range";
pub(crate) const OTHER_TYPE: &str = "value of another type";
pub(crate) const TOO_WIDE: &str = "row too wide";
pub(crate) const TABLE_EXISTS: &str = "the table exists already";

/// Why a call did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Another transaction changed the row, or is changing it now. Run the transaction again.
    #[error("could not serialize access due to a concurrent change of {table}")]
    WriteConflict {
        /// The table of the row.
        table: String,
        /// True if a write met a row that is there no more.
        is_deleted: bool,
    },
    /// The commit would complete a dangerous structure of SERIALIZABLE transactions (see the module `serial`), or the
    /// snapshot does not see what refused a key, or a commit has taken away all rows of a table that is written to
    /// ([`crate::AtDecision::replaced`]). Run the transaction again.
    #[error("could not serialize access due to read/write dependencies among transactions")]
    SerializationFailure,
    /// The statement must wait for another transaction. Hand it on: the session undoes the statement, and submits it again
    /// when the wait is over. Nobody but a closure that a session runs ever meets it.
    #[error("the statement must wait for another transaction")]
    MustWait,
    /// This transaction and others waited for one another, and this one was chosen to give way. Run it again.
    /// The sessions of the circle, this one first: each waited for the next, and the last for this one.
    #[error("deadlock detected")]
    Deadlock(Arc<[Waited]>),
    /// Another transaction has the lock, and was not to be waited for, or not so long.
    #[error("could not obtain lock")]
    LockNotAvailable(Wanted),
    /// The statement was cancelled, or took longer than it may.
    #[error("canceling statement due to user request or timeout")]
    Cancelled,
    /// A statement before has failed: until the rollback, or the rollback to a savepoint, nothing else is done.
    #[error("current transaction is aborted, commands ignored until end of transaction block")]
    InFailedTransaction,
    /// The session has no open transaction, or has one where none may be.
    #[error("{0}")]
    TransactionState(&'static str),
    /// There is no such savepoint, or no more.
    #[error("savepoint does not exist")]
    NoSuchSavepoint,
    /// A more important transaction took a row from this one. Run the transaction again.
    #[error("transaction was aborted by a more important one")]
    Taken,
    /// A write in a transaction that was begun read-only.
    #[error("cannot execute a write in a read-only transaction")]
    ReadOnly,
    /// The key exists already.
    #[error("duplicate key value violates unique index {index} of {table}")]
    UniqueViolation {
        /// The table of the row.
        table: String,
        /// The unique index.
        index: String,
    },
    /// The row does not exist in what this transaction sees.
    #[error("row {row} of {table} does not exist")]
    NoSuchRow {
        /// The table that was asked.
        table: String,
        /// The row id asked for.
        row: u64,
    },
    /// A value that the column cannot hold, or the wrong number of values.
    #[error("invalid value for {place}: {why}")]
    InvalidValue {
        /// Table and column or index.
        place: String,
        /// What is wrong with it.
        why: String,
    },
    /// A table or an index definition that makes no sense, or a name that is taken.
    #[error("invalid definition of {name}: {why}")]
    InvalidDefinition {
        /// The name of the table.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// A limit of the engine was reached: too many transactions at once, too many commands, too wide a row.
    #[error("limit reached: {0}")]
    Limit(&'static str),
    /// The caller's own procedure asked for the rollback. Never retried.
    #[error("rolled back by the procedure")]
    RolledBack,
    /// A redo record that does not decode.
    #[error("corrupt redo record: {0}")]
    CorruptRedo(&'static str),
}

impl Error {
    /// Whether the same transaction, run again from its start, may succeed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::WriteConflict { .. } | Error::SerializationFailure | Error::Taken | Error::Deadlock(_) => true,
            Error::UniqueViolation { .. }
            | Error::NoSuchRow { .. }
            | Error::ReadOnly
            | Error::MustWait
            | Error::LockNotAvailable(_)
            | Error::Cancelled
            | Error::InFailedTransaction
            | Error::TransactionState(_)
            | Error::NoSuchSavepoint
            | Error::InvalidValue { .. }
            | Error::InvalidDefinition { .. }
            | Error::Limit(_)
            | Error::RolledBack
            | Error::CorruptRedo(_) => false,
        }
    }

    /// PostgreSQL's code for it.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            Error::WriteConflict { .. } | Error::SerializationFailure | Error::Taken => "40001",
            Error::Deadlock(_) => "40P01",
            Error::LockNotAvailable(_) => "55P03",
            Error::Cancelled => "57014",
            Error::InFailedTransaction => "25P02",
            Error::TransactionState(NO_TRANSACTION) => "25P01",
            Error::TransactionState(IN_TRANSACTION) => "25001",
            Error::TransactionState(_) => "25000",
            Error::NoSuchSavepoint => "3B001",
            Error::UniqueViolation { .. } => "23505",
            Error::ReadOnly => "25006",
            Error::InvalidValue { why, .. } => match why.as_str() {
                IS_NULL => "23502",
                OUT_OF_RANGE => "22003",
                OTHER_TYPE => "42804",
                TOO_WIDE => "54000",
                _ => "22000",
            },
            Error::InvalidDefinition { why, .. } if why == TABLE_EXISTS => "42P07",
            Error::InvalidDefinition { .. } => "42P16",
            Error::Limit(crate::limits::MEMORY) => "53200",
            Error::Limit(_) => "53400",
            Error::RolledBack => "40000",
            Error::NoSuchRow { .. } => "02000",
            Error::MustWait | Error::CorruptRedo(_) => "XX000",
        }
    }
}
