//! A history: the writes and reads of committed and aborted transactions.
//!
//! **Invariant:** the committed transactions stand in the order of their commits, and a key's versions in the order in
//! which they replaced each other. Version 0 of a key is its state before the history began.

/// Position in [`History::txns`].
pub type TxnIndex = usize;

/// History of transactions and of the versions that they wrote.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Transactions; the committed ones in the order of their commits.
    pub txns: Vec<Txn>,
    /// Versions of each key, oldest first, and as they were committed: intermediate ones are missing.
    pub keys: Vec<Vec<Version>>,
}

/// Transaction of a history.
#[derive(Debug, Clone)]
pub struct Txn {
    /// Name in reports.
    pub name: String,
    /// End of the transaction.
    pub fate: Fate,
    /// Reads of versions that the transaction had not written itself.
    pub reads: Vec<Read>,
}

/// End of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The transaction committed: all its effects count.
    Committed,
    /// The transaction aborted: none of its effects ever happened.
    Aborted,
}

/// State of a key between two writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Transaction that wrote the version, or none if the version was there before the history began.
    pub writer: Option<TxnIndex>,
    /// Row, or none if the key is absent.
    pub content: Option<Content>,
}

/// Row without its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// Column with an index that is not unique.
    pub group: i64,
    /// Value written once in the whole history.
    pub value: u64,
}

/// Read of one key. A range is a read of each key in it, found or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// Key, as a position in [`History::keys`].
    pub key: usize,
    /// Version that the read saw.
    pub seen: ReadVersion,
    /// None if the read returned the row. Otherwise the predicate of the read, which did not return the key because it
    /// was absent or did not fulfil the predicate.
    pub missed: Option<Predicate>,
}

/// Version that a read saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadVersion {
    /// Committed version at this position in the key's versions.
    At(usize),
    /// Version that its own writer replaced.
    Intermediate(TxnIndex),
    /// Version whose writer aborted, or undid it.
    Undone(TxnIndex),
}

/// Condition of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Predicate {
    /// Keys from the first to the second, both included.
    Keys(usize, usize),
    /// Groups from the first to the second, both included.
    Groups(i64, i64),
}

impl Predicate {
    /// Returns true if a key in this state fulfils the predicate.
    pub fn holds(self, key: usize, content: Option<Content>) -> bool {
        content.is_some_and(|content| match self {
            Predicate::Keys(low, high) => (low..=high).contains(&key),
            Predicate::Groups(low, high) => (low..=high).contains(&content.group),
        })
    }

    /// Returns true if a key could fulfil the predicate in some state.
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
