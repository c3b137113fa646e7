//! COPY's formats: bytes to fields, values to bytes, and what a statement says about them.
//!
//! **Invariant:** nothing here knows of tables or transactions. Data are read from pieces that are cut anywhere: a row is either
//! read whole, or not yet.

pub(crate) mod csv;
pub(crate) mod fields;
pub(crate) mod out;
pub(crate) mod read;

pub(crate) use crate::parse::copy_options::{Format, Options};
pub(crate) use fields::{Field, Fields};
pub(crate) use read::{Next, Reader};

use crate::error::{SqlError, SqlState};

/// `22P04`: the data are not in the format.
pub(crate) fn bad(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState("22P04"), message)
}

#[cfg(test)]
mod tests;
