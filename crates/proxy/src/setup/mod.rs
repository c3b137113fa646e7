//! Options of the proxy, and settings of its sessions.

pub(crate) mod options;
pub(crate) mod ready;
pub(crate) mod reload;
pub(crate) mod roles;
pub(crate) mod sessions;
pub(crate) mod unknown;
