//! The only module of the engine with `unsafe`: the versions' memory and the protocol on it. Start with `README.md`.
#![allow(unsafe_code)]

pub(crate) mod activity;
pub(crate) mod attic;
mod bitmap;
pub(crate) mod btree;
pub(crate) mod chain;
pub(crate) mod directory;
pub(crate) mod garbage;
pub(crate) mod horizon;
pub(crate) mod ids;
pub(crate) mod live;
pub(crate) mod once;
pub(crate) mod open;
pub(crate) mod prune;
pub(crate) mod reader;
pub(crate) mod recent;
pub(crate) mod rows;
pub(crate) mod shared;
pub(crate) mod slots;
pub(crate) mod spares;
pub(crate) mod text;
pub(crate) mod version;
