//! Stream of bytes over a pair of rings, for tokio.
//!
//! **Invariant:** no call blocks. The socket beside the rings is this side's own, and does not block whatever the other
//! side does with its end.

use crate::memory::SharedMemory;
use crate::pair::{PAIR_BYTES, Pair, RING_BYTES, Side, VERSION, WANTS_BYTES, WANTS_ROOM};
use crate::spin::{self, Spin};
use crate::system;
use locked::Locked;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as StdStream;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// First bytes over the socket, with the file: a name, then the version of the layout.
const HELLO: [u8; 16] = *b"overtake-rings\0\x01";
const _: () = assert!(HELLO[15] as u32 == VERSION);
/// Time in which a server passes its memory.
pub(crate) const GREETING_TIME: Duration = Duration::from_secs(10);
/// Bytes that are read from the socket at once. Each of them is a wake-up, and one is enough.
const HEARD_BYTES: usize = 64;
/// Room from which a writer is woken. One that is woken for less would be woken for each read.
const ROOM: usize = RING_BYTES / 2;

/// Stream of bytes over memory that is shared with another process.
#[derive(Debug)]
pub struct SharedStream {
    pair: Pair,
    bell: UnixStream,
    tasks: Arc<Tasks>,
    spin: Spin,
    /// True once the other side has closed its socket.
    is_gone: bool,
    /// True once this side writes no more.
    has_ended: bool,
}

/// Tasks that sleep until the socket says something. Reads and writes may belong to different tasks.
#[derive(Debug, Default)]
struct Tasks {
    reader: Mutex<Option<Waker>>,
    writer: Mutex<Option<Waker>>,
}

impl Tasks {
    fn wake(slot: &Mutex<Option<Waker>>) {
        let waker = slot.locked_anyway().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Wake for Tasks {
    fn wake(self: Arc<Tasks>) {
        Tasks::wake(&self.reader);
        Tasks::wake(&self.writer);
    }
}

/// Direction in which a task waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    ForBytes,
    ForRoom,
}

impl SharedStream {
    /// Creates the memory, passes it to the peer of a socket and returns the server's side, in a tokio runtime.
    ///
    /// # Errors
    /// The system has no descriptors or memory left, or the peer has gone.
    pub fn offer(socket: StdStream) -> io::Result<SharedStream> {
        let (memory, file) = SharedMemory::create(c"overtake-rings", PAIR_BYTES)?;
        memory.word(0).store(VERSION, std::sync::atomic::Ordering::SeqCst);
        system::send_file(&socket, &HELLO, &file)?;
        SharedStream::new(socket, Pair::new(memory, Side::Server))
    }

    /// Takes the memory that a server passes over a socket, and returns the client's side, in a tokio runtime with I/O
    /// and time. Waits for the server, for 10 s at most.
    ///
    /// # Errors
    /// The peer has gone, is no such server, or has not answered in time ([`ErrorKind::TimedOut`]).
    pub async fn accept(socket: UnixStream) -> io::Result<SharedStream> {
        SharedStream::accept_within(socket, GREETING_TIME).await
    }

    async fn accept_within(socket: UnixStream, limit: Duration) -> io::Result<SharedStream> {
        // A socket may be called ready when it is not.
        let received = socket.async_io(Interest::READABLE, || receive(&socket));
        let memory = timeout(limit, received).await.unwrap_or_else(|_| Err(silent()))?;
        SharedStream::new(socket.into_std()?, Pair::new(memory, Side::Client))
    }

    /// Connects to the socket of a server, in a tokio runtime with I/O and time. Waits for its memory, for 10 s at most.
    ///
    /// # Errors
    /// Nobody listens there, or it is no such server, or it has not answered in time ([`ErrorKind::TimedOut`]).
    pub async fn connect(path: &Path) -> io::Result<SharedStream> {
        SharedStream::accept(UnixStream::connect(path).await?).await
    }

    fn new(socket: StdStream, pair: Pair) -> io::Result<SharedStream> {
        socket.set_nonblocking(true)?;
        let bell = UnixStream::from_std(socket)?;
        let tasks = Arc::default();
        Ok(SharedStream { pair, bell, tasks, spin: Spin::new(), is_gone: false, has_ended: false })
    }

    /// Moves the stream into the caller's runtime.
    ///
    /// # Errors
    /// The system refuses the registration.
    pub fn settled(self) -> io::Result<SharedStream> {
        let SharedStream { pair, bell, is_gone, has_ended, .. } = self;
        let settled = SharedStream::new(bell.into_std()?, pair)?;
        Ok(SharedStream { is_gone, has_ended, ..settled })
    }

    /// Returns the socket beside the rings.
    pub fn socket(&self) -> &UnixStream {
        &self.bell
    }

    /// Wakes the other side if it sleeps for this reason.
    fn wake(&mut self, reason: u32) {
        if self.pair.must_wake(reason) {
            spin::count_wake();
            // Not by tokio, which would not try while it does not know that there is room.
            match system::send_byte(self.bell.as_fd()) {
                // Without room, enough wake-ups are on their way.
                Ok(()) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => self.is_gone = true,
            }
        }
    }

    /// Sleeps until the socket says something, or has ended.
    fn poll_heard(&mut self, waits: Waits, cx: &Context<'_>) -> Poll<()> {
        let (own, other) = match waits {
            Waits::ForBytes => (&self.tasks.reader, &self.tasks.writer),
            Waits::ForRoom => (&self.tasks.writer, &self.tasks.reader),
        };
        if self.is_gone {
            return Poll::Ready(());
        }
        let mut slot = own.locked_anyway();
        if !slot.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *slot = Some(cx.waker().clone());
        }
        drop(slot);
        let both = Waker::from(Arc::clone(&self.tasks));
        let mut both = Context::from_waker(&both);
        let mut heard = [MaybeUninit::uninit(); HEARD_BYTES];
        let mut heard = ReadBuf::uninit(&mut heard);
        let read = ready!(Pin::new(&mut self.bell).poll_read(&mut both, &mut heard));
        self.is_gone = read.is_err() || heard.filled().is_empty();
        Tasks::wake(other);
        Poll::Ready(())
    }

    /// Returns the number of bytes to take, once there are some; 0 at the end of the stream.
    fn poll_available(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        loop {
            // The end is looked at first: bytes that were written before it are seen then.
            let is_last = self.is_gone || self.pair.has_ended();
            let available = self.pair.available()?;
            if 0 < available || is_last {
                self.spin.is_over();
                self.pair.no_longer_want(WANTS_BYTES);
                return Poll::Ready(Ok(available));
            }
            if self.spin.looks_again() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.pair.want(WANTS_BYTES);
            if 0 < self.pair.available()? || self.pair.has_ended() {
                continue;
            }
            self.spin.sleeps();
            ready!(self.poll_heard(Waits::ForBytes, cx));
        }
    }

    /// Returns the room, once there is some.
    fn poll_room(&mut self, cx: &Context<'_>) -> Poll<io::Result<usize>> {
        loop {
            if self.is_gone || self.has_ended {
                return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
            }
            let room = self.pair.room()?;
            if 0 < room {
                self.pair.no_longer_want(WANTS_ROOM);
                return Poll::Ready(Ok(room));
            }
            self.pair.want(WANTS_ROOM);
            if 0 < self.pair.room()? {
                continue;
            }
            ready!(self.poll_heard(Waits::ForRoom, cx));
        }
    }

    /// Declares that this side writes no more.
    fn end(&mut self) {
        if !self.has_ended {
            self.has_ended = true;
            self.pair.end();
            self.wake(WANTS_BYTES);
        }
    }
}

/// Error for a peer that passes no memory in time.
pub(crate) fn silent() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "the peer has passed no memory in time: it may be no server that shares memory")
}

/// Receives the memory of a server over a socket. The pair of rings in it has the layout of [`Pair`].
///
/// # Errors
/// The peer has gone, or is no such server. A socket that does not block may not have it yet
/// ([`ErrorKind::WouldBlock`]).
pub fn receive(socket: &impl AsFd) -> io::Result<SharedMemory> {
    let mut hello = [0; HELLO.len()];
    let stranger = || io::Error::new(ErrorKind::InvalidData, "the peer is no server that shares memory");
    match system::receive_file(socket.as_fd(), &mut hello)? {
        (0, _) => Err(ErrorKind::UnexpectedEof.into()),
        (count, Some(file)) if hello.get(..count) == Some(&HELLO) => open(&file),
        _ => Err(stranger()),
    }
}

fn open(file: &File) -> io::Result<SharedMemory> {
    SharedMemory::open(file, PAIR_BYTES)
}

impl AsyncRead for SharedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if into.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let available = ready!(self.poll_available(cx))?;
        let count = available.min(into.remaining());
        if 0 < count {
            self.pair.take(into.initialize_unfilled_to(count));
            into.advance(count);
            if available - count <= RING_BYTES - ROOM {
                self.wake(WANTS_ROOM);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SharedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let count = ready!(self.poll_room(cx))?.min(bytes.len());
        if let Some(first) = bytes.get(..count).filter(|first| !first.is_empty()) {
            self.pair.put(first);
            self.wake(WANTS_BYTES);
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.end();
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests;
