//! SQL sessions behind PostgreSQL's wire protocol, and the server's views.
//!
//! **Invariant:** no thread blocks on a client, and no client can make this process panic or allocate beyond
//! [`server::Config::message_max`].
//!
//! # Layers
//!
//! - sessions: `names`, `lent`, `codec`
//! - protocol: `session`, `simple`, `extended`, `copy`, `front`
//! - of this server: `views`, `reload`

mod codec;
mod copy;
mod extended;
mod front;
mod lent;
mod names;
mod reload;
mod session;
mod simple;
mod views;

pub use front::Sessions;
pub use reload::{lock_config, reload};
pub use views::Views;
