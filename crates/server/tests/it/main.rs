//! Integration tests of `server`: real sockets, a session that follows a script, each test in a process of its own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::ExitCode;

fn main() -> ExitCode {
    testkit::main(env!("CARGO_PKG_NAME"), &[])
}
