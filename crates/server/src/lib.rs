//! PostgreSQL's wire protocol, version 3, over the sessions of [`sql`].
//!
//! From the bottom up: `frame` (bytes to messages), `reply` (messages to bytes), `conn` (one read, one write), `scram`,
//! [`Roles`], [`Rule`] and `startup` (who is it), `session` with `simple` and `extended` (what do they ask), `wake` (when
//! can a parked statement go on), [`Server`] (who is there).
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
pub mod backend;
mod config;
mod conn;
mod copy;
mod errors;
mod extended;
mod frame;
mod listen;
mod names;
mod registry;
mod reply;
mod roles;
mod rules;
mod scram;
mod session;
mod simple;
mod startup;
pub mod tls;
mod wake;

pub use config::Config;
pub use listen::Server;
pub use roles::{Role, Roles};
pub use rules::{Kind, Method, Names, Origin, Rule, RuleError};
pub use scram::{Verifier, VerifierError};
