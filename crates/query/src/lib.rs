//! Statements bound to the catalog: names, types, plans, changes of rows.
//!
//! A statement goes from its syntax tree through [`bind`] (names and types) and `rewrite` to a logical plan ([`plan`]), which
//! analytics lowers and [`planner`] turns into a plan for the row executor.
//!
//! # Layers
//!
//! - plans: `plan`, `change`, `constraints`, `rows`
//! - execution and its report: `explain`, `analytics`
//! - planning: `rewrite`, `planner`
//! - texts: `copy`, `bind`

pub mod analytics;
pub mod bind;
pub mod change;
pub mod constraints;
pub mod copy;
pub mod explain;
pub mod plan;
pub mod planner;
mod rewrite;
pub mod rows;
