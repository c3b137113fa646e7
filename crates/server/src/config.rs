//! Configuration that a server is created with.
//!
//! **Invariant:** the default is that of a fresh server: one role, trust on its own machine, no encryption.

use crate::admission::Admission;
use crate::network::{NetworkInterface, ThreadStart};
use crate::rules::HbaRule;
use crate::stats::Stats;
use crate::workers::{Dispatch, Workers};
use settings::roles::Roles;
use statement::time::TimeSource;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use wire::tls::Tls;
use xdp::PortOptions;

/// Configuration of a server. [`Server::bind`](crate::Server::bind) takes it.
#[derive(Clone)]
pub struct Config {
    /// TCP addresses to listen on; port 0 takes any free port.
    pub listen: Vec<SocketAddr>,
    /// Directory and number of the unix socket `.s.PGSQL.NUMBER`; 0 stands for the port of the first address.
    pub unix: Option<(PathBuf, u16)>,
    /// Path of the unix socket at which clients of this machine get memory to share.
    pub shared: Option<PathBuf>,
    /// Port of a network interface whose TCP the server handles itself. Its number 0 stands for that of the first
    /// address.
    pub xdp: Option<PortOptions>,
    /// Address at which metrics, health and readiness are served by HTTP.
    pub metrics: Option<SocketAddr>,
    /// Further metrics, in Prometheus' text format.
    pub more_metrics: Arc<dyn Fn() -> String + Send + Sync>,
    /// Number of threads that read the network.
    pub network_threads: usize,
    /// Interface of the kernel by which they read and write TCP.
    pub network: NetworkInterface,
    /// First step of each of these threads.
    pub network_begun: ThreadStart,
    /// First step of threads to which statements are lent that may be long. They start in the scheduling class of the
    /// lending thread.
    pub lent_begun: ThreadStart,
    /// Step that threads take before each query that is known to take long and holds nothing that others wait for.
    /// After the query, or when it must end, they return to the ordinary scheduling class.
    pub below_begun: ThreadStart,
    /// Threads that run statements.
    pub dispatch: Dispatch,
    /// Threads for statements that run elsewhere; `None`: as many as there are processors.
    pub workers: Option<Arc<Workers>>,
    /// Admission control.
    pub admission: Admission,
    /// Statistics of sessions and statements.
    pub stats: Arc<Stats>,
    /// True if the begin and end of sessions are logged.
    pub log_connections: bool,
    /// Maximum number of sessions; further ones are refused with `53300`.
    pub connections_max: usize,
    /// Maximum size of a message in bytes; a longer one ends its session with `54000`.
    pub message_max: usize,
    /// Maximum size in bytes, approximately, of the prepared statements and portals of one session; beyond it they fail
    /// with `53200`.
    pub session_memory_max: usize,
    /// Time within which a client has to log in.
    pub authentication_timeout: Duration,
    /// Time after which a client that takes nothing of what it is sent is disconnected; `None`: never.
    pub send_timeout: Option<Duration>,
    /// Time for which a shutdown waits for sessions to end.
    pub shutdown_grace: Duration,
    /// Rules of `pg_hba.conf`: which clients may connect from where.
    pub rules: Vec<HbaRule>,
    /// Roles that may log in.
    pub roles: Arc<Roles>,
    /// Certificate and key. Without them, encryption is refused.
    pub tls: Option<Arc<Tls>>,
    /// Clock of the connections.
    pub time: TimeSource,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: Vec::new(),
            unix: None,
            shared: None,
            xdp: None,
            metrics: None,
            more_metrics: Arc::new(String::new),
            // At least two threads: one may be held up by a statement that was taken to be short.
            network_threads: crate::workers::processors().max(2),
            network: NetworkInterface::default(),
            network_begun: Arc::new(|| {}),
            lent_begun: Arc::new(|| {}),
            below_begun: Arc::new(|| {}),
            dispatch: Dispatch::Spot,
            workers: None,
            admission: Admission::default(),
            stats: Arc::default(),
            log_connections: true,
            // PostgreSQL's default of 100 is made for processes; sessions here cost a few kilobytes.
            connections_max: 1000,
            message_max: 64 << 20,
            session_memory_max: 64 << 20,
            authentication_timeout: Duration::from_mins(1),
            send_timeout: Some(Duration::from_hours(1)),
            shutdown_grace: Duration::from_secs(5),
            rules: HbaRule::of_a_fresh_server(),
            roles: Arc::new(Roles::of_a_fresh_server()),
            tls: None,
            time: TimeSource::system(),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("listen", &self.listen).field("unix", &self.unix).finish_non_exhaustive()
    }
}
