//! SQL sessions behind PostgreSQL's wire protocol, and the server's views.
//!
//! **Invariant:** no thread blocks on a client, and no client can make this process panic or allocate beyond
//! [`server::Config::message_max`].
//!
//! # Layers
//!
//! - sessions: `names`, `lent`, `codec`
//! - protocol: `session`, `simple`, `extended`, `copy`, `service`
//! - of this server: `views`, `reload`

mod codec;
mod copy;
mod extended;
mod lent;
mod names;
mod reload;
mod service;
mod session;
mod simple;
mod views;

pub use reload::{lock_config, reload};
pub use service::Sessions;
pub use views::Views;
