//! Clients of the wire protocol and PostgreSQL servers, for tests of the crates that serve it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod cluster;
pub mod raw;
pub mod waits;
