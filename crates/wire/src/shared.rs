//! Transport over memory that is shared with a client of the same machine.
//!
//! **Invariant:** the memory counts as memory of the process, like unfinished messages, for as long as the connection
//! lives.

use crate::io::{Io, Peer, Stay};
use engine::memory::{MESSAGES, has_room};
use rings::SharedStream;
use rings::pair::PAIR_BYTES;
use stage::Transport;
use std::io;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Connection over shared memory.
#[derive(Debug)]
pub struct SharedIo {
    stream: SharedStream,
    _counted: Counted,
}

/// Memory of one connection, as it is counted for the whole process.
#[derive(Debug)]
struct Counted;

impl Counted {
    fn new() -> Counted {
        MESSAGES.change(PAIR_BYTES as i64);
        Counted
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        MESSAGES.change(-(PAIR_BYTES as i64));
    }
}

impl SharedIo {
    /// Creates the memory of a connection, and passes it to the client at the other end of the socket.
    ///
    /// # Errors
    /// The process may not use so much memory, the system has no descriptors left, or the client has gone.
    pub fn offer(socket: UnixStream) -> io::Result<SharedIo> {
        if !has_room(PAIR_BYTES) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let _counted = Counted::new();
        Ok(SharedIo { stream: SharedStream::offer(socket)?, _counted })
    }
}

impl AsyncRead for SharedIo {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for SharedIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Io for SharedIo {
    fn transport(&self) -> Transport {
        Transport::Shared
    }

    fn peer(&self) -> Peer {
        self.stream.socket().peer()
    }

    fn settled(self: Box<Self>, _stay: Stay) -> io::Result<Box<dyn Io>> {
        let SharedIo { stream, _counted } = *self;
        Ok(Box::new(SharedIo { stream: stream.settled()?, _counted }))
    }
}
