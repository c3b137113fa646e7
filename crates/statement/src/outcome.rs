//! Outcomes of statements and states of sessions, as clients receive them.

/// State of a session's transaction, as `ReadyForQuery` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// No transaction is open.
    Idle,
    /// A transaction is open.
    Open,
    /// A transaction is open, and a statement of it has failed.
    Failed,
}

/// A command tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandTag {
    /// `SELECT`, `INSERT 0`, `CREATE TABLE`.
    pub words: &'static str,
    /// Number of rows, for commands that report it.
    pub rows: Option<u64>,
}

/// Layout of the data of a COPY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyShape {
    /// True for the binary format, false for text and CSV.
    pub is_binary: bool,
    /// Number of columns of a row.
    pub columns: usize,
}

/// Signal of one session to another: `pg_cancel_backend`, `pg_terminate_backend`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Ends the statement of the other session.
    Cancel,
    /// Ends the other session.
    Terminate,
}
