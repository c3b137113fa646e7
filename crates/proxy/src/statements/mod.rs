//! Statements as the proxy sees them: texts, prepared statements, portals, settings.

pub(crate) mod block_command;
pub(crate) mod message;
pub(crate) mod portals;
pub(crate) mod properties;
pub(crate) mod read_only;
pub(crate) mod repeated;
pub(crate) mod resets;
pub(crate) mod scan;
pub(crate) mod session_settings;
pub(crate) mod shared;
pub(crate) mod shown;
