//! Messages from the client to the server.
//!
//! **Invariant:** each message that is sent to the server has its entry in the queue of answers, in the same order.
//! Only names of prepared statements are ever changed in a message. Data of a COPY pass as they come; all other
//! messages are inspected when they are complete.

use crate::clients::expect::{ExpectedReply, ProxyReply, SendDecision};
use crate::clients::link::{ConnectionTie, Link, LinkEvent, StatementRemoval};
use crate::clients::outcome::BlockEffect;
use crate::clients::session::ClientSession;
use crate::servers::prepared::PrepareMessages;
use crate::servers::target;
use crate::statements::message;
use crate::statements::portals::Portal;
use crate::statements::scan::{Scan, scan, scan_known};
use crate::statements::shared::{PREFIX, SharedStatement, is_reserved, name_of};
use bytes::Buf;
use std::iter;
use std::mem;
use std::sync::Arc;
use wire::conn::Conn;
use wire::errors;
use wire::frame::{self, HEAD};

/// Number of bytes above which no more is forwarded: bytes that the server has not taken, or answers, including the
/// proxy's own, that the client has not taken.
const ENOUGH: usize = 64 << 10;

impl Link {
    /// Forwards messages from the client's input, as many as are there.
    pub(crate) fn forward(&mut self, session: &mut ClientSession) -> Result<(), LinkEvent> {
        session.needs = 0;
        while self.taken.server.out.len() < ENOUGH && session.conn.replies.out.len() < ENOUGH && !self.is_leaving {
            // The rest of a long message passes as it arrives. The barrier may follow only once the message is
            // complete.
            if 0 < self.client_rest {
                let count = self.client_rest.min(session.conn.input.len());
                if count == 0 {
                    break;
                }
                self.pass(&mut session.conn, count);
                self.client_rest -= count;
                if self.client_rest == 0 {
                    self.expects.put_barrier(&mut self.taken.server.out);
                }
                continue;
            }
            let refused = |broken| LinkEvent::Refused(errors::broken(broken));
            let Some((kind, length)) = frame::head(&session.conn.input).map_err(refused)? else { break };
            // While the barrier is under way, nothing of the client is sent.
            if self.expects.is_resolving() {
                break;
            }
            // Data of a COPY need not be complete.
            if kind == b'd' {
                if session.message_max < length {
                    return Err(refused(frame::Broken::TooLong(length)));
                }
                (self.client_rest, self.has_taken) = (HEAD + length, true);
                continue;
            }
            let whole = frame::whole(&session.conn.input, session.message_max).map_err(refused)?;
            let Some((kind, length)) = whole else {
                session.needs = HEAD + length;
                break;
            };
            if self.must_wait(session, kind, length) || !self.admits(kind) || self.must_settle(session, kind, length) {
                break;
            }
            self.has_taken = true;
            self.message(session, kind, length)?;
        }
        Ok(())
    }

    /// True if the meaning of a message depends on outstanding answers: they decide what its name stands for, or if any
    /// names are left. These answers come without anything more from the client.
    fn must_wait(&mut self, session: &ClientSession, kind: u8, length: usize) -> bool {
        if self.takes_statements == StatementRemoval::Sent {
            if self.expects.is_empty() {
                self.takes_statements = StatementRemoval::Nothing;
            } else if matches!(kind, b'P' | b'B' | b'D' | b'C' | b'E' | b'Q' | b'F') && !self.expects.copies_in {
                // All other messages have no names, or a COPY waits for them.
                return true;
            }
        }
        if session.client.names.is_sure() {
            return false;
        }
        let body = &session.conn.input[HEAD..length];
        let batch = self.taken.server.prepared.batch;
        let name = match kind {
            b'P' => message::text(body),
            b'B' => message::text(body).and_then(|(_, rest)| message::text(rest)),
            b'D' | b'C' => body.strip_prefix(b"S").and_then(message::text),
            _ => None,
        };
        match name {
            Some((b"", _)) => matches!(kind, b'B' | b'D') && session.client.names.is_unnamed_unsure(batch),
            Some((name, _)) => session.client.names.is_unsure(name, batch),
            None => false,
        }
    }

    /// True if a message is a command of the proxy's that waits until the state of the transaction is known. A query
    /// ends whatever was executed before it without a `Sync`, so the server is sent one in its place.
    fn must_settle(&mut self, session: &ClientSession, kind: u8, length: usize) -> bool {
        let is_known = self.expects.is_empty() && !self.is_open_batch;
        // A message that the server would ignore is no command.
        if kind != b'Q' || is_known || self.expects.skips() {
            return false;
        }
        let body = &session.conn.input[HEAD..length];
        if !session.client.is_command(body.strip_suffix(b"\0").unwrap_or(body)) {
            return false;
        }
        if self.is_open_batch && !self.expects.is_settling() {
            let server = &mut self.taken.server;
            message::query(&mut server.out, "");
            server.unnamed = (0, 0);
            self.expects.push(ExpectedReply::Settle);
        }
        true
    }

    /// True if a message may be sent while a COPY may be under way. If not, this sends whatever brings about the answer
    /// that the message waits for.
    fn admits(&mut self, kind: u8) -> bool {
        let out = &mut self.taken.server.out;
        match self.expects.admits(kind) {
            SendDecision::Now => return true,
            SendDecision::Later => {}
            SendDecision::AfterFlush => message::put(out, b'H', |_| {}),
            SendDecision::AfterProbe => message::query(out, ""),
        }
        false
    }

    /// Forwards the first bytes of the input, unchanged.
    fn pass(&mut self, conn: &mut Conn, count: usize) {
        self.taken.server.out.extend_from_slice(&conn.input[..count]);
        conn.input.advance(count);
    }

    /// Forwards one complete message.
    fn message(&mut self, session: &mut ClientSession, kind: u8, length: usize) -> Result<(), LinkEvent> {
        if self.expects.skips() && !matches!(kind, b'S' | b'X' | b'p') {
            // The server would ignore it.
            session.conn.input.advance(length);
            return Ok(());
        }
        self.is_touched |= mem::take(&mut self.has_failed_check);
        session.client.message += 1;
        session.client.ask_for_unknown(kind, &mut session.conn.input[HEAD..length]);
        match kind {
            b'Q' => return self.query(session, length),
            b'S' => {
                self.pass(&mut session.conn, length);
                let is_read = self.expects.push(ExpectedReply::Sync);
                if self.takes_statements == StatementRemoval::InBatch {
                    self.takes_statements = StatementRemoval::Sent;
                }
                self.taken.server.prepared.next_batch();
                self.is_open_batch &= !is_read;
                return Ok(());
            }
            b'F' => {
                self.outcome.sent(BlockEffect::States);
                self.expects.push(ExpectedReply::Function);
                // A function may set anything, and there is no text to tell.
                (self.is_touched, self.is_skewed) = (true, true);
                match message::set_by_call(&session.conn.input[HEAD..length]) {
                    Some(Some(name)) if name.contains('.') => {
                        session.client.customs.insert(name);
                    }
                    Some(None) => self.hold = ConnectionTie::Bound,
                    Some(Some(_)) | None => {}
                }
                self.pass(&mut session.conn, length);
                return Ok(());
            }
            b'c' | b'f' => {
                self.expects.end_copy();
                self.pass(&mut session.conn, length);
                return Ok(());
            }
            b'X' => {
                self.is_leaving = true;
                return Ok(());
            }
            // `Flush` needs no `Sync`.
            b'H' => {
                self.pass(&mut session.conn, length);
                return Ok(());
            }
            b'P' | b'B' | b'D' | b'C' | b'E' => self.is_open_batch = true,
            _ => return Err(LinkEvent::Refused(errors::unexpected(kind))),
        }
        if kind == b'E' {
            self.execute(session, length);
            return Ok(());
        }
        let mut input = mem::take(&mut session.conn.input);
        let message = &input[..length];
        match kind {
            b'P' => self.parse(session, message),
            b'B' => self.bind(session, message),
            _ => self.about(session, kind, message),
        }
        input.advance(length);
        session.conn.input = input;
        Ok(())
    }

    fn execute(&mut self, session: &mut ClientSession, length: usize) {
        let number = session.client.message;
        let portal = message::text(&session.conn.input[HEAD..length]).map_or(&b""[..], |(portal, _)| portal);
        let portal = self.portals.get(portal);
        self.outcome.sent(portal.act);
        self.sets.extend(portal.served.clone().map(|served| (number, served)));
        if portal.copies_in {
            self.expects.push_copy(ExpectedReply::Execute(number));
        } else {
            self.expects.push(ExpectedReply::Execute(number));
        }
        self.count();
        self.pass(&mut session.conn, length);
    }

    /// Notes the possible effects of a text.
    pub(crate) fn note(&mut self, session: &mut ClientSession, scan: &Scan) {
        self.is_skewed |= scan.changes_settings();
        self.is_touched |= scan.touches || (scan.lets_go && self.hold == ConnectionTie::Held);
        if scan.binds {
            self.hold = ConnectionTie::Bound;
        }
        if scan.takes_statements {
            self.takes_statements = self.takes_statements.max(StatementRemoval::InBatch);
        }
        if scan.resets_all {
            // The server does not know the values that the proxy has set.
            session.client.priority.reset(self.status == b'T');
        }
        for name in &scan.customs {
            if !session.client.customs.contains(name) {
                session.client.customs.insert(name.clone());
            }
        }
    }

    /// True if a text shows the target while only the server knows it: a setting was changed since the last check.
    fn may_have_set_target(&self, text: &[u8]) -> bool {
        self.is_touched && target::is_named_in(text)
    }

    /// Counts one more statement.
    fn count(&mut self) {
        self.turn.iter_mut().for_each(|turn| turn.statements += 1);
    }

    fn query(&mut self, session: &mut ClientSession, length: usize) -> Result<(), LinkEvent> {
        let number = session.client.message;
        let body = &session.conn.input[HEAD..length];
        let text = body.strip_suffix(b"\0").unwrap_or(body);
        // In a failed transaction the server has to answer.
        if self.status != b'E'
            && !self.may_have_set_target(text)
            // A command with a wrong value is an ordinary setting, for the server.
            && let Some(Ok(answer)) = session.client.command(text, self.status == b'T')
        {
            session.conn.input.advance(length);
            self.expects.push(ExpectedReply::Own(ProxyReply::Done(answer)));
            self.answer_own(session);
            return Ok(());
        }
        let scan = scan(text);
        self.outcome.sent(BlockEffect::of_query(text, &scan));
        self.note(session, &scan);
        if scan.takes_statements {
            self.takes_statements = StatementRemoval::Sent;
        }
        // The server forgets its unnamed statement as well.
        session.client.names.forget_unnamed(number, self.taken.server.prepared.batch);
        self.taken.server.unnamed = (0, 0);
        if scan.copies_in {
            self.expects.push_copy(ExpectedReply::Query(number));
        } else {
            self.expects.push(ExpectedReply::Query(number));
        }
        session.show_query(length);
        self.count();
        self.pass(&mut session.conn, length);
        Ok(())
    }

    fn parse(&mut self, session: &mut ClientSession, message: &[u8]) {
        let number = session.client.message;
        let unshared = ExpectedReply::Parse { statement: 0, message: number };
        let Some((name, rest)) = message::text(&message[HEAD..]) else { return self.send(message, unshared) };
        let text = message::text(rest).map_or(rest, |(text, _)| text);
        let set = if self.may_have_set_target(text) { None } else { session.client.served(text) };
        let replaced = set.as_ref().map(|set| [&set.for_server(), &rest[text.len()..]].concat());
        let rest = replaced.as_deref().unwrap_or(rest);
        if name.is_empty() {
            let scan = if set.is_some() { Scan::default() } else { scan_known(text) };
            self.note(session, &scan);
            let may_share = set.is_none() && scan.is_plain() && !self.is_apart() && self.may_be_parsed();
            let client = &mut session.client;
            client.names.set_unnamed(rest, scan, number, self.taken.server.prepared.batch);
            client.names.unnamed.set = set;
            let context = client.context();
            if may_share && let Some(statement) = client.shared.statements.repeated(&context, rest) {
                client.names.unnamed.shared = Some(Arc::clone(&statement));
                self.share(session, &statement, number);
                return;
            }
            let server = &mut self.taken.server;
            server.unnamed = (client.number, client.names.unnamed.number);
            message::put(&mut server.out, b'P', |out| {
                out.extend_from_slice(&[0]);
                out.extend_from_slice(rest);
            });
            self.expects.push(unshared);
            return;
        }
        if let Some(taken) = self.need(session, name) {
            // The server refuses the text, or else the name.
            message::put(&mut self.taken.server.out, b'P', |out| {
                for part in [taken.name.as_bytes(), b"\0", rest] {
                    out.extend_from_slice(part);
                }
            });
            self.expects.push(ExpectedReply::Refusal);
            return;
        }
        let context = session.client.context();
        let statements = &session.client.shared.statements;
        let is_alone = self.is_apart() || scan_known(text).is_of_moment;
        let statement = if is_alone { statements.alone(rest) } else { statements.of(&context, rest) };
        let batch = self.taken.server.prepared.batch;
        session.client.names.insert(name, Arc::clone(&statement), set, (number, batch));
        self.share(session, &statement, number);
    }

    /// True if the proxy may answer that a statement is parsed. In a failed transaction the server has to refuse it.
    fn may_be_parsed(&self) -> bool {
        self.status != b'E' && self.expects.is_one_batch()
    }

    /// Registers a shared statement that the client's message of this number has parsed.
    fn share(&mut self, session: &mut ClientSession, statement: &SharedStatement, number: u64) {
        match self.taken.server.prepared.want(statement.number) {
            PrepareMessages::Nothing if self.may_be_parsed() => {
                self.expects.push(ExpectedReply::Own(ProxyReply::Parsed(number)));
                self.answer_own(session);
            }
            PrepareMessages::Parse => self.bring(statement, PrepareMessages::Parse, number),
            // The server has to answer this `Parse` even if it has the statement, so the statement is parsed anew.
            PrepareMessages::Nothing | PrepareMessages::CloseAndParse => {
                self.bring(statement, PrepareMessages::CloseAndParse, number);
            }
        }
    }

    /// Sends a `Parse` of a shared statement; `message` is the client's, 0 if it has not asked.
    fn bring(&mut self, statement: &SharedStatement, missing: PrepareMessages, message: u64) {
        let server = &mut self.taken.server;
        if missing == PrepareMessages::CloseAndParse {
            message::about_statement(&mut server.out, b'C', statement.name.as_bytes());
            self.expects.push(ExpectedReply::Close { message: 0 });
        }
        message::put(&mut server.out, b'P', |out| {
            out.extend_from_slice(statement.name.as_bytes());
            out.extend_from_slice(&[0]);
            out.extend_from_slice(&statement.body);
        });
        self.expects.push(ExpectedReply::Parse { statement: statement.number, message });
        // There may be many too many, if the server has ignored the messages that were to close them.
        for oldest in iter::from_fn(|| server.prepared.evict()).take(2) {
            message::about_statement(&mut server.out, b'C', name_of(oldest).as_bytes());
            self.expects.push(ExpectedReply::Evicted(oldest));
        }
    }

    /// Makes sure that the client's statement of this name is on the connection when the next message arrives.
    fn need(&mut self, session: &mut ClientSession, name: &[u8]) -> Option<Arc<SharedStatement>> {
        let names = &session.client.names;
        let shared = if name.is_empty() { names.unnamed.shared.as_ref() } else { names.get(name) };
        let shared = shared.map(Arc::clone);
        if name.is_empty() && shared.is_none() {
            let client = &mut session.client;
            let own = (client.number, client.names.unnamed.number);
            if self.taken.server.unnamed != own {
                let server = &mut self.taken.server;
                server.unnamed = own;
                if client.names.unnamed.body.is_empty() {
                    // Another client's unnamed statement may be there.
                    message::about_statement(&mut server.out, b'C', b"");
                    self.expects.push(ExpectedReply::Close { message: 0 });
                } else {
                    message::put(&mut server.out, b'P', |out| {
                        out.extend_from_slice(&[0]);
                        out.extend_from_slice(&client.names.unnamed.body);
                    });
                    self.expects.push(ExpectedReply::Parse { statement: 0, message: 0 });
                }
            }
            return None;
        }
        // The server has to find a statement that the client has not named by the protocol.
        let statement = shared?;
        match self.taken.server.prepared.want(statement.number) {
            PrepareMessages::Nothing => {}
            missing @ (PrepareMessages::Parse | PrepareMessages::CloseAndParse) => {
                self.brings_skewed |= self.is_apart();
                self.bring(&statement, missing, 0);
            }
        }
        Some(statement)
    }

    fn bind(&mut self, session: &mut ClientSession, message: &[u8]) {
        let body = &message[HEAD..];
        let Some((portal, rest)) = message::text(body) else { return self.send(message, ExpectedReply::Bind) };
        let Some((name, rest)) = message::text(rest) else { return self.send(message, ExpectedReply::Bind) };
        session.show_statement(name);
        let served = session.client.names.set_of(name).cloned();
        match self.need(session, name) {
            Some(statement) => {
                let (act, copies_in) =
                    (BlockEffect::of_statement(&statement.body, &statement.scan), statement.scan.copies_in);
                self.portals.bind(portal, Portal { act, copies_in, served });
                self.note(session, &statement.scan);
                message::put(&mut self.taken.server.out, b'B', |out| {
                    for part in [portal, b"\0", statement.name.as_bytes(), b"\0", rest] {
                        out.extend_from_slice(part);
                    }
                });
                self.expects.push(ExpectedReply::Bind);
            }
            None => {
                // A statement that only the server knows may be anything.
                let (mut act, mut copies_in) = (BlockEffect::Mixes, false);
                if name.is_empty() {
                    let scan = mem::take(&mut session.client.names.unnamed.scan);
                    self.note(session, &scan);
                    (act, copies_in) =
                        (BlockEffect::of_statement(&session.client.names.unnamed.body, &scan), scan.copies_in);
                    session.client.names.unnamed.scan = scan;
                }
                self.portals.bind(portal, Portal { act, copies_in, served });
                if is_reserved(name) {
                    return self.send_of(b'B', &[portal, b"\0"], name, rest, ExpectedReply::Bind);
                }
                self.send(message, ExpectedReply::Bind);
            }
        }
    }

    /// Handles `Describe` and `Close`.
    fn about(&mut self, session: &mut ClientSession, kind: u8, message: &[u8]) {
        let is_close = kind == b'C';
        let (target, rest) = message[HEAD..].split_first().unwrap_or((&0, &[]));
        let expect = match (is_close, target) {
            (true, _) => ExpectedReply::Close { message: session.client.message },
            (false, b'S') => ExpectedReply::Parameters,
            (false, _) => ExpectedReply::Columns,
        };
        let Some((name, _)) = message::text(rest) else { return self.send(message, expect) };
        if *target != b'S' {
            if is_close {
                self.portals.close(name);
            }
            return self.send(message, expect);
        }
        if is_close {
            if name.is_empty() {
                session.client.names.forget_unnamed(session.client.message, self.taken.server.prepared.batch);
                self.taken.server.unnamed = (0, 0);
            } else if session.client.names.close(name, session.client.message, self.taken.server.prepared.batch) {
                // The connection keeps the statement for others.
                self.expects.push(ExpectedReply::Own(ProxyReply::Closed(session.client.message)));
                return self.answer_own(session);
            } else if is_reserved(name) {
                return self.send_of(kind, &[b"S"], name, b"", expect);
            }
            return self.send(message, expect);
        }
        match self.need(session, name) {
            Some(statement) => {
                message::about_statement(&mut self.taken.server.out, kind, statement.name.as_bytes());
                self.expects.push(expect);
            }
            None if is_reserved(name) => self.send_of(kind, &[b"S"], name, b"", expect),
            None => self.send(message, expect),
        }
    }

    /// Sends a message about a missing statement whose name looks like the proxy's own, under another name, which is
    /// missing as well.
    fn send_of(&mut self, kind: u8, before: &[&[u8]], name: &[u8], rest: &[u8], expect: ExpectedReply) {
        message::put(&mut self.taken.server.out, kind, |out| {
            for part in before.iter().copied().chain([PREFIX.as_bytes(), name, b"\0", rest]) {
                out.extend_from_slice(part);
            }
        });
        self.expects.push(expect);
    }

    fn send(&mut self, message: &[u8], expect: ExpectedReply) {
        self.taken.server.out.extend_from_slice(message);
        self.expects.push(expect);
    }

    /// Makes the server report an error, so that its transaction fails.
    pub(crate) fn provoke(&mut self) {
        // Numbers begin with 1, so no statement has this name.
        message::about_statement(&mut self.taken.server.out, b'D', PREFIX.as_bytes());
        self.expects.push(ExpectedReply::Refusal);
    }
}
