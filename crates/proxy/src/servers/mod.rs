//! Servers behind the proxy: addresses, logins, connections, pools, and the state that each server reports.

pub(crate) mod conn_status;
pub(crate) mod dial;
pub(crate) mod full;
pub(crate) mod health;
pub(crate) mod internal;
pub(crate) mod login;
pub(crate) mod node;
pub(crate) mod nodes;
pub(crate) mod params;
pub(crate) mod passwords;
pub(crate) mod pool;
pub(crate) mod prepared;
pub(crate) mod process;
pub(crate) mod proof;
pub(crate) mod server_conn;
pub(crate) mod succession;
pub(crate) mod target;
pub(crate) mod url;
pub(crate) mod watch;
