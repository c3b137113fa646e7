//! SQL as PostgreSQL speaks it, over the engine: sessions, definitions, the row executor, system views.
//!
//! **Invariant:** what cannot be done exactly as PostgreSQL 15 does it is refused with `0A000`, which names it. Collation is
//! C, encoding UTF8, time zone UTC unless the session says otherwise.
//!
//! # Layers
//!
//! Bottom up; a module uses its own layer and those above it in this list.
//!
//! - state that statements run with: `context`
//! - rows of system tables: `system`
//! - execution by rows: `exec`
//! - plans shown: `explain`
//! - definitions: `ddl`
//! - sessions: `session`

mod context;
mod ddl;
mod exec;
mod explain;
pub mod session;
pub mod system;
