//! Interface of the tables that the server fills: sessions, statements, clocks.
//!
//! **Invariant:** the interface is called whenever such a table is read; it must not block.

use statement::outcome::Signal;
use types::table::NamedRows;
use types::table::ProvidedTable;

/// Source of the rows of tables that the server fills.
pub trait Provider: Send + Sync + std::fmt::Debug {
    /// Returns the tables of the schema `overtake`, always the same in the same order.
    fn tables(&self) -> Vec<ProvidedTable>;

    /// Returns the role of the session with this process ID, or `None` if there is no such session.
    fn role_of(&self, pid: i32) -> Option<String>;

    /// Cancels a session's statement, or ends the session. Returns true if there was such a session.
    fn signal(&self, pid: i32, signal: Signal) -> bool;

    /// Returns the engine's locks.
    fn locks(&self) -> Vec<engine::LockView>;

    /// Returns the rows of a table: one of [`Provider::tables`], or one of `pg_catalog` that only the server can fill
    /// (`pg_stat_activity`). Integers are given as `Int8`, whatever the column's width.
    fn lines(&self, schema: &str, table: &str) -> NamedRows;
}
