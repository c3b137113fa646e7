//! Settings, roles and priority rules, by which administrators and sessions control how statements run.
//!
//! # Layers
//!
//! - definitions: `connect`, `takes`, `defs`, `text`, `value`
//! - values: `defaults`, `sources`, `session`
//! - roles and rules: `roles`, `priority`

mod connect;
pub mod defaults;
pub mod defs;
pub mod priority;
pub mod roles;
mod session;
pub mod sources;
pub mod takes;
mod text;
pub mod value;

pub use connect::Connect;
pub use defaults::{Defaults, Setting, SettingSource};
pub use defs::SEARCH_PATH;
pub use session::{Path, SettingRow, Settings, VERSION, class_named, default_of, of_transaction, title};
pub use value::names_of;
