//! What a client is told when a statement fails, or is done but remarkable.
//!
//! **Invariant:** the code is PostgreSQL's (Appendix A of its manual), and so is the text where PostgreSQL has one.

use std::fmt;

/// A five-character SQLSTATE.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState(pub &'static str);

impl SqlState {
    /// `0A000`: what this server cannot do.
    pub const FEATURE_NOT_SUPPORTED: SqlState = SqlState("0A000");
    /// `22P02`: the text is no value of the type.
    pub const INVALID_TEXT_REPRESENTATION: SqlState = SqlState("22P02");
    /// `22P03`: the bytes are no value of the type.
    pub const INVALID_BINARY_REPRESENTATION: SqlState = SqlState("22P03");
    /// `22003`: out of range.
    pub const NUMERIC_VALUE_OUT_OF_RANGE: SqlState = SqlState("22003");
    /// `22008`: a date or time out of range.
    pub const DATETIME_FIELD_OVERFLOW: SqlState = SqlState("22008");
    /// `22007`: text that is no date or time.
    pub const INVALID_DATETIME_FORMAT: SqlState = SqlState("22007");
    /// `22012`: division by zero.
    pub const DIVISION_BY_ZERO: SqlState = SqlState("22012");
    /// `22001`: longer than the column allows.
    pub const STRING_DATA_RIGHT_TRUNCATION: SqlState = SqlState("22001");
    /// `22023`: an argument that the function does not take.
    pub const INVALID_PARAMETER_VALUE: SqlState = SqlState("22023");
    /// `42601`: not the grammar.
    pub const SYNTAX_ERROR: SqlState = SqlState("42601");
    /// `42883`: no such function or operator.
    pub const UNDEFINED_FUNCTION: SqlState = SqlState("42883");
    /// `42725`: more than one function or operator would do.
    pub const AMBIGUOUS_FUNCTION: SqlState = SqlState("42725");
    /// `42846`: no such cast.
    pub const CANNOT_COERCE: SqlState = SqlState("42846");
    /// `42804`: types that do not go together.
    pub const DATATYPE_MISMATCH: SqlState = SqlState("42804");
    /// `42704`: no such type, role or setting.
    pub const UNDEFINED_OBJECT: SqlState = SqlState("42704");
    /// `53200`: too much memory.
    pub const OUT_OF_MEMORY: SqlState = SqlState("53200");
    /// `54000`: longer or larger than any value may be.
    pub const PROGRAM_LIMIT_EXCEEDED: SqlState = SqlState("54000");
    /// `54001`: nested too deeply.
    pub const STATEMENT_TOO_COMPLEX: SqlState = SqlState("54001");
    /// `42P01`: no such table.
    pub const UNDEFINED_TABLE: SqlState = SqlState("42P01");
    /// `42703`: no such column.
    pub const UNDEFINED_COLUMN: SqlState = SqlState("42703");
    /// `42702`: a column of more than one table.
    pub const AMBIGUOUS_COLUMN: SqlState = SqlState("42702");
    /// `42P09`: a name that means two tables of a FROM.
    pub const AMBIGUOUS_ALIAS: SqlState = SqlState("42P09");
    /// `42P07`: the table exists.
    pub const DUPLICATE_TABLE: SqlState = SqlState("42P07");
    /// `42701`: the column is there twice.
    pub const DUPLICATE_COLUMN: SqlState = SqlState("42701");
    /// `42712`: two tables of one FROM have one name.
    pub const DUPLICATE_ALIAS: SqlState = SqlState("42712");
    /// `42803`: a column that is neither grouped nor aggregated.
    pub const GROUPING_ERROR: SqlState = SqlState("42803");
    /// `42P18`: a parameter of no type.
    pub const INDETERMINATE_DATATYPE: SqlState = SqlState("42P18");
    /// `42622`: a name that is cut.
    pub const NAME_TOO_LONG: SqlState = SqlState("42622");
    /// `42P02`: no such parameter.
    pub const UNDEFINED_PARAMETER: SqlState = SqlState("42P02");
    /// `42P16`: a table that cannot be.
    pub const INVALID_TABLE_DEFINITION: SqlState = SqlState("42P16");
    /// `42P17`: a definition that leads back to itself.
    pub const INVALID_OBJECT_DEFINITION: SqlState = SqlState("42P17");
    /// `3F000`: no such schema.
    pub const INVALID_SCHEMA_NAME: SqlState = SqlState("3F000");
    /// `23502`: null where none may be.
    pub const NOT_NULL_VIOLATION: SqlState = SqlState("23502");
    /// `21000`: more than one row where one is needed.
    pub const CARDINALITY_VIOLATION: SqlState = SqlState("21000");
    /// `2201W`: a negative LIMIT.
    pub const INVALID_ROW_COUNT_IN_LIMIT: SqlState = SqlState("2201W");
    /// `2201X`: a negative OFFSET.
    pub const INVALID_ROW_COUNT_IN_OFFSET: SqlState = SqlState("2201X");
    /// `42P10`: no such column of the result.
    pub const INVALID_COLUMN_REFERENCE: SqlState = SqlState("42P10");
    /// `42809`: the wrong sort of thing.
    pub const WRONG_OBJECT_TYPE: SqlState = SqlState("42809");
    /// `3B001`: no such savepoint.
    pub const INVALID_SAVEPOINT_SPECIFICATION: SqlState = SqlState("3B001");
    /// `55P02`: a setting that cannot be changed now.
    pub const CANT_CHANGE_RUNTIME_PARAM: SqlState = SqlState("55P02");
    /// `08P01`: the client broke the protocol.
    pub const PROTOCOL_VIOLATION: SqlState = SqlState("08P01");
    /// `25P01`: no transaction is open.
    pub const NO_ACTIVE_SQL_TRANSACTION: SqlState = SqlState("25P01");
    /// `25001`: one is open.
    pub const ACTIVE_SQL_TRANSACTION: SqlState = SqlState("25001");
    /// `57014`: somebody, or a timeout, has ended it.
    pub const QUERY_CANCELED: SqlState = SqlState("57014");
    /// `25P02`: one is open and has failed.
    pub const IN_FAILED_SQL_TRANSACTION: SqlState = SqlState("25P02");
    /// `XX000`: a fault of this program.
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

/// An error as the wire carries it. Boxed: the good case carries a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError(Box<Parts>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    state: SqlState,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
    /// 0: none, whatever is known of it later.
    position: Option<usize>,
    context: Option<String>,
    about: Option<Box<About>>,
    /// What the engine said, for whoever must act on it.
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

/// What an error is about, for programs that would not like to read its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The schema of the table.
    pub schema: String,
    /// The table.
    pub table: String,
    /// Its column.
    pub column: Option<String>,
    /// Its constraint.
    pub constraint: Option<String>,
}

/// The result of most of this crate.
pub type SqlResult<T> = Result<T, SqlError>;

impl SqlError {
    /// An error with this code and message.
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

    /// `53200`: the process holds as much as it may.
    pub fn no_room() -> SqlError {
        SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
            .detail(engine::memory::in_words())
            .hint("Delete rows or drop tables, or raise overtake.memory.")
            .nowhere()
    }

    /// Tells whether `more` bytes fit into what the process may hold.
    ///
    /// # Errors
    /// [`SqlError::no_room`]
    pub fn check_room(more: usize) -> SqlResult<()> {
        crate::pulse::check_room(more)
    }

    /// `40001`: somebody has changed what the transaction's snapshot sees in another state.
    pub fn changed_since() -> SqlError {
        SqlError::new(SqlState("40001"), "could not serialize access due to concurrent update")
    }

    /// `57014`: the statement was cancelled.
    pub fn cancelled(why: Cancellation) -> SqlError {
        let mut error = SqlError::new(SqlState::QUERY_CANCELED, format!("canceling statement due to {why}")).nowhere();
        error.0.cancelled = Some(why);
        error
    }

    /// Reason of a cancellation; `None` for other errors.
    pub fn cancellation(&self) -> Option<Cancellation> {
        self.0.cancelled
    }

    /// `0A000`: `what` is not supported.
    pub fn unsupported(what: impl fmt::Display) -> SqlError {
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{what} is not supported"))
    }

    /// With a detail: facts, a whole sentence.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> SqlError {
        self.0.detail = Some(detail.into());
        self
    }

    /// With another message.
    #[must_use]
    pub fn with_message(mut self, message: &str) -> SqlError {
        message.clone_into(&mut self.0.message);
        self
    }

    /// With a part of the message exchanged.
    #[must_use]
    pub fn replaced(mut self, from: &str, to: &str) -> SqlError {
        self.0.message = self.0.message.replacen(from, to, 1);
        self
    }

    /// With a hint: what to do, a whole sentence.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> SqlError {
        self.0.hint = Some(hint.into());
        self
    }

    /// Where in the statement's text, in characters, the first being 1. The first who says so is the most exact.
    #[must_use]
    pub fn at(mut self, position: usize) -> SqlError {
        self.0.position.get_or_insert(position);
        self
    }

    /// With its position moved by so many characters: the statement stands so far behind the begin of what the client sent.
    #[must_use]
    pub fn moved(mut self, by: usize) -> SqlError {
        if let Some(position) = self.0.position.as_mut().filter(|position| 0 < **position) {
            *position += by;
        }
        self
    }

    /// Without a position, now and later: PostgreSQL gives none.
    #[must_use]
    pub fn nowhere(mut self) -> SqlError {
        self.0.position = Some(0);
        self
    }

    /// Whether its position is settled.
    pub fn is_placed(&self) -> bool {
        self.0.position.is_some()
    }

    /// With where in the data, or in which function, it happened. The first who says so is the most exact.
    #[must_use]
    pub fn context(mut self, context: impl Into<String>) -> SqlError {
        self.0.context.get_or_insert_with(|| context.into());
        self
    }

    /// With the table that it is about. The first who says so is the most exact.
    #[must_use]
    pub fn about_table(mut self, schema: &str, table: &str) -> SqlError {
        let about = || About { schema: schema.to_owned(), table: table.to_owned(), ..About::default() };
        self.0.about.get_or_insert_with(|| Box::new(about()));
        self
    }

    /// With the column of that table.
    #[must_use]
    pub fn about_column(mut self, column: &str) -> SqlError {
        self.0.about.get_or_insert_default().column = Some(column.to_owned());
        self
    }

    /// With the constraint of that table.
    #[must_use]
    pub fn about_constraint(mut self, constraint: &str) -> SqlError {
        self.0.about.get_or_insert_default().constraint = Some(constraint.to_owned());
        self
    }

    /// What it is about.
    pub fn about(&self) -> Option<&About> {
        self.0.about.as_deref()
    }

    /// Its code.
    pub fn state(&self) -> SqlState {
        self.0.state
    }

    /// Its message.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Its detail.
    pub fn detail_text(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// Its hint.
    pub fn hint_text(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Its context.
    pub fn context_text(&self) -> Option<&str> {
        self.0.context.as_deref()
    }

    /// The engine's error that this one tells of.
    pub fn engine(&self) -> Option<&engine::Error> {
        self.0.engine.as_ref()
    }

    /// Its position.
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
    /// True if a more important transaction has aborted the statement's.
    pub fn is_preempted(&self) -> bool {
        self.engine() == Some(&engine::Error::Taken)
    }

    /// False if the statement was stopped, or is too large, whatever its names stand for.
    pub fn is_of_names(&self) -> bool {
        let state = self.state();
        state != SqlState::QUERY_CANCELED && state != SqlState::OUT_OF_MEMORY && !state.0.starts_with("54")
    }
}

impl std::error::Error for SqlError {}

/// SQLSTATE of an error of the engine.
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
