//! The instances over PostgreSQL's protocol: a server for each instance, over the tables of all, for psql.
//!
//! **Invariant:** a session's short statements run on the threads that read the network, which no policy commands: the
//! engine is SQL's there, and no urgent context may run SQL (it locks, and plans). A query that becomes analytics is a
//! low job of its instance, like those of the page: it waits in their queue, and New-Orders overtake it as the policy
//! says. The servers end before the instances do.

use super::admission::DemoInstance;
use crate::data::Data;
use anyhow::Context;
use demo::facts::{Policy, Psql};
use host::refusal::Refusal;
use olap::SqlAnalytics;
use olap::scheduling;
use server::{Config, Server, Workers};
use sessions::Sessions;
use sessions::Views;
use settings::Defaults;
use settings::sources;
use settings::sources::OptionError;
use stage::Class;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use tokio::sync::watch;

/// Number of threads of one server that read the network: two, as one may be held up by a statement that was taken to
/// be short.
const NETWORK_THREADS: usize = 2;

/// Addresses of the instances, taken before anything is loaded. A client that connects waits until the load has ended.
pub struct Addresses(Vec<(Policy, SocketAddr, TcpListener)>);

impl Addresses {
    /// Takes a port for each instance, in the order of the page, from this one on; 0 takes free ones.
    ///
    /// # Errors
    /// A [`Refusal`] if a port is taken.
    pub fn take(first: u16) -> anyhow::Result<Addresses> {
        let take = |policy: Policy| {
            let port = match first {
                0 => 0,
                first => first
                    .checked_add(policy.index() as u16)
                    .ok_or_else(|| Refusal::new("psql needs three ports in a row: choose them with --psql-port"))?,
            };
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
                let why = match error.kind() {
                    ErrorKind::AddrInUse => "is taken".to_owned(),
                    _ => format!("cannot be listened on: {error}"),
                };
                let advice = "choose others with --psql-port, or --psql-port 0 for any free ones";
                Refusal::new(format!("port {port}, for psql under {}, {why}; {advice}", policy.name()))
            })?;
            Ok((policy, listener.local_addr().context("the address of an instance")?, listener))
        };
        Policy::ALL.into_iter().map(take).collect::<anyhow::Result<_>>().map(Addresses)
    }

    /// Returns the ways by which psql reaches the instances.
    pub fn psql(&self) -> Vec<Psql> {
        let one = |(policy, address, _): &(Policy, SocketAddr, TcpListener)| Psql {
            policy: *policy,
            command: format!("psql \"postgresql://postgres@{address}/postgres\""),
        };
        self.0.iter().map(one).collect()
    }
}

/// Running servers.
pub struct DemoServers {
    end: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl DemoServers {
    /// Starts the servers on all addresses; sessions get the tables of the data.
    ///
    /// # Errors
    /// If threads cannot be started.
    pub fn start(addresses: Addresses, data: &Data, admissions: &[DemoInstance]) -> anyhow::Result<DemoServers> {
        let workers = Workers::new(preempt::os::cpus().len().max(1), || {}).context("threads for statements")?;
        let mut servers = Vec::new();
        for ((policy, address, listener), admission) in addresses.0.into_iter().zip(admissions) {
            debug_assert_eq!(policy, admission.policy);
            servers.push(serve(address, data, admission, &workers)?.listening_on([listener]));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("the runtime of psql's servers")?;
        let (end, ending) = watch::channel(false);
        let body = move || {
            let ended = |mut ending: watch::Receiver<bool>| async move {
                // An error means that the sender is gone.
                let _ = ending.wait_for(|is_over| *is_over).await;
            };
            let all = servers.into_iter().map(|server| server.run(ended(ending.clone())));
            for served in runtime.block_on(futures::future::join_all(all)) {
                if let Err(error) = served {
                    tracing::error!(%error, "an instance cannot be reached by psql");
                }
            }
        };
        let thread = thread::Builder::new().name("psql".to_owned()).spawn(body)?;
        Ok(DemoServers { end, thread: Some(thread) })
    }
}

impl Drop for DemoServers {
    fn drop(&mut self) {
        let _ = self.end.send(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of psql's servers panicked");
        }
    }
}

/// Creates the server of one instance.
fn serve(
    address: SocketAddr,
    data: &Data,
    admission: &DemoInstance,
    workers: &Arc<Workers>,
) -> anyhow::Result<Server<Sessions>> {
    let mut settings = Defaults::default();
    let options = || -> Result<(Defaults, Config), OptionError> {
        sources::read_flag(&format!("listen_addresses={}", address.ip()), &mut settings)?;
        sources::read_flag(&format!("port={}", address.port()), &mut settings)?;
        let config = Config::from_settings(&settings)?;
        Ok((settings, config))
    };
    let (settings, mut config) = options().map_err(|error| anyhow::anyhow!("the settings of a server: {error}"))?;
    // The server has its listener already.
    config.listen = Vec::new();
    config.network_threads = NETWORK_THREADS;
    config.workers = Some(Arc::clone(workers));
    config.log_connections = false;
    config.roles = Arc::clone(data.catalog().roles());
    let analytics = SqlAnalytics::new(data.database(), std::array::from_fn(|_| admission.workers().class_runtime()));
    let views = Views::new(Arc::clone(&config.stats), data.engine().clone());
    views.schedule_by(scheduling([(Class::Low, admission.workers())]));
    let database = data.catalog().clone().with_provider(views).with_defaults(settings)?;
    let database = database.with_analytics(analytics.context("the thread of deadlines")?);
    Server::bind(config, Sessions(database)).context("a server for psql")
}
