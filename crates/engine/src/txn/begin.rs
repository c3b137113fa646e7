//! How a transaction begins: its class, its isolation, and whether it may write.

use stage::Class;

/// PostgreSQL's isolation levels. (READ UNCOMMITTED is READ COMMITTED there, too.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Isolation {
    /// Each statement sees what was committed when it began; a write meets the newest version.
    #[default]
    ReadCommitted,
    /// All statements see what was committed when the transaction began.
    RepeatableRead,
    /// As if the committed transactions had run one after another.
    Serializable,
}

/// How a transaction begins: `Begin::new(class)` is READ COMMITTED and may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begin {
    pub(crate) class: Class,
    pub(crate) isolation: Isolation,
    pub(crate) read_only: bool,
    pub(crate) deferrable: bool,
}

impl Begin {
    /// A READ COMMITTED transaction of this class: a more important transaction may take the rows of a less important one.
    pub const fn new(class: Class) -> Begin {
        Begin { class, isolation: Isolation::ReadCommitted, read_only: false, deferrable: false }
    }

    /// Its class.
    pub const fn class(&self) -> Class {
        self.class
    }

    /// The same at this level.
    #[must_use]
    pub const fn isolation(self, isolation: Isolation) -> Begin {
        Begin { isolation, ..self }
    }

    /// The same, refusing all writes. A SERIALIZABLE one is then never refused at its commit, at some cost to those that
    /// write beside it (see the module `serial`).
    #[must_use]
    pub const fn read_only(self) -> Begin {
        Begin { read_only: true, ..self }
    }

    /// The same, DEFERRABLE. That is accepted and changes nothing: a read-only transaction is never refused anyway.
    #[must_use]
    pub const fn deferrable(self) -> Begin {
        Begin { deferrable: true, ..self }
    }
}
