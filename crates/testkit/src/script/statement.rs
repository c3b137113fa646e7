//! What a step can do.

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

    /// Its name in scripts, and in SQL.
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

/// How important a session is. PostgreSQL knows no such thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Class {
    /// Overtakes everything.
    High,
    /// Ordinary.
    #[default]
    Normal,
    /// May wait.
    Low,
}

/// How a transaction begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Begin {
    /// Its level; none: the one under test.
    pub level: Option<Level>,
    /// Its class.
    pub class: Class,
    /// READ ONLY.
    pub read_only: bool,
    /// DEFERRABLE.
    pub deferrable: bool,
}

/// Which rows of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Which {
    /// The keys.
    pub keys: Keys,
    /// What else must hold.
    pub condition: Option<Condition>,
}

/// Which keys.
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
pub struct Condition {
    /// The column.
    pub column: usize,
    /// How they compare.
    pub comparison: Comparison,
    /// The number.
    pub value: i64,
}

impl Condition {
    /// Whether a column's value fulfils it.
    pub fn holds(self, value: Option<i64>) -> bool {
        value.is_some_and(|value| match self.comparison {
            Comparison::Equal => value == self.value,
            Comparison::NotEqual => value != self.value,
            Comparison::Less => value < self.value,
            Comparison::Greater => self.value < value,
        })
    }
}

/// How two numbers compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
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
pub enum Set {
    /// This one.
    To(Option<i64>),
    /// This much more than another column has.
    Plus(usize, i64),
}

impl Set {
    /// The new value beside the row's old ones.
    pub fn value(self, row: &[Option<i64>]) -> Option<i64> {
        match self {
            Set::To(value) => value,
            Set::Plus(column, more) => row[column].map(|value| value + more),
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

/// What to do about a lock that another transaction has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Wait for it.
    Block,
    /// NOWAIT.
    NoWait,
    /// SKIP LOCKED.
    SkipLocked,
}

/// The eight modes of a table lock, weakest first; [`Statement::LockTable`] has an index of this.
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

/// What a step does. Tables and columns are positions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// `begin [level L] [class C] [read only] [deferrable]`
    Begin(Begin),
    /// `read T ROWS [desc] [limit N] [for update|no key update|share|key share [nowait|skip locked]]`, where `ROWS` is
    /// `[KEY | LOW..HIGH | by COLUMN LOW..HIGH] [where COLUMN =|<>|<|> N]`. In key order.
    Read {
        /// The table.
        table: usize,
        /// Its rows.
        rows: Which,
        /// Greatest key first.
        backward: bool,
        /// No more rows than this.
        limit: Option<usize>,
        /// The lock to take on each row returned.
        lock: Option<(RowLock, Wait)>,
    },
    /// `insert T VALUE ...`
    Insert {
        /// The table.
        table: usize,
        /// A value for each column.
        values: Vec<Option<i64>>,
    },
    /// `update T ROWS set COLUMN = N|COLUMN + N|COLUMN - N [, ...] [where ...]`
    Update {
        /// The table.
        table: usize,
        /// Its rows.
        rows: Which,
        /// The columns that change.
        set: Vec<(usize, Set)>,
    },
    /// `delete T ROWS`
    Delete {
        /// The table.
        table: usize,
        /// Its rows.
        rows: Which,
    },
    /// `lock T MODE [nowait]`
    LockTable {
        /// The table.
        table: usize,
        /// The mode's position in [`TABLE_MODES`].
        mode: usize,
        /// Whether to wait.
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
