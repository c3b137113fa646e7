//! Statements of a script's steps.

use std::fmt;

/// An isolation level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// READ COMMITTED.
    ReadCommitted,
    /// REPEATABLE READ.
    RepeatableRead,
    /// SERIALIZABLE.
    Serializable,
}

impl Level {
    /// All levels, the weakest first.
    pub const ALL: [Level; 3] = [Level::ReadCommitted, Level::RepeatableRead, Level::Serializable];

    /// Returns the name of the level in scripts, and in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Level::ReadCommitted => "read committed",
            Level::RepeatableRead => "repeatable read",
            Level::Serializable => "serializable",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Priority class of a session, which PostgreSQL does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ScriptClass {
    /// Overtakes the others.
    High,
    /// The default.
    #[default]
    Normal,
    /// May wait for the others.
    Low,
}

/// Beginning of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Begin {
    /// Isolation level; `None`: the level under test.
    pub level: Option<Level>,
    /// Priority class.
    pub class: ScriptClass,
    /// True for READ ONLY.
    pub read_only: bool,
    /// True for DEFERRABLE.
    pub deferrable: bool,
}

/// Selection of rows of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Which {
    /// Keys of the rows.
    pub keys: Keys,
    /// Further condition on the rows.
    pub condition: Option<RowCondition>,
}

/// Selection of rows by a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// All rows, read as a table rather than by an index.
    All,
    /// The row with this primary key.
    One(i64),
    /// The primary keys from the first to the second, both included.
    Between(i64, i64),
    /// The rows whose indexed column lies between these, both included.
    By(usize, i64, i64),
}

/// A comparison of a column with a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowCondition {
    /// Position of the column.
    pub column: usize,
    /// Operator of the comparison.
    pub comparison: CompareOp,
    /// Number to compare with.
    pub value: i64,
}

impl RowCondition {
    /// Returns true if a column's value fulfils the condition.
    pub fn holds(self, value: Option<i64>) -> bool {
        value.is_some_and(|value| match self.comparison {
            CompareOp::Equal => value == self.value,
            CompareOp::NotEqual => value != self.value,
            CompareOp::Less => value < self.value,
            CompareOp::Greater => self.value < value,
        })
    }
}

/// Comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompareOp {
    /// `=`.
    Equal,
    /// `<>`.
    NotEqual,
    /// `<`.
    Less,
    /// `>`.
    Greater,
}

/// A column's new value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewValue {
    /// A constant.
    To(Option<i64>),
    /// The value of another column plus this number.
    Plus(usize, i64),
}

impl NewValue {
    /// Returns the new value for a row with these old values.
    pub fn value(self, row: &[Option<i64>]) -> Option<i64> {
        match self {
            NewValue::To(value) => value,
            NewValue::Plus(column, more) => row[column].map(|value| value + more),
        }
    }
}

/// The four row locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowLock {
    /// FOR KEY SHARE.
    KeyShare,
    /// FOR SHARE.
    Share,
    /// FOR NO KEY UPDATE.
    NoKeyUpdate,
    /// FOR UPDATE.
    Update,
}

/// Reaction to a lock that another transaction holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Waits for the lock.
    Block,
    /// NOWAIT.
    NoWait,
    /// SKIP LOCKED.
    SkipLocked,
}

/// The eight modes of a table lock, weakest first; [`ScriptStatement::LockTable`] has an index of this.
pub const TABLE_MODES: [&str; 8] = [
    "access share",
    "row share",
    "row exclusive",
    "share update exclusive",
    "share",
    "share row exclusive",
    "exclusive",
    "access exclusive",
];

/// Statement of a step. Tables and columns are given by position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptStatement {
    /// `begin [level L] [class C] [read only] [deferrable]`
    Begin(Begin),
    /// `read T ROWS [desc] [limit N] [for update|no key update|share|key share [nowait|skip locked]]`, where `ROWS` is
    /// `[KEY | LOW..HIGH | by COLUMN LOW..HIGH] [where COLUMN =|<>|<|> N]`. In key order.
    Read {
        /// Position of the table.
        table: usize,
        /// Selection of the rows.
        rows: Which,
        /// True for the greatest key first.
        backward: bool,
        /// Most rows to return.
        limit: Option<usize>,
        /// Lock to take on each row returned.
        lock: Option<(RowLock, Wait)>,
    },
    /// `insert T VALUE ...`
    Insert {
        /// Position of the table.
        table: usize,
        /// Values, one for each column.
        values: Vec<Option<i64>>,
    },
    /// `update T ROWS set COLUMN = N|COLUMN + N|COLUMN - N [, ...] [where ...]`
    Update {
        /// Position of the table.
        table: usize,
        /// Selection of the rows.
        rows: Which,
        /// Columns that change, with their new values.
        set: Vec<(usize, NewValue)>,
    },
    /// `delete T ROWS`
    Delete {
        /// Position of the table.
        table: usize,
        /// Selection of the rows.
        rows: Which,
    },
    /// `lock T MODE [nowait]`
    LockTable {
        /// Position of the table.
        table: usize,
        /// Position of the mode in [`TABLE_MODES`].
        mode: usize,
        /// Reaction to a conflicting lock.
        wait: Wait,
    },
    /// `savepoint NAME`
    Savepoint(String),
    /// `rollback to NAME`
    RollbackTo(String),
    /// `release NAME`
    Release(String),
    /// `commit`
    Commit,
    /// `rollback`
    Rollback,
}
