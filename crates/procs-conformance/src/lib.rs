//! One suite of tests for all levels of isolation: a model of the engine, code for each level, and attacks.
//!
//! **Invariant:** each case runs at every level that this machine has, from the same source.

mod model;

pub use model::{ModelEngine, ModelStatement, ModelTable, Ran};
