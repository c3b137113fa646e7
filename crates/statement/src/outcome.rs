//! Outcomes of statements, and states of sessions, as clients are told of them.

/// State of a session's transaction, as `ReadyForQuery` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// None is open.
    Idle,
    /// One is open.
    Open,
    /// One is open, and a statement of it has failed.
    Failed,
}

/// A command tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// `SELECT`, `INSERT 0`, `CREATE TABLE`.
    pub words: &'static str,
    /// How many rows, for those that say so.
    pub rows: Option<u64>,
}

/// How the data of a COPY look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyShape {
    /// The binary format; text and CSV else.
    pub is_binary: bool,
    /// How many columns a row has.
    pub columns: usize,
}

/// Signal of one session to another: `pg_cancel_backend`, `pg_terminate_backend`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Its statement ends.
    Cancel,
    /// It ends itself.
    Terminate,
}
