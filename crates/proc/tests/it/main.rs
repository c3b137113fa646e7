//! Projects of all languages: they are written, built, and their executables run over both channels.
//!
//! Method: the host of the crate `guest`'s tests, with tables in memory.

mod projects;

#[path = "../../../guest/tests/it/engine.rs"]
mod engine;
#[path = "../../../guest/tests/it/host.rs"]
mod host;
#[path = "../../../guest/tests/it/memory.rs"]
mod memory;
