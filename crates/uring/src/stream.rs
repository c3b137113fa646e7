//! Stream of bytes of one connection.

use crate::driver::{Driver, with};
use std::io;
use std::net::{Shutdown, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Connection of the ring that its thread had when it was created. On another thread, or once that ring has ended, its
/// reads and writes fail. It has to be dropped on its thread: elsewhere, the peer sees its end, but its memory stays until
/// the ring ends.
///
/// Bytes that were written are sent when the tasks that are ready now have had their turn; a flush does not wait for
/// that, a shutdown does.
#[derive(Debug)]
pub struct UringStream {
    /// Identity of the ring.
    ring: u64,
    /// Number among the ring's connections.
    number: u32,
    socket: Arc<TcpStream>,
}

impl UringStream {
    /// Takes over a connection, on a thread with a ring.
    ///
    /// # Errors
    /// This thread has no ring.
    pub fn new(socket: TcpStream) -> io::Result<UringStream> {
        // Otherwise operations would fail where they should wait.
        socket.set_nonblocking(false)?;
        let socket = Arc::new(socket);
        let added = with(|driver| (driver.identity(), driver.add(Arc::clone(&socket))));
        let (ring, number) = added.ok_or_else(|| io::Error::other("this thread has no ring"))?;
        Ok(UringStream { ring, number, socket })
    }

    /// Runs on the driver that this stream belongs to; `None` elsewhere.
    fn at_home<R>(&self, job: impl FnOnce(&mut Driver) -> R) -> Option<R> {
        with(|driver| (driver.identity() == self.ring).then(|| job(driver))).flatten()
    }

    /// Returns the socket.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }
}

fn here<R>(polled: Option<Poll<io::Result<R>>>) -> Poll<io::Result<R>> {
    polled.unwrap_or_else(|| Poll::Ready(Err(io::Error::other("the ring of this connection is not here"))))
}

impl AsyncRead for UringStream {
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

impl AsyncWrite for UringStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        here(self.at_home(|driver| driver.poll_write(self.number, cx, bytes)))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(here(self.at_home(|driver| driver.poll_sent(self.number, cx))))?;
        Poll::Ready(self.socket.shutdown(Shutdown::Write))
    }
}

impl Drop for UringStream {
    fn drop(&mut self) {
        if self.at_home(|driver| driver.abandon(self.number)).is_none() {
            let _ = self.socket.shutdown(Shutdown::Both);
        }
    }
}
