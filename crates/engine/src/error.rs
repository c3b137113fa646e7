//! Errors, one variant for each *reaction* of the caller.
//!
//! **Invariant:** a transaction that got a retryable error has no effect that others can see, and the same transaction
//! run again from its start may succeed. Nothing here mentions SQL.

use crate::locks::{Waited, WantedLock};
use std::sync::Arc;

/// Result of a call of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reason of [`Error::InvalidValue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidValue {
    /// Null in a column that takes none.
    #[error("null in a column that is not nullable")]
    Null,
    /// Number outside of the column's range.
    #[error("numeric value out of range")]
    OutOfRange,
    /// Value of another type than the column's.
    #[error("value of another type")]
    OtherType,
    /// Row that is too wide to be changed.
    #[error("row too wide")]
    RowTooWide,
    /// Wrong number of values for the row or the key.
    #[error("wrong number of values")]
    WrongCount,
    /// Column that the table does not have.
    #[error("there is no such column")]
    NoSuchColumn,
    /// Key of a row that must exist and does not.
    #[error("there is no such row")]
    NoSuchRow,
}

/// Reason of [`Error::InvalidDefinition`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDefinition {
    /// A table has this name already.
    #[error("the table exists already")]
    TableExists,
    /// Table without a name.
    #[error("a table needs a name")]
    NoName,
    /// Number of columns above this limit.
    #[error("a table has at most {0} columns")]
    ManyColumns(usize),
    /// Column at this position without a name.
    #[error("column {0} needs a name")]
    UnnamedColumn(usize),
    /// Two columns of this name.
    #[error("two columns are called {0}")]
    SameColumn(String),
    /// Decimal that no number fits.
    #[error("decimal({precision}, {scale}) of {column} is impossible")]
    Decimal {
        /// Name of the column.
        column: String,
        /// Digits.
        precision: u8,
        /// Digits behind the point.
        scale: i8,
    },
    /// Number of indexes above this limit.
    #[error("a table has at most {0} indexes")]
    ManyIndexes(usize),
    /// Index at this position without a name.
    #[error("index {0} needs a name")]
    UnnamedIndex(usize),
    /// Two indexes of this name.
    #[error("two indexes are called {0}")]
    SameIndex(String),
    /// Index over no column, or over too many.
    #[error("index {index} must have 1 to {most} columns")]
    IndexWidth {
        /// Name of the index.
        index: String,
        /// Greatest number of columns.
        most: usize,
    },
    /// Index of this name over a column that the table does not have.
    #[error("index {0} names a column that does not exist")]
    IndexColumn(String),
}

/// Reason of [`Error::TransactionState`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransactionState {
    /// No transaction is open where one is needed.
    #[error("there is no transaction in progress")]
    None,
    /// A transaction is open where none may be.
    #[error("there is already a transaction in progress")]
    Open,
}

/// Limit of the engine, for [`Error::Limit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Limit {
    /// Memory of the process.
    #[error("memory")]
    Memory,
    /// Transactions open at once.
    #[error("transactions open at once")]
    Transactions,
    /// Snapshots open at once.
    #[error("snapshots registered at once")]
    Snapshots,
    /// Dead versions that open snapshots keep.
    #[error("dead versions kept for open snapshots")]
    Versions,
    /// Locks and waits at once.
    #[error("locks and waits at once")]
    Locks,
    /// Commands of one transaction.
    #[error("commands of one transaction")]
    Commands,
    /// Tables ever created.
    #[error("tables ever created")]
    Tables,
}

/// Reason why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Write conflict: another transaction changed the row, or is changing it now. Run the transaction again.
    #[error("could not serialize access due to a concurrent change of {table}")]
    WriteConflict {
        /// Table of the row.
        table: String,
        /// True if a write met a row that is deleted.
        is_deleted: bool,
    },
    /// The commit would complete a dangerous structure of SERIALIZABLE transactions (see the module `serial`), or the
    /// snapshot does not see what refused a key, or a commit has taken away all rows of a table that is written to
    /// ([`crate::AtDecision::replaced`]). Run the transaction again.
    #[error("could not serialize access due to read/write dependencies among transactions")]
    SerializationFailure,
    /// The statement must wait for another transaction. Pass it on: the session undoes the statement, and submits it
    /// again when the wait is over. Only a closure that a session runs ever meets it.
    #[error("the statement must wait for another transaction")]
    MustWait,
    /// Deadlock: this transaction and others waited for one another, and this one was chosen as the victim. Run it
    /// again. The sessions of the cycle, this one first: each waited for the next, and the last for this one.
    #[error("deadlock detected")]
    Deadlock(Arc<[Waited]>),
    /// Lock that another transaction has, and that the statement was not to wait for, or not so long.
    #[error("could not obtain lock")]
    LockNotAvailable(WantedLock),
    /// The statement was cancelled, or took longer than it may.
    #[error("canceling statement due to user request or timeout")]
    Cancelled,
    /// A statement before has failed: until the rollback, or the rollback to a savepoint, no other statement runs.
    #[error("current transaction is aborted, commands ignored until end of transaction block")]
    InFailedTransaction,
    /// The session has no open transaction, or has one where none may be.
    #[error("{0}")]
    TransactionState(TransactionState),
    /// Savepoint that does not exist, or no more.
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
        /// Table of the row.
        table: String,
        /// Unique index.
        index: String,
    },
    /// The row does not exist in the transaction's snapshot.
    #[error("row {row} of {table} does not exist")]
    NoSuchRow {
        /// Table that was asked.
        table: String,
        /// Row id asked for.
        row: u64,
    },
    /// A command nested in this one has changed the row already.
    #[error("a row of {table} was changed by a command within this one")]
    ChangedWithin {
        /// Table of the row.
        table: String,
        /// True if this command deletes the row.
        deletes: bool,
    },
    /// A change of rows by the closure that decides on a change ([`crate::Txn::update_if`], [`crate::Txn::delete_if`]).
    #[error("a change of rows while a row is being changed")]
    WithinChange,
    /// A value that the column cannot hold, or the wrong number of values.
    #[error("invalid value for {place}: {why}")]
    InvalidValue {
        /// Table and column or index.
        place: String,
        /// Reason.
        why: InvalidValue,
    },
    /// A table or an index definition that makes no sense, or a name that is taken.
    #[error("invalid definition of {name}: {why}")]
    InvalidDefinition {
        /// Name of the table.
        name: String,
        /// Reason.
        why: InvalidDefinition,
    },
    /// A limit of the engine was reached: too many transactions at once, too many commands, too wide a row.
    #[error("limit reached: {0}")]
    Limit(Limit),
    /// The caller's own procedure asked for the rollback. Never retried.
    #[error("rolled back by the procedure")]
    RolledBack,
    /// A redo record that does not decode.
    #[error("corrupt redo record: {0}")]
    CorruptRedo(&'static str),
}

impl Error {
    /// Returns true if the same transaction, run again from its start, may succeed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::WriteConflict { .. } | Error::SerializationFailure | Error::Taken | Error::Deadlock(_) => true,
            Error::UniqueViolation { .. }
            | Error::NoSuchRow { .. }
            | Error::ChangedWithin { .. }
            | Error::WithinChange
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
}
