//! Named objects of a session, as system views list them.

use types::SqlType;

/// Prepared statements and portals of a session. The session keeps them; views read them here.
pub(crate) trait SessionObjects: std::fmt::Debug + Send + Sync {
    /// Returns the portals that have a name, by name.
    fn portals(&self) -> Vec<ListedPortal>;

    /// Returns the prepared statements, by name.
    fn statements(&self) -> Vec<ListedStatement>;
}

/// Portal that has a name.
pub(crate) struct ListedPortal {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) is_held: bool,
    pub(crate) is_binary: bool,
    pub(crate) is_scrollable: bool,
    pub(crate) since_us: i64,
}

/// Prepared statement.
pub(crate) struct ListedStatement {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) since_us: i64,
    pub(crate) parameters: Vec<SqlType>,
    /// True if `PREPARE` created the statement, not the protocol.
    pub(crate) is_from_sql: bool,
    /// Number of runs.
    pub(crate) runs: i64,
}
