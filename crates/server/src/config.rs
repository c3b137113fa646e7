//! What a server is told when it is made.
//!
//! **Invariant:** the default is that of a fresh server: one role, trust on its own machine, no encryption.

use crate::roles::Roles;
use crate::rules::Rule;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls;

/// See [`Server::bind`](crate::Server::bind).
#[derive(Clone)]
pub struct Config {
    /// TCP addresses; port 0 takes any.
    pub listen: Vec<SocketAddr>,
    /// The directory and the number of the unix socket `.s.PGSQL.NUMBER`.
    pub unix: Option<(PathBuf, u16)>,
    /// More sessions than this are turned away, `53300`.
    pub connections_max: usize,
    /// A longer message ends its session, `54000`. In bytes.
    pub message_max: usize,
    /// Who takes longer to log in is turned away.
    pub authentication_timeout: Duration,
    /// How long a shutdown waits for sessions to end.
    pub shutdown_grace: Duration,
    /// Who may connect from where.
    pub rules: Vec<Rule>,
    /// Who may log in.
    pub roles: Arc<Roles>,
    /// Certificate and key; without them, encryption is refused.
    pub tls: Option<Arc<rustls::ServerConfig>>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: Vec::new(),
            unix: None,
            // PostgreSQL's 100 is for processes; ours cost a few kilobytes.
            connections_max: 1000,
            message_max: 64 << 20,
            authentication_timeout: Duration::from_mins(1),
            shutdown_grace: Duration::from_secs(5),
            rules: Rule::of_a_fresh_server(),
            roles: Arc::new(Roles::of_a_fresh_server()),
            tls: None,
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("listen", &self.listen).field("unix", &self.unix).finish_non_exhaustive()
    }
}
