//! Process and machine of a command: signals that end it, memory that it may take, output that may be gone.
//!
//! **Invariant:** nothing here knows of databases; every command of the binary stands on it.
//!
//! # Layers
//!
//! - words: `arguments`, `say`
//! - requests to end: `stop`
//! - outcomes: `refusal`
//! - machine: `memory`

pub mod arguments;
pub mod memory;
pub mod refusal;
pub mod say;
pub mod stop;
