//! Tables: definitions, row maps, indexes, and how a dropped one goes.

pub(crate) mod drops;
pub(crate) mod entries;
pub(crate) mod table;
pub(crate) mod tables;
