//! Interface of the tables that the server fills: sessions, statements, clocks.
//!
//! **Invariant:** asked whenever such a table is read; it must not block.

use statement::outcome::Signal;
use types::table::Lines;
use types::table::ProvidedTable;

/// Source of the rows of tables that the server fills.
pub trait Provider: Send + Sync + std::fmt::Debug {
    /// The tables of the schema `overtake`, always the same in the same order.
    fn tables(&self) -> Vec<ProvidedTable>;

    /// The role of the session with this number; nothing if there is none.
    fn role_of(&self, pid: i32) -> Option<String>;

    /// Cancels what a session is doing, or ends it. Says whether there was one.
    fn signal(&self, pid: i32, signal: Signal) -> bool;

    /// The engine's locks.
    fn locks(&self) -> Vec<engine::LockView>;

    /// The rows of a table: one of these, or one of `pg_catalog` that only the server can fill (`pg_stat_activity`). Integers are given as `Int8`, whatever the column's width.
    fn lines(&self, schema: &str, table: &str) -> Lines;
}
