//! What every running statement has to do with: errors, cancellation, deadlines, stack and memory.
//!
//! # Layers
//!
//! - errors: `error`, `pulse`, `refuse`
//! - limits: `stack`, `planning`, `bulk`, `holdings`
//! - tests: `plants`

pub mod bulk;
pub mod error;
pub mod holdings;
pub mod planning;
pub mod plants;
pub mod pulse;
mod refuse;
pub mod stack;

pub use error::{About, SqlError, SqlResult, SqlState};
