//! SQL sessions behind PostgreSQL's wire protocol, and the server's views.
//!
//! **Invariant:** no thread blocks on a client, and no client can make this process panic or allocate beyond
//! [`server::Config::message_max`].
//!
//! # Layers
//!
//! - sessions: `names`, `lent`, `codec`, `backend`
//! - protocol: `session`, `simple`, `extended`, `copy`, `front`
//! - of this server: `adapter`, `views`, `reload`

// The scripted session of the integration tests serves unit tests too.
#[cfg(test)]
extern crate self as sessions;

mod adapter;
pub mod backend;
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
