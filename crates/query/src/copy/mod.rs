//! COPY's formats: bytes to fields, values to bytes, and what a statement says about them.
//!
//! **Invariant:** nothing here knows of tables or transactions. Data are read from pieces that are cut anywhere: a row is either
//! read whole, or not yet.

pub mod csv;
pub mod fields;
mod options;
pub mod out;
pub mod read;

pub use fields::{CopyField, CopyFields};
pub use options::{CopyColumns, CopyFormat, CopyOptions};
pub use read::{CopyReader, NextRow};

use statement::error::{SqlError, SqlState};

/// `22P04`: the data are not in the format.
pub fn bad(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

#[cfg(test)]
mod tests;
