//! Stream of bytes of one connection.

use crate::driver::{Driver, Orphans, with};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddrV4;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Connection of a port. It works on the thread of the port only; elsewhere, its reads and writes fail.
///
/// Bytes that were written are sent when the tasks that are ready now have had their turn; a flush does not wait for
/// that. Dropping the stream closes the connection, wherever that happens.
#[derive(Debug)]
pub struct XdpStream {
    /// Identity of the port.
    pub(crate) port: u64,
    /// Number among the port's connections.
    pub(crate) number: u32,
    pub(crate) ours: SocketAddrV4,
    pub(crate) theirs: SocketAddrV4,
    pub(crate) orphans: Arc<Orphans>,
}

/// Connects to the server of this thread's port, which is one of clients. The server has this time to answer; the
/// request is repeated meanwhile.
///
/// # Errors
/// `ConnectionRefused` and `TimedOut`; no such port on this thread, or no room for one more connection.
pub async fn connect(limit: Duration) -> io::Result<XdpStream> {
    let opened = with(|driver| driver.open(limit));
    let stream = opened.unwrap_or_else(|| Err(io::Error::other("this thread has no port")))?;
    poll_fn(|cx| here(stream.at_home(|driver| driver.poll_open(stream.number, cx)))).await?;
    Ok(stream)
}

impl XdpStream {
    /// Runs on the driver that this stream belongs to; `None` elsewhere.
    fn at_home<R>(&self, job: impl FnOnce(&mut Driver) -> R) -> Option<R> {
        with(|driver| (driver.identity() == self.port).then(|| job(driver))).flatten()
    }

    /// Returns true on the thread of its port.
    pub fn is_at_home(&self) -> bool {
        self.at_home(|_| ()).is_some()
    }

    /// Returns the local and the remote address.
    pub fn addresses(&self) -> (SocketAddrV4, SocketAddrV4) {
        (self.ours, self.theirs)
    }

    /// Limits the time in which the peer acknowledges nothing of what it was sent; `None`: two minutes.
    pub fn limit_silence(&self, limit: Option<Duration>) {
        self.at_home(|driver| driver.at(self.number, |connection| connection.limit_silence(limit)));
    }
}

fn here<R>(polled: Option<Poll<io::Result<R>>>) -> Poll<io::Result<R>> {
    polled.unwrap_or_else(|| Poll::Ready(Err(io::Error::other("the port of this connection is not here"))))
}

impl AsyncRead for XdpStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        here(self.at_home(|driver| {
            driver.poll_read(self.number, cx, |held| {
                let count = held.len().min(into.remaining());
                into.put_slice(held.get(..count).unwrap_or_default());
                count
            })
        }))
    }
}

impl AsyncWrite for XdpStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        here(self.at_home(|driver| driver.poll_write(self.number, cx, bytes)))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        here(self.at_home(|driver| {
            driver.at(self.number, |connection| connection.shut_down());
            Poll::Ready(Ok(()))
        }))
    }
}

impl Drop for XdpStream {
    fn drop(&mut self) {
        if self.at_home(|driver| driver.at(self.number, |connection| connection.abandon())).is_none() {
            self.orphans.push(self.number);
        }
    }
}
