//! Errors of the log, one variant for each reaction of the caller.

use std::io;

/// Error of the log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The log cannot be continued: a write or a sync has failed, and nobody knows what is durable. The process must end;
    /// recovery finds out.
    #[error("could not write to file \"{file}\": {error}")]
    Broken {
        /// Path of the file.
        file: String,
        /// Error of the disk.
        error: io::Error,
    },
    /// The disk is full. Nothing has changed, and the same may succeed when there is room.
    #[error("no space left for the log")]
    Full,
    /// The record is longer than [`crate::LENGTH_MAX`].
    #[error("a record of {0} bytes is too long")]
    TooLong(usize),
    /// Recovery could not read or rewrite a file. It may be tried again.
    #[error("could not recover file \"{file}\": {error}")]
    Unreadable {
        /// Path of the file.
        file: String,
        /// Error of the disk.
        error: io::Error,
    },
    /// The log is damaged. No guess is made about what was in it.
    #[error("file \"{file}\" is damaged at offset {offset}: {what}")]
    Damaged {
        /// Path of the file.
        file: String,
        /// Offset of the block or record in the file, in bytes.
        offset: u64,
        /// Description of the damage.
        what: &'static str,
    },
}

/// Result of a call of the log.
pub type LogResult<T> = Result<T, LogError>;
