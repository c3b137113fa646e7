//! Commands: transactions, settings, prepared statements, cursors, COPY, EXPLAIN, maintenance.

use super::{Expr, Name, ObjectName, Query, Statement, TableItem, TypeName};
use crate::lex::Span;

/// Begin, end or mark of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum TransactionCommand {
    /// `BEGIN`, or `START TRANSACTION` if `is_start`.
    Begin {
        /// Modes in order.
        modes: Vec<TransactionMode>,
        /// True for `START TRANSACTION`.
        is_start: bool,
    },
    /// `COMMIT` or `END`
    Commit {
        /// True with `AND CHAIN`.
        is_chained: bool,
    },
    /// `ROLLBACK` or `ABORT`
    Rollback {
        /// True with `AND CHAIN`.
        is_chained: bool,
    },
    /// `SAVEPOINT`
    Savepoint(Name),
    /// `RELEASE SAVEPOINT`
    Release(Name),
    /// `ROLLBACK TO SAVEPOINT`
    RollbackTo(Name),
}

/// Mode of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum TransactionMode {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
    ReadOnly,
    ReadWrite,
    Deferrable,
    NotDeferrable,
}

/// `SET`
#[derive(Clone, Debug, PartialEq)]
pub struct SetCommand {
    /// True with `LOCAL`.
    pub is_local: bool,
    /// Target of the command.
    pub target: SetTarget,
}

/// Target of a `SET`, with its value.
#[derive(Clone, Debug, PartialEq)]
pub enum SetTarget {
    /// Setting; without values it gets its default.
    Setting(ObjectName, Vec<SetValue>),
    /// `SET … FROM CURRENT`
    FromCurrent(ObjectName),
    /// `SET TRANSACTION`
    Transaction(Vec<TransactionMode>),
    /// `SET SESSION CHARACTERISTICS AS TRANSACTION`
    Characteristics(Vec<TransactionMode>),
    /// `SET TIME ZONE`; without a value it is the default.
    TimeZone(Option<ZoneValue>),
}

/// Value of `SET TIME ZONE`.
#[derive(Clone, Debug, PartialEq)]
pub enum ZoneValue {
    /// Name, or hours.
    Value(SetValue),
    /// Interval.
    Interval(Expr),
}

/// Value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetValue {
    /// Word or text.
    Text(Box<str>),
    /// Number as it is written, with its sign.
    Number(Box<str>),
}

/// `SHOW` and `RESET`: one setting, or all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingName {
    /// All settings.
    All,
    /// Setting of this name.
    Named(ObjectName),
}

/// `DISCARD`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum DiscardTarget {
    All,
    Plans,
    Sequences,
    Temporary,
}

/// `PREPARE`
#[derive(Clone, Debug, PartialEq)]
pub struct PrepareCommand {
    /// Name of the prepared statement.
    pub name: Name,
    /// Types of its parameters.
    pub types: Vec<TypeName>,
    /// Statement.
    pub statement: Statement,
}

/// `EXECUTE`
#[derive(Clone, Debug, PartialEq)]
pub struct ExecuteCommand {
    /// Name of the prepared statement.
    pub name: Name,
    /// Values of its parameters.
    pub values: Vec<Expr>,
}

/// `DECLARE`
#[derive(Clone, Debug, PartialEq)]
pub struct DeclareCommand {
    /// Name of the cursor.
    pub name: Name,
    /// True with `BINARY`.
    pub is_binary: bool,
    /// `ASENSITIVE` or `INSENSITIVE`, if one is given: true for the second.
    pub is_insensitive: Option<bool>,
    /// `SCROLL` or `NO SCROLL`, if one is given.
    pub scrolls: Option<bool>,
    /// True with `WITH HOLD`.
    pub is_held: bool,
    /// Query.
    pub query: Query,
}

/// `FETCH`, or `MOVE` if `is_move`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchCommand {
    /// Name of the cursor.
    pub name: Name,
    /// Rows to fetch.
    pub direction: FetchDirection,
    /// True for `MOVE`.
    pub is_move: bool,
}

/// Rows that a FETCH returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchDirection {
    /// This many rows on.
    Forward(i64),
    /// All rows that are left.
    ForwardAll,
    /// This many rows back.
    Backward(i64),
    /// All rows back to the first.
    BackwardAll,
    /// Row of this number, from the end if it is negative.
    Absolute(i64),
    /// Row this far from the one that the cursor is at.
    Relative(i64),
}

/// `COPY`
#[derive(Clone, Debug, PartialEq)]
pub struct CopyCommand {
    /// Source or target of the rows.
    pub of: CopyOf,
    /// True for `COPY … FROM`.
    pub is_from: bool,
    /// Place of the data.
    pub place: CopyPlace,
    /// Options in order, of either syntax.
    pub options: Vec<CommandOption>,
    /// Condition of the rows that are taken.
    pub condition: Option<Expr>,
}

/// Rows of a COPY.
#[derive(Clone, Debug, PartialEq)]
pub enum CopyOf {
    /// Table, with the columns that are named.
    Table(ObjectName, Vec<Name>),
    /// Statement with rows.
    Statement(Box<Statement>),
}

/// Place of a COPY's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyPlace {
    /// The client.
    Client,
    /// File of the server.
    File(Box<str>),
    /// Program of the server.
    Program(Box<str>),
}

/// Option of a command: a name, perhaps with a value.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandOption {
    /// Name in lower case.
    pub name: Name,
    /// Value.
    pub value: Option<OptionValue>,
}

/// Value of an option.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// Word or text.
    Text(Box<str>),
    /// Number as it is written, with its sign.
    Number(Box<str>),
    /// `*`
    Star,
    /// Values in parentheses.
    List(Vec<Box<str>>),
}

/// `EXPLAIN`
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainCommand {
    /// Options in order, of either syntax.
    pub options: Vec<CommandOption>,
    /// Statement.
    pub statement: Statement,
}

/// `LOCK TABLE`
#[derive(Clone, Debug, PartialEq)]
pub struct LockCommand {
    /// Tables.
    pub tables: Vec<TableItem>,
    /// Mode.
    pub mode: TableLockMode,
    /// True with `NOWAIT`.
    pub no_wait: bool,
}

/// Mode of a table's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum TableLockMode {
    AccessShare,
    RowShare,
    RowExclusive,
    ShareUpdateExclusive,
    Share,
    ShareRowExclusive,
    Exclusive,
    AccessExclusive,
}

/// `VACUUM`, `ANALYZE`, `CLUSTER`, `REINDEX`, `CHECKPOINT`.
#[derive(Clone, Debug, PartialEq)]
pub struct MaintenanceCommand {
    /// Command.
    pub kind: MaintenanceKind,
    /// Options in order, of either syntax.
    pub options: Vec<CommandOption>,
    /// Tables, indexes or others, with the columns that are named.
    pub targets: Vec<(ObjectName, Vec<Name>)>,
    /// Index of `CLUSTER … USING`.
    pub index: Option<Name>,
}

/// Command of maintenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum MaintenanceKind {
    Vacuum,
    Analyze,
    Cluster,
    Checkpoint,
    ReindexTable,
    ReindexIndex,
    ReindexSchema,
    ReindexDatabase,
    ReindexSystem,
}

/// `SET CONSTRAINTS`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConstraintsCommand {
    /// Constraints; all if none are named.
    pub names: Vec<ObjectName>,
    /// True for `DEFERRED`.
    pub is_deferred: bool,
}

/// Statement of PostgreSQL that is not supported here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedStatement {
    /// Name of the feature.
    pub feature: Box<str>,
    /// Place of the statement.
    pub span: Span,
}
