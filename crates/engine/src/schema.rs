//! Tables: definitions, row maps, indexes, and the removal of dropped ones.

pub(crate) mod drops;
pub(crate) mod entries;
pub(crate) mod table;
pub(crate) mod tables;
