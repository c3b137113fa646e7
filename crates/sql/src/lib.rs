//! SQL as PostgreSQL speaks it, over the engine.
//!
//! **Invariant:** what cannot be done exactly as PostgreSQL 15 does it is refused with `0A000`, which names it. Collation is
//! C, encoding UTF8, time zone UTC unless the session says otherwise.
//!
//! # Layers
//!
//! Bottom up; a module uses its own layer and those above it in this list.
//!
//! - values: `error`, `stack`, `planning`, `pulse`, `bulk`, `holdings`, `plants`, `datum`, `types`, `ops`, `regex`
//! - syntax: `parse`, `place`, `tags`, `fingerprint`, `overriding`
//! - catalog: `catalog`, `roles`, `settings`, `storage`, `priority`
//! - queries: `bind`, `plan`, `change`, `constraints`, `copy`
//! - execution: `exec`, `explain`, `ddl`, `system`, `session`, `analytics`, `observe`

pub mod analytics;
mod bind;
pub mod bulk;
pub mod catalog;
mod change;
mod constraints;
mod copy;
pub mod datum;
mod ddl;
pub mod error;
mod exec;
pub mod explain;
pub mod fingerprint;
pub mod holdings;
pub mod observe;
pub mod ops;
mod overriding;
mod parse;
mod place;
pub mod plan;
mod planning;
pub mod plants;
pub mod priority;
pub mod pulse;
mod regex;
pub mod roles;
pub mod session;
mod settings;
mod stack;
pub mod storage;
pub mod system;
pub mod tags;
pub mod types;

pub use datum::Datum;
pub use error::{About, SqlError, SqlResult, SqlState};
pub use types::{Kind, SqlType};
