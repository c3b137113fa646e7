//! Parameters of a transaction's beginning: its class, its isolation, and whether it may write.

use stage::Class;

/// PostgreSQL's isolation levels. (READ UNCOMMITTED is READ COMMITTED there, too.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Isolation {
    /// Snapshot for each statement, of its beginning; a write meets the newest version.
    #[default]
    ReadCommitted,
    /// One snapshot for all statements, of the transaction's beginning.
    RepeatableRead,
    /// Committed transactions have the effect of some serial order.
    Serializable,
}

/// Parameters of a transaction's beginning: `Begin::new(class)` is READ COMMITTED and may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begin {
    pub(crate) class: Class,
    pub(crate) isolation: Isolation,
    pub(crate) read_only: bool,
    /// True while the transaction refuses writes, though it was not begun as READ ONLY.
    pub(crate) refuses_writes: bool,
    pub(crate) deferrable: bool,
}

impl Begin {
    /// Returns a READ COMMITTED transaction of this class: a more important transaction may take the rows of a less
    /// important one.
    pub const fn new(class: Class) -> Begin {
        Begin { class, isolation: Isolation::ReadCommitted, read_only: false, refuses_writes: false, deferrable: false }
    }

    /// Returns the class of the transaction.
    pub const fn class(&self) -> Class {
        self.class
    }

    /// Sets the isolation level.
    #[must_use]
    pub const fn isolation(self, isolation: Isolation) -> Begin {
        Begin { isolation, ..self }
    }

    /// Declares the transaction READ ONLY: every write is refused. A SERIALIZABLE one is then never refused at its
    /// commit, at some cost to those that write beside it (see the module `serial`).
    #[must_use]
    pub const fn read_only(self) -> Begin {
        Begin { read_only: true, ..self }
    }

    /// Declares the transaction DEFERRABLE. That is accepted and changes nothing: a read-only transaction is never
    /// refused anyway.
    #[must_use]
    pub const fn deferrable(self) -> Begin {
        Begin { deferrable: true, ..self }
    }
}
