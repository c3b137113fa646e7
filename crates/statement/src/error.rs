//! Errors and notices that a client receives for a statement.
//!
//! **Invariant:** the code is PostgreSQL's (Appendix A of its manual), and so is the text where PostgreSQL has one.

use std::fmt;

/// A five-character SQLSTATE.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState(pub &'static str);

impl SqlState {
    /// `0A000`: not supported by this server.
    pub const FEATURE_NOT_SUPPORTED: SqlState = SqlState("0A000");
    /// `22P02`: the text is not a value of the type.
    pub const INVALID_TEXT_REPRESENTATION: SqlState = SqlState("22P02");
    /// `22P03`: the bytes are not a value of the type.
    pub const INVALID_BINARY_REPRESENTATION: SqlState = SqlState("22P03");
    /// `22003`: out of range.
    pub const NUMERIC_VALUE_OUT_OF_RANGE: SqlState = SqlState("22003");
    /// `22008`: a date or time is out of range.
    pub const DATETIME_FIELD_OVERFLOW: SqlState = SqlState("22008");
    /// `22007`: the text is not a date or time.
    pub const INVALID_DATETIME_FORMAT: SqlState = SqlState("22007");
    /// `22012`: division by zero.
    pub const DIVISION_BY_ZERO: SqlState = SqlState("22012");
    /// `22001`: the value is longer than the column allows.
    pub const STRING_DATA_RIGHT_TRUNCATION: SqlState = SqlState("22001");
    /// `22023`: the function does not accept the argument.
    pub const INVALID_PARAMETER_VALUE: SqlState = SqlState("22023");
    /// `42601`: the text does not match the grammar.
    pub const SYNTAX_ERROR: SqlState = SqlState("42601");
    /// `42883`: no such function or operator.
    pub const UNDEFINED_FUNCTION: SqlState = SqlState("42883");
    /// `42725`: more than one function or operator matches.
    pub const AMBIGUOUS_FUNCTION: SqlState = SqlState("42725");
    /// `42846`: no such cast.
    pub const CANNOT_COERCE: SqlState = SqlState("42846");
    /// `42804`: the types do not match.
    pub const DATATYPE_MISMATCH: SqlState = SqlState("42804");
    /// `42704`: no such type, role or setting.
    pub const UNDEFINED_OBJECT: SqlState = SqlState("42704");
    /// `53200`: too much memory.
    pub const OUT_OF_MEMORY: SqlState = SqlState("53200");
    /// `54000`: the value is longer or larger than any value may be.
    pub const PROGRAM_LIMIT_EXCEEDED: SqlState = SqlState("54000");
    /// `54001`: nested too deeply.
    pub const STATEMENT_TOO_COMPLEX: SqlState = SqlState("54001");
    /// `42P01`: no such table.
    pub const UNDEFINED_TABLE: SqlState = SqlState("42P01");
    /// `42703`: no such column.
    pub const UNDEFINED_COLUMN: SqlState = SqlState("42703");
    /// `42702`: more than one table has the column.
    pub const AMBIGUOUS_COLUMN: SqlState = SqlState("42702");
    /// `42P09`: the name stands for two tables of a FROM.
    pub const AMBIGUOUS_ALIAS: SqlState = SqlState("42P09");
    /// `42P07`: the table exists.
    pub const DUPLICATE_TABLE: SqlState = SqlState("42P07");
    /// `42701`: the column is given twice.
    pub const DUPLICATE_COLUMN: SqlState = SqlState("42701");
    /// `42712`: two tables of one FROM have the same name.
    pub const DUPLICATE_ALIAS: SqlState = SqlState("42712");
    /// `42803`: a column that is neither grouped nor aggregated.
    pub const GROUPING_ERROR: SqlState = SqlState("42803");
    /// `42P18`: the type of a parameter is unknown.
    pub const INDETERMINATE_DATATYPE: SqlState = SqlState("42P18");
    /// `42622`: the name is truncated.
    pub const NAME_TOO_LONG: SqlState = SqlState("42622");
    /// `42P02`: no such parameter.
    pub const UNDEFINED_PARAMETER: SqlState = SqlState("42P02");
    /// `42P16`: the definition of the table is invalid.
    pub const INVALID_TABLE_DEFINITION: SqlState = SqlState("42P16");
    /// `42P17`: the definition refers to itself.
    pub const INVALID_OBJECT_DEFINITION: SqlState = SqlState("42P17");
    /// `3F000`: no such schema.
    pub const INVALID_SCHEMA_NAME: SqlState = SqlState("3F000");
    /// `23502`: null in a column that does not allow it.
    pub const NOT_NULL_VIOLATION: SqlState = SqlState("23502");
    /// `21000`: more than one row where only one is allowed.
    pub const CARDINALITY_VIOLATION: SqlState = SqlState("21000");
    /// `2201W`: a negative LIMIT.
    pub const INVALID_ROW_COUNT_IN_LIMIT: SqlState = SqlState("2201W");
    /// `2201X`: a negative OFFSET.
    pub const INVALID_ROW_COUNT_IN_OFFSET: SqlState = SqlState("2201X");
    /// `42P10`: no such column of the result.
    pub const INVALID_COLUMN_REFERENCE: SqlState = SqlState("42P10");
    /// `42809`: the object is of the wrong kind.
    pub const WRONG_OBJECT_TYPE: SqlState = SqlState("42809");
    /// `3B001`: no such savepoint.
    pub const INVALID_SAVEPOINT_SPECIFICATION: SqlState = SqlState("3B001");
    /// `55P02`: the setting cannot be changed now.
    pub const CANT_CHANGE_RUNTIME_PARAM: SqlState = SqlState("55P02");
    /// `08P01`: the client violated the protocol.
    pub const PROTOCOL_VIOLATION: SqlState = SqlState("08P01");
    /// `25P01`: no transaction is open.
    pub const NO_ACTIVE_SQL_TRANSACTION: SqlState = SqlState("25P01");
    /// `25001`: a transaction is open.
    pub const ACTIVE_SQL_TRANSACTION: SqlState = SqlState("25001");
    /// `57014`: a cancel request or a timeout ended the statement.
    pub const QUERY_CANCELED: SqlState = SqlState("57014");
    /// `25P02`: the open transaction has failed.
    pub const IN_FAILED_SQL_TRANSACTION: SqlState = SqlState("25P02");
    /// `XX000`: internal error.
    pub const INTERNAL_ERROR: SqlState = SqlState("XX000");
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// An error as the wire carries it. Boxed, so that the good case carries only a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError(Box<Parts>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    state: SqlState,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
    /// Position in the text. 0 stands for no position, whatever is known of it later.
    position: Option<usize>,
    context: Option<String>,
    about: Option<Box<About>>,
    /// Error of the engine, for callers that must act on it.
    engine: Option<engine::Error>,
    cancelled: Option<Cancellation>,
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
pub struct About {
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
        SqlError(Box::new(Parts {
            state,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            context: None,
            about: None,
            engine: None,
            cancelled: None,
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
        SqlError::new(SqlState("40001"), "could not serialize access due to concurrent update")
    }

    /// Returns `57014`: the statement was cancelled.
    pub fn cancelled(why: Cancellation) -> SqlError {
        let mut error = SqlError::new(SqlState::QUERY_CANCELED, format!("canceling statement due to {why}")).nowhere();
        error.0.cancelled = Some(why);
        error
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

    /// Sets the table that the error is about. The first table set is kept, as it is the most exact.
    #[must_use]
    pub fn about_table(mut self, schema: &str, table: &str) -> SqlError {
        let about = || About { schema: schema.to_owned(), table: table.to_owned(), ..About::default() };
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
    pub fn about(&self) -> Option<&About> {
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
    SqlState(match error {
        Error::WriteConflict { .. } | Error::SerializationFailure | Error::Taken => "40001",
        Error::Deadlock(_) => "40P01",
        Error::LockNotAvailable(_) => "55P03",
        Error::Cancelled => "57014",
        Error::InFailedTransaction => "25P02",
        Error::TransactionState(TransactionState::None) => "25P01",
        Error::TransactionState(TransactionState::Open) => "25001",
        Error::NoSuchSavepoint => "3B001",
        Error::UniqueViolation { .. } => "23505",
        Error::ReadOnly => "25006",
        Error::InvalidValue { why, .. } => match why {
            InvalidValue::Null => "23502",
            InvalidValue::OutOfRange => "22003",
            InvalidValue::OtherType => "42804",
            InvalidValue::RowTooWide => "54000",
            InvalidValue::WrongCount | InvalidValue::NoSuchColumn | InvalidValue::NoSuchRow => "22000",
        },
        Error::InvalidDefinition { why: InvalidDefinition::TableExists, .. } => "42P07",
        Error::InvalidDefinition { .. } => "42P16",
        Error::Limit(Limit::Memory) => "53200",
        Error::Limit(_) => "53400",
        Error::RolledBack => "40000",
        Error::NoSuchRow { .. } => "02000",
        Error::MustWait | Error::CorruptRedo(_) => "XX000",
    })
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
        if told.state() == SqlState::OUT_OF_MEMORY {
            told = SqlError::no_room();
        }
        told.0.engine = Some(error);
        told
    }
}
