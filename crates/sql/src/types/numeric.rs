//! Numeric: exact decimal numbers of any length, as PostgreSQL's.

/// A number. (To be filled in.)
#[derive(Clone, Debug, PartialEq)]
pub struct Numeric {}
