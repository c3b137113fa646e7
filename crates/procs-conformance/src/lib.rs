//! One suite of tests for all levels of isolation: a model of the engine, code for each level, and attacks.
//!
//! The code is a package of its own, in the folder `guest`. The tests compile it for WebAssembly and as an executable.
//! For the JavaScript engine at level `wasm`, the part for WebAssembly stands there in TypeScript as well.
//!
//! **Invariant:** each case runs at every level that this machine has, from the same source.

mod build;
mod model;
mod subject;
mod typescript;

pub use build::{Built, built};
pub use model::{ModelEngine, ModelStatement, ModelTable, Ran};
pub use subject::{Subject, engine};
pub use typescript::{typescript, typescript_compiler};
