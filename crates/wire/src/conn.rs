//! One connection: bytes in, bytes out.
//!
//! **Invariant:** one read asks for as much as there is, one write sends all pending answers. The input buffer holds no
//! more than one message may have plus what one read brings.

use crate::Cancel;
use crate::End;
use crate::errors;
use crate::frame::{self, Broken, HEAD, Malformed};
use crate::io::{Io, Stay};
use crate::reply::Replies;
use crate::wait::Gone;
use crate::wake::Waiter;
use bytes::{Buf, Bytes, BytesMut};
use engine::Wake;
use engine::memory::{MESSAGES, has_room};
use stage::{Stage, StageClock, TickSource, Transport};
use statement::SqlError;
use statement::time::TimeSource;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;

/// Future that is ready when the server ends.
///
/// **Invariant:** the task that owns it is woken then. It is registered at the first poll, and stays registered until
/// the connection is settled elsewhere. So a woken task only has to look.
pub struct Ending {
    seen: watch::Receiver<bool>,
    /// Handle by which others end the session.
    end: Option<Arc<End>>,
    told: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Ending {
    /// Creates a future that is ready when the value changes.
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

/// Reason why a message was not answered in full.
pub enum Stop {
    /// Error that is reported to the client.
    Error(SqlError),
    /// Nobody is left to report it to.
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

/// Time for which a session that has more to do may keep the others of its thread waiting, beside the statement that it
/// is running.
const TURN: Duration = Duration::from_micros(250);
/// Duration from which a read counts as having given the other sessions their turn.
const WAIT: Duration = Duration::from_micros(100);
/// Capacity that one read asks for, in bytes.
const READ: usize = 8 << 10;
/// `Terminate`, the last message of a client.
pub(crate) const TERMINATE: &[u8] = b"X\0\0\0\x04";
/// Capacity in bytes above which an empty buffer is released, because most sessions are idle.
const KEEP: usize = 16 << 10;
/// Number of bytes that are read ahead while a statement waits.
const AHEAD: usize = 64 << 10;
/// Number of bytes that are read after the last words at most, and the time that this may take.
const DRAIN: usize = 128 << 20;
const DRAIN_TIME: Duration = Duration::from_millis(500);
/// Interval between two cancels of a statement that nobody waits for any more.
const AGAIN: Duration = Duration::from_millis(50);
/// Time after which a client that has taken nothing of its answers loses its slot in admission.
const STALL: Duration = Duration::from_millis(100);
/// Number of bytes of answers that are written although the input is not exhausted.
const WRITE: usize = 64 << 10;

/// Connection with its input, read but not parsed yet, and its answers, not written yet.
pub struct Conn {
    /// Stream to the peer.
    pub io: Box<dyn Io>,
    /// Bytes that were read and not parsed yet.
    pub input: BytesMut,
    /// Answers that were not written yet.
    pub replies: Replies,
    /// True if the client expects to see the answers now.
    pub is_due: bool,
    /// Longest time for which the client may be silent.
    pub idle_limit: Option<Duration>,
    /// Clock of the connection.
    pub time: TimeSource,
    /// Remaining bytes of a `CopyData` that is read piece by piece.
    pub(crate) copy_left: usize,
    /// Stage clock of the session.
    pub clock: Arc<StageClock>,
    /// Way by which its messages come.
    pub transport: Transport,
    /// Time at which the clock was last read.
    pub now: Instant,
    /// Time since which the thread has run this session alone.
    turn: Instant,
    ending: Ending,
    unfinished: Unfinished,
    /// Longest time in which the client may take nothing of what it is sent; `None` for no limit.
    pub send_limit: Option<Duration>,
    /// True if something was written that may still have to be flushed.
    pub flushes: bool,
    stall: Option<Stall>,
}

/// Client that takes nothing of what it is sent.
struct Stall {
    since: Instant,
    /// Timer that runs to the point where the stall counts as long, then to the limit, if there is one.
    timer: Option<Pin<Box<tokio::time::Sleep>>>,
    is_long: bool,
}

/// Bytes of a long input, as they are counted for the whole process.
#[derive(Debug, Default)]
pub struct Unfinished(usize);

impl Unfinished {
    fn set(&mut self, bytes: usize) {
        if bytes != self.0 {
            MESSAGES.change(bytes as i64 - self.0 as i64);
            self.0 = bytes;
        }
    }

    /// Makes room for one read of this many bytes. An incomplete message counts as memory of the process like any
    /// other.
    pub fn make_room(&mut self, input: &mut BytesMut, bytes: usize) -> Result<(), Gone> {
        // Growing copies the contents into a block of twice the size. Small messages never get here.
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

/// Message that was lifted out of the input, with the bytes behind it.
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
    /// Creates a connection over a stream of this kind.
    pub fn new(io: Box<dyn Io>, transport: Transport, ending: Ending, time: TimeSource) -> Conn {
        let (input, replies) = (BytesMut::new(), Replies::default());
        let (now, unfinished) = (time.now(), Unfinished::default());
        Conn {
            io,
            input,
            replies,
            is_due: false,
            idle_limit: None,
            time,
            copy_left: 0,
            clock: StageClock::new(TickSource::system()),
            transport,
            now,
            turn: now,
            ending,
            unfinished,
            send_limit: None,
            flushes: false,
            stall: None,
        }
    }

    /// Returns the future that is ready when the server ends.
    pub fn ending(&mut self) -> &mut Ending {
        &mut self.ending
    }

    /// Moves the connection into the caller's runtime, to its end.
    pub fn settle(&mut self) -> io::Result<()> {
        self.io = mem::replace(&mut self.io, Box::new(tokio::io::empty())).settled(Stay::ForGood)?;
        self.transport = self.io.transport();
        self.ending.told = None;
        // The timer belongs to the other runtime.
        self.stall = None;
        Ok(())
    }

    /// Writes pending answers as far as the client takes them. Answers that it has not taken for too long are dropped,
    /// and the client counts as gone.
    pub fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        let before = self.replies.out.len();
        let sent = write(&mut self.io, &mut self.replies.out, &mut self.flushes, cx);
        if sent.is_ready() || self.replies.out.len() < before {
            self.stall = None;
        }
        if let Poll::Ready(sent) = sent {
            return Poll::Ready(sent.map_err(|_| Gone::Client));
        }
        let clock = &self.time;
        let until = |since: Instant, time: Duration| {
            since.checked_add(time).map(|until| Box::pin(tokio::time::sleep_until(clock.timer_at(until).into())))
        };
        let stall = self.stall.get_or_insert_with(|| {
            let since = clock.now();
            let first = self.send_limit.map_or(STALL, |limit| limit.min(STALL));
            Stall { since, timer: until(since, first), is_long: false }
        });
        while let Some(timer) = &mut stall.timer {
            ready!(timer.as_mut().poll(cx));
            let stalled = clock.since(stall.since);
            if let Some(limit) = self.send_limit.filter(|&limit| limit <= stalled) {
                self.replies.out.clear();
                // Bytes that an encrypted stream still holds are not waited for.
                (self.flushes, self.stall, self.send_limit) = (false, None, Some(DRAIN_TIME));
                return Poll::Ready(Err(Gone::Unread(limit)));
            }
            stall.is_long = true;
            stall.timer = self.send_limit.and_then(|limit| until(stall.since, limit));
        }
        Poll::Pending
    }

    /// True if the client has taken nothing of its answers for a while.
    pub fn is_stalled(&self) -> bool {
        self.stall.as_ref().is_some_and(|stall| stall.is_long)
    }

    /// Registers a handle by which others, beside the server, end this session.
    pub fn end_by(&mut self, end: Arc<End>) {
        self.ending.end = Some(end);
        self.ending.told = None;
    }

    /// True if the server or an administrator ends the session.
    pub fn is_ending(&self) -> bool {
        self.ending.is_due()
    }

    /// Makes room for one read. The read is refused where a message would exceed the memory that the process may use.
    pub fn make_room(&mut self, bytes: usize) -> Result<(), Gone> {
        self.unfinished.make_room(&mut self.input, bytes)
    }

    /// Reads more input. While there is none, the session is at rest.
    pub async fn fill(&mut self) -> Result<(), Gone> {
        if self.input.is_empty() && KEEP < self.input.capacity() {
            self.input = BytesMut::new();
        }
        self.make_room(READ)?;
        let (clock, before) = (&*self.clock, self.clock.position());
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
            Some(limit) => reading(clock, within(&self.time, limit, read)).await.unwrap_or(Err(Gone::Idle)),
            None => reading(clock, read).await,
        };
        clock.restore(before);
        if WAIT <= self.lap() {
            self.turn = self.now;
        }
        read
    }

    /// Yields to the other sessions of this thread, if this one has had a long turn.
    pub async fn take_turns(&mut self) -> Result<(), Gone> {
        if self.now.saturating_duration_since(self.turn) < TURN {
            return Ok(());
        }
        self.give_way().await;
        self.lap();
        self.turn = self.now;
        if self.ending.is_due() { Err(Gone::Server) } else { Ok(()) }
    }

    /// Yields to the other sessions of this thread.
    pub async fn give_way(&mut self) {
        let before = self.clock.enter(Stage::Dispatch);
        tokio::task::yield_now().await;
        self.clock.restore(before);
    }

    /// Returns the time that has passed since the clock was last read.
    pub fn lap(&mut self) -> Duration {
        let before = mem::replace(&mut self.now, self.time.now());
        self.now.saturating_duration_since(before)
    }

    /// Waits for the next message and returns its kind and its length; the message stands first in the input. Pending
    /// answers are written before the wait.
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
                    // Data of a failed COPY belong to nobody, and need not be in memory as a whole.
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
            self.clock.enter(Stage::Decode);
        }
    }

    /// Takes the first message, of this length, out of the input, and hands out its body. The connection cannot read
    /// more until the message is put down or back.
    pub fn lift(&mut self, length: usize) -> Lifted {
        Lifted { input: mem::take(&mut self.input), length }
    }

    /// Continues the input behind the message.
    pub fn put_down(&mut self, Lifted { mut input, length }: Lifted) {
        input.advance(length);
        self.input = input;
    }

    /// Restores the input as it was.
    pub fn put_back(&mut self, lifted: Lifted) {
        self.input = lifted.input;
    }

    /// Splits the body of the first message, of this length, off the input, so that it can be kept.
    pub fn split(&mut self, length: usize) -> Bytes {
        let mut body = self.input.split_to(length).freeze();
        body.advance(HEAD);
        body
    }

    /// Writes pending answers.
    pub async fn flush(&mut self) -> Result<(), Gone> {
        self.flush_or(|| {}).await
    }

    /// Writes pending answers, and calls `stalls` while the client takes none of them.
    ///
    /// If the future is dropped before its end, nothing is lost: the rest stays pending.
    pub async fn flush_or(&mut self, stalls: impl FnMut()) -> Result<(), Gone> {
        let before = self.clock.position();
        self.write_out(stalls).await?;
        self.clock.restore(before);
        Ok(())
    }

    /// Does the same, and leaves the clock in the stage of writing, if there was something to write.
    pub async fn write_out(&mut self, stalls: impl FnMut()) -> Result<(), Gone> {
        self.deliver(stalls, |clock, is_stalled| {
            // While the client has no room, nothing happens here.
            let write = if is_stalled { StageClock::enter_away } else { StageClock::enter };
            write(clock, Stage::NetworkWrite);
        })
        .await
    }

    /// Does the same. `stamps` is called around each write.
    async fn deliver(&mut self, mut stalls: impl FnMut(), stamps: impl Fn(&StageClock, bool)) -> Result<(), Gone> {
        if self.replies.out.is_empty() && !self.flushes {
            self.is_due = false;
            return Ok(());
        }
        let capacity = self.replies.out.capacity();
        poll_fn(|cx| {
            stamps(&self.clock, false);
            let sent = self.poll_send(cx);
            if sent.is_ready() {
                return sent;
            }
            stamps(&self.clock, true);
            if self.is_stalled() {
                stalls();
            }
            Pin::new(&mut self.ending).poll(cx).map(|()| Err(Gone::Server))
        })
        .await?;
        self.is_due = false;
        self.lap();
        if KEEP < capacity {
            self.replies.out = BytesMut::new();
        }
        Ok(())
    }

    /// True if so many answers are pending that they are written now, because no large result is held as a whole.
    pub fn has_much(&self) -> bool {
        WRITE <= self.replies.out.len()
    }

    /// Waits until a parked statement can go on: `on_ready` arranges for the wake-up, and `until` is the time at which
    /// the wait ends by itself. If nobody wants the statement any more, it is cancelled.
    pub async fn wait(
        &mut self,
        on_ready: impl FnOnce(Arc<dyn Wake>),
        until: Option<Instant>,
        waiter: &Arc<Waiter>,
        cancel: &dyn Cancel,
    ) -> Result<(), Gone> {
        let waiting = waiter.begin();
        on_ready(Arc::clone(waiter) as Arc<dyn Wake>);
        let until = until.map(|until| self.time.timer_at(until));
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

    /// Serves the client during a wait, until the client or the server is gone. Answers to earlier queries of a
    /// pipeline do not wait for the end of the wait, and the wait does not depend on a client that takes none of them.
    /// A little is read ahead then. If the future is dropped, nothing is lost.
    pub async fn attend(&mut self) -> Gone {
        // The time belongs to the wait.
        if self.is_due
            && let Err(gone) = self.deliver(|| {}, |_, _| {}).await
        {
            return gone;
        }
        let mut is_there = true;
        loop {
            // Beyond this size, the client's end goes unnoticed until the wait is over.
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

    /// Waits for admission, or to go on. The wait ends early when the client has gone, the server ends, somebody
    /// cancels, or it takes longer than this `statement_timeout`.
    pub async fn before_admission<R>(
        &mut self,
        job: impl Future<Output = R>,
        end: &End,
        timeout: Option<Duration>,
    ) -> Result<R, Stop> {
        let mut job = std::pin::pin!(job);
        // Most jobs are admitted at once.
        if let Poll::Ready(done) = poll_fn(|cx| Poll::Ready(job.as_mut().poll(cx))).await {
            return Ok(done);
        }
        let mut cancelled = std::pin::pin!(end.cancelled());
        cancelled.as_mut().enable();
        let until = timeout.and_then(|timeout| self.now.checked_add(timeout)).map(|until| self.time.timer_at(until));
        tokio::select! {
            biased;
            done = &mut job => Ok(done),
            () = &mut cancelled => Err(Stop::Error(errors::cancelled())),
            () = over(until) => Err(errors::late_at_admission().into()),
            gone = self.attend() => Err(gone.into()),
        }
    }

    /// True if the client has sent `Terminate` behind all its requests. They are completed then, as PostgreSQL does it,
    /// although the client closes its connection at once.
    fn has_said_goodbye(&self) -> bool {
        self.input.ends_with(TERMINATE)
    }

    /// Returns the result of a job that runs elsewhere. When the client has gone or the session is to end, the job is
    /// cancelled again and again until it ends. Then, or when somebody cancels it, or when it has used up its time, its
    /// priority is lifted: it must end, whatever else there is to do.
    pub async fn beside<R>(
        &mut self,
        job: impl Future<Output = R>,
        cancel: &dyn Cancel,
        lift: &(dyn Fn() + Sync),
        timeout: Option<Duration>,
    ) -> R {
        let mut job = std::pin::pin!(job);
        let end = self.ending.end.clone();
        let until =
            timeout.and_then(|timeout| self.time.now().checked_add(timeout)).map(|until| self.time.timer_at(until));
        let must_end = async {
            let cancelled = async {
                match &end {
                    Some(end) => end.cancelled().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = cancelled => {}
                () = over(until) => {}
            }
        };
        let mut must_end = std::pin::pin!(must_end);
        let (mut is_open, mut is_ending, mut is_lifted) = (true, false, false);
        loop {
            // As in a wait, the client's end goes unnoticed beyond this size.
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
                // A cancel that arrives before the statement has begun hits nothing, so it is repeated.
                () = tokio::time::sleep(AGAIN), if is_unwanted => {}
                () = &mut must_end, if !is_lifted => {
                    is_lifted = true;
                    lift();
                }
            }
        }
    }

    /// Sends the last words and closes the connection. Answers are written as far as the client takes them. Input that
    /// arrives meanwhile is read for a while, because a system that closes a socket with unread bytes makes the
    /// client's system lose what was written.
    pub async fn close(mut self) {
        let mut is_hurried = false;
        let sent = poll_fn(|cx| {
            // The server's end does not wait for a client that takes nothing.
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

/// Writes what is pending, as far as the peer takes it, then flushes the stream.
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
    // Encrypted streams hold the last record back until a flush; for others a flush does nothing.
    ready!(Pin::new(&mut *io).poll_flush(cx))?;
    *flushes = false;
    Poll::Ready(Ok(()))
}

/// Awaits a read of a session that is at rest while nothing comes.
async fn reading<R>(clock: &StageClock, read: impl Future<Output = R>) -> R {
    let mut read = std::pin::pin!(read);
    poll_fn(|cx| {
        clock.enter(Stage::NetworkRead);
        let polled = read.as_mut().poll(cx);
        if polled.is_pending() {
            clock.rest();
        }
        polled
    })
    .await
}

/// Returns the result of a job that is ready within this time; `None` if it is not.
async fn within<R>(time: &TimeSource, limit: Duration, job: impl Future<Output = R>) -> Option<R> {
    let Some(until) = time.now().checked_add(limit) else { return Some(job.await) };
    let mut job = std::pin::pin!(job);
    loop {
        match tokio::time::timeout_at(time.timer_at(until).into(), job.as_mut()).await {
            Ok(done) => return Some(done),
            Err(_) if time.is_past(until) => return None,
            Err(_) => {}
        }
    }
}

/// Waits until this time; for ever, if there is none.
async fn over(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until.into()).await,
        None => std::future::pending().await,
    }
}
