//! Formats of COPY: bytes to fields, values to bytes, and the options of a statement.
//!
//! **Invariant:** nothing here knows of tables or transactions. Data arrives in pieces that may be cut anywhere; a row
//! is either read completely or not at all.

pub mod csv;
pub mod fields;
mod options;
pub mod out;
pub mod read;

pub use fields::{CopyField, CopyFields};
pub use options::{CopyColumns, CopyFormat, CopyOptions};
pub use read::{CopyReader, NextRow};

use statement::error::{SqlError, SqlState};

/// Returns the error `22P04` for data that violates the format.
pub fn bad(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

#[cfg(test)]
mod tests;
