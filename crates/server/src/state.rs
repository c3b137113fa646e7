//! State that all connections of a server share.

use crate::attempts::Attempts;
use crate::config::Config;
use crate::network::Below;
use crate::registry::Registry;
use crate::workers::Workers;
use std::sync::Arc;
use wire::wake::Bells;

/// State that all connections of a server share.
pub struct ServerState<D> {
    /// Configuration.
    pub config: Config,
    /// Service that opens sessions.
    pub front: D,
    pub(crate) registry: Arc<Registry>,
    /// Wake-ups of waiting sessions.
    pub bells: Arc<Bells>,
    /// Threads for statements that run elsewhere.
    pub workers: Arc<Workers>,
    /// Threads of lower scheduling priority.
    pub below: Arc<Below>,
    /// Failed logins by address.
    pub(crate) attempts: Attempts,
    /// Secret from which the salts of users who do not exist are derived.
    pub(crate) mock_secret: [u8; 32],
}
