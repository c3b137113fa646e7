//! What a server is told when it is made.
//!
//! **Invariant:** the default is that of a fresh server: one role, trust on its own machine, no encryption.

use crate::door::Door;
use crate::network::Begun;
use crate::rules::Rule;
use crate::stats::Stats;
use crate::workers::{Dispatch, Workers};
use settings::roles::Roles;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use wire::tls::Tls;

/// See [`Server::bind`](crate::Server::bind).
#[derive(Clone)]
pub struct Config {
    /// TCP addresses; port 0 takes any.
    pub listen: Vec<SocketAddr>,
    /// The directory and the number of the unix socket `.s.PGSQL.NUMBER`; 0 is the port of the first address.
    pub unix: Option<(PathBuf, u16)>,
    /// Where metrics, health and readiness are served by HTTP.
    pub metrics: Option<SocketAddr>,
    /// More metrics, in Prometheus' text format.
    pub more_metrics: Arc<dyn Fn() -> String + Send + Sync>,
    /// Threads that read the network.
    pub network_threads: usize,
    /// What each of them does first.
    pub network_begun: Begun,
    /// What threads do first to which they lend statements that may be long. They begin in the class of who lends.
    pub lent_begun: Begun,
    /// What threads do before each query that is known to take long, and holds nothing that others wait for. Behind it, or when it must
    /// end, they are put back into the ordinary class.
    pub below_begun: Begun,
    /// Where statements run.
    pub dispatch: Dispatch,
    /// Threads for those that run elsewhere; none: as many as there are processors.
    pub workers: Option<Arc<Workers>>,
    /// Who is let in when.
    pub door: Door,
    /// What is known of sessions and statements.
    pub stats: Arc<Stats>,
    /// Whether begins and ends of sessions are logged.
    pub log_connections: bool,
    /// More sessions than this are turned away, `53300`.
    pub connections_max: usize,
    /// A longer message ends its session, `54000`. In bytes.
    pub message_max: usize,
    /// What prepared statements and portals of one session may take, `53200` beyond. In bytes, about.
    pub session_memory_max: usize,
    /// Who takes longer to log in is turned away.
    pub authentication_timeout: Duration,
    /// A client that takes nothing of what it is sent for so long is disconnected; none: never.
    pub send_timeout: Option<Duration>,
    /// How long a shutdown waits for sessions to end.
    pub shutdown_grace: Duration,
    /// Who may connect from where.
    pub rules: Vec<Rule>,
    /// Who may log in.
    pub roles: Arc<Roles>,
    /// Certificate and key; without them, encryption is refused.
    pub tls: Option<Arc<Tls>>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: Vec::new(),
            unix: None,
            metrics: None,
            more_metrics: Arc::new(String::new),
            // Two at least: one may be held up by a statement that was taken to be short.
            network_threads: crate::workers::processors().max(2),
            network_begun: Arc::new(|| {}),
            lent_begun: Arc::new(|| {}),
            below_begun: Arc::new(|| {}),
            dispatch: Dispatch::Spot,
            workers: None,
            door: Door::default(),
            stats: Arc::default(),
            log_connections: true,
            // PostgreSQL's 100 is for processes; ours cost a few kilobytes.
            connections_max: 1000,
            message_max: 64 << 20,
            session_memory_max: 64 << 20,
            authentication_timeout: Duration::from_mins(1),
            send_timeout: Some(Duration::from_hours(1)),
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
