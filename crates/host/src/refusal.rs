//! Runs that are refused before they start: a bad argument, a file that cannot be written, too little memory.

use std::fmt;
use std::process::ExitCode;

/// Refusal of a run that the arguments or this machine do not allow; exit code 2. A run that fails later has exit code
/// 1.
#[derive(Debug)]
pub struct Refusal(String);

impl Refusal {
    /// Creates a refusal with a message that says what would help.
    pub fn new(message: impl Into<String>) -> Refusal {
        Refusal(message.into())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// Returns the process's exit code for an error that reached `main`.
pub fn exit_code(error: &anyhow::Error) -> ExitCode {
    if error.is::<Refusal>() {
        ExitCode::from(2)
    } else if error.is::<crate::stop::Stopped>() {
        ExitCode::from(crate::stop::EXIT_CODE)
    } else {
        ExitCode::FAILURE
    }
}
