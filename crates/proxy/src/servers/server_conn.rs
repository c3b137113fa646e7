//! Connection to a server.
//!
//! **Invariant:** in the pool it is idle: every request is answered, no transaction is open, its buffers are empty, and
//! its session has no state beside `settings` and `prepared`.

use crate::clients::cancel_request::ServerCancel;
use crate::clients::expect::{ExpectedReplies, ReplyKind};
use crate::clients::leftovers;
use crate::servers::conn_status::ConnStatus;
use crate::servers::dial::SILENCE;
use crate::servers::internal::PriorityControl;
use crate::servers::params::Params;
use crate::servers::prepared::PreparedStatements;
use crate::statements::message;
use crate::statements::session_settings::SessionSettings;
use bytes::{Buf, BytesMut};
use gate::Ticket;
use statement::time::TimeSource;
use statement::{SqlError, SqlState};
use std::io;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use wire::conn::Unfinished;
use wire::io::{Io, Stay};
use wire::wait::Gone;

/// Capacity of one read, in bytes: the part of a large result that is under way at a time, for each client.
const READ: usize = 32 << 10;
/// Capacity in bytes above which an idle connection's buffers are released.
const KEEP: usize = 64 << 10;
/// Number of bytes that a server can buffer while it is busy. Beyond it, the rest waits for as long as a statement
/// takes, and the system cannot tell that from a server that has gone.
const ROOM: usize = 16 << 10;
/// Length in bytes that messages which are read as a whole do not usually reach.
const LONG: usize = 256 << 10;

pub(crate) struct ServerConn {
    pub(crate) io: Box<dyn Io>,
    pub(crate) inbox: BytesMut,
    unfinished: Unfinished,
    pub(crate) out: BytesMut,
    /// Number of bytes that it was sent since it had read everything. The next field is true if its silence about them
    /// ends the connection.
    unread: usize,
    is_limited: bool,
    /// Cancel handle.
    pub(crate) line: Arc<ServerCancel>,
    pub(crate) params: Arc<Params>,
    pub(crate) settings: Arc<SessionSettings>,
    pub(crate) prepared: PreparedStatements,
    /// Queue of the last link, kept for its memory.
    pub(crate) expects: ExpectedReplies,
    /// Owner of the current unnamed statement: the client's number, and the statement's number of that client.
    pub(crate) unnamed: (u64, u64),
    /// Thread whose runtime it is registered with.
    pub(crate) home: ThreadId,
    pub(crate) born: Instant,
    /// Time since when it is idle.
    pub(crate) rested: Instant,
    /// Counter of connections that it is part of.
    count: Option<Arc<AtomicUsize>>,
    /// Number of RECONNECTs before it was made.
    pub(crate) generation: u64,
    /// True if its server has said that it is no standby. For as long as the connection lives the server becomes none.
    is_of_primary: bool,
    sight: Option<Arc<ConnStatus>>,
}

/// Runtime that a connection belonged to before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    Here,
    Moved,
}

/// Reason why a question of the proxy's own has no answer.
#[derive(Debug)]
pub(crate) enum QuestionFailed {
    /// The connection is of no use any more.
    Broken(io::Error),
    /// The server has reported an error.
    Said(SqlError),
}

impl From<io::Error> for QuestionFailed {
    fn from(error: io::Error) -> QuestionFailed {
        QuestionFailed::Broken(error)
    }
}

impl From<QuestionFailed> for SqlError {
    fn from(failed: QuestionFailed) -> SqlError {
        match failed {
            QuestionFailed::Said(error) => error,
            QuestionFailed::Broken(error) => {
                SqlError::new(SqlState::CONNECTION_FAILURE, "the connection to the server failed")
                    .detail(format!("{error}."))
            }
        }
    }
}

/// Error in an `ErrorResponse`.
pub(crate) fn error_of(body: &[u8]) -> SqlError {
    let field = |name| message::field(body, name);
    // An error that PostgreSQL does not have counts as a failed connection.
    let state = message::state(body).unwrap_or(SqlState::CONNECTION_FAILURE);
    let mut error = SqlError::new(state, field(b'M').unwrap_or("the server gave up"));
    if let Some(detail) = field(b'D') {
        error = error.detail(detail);
    }
    if let Some(hint) = field(b'H') {
        error = error.hint(hint);
    }
    error
}

impl ServerConn {
    /// Notes that the server closes the connection, which is not used again.
    pub(crate) fn ends(&mut self) {
        self.generation = u64::MAX;
    }

    pub(crate) fn new(io: Box<dyn Io>, line: Arc<ServerCancel>, now: Instant) -> ServerConn {
        ServerConn {
            io,
            inbox: BytesMut::new(),
            unfinished: Unfinished::default(),
            out: BytesMut::new(),
            unread: 0,
            is_limited: true,
            line,
            params: Arc::default(),
            settings: Arc::default(),
            prepared: PreparedStatements::default(),
            expects: ExpectedReplies::default(),
            unnamed: (0, 0),
            home: thread::current().id(),
            born: now,
            rested: now,
            count: None,
            generation: 0,
            is_of_primary: false,
            sight: None,
        }
    }

    /// Moves it into the runtime of the caller.
    pub(crate) fn settle(&mut self) -> io::Result<Settled> {
        let here = thread::current().id();
        if self.home == here {
            return Ok(Settled::Here);
        }
        self.io = mem::replace(&mut self.io, Box::new(tokio::io::empty())).settled(Stay::ForNow)?;
        self.home = here;
        Ok(Settled::Moved)
    }

    /// True if an idle connection has received nothing, not even its end.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let mut byte = [0; 1];
        let mut buffer = ReadBuf::new(&mut byte);
        let mut context = Context::from_waker(Waker::noop());
        matches!(std::pin::Pin::new(&mut self.io).poll_read(&mut context, &mut buffer), Poll::Pending)
    }

    /// Reads the next complete message, and takes it out of the inbox.
    pub(crate) async fn next(&mut self) -> io::Result<(u8, BytesMut)> {
        let confused = || io::Error::new(io::ErrorKind::InvalidData, "the server does not speak the protocol");
        loop {
            if let Some((kind, length)) = message::head(&self.inbox).ok_or_else(confused)?
                && length <= self.inbox.len()
            {
                let mut message = self.inbox.split_to(length);
                message.advance(wire::frame::HEAD);
                return Ok((kind, message));
            }
            self.read().await?;
        }
    }

    /// Makes room in the inbox for one read. Memory of an unusually long message is released before the next one.
    pub(crate) fn make_room(&mut self) -> Result<(), Gone> {
        if self.inbox.is_empty() && LONG < self.inbox.capacity() {
            self.inbox = BytesMut::new();
        }
        self.unfinished.make_room(&mut self.inbox, READ)
    }

    /// Reads more; returns the number of bytes.
    pub(crate) async fn read(&mut self) -> io::Result<usize> {
        self.make_room()
            .map_err(|_| io::Error::new(io::ErrorKind::OutOfMemory, "the message does not fit into memory"))?;
        match self.io.read_buf(&mut self.inbox).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => Ok(count),
        }
    }

    /// Notes that this many bytes are sent to the server.
    pub(crate) fn is_sent(&mut self, bytes: usize) {
        self.unread += bytes;
        if self.is_limited && ROOM < self.unread {
            self.is_limited = false;
            self.io.limit_silence(None);
        }
    }

    /// Notes that the server has answered everything that it was sent.
    pub(crate) fn has_read_all(&mut self) {
        self.unread = 0;
        if !self.is_limited {
            self.is_limited = true;
            self.io.limit_silence(Some(SILENCE));
        }
    }

    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        let out = mem::take(&mut self.out);
        self.is_sent(out.len());
        self.io.write_all(&out).await?;
        self.io.flush().await
    }

    /// Asks a question of the proxy's own, and returns the rows. The first error counts.
    pub(crate) async fn ask(&mut self, text: &str) -> Result<Vec<Vec<Option<String>>>, QuestionFailed> {
        message::query(&mut self.out, text);
        self.unnamed = (0, 0);
        self.flush().await?;
        self.answer().await
    }

    /// Asks such a question again for as long as it is cancelled, or takes too long: it is no statement of a client.
    pub(crate) async fn ask_again(&mut self, text: &str) -> Result<Vec<Vec<Option<String>>>, QuestionFailed> {
        for _ in 0..leftovers::TRIES {
            match self.ask(text).await {
                Err(QuestionFailed::Said(error)) if error.state() == SqlState::QUERY_CANCELED => {}
                answer => return answer,
            }
        }
        self.ask(text).await
    }

    /// True if its server says that it is no standby, or is none any more.
    pub(crate) async fn is_of_primary(&mut self) -> Result<bool, QuestionFailed> {
        // Servers from version 14 on have reported it at the login.
        if !self.is_of_primary && self.params.get("in_hot_standby") != Some("off") {
            let rows = self.ask("SELECT pg_catalog.pg_is_in_recovery()").await?;
            let is_standby = rows.first().and_then(|row| row.first()).and_then(Option::as_deref) != Some("f");
            if is_standby {
                return Ok(false);
            }
        }
        self.is_of_primary = true;
        Ok(true)
    }

    /// True if a message that a COPY does not expect ends only the COPY. From PostgreSQL 14 on it ends the connection.
    pub(crate) fn goes_on_after_unexpected(&self) -> bool {
        let version = self.params.get("server_version").unwrap_or_default();
        let digits = version.bytes().take_while(u8::is_ascii_digit).count();
        version[..digits].parse::<u32>().is_ok_and(|major| major < 14)
    }

    /// Reads the rows up to `ReadyForQuery`.
    pub(crate) async fn answer(&mut self) -> Result<Vec<Vec<Option<String>>>, QuestionFailed> {
        let (mut rows, mut error) = (Vec::new(), None);
        loop {
            let (kind, body) = self.next().await?;
            match ReplyKind::of(kind) {
                ReplyKind::Row => rows.extend(message::row(&body)),
                ReplyKind::Error => {
                    error.get_or_insert_with(|| error_of(&body));
                }
                ReplyKind::Parameter => self.note(&body),
                ReplyKind::Ready => {
                    self.has_read_all();
                    return error.map_or(Ok(rows), |error| Err(QuestionFailed::Said(error)));
                }
                _ => {}
            }
        }
    }

    /// Notes a `ParameterStatus`.
    pub(crate) fn note(&mut self, body: &[u8]) {
        if let Some((name, rest)) = message::text(body)
            && let Some((value, _)) = message::text(rest)
            && let (Ok(name), Ok(value)) = (std::str::from_utf8(name), std::str::from_utf8(value))
        {
            Params::note(&mut self.params, name, value);
        }
    }

    /// Counts the connection there for as long as it lives.
    pub(crate) fn counted_by(&mut self, count: &Arc<AtomicUsize>) {
        count.fetch_add(1, Relaxed);
        self.count = Some(Arc::clone(count));
    }

    /// Makes the connection visible for as long as it lives.
    pub(crate) fn show(&mut self, time: &TimeSource) -> Weak<ConnStatus> {
        Arc::downgrade(self.sight.insert(Arc::new(ConnStatus::new(&self.line, time))))
    }

    /// Notes that the client of this number has it.
    pub(crate) fn taken_by(&self, client: i32, now: Instant) {
        if let Some(sight) = &self.sight {
            sight.taken_by(client, now);
        }
    }

    /// Notes that it runs this transaction of the gate.
    pub(crate) fn works_for(&self, ticket: Option<Ticket>) {
        if let Some(sight) = &self.sight {
            sight.works_for(ticket);
        }
    }

    /// Notes that it goes to the pool.
    pub(crate) fn rest(&mut self, now: Instant) {
        self.rested = now;
        if let Some(sight) = &self.sight {
            sight.rests();
        }
        if KEEP < self.inbox.capacity() {
            (self.inbox, self.unfinished) = (BytesMut::new(), Unfinished::default());
        }
        if KEEP < self.out.capacity() {
            self.out = BytesMut::new();
        }
    }
}

impl Drop for ServerConn {
    fn drop(&mut self) {
        // This happens while the process still exists.
        *self.line.lever() = PriorityControl::Fixed;
        if let Some(count) = self.count.take() {
            count.fetch_sub(1, Relaxed);
        }
        // `Terminate` is sent if the system takes it at once. Otherwise, the server notices the end of the connection.
        let mut context = Context::from_waker(Waker::noop());
        let _ = std::pin::Pin::new(&mut self.io).poll_write(&mut context, &[b'X', 0, 0, 0, 4]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::dial::ServerRoute;
    use crate::servers::url::ServerAddress;
    use std::pin::Pin;
    use std::sync::Mutex;
    use std::time::Duration;
    use tokio::io::Sink;

    /// Stream that discards what is written, and records the limit of silence.
    struct Silent(Sink, Arc<Mutex<Option<Duration>>>);

    impl AsyncRead for Silent {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for Silent {
        fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.0).poll_write(cx, bytes)
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl Io for Silent {
        fn transport(&self) -> stage::Transport {
            stage::Transport::Unix
        }

        fn limit_silence(&self, limit: Option<Duration>) {
            *self.1.lock().expect("nobody fails") = limit;
        }

        fn settled(self: Box<Self>, _stay: Stay) -> io::Result<Box<dyn Io>> {
            Ok(self)
        }
    }

    /// A server that runs a long statement reads nothing meanwhile, and has not gone.
    #[tokio::test]
    async fn silence_about_what_has_no_room_is_not_limited() {
        let limit = Arc::new(Mutex::new(Some(SILENCE)));
        let io = Box::new(Silent(tokio::io::sink(), Arc::clone(&limit)));
        let mut server = ServerConn::new(
            io,
            Arc::new(ServerCancel::new(ServerRoute::to(ServerAddress::Tcp("a".to_owned(), 1)))),
            Instant::now(),
        );
        let now = || *limit.lock().expect("nobody fails");
        for _ in 0..3 {
            for bytes in [ROOM - 1, 1] {
                server.out.resize(bytes, 0);
                server.flush().await.expect("it is taken");
                assert_eq!(now(), Some(SILENCE));
            }
            server.out.resize(1, 0);
            server.flush().await.expect("it is taken");
            assert_eq!(now(), None);
            server.has_read_all();
            assert_eq!(now(), Some(SILENCE));
        }
    }
}
