//! Statements bound to the catalog: names, types, plans, data-modifying statements.
//!
//! [`bind`] resolves the names and types of a syntax tree, and `rewrite` simplifies the result to a logical plan
//! ([`plan`]). Analytics lowers that plan, while [`planner`] turns it into a plan for the row executor.
//!
//! # Layers
//!
//! - plans: `plan`, `change`, `constraints`, `rows`
//! - execution and its report: `explain`, `analytics`
//! - planning: `rewrite`, `planner`
//! - texts: `copy`, `bind`
//! - statements on one row: `keyed`
//! - bodies of routines: `routine`
//! - statements of stored code: `code`

pub mod analytics;
pub mod bind;
pub mod change;
pub mod code;
pub mod constraints;
pub mod copy;
pub mod explain;
pub mod keyed;
pub mod plan;
pub mod planner;
mod rewrite;
pub mod routine;
pub mod rows;
