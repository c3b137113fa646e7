//! Common parts of every running statement: errors, cancellation, deadlines, stack and memory.
//!
//! # Layers
//!
//! - codes: `state`
//! - clocks: `time`
//! - outcomes: `outcome`, `holdings`
//! - errors: `error`, `pulse`, `refuse`
//! - limits: `planning`, `bulk`, `stack`, `stream`

pub mod bulk;
pub mod error;
pub mod holdings;
pub mod outcome;
pub mod planning;
pub use preempt::plants;
pub mod pulse;
mod refuse;
pub mod stack;
mod state;
pub mod stream;
pub mod time;

pub use error::{ErrorObjects, SqlError, SqlResult, SqlState};
