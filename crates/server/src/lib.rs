//! PostgreSQL's wire protocol, version 3, over the sessions of [`sql`].
//!
//! From the bottom up: `frame` (bytes to messages), `reply` (messages to bytes), `conn` (one read, one write), `scram`,
//! [`Roles`], [`Rule`] and `startup` (who is it), `session` with `simple` and `extended` (what do they ask), [`Workers`] (who
//! runs what takes long), `wake` (when can a parked statement go on), `network` (whose sessions are whose), [`Server`] (who is
//! there).
//!
//! `pgwire` gives the messages of the server. Its handlers are not used: they flush after every message, and a prepared
//! execution has five.
//!
//! **Invariant:** no thread blocks on a client, and no client can make this process panic or allocate beyond
//! [`Config::message_max`].

// The scripted session of the integration tests serves unit tests too.
#[cfg(test)]
extern crate self as server;

mod adapter;
mod attempts;
pub mod backend;
mod config;
mod conn;
mod copy;
mod door;
mod errors;
mod extended;
mod frame;
mod front;
mod lent;
mod listen;
mod metrics;
mod names;
mod network;
pub mod options;
mod registry;
mod reload;
mod reply;
mod rules;
mod scram;
mod session;
mod simple;
mod startup;
mod stats;
mod strangers;
pub mod tls;
pub mod upstream;
mod views;
mod wake;
mod workers;

pub use catalog::roles::{Role, Roles};
pub use config::Config;
pub use door::{Door, DoorOptions, DoorView, HotRules, Mode, Moment, Verdict};
pub use listen::Server;
pub use options::OptionError;
pub use reload::{lock_config, reload};
pub use rules::{Kind, Method, Name, Names, Origin, Rule, RuleError};
pub use scram::{Verifier, VerifierError};
pub use stats::Stats;
pub use views::Views;
pub use workers::{Dispatch, Workers};
