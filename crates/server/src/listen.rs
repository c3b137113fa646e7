//! Listens, accepts, and shuts down.
//!
//! **Invariant:** each connection is a task: in the caller's runtime until it is a session, then on a thread of
//! `Network`. So a new connection is served, to cancel for instance, no matter what those threads do. A connection of
//! AF_XDP is on the thread of its port from the start. None outlives [`Server::run`].

use crate::attempts::Attempts;
use crate::config::Config;
use crate::network::{Below, Network, NetworkThread};
use crate::registry::Registry;
use crate::rules::Origin;
use crate::service::{Opened, Service};
use crate::startup::{self, BegunSession};
use crate::state::ServerState;
use crate::stats::Stats;
use crate::strangers::{Stranger, Strangers};
use crate::workers::{Workers, processors};
use engine::memory::{MESSAGES, has_room};
use rings::socket::{self, ACCEPT_PAUSE, SocketFile};
use socket2::SockRef;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream as StdUnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use wire::conn::Ending;
use wire::io::Io;
use wire::scram;
use wire::shared::SharedIo;
use wire::wake::Bells;
use xdp::{Port, PortOptions};

/// Maximum number of connections that wait to be accepted, if the system allows so many (`net.core.somaxconn`). A
/// client that finds the backlog full tries again after a second, and believes for that long that it is connected: a
/// crowd that reconnects at once has to fit.
const BACKLOG: i32 = 4096;

/// Time that aborted sessions have to end.
const ABORT_TIME: Duration = Duration::from_millis(500);

/// Server that has bound its addresses, and is about to accept.
pub struct Server<D> {
    shared: Arc<ServerState<D>>,
    tcp: Vec<StdTcpListener>,
    unix: Option<(StdUnixListener, SocketFile)>,
    /// Socket over which clients get memory to share.
    memory: Option<(StdUnixListener, SocketFile)>,
    /// Port whose TCP is this process's.
    xdp: Option<Port>,
    heard: StdUnixStream,
    metrics: Option<StdTcpListener>,
}

/// Adds the address and the purpose of a listener to its error.
fn named(error: &io::Error, address: &dyn std::fmt::Display, what: &str) -> io::Error {
    io::Error::new(error.kind(), format!("on {address} for {what}: {error}"))
}

/// Makes the transport of a new connection, in its own task.
type MakeIo = Box<dyn FnOnce() -> io::Result<Box<dyn Io>> + Send>;

/// New connection.
type Incoming = (MakeIo, Origin);

/// Makes the transport of a new connection of a unix socket.
type MakeUnixIo = fn(UnixStream) -> io::Result<Box<dyn Io>>;

impl<D: Service> Server<D> {
    /// Binds the addresses.
    ///
    /// # Errors
    /// An address is in use or does not belong to this machine; the system provides no random bytes, or no threads.
    pub fn bind(config: Config, front: D) -> io::Result<Server<D>> {
        let bind = |address: SocketAddr, what: &str| {
            StdTcpListener::bind(address).map_err(|error| named(&error, &address, what))
        };
        let tcp = config.listen.iter().map(|&address| bind(address, "clients")).collect::<io::Result<Vec<_>>>()?;
        let metrics = config.metrics.map(|address| bind(address, "metrics")).transpose()?;
        let unix = match &config.unix {
            Some((directory, number)) => {
                // If the system chose the port, its number is known now.
                let chosen = tcp.first().map(StdTcpListener::local_addr).transpose()?;
                let number = if *number == 0 { chosen.map_or(0, |address| address.port()) } else { *number };
                let path = directory.join(format!(".s.PGSQL.{number}"));
                Some(bind_unix(&path).map_err(|error| named(&error, &path.display(), "clients"))?)
            }
            None => None,
        };
        let memory = config
            .shared
            .as_ref()
            .map(|path| bind_unix(path).map_err(|error| named(&error, &path.display(), "clients that share memory")));
        let memory = memory.transpose()?;
        let xdp = config.xdp.as_ref().and_then(|wish| open_port(wish, &tcp, config.connections_max));
        config.roles.hash_by(|password| match password.parse::<scram::Verifier>() {
            // The password is a verifier already, from another server or from a dump.
            Ok(verifier) => Some(verifier.to_string()),
            Err(_) => scram::Verifier::new(password).ok().map(|verifier| verifier.to_string()),
        });
        let (bells, heard) = Bells::new()?;
        let registry = Registry::new(config.connections_max);
        let mock_secret = scram::random().map_err(io::Error::other)?;
        let workers = match &config.workers {
            Some(workers) => Arc::clone(workers),
            None => Workers::new(processors(), || {})?,
        };
        let below = Arc::new(Below::start(&config.below_begun)?);
        let shared = Arc::new(ServerState {
            config,
            front,
            registry,
            bells,
            workers,
            below,
            attempts: Attempts::default(),
            mock_secret,
        });
        Ok(Server { shared, tcp, unix, memory, xdp, heard, metrics })
    }

    /// Accepts on these listeners too: addresses that somebody has bound for the server before.
    #[must_use]
    pub fn listening_on(mut self, listeners: impl IntoIterator<Item = StdTcpListener>) -> Server<D> {
        self.tcp.extend(listeners);
        self
    }

    /// Returns its TCP addresses, each once, with the ports that it was given. That of AF_XDP is the last one.
    ///
    /// # Errors
    /// The system does not report them.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let tcp = self.tcp.iter().map(StdTcpListener::local_addr).collect::<io::Result<_>>()?;
        Ok(each_once(tcp, self.xdp.as_ref().map(|port| port.address().into())))
    }

    /// Returns the address at which metrics are served.
    ///
    /// # Errors
    /// The system does not report it.
    pub fn metrics_address(&self) -> io::Result<Option<SocketAddr>> {
        self.metrics.as_ref().map(StdTcpListener::local_addr).transpose()
    }

    /// Serves until `shutdown` is ready, in a tokio runtime with I/O and time. Sessions are notified then, and waited
    /// for a while.
    ///
    /// # Errors
    /// The runtime refuses the listeners. Nothing has been accepted then.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> io::Result<()> {
        let Server { shared, tcp, unix, memory, xdp, heard, metrics } = self;
        let (sender, mut incoming) = mpsc::channel(64);
        let mut helpers = JoinSet::new();
        helpers.spawn(shared.bells.clone().listen(tokio::net::UnixStream::from_std(heard)?));
        let mut admissions = shared.front.admissions();
        if admissions.is_empty() {
            admissions.push((Arc::from(""), shared.config.admission.clone()));
        }
        for (_, admission) in &admissions {
            let admission = admission.clone();
            helpers.spawn(async move { admission.watch().await });
        }
        if let Some(listener) = metrics {
            let front = shared.front.clone();
            let (stats, more) = (shared.config.stats.clone(), Arc::clone(&shared.config.more_metrics));
            helpers.spawn(crate::metrics::serve(listener, stats, admissions, front, more));
        }
        for listener in tcp {
            listener.set_nonblocking(true)?;
            SockRef::from(&listener).listen(BACKLOG)?;
            helpers.spawn(accept_tcp(TcpListener::from_std(listener)?, sender.clone()));
        }
        let mut socket_files = Vec::new();
        for (sockets, makes) in [(unix, plain as MakeUnixIo), (memory, with_memory)] {
            if let Some((listener, file)) = sockets {
                listener.set_nonblocking(true)?;
                SockRef::from(&listener).listen(BACKLOG)?;
                helpers.spawn(accept_unix(UnixListener::from_std(listener)?, makes, sender.clone()));
                socket_files.push(file);
            }
        }
        drop(sender);
        let Config { network_threads, network, network_begun, lent_begun, .. } = &shared.config;
        let network = Network::start(*network_threads, *network, network_begun, lent_begun)?;
        // Bounded by the number of connections that a port may have.
        let (to_home, mut at_home) = mpsc::unbounded_channel();
        let accept = Box::new(move |stream| drop(to_home.send(stream)));
        let home = xdp.map(|port| NetworkThread::of_port(port, accept, network_begun, lent_begun)).transpose()?;
        let (end, ending) = watch::channel(false);
        // As many connections may be unauthenticated as there may be sessions, and some more.
        let strangers = Strangers::new(shared.config.connections_max.saturating_add(64));
        let mut tasks = Tasks { network, home, all: JoinSet::new() };
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(ended) = tasks.all.join_next() => tasks.go_on(ended),
                Some(stream) = at_home.recv(), if tasks.home.is_some() => {
                    let Some(stranger) = enter(&strangers, &shared) else { continue };
                    let (shared, ending) = (Arc::clone(&shared), Ending::new(ending.clone()));
                    tasks.serve_at_home(async move {
                        let origin = Origin { address: Some((*stream.addresses().1.ip()).into()), is_encrypted: false };
                        startup::begin(&shared, Box::new(stream), origin, ending, stranger).await
                    });
                }
                Some((makes, origin)) = incoming.recv() => {
                    let Some(stranger) = enter(&strangers, &shared) else { continue };
                    let shared = Arc::clone(&shared);
                    let ending = Ending::new(ending.clone());
                    tasks.all.spawn(async move {
                        let io = makes().map_err(|error| not_made(&shared.config.stats, &error)).ok()?;
                        startup::begin(&shared, io, origin, ending, stranger).await.map(Box::new)
                    });
                }
            }
        }
        // From here on the system refuses new clients. Waits still need their wake-ups.
        drop(incoming);
        drop(socket_files);
        let _ = end.send(true);
        let drained = async {
            while let Some(ended) = tasks.all.join_next().await {
                tasks.go_on(ended);
            }
        };
        if tokio::time::timeout(shared.config.shutdown_grace, drained).await.is_err() {
            tracing::warn!(count = tasks.all.len(), "sessions were ended in the middle");
            // A task that never yields is left behind: the process exits without it.
            let _ = tokio::time::timeout(ABORT_TIME, tasks.all.shutdown()).await;
        }
        helpers.shutdown().await;
        Ok(())
    }
}

/// All connections. A task of a connection that is not a session yet ends with a session, or without one.
struct Tasks<O: Opened> {
    network: Network,
    /// Thread of the port of AF_XDP, with all its connections.
    home: Option<NetworkThread>,
    /// Tasks of new connections. Results are boxed, because each poll of a task moves its result.
    all: JoinSet<Option<Box<BegunSession<O>>>>,
}

impl<O: Opened> Tasks<O> {
    /// Begins a session and serves it, all on the thread of the port.
    fn serve_at_home(&mut self, begins: impl Future<Output = Option<BegunSession<O>>> + Send + 'static) {
        let Some(home) = &self.home else { return };
        let served = async move {
            if let Some(session) = begins.await {
                session.serve().await;
            }
            None
        };
        self.all.spawn_on(served, home.runtime());
    }

    /// Handles the end of a task: its session goes on at the thread with the fewest sessions.
    fn go_on(&mut self, ended: Result<Option<Box<BegunSession<O>>>, JoinError>) {
        match ended {
            Ok(Some(session)) => {
                let (runtime, place) = self.network.place();
                let served = async move {
                    session.serve().await;
                    drop(place);
                    None
                };
                self.all.spawn_on(served, runtime);
            }
            Ok(None) => {}
            Err(error) => tracing::error!(%error, "a session ended by a fault of this program"),
        }
    }
}

/// Counts a new connection as a stranger. Returns `None` if there are too many.
fn enter<D>(strangers: &Arc<Strangers>, shared: &ServerState<D>) -> Option<Stranger> {
    let stranger = strangers.enter(shared.config.time.now());
    if stranger.is_none() {
        shared.config.stats.turned_away.fetch_add(1, Relaxed);
        tracing::warn!("a connection was closed at once: there are too many");
    }
    stranger
}

/// Opens the port of AF_XDP. Where that is not possible, the log says why, and clients come by the kernel's TCP alone.
fn open_port(wish: &PortOptions, tcp: &[StdTcpListener], connections_max: usize) -> Option<Port> {
    let chosen = || tcp.first().and_then(|listener| listener.local_addr().ok()).map_or(0, |address| address.port());
    let port = if wish.port == 0 { chosen() } else { wish.port };
    // As many connections may be unauthenticated as there may be sessions, and some more.
    let connections_max = connections_max.saturating_mul(2).saturating_add(64);
    let memory = xdp::Memory { change: |bytes| MESSAGES.change(bytes), has_room };
    match Port::open(PortOptions { port, connections_max, ..wish.clone() }, memory) {
        Ok(port) => Some(port),
        Err(error) => {
            tracing::warn!(%error, "AF_XDP cannot be used; clients come by the kernel's TCP only");
            None
        }
    }
}

/// Adds the address of AF_XDP behind those of the kernel's TCP, which often has the same one.
fn each_once(mut tcp: Vec<SocketAddr>, xdp: Option<SocketAddr>) -> Vec<SocketAddr> {
    tcp.retain(|address| Some(*address) != xdp);
    tcp.extend(xdp);
    tcp
}

async fn accept_tcp(listener: TcpListener, to: mpsc::Sender<Incoming>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = to.closed() => return,
        };
        match accepted {
            Ok((stream, from)) => {
                // One write is one answer, so nothing is gained by waiting for more.
                let _ = stream.set_nodelay(true);
                let origin = Origin { address: Some(from.ip()), is_encrypted: false };
                if to.send((Box::new(|| Ok(Box::new(stream))), origin)).await.is_err() {
                    return;
                }
            }
            Err(error) => refused(&error).await,
        }
    }
}

fn plain(stream: UnixStream) -> io::Result<Box<dyn Io>> {
    Ok(Box::new(stream))
}

fn with_memory(stream: UnixStream) -> io::Result<Box<dyn Io>> {
    Ok(Box::new(SharedIo::offer(stream.into_std()?)?))
}

async fn accept_unix(listener: UnixListener, makes: MakeUnixIo, to: mpsc::Sender<Incoming>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = to.closed() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let origin = Origin { address: None, is_encrypted: false };
                if to.send((Box::new(move || makes(stream)), origin)).await.is_err() {
                    return;
                }
            }
            Err(error) => refused(&error).await,
        }
    }
}

/// Notes a connection without a transport. It ends, and keeps no other waiting.
fn not_made(stats: &Stats, error: &io::Error) {
    // Otherwise, the client has gone again.
    if !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) {
        stats.turned_away.fetch_add(1, Relaxed);
        tracing::warn!(%error, "a connection was closed at once: its memory could not be created");
    }
}

/// Notes that a listener has accepted nothing, and gives the system time.
async fn refused(error: &io::Error) {
    tracing::warn!(%error, "a connection could not be accepted");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

/// Listens at a unix socket that everybody may connect to: the rules decide which clients may.
fn bind_unix(path: &Path) -> io::Result<(StdUnixListener, SocketFile)> {
    let bound = socket::listen(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o777))?;
    Ok(bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_named_once() {
        let [one, other]: [SocketAddr; 2] = [([10, 0, 0, 1], 5432).into(), ([127, 0, 0, 1], 5432).into()];
        assert_eq!(each_once(vec![one, other], Some(one)), [other, one]);
        assert_eq!(each_once(vec![other], Some(one)), [other, one]);
        assert_eq!(each_once(vec![one, other], None), [one, other]);
    }
}
