//! Clients of the proxy: sessions, transactions, and the bytes that go both ways.

pub(crate) mod backward;
pub(crate) mod begin;
pub(crate) mod block;
pub(crate) mod cancel_request;
pub(crate) mod client;
pub(crate) mod consent;
pub(crate) mod database;
pub(crate) mod error_replacement;
pub(crate) mod expect;
pub(crate) mod forward;
pub(crate) mod leave;
pub(crate) mod leftovers;
pub(crate) mod link;
pub(crate) mod opened;
pub(crate) mod outcome;
pub(crate) mod priority;
pub(crate) mod session;
pub(crate) mod turn;
