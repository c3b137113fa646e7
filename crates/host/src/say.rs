//! Standard output and standard error that may be gone: a closed pipe, a full disk.
//!
//! **Invariant:** no failure to print ends the process. `println!` and `eprintln!` panic in that case; `overtake serve`
//! would lose its data with the panic, and a benchmark the figures of an hour.

use anyhow::Context;
use std::fmt::Display;
use std::io::{ErrorKind, Write};

/// Prints a text. A closed pipe is no failure: its reader, `head` perhaps, has read enough.
///
/// # Errors
/// An error if standard output cannot be written, as on a full disk.
pub fn say(text: impl Display) -> anyhow::Result<()> {
    to(&mut std::io::stdout().lock(), text).context("cannot write to standard output")
}

/// Prints a text on standard error, if that is still open.
pub fn complain(text: impl Display) {
    // A failure is ignored: no stream is left to report it on.
    let _ = to(&mut std::io::stderr().lock(), text);
}

fn to(out: &mut dyn Write, text: impl Display) -> std::io::Result<()> {
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
