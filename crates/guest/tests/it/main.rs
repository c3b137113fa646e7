//! The library against the server's side of the interface, over both channels of executables.
//!
//! Method: the binary `account` runs as a worker process. The host here serves its calls with `procs::wire` from tables
//! in memory.

mod account;
mod calls;
mod engine;
mod host;
mod memory;
mod values;
