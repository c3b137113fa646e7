//! Errors and notices that a client receives for a statement.
//!
//! **Invariant:** the code is PostgreSQL's (Appendix A of its manual), and so is the text where PostgreSQL has one.

pub use crate::state::SqlState;
use std::fmt;

/// An error as the wire carries it. Boxed, so that the good case carries only a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError(Box<ErrorParts>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct ErrorParts {
    state: SqlState,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
    /// Position in the text. 0 stands for no position, whatever is known of it later.
    position: Option<usize>,
    context: Option<String>,
    about: Option<Box<ErrorObjects>>,
    /// Error of the engine, for callers that must act on it.
    engine: Option<engine::Error>,
    cancelled: Option<Cancellation>,
    again: Option<RetryReason>,
}

/// Reason why a statement begins anew. An error with one never leaves its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryReason {
    /// The catalog has changed since the statement was bound.
    Moved,
    /// A definition has locked a table, and its snapshot may be older than the lock.
    Locked,
    /// A procedure ends the transaction, which is not possible while a statement of the engine runs.
    EndsTransaction,
}

/// Reason of a `57014`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancellation {
    /// A cancel request.
    UserRequest,
    /// `statement_timeout`
    StatementTimeout,
}

impl fmt::Display for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cancellation::UserRequest => "user request",
            Cancellation::StatementTimeout => "statement timeout",
        })
    }
}

/// Objects that an error is about, for programs that do not want to parse its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorObjects {
    /// Schema of the table.
    pub schema: String,
    /// Name of the table.
    pub table: String,
    /// Column of the table.
    pub column: Option<String>,
    /// Constraint of the table.
    pub constraint: Option<String>,
}

/// Result of most functions of this crate.
pub type SqlResult<T> = Result<T, SqlError>;

impl SqlError {
    /// Creates an error with this code and message.
    pub fn new(state: SqlState, message: impl Into<String>) -> SqlError {
        SqlError(Box::new(ErrorParts {
            state,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            context: None,
            about: None,
            engine: None,
            cancelled: None,
            again: None,
        }))
    }

    /// Returns `53200`: the process holds as much memory as it may.
    pub fn no_room() -> SqlError {
        SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
            .detail(engine::memory::in_words())
            .hint("Delete rows or drop tables, or raise overtake.memory.")
            .nowhere()
    }

    /// Returns an error if `more` bytes do not fit into what the process may hold.
    ///
    /// # Errors
    /// [`SqlError::no_room`]
    pub fn check_room(more: usize) -> SqlResult<()> {
        crate::pulse::check_room(more)
    }

    /// Returns `40001`: another transaction has changed rows that the snapshot sees in an older state.
    pub fn changed_since() -> SqlError {
        SqlError::new(SqlState::SERIALIZATION_FAILURE, "could not serialize access due to concurrent update")
    }

    /// Returns `57014`: the statement was cancelled.
    pub fn cancelled(why: Cancellation) -> SqlError {
        let mut error = SqlError::new(SqlState::QUERY_CANCELED, format!("canceling statement due to {why}")).nowhere();
        error.0.cancelled = Some(why);
        error
    }

    /// Creates the error of a statement that begins anew.
    pub fn again(why: RetryReason) -> SqlError {
        let mut error = SqlError::new(SqlState::INTERNAL_ERROR, "a statement that begins anew").nowhere();
        error.0.again = Some(why);
        error
    }

    /// Returns the reason why the statement begins anew, if it does.
    pub fn begins_again(&self) -> Option<RetryReason> {
        self.0.again
    }

    /// Returns the reason of a cancellation, and `None` for other errors.
    pub fn cancellation(&self) -> Option<Cancellation> {
        self.0.cancelled
    }

    /// Returns `0A000`: `what` is not supported.
    pub fn unsupported(what: impl fmt::Display) -> SqlError {
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{what} is not supported"))
    }

    /// Sets the detail: facts, in a whole sentence.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> SqlError {
        self.0.detail = Some(detail.into());
        self
    }

    /// Replaces the message.
    #[must_use]
    pub fn with_message(mut self, message: &str) -> SqlError {
        message.clone_into(&mut self.0.message);
        self
    }

    /// Replaces the first occurrence of `from` in the message.
    #[must_use]
    pub fn replaced(mut self, from: &str, to: &str) -> SqlError {
        self.0.message = self.0.message.replacen(from, to, 1);
        self
    }

    /// Sets the hint: what to do, in a whole sentence.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> SqlError {
        self.0.hint = Some(hint.into());
        self
    }

    /// Sets the position in the statement's text, in characters from 1. The first position set is
    /// kept, as it is the most exact.
    #[must_use]
    pub fn at(mut self, position: usize) -> SqlError {
        self.0.position.get_or_insert(position);
        self
    }

    /// Moves the position by so many characters, by which the statement begins after the start of what the client sent.
    #[must_use]
    pub fn moved(mut self, by: usize) -> SqlError {
        if let Some(position) = self.0.position.as_mut().filter(|position| 0 < **position) {
            *position += by;
        }
        self
    }

    /// Removes the position for good, for errors for which PostgreSQL gives none.
    #[must_use]
    pub fn nowhere(mut self) -> SqlError {
        self.0.position = Some(0);
        self
    }

    /// Returns true if the position is settled.
    pub fn is_placed(&self) -> bool {
        self.0.position.is_some()
    }

    /// Sets the context: where in the data, or in which function, the error happened. The first context set is
    /// kept, as it is the most exact.
    #[must_use]
    pub fn context(mut self, context: impl Into<String>) -> SqlError {
        self.0.context.get_or_insert_with(|| context.into());
        self
    }

    /// Adds the context around the one that is set, as a line of its own: the call in which the error happened.
    #[must_use]
    pub fn within(mut self, context: impl AsRef<str>) -> SqlError {
        match &mut self.0.context {
            Some(inner) => {
                let inner = inner.clone();
                self.0.context = Some(format!("{inner}\n{}", context.as_ref()));
            }
            None => self.0.context = Some(context.as_ref().into()),
        }
        self
    }

    /// Sets the table that the error is about. The first table set is kept, as it is the most exact.
    #[must_use]
    pub fn about_table(mut self, schema: &str, table: &str) -> SqlError {
        let about = || ErrorObjects { schema: schema.to_owned(), table: table.to_owned(), ..ErrorObjects::default() };
        self.0.about.get_or_insert_with(|| Box::new(about()));
        self
    }

    /// Sets the column of that table.
    #[must_use]
    pub fn about_column(mut self, column: &str) -> SqlError {
        self.0.about.get_or_insert_default().column = Some(column.to_owned());
        self
    }

    /// Sets the constraint of that table.
    #[must_use]
    pub fn about_constraint(mut self, constraint: &str) -> SqlError {
        self.0.about.get_or_insert_default().constraint = Some(constraint.to_owned());
        self
    }

    /// Returns the objects that the error is about.
    pub fn about(&self) -> Option<&ErrorObjects> {
        self.0.about.as_deref()
    }

    /// Returns the SQLSTATE.
    pub fn state(&self) -> SqlState {
        self.0.state
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the detail.
    pub fn detail_text(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// Returns the hint.
    pub fn hint_text(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Returns the context.
    pub fn context_text(&self) -> Option<&str> {
        self.0.context.as_deref()
    }

    /// Returns the engine's error that this one reports.
    pub fn engine(&self) -> Option<&engine::Error> {
        self.0.engine.as_ref()
    }

    /// Returns the position, in characters from 1.
    pub fn position(&self) -> Option<usize> {
        self.0.position.filter(|position| 0 < *position)
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (SQLSTATE {})", self.0.message, self.0.state)
    }
}

impl SqlError {
    /// Returns true if a more important transaction has aborted the statement's.
    pub fn is_preempted(&self) -> bool {
        self.engine() == Some(&engine::Error::Taken)
    }

    /// Returns false if the statement was stopped or is too large, whatever its names stand for.
    pub fn is_of_names(&self) -> bool {
        let state = self.state();
        state != SqlState::QUERY_CANCELED && state != SqlState::OUT_OF_MEMORY && !state.0.starts_with("54")
    }
}

impl std::error::Error for SqlError {}

/// Returns the SQLSTATE of an error of the engine.
pub fn state_of(error: &engine::Error) -> SqlState {
    use engine::{Error, InvalidDefinition, InvalidValue, Limit, TransactionState};
    match error {
        Error::WriteConflict { .. } | Error::SerializationFailure | Error::Taken => SqlState::SERIALIZATION_FAILURE,
        Error::Deadlock(_) => SqlState::DEADLOCK_DETECTED,
        Error::LockNotAvailable(_) => SqlState::LOCK_NOT_AVAILABLE,
        Error::Cancelled => SqlState::QUERY_CANCELED,
        Error::InFailedTransaction => SqlState::IN_FAILED_SQL_TRANSACTION,
        Error::TransactionState(TransactionState::None) => SqlState::NO_ACTIVE_SQL_TRANSACTION,
        Error::TransactionState(TransactionState::Open) => SqlState::ACTIVE_SQL_TRANSACTION,
        Error::NoSuchSavepoint => SqlState::INVALID_SAVEPOINT_SPECIFICATION,
        Error::UniqueViolation { .. } => SqlState::UNIQUE_VIOLATION,
        Error::ReadOnly => SqlState::READ_ONLY_SQL_TRANSACTION,
        Error::InvalidValue { why, .. } => match why {
            InvalidValue::Null => SqlState::NOT_NULL_VIOLATION,
            InvalidValue::OutOfRange => SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            InvalidValue::OtherType => SqlState::DATATYPE_MISMATCH,
            InvalidValue::RowTooWide => SqlState::PROGRAM_LIMIT_EXCEEDED,
            InvalidValue::WrongCount | InvalidValue::NoSuchColumn | InvalidValue::NoSuchRow => SqlState::DATA_EXCEPTION,
        },
        Error::InvalidDefinition { why: InvalidDefinition::TableExists, .. } => SqlState::DUPLICATE_TABLE,
        Error::InvalidDefinition { .. } => SqlState::INVALID_TABLE_DEFINITION,
        Error::Limit(Limit::Memory) => SqlState::OUT_OF_MEMORY,
        Error::Limit(_) => SqlState::CONFIGURATION_LIMIT_EXCEEDED,
        Error::RolledBack => SqlState::TRANSACTION_ROLLBACK,
        Error::NoSuchRow { .. } => SqlState::NO_DATA,
        Error::ChangedWithin { .. } => SqlState::TRIGGERED_DATA_CHANGE,
        Error::WithinChange => SqlState::FEATURE_NOT_SUPPORTED,
        Error::MustWait | Error::CorruptRedo(_) => SqlState::INTERNAL_ERROR,
    }
}

impl From<engine::Error> for SqlError {
    fn from(error: engine::Error) -> SqlError {
        use engine::Error;
        if error == Error::Cancelled {
            let mut told = SqlError::cancelled(Cancellation::UserRequest);
            told.0.engine = Some(error);
            return told;
        }
        let message = match &error {
            Error::UniqueViolation { index, .. } => {
                format!("duplicate key value violates unique constraint \"{index}\"")
            }
            Error::WriteConflict { is_deleted: true, .. } => {
                "could not serialize access due to concurrent delete".to_owned()
            }
            Error::WriteConflict { .. } | Error::Taken => {
                "could not serialize access due to concurrent update".to_owned()
            }
            Error::ChangedWithin { deletes, .. } => {
                let verb = if *deletes { "deleted" } else { "updated" };
                format!("tuple to be {verb} was already modified by an operation triggered by the current command")
            }
            Error::WithinChange => {
                "a function that changes rows while its statement changes a row is not supported".to_owned()
            }
            Error::SerializationFailure => {
                "could not serialize access due to read/write dependencies among transactions".to_owned()
            }
            Error::Deadlock(_) => "deadlock detected".to_owned(),
            Error::InFailedTransaction => {
                "current transaction is aborted, commands ignored until end of transaction block".to_owned()
            }
            other => other.to_string(),
        };
        let mut told = SqlError::new(state_of(&error), message);
        if error == Error::Taken {
            told = told.detail("A more important transaction needed a row that this one held.");
        }
        if matches!(error, Error::ChangedWithin { .. }) {
            told = told.hint(
                "Consider using an AFTER trigger instead of a BEFORE trigger to propagate changes to other rows.",
            );
        }
        if told.state() == SqlState::OUT_OF_MEMORY {
            told = SqlError::no_room();
        }
        told.0.engine = Some(error);
        told
    }
}
