//! Statements bound to the catalog: names, types, plans, changes of rows.
//!
//! # Layers
//!
//! - plans: `plan`, `change`, `constraints`, `rows`
//! - execution and its report: `explain`, `analytics`
//! - texts: `copy`, `bind`

pub mod analytics;
pub mod bind;
pub mod change;
pub mod constraints;
pub mod copy;
pub mod explain;
pub mod plan;
pub mod rows;
