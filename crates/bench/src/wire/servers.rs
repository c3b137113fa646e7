//! The servers that are compared: Overtake and PostgreSQL as children of this process, or the one behind `--url`.
//!
//! **Invariant:** each server is fresh and ends with the value; the remains of one run are never in the next one's way.

use super::client::{Control, connect};
use super::links::{Link, XdpClients, connect_shared, connect_timed, connect_xdp};
use super::postgres::{Cluster, Folder, Programs};
use super::processes::Processes;
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use host::memory;
use serde::Serialize;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio_postgres::Client;
use xdp::lab::Lab;

/// Choice of servers.
#[derive(Args, Clone, Debug, Serialize)]
pub struct ServerChoice {
    /// Server to measure alone, any that speaks the protocol; the benchmark drops and makes its tables there.
    #[arg(long, value_name = "URL", conflicts_with = "servers")]
    #[serde(skip)]
    url: Option<String>,
    /// Servers to compare; PostgreSQL 15 is found, or installed where apt-get can.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_values = ["overtake", "postgres", "postgres-unlogged"])]
    servers: Vec<ServerName>,
    /// Transport by which clients connect to the servers.
    #[arg(long, value_name = "WAY", default_value = "tcp", conflicts_with = "url")]
    transport: Transport,
}

/// Transport of `--transport`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// TCP on the loopback interface: the protocols that a client on another machine would take, less the wire.
    Tcp,
    /// Unix socket, as psql and pgbench use by default: the kernel's share is smaller.
    Unix,
}

/// Server of `--servers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerName {
    /// Overtake: this binary's `serve`.
    Overtake,
    /// PostgreSQL 15, tuned, synchronous_commit off.
    Postgres,
    /// PostgreSQL 15 on UNLOGGED tables, where a benchmark writes.
    PostgresUnlogged,
}

/// Running server.
pub struct Server {
    pub(super) running: ServerProcess,
    /// Address without a database.
    pub(super) base_url: String,
}

pub(super) enum ServerProcess {
    Overtake { child: Child, stdout: BufReader<ChildStdout>, _folder: Folder },
    Program { child: Child, _folder: Folder },
    Postgres(Cluster),
    Elsewhere,
}

/// Server with a way of making its tables: the subject of a measurement.
#[derive(Clone)]
pub struct MeasuredServer {
    /// Key in figures' names.
    pub key: &'static str,
    /// Title in tables.
    pub title: &'static str,
    /// Address: `postgresql://…`.
    pub url: String,
    /// True if tables are made UNLOGGED.
    pub is_unlogged: bool,
    /// Way of measured clients to it.
    pub link: Link,
    pub(super) server: Arc<Server>,
}

const STARTS_WITHIN: Duration = Duration::from_secs(60);

impl ServerChoice {
    /// Creates a choice of servers that are accessed over TCP.
    pub fn over_tcp(servers: &[ServerName]) -> ServerChoice {
        ServerChoice { url: None, servers: servers.to_vec(), transport: Transport::Tcp }
    }

    /// Starts the servers; `writes` says whether UNLOGGED tables make a difference.
    ///
    /// # Errors
    /// A [`host::refusal::Refusal`] if PostgreSQL is not available; errors of a server.
    pub fn start(&self, writes: bool, connections_max: u32) -> anyhow::Result<Vec<MeasuredServer>> {
        if let Some(url) = &self.url {
            return Ok(vec![elsewhere(url)?]);
        }
        let mut targets: Vec<MeasuredServer> = Vec::new();
        let mut postgres: Option<Arc<Server>> = None;
        for name in &self.servers {
            let (key, title, is_unlogged) = match name {
                ServerName::Overtake => ("overtake", "Overtake", false),
                ServerName::Postgres => ("postgres", "PostgreSQL 15", false),
                ServerName::PostgresUnlogged => ("postgres_unlogged", "PostgreSQL 15, UNLOGGED", true),
            };
            if targets.iter().any(|target| target.key == key) || (is_unlogged && !writes) {
                continue;
            }
            let server = match (name, &postgres) {
                (ServerName::Overtake, _) => Arc::new(Server::overtake(connections_max, self.transport)?),
                (_, Some(server)) => Arc::clone(server),
                (_, none) => {
                    debug_assert!(none.is_none());
                    Arc::clone(postgres.insert(Arc::new(Server::postgres(connections_max, self.transport)?)))
                }
            };
            let mut target = MeasuredServer {
                key,
                title,
                url: format!("{}/postgres", server.base_url),
                is_unlogged,
                link: Link::Address,
                server,
            };
            target.wait()?;
            if *name != ServerName::Overtake {
                Control::connect(&target)?.batch(&format!("create database bench_{key} template template0"))?;
                target.url = format!("{}/bench_{key}", target.server.base_url);
            }
            targets.push(target);
        }
        Ok(targets)
    }
}

impl Transport {
    /// Returns the address of a server of this machine whose socket is in this folder, without the database.
    fn url(self, port: u16, folder: &Path) -> String {
        match self {
            Transport::Tcp => format!("postgresql://postgres@127.0.0.1:{port}"),
            Transport::Unix => {
                // Separators would end the host.
                let host = folder.display().to_string().replace('/', "%2F");
                format!("postgresql://postgres@{host}:{port}")
            }
        }
    }
}

/// Returns the server at this address, which another program has started.
///
/// # Errors
/// If the server does not answer.
pub fn elsewhere(url: &str) -> anyhow::Result<MeasuredServer> {
    let server = Arc::new(Server { running: ServerProcess::Elsewhere, base_url: String::new() });
    let target = MeasuredServer {
        key: "url",
        title: "--url",
        url: url.to_owned(),
        is_unlogged: false,
        link: Link::Address,
        server,
    };
    target.wait()?;
    Ok(target)
}

/// Starts PostgreSQL 15 alone, over TCP, with an empty database of its own.
///
/// # Errors
/// Errors of [`ServerChoice::start`].
pub fn postgres(connections_max: u32) -> anyhow::Result<MeasuredServer> {
    ServerChoice::over_tcp(&[ServerName::Postgres])
        .start(true, connections_max)?
        .pop()
        .context("PostgreSQL was asked for")
}

/// Starts Overtake alone, over TCP.
///
/// # Errors
/// Errors of the server.
pub fn overtake(connections_max: u32) -> anyhow::Result<MeasuredServer> {
    one_overtake("overtake", "Overtake", Server::overtake(connections_max, Transport::Tcp)?)
}

/// Starts Overtake alone, over TCP, without its stage clock.
///
/// # Errors
/// Errors of the server.
pub fn overtake_without_clock(connections_max: u32) -> anyhow::Result<MeasuredServer> {
    let server = Server::serve(connections_max, Transport::Tcp, |command| {
        command.arg("--without-stage-clock");
    })?;
    one_overtake("overtake_without_clock", "Overtake without its stage clock", server)
}

/// Two servers whose transports are compared.
pub struct TransportServers {
    epoll: MeasuredServer,
    io_uring: MeasuredServer,
    shared: PathBuf,
    /// Folder of the socket.
    _folder: Folder,
}

impl TransportServers {
    /// Starts Overtake with all transports of a machine, and once more with io_uring.
    ///
    /// # Errors
    /// Errors of a server.
    pub fn start(connections_max: u32) -> anyhow::Result<TransportServers> {
        let folder = Folder::new("overtake-shared")?;
        let shared = folder.path().join("shared");
        let epoll = Server::serve(connections_max, Transport::Tcp, |command| {
            command.arg("--shared").arg(&shared);
        })?;
        let io_uring = Server::serve(connections_max, Transport::Tcp, |command| {
            command.args(["-c", "overtake.network=io_uring"]);
        })?;
        Ok(TransportServers {
            epoll: one_overtake("tcp", "TCP", epoll)?,
            io_uring: one_overtake("io_uring", "TCP by io_uring", io_uring)?,
            shared,
            _folder: folder,
        })
    }

    /// Returns each server once.
    pub fn each(&self) -> [&MeasuredServer; 2] {
        [&self.epoll, &self.io_uring]
    }

    /// Returns the servers by each transport, TCP first.
    pub fn targets(&self) -> Vec<MeasuredServer> {
        let mut unix = MeasuredServer { key: "unix", title: "Unix socket", ..self.epoll.clone() };
        if let ServerProcess::Overtake { _folder, .. } = &self.epoll.server.running {
            let port = self.epoll.server.base_url.rsplit(':').next().and_then(|port| port.parse().ok());
            unix.url = format!("{}/postgres", Transport::Unix.url(port.unwrap_or_default(), _folder.path()));
        }
        let shared = self.epoll.by(("shared", "shared memory"), Link::Shared(self.shared.clone()));
        vec![self.epoll.clone(), self.io_uring.clone(), unix, shared]
    }
}

/// Starts Overtake in the server's network of a lab, at an address there and port 5432. This thread, and those that
/// measure, have to be in the clients' network.
///
/// # Errors
/// Errors of the server.
pub fn overtake_in(
    lab: &Lab,
    (key, title): (&'static str, &'static str),
    connections_max: u32,
    settings: &[&str],
) -> anyhow::Result<MeasuredServer> {
    let folder = Folder::new("overtake-rules")?;
    let rules = folder.path().join("pg_hba.conf");
    std::fs::write(&rules, "local all all trust\nhost all all all trust\n").context("rules for clients")?;
    let start = || {
        Server::serve(connections_max, Transport::Tcp, |command| {
            command.arg("-c").arg(format!("hba_file={}", rules.display()));
            for setting in ["port=5432", "overtake.network_threads=1"].iter().chain(settings) {
                command.args(["-c", setting]);
            }
        })
    };
    let mut server = lab.at_server(start).context("a thread in another network")??;
    server.base_url = format!("postgresql://postgres@{}:5432", lab.server_address());
    one_overtake(key, title, server)
}

fn one_overtake(key: &'static str, title: &'static str, server: Server) -> anyhow::Result<MeasuredServer> {
    let url = format!("{}/postgres", server.base_url);
    let target = MeasuredServer { key, title, url, is_unlogged: false, link: Link::Address, server: Arc::new(server) };
    target.wait()?;
    Ok(target)
}

/// Starts PostgreSQL 15 alone, tuned for a machine with little memory.
///
/// # Errors
/// Errors of [`ServerChoice::start`].
pub fn small_postgres(connections_max: u32) -> anyhow::Result<MeasuredServer> {
    let server = Arc::new(Server::postgres_of(connections_max, Transport::Tcp, 512 << 20)?);
    let url = format!("{}/postgres", server.base_url);
    let target = MeasuredServer {
        key: "postgres",
        title: "PostgreSQL 15",
        url,
        is_unlogged: false,
        link: Link::Address,
        server,
    };
    target.wait()?;
    Ok(target)
}

impl Server {
    fn overtake(connections_max: u32, transport: Transport) -> anyhow::Result<Server> {
        Server::serve(connections_max, transport, |_| {})
    }

    /// Starts this binary's `serve`, with more arguments.
    pub(super) fn serve(
        connections_max: u32,
        transport: Transport,
        more: impl FnOnce(&mut Command),
    ) -> anyhow::Result<Server> {
        let binary = std::env::current_exe().context("where this program is")?;
        let folder = Folder::new("overtake-serve")?;
        let mut command = Command::new(binary);
        command.arg("serve").arg("--socket").arg(folder.path());
        command.args(["--listen", "127.0.0.1:0", "--connections", &connections_max.to_string()]);
        more(&mut command);
        if std::env::var_os("OVERTAKE_LOG").is_none() {
            command.env("OVERTAKE_LOG", "warn");
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("overtake serve")?;
        let stdout = child.stdout.take().context("overtake serve has no output")?;
        // The server ends with this value, on every path from here.
        let running = ServerProcess::Overtake { child, stdout: BufReader::new(stdout), _folder: folder };
        let mut server = Server { running, base_url: String::new() };
        let ServerProcess::Overtake { child, stdout, _folder: folder } = &mut server.running else {
            unreachable!("it was made so");
        };
        let mut line = String::new();
        let base_url = loop {
            line.clear();
            if stdout.read_line(&mut line).context("overtake serve")? == 0 {
                bail!("overtake serve has ended: {}", child.wait().context("overtake serve")?);
            }
            if let Some(url) = base_url(&line) {
                break url;
            }
        };
        let port = base_url.rsplit(':').next().and_then(|port| port.parse().ok());
        server.base_url = transport.url(port.context("overtake serve printed no port")?, folder.path());
        Ok(server)
    }

    fn postgres(connections_max: u32, transport: Transport) -> anyhow::Result<Server> {
        Server::postgres_of(connections_max, transport, memory::total_bytes().unwrap_or(4 << 30))
    }

    fn postgres_of(connections_max: u32, transport: Transport, memory_bytes: u64) -> anyhow::Result<Server> {
        let programs = Programs::find_or_install()?;
        let cluster = Cluster::start(&programs, memory_bytes, connections_max)?;
        let base_url = transport.url(cluster.port(), cluster.folder());
        Ok(Server { running: ServerProcess::Postgres(cluster), base_url })
    }
}

/// Returns the address in a line like `  psql "postgresql://postgres@127.0.0.1:5432/postgres"`, without the database.
fn base_url(line: &str) -> Option<String> {
    const SCHEME: &str = "postgresql://";
    let (_, rest) = line.split_once(SCHEME)?;
    Some(format!("{SCHEME}{}", rest.split(['/', '"']).next()?))
}

impl Drop for Server {
    fn drop(&mut self) {
        if let ServerProcess::Overtake { child, .. } | ServerProcess::Program { child, .. } = &mut self.running {
            // The server's data is in memory and of no further use. A cluster ends by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl MeasuredServer {
    /// Returns the same server for clients who come by a link, under another key and title.
    pub fn by(&self, (key, title): (&'static str, &'static str), link: Link) -> MeasuredServer {
        MeasuredServer { key, title, link, ..self.clone() }
    }

    /// Makes a thread ready for clients, which are those of a runtime that ends before the result does.
    ///
    /// # Errors
    /// The link is not possible here.
    pub fn prepare_clients(&self, runtime: &Runtime) -> anyhow::Result<Option<XdpClients>> {
        match &self.link {
            Link::Xdp { interface } => XdpClients::start(runtime, interface, &self.url).map(Some),
            Link::Address | Link::Timed | Link::Shared(_) => Ok(None),
        }
    }

    /// Connects by the server's link; the connection's task runs on the current runtime.
    ///
    /// # Errors
    /// Errors of the server or the network.
    pub async fn client(&self) -> anyhow::Result<Client> {
        match &self.link {
            Link::Address => connect(&self.url).await,
            Link::Timed => connect_timed(&self.url).await,
            Link::Shared(path) => connect_shared(path, &self.url).await,
            Link::Xdp { .. } => connect_xdp(&self.url).await,
        }
    }

    /// Returns true if the server is Overtake.
    pub fn is_overtake(&self) -> bool {
        matches!(self.server.running, ServerProcess::Overtake { .. })
    }

    /// Returns the transport by which clients connect to the server.
    pub fn transport(&self) -> Transport {
        if self.url.contains("%2F") { Transport::Unix } else { Transport::Tcp }
    }

    /// Returns true if the server is PostgreSQL started here.
    pub fn is_postgres(&self) -> bool {
        matches!(self.server.running, ServerProcess::Postgres(_))
    }

    /// Returns the server's processes, unless another program started it.
    pub fn processes(&self) -> Option<Processes> {
        match &self.server.running {
            ServerProcess::Overtake { child, .. } | ServerProcess::Program { child, .. } => {
                Some(Processes::of(child.id()))
            }
            ServerProcess::Postgres(cluster) => Some(Processes::of(cluster.pid())),
            ServerProcess::Elsewhere => None,
        }
    }

    /// Returns the folder of the server's files, if it is PostgreSQL started here.
    pub fn folder(&self) -> Option<&Path> {
        match &self.server.running {
            ServerProcess::Postgres(cluster) => Some(cluster.folder()),
            ServerProcess::Overtake { .. } | ServerProcess::Program { .. } | ServerProcess::Elsewhere => None,
        }
    }

    /// Returns the seconds of processor time that the server's processes have used.
    ///
    /// # Errors
    /// If they do not live.
    pub fn processor_s(&self) -> anyhow::Result<Option<f64>> {
        self.processes().map(Processes::processor_s).transpose()
    }

    /// Waits until the server accepts connections.
    pub(super) fn wait(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            match Control::connect(self) {
                Ok(_) => return Ok(()),
                Err(error) if STARTS_WITHIN < began.elapsed() || self.processes().is_none() => {
                    let log = match &self.server.running {
                        ServerProcess::Postgres(cluster) => cluster.log(),
                        ServerProcess::Overtake { .. } | ServerProcess::Program { .. } | ServerProcess::Elsewhere => {
                            String::new()
                        }
                    };
                    return Err(error.context(format!("{} does not answer {log}", self.title)));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_a_host() {
        let folder = Path::new("/tmp/one");
        assert_eq!(Transport::Unix.url(5432, folder), "postgresql://postgres@%2Ftmp%2Fone:5432");
        assert_eq!(Transport::Tcp.url(5432, folder), "postgresql://postgres@127.0.0.1:5432");
    }

    #[test]
    fn the_address_is_in_what_serve_prints() {
        let line = "  psql \"postgresql://postgres@127.0.0.1:6543/postgres\"\n";
        assert_eq!(base_url(line).as_deref(), Some("postgresql://postgres@127.0.0.1:6543"));
        let line = "  psql \"postgresql://postgres@127.0.0.1:6543/bench_postgres\"\n";
        assert_eq!(base_url(line).as_deref(), Some("postgresql://postgres@127.0.0.1:6543"));
        assert_eq!(base_url("Overtake is listening.\n"), None);
    }
}
