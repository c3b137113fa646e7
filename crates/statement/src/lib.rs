//! What every running statement has to do with: errors, cancellation, deadlines, stack and memory.
//!
//! # Layers
//!
//! - outcomes: `outcome`, `holdings`, `plants`
//! - errors: `error`, `pulse`, `refuse`
//! - limits: `planning`, `bulk`, `stack`

pub mod bulk;
pub mod error;
pub mod holdings;
pub mod outcome;
pub mod planning;
pub mod plants;
pub mod pulse;
mod refuse;
pub mod stack;

pub use error::{About, SqlError, SqlResult, SqlState};
