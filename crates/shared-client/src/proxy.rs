//! Proxy on the server's machine: clients come by TCP or a unix socket, and go on over shared memory.
//!
//! **Invariant:** a client has one connection to the server, which ends with its own. The proxy copies bytes, and knows
//! nothing of the protocol.

use crate::connect;
use rings::SharedStream;
use rings::socket::{self, ACCEPT_PAUSE, SocketFile};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;

/// Bytes that are copied at once.
const PIECE: usize = 16 << 10;

/// Proxy that has bound its addresses.
#[derive(Debug)]
pub struct SharedProxy {
    listeners: Vec<Listener>,
    server: Arc<Path>,
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, #[expect(dead_code, reason = "removes the file when it is dropped")] SocketFile),
}

enum Client {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Reason why a client is not served.
#[derive(Debug)]
pub enum Failure {
    /// The server's socket cannot be reached.
    Unreachable(io::Error),
    /// No connection could be accepted.
    Unaccepted(io::Error),
}

/// Listener of failures.
pub type Tells = Arc<dyn Fn(&Failure) + Send + Sync>;

impl Listener {
    async fn accept(&self) -> io::Result<Client> {
        match self {
            Listener::Tcp(listener) => {
                let (client, _) = listener.accept().await?;
                // One write is one message or more, so nothing is gained by waiting for others.
                let _ = client.set_nodelay(true);
                Ok(Client::Tcp(client))
            }
            Listener::Unix(listener, _) => Ok(Client::Unix(listener.accept().await?.0)),
        }
    }

    /// Serves clients for ever.
    async fn serve(self, server: Arc<Path>, tells: Tells) {
        let mut clients = JoinSet::new();
        loop {
            match self.accept().await {
                Ok(client) => drop(clients.spawn(client.serve(Arc::clone(&server), Arc::clone(&tells)))),
                Err(error) => {
                    tells(&Failure::Unaccepted(error));
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
            while clients.try_join_next().is_some() {}
        }
    }
}

impl Client {
    async fn serve(self, server: Arc<Path>, tells: Tells) {
        match (connect(&server).await, self) {
            (Ok(stream), Client::Tcp(client)) => copy_both(client, stream).await,
            (Ok(stream), Client::Unix(client)) => copy_both(client, stream).await,
            (Err(error), _) => tells(&Failure::Unreachable(error)),
        }
    }
}

impl SharedProxy {
    /// Creates a proxy before the server with this socket.
    #[must_use]
    pub fn new(server: &Path) -> SharedProxy {
        SharedProxy { listeners: Vec::new(), server: Arc::from(server) }
    }

    /// Listens at a TCP address, too, in a tokio runtime with I/O. Returns the address, with the port that it was given.
    ///
    /// # Errors
    /// The address is in use, or does not belong to this machine.
    pub async fn listen(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind(address).await?;
        let bound = listener.local_addr()?;
        self.listeners.push(Listener::Tcp(listener));
        Ok(bound)
    }

    /// Listens at a unix socket, too, in a tokio runtime with I/O. A socket file that a killed process has left is
    /// replaced.
    ///
    /// # Errors
    /// Somebody listens there, the path is another file, or it cannot be created.
    pub fn listen_unix(&mut self, path: &Path) -> io::Result<()> {
        let (listener, file) = socket::listen(path)?;
        listener.set_nonblocking(true)?;
        self.listeners.push(Listener::Unix(UnixListener::from_std(listener)?, file));
        Ok(())
    }

    /// Serves until the future is dropped. `tells` hears of clients that could not be served.
    pub async fn run(self, tells: Tells) {
        let mut all = JoinSet::new();
        for listener in self.listeners {
            all.spawn(listener.serve(Arc::clone(&self.server), Arc::clone(&tells)));
        }
        while all.join_next().await.is_some() {}
    }
}

/// Copies bytes in both directions, until one side has failed or the server has ended. The end of the client's bytes
/// is passed on, and answers go on.
async fn copy_both(client: impl AsyncRead + AsyncWrite + Unpin, server: SharedStream) {
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let there = async {
        let copied = copy(&mut from_client, &mut to_server).await;
        if copied.is_ok() {
            let _ = to_server.shutdown().await;
            std::future::pending::<()>().await;
        }
    };
    let back = async {
        let _ = copy(&mut from_server, &mut to_client).await;
        let _ = to_client.shutdown().await;
    };
    tokio::select! {
        () = there => {}
        () = back => {}
    }
}

async fn copy(from: &mut (impl AsyncRead + Unpin), to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    let mut bytes = vec![0; PIECE];
    loop {
        let count = from.read(&mut bytes).await?;
        let Some(read) = bytes.get(..count).filter(|read| !read.is_empty()) else { return Ok(()) };
        to.write_all(read).await?;
    }
}
