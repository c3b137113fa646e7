//! Ways of measured clients to a server.
//!
//! **Invariant:** the calls of the kernel that read and write are timed for both kinds of TCP that are compared, the
//! kernel's and that over AF_XDP. Waiting for the network is not part of them.

use super::client::explain;
use anyhow::Context;
use std::io;
use std::net::{IpAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, NoTls};
use xdp::{Memory, Port, PortOptions};

/// Time in which a server has to answer a request for a connection over AF_XDP.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// Connections over AF_XDP of one thread.
const XDP_CONNECTIONS_MAX: usize = 1_000;

/// Way of clients to a server.
#[derive(Clone, Debug)]
pub enum Link {
    /// By its address.
    Address,
    /// The same by the kernel's TCP, whose calls are timed.
    Timed,
    /// By memory that the server shares with those who connect to a socket.
    Shared(PathBuf),
    /// By TCP over AF_XDP at an interface.
    Xdp {
        /// Name of the interface.
        interface: &'static str,
    },
}

/// Nanoseconds in timed calls of the kernel's TCP.
static CALLS_NS: AtomicU64 = AtomicU64::new(0);

/// Returns the seconds that this process has spent in calls of the kernel over timed links.
pub fn calls_s() -> f64 {
    (CALLS_NS.load(Relaxed) + xdp::counts().kernel_ns) as f64 / 1e9
}

async fn connect_over<S>(stream: S, config: &Config) -> anyhow::Result<Client>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (client, connection) = config.connect_raw(stream, NoTls).await.map_err(|error| explain(&error))?;
    tokio::spawn(async move {
        // A client that waits for an answer is told of the error.
        let _ = connection.await;
    });
    Ok(client)
}

fn config(url: &str) -> anyhow::Result<Config> {
    url.parse().map_err(|error| explain(&error))
}

/// Returns the address of a server that is given by numbers.
fn address(config: &Config) -> anyhow::Result<SocketAddrV4> {
    match (config.get_hosts(), config.get_ports()) {
        ([Host::Tcp(host)], [port]) => match host.parse().context("the address of a server")? {
            IpAddr::V4(ip) => Ok(SocketAddrV4::new(ip, *port)),
            IpAddr::V6(_) => anyhow::bail!("an IPv4 address is needed"),
        },
        _ => anyhow::bail!("one address is needed"),
    }
}

/// Connects over the memory that a server shares with clients who connect to this socket.
pub async fn connect_shared(path: &Path, url: &str) -> anyhow::Result<Client> {
    let stream = overtake_client::connect(path).await.with_context(|| path.display().to_string())?;
    connect_over(stream, &config(url)?).await
}

/// Connects by the kernel's TCP, whose calls are timed.
pub async fn connect_timed(url: &str) -> anyhow::Result<Client> {
    let config = config(url)?;
    let stream = TcpStream::connect(address(&config)?).await.context("connecting")?;
    stream.set_nodelay(true).context("connecting")?;
    connect_over(Timed(stream), &config).await
}

/// Connects by the port of this thread's clients.
pub async fn connect_xdp(url: &str) -> anyhow::Result<Client> {
    let stream = xdp::connect(ANSWERS_WITHIN).await.context("connecting over AF_XDP")?;
    connect_over(stream, &config(url)?).await
}

/// Port of the clients of this thread, for as long as it exists. Their runtime ends first.
pub struct XdpClients(());

impl XdpClients {
    /// Starts the port of clients of a server, at an interface of this thread's network.
    pub fn start(runtime: &Runtime, interface: &str, url: &str) -> anyhow::Result<XdpClients> {
        let connections_max = XDP_CONNECTIONS_MAX;
        let options = PortOptions { interface: interface.to_owned(), connections_max, ..PortOptions::default() };
        // They are this process's own.
        let memory = Memory { change: |_| {}, has_room: |_| true };
        let port = Port::open_clients(options, address(&config(url)?)?, memory).context("AF_XDP of the clients")?;
        runtime.block_on(async { xdp::start(port, Box::new(drop)) }).context("AF_XDP of the clients")?;
        Ok(XdpClients(()))
    }
}

impl Drop for XdpClients {
    fn drop(&mut self) {
        xdp::stop();
    }
}

/// Stream of the kernel whose calls are timed.
struct Timed(TcpStream);

impl Timed {
    fn call<R>(self: Pin<&mut Self>, call: impl FnOnce(Pin<&mut TcpStream>) -> R) -> R {
        let begun = Instant::now();
        let result = call(Pin::new(&mut self.get_mut().0));
        CALLS_NS.fetch_add(begun.elapsed().as_nanos() as u64, Relaxed);
        result
    }
}

impl AsyncRead for Timed {
    fn poll_read(self: Pin<&mut Self>, cx: &mut TaskContext<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.call(|stream| stream.poll_read(cx, into))
    }
}

impl AsyncWrite for Timed {
    fn poll_write(self: Pin<&mut Self>, cx: &mut TaskContext<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.call(|stream| stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.call(|stream| stream.poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        // There is nothing to write by then.
        Pin::new(&mut self.get_mut().0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        self.call(|stream| stream.poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_server_is_in_its_url() {
        let of = |url: &str| address(&config(url).expect("a URL"));
        let address = of("postgresql://postgres@10.99.0.1:5432/postgres").expect("numbers");
        assert_eq!(address, SocketAddrV4::new([10, 99, 0, 1].into(), 5432));
        assert!(of("postgresql://postgres@%2Ftmp%2Fone:5432").is_err());
        assert!(of("postgresql://postgres@one,two/postgres").is_err());
    }
}
