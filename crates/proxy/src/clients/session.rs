//! Client that is being served: its requests and its waits.
//!
//! **Invariant:** a client waits for a connection only with a complete message in hand, and pending answers are sent
//! before that.

use crate::clients::block::{self, Block, FirstRequest};
use crate::clients::client::Client;
use crate::clients::leave;
use crate::clients::link::{Link, LinkEvent};
use crate::clients::turn::TransactionRequest;
use crate::servers::target::{self};
use crate::statements::block_command::{self, BlockCommand};
use crate::statements::message;
use crate::statements::scan::{Scan, scan_known};
use crate::statements::shown::ShownText;
use bytes::{Buf, BytesMut};
use server::admission::TurnedAway;
use server::service::Site;
use server::stats::{SessionStats, Stats};
use statement::SqlError;
use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use wire::Stop;
use wire::conn::Conn;
use wire::errors;
use wire::frame::{self, Broken, HEAD};
use wire::wait::Gone;

const READ: usize = 8 << 10;
/// Capacity in bytes above which an empty buffer is released.
const KEEP: usize = 16 << 10;

/// Kind and length of the next message, which stands first in the input.
type MessageHead = Result<(u8, usize), Broken>;

/// Client with its connection to the proxy.
pub(crate) struct ClientSession {
    pub(crate) client: Client,
    pub(crate) conn: Conn,
    pub(crate) activity: Arc<SessionStats>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) shown: ShownText,
    /// True if the first statement of the transaction is shown already.
    is_shown: bool,
    pub(crate) message_max: usize,
    /// Length of the message that has not arrived completely.
    pub(crate) needs: usize,
    /// Transaction block of which no server knows.
    pub(crate) block: Block,
    /// True if messages are ignored until `Sync`.
    skips: bool,
}

/// Serves a client to its end.
pub(crate) async fn serve(client: Client, conn: Conn, site: Site) {
    let Site { limits, stats, activity, .. } = site;
    let mut session = ClientSession {
        client,
        conn,
        activity,
        stats,
        shown: ShownText::default(),
        is_shown: false,
        message_max: limits.message_max,
        needs: 0,
        block: Block::Closed,
        skips: false,
    };
    session.ready();
    let last_words = session.serve().await;
    session.stats.leave(&session.activity);
    if let Some(error) = last_words {
        session.conn.replies.error("FATAL", &error);
    }
    session.conn.close().await;
}

impl ClientSession {
    fn ready(&mut self) {
        let status = self.block.status();
        self.activity.rest(status);
        self.conn.replies.ready(status);
    }

    /// Serves until the client leaves, or has to. Returns the error that is left to report, if any.
    async fn serve(&mut self) -> Option<SqlError> {
        loop {
            let mut link = match self.seek().await {
                Ok(Some(link)) => link,
                Ok(None) => return None,
                Err(Stop::Gone(gone)) => {
                    self.stats.note_unread(&self.activity, gone);
                    return errors::gone(gone);
                }
                Err(Stop::Error(error)) => return Some(error),
            };
            let event = loop {
                match poll_fn(|cx| link.poll(self, cx)).await {
                    LinkEvent::Speaks => match self.come_back(&mut link).await {
                        Ok(true) => link.is_idle = false,
                        Ok(false) => break LinkEvent::Left,
                        Err(Stop::Gone(gone)) => break LinkEvent::Gone(gone),
                        Err(Stop::Error(error)) => break LinkEvent::Refused(error),
                    },
                    LinkEvent::Reads => match self.go_on(&mut link).await {
                        Ok(()) => link.is_unread = false,
                        Err(error) => break LinkEvent::Refused(error),
                    },
                    event @ (LinkEvent::Done
                    | LinkEvent::Left
                    | LinkEvent::Gone(_)
                    | LinkEvent::Refused(_)
                    | LinkEvent::Again
                    | LinkEvent::ServerGone) => break event,
                }
            };
            // No cancel starts from here on; one that is under way is waited for.
            self.client.reach.rests();
            // Anything sent within a message of the server would be read as the rest of it.
            let is_whole = link.server_rest == 0;
            match event {
                LinkEvent::Done => leave::put_back(link, &self.client.pool),
                LinkEvent::Left => {
                    leave::clean(link, &self.client.pool).await;
                    return None;
                }
                LinkEvent::Gone(gone @ (Gone::Client | Gone::Unread(_))) => {
                    self.stats.note_unread(&self.activity, gone);
                    self.conn.replies.out.clear();
                    leave::clean(link, &self.client.pool).await;
                    return None;
                }
                // The server rolls an open transaction back when its connection closes, unless it has just committed
                // it.
                LinkEvent::Gone(gone) => {
                    return link.outcome.unknown().or_else(|| errors::gone(gone)).filter(|_| is_whole);
                }
                LinkEvent::Refused(error) => {
                    // The client is told at once.
                    let pool = Arc::clone(&self.client.pool);
                    tokio::spawn(async move { leave::clean(link, &pool).await });
                    return Some(error).filter(|_| is_whole);
                }
                LinkEvent::ServerGone => {
                    self.client.pool.nodes.suspect(&link.taken.node);
                    return link.last_words().filter(|_| is_whole);
                }
                // The first message is still here: another connection is to have it.
                LinkEvent::Again | LinkEvent::Speaks | LinkEvent::Reads => {}
            }
        }
    }

    /// Gets a connection for the first message that needs one. Returns `None` if the client leaves.
    async fn seek(&mut self) -> Result<Option<Box<Link>>, Stop> {
        while let Some((kind, length)) = self.first(true).await? {
            let wanted = match self.wanted(kind, length) {
                Ok(wanted) => wanted,
                Err(error) => {
                    self.refuse(kind, length, &error);
                    continue;
                }
            };
            match self.wait(wanted.connected()).await {
                Ok((taken, turn)) => return Ok(Some(Box::new(Link::new(taken, turn, self)))),
                Err(Stop::Error(error)) => self.refuse(kind, length, &error),
                Err(gone) => return Err(gone),
            }
        }
        Ok(None)
    }

    /// Handles a request of a client that has kept its link. Returns true if the client stays.
    async fn come_back(&mut self, link: &mut Link) -> Result<bool, Stop> {
        self.go_on(link).await?;
        if link.turn.is_some() {
            return Ok(true);
        }
        // Messages of the server are not read here meanwhile, so no BEGIN is held back.
        while let Some((kind, length)) = self.first(false).await? {
            let wanted = match self.wanted(kind, length) {
                Ok(wanted) => wanted,
                Err(error) => {
                    self.refuse(kind, length, &error);
                    continue;
                }
            };
            let (line, turned) = (Arc::clone(&link.taken.server.line), wanted.turned(link.taken.node.enter()));
            let turned = async {
                // A cancel of the last transaction must not hit this one.
                line.cleared().await;
                turned.await
            };
            match self.wait(turned).await {
                Ok(turn) => {
                    if let Some(error) = link.taken.node.left_behind() {
                        return Err(error.into());
                    }
                    link.begin(turn, self);
                    self.client.reach.works(&link.taken.server.line);
                    return Ok(true);
                }
                Err(Stop::Error(error)) => self.refuse(kind, length, &error),
                Err(gone) => return Err(gone),
            }
        }
        Ok(false)
    }

    /// Continues the transaction of a link, if it has one, with the slot that it may have lent.
    async fn go_on(&mut self, link: &mut Link) -> Result<(), SqlError> {
        let left_behind = |link: &Link| link.taken.node.left_behind().map_or(Ok(()), Err);
        left_behind(link)?;
        if let Some(turn) = &mut link.turn {
            self.activity.set_waiting(true);
            // A transaction that comes back waits no longer than the gate's patience.
            turn.active().await;
            self.activity.set_waiting(false);
        }
        // Another server may have taken its place meanwhile.
        left_behind(link)
    }

    /// True if an idle client has sent a complete message, or an invalid one. Data of a COPY that does not exist, and a
    /// part of a message, are no reason to take a slot.
    pub(crate) fn has_spoken(&mut self) -> bool {
        self.needs = 0;
        while let Ok(Some((kind, length))) = frame::head(&self.conn.input) {
            match frame::whole(&self.conn.input, self.message_max) {
                Ok(None) => {
                    self.needs = HEAD + length;
                    return false;
                }
                Ok(Some((_, length))) if matches!(kind, b'd' | b'c' | b'f') => self.conn.input.advance(length),
                _ => return true,
            }
        }
        frame::head(&self.conn.input).is_err()
    }

    /// Answers messages that need no server, up to the first one that does. Returns `None` if the client leaves.
    async fn first(&mut self, holds_begin: bool) -> Result<Option<(u8, usize)>, Stop> {
        loop {
            let (kind, length) = match poll_fn(|cx| self.poll_next(cx)).await? {
                Ok(found) => found,
                Err(broken) => return Err(errors::broken(broken).into()),
            };
            if self.activity.end.is_ended() {
                return Err(Gone::Server.into());
            }
            match kind {
                b'X' => return Ok(None),
                b'p' => return Err(errors::unexpected(b'p').into()),
                b'S' => {
                    self.skips = false;
                    self.ready();
                }
                // There is no COPY, and there is nothing to flush.
                b'd' | b'c' | b'f' | b'H' => {}
                _ if self.skips => {}
                _ => match block::found(kind, length, &self.conn.input, &self.client.names) {
                    FirstRequest::Partly => {
                        poll_fn(|cx| self.poll_more(cx)).await?;
                        continue;
                    }
                    FirstRequest::Alone(alone) if holds_begin && self.block.takes(alone.bare) => {
                        self.answer(&alone);
                        continue;
                    }
                    _ if kind == b'C' && self.closed(length) => {}
                    _ if matches!(self.block, Block::Failed { .. }) => {
                        if self.in_failed(kind, length) {
                            self.conn.input.advance(length);
                        } else if self.leads_out(kind, length) {
                            return Ok(Some((kind, length)));
                        } else {
                            self.refuse(kind, length, &errors::aborted());
                        }
                        continue;
                    }
                    _ if kind == b'Q' && self.command(length) => {}
                    _ => return Ok(Some((kind, length))),
                },
            }
            self.conn.input.advance(length);
        }
    }

    /// Closes a prepared statement of the client, if the message asks for that. The server need not know.
    fn closed(&mut self, length: usize) -> bool {
        let names = &mut self.client.names;
        let is_there = match &self.conn.input[HEAD..length] {
            [b'S', 0] => {
                names.forget_unnamed(0, 0);
                true
            }
            [b'S', name @ .., 0] => names.remove(name),
            _ => false,
        };
        if is_there {
            self.conn.replies.close_complete();
        }
        is_there
    }

    /// True if a message of a block that has failed here is about a statement that a server would run in it.
    fn leads_out(&self, kind: u8, length: usize) -> bool {
        let body = &self.conn.input[HEAD..length];
        let names = &self.client.names;
        let behind = || message::text(body).and_then(|(_, rest)| message::text(rest)).map(|(text, _)| text);
        let text = match kind {
            b'Q' => message::text(body).map(|(text, _)| text),
            b'P' => behind(),
            b'B' => behind().and_then(|name| names.text(name)),
            b'D' => body.strip_prefix(b"S").and_then(message::text).and_then(|(name, _)| names.text(name)),
            _ => None,
        };
        text.is_some_and(block_command::leads_out)
    }

    /// Answers a message that works in a failed transaction, too: a missing object is closed, the end of the
    /// transaction is parsed and described, and an empty query is empty. Returns true if this message of a block that
    /// has failed here is one of these.
    fn in_failed(&mut self, kind: u8, length: usize) -> bool {
        let body = &self.conn.input[HEAD..length];
        let (names, replies) = (&mut self.client.names, &mut self.conn.replies);
        match (kind, body) {
            // There is no such object.
            (b'C', [b'S' | b'P', .., 0]) => replies.close_complete(),
            (b'P', _) => {
                let Some((name, rest)) = message::text(body) else { return false };
                let ends = message::text(rest)
                    .and_then(|(text, _)| block_command::bare(text))
                    .is_some_and(|bare| bare != BlockCommand::Begin);
                if !ends || names.get(name).is_some() {
                    return false;
                }
                if name.is_empty() {
                    names.set_unnamed(rest, Scan { commits: true, ..Scan::default() }, 0, 0);
                } else {
                    let statement = self.client.shared.statements.alone(rest);
                    names.has_inserted(name, statement, self.client.message);
                }
                replies.parse_complete();
            }
            (b'D', [b'S', name @ .., 0]) if names.bare(name).is_some_and(|(bare, _)| bare != BlockCommand::Begin) => {
                replies.parameters(Vec::new());
                replies.no_data();
            }
            (b'Q', [text @ .., 0]) if text.trim_ascii().is_empty() => {
                replies.empty();
                self.ready();
            }
            _ => return false,
        }
        true
    }

    /// Answers a command that opens or closes a block that no server knows.
    fn answer(&mut self, alone: &block::BlockRequest) {
        let client = &mut self.client;
        match alone.unnamed() {
            Some(body) if body.is_empty() => client.names.forget_unnamed(0, 0),
            Some(body) => client.names.set_unnamed(&body, scan_known(&alone.text), 0, 0),
            None => {}
        }
        let has_failed = matches!(self.block, Block::Failed { .. });
        let tag = match alone.bare {
            BlockCommand::Begin if block_command::is_start(&alone.text) => "START TRANSACTION",
            BlockCommand::Begin => "BEGIN",
            BlockCommand::Commit if !has_failed => "COMMIT",
            // A COMMIT of a failed transaction rolls it back, and says so.
            BlockCommand::Commit | BlockCommand::Rollback => "ROLLBACK",
        };
        if alone.bare == BlockCommand::Begin {
            let known = client.known_of_begin(&alone.text);
            self.block = Block::Begun { known, text: alone.text.clone(), is_query: alone.is_query() };
        } else {
            self.block = Block::Closed;
            if tag == "ROLLBACK" {
                client.priority.undo();
            }
            client.priority.settle();
            client.targets.begun();
        }
        alone.answer(tag, &mut self.conn.replies);
        self.ready();
        self.conn.input.advance(alone.length);
    }

    /// Polls for the next message.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<MessageHead, Gone>> {
        loop {
            match frame::whole(&self.conn.input, self.message_max) {
                Ok(Some(found)) => return Poll::Ready(Ok(Ok(found))),
                Err(broken) => return Poll::Ready(Ok(Err(broken))),
                Ok(None) => ready!(self.poll_more(cx))?,
            }
        }
    }

    /// Polls for more input. Pending answers are written before the wait.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        let conn = &mut self.conn;
        let gone = |conn: &mut Conn, cx: &mut Context<'_>| {
            std::pin::Pin::new(conn.ending()).poll(cx).map(|()| Err(Gone::Server))
        };
        if conn.flushes || !conn.replies.out.is_empty() {
            match conn.poll_send(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(gone)) => return Poll::Ready(Err(gone)),
                Poll::Pending => return gone(conn, cx),
            }
        }
        // Most sessions are idle.
        for buffer in [&mut conn.input, &mut conn.replies.out] {
            if buffer.is_empty() && KEEP < buffer.capacity() {
                *buffer = BytesMut::new();
            }
        }
        if let Err(gone) = conn.make_room(READ) {
            return Poll::Ready(Err(gone));
        }
        match pin!(conn.io.read_buf(&mut conn.input)).poll(cx) {
            Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(Err(Gone::Client)),
            Poll::Ready(Ok(_)) => Poll::Ready(Ok(())),
            Poll::Pending => gone(conn, cx),
        }
    }

    /// Answers the first message with this error only.
    fn refuse(&mut self, kind: u8, length: usize, error: &SqlError) {
        self.block.fail();
        self.conn.replies.error("ERROR", error);
        match kind {
            b'Q' | b'F' => self.ready(),
            _ => self.skips = true,
        }
        self.conn.input.advance(length);
    }

    /// Describes the transaction that begins with the first message, if it is allowed.
    fn wanted(&mut self, kind: u8, length: usize) -> Result<TransactionRequest, SqlError> {
        self.client.learn();
        let about = self.client.about(self.block.known(), &self.conn.input, self.activity.owner())?;
        let Client { pool, targets, names, .. } = &self.client;
        let body = &self.conn.input[HEAD..length];
        let arrived = self.conn.time.now();
        let text = self.shown.message(names, kind, body);
        // Other messages are about statements that were sent before.
        let target = if matches!(kind, b'Q' | b'P' | b'B') { targets.for_text(text) } else { targets.current() };
        self.activity.show(text, about.class, arrived);
        self.is_shown = true;
        let (pool, stats) = (Arc::clone(pool), Arc::clone(&self.stats));
        let transport = self.conn.transport;
        Ok(TransactionRequest { pool, stats, about, target, arrived, transport })
    }

    /// Shows the first message, a query of this length, which is sent to the server.
    pub(crate) fn show_query(&mut self, length: usize) {
        if !mem::take(&mut self.is_shown) {
            let text = self.conn.input[HEAD..length].strip_suffix(b"\0").unwrap_or_default();
            self.activity.show_next(self.shown.text(text), self.conn.time.now());
        }
    }

    /// Shows the statement of this name, which is sent to the server.
    pub(crate) fn show_statement(&mut self, name: &[u8]) {
        if !mem::take(&mut self.is_shown) {
            self.activity.show_next(self.shown.statement(&self.client.names, name), self.conn.time.now());
        }
    }

    /// Answers a query that is a command of the proxy's. Returns true if it is one.
    fn command(&mut self, length: usize) -> bool {
        let text = &self.conn.input[HEAD..length];
        let text = text.strip_suffix(b"\0").unwrap_or(text);
        let is_open = self.block.is_open();
        let answer = match target::command(text) {
            // A rollback would have to undo the change, so it is the server's.
            Some(target::TargetCommand::Set { is_local: false, .. }) if is_open => None,
            Some(command) => Some(self.client.aim(&command)),
            None => self.client.command(text, is_open),
        };
        match answer {
            Some(Ok(answer)) => {
                // A local target is for the next transaction.
                if !is_open && is_local(text) && !target::is_named_in(text) {
                    self.conn.replies.notice("WARNING", &errors::local_alone());
                }
                answer.write(&mut self.conn.replies);
            }
            Some(Err(error)) => {
                self.conn.replies.error("ERROR", &error);
                self.block.fail();
            }
            None => return false,
        }
        if !is_open {
            self.client.priority.settle();
        }
        self.ready();
        true
    }

    fn turned_away(&mut self, away: TurnedAway) -> Stop {
        self.client.reach.rests();
        if let Some(notice) = &away.notice {
            self.conn.replies.notice("NOTICE", notice);
        }
        away.error.into()
    }

    /// Waits for a slot or a connection, unless the client gives up. Pending answers are sent to the client first.
    async fn wait<T>(&mut self, wanted: impl Future<Output = Result<T, TurnedAway>>) -> Result<T, Stop> {
        let mut wanted = pin!(wanted);
        // Most requests are served at once.
        if let Poll::Ready(got) = poll_fn(|cx| Poll::Ready(wanted.as_mut().poll(cx))).await {
            return got.map_err(|away| self.turned_away(away));
        }
        let reach = Arc::clone(&self.client.reach);
        reach.waits();
        self.activity.set_waiting(true);
        let mut cancelled = pin!(reach.cancelled());
        let mut late = pin!(over(self.client.statement_timeout()));
        let mut has_waited = pin!(over(self.client.query_wait()));
        // A future that yields to the runtime is not polled again at once.
        let mut was_just_asked = true;
        let asked = poll_fn(|cx| match mem::take(&mut was_just_asked) {
            true => Poll::Pending,
            false => wanted.as_mut().poll(cx),
        });
        self.conn.is_due = true;
        tokio::select! {
            biased;
            got = asked => {
                self.activity.set_waiting(false);
                got.map_err(|away| self.turned_away(away))
            }
            () = &mut cancelled => {
                reach.rests();
                Err(errors::cancelled().into())
            }
            _ = &mut late => {
                reach.rests();
                Err(errors::late_at_admission().into())
            }
            waited = &mut has_waited => {
                reach.rests();
                Err(Gone::Waited(waited).into())
            }
            gone = self.conn.attend() => Err(gone.into()),
        }
    }
}

/// True if a command of the proxy's is a `SET LOCAL`.
fn is_local(text: &[u8]) -> bool {
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    words.next().is_some_and(|word| word.eq_ignore_ascii_case(b"set"))
        && words.next().is_some_and(|word| word.eq_ignore_ascii_case(b"local"))
}

/// Waits until a statement has used up its time, and returns that time.
async fn over(timeout: Option<Duration>) -> Duration {
    match timeout {
        Some(timeout) => {
            tokio::time::sleep(timeout).await;
            timeout
        }
        None => std::future::pending().await,
    }
}
