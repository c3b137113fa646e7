//! A history: what committed and aborted transactions wrote and read.
//!
//! **Invariant:** the committed transactions stand in the order of their commits, and a key's versions in the order in
//! which they replaced each other. Version 0 of a key is what it was before the history began.

/// A position in [`History::txns`].
pub type TxnIndex = usize;

/// What happened.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// The transactions; the committed ones in the order of their commits.
    pub txns: Vec<Txn>,
    /// The versions of each key, oldest first, and as they were committed: intermediate ones are missing.
    pub keys: Vec<Vec<Version>>,
}

/// A transaction.
#[derive(Debug, Clone)]
pub struct Txn {
    /// How reports call it.
    pub name: String,
    /// How it ended.
    pub fate: Fate,
    /// What it read that it had not written itself.
    pub reads: Vec<Read>,
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Everything it did counts.
    Committed,
    /// Nothing it did ever happened.
    Aborted,
}

/// One state of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Who wrote it; nobody, if it was there before the history began.
    pub writer: Option<TxnIndex>,
    /// The row; none: the key is absent.
    pub content: Option<Content>,
}

/// A row, without its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// The column that has an index which is not unique.
    pub group: i64,
    /// Written once in the whole history.
    pub value: u64,
}

/// A read of one key. A range is a read of each key in it, found or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// The key: a position in [`History::keys`].
    pub key: usize,
    /// What it saw.
    pub seen: Seen,
    /// None: it returned the row. Else it looked for this and did not return the key, absent or not fulfilling it.
    pub missed: Option<Predicate>,
}

/// Which version a read saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The version at this position of the key's.
    At(usize),
    /// One that its writer replaced itself.
    Intermediate(TxnIndex),
    /// One whose writer aborted, or undid it.
    Undone(TxnIndex),
}

/// What a read looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Predicate {
    /// A key from the first to the second, both included.
    Keys(usize, usize),
    /// A group from the first to the second, both included.
    Groups(i64, i64),
}

impl Predicate {
    /// Whether a key in this state is one of those looked for.
    pub fn holds(self, key: usize, content: Option<Content>) -> bool {
        content.is_some_and(|content| match self {
            Predicate::Keys(low, high) => (low..=high).contains(&key),
            Predicate::Groups(low, high) => (low..=high).contains(&content.group),
        })
    }

    /// Whether a key could fulfil it at all.
    pub fn concerns(self, key: usize) -> bool {
        match self {
            Predicate::Keys(low, high) => (low..=high).contains(&key),
            Predicate::Groups(..) => true,
        }
    }
}

impl std::fmt::Display for Predicate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Predicate::Keys(low, high) if low == high => write!(f, "key {low}"),
            Predicate::Keys(low, high) => write!(f, "keys {low} to {high}"),
            Predicate::Groups(low, high) => write!(f, "groups {low} to {high}"),
        }
    }
}
