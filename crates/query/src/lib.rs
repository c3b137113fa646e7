//! Statements bound to the catalog: names, types, plans, changes of rows.
//!
//! # Layers
//!
//! - plans: `plan`, `change`, `constraints`
//! - binder: `bind`, `copy`

pub mod bind;
pub mod change;
pub mod constraints;
pub mod copy;
pub mod plan;
