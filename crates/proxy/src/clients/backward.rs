//! Messages from the server to the client.
//!
//! **Invariant:** forwarded messages pass unchanged and in order. Answers to the proxy's own questions do not pass, nor
//! do reports of settings that are no news to the client.

use crate::clients::error_replacement::in_place_of;
use crate::clients::expect::{ExpectedReply, ProxyReply, ReplyKind, ReplyMeaning};
use crate::clients::link::{ConnectionTie, Link, LinkEvent, StatementRemoval};
use crate::clients::priority::LocalStatement;
use crate::clients::session::ClientSession;
use crate::servers::params::Params;
use crate::servers::server_conn::error_of;
use crate::statements::message;
use crate::statements::shared::names_one;
use bytes::{Buf, BytesMut};
use statement::SqlState;
use statement::outcome::TransactionStatus;
use std::mem;
use std::sync::Arc;
use wire::frame::HEAD;

impl Link {
    /// Takes the messages in the inbox.
    pub(crate) fn backward(&mut self, session: &mut ClientSession) -> Result<(), LinkEvent> {
        let mut inbox = mem::take(&mut self.taken.server.inbox);
        let mut done = 0;
        let result = self.messages(session, &inbox, &mut done);
        // The rest of the inbox is still to be read, whatever becomes of the client.
        inbox.advance(done);
        self.taken.server.inbox = inbox;
        result
    }

    /// Handles the messages; `done` returns how many bytes of them were handled.
    fn messages(&mut self, session: &mut ClientSession, inbox: &BytesMut, done: &mut usize) -> Result<(), LinkEvent> {
        // The bytes between `from` and `at` are to be forwarded.
        let (mut from, mut at) = (0, 0);
        loop {
            if 0 < self.server_rest {
                let count = self.server_rest.min(inbox.len() - at);
                self.server_rest -= count;
                at += count;
                if 0 < self.server_rest {
                    break;
                }
            }
            let Some((kind, length)) = message::head(&inbox[at..]).ok_or(LinkEvent::ServerGone)? else { break };
            let reply = ReplyKind::of(kind);
            let is_there = length <= inbox.len() - at;
            // Rows pass as they come, unless they are for the proxy. So do notices and all other messages that nobody
            // here inspects, where the proxy cannot insert a message of its own meanwhile.
            let is_bulk = (matches!(reply, ReplyKind::Row | ReplyKind::CopyData)
                || reply == ReplyKind::Other && !self.expects.is_empty())
                && !matches!(self.expects.front(), Some(ExpectedReply::Check { .. } | ExpectedReply::Prelude))
                && self.showing().is_none();
            if is_bulk {
                self.server_rest = length;
                continue;
            }
            if !is_there {
                break;
            }
            let body = &inbox[at + HEAD..at + length];
            let whole = &inbox[at..at + length];
            if reply == ReplyKind::Error && self.concerns_nobody() {
                // The server ends, and the client has nothing there. The client gets another connection, as if this had
                // happened in the pool.
                self.taken.server.ends();
                session.conn.replies.out.extend_from_slice(&inbox[from..at]);
                at += length;
                from = at;
                continue;
            }
            let mut fate = ReplyRouting::Passes;
            let mut unexpected = None;
            if reply == ReplyKind::Error && message::state(body) == Some(SqlState::PROTOCOL_VIOLATION) {
                unexpected = self.unexpected(session, body);
            }
            // Whatever the result, the server has processed the message.
            match (reply, self.expects.front()) {
                (ReplyKind::Ready, Some(&ExpectedReply::Query(message)))
                | (ReplyKind::Closed, Some(&ExpectedReply::Close { message })) => {
                    session.client.names.confirm(message);
                }
                _ => {}
            }
            let is_refusal = matches!(self.expects.front(), Some(ExpectedReply::Refusal));
            // A query ends whatever was executed before it without a `Sync`.
            let is_query = matches!(self.expects.front(), Some(ExpectedReply::Query(_) | ExpectedReply::Function));
            let mut dropped = Vec::new();
            let means = self.expects.answered(reply, &mut |expect| dropped.push(expect));
            let Ok(means) = means else {
                tracing::error!(kind = %char::from(kind), expected = ?self.expects.front(), "unexpected message from the server");
                session.conn.replies.out.extend_from_slice(&inbox[from..at]);
                return Err(LinkEvent::ServerGone);
            };
            match means {
                ReplyMeaning::Pass => match reply {
                    ReplyKind::Parameter => fate = self.parameter(session, body),
                    ReplyKind::Row => fate = self.shown(session),
                    ReplyKind::CopyIn => {
                        self.is_open_batch |= self.expects.owes_sync();
                        // The message is being executed, so all before it were processed, and it does not wait for the
                        // client's next message.
                        if let Some(&(ExpectedReply::Query(message) | ExpectedReply::Execute(message))) =
                            self.expects.front()
                        {
                            session.client.names.confirm(message);
                        }
                    }
                    ReplyKind::Error => {
                        *done = at + length;
                        // A statement was created or removed unnoticed, by a function for instance. All are checked
                        // anew.
                        if !is_refusal && is_about_one(body) {
                            self.taken.server.prepared.doubt_all();
                        }
                        fate = self.error(session, body)?;
                        if let (ReplyRouting::Passes, Some(named)) = (&fate, unexpected) {
                            fate = ReplyRouting::Becomes(named);
                        }
                    }
                    _ => {}
                },
                ReplyMeaning::Swallow => {
                    fate = ReplyRouting::Stays;
                    if reply == ReplyKind::Ready {
                        self.status = body.first().copied().unwrap_or(b'E');
                    }
                    if matches!(reply, ReplyKind::Executed | ReplyKind::Ready) {
                        self.can_be_cancelled(session);
                    }
                }
                ReplyMeaning::Parsed { statement, message } => {
                    self.taken.server.prepared.is_there(statement);
                    match message {
                        0 => fate = ReplyRouting::Stays,
                        message => session.client.names.confirm(message),
                    }
                }
                ReplyMeaning::Evicted(statement) => {
                    self.taken.server.prepared.is_gone(statement);
                    fate = ReplyRouting::Stays;
                }
                ReplyMeaning::Executed(number) => fate = self.executed(session, number, whole),
                ReplyMeaning::Ready => {
                    self.is_open_batch &= !is_query || !self.expects.is_empty();
                    self.status = body.first().copied().unwrap_or(b'E');
                    self.ready(session);
                }
                ReplyMeaning::Resolved { skips } => {
                    fate = ReplyRouting::Stays;
                    self.is_open_batch = skips;
                    self.status = body.first().copied().unwrap_or(b'E');
                    self.ready(session);
                }
                ReplyMeaning::PreludeDone => {
                    self.has_settings = true;
                    if mem::take(&mut self.is_careful) {
                        self.open_block(session);
                    }
                    self.params = Arc::clone(&self.taken.server.params);
                    self.can_be_cancelled(session);
                    let params = &mut self.taken.server.params;
                    Params::tell(params, &mut session.client.told, &mut session.conn.replies.out);
                    fate = ReplyRouting::Stays;
                }
                ReplyMeaning::OfCheck => fate = self.of_check(session, reply, body),
            }
            self.drop_all(session, dropped);
            if fate != ReplyRouting::Passes {
                session.conn.replies.out.extend_from_slice(&inbox[from..at]);
                from = at + length;
            }
            if let ReplyRouting::Becomes(bytes) = fate {
                session.conn.replies.out.extend_from_slice(&bytes);
            }
            at += length;
            if matches!(self.expects.front(), Some(ExpectedReply::Own(_))) {
                session.conn.replies.out.extend_from_slice(&inbox[from..at]);
                from = at;
                self.answer_own(session);
            }
        }
        session.conn.replies.out.extend_from_slice(&inbox[from..at]);
        if self.client_rest == 0 {
            self.expects.put_barrier(&mut self.taken.server.out);
        }
        if self.expects.is_empty() && !self.is_open_batch && self.status != b'I' {
            self.rest();
        }
        *done = at;
        Ok(())
    }

    /// Corrects an error by which a COPY reports an unexpected message. Where that was the proxy's message, sent in
    /// place of the client's that waits in the input, the error has to name the client's.
    fn unexpected(&mut self, session: &mut ClientSession, body: &[u8]) -> Option<Box<[u8]>> {
        const OF_PROBE: &[u8] = b"0x51";
        let kind = session.conn.input.first().copied().filter(|_| self.expects.has_probed())?;
        let mut named = BytesMut::new();
        message::put(&mut named, b'E', |out| out.extend_from_slice(body));
        let at = named.windows(OF_PROBE.len()).position(|window| window == OF_PROBE)?;
        named[at..at + OF_PROBE.len()].copy_from_slice(format!("0x{kind:02X}").as_bytes());
        if self.taken.server.goes_on_after_unexpected()
            && let Some((_, length)) = message::head(&session.conn.input).flatten()
        {
            self.expects.was_unexpected();
            session.conn.input.advance(length);
        }
        Some(named.to_vec().into())
    }

    /// Lets cancels reach the server connection from now on: the messages that the proxy sent for the client are done,
    /// and a cancel no longer hits them.
    fn can_be_cancelled(&self, session: &ClientSession) {
        if !self.expects.has_begin() {
            session.client.reach.works(&self.taken.server.line);
        }
    }

    /// True if nothing is under way, and nothing of the session is on the connection.
    fn concerns_nobody(&self) -> bool {
        let is_idle = self.status == b'I' && self.expects.is_empty() && !self.is_open_batch;
        is_idle && self.hold == ConnectionTie::Free && !self.is_touched && !self.has_failed_check
    }

    fn error(&mut self, session: &ClientSession, body: &[u8]) -> Result<ReplyRouting, LinkEvent> {
        match self.expects.front() {
            Some(ExpectedReply::Prelude) if self.has_deadline && is_cancelled(body) => return Err(LinkEvent::Again),
            Some(ExpectedReply::Prelude | ExpectedReply::Begin) => return Err(LinkEvent::Refused(error_of(body))),
            _ => {}
        }
        self.has_failed = true;
        self.has_batch_failed = true;
        self.outcome.has_failed();
        // A read-only transaction fails like this as well, so the server is asked.
        if message::state(body) == Some(SqlState::READ_ONLY_SQL_TRANSACTION) {
            session.client.pool.nodes.suspect(&self.taken.node);
        }
        // A table has changed since a statement was prepared, and the client may not know that the statement was
        // prepared.
        if message::field(body, b'R') == Some("RevalidateCachedQuery") {
            self.taken.server.prepared.doubt_all();
            session.client.shared.statements.renew();
        }
        // The server's own message is the last that the client gets on this connection.
        self.is_told |= matches!(message::field(body, b'V'), Some("FATAL" | "PANIC"));
        if let Some(told) = self.turn.as_ref().and_then(|turn| turn.runaway(body)) {
            return Ok(ReplyRouting::Becomes(told));
        }
        if let Some(refused) = session.client.said_of_unknown(body) {
            return Ok(ReplyRouting::Becomes(in_place_of(body, &refused)));
        }
        // In messages to the client, a statement has the name that the client gave it.
        Ok(session.client.names.named_in(body).map_or(ReplyRouting::Passes, |body| {
            let mut out = BytesMut::new();
            message::put(&mut out, b'E', |out| out.extend_from_slice(&body));
            ReplyRouting::Becomes(out.to_vec().into())
        }))
    }

    fn parameter(&mut self, session: &mut ClientSession, body: &[u8]) -> ReplyRouting {
        let server = &mut self.taken.server;
        server.note(body);
        if matches!(self.expects.front(), Some(ExpectedReply::Prelude)) {
            return ReplyRouting::Stays;
        }
        let Some((name, rest)) = message::text(body) else { return ReplyRouting::Passes };
        let value = message::text(rest).map_or(&b""[..], |(value, _)| value);
        let (name, value) = (crate::text_of(name), crate::text_of(value));
        let is_news = Params::note(&mut session.client.told, name, value);
        if is_news && name == "application_name" {
            session.client.rename(value);
            session.activity.set_application(value);
        }
        if is_news { ReplyRouting::Passes } else { ReplyRouting::Stays }
    }

    /// Setting of which only the proxy knows the value, if the next row has it.
    fn showing(&self) -> Option<&Arc<str>> {
        let Some(ExpectedReply::Execute(number)) = self.expects.front() else { return None };
        let at = self.sets.binary_search_by_key(number, |&(own, _)| own).ok()?;
        match &self.sets.get(at)?.1 {
            LocalStatement::Show(name) => Some(name),
            LocalStatement::Set(_) => None,
        }
    }

    /// Row of the proxy's, in place of the server's.
    fn shown(&self, session: &ClientSession) -> ReplyRouting {
        let Some(name) = self.showing() else { return ReplyRouting::Passes };
        let value = session.client.shown(name);
        let mut out = BytesMut::new();
        message::put(&mut out, b'D', |out| {
            out.extend_from_slice(&[0, 1]);
            // No setting is as long as this limit.
            out.extend_from_slice(&(value.len() as u32).to_be_bytes());
            out.extend_from_slice(value.as_bytes());
        });
        ReplyRouting::Becomes(out.to_vec().into())
    }

    /// Handles the effects of a command that its tag reports.
    fn executed(&mut self, session: &mut ClientSession, number: u64, message: &[u8]) -> ReplyRouting {
        if message.first() != Some(&b'C') {
            return ReplyRouting::Passes;
        }
        if self.takes_statements != StatementRemoval::Nothing {
            // The tag does not matter here.
            self.taken.server.prepared.doubt_all();
        }
        // Statements before this one are not executed any more.
        self.sets.drain(..self.sets.partition_point(|&(own, _)| own < number));
        if self.sets.front().is_some_and(|&(own, _)| own == number)
            && let Some((_, served)) = self.sets.pop_front()
        {
            match served {
                // The value is valid, or it would not be here. The batch may still fail.
                LocalStatement::Set(set) => drop(session.client.set(set, true)),
                LocalStatement::Show(_) => return ReplyRouting::Becomes(Box::from(&b"C\0\0\0\x09SHOW\0"[..])),
            }
        }
        match &message[HEAD..] {
            b"DISCARD ALL\0" | b"DEALLOCATE ALL\0" => session.client.names.clear_before(number),
            // The tag is that of a rollback to a savepoint or of the whole transaction; its status tells which.
            b"ROLLBACK\0" => self.has_rolled_back = true,
            _ => {}
        }
        ReplyRouting::Passes
    }

    fn ready(&mut self, session: &mut ClientSession) {
        if self.expects.is_empty() {
            if self.taken.server.out.is_empty() {
                self.taken.server.has_read_all();
            }
            self.outcome.settled(self.status != b'I');
            session.client.names.settle();
        }
        let is_undone = mem::take(&mut self.has_batch_failed) | mem::take(&mut self.has_rolled_back);
        if self.status == b'I' {
            // The statements bound since then exist, or will.
            if self.expects.is_empty() && !self.is_open_batch {
                self.portals.forget();
            }
            if is_undone {
                session.client.priority.undo();
            }
            session.client.priority.settle();
        }
        if self.expects.is_empty() {
            self.sets.clear();
            if self.status == b'I' && self.is_skewed && !self.is_touched {
                self.settings_are_known();
            }
        }
        // A request that came meanwhile is under way.
        if self.expects.is_empty() {
            session.activity.rest(self.transaction());
        }
    }

    fn transaction(&self) -> TransactionStatus {
        match self.status {
            b'I' => TransactionStatus::Idle,
            b'T' => TransactionStatus::Open,
            _ => TransactionStatus::Failed,
        }
    }

    fn of_check(&mut self, session: &mut ClientSession, reply: ReplyKind, body: &[u8]) -> ReplyRouting {
        if let Some(found) = &mut self.check {
            match reply {
                ReplyKind::Row => {
                    let is_utf8 = self.taken.server.params.is_utf8();
                    let row = message::row(body).unwrap_or_default();
                    found.row(row, &session.client.pool.user, is_utf8, |name| session.client.may_be_empty(name));
                }
                ReplyKind::Error => (found.failed, found.is_cancelled) = (true, is_cancelled(body)),
                _ => {}
            }
        }
        if reply == ReplyKind::Ready {
            self.status = body.first().copied().unwrap_or(b'E');
            self.end_check(session);
        }
        ReplyRouting::Stays
    }

    fn drop_all(&mut self, session: &mut ClientSession, dropped: Vec<ExpectedReply>) {
        let names = &mut session.client.names;
        // Effects are undone in reverse order. The first message has failed, and the server ignores the others.
        for (at, expect) in dropped.into_iter().enumerate().rev() {
            let message = match expect {
                ExpectedReply::Parse { statement, message } => {
                    if statement == 0 {
                        // The current unnamed statement of the server is unknown.
                        self.taken.server.unnamed = (0, 0);
                    } else {
                        self.taken.server.prepared.has_failed(statement);
                    }
                    message
                }
                ExpectedReply::Evicted(statement) => {
                    self.taken.server.prepared.stays(statement);
                    0
                }
                ExpectedReply::Own(ProxyReply::Parsed(message) | ProxyReply::Closed(message))
                | ExpectedReply::Close { message }
                | ExpectedReply::Query(message) => message,
                ExpectedReply::Bind
                | ExpectedReply::Parameters
                | ExpectedReply::Columns
                | ExpectedReply::Execute(_)
                | ExpectedReply::CopyEnd
                | ExpectedReply::Sync
                | ExpectedReply::Function
                | ExpectedReply::Settle
                | ExpectedReply::Own(ProxyReply::Done(_))
                | ExpectedReply::Refusal
                | ExpectedReply::Prelude
                | ExpectedReply::Begin
                | ExpectedReply::BeginFailed
                | ExpectedReply::Check { .. }
                | ExpectedReply::Barrier { .. }
                | ExpectedReply::BarrierSync { .. } => 0,
            };
            if message != 0 {
                names.take_back(message, at == 0);
            }
        }
    }

    /// Sends the proxy's own answers whose turn has come.
    pub(crate) fn answer_own(&mut self, session: &mut ClientSession) {
        let replies = &mut session.conn.replies;
        while let Some(own) = self.expects.take_own() {
            self.holds_answers = !matches!(own, ProxyReply::Done(_)) && (self.holds_answers || replies.out.is_empty());
            match own {
                ProxyReply::Parsed(message) => {
                    session.client.names.confirm(message);
                    replies.parse_complete();
                }
                ProxyReply::Closed(message) => {
                    session.client.names.confirm(message);
                    replies.close_complete();
                }
                ProxyReply::Done(answer) => {
                    answer.write(replies);
                    let status = self.transaction();
                    replies.ready(status);
                    if self.expects.is_empty() {
                        session.activity.rest(status);
                    }
                }
            }
        }
    }
}

/// True if an error reports that a statement was cancelled, or took too long.
fn is_cancelled(body: &[u8]) -> bool {
    message::state(body) == Some(SqlState::QUERY_CANCELED)
}

/// True if an error reports that one of the proxy's prepared statements is missing, or exists already.
fn is_about_one(body: &[u8]) -> bool {
    matches!(message::state(body), Some(SqlState::INVALID_SQL_STATEMENT_NAME | SqlState::DUPLICATE_PREPARED_STATEMENT))
        && message::field(body, b'M').is_some_and(|text| names_one(text.as_bytes()))
}

/// Treatment of a message of the server.
#[derive(Debug, PartialEq, Eq)]
enum ReplyRouting {
    Passes,
    Stays,
    Becomes(Box<[u8]>),
}
