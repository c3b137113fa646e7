//! One connection: bytes in, bytes out.
//!
//! **Invariant:** one read asks for as much as there is, one write sends all that was answered. Of input no more is kept
//! than one message may have and one read brings.

use crate::Cancel;
use crate::End;
use crate::Parked;
use crate::errors;
use crate::frame::{self, Broken, HEAD, Malformed};
use crate::reply::Replies;
use crate::wait::Gone;
use crate::wake::Waiter;
use bytes::{Buf, Bytes, BytesMut};
use engine::memory::{MESSAGES, has_room};
use socket2::SockRef;
use statement::SqlError;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Empty, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tokio_rustls::server::TlsStream;

/// Who is at the other end of a stream, as the system knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The system does not say.
    Unknown,
    /// Addresses of a TCP connection.
    Tcp {
        /// Own address.
        ours: SocketAddr,
        /// Address of the peer.
        theirs: SocketAddr,
    },
    /// The process that listens on the unix socket, if it can be seen from here.
    Unix(Option<i32>),
}

/// A stream of any kind.
pub trait Io: AsyncRead + AsyncWrite + Unpin + Send {
    /// Who is at its other end.
    fn peer(&self) -> Peer {
        Peer::Unknown
    }

    /// Tells whether the connection ends when the other end says nothing of what it was sent for this long, or has no room for more.
    fn limit_silence(&self, _limit: Option<Duration>) {}

    /// The same stream in the runtime of the caller, from whichever it was in.
    ///
    /// # Errors
    /// The system does not take it.
    fn settled(self: Box<Self>) -> io::Result<Box<dyn Io>>;
}

impl Io for TcpStream {
    fn limit_silence(&self, limit: Option<Duration>) {
        // A system that does not know it has its own limit.
        let _ = SockRef::from(self).set_tcp_user_timeout(limit);
    }

    fn peer(&self) -> Peer {
        match (self.local_addr(), self.peer_addr()) {
            (Ok(ours), Ok(theirs)) => Peer::Tcp { ours, theirs },
            _ => Peer::Unknown,
        }
    }

    fn settled(self: Box<Self>) -> io::Result<Box<dyn Io>> {
        Ok(Box::new(TcpStream::from_std(self.into_std()?)?))
    }
}

impl Io for UnixStream {
    fn peer(&self) -> Peer {
        let pid = self.peer_cred().ok().and_then(|peer| peer.pid());
        Peer::Unix(pid.filter(|&pid| 0 < pid))
    }

    fn settled(self: Box<Self>) -> io::Result<Box<dyn Io>> {
        Ok(Box::new(UnixStream::from_std(self.into_std()?)?))
    }
}

impl Io for TlsStream<Box<dyn Io>> {
    fn settled(mut self: Box<Self>) -> io::Result<Box<dyn Io>> {
        let plain = self.get_mut().0;
        *plain = mem::replace(plain, Box::new(tokio::io::empty())).settled()?;
        Ok(self)
    }
}

impl Io for tokio_rustls::client::TlsStream<Box<dyn Io>> {
    fn limit_silence(&self, limit: Option<Duration>) {
        self.get_ref().0.limit_silence(limit);
    }

    fn peer(&self) -> Peer {
        self.get_ref().0.peer()
    }

    fn settled(mut self: Box<Self>) -> io::Result<Box<dyn Io>> {
        let plain = self.get_mut().0;
        *plain = mem::replace(plain, Box::new(tokio::io::empty())).settled()?;
        Ok(self)
    }
}

/// In place of a stream that is elsewhere for the moment.
impl Io for Empty {
    fn settled(self: Box<Self>) -> io::Result<Box<dyn Io>> {
        Ok(self)
    }
}

/// A stream of which some was read already, which comes first.
pub struct Reread {
    /// Bytes that were read already.
    pub first: Bytes,
    /// Stream behind them.
    pub rest: Box<dyn Io>,
}

impl AsyncRead for Reread {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.rest).poll_read(cx, into);
        }
        let length = self.first.len().min(into.remaining());
        into.put_slice(&self.first.split_to(length));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Reread {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.rest).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.rest).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.rest).poll_shutdown(cx)
    }
}

impl Io for Reread {
    fn peer(&self) -> Peer {
        self.rest.peer()
    }

    fn settled(self: Box<Self>) -> io::Result<Box<dyn Io>> {
        let Reread { first, rest } = *self;
        let rest = rest.settled()?;
        if first.is_empty() { Ok(rest) } else { Ok(Box::new(Reread { first, rest })) }
    }
}

/// Ready when the server ends.
///
/// **Invariant:** the task that has it is woken then: it was registered the first time, and is until it is settled elsewhere.
/// So whoever is woken has only to look.
pub struct Ending {
    seen: watch::Receiver<bool>,
    /// How others end the session.
    end: Option<Arc<End>>,
    told: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Ending {
    /// Ready when the value changes.
    pub fn new(seen: watch::Receiver<bool>) -> Ending {
        Ending { seen, end: None, told: None }
    }

    fn is_due(&self) -> bool {
        // An error means that the server has gone.
        self.seen.has_changed().unwrap_or(true) || self.end.as_ref().is_some_and(|end| end.is_ended())
    }
}

impl Future for Ending {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_due() {
            return Poll::Ready(());
        }
        if self.told.is_some() {
            return Poll::Pending;
        }
        let (mut seen, end) = (self.seen.clone(), self.end.clone());
        let told = self.told.insert(Box::pin(async move {
            let Some(end) = end else { return drop(seen.changed().await) };
            tokio::select! {
                _ = seen.changed() => {}
                () = end.ended() => {}
            }
        }));
        told.as_mut().poll(cx)
    }
}

/// Why a message was not answered in full.
pub enum Stop {
    /// The client is told.
    Error(SqlError),
    /// There is no one to tell.
    Gone(Gone),
}

impl From<SqlError> for Stop {
    fn from(error: SqlError) -> Stop {
        Stop::Error(error)
    }
}

impl From<Gone> for Stop {
    fn from(gone: Gone) -> Stop {
        Stop::Gone(gone)
    }
}

impl From<Malformed> for Stop {
    fn from(malformed: Malformed) -> Stop {
        Stop::Error(errors::malformed(malformed))
    }
}

/// How long a session that has more to do keeps the others of its thread waiting, beside the statement that it is at.
const TURN: Duration = Duration::from_micros(250);
/// A read that takes longer has given the others their turn.
const WAIT: Duration = Duration::from_micros(100);
/// Room for one read.
const READ: usize = 8 << 10;
/// Terminate, the last message of a client.
pub(crate) const TERMINATE: &[u8] = b"X\0\0\0\x04";
/// An empty buffer larger than this is given back: most sessions are idle.
const KEEP: usize = 16 << 10;
/// While a statement waits, this much is read ahead.
const AHEAD: usize = 64 << 10;
/// After the last words so much is read, and for so long.
const DRAIN: usize = 128 << 20;
const DRAIN_TIME: Duration = Duration::from_millis(500);
/// Between two cancels of a statement that nobody waits for any more.
const AGAIN: Duration = Duration::from_millis(50);
/// A client that has taken nothing of its answers for so long keeps no place inside.
const STALL: Duration = Duration::from_millis(100);
/// Answers that are written though the input is not exhausted.
const WRITE: usize = 64 << 10;

/// The connection, with what was read and not understood yet, and what was answered and not written yet.
pub struct Conn {
    /// Stream to the peer.
    pub io: Box<dyn Io>,
    /// Bytes that were read and not understood yet.
    pub input: BytesMut,
    /// Answers that were not written yet.
    pub replies: Replies,
    /// Whether the client expects to see what was answered.
    pub is_due: bool,
    /// How long the client may say nothing.
    pub idle_limit: Option<Duration>,
    /// What is still to come of a `CopyData` that is read piece by piece.
    pub(crate) copy_left: usize,
    /// What writing has taken.
    pub flushing: Duration,
    /// When the clock was last read.
    pub now: Instant,
    /// Since when its thread has been at this session alone.
    turn: Instant,
    ending: Ending,
    unfinished: Unfinished,
    /// Time in which the client may take nothing of what it is sent; none: any.
    pub send_limit: Option<Duration>,
    /// True if something was written that may still have to be sent.
    pub flushes: bool,
    stall: Option<Stall>,
}

/// A client that takes nothing of what it is sent.
struct Stall {
    since: Instant,
    /// Until it is long, then to the limit, if there is one.
    timer: Option<Pin<Box<tokio::time::Sleep>>>,
    is_long: bool,
}

/// Bytes of a long input as they are counted for all.
#[derive(Debug, Default)]
pub struct Unfinished(usize);

impl Unfinished {
    fn set(&mut self, bytes: usize) {
        if bytes != self.0 {
            MESSAGES.change(bytes as i64 - self.0 as i64);
            self.0 = bytes;
        }
    }

    /// Makes room for one read of so many bytes. A message that is not whole yet counts as memory of the process like any other.
    pub fn make_room(&mut self, input: &mut BytesMut, bytes: usize) -> Result<(), Gone> {
        // To make room copies what is there into a block of twice its size. Small messages never ask.
        let more = input.capacity().max(input.len() + bytes);
        if AHEAD < input.len() && input.capacity() < input.len() + bytes && !has_room(more * 2) {
            return Err(Gone::NoRoom);
        }
        input.reserve(bytes);
        self.set(if AHEAD < input.capacity() { input.capacity() } else { 0 });
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// A message, with what stands behind it.
pub struct Lifted {
    input: BytesMut,
    length: usize,
}

impl Lifted {
    /// Body of the message.
    pub fn body(&self) -> &[u8] {
        &self.input[HEAD..self.length]
    }
}

impl Conn {
    /// Connection over a stream.
    pub fn new(io: Box<dyn Io>, ending: Ending) -> Conn {
        let (input, replies) = (BytesMut::new(), Replies::default());
        let (flushing, now, unfinished) = (Duration::ZERO, Instant::now(), Unfinished::default());
        Conn {
            io,
            input,
            replies,
            is_due: false,
            idle_limit: None,
            copy_left: 0,
            flushing,
            now,
            turn: now,
            ending,
            unfinished,
            send_limit: None,
            flushes: false,
            stall: None,
        }
    }

    /// Ready when the server ends.
    pub fn ending(&mut self) -> &mut Ending {
        &mut self.ending
    }

    /// Goes on in the runtime of the caller.
    pub fn settle(&mut self) -> io::Result<()> {
        self.io = mem::replace(&mut self.io, Box::new(tokio::io::empty())).settled()?;
        self.ending.told = None;
        // Its timer is of the other runtime.
        self.stall = None;
        Ok(())
    }

    /// Writes what was answered, as far as the client takes it. What it has not taken for too long is dropped, and the client is gone.
    pub fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        let before = self.replies.out.len();
        let sent = write(&mut self.io, &mut self.replies.out, &mut self.flushes, cx);
        if sent.is_ready() || self.replies.out.len() < before {
            self.stall = None;
        }
        if let Poll::Ready(sent) = sent {
            return Poll::Ready(sent.map_err(|_| Gone::Client));
        }
        let until = |since: Instant, time: Duration| {
            since.checked_add(time).map(|until| Box::pin(tokio::time::sleep_until(until.into())))
        };
        let stall = self.stall.get_or_insert_with(|| {
            let since = Instant::now();
            let first = self.send_limit.map_or(STALL, |limit| limit.min(STALL));
            Stall { since, timer: until(since, first), is_long: false }
        });
        while let Some(timer) = &mut stall.timer {
            ready!(timer.as_mut().poll(cx));
            let stalled = stall.since.elapsed();
            if let Some(limit) = self.send_limit.filter(|&limit| limit <= stalled) {
                self.replies.out.clear();
                // What an encrypted stream still holds is not waited for.
                (self.flushes, self.stall, self.send_limit) = (false, None, Some(DRAIN_TIME));
                return Poll::Ready(Err(Gone::Unread(limit)));
            }
            stall.is_long = true;
            stall.timer = self.send_limit.and_then(|limit| until(stall.since, limit));
        }
        Poll::Pending
    }

    /// Tells whether the client has taken nothing of its answers for a while.
    pub fn is_stalled(&self) -> bool {
        self.stall.as_ref().is_some_and(|stall| stall.is_long)
    }

    /// Somebody may end this session, beside the server.
    pub fn end_by(&mut self, end: Arc<End>) {
        self.ending.end = Some(end);
        self.ending.told = None;
    }

    /// Tells whether the server or an administrator ends the session.
    pub fn is_ending(&self) -> bool {
        self.ending.is_due()
    }

    /// Makes room for one read, which is refused where a message would not fit into what the process may hold.
    pub fn make_room(&mut self, bytes: usize) -> Result<(), Gone> {
        self.unfinished.make_room(&mut self.input, bytes)
    }

    /// Reads more.
    pub async fn fill(&mut self) -> Result<(), Gone> {
        if self.input.is_empty() && KEEP < self.input.capacity() {
            self.input = BytesMut::new();
        }
        self.make_room(READ)?;
        let read = async {
            tokio::select! {
                biased;
                read = self.io.read_buf(&mut self.input) => match read {
                    Ok(0) | Err(_) => Err(Gone::Client),
                    Ok(_) => Ok(()),
                },
                () = &mut self.ending => Err(Gone::Server),
            }
        };
        let read = match self.idle_limit {
            Some(limit) => tokio::time::timeout(limit, read).await.unwrap_or(Err(Gone::Idle)),
            None => read.await,
        };
        if WAIT <= self.lap() {
            self.turn = self.now;
        }
        read
    }

    /// Lets the other sessions of this thread have their turn, if this one has had a long one.
    pub async fn take_turns(&mut self) -> Result<(), Gone> {
        if self.now.saturating_duration_since(self.turn) < TURN {
            return Ok(());
        }
        tokio::task::yield_now().await;
        self.lap();
        self.turn = self.now;
        if self.ending.is_due() { Err(Gone::Server) } else { Ok(()) }
    }

    /// What has passed since the clock was last read.
    pub fn lap(&mut self) -> Duration {
        let before = mem::replace(&mut self.now, Instant::now());
        self.now.saturating_duration_since(before)
    }

    /// Waits for the next message and returns its kind and how long it is; it stands first in the input. What was answered is
    /// written before it is waited for.
    pub async fn next(&mut self, message_max: usize) -> Result<Result<(u8, usize), Broken>, Gone> {
        loop {
            // The rest of a message whose COPY has failed.
            let skipped = self.copy_left.min(self.input.len());
            self.input.advance(skipped);
            self.copy_left -= skipped;
            if self.copy_left == 0 {
                if let Ok(Some((b'd', length))) = frame::head(&self.input)
                    && length <= message_max
                {
                    // Data of a COPY that has failed are nobody's, and need not be here as a whole.
                    self.input.advance(HEAD);
                    self.copy_left = length;
                    continue;
                }
                match frame::whole(&self.input, message_max) {
                    Ok(Some(found)) => return Ok(Ok(found)),
                    Err(broken) => return Ok(Err(broken)),
                    Ok(None) => {}
                }
            }
            if self.is_due {
                self.flush().await?;
            }
            self.fill().await?;
        }
    }

    /// Takes the first message, of this length, out of the input, and passes its body on. Whoever has it cannot read more.
    pub fn lift(&mut self, length: usize) -> Lifted {
        Lifted { input: mem::take(&mut self.input), length }
    }

    /// The input goes on behind the message.
    pub fn put_down(&mut self, Lifted { mut input, length }: Lifted) {
        input.advance(length);
        self.input = input;
    }

    /// The input is what it was.
    pub fn put_back(&mut self, lifted: Lifted) {
        self.input = lifted.input;
    }

    /// The body of the first message, of this length, to be kept.
    pub fn split(&mut self, length: usize) -> Bytes {
        let mut body = self.input.split_to(length).freeze();
        body.advance(HEAD);
        body
    }

    /// Writes what was answered.
    pub async fn flush(&mut self) -> Result<(), Gone> {
        self.flush_or(|| {}).await
    }

    /// Writes what was answered, and calls `stalls` while the client takes nothing of it.
    ///
    /// Dropped before its end, it has lost nothing: the rest is due.
    pub async fn flush_or(&mut self, mut stalls: impl FnMut()) -> Result<(), Gone> {
        if self.replies.out.is_empty() && !self.flushes {
            self.is_due = false;
            return Ok(());
        }
        let capacity = self.replies.out.capacity();
        poll_fn(|cx| {
            let sent = self.poll_send(cx);
            if sent.is_ready() {
                return sent;
            }
            if self.is_stalled() {
                stalls();
            }
            Pin::new(&mut self.ending).poll(cx).map(|()| Err(Gone::Server))
        })
        .await?;
        self.is_due = false;
        let flushing = self.lap();
        self.flushing += flushing;
        if KEEP < capacity {
            self.replies.out = BytesMut::new();
        }
        Ok(())
    }

    /// Tells whether so much was answered that it is written now: no large result is held as a whole.
    pub fn has_much(&self) -> bool {
        WRITE <= self.replies.out.len()
    }

    /// Waits until a parked statement can go on, or nobody wants it any more; it is cancelled then.
    pub async fn wait(
        &mut self,
        parked: Box<dyn Parked>,
        waiter: &Arc<Waiter>,
        cancel: &dyn Cancel,
    ) -> Result<(), Gone> {
        let waiting = waiter.begin();
        parked.on_ready(Arc::clone(waiter) as Arc<dyn engine::Wake>);
        let until = parked.until().map(tokio::time::Instant::from_std);
        tokio::select! {
            biased;
            () = waiting.told() => Ok(()),
            () = over(until) => Ok(()),
            gone = self.attend() => {
                cancel.cancel();
                Err(gone)
            }
        }
    }

    /// Attends to the client during a wait, until the client or the server is gone: answers to earlier queries of a pipeline do not wait
    /// with it, nor does what is waited for wait for a client that takes none of them; then a little is read ahead. Nothing is lost if it is
    /// given up.
    pub async fn attend(&mut self) -> Gone {
        if self.is_due
            && let Err(gone) = self.flush().await
        {
            return gone;
        }
        let mut is_there = true;
        loop {
            // Past this much, the client's end is not noticed until the wait is over.
            let listens = is_there && self.input.len() < AHEAD;
            if listens {
                self.input.reserve(READ);
            }
            tokio::select! {
                biased;
                () = &mut self.ending => return Gone::Server,
                read = self.io.read_buf(&mut self.input), if listens => match read {
                    Ok(count) if 0 < count => {}
                    Ok(_) | Err(_) if self.has_said_goodbye() => is_there = false,
                    Ok(_) | Err(_) => return Gone::Client,
                },
            }
        }
    }

    /// Waits to be let in, or to go on. Given up when the client has gone, the server ends, somebody cancels, or it takes longer than
    /// this `statement_timeout`.
    pub async fn before_door<R>(
        &mut self,
        job: impl Future<Output = R>,
        end: &End,
        timeout: Option<Duration>,
    ) -> Result<R, Stop> {
        let mut job = std::pin::pin!(job);
        // Most are let in at once.
        if let Poll::Ready(done) = poll_fn(|cx| Poll::Ready(job.as_mut().poll(cx))).await {
            return Ok(done);
        }
        let mut cancelled = std::pin::pin!(end.cancelled());
        cancelled.as_mut().enable();
        let until = timeout.and_then(|timeout| self.now.checked_add(timeout)).map(tokio::time::Instant::from_std);
        tokio::select! {
            biased;
            done = &mut job => Ok(done),
            () = &mut cancelled => Err(Stop::Error(errors::cancelled())),
            () = over(until) => Err(errors::late_at_the_door().into()),
            gone = self.attend() => Err(gone.into()),
        }
    }

    /// True for a client that has sent Terminate behind all that it has asked: that is done to its end, as PostgreSQL does it,
    /// though the client closes its connection at once.
    fn has_said_goodbye(&self) -> bool {
        self.input.ends_with(TERMINATE)
    }

    /// Result of a job that runs elsewhere. When the client has gone or the session is to end, the job is cancelled, again and
    /// again until it has ended. Then, or when somebody cancels it, or when it has taken as long as it may, it is lifted: it must end
    /// whatever else there is to do.
    pub async fn beside<R>(
        &mut self,
        job: impl Future<Output = R>,
        cancel: &dyn Cancel,
        lift: &(dyn Fn() + Sync),
        timeout: Option<Duration>,
    ) -> R {
        let mut job = std::pin::pin!(job);
        let end = self.ending.end.clone();
        let must_end = async {
            let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
            let cancelled = async {
                match &end {
                    Some(end) => end.cancelled().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = cancelled => {}
                () = over(until.map(tokio::time::Instant::from_std)) => {}
            }
        };
        let mut must_end = std::pin::pin!(must_end);
        let (mut is_open, mut is_ending, mut is_lifted) = (true, false, false);
        loop {
            // As in a wait: past this much, the client's end is not noticed.
            let listens = is_open && self.input.len() < AHEAD;
            let is_unwanted = is_ending || (!is_open && !self.has_said_goodbye());
            if is_unwanted {
                cancel.cancel();
                lift();
            }
            if listens {
                self.input.reserve(READ);
            }
            tokio::select! {
                biased;
                done = &mut job => return done,
                () = &mut self.ending, if !is_ending => is_ending = true,
                read = self.io.read_buf(&mut self.input), if listens => is_open = matches!(read, Ok(count) if 0 < count),
                // One that comes before the statement has begun is nobody's.
                () = tokio::time::sleep(AGAIN), if is_unwanted => {}
                () = &mut must_end, if !is_lifted => {
                    is_lifted = true;
                    lift();
                }
            }
        }
    }

    /// The last words: written as far as the client takes them, then the connection is closed. What the client has sent
    /// meanwhile is read for a while: a system that closes with bytes unread makes the client's lose what was written.
    pub async fn close(mut self) {
        let mut is_hurried = false;
        let sent = poll_fn(|cx| {
            // Nobody's end waits for a client that takes nothing.
            if !is_hurried && Pin::new(&mut self.ending).poll(cx).is_ready() {
                is_hurried = true;
                (self.send_limit, self.stall) = (Some(DRAIN_TIME), None);
            }
            self.poll_send(cx)
        });
        if sent.await.is_err() || !matches!(tokio::time::timeout(DRAIN_TIME, self.io.shutdown()).await, Ok(Ok(()))) {
            return;
        }
        let drained = async {
            let mut bytes = vec![0; READ];
            let mut left = DRAIN;
            while let Ok(count) = self.io.read(&mut bytes).await
                && 0 < count
            {
                let Some(rest) = left.checked_sub(count) else { break };
                left = rest;
            }
        };
        let _ = tokio::time::timeout(DRAIN_TIME, drained).await;
    }
}

/// Writes what there is, as far as it is taken; then has it sent.
pub fn write(
    io: &mut (impl AsyncWrite + Unpin),
    out: &mut BytesMut,
    flushes: &mut bool,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    while !out.is_empty() {
        match ready!(Pin::new(&mut *io).poll_write(cx, out))? {
            0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            count => out.advance(count),
        }
        *flushes = true;
    }
    // Encrypted streams keep the last record back until then; to others it is nothing.
    ready!(Pin::new(&mut *io).poll_flush(cx))?;
    *flushes = false;
    Poll::Ready(Ok(()))
}

/// Waits until then; for ever, if that is never.
async fn over(until: Option<tokio::time::Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}
