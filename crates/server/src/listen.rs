//! Listens, accepts, and ends.
//!
//! **Invariant:** each connection is a task; none outlives [`Server::run`].

use crate::backend::Backends;
use crate::config::Config;
use crate::conn::Io;
use crate::registry::Registry;
use crate::rules::Origin;
use crate::scram;
use crate::startup;
use crate::wake::Bells;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream as StdUnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// Between two attempts to accept when there are no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What all connections share.
pub(crate) struct Shared<D> {
    pub(crate) config: Config,
    pub(crate) backends: D,
    pub(crate) registry: Arc<Registry>,
    pub(crate) bells: Arc<Bells>,
    /// Makes up salts for users who do not exist.
    pub(crate) mock_secret: [u8; 32],
}

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

/// A connection that has just come.
type Incoming = (Box<dyn Io>, Origin);

impl<D: Backends> Server<D> {
    /// Takes its addresses.
    ///
    /// # Errors
    /// An address is in use or not ours; the system gives no random bytes.
    pub fn bind(config: Config, database: D) -> io::Result<Server<D>> {
        let tcp = config.listen.iter().map(StdTcpListener::bind).collect::<io::Result<Vec<_>>>()?;
        let metrics = config.metrics.map(StdTcpListener::bind).transpose()?;
        let unix = match &config.unix {
            Some((directory, number)) => Some(bind_unix(&directory.join(format!(".s.PGSQL.{number}")))?),
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
        let shared = Arc::new(Shared { config, backends: database, registry, bells, mock_secret });
        Ok(Server { shared, tcp, unix, heard, metrics })
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
        if let Some(listener) = metrics {
            helpers.spawn(crate::metrics::serve(listener, shared.config.stats.clone()));
        }
        for listener in tcp {
            listener.set_nonblocking(true)?;
            helpers.spawn(accept_tcp(TcpListener::from_std(listener)?, sender.clone()));
        }
        let mut socket_file = None;
        if let Some((listener, file)) = unix {
            listener.set_nonblocking(true)?;
            helpers.spawn(accept_unix(UnixListener::from_std(listener)?, sender.clone()));
            socket_file = Some(file);
        }
        drop(sender);
        let _poke = Poke::start(Handle::current())?;
        let (end, ending) = watch::channel(false);
        // Those who have not said who they are have no place, but they are not without number either.
        let tasks_max = shared.config.connections_max.saturating_mul(2).saturating_add(64);
        let mut tasks = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(ended) = tasks.join_next() => report(ended),
                Some((io, origin)) = incoming.recv() => {
                    if tasks_max <= tasks.len() {
                        shared.config.stats.turned_away.fetch_add(1, Relaxed);
                        tracing::warn!("a connection was closed at once: there are too many");
                        continue;
                    }
                    let shared = Arc::clone(&shared);
                    let mut ending = ending.clone();
                    tasks.spawn(async move {
                        // An error means that the server has gone.
                        let ended = Box::pin(async move { drop(ending.wait_for(|&ends| ends).await) });
                        startup::serve(&shared, io, origin, ended).await;
                    });
                }
            }
        }
        // New clients are refused by the system from here on; waits still need their bells.
        drop(incoming);
        drop(socket_file);
        let _ = end.send(true);
        let drained = async {
            while let Some(ended) = tasks.join_next().await {
                report(ended);
            }
        };
        if tokio::time::timeout(shared.config.shutdown_grace, drained).await.is_err() {
            tracing::warn!(count = tasks.len(), "sessions were ended in the middle");
            tasks.shutdown().await;
        }
        helpers.shutdown().await;
        Ok(())
    }
}

/// How long nobody may look whether anything has arrived.
const POKE: Duration = Duration::from_millis(5);

/// Wakes a thread of the runtime now and then. One that runs a statement may be the one that has last looked for arrivals,
/// and the others then sleep until they are given work: a cancel would not be read.
struct Poke {
    is_over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Poke {
    fn start(runtime: Handle) -> io::Result<Poke> {
        let is_over = Arc::new(AtomicBool::new(false));
        let there = Arc::clone(&is_over);
        let thread = std::thread::Builder::new().name("poke".to_owned()).spawn(move || {
            while !there.load(Relaxed) {
                runtime.spawn(async {});
                std::thread::park_timeout(POKE);
            }
        })?;
        Ok(Poke { is_over, thread: Some(thread) })
    }
}

impl Drop for Poke {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
        }
    }
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a session ended by a fault of this program");
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
