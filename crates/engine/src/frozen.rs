//! Columns: blocks of rows at rest, the freezer and the bulk load that make them, and scans for analytics.

pub(crate) mod arrow;
pub(crate) mod block;
pub(crate) mod bounds;
pub(crate) mod freeze;
pub(crate) mod gather;
pub(crate) mod load;
pub(crate) mod present;
pub(crate) mod scan;
