//! Client side of the transport over shared memory, for clients on the server's machine.
//!
//! A server that listens by `overtake.listen_shared` takes such clients. The stream is an ordinary one of tokio, so a
//! driver that takes any stream works over it. With tokio-postgres:
//!
//! ```no_run
//! # async fn connect() -> Result<(), Box<dyn std::error::Error>> {
//! let stream = overtake_client::connect("/run/overtake/shared").await?;
//! let mut config = tokio_postgres::Config::new();
//! config.user("postgres").dbname("postgres");
//! let (client, connection) = config.connect_raw(stream, tokio_postgres::NoTls).await?;
//! tokio::spawn(connection);
//! # drop(client);
//! # Ok(())
//! # }
//! ```
//!
//! A request to cancel needs a stream of its own, for `CancelToken::cancel_query_raw`.
//!
//! Drivers that connect by themselves use a [`proxy`] on this machine, `overtake shared-proxy`.
//!
//! **Invariant:** the other side is not trusted: a server that writes garbage makes reads fail, and nothing else.

pub mod proxy;

pub use rings::{BlockingStream, SharedStream};

use std::io;
use std::path::Path;

/// Connects to the socket that a server names by `overtake.listen_shared`, in a tokio runtime with I/O and
/// time.
///
/// # Errors
/// Nobody listens there, it is no such server, or it does not answer within 10 s.
pub async fn connect(path: impl AsRef<Path>) -> io::Result<SharedStream> {
    SharedStream::connect(path.as_ref()).await
}

/// Connects like [`connect`], for a thread that blocks.
///
/// # Errors
/// The same as those of [`connect`].
pub fn connect_blocking(path: impl AsRef<Path>) -> io::Result<BlockingStream> {
    BlockingStream::connect(path.as_ref())
}
