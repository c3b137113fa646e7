//! Listens, accepts, and ends.
//!
//! **Invariant:** each connection is a task: in the caller's runtime until it is a session, then on a thread of `Network`. So
//! whoever connects is heard, to cancel for instance, whatever those threads do. None outlives [`Server::run`].

use crate::attempts::Attempts;
use crate::config::Config;
use crate::front::{Front, Opened};
use crate::network::{Below, Network};
use crate::registry::Registry;
use crate::rules::Origin;
use crate::shared::Shared;
use crate::startup::{self, Begun};
use crate::strangers::Strangers;
use crate::workers::{Workers, processors};
use socket2::SockRef;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream as StdUnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use wire::conn::{Ending, Io};
use wire::scram;
use wire::wake::Bells;

/// Between two attempts to accept when there are no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How many may have connected that were not accepted yet, if the system allows so many (`net.core.somaxconn`). Whoever comes when
/// that is full tries again after a second, and believes for that long that it is connected: a crowd that comes back at once is to fit.
const BACKLOG: i32 = 4096;

/// Time that aborted sessions have to go.
const ABORT_TIME: Duration = Duration::from_millis(500);

/// A server that has its addresses, and is about to accept.
pub struct Server<D> {
    shared: Arc<Shared<D>>,
    tcp: Vec<StdTcpListener>,
    unix: Option<(StdUnixListener, SocketFile)>,
    heard: StdUnixStream,
    metrics: Option<StdTcpListener>,
}

/// Removed with the server.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// An error of a listener, with its address and who was to be heard there.
fn named(error: &io::Error, address: &dyn std::fmt::Display, what: &str) -> io::Error {
    io::Error::new(error.kind(), format!("on {address} for {what}: {error}"))
}

/// A connection that has just come.
type Incoming = (Box<dyn Io>, Origin);

impl<D: Front> Server<D> {
    /// Takes its addresses.
    ///
    /// # Errors
    /// An address is in use or not ours; the system gives no random bytes, or no threads.
    pub fn bind(config: Config, front: D) -> io::Result<Server<D>> {
        let bind = |address: SocketAddr, what: &str| {
            StdTcpListener::bind(address).map_err(|error| named(&error, &address, what))
        };
        let tcp = config.listen.iter().map(|&address| bind(address, "clients")).collect::<io::Result<Vec<_>>>()?;
        let metrics = config.metrics.map(|address| bind(address, "metrics")).transpose()?;
        let unix = match &config.unix {
            Some((directory, number)) => {
                // A port that the system was to choose has its number now.
                let chosen = tcp.first().map(StdTcpListener::local_addr).transpose()?;
                let number = if *number == 0 { chosen.map_or(0, |address| address.port()) } else { *number };
                let path = directory.join(format!(".s.PGSQL.{number}"));
                Some(bind_unix(&path).map_err(|error| named(&error, &path.display(), "clients"))?)
            }
            None => None,
        };
        config.roles.hash_by(|password| match password.parse::<scram::Verifier>() {
            // It comes from another server, or from a dump.
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
        let shared = Arc::new(Shared {
            config,
            front,
            registry,
            bells,
            workers,
            below,
            attempts: Attempts::default(),
            mock_secret,
        });
        Ok(Server { shared, tcp, unix, heard, metrics })
    }

    /// Accepts there, too: on addresses that somebody has taken for it before.
    #[must_use]
    pub fn listening_on(mut self, listeners: impl IntoIterator<Item = StdTcpListener>) -> Server<D> {
        self.tcp.extend(listeners);
        self
    }

    /// Its TCP addresses, with the ports it was given.
    ///
    /// # Errors
    /// The system does not say.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.tcp.iter().map(StdTcpListener::local_addr).collect()
    }

    /// Where metrics are served.
    ///
    /// # Errors
    /// The system does not say.
    pub fn metrics_address(&self) -> io::Result<Option<SocketAddr>> {
        self.metrics.as_ref().map(StdTcpListener::local_addr).transpose()
    }

    /// Serves until `shutdown` is ready, in a tokio runtime with I/O and time. Sessions are told then, and waited for a while.
    ///
    /// # Errors
    /// The runtime does not take the listeners; nothing has been accepted then.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> io::Result<()> {
        let Server { shared, tcp, unix, heard, metrics } = self;
        let (sender, mut incoming) = mpsc::channel(64);
        let mut helpers = JoinSet::new();
        helpers.spawn(shared.bells.clone().listen(tokio::net::UnixStream::from_std(heard)?));
        let mut doors = shared.front.doors();
        if doors.is_empty() {
            doors.push((Arc::from(""), shared.config.door.clone()));
        }
        for (_, door) in &doors {
            let door = door.clone();
            helpers.spawn(async move { door.watch().await });
        }
        if let Some(listener) = metrics {
            let front = shared.front.clone();
            let (stats, more) = (shared.config.stats.clone(), Arc::clone(&shared.config.more_metrics));
            helpers.spawn(crate::metrics::serve(listener, stats, doors, front, more));
        }
        for listener in tcp {
            listener.set_nonblocking(true)?;
            SockRef::from(&listener).listen(BACKLOG)?;
            helpers.spawn(accept_tcp(TcpListener::from_std(listener)?, sender.clone()));
        }
        let mut socket_file = None;
        if let Some((listener, file)) = unix {
            listener.set_nonblocking(true)?;
            SockRef::from(&listener).listen(BACKLOG)?;
            helpers.spawn(accept_unix(UnixListener::from_std(listener)?, sender.clone()));
            socket_file = Some(file);
        }
        drop(sender);
        let network =
            Network::start(shared.config.network_threads, &shared.config.network_begun, &shared.config.lent_begun)?;
        let (end, ending) = watch::channel(false);
        // As many may be about to say who they are as may be there.
        let strangers = Strangers::new(shared.config.connections_max.saturating_add(64));
        let mut tasks = Tasks { network, all: JoinSet::new() };
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(ended) = tasks.all.join_next() => tasks.go_on(ended),
                Some((io, origin)) = incoming.recv() => {
                    let Some(stranger) = strangers.enter(Instant::now()) else {
                        shared.config.stats.turned_away.fetch_add(1, Relaxed);
                        tracing::warn!("a connection was closed at once: there are too many");
                        continue;
                    };
                    let shared = Arc::clone(&shared);
                    let ending = Ending::new(ending.clone());
                    tasks.all.spawn(async move {
                        startup::begin(&shared, io, origin, ending, stranger).await.map(Box::new)
                    });
                }
            }
        }
        // New clients are refused by the system from here on; waits still need their bells.
        drop(incoming);
        drop(socket_file);
        let _ = end.send(true);
        let drained = async {
            while let Some(ended) = tasks.all.join_next().await {
                tasks.go_on(ended);
            }
        };
        if tokio::time::timeout(shared.config.shutdown_grace, drained).await.is_err() {
            tracing::warn!(count = tasks.all.len(), "sessions were ended in the middle");
            // One that never yields is left behind: the process ends without it.
            let _ = tokio::time::timeout(ABORT_TIME, tasks.all.shutdown()).await;
        }
        helpers.shutdown().await;
        Ok(())
    }
}

/// All connections: those that are no session yet come to an end with one, or without.
struct Tasks<O: Opened> {
    network: Network,
    /// Boxed, as each look at a task moves what it may come to.
    all: JoinSet<Option<Box<Begun<O>>>>,
}

impl<O: Opened> Tasks<O> {
    /// A task has ended: its session goes on where there are the fewest.
    fn go_on(&mut self, ended: Result<Option<Box<Begun<O>>>, JoinError>) {
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

async fn accept_tcp(listener: TcpListener, to: mpsc::Sender<Incoming>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = to.closed() => return,
        };
        match accepted {
            Ok((stream, from)) => {
                // One write is one answer: nothing is to be waited for.
                let _ = stream.set_nodelay(true);
                let origin = Origin { address: Some(from.ip()), is_encrypted: false };
                if to.send((Box::new(stream), origin)).await.is_err() {
                    return;
                }
            }
            Err(error) => refused(&error).await,
        }
    }
}

async fn accept_unix(listener: UnixListener, to: mpsc::Sender<Incoming>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = to.closed() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let origin = Origin { address: None, is_encrypted: false };
                if to.send((Box::new(stream), origin)).await.is_err() {
                    return;
                }
            }
            Err(error) => refused(&error).await,
        }
    }
}

async fn refused(error: &io::Error) {
    tracing::warn!(%error, "a connection could not be accepted");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

/// Binds, in place of a socket that nobody listens on any more.
fn bind_unix(path: &Path) -> io::Result<(StdUnixListener, SocketFile)> {
    let listener = match StdUnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            match StdUnixStream::connect(path) {
                Err(nobody) if nobody.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path)?,
                _ => return Err(error),
            }
            StdUnixListener::bind(path)?
        }
        bound => bound?,
    };
    let file = SocketFile(path.to_owned());
    // Who may connect is for the rules to say.
    fs::set_permissions(path, fs::Permissions::from_mode(0o777))?;
    Ok((listener, file))
}
