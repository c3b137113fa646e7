//! Link of a client with a server connection: bytes go both ways until the transaction has ended.
//!
//! **Invariant:** a link never waits for one side without listening to the other. Data that one side does not take hold
//! up only what the other sends. At most one read's worth of a result is held here. The link ends when everything that
//! was sent is answered, no transaction is open, and nothing ties the client to the connection.

use crate::clients::block::{self, Block};
use crate::clients::expect::{ExpectedReplies, ExpectedReply};
use crate::clients::leftovers::{self, CheckResult};
use crate::clients::outcome::{BlockEffect, TransactionOutcome};
use crate::clients::priority::LocalStatement;
use crate::clients::session::ClientSession;
use crate::clients::turn::Turn;
use crate::servers::params::Params;
use crate::servers::pool::TakenConn;
use crate::statements::message;
use crate::statements::portals::Portals;
use crate::statements::resets::Reset;
use crate::statements::session_settings::{self, SessionSettings};
use statement::SqlError;
use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::AsyncReadExt;
use wire::conn::write;
use wire::wait::Gone;

/// Bytes of answers that a client has not taken, above which the server is not read.
const ANSWERS: usize = 16 << 10;
/// Bytes of requests that a server has not taken, above which the client is not read.
const QUESTIONS: usize = 64 << 10;
/// Number of rounds of a busy link before other tasks of its thread have their turn.
const ROUNDS: usize = 8;
/// Capacity for one read from a client, in bytes.
const CLIENT_READ: usize = 8 << 10;

/// Strength of a client's tie to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConnectionTie {
    /// The client is free to leave.
    Free,
    /// The server has named state that ties the client.
    Held,
    /// State that cannot be asked for ties the client.
    Bound,
}

/// Reason why a link does not go on by itself.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    /// The link has ended: the connection is as in the pool.
    Done,
    /// The transaction has waited for its client, which has sent something.
    Speaks,
    /// The client has taken nothing of its answers for a while, and takes them again.
    Reads,
    /// The client has sent `Terminate`.
    Left,
    /// The client is gone, or has to go.
    Gone(Gone),
    /// The client has broken the protocol, or its settings cannot be made.
    Refused(SqlError),
    /// Settings that another client has left have prevented those of this one. Nothing of this client was sent.
    Again,
    /// The server has closed the connection, or does not speak the protocol.
    ServerGone,
}

/// State of a sent message that may remove prepared statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StatementRemoval {
    Nothing,
    /// The message is in a batch whose `Sync` is still to come.
    InBatch,
    /// The message will be answered.
    Sent,
}

pub(crate) struct Link {
    pub(crate) taken: TakenConn,
    /// Turn of the transaction; `None` while only its hold ties a client to its connection.
    pub(crate) turn: Option<Turn>,
    pub(crate) expects: ExpectedReplies,
    /// Status of the server's transaction: `I`, `T` or `E`.
    pub(crate) status: u8,
    /// True if something was sent that requires a `Sync`.
    pub(crate) is_open_batch: bool,
    /// True if a message of the client was taken. When the link begins, one stands in its input, and may have to wait
    /// for the prelude.
    pub(crate) has_taken: bool,
    /// Remaining bytes of a message of the client, and of one of the server.
    pub(crate) client_rest: usize,
    pub(crate) server_rest: usize,
    /// True if the session may have been changed.
    pub(crate) is_touched: bool,
    /// True if the connection has the settings that are recorded for it: not before the prelude was answered, and not
    /// if it failed.
    pub(crate) has_settings: bool,
    /// Rule when the server is asked for state that no text has named, and a mark that it was asked since the
    /// transaction began.
    reset: Reset,
    is_checked: bool,
    /// Parameters that the server had reported when the session's settings were known.
    pub(crate) params: Arc<Params>,
    /// True if texts may be parsed under other settings than the client is known to have. The next field is true if a
    /// shared statement was parsed here under such settings, or beside temporary objects.
    pub(crate) is_skewed: bool,
    pub(crate) brings_skewed: bool,
    pub(crate) hold: ConnectionTie,
    /// True if the session may have temporary objects from its last transactions: the meaning of a text depends on
    /// them.
    pub(crate) has_temporary: bool,
    /// Outcome of the transaction if the connection is lost now.
    pub(crate) outcome: TransactionOutcome,
    pub(crate) portals: Portals,
    /// Statements of the proxy's own that are to be executed, by the client's messages, in their order.
    pub(crate) sets: VecDeque<(u64, LocalStatement)>,
    /// Check under way.
    pub(crate) check: Option<CheckResult>,
    /// True if the last check was not answered.
    pub(crate) has_failed_check: bool,
    /// Number of checks in a row that were cancelled.
    cancelled_checks: u8,
    pub(crate) takes_statements: StatementRemoval,
    /// True if nothing may follow the prelude before it is answered.
    pub(crate) is_careful: bool,
    /// True if the connection came with a `statement_timeout`: of another client, or of its role.
    pub(crate) has_deadline: bool,
    /// True if the slot is noted as idle.
    pub(crate) is_idle: bool,
    /// True if the slot was told that the client takes nothing of its answers. Nothing more is sent to the server
    /// before the client takes them.
    pub(crate) is_unread: bool,
    /// True if the client has sent `Terminate`, and is still to be answered.
    pub(crate) is_leaving: bool,
    /// True if a statement of the transaction has failed.
    pub(crate) has_failed: bool,
    /// True if a statement has failed since the server was last ready.
    pub(crate) has_batch_failed: bool,
    /// True if there was a rollback since then.
    pub(crate) has_rolled_back: bool,
    /// True if the server has sent its last message.
    pub(crate) is_told: bool,
    /// True if the pending answers to the client are the proxy's own, and answers of the server follow them. They are
    /// sent together, as a server sends everything at the end of a batch.
    pub(crate) holds_answers: bool,
    server_flushes: bool,
}

impl Link {
    /// Leaves the gate, because the transaction has ended and its client keeps the connection.
    pub(crate) fn leave_admission(&mut self) {
        if let Some(place) = self.turn.as_mut().and_then(Turn::keep) {
            self.taken.place = Some(place);
        }
        let has_failed = std::mem::take(&mut self.has_failed);
        match self.turn.take() {
            Some(turn) if !has_failed => turn.done_now(),
            turn => drop(turn),
        }
    }

    /// Creates a link. Settings of other clients on the connection are changed in front of the client's first message.
    pub(crate) fn new(mut taken: TakenConn, turn: Turn, session: &mut ClientSession) -> Link {
        let expects = std::mem::take(&mut taken.server.expects).anew();
        let params = Arc::clone(&taken.server.params);
        // Rules that were reloaded since the connection was made apply from here on.
        session.client.learn();
        let reset = session.client.reset;
        let mut link = Link {
            taken,
            turn: None,
            expects,
            status: b'I',
            is_open_batch: false,
            has_taken: false,
            client_rest: 0,
            server_rest: 0,
            is_touched: false,
            has_settings: true,
            reset,
            is_checked: false,
            params,
            is_skewed: false,
            brings_skewed: false,
            hold: ConnectionTie::Free,
            has_temporary: false,
            outcome: TransactionOutcome::default(),
            portals: Portals::default(),
            sets: VecDeque::new(),
            check: None,
            has_failed_check: false,
            cancelled_checks: 0,
            takes_statements: StatementRemoval::Nothing,
            is_careful: false,
            has_deadline: false,
            is_idle: false,
            is_unread: false,
            is_leaving: false,
            has_failed: false,
            has_batch_failed: false,
            has_rolled_back: false,
            is_told: false,
            holds_answers: false,
            server_flushes: false,
        };
        link.taken.server.taken_by(session.activity.pid(), turn.begun());
        link.begin(turn, session);
        let server = &mut link.taken.server;
        server.prepared.next_batch();
        let wanted = &session.client.settings;
        let is_reset = reset == Reset::Always;
        if is_reset || (!Arc::ptr_eq(&server.settings, wanted) && server.settings != *wanted) {
            let (mut change, is_careful) = match is_reset {
                true => wanted.change_from(&SessionSettings::default()),
                false => wanted.change_from(&server.settings),
            };
            if is_reset {
                change.insert_str(0, session_settings::RESET);
            }
            let limit = server.settings.has_deadline();
            link.has_deadline = limit.unwrap_or_else(|| session.client.pool.consent.has_deadline());
            if link.has_deadline {
                change.insert_str(0, session_settings::WITHOUT_DEADLINE);
            }
            message::query(&mut server.out, &change);
            server.unnamed = (0, 0);
            link.expects.push(ExpectedReply::Prelude);
            link.has_settings = false;
            link.is_careful = is_careful || link.has_deadline;
        } else {
            Params::tell(&mut server.params, &mut session.client.told, &mut session.conn.replies.out);
        }
        server.settings = Arc::clone(wanted);
        if !link.is_careful {
            link.open_block(session);
        }
        // Until the messages sent for the client are answered, a cancel would hit those.
        if link.expects.is_empty() {
            session.client.reach.works(&link.taken.server.line);
        }
        link
    }

    /// Sends the client's BEGIN before its first message, and a failure in its block as well.
    pub(crate) fn open_block(&mut self, session: &mut ClientSession) {
        let server = &mut self.taken.server;
        let (text, is_query) = match std::mem::take(&mut session.block) {
            Block::Closed => return,
            Block::Begun { text, is_query, .. } => (text, is_query),
            Block::Failed { text } => {
                block::open_failed(&mut server.out, &text);
                server.unnamed = (0, 0);
                self.expects.push(ExpectedReply::BeginFailed);
                self.outcome.sent(BlockEffect::Begins);
                (self.status, self.has_failed) = (b'E', true);
                return;
            }
        };
        block::open(&mut server.out, &text);
        server.unnamed = (0, 0);
        self.expects.push(ExpectedReply::Begin);
        // A query removes the portal by itself.
        if is_query && session.conn.input.first() != Some(&b'Q') {
            message::put(&mut server.out, b'C', |out| out.extend_from_slice(b"P\0"));
            self.expects.push(ExpectedReply::Close { message: 0 });
        }
        self.outcome.sent(BlockEffect::Begins);
        self.status = b'T';
        self.turn.iter_mut().for_each(|turn| turn.statements += 1);
    }

    /// Begins a transaction on the link.
    pub(crate) fn begin(&mut self, turn: Turn, session: &mut ClientSession) {
        let (client, server) = (&mut session.client, &mut self.taken.server);
        turn.cancel_by(|| Arc::new(client.reach.once()));
        client.targets.begun();
        self.is_checked = false;
        client.shared.internal.begins(server, turn.class());
        server.works_for(turn.ticket());
        self.turn = Some(turn);
    }

    /// Goes on as far as both sides allow.
    pub(crate) fn poll(&mut self, session: &mut ClientSession, cx: &mut Context<'_>) -> Poll<LinkEvent> {
        // A side with nothing to do is not polled again: its stream wakes the task.
        let (mut server_rests, mut client_rests) = (false, false);
        for round in 1.. {
            let mut has_moved = false;
            let listens = self.check.is_none() && !self.is_careful && !self.is_leaving && !self.is_unread;
            if listens && !session.conn.input.is_empty() {
                if self.is_idle {
                    if self.expects.copies_in || 0 < self.client_rest || session.has_spoken() {
                        return Poll::Ready(LinkEvent::Speaks);
                    }
                } else if let Err(event) = self.forward(session) {
                    return Poll::Ready(event);
                }
            }
            if !self.taken.server.out.is_empty() || self.server_flushes {
                let server = &mut self.taken.server;
                let there = server.out.len();
                let written = write(&mut server.io, &mut server.out, &mut self.server_flushes, cx);
                server.is_sent(there - server.out.len());
                match written {
                    Poll::Ready(Ok(())) => has_moved = true,
                    // Data that the server has sent before are still to be read.
                    Poll::Ready(Err(_)) => server.out.clear(),
                    Poll::Pending => {}
                }
            }
            if !server_rests && session.conn.replies.out.len() < ANSWERS {
                let server = &mut self.taken.server;
                if let Err(gone) = server.make_room() {
                    return Poll::Ready(LinkEvent::Gone(gone));
                }
                match pin!(server.io.read_buf(&mut server.inbox)).poll(cx) {
                    Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(LinkEvent::ServerGone),
                    Poll::Ready(Ok(_)) => {
                        has_moved = true;
                        if let Err(event) = self.backward(session) {
                            return Poll::Ready(event);
                        }
                        self.holds_answers = false;
                    }
                    Poll::Pending => server_rests = true,
                }
            }
            // The messages that it would have to send first do not come any more.
            if self.is_leaving && (self.expects.is_empty() || self.expects.copies_in || self.is_open_batch) {
                return Poll::Ready(LinkEvent::Left);
            }
            if self.is_settled() {
                self.is_touched |= self.check.is_none() && self.is_unexplained();
                if self.is_touched && self.check.is_none() {
                    self.begin_check(session);
                    has_moved = true;
                } else if self.check.is_none() && self.hold == ConnectionTie::Free {
                    return Poll::Ready(LinkEvent::Done);
                } else if self.check.is_none() {
                    // The connection stays with the client, but the slot is free for other transactions.
                    self.leave_admission();
                    self.is_idle = true;
                }
            }
            self.holds_answers &= !self.expects.is_empty() && session.conn.replies.out.len() < ANSWERS;
            if (!session.conn.replies.out.is_empty() && !self.holds_answers) || session.conn.flushes {
                match session.conn.poll_send(cx) {
                    Poll::Ready(Ok(())) => has_moved = true,
                    Poll::Ready(Err(gone)) => return Poll::Ready(LinkEvent::Gone(gone)),
                    Poll::Pending => {}
                }
            }
            // The server is read again from here on.
            if self.is_unread && session.conn.replies.out.len() < ANSWERS {
                return Poll::Ready(LinkEvent::Reads);
            }
            if !self.is_leaving
                && !client_rests
                && session.conn.input.len() < QUESTIONS + session.needs
                && self.taken.server.out.len() < QUESTIONS
            {
                if let Err(gone) = session.conn.make_room(CLIENT_READ) {
                    return Poll::Ready(LinkEvent::Gone(gone));
                }
                match pin!(session.conn.io.read_buf(&mut session.conn.input)).poll(cx) {
                    Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(LinkEvent::Gone(Gone::Client)),
                    Poll::Ready(Ok(_)) => has_moved = true,
                    Poll::Pending => client_rests = true,
                }
            }
            if !has_moved && self.waits_for_client() {
                self.rest();
            } else if !has_moved && session.conn.is_stalled() && ANSWERS <= session.conn.replies.out.len() {
                self.lend();
            }
            if !has_moved || round == ROUNDS {
                if Pin::new(session.conn.ending()).poll(cx).is_ready() {
                    return Poll::Ready(LinkEvent::Gone(Gone::Server));
                }
                if has_moved {
                    cx.waker().wake_by_ref();
                }
                break;
            }
        }
        Poll::Pending
    }

    /// True if all requests are answered, and nothing is open. Answers that the client has not taken yet do not count.
    pub(crate) fn is_settled(&self) -> bool {
        self.status == b'I'
            && self.has_taken
            && self.expects.is_empty()
            && !self.is_open_batch
            && self.client_rest == 0
            && self.server_rest == 0
            && self.taken.server.inbox.is_empty()
            && self.taken.server.out.is_empty()
            && !self.server_flushes
    }

    /// True if the server can do nothing before the client sends more.
    fn waits_for_client(&self) -> bool {
        let is_sent = self.taken.server.out.is_empty() && !self.server_flushes;
        let is_asked = self.expects.copies_in || (self.is_open_batch && self.expects.is_empty());
        is_asked && is_sent && self.check.is_none() && !self.is_leaving
    }

    /// Marks the transaction as waiting for its client: others may have its slot.
    pub(crate) fn rest(&mut self) {
        if !std::mem::replace(&mut self.is_idle, true) {
            self.turn.iter_mut().for_each(Turn::idle);
        }
    }

    /// Lends the slot while the client takes nothing of its answers. The server is not read then, and waits in its
    /// turn. A server with room in its buffers may go on meanwhile, bounded by that room.
    fn lend(&mut self) {
        if !self.is_idle
            && !self.is_unread
            && let Some(turn) = &mut self.turn
        {
            turn.unread();
            self.is_unread = true;
        }
    }

    /// True if there may be state that no text has named.
    pub(crate) fn is_unexplained(&self) -> bool {
        let params = &self.taken.server.params;
        let are_others = || !Arc::ptr_eq(&self.params, params) && self.params != *params;
        match self.reset {
            Reset::Never => false,
            Reset::Unexplained => are_others(),
            Reset::Always => !self.is_checked || are_others(),
        }
    }

    fn begin_check(&mut self, session: &mut ClientSession) {
        (self.is_touched, self.is_checked) = (false, true);
        let server = &mut self.taken.server;
        let named = server.settings.iter().map(|(name, _)| name).filter(|name| name.contains('.'));
        let named = named.filter(|name| !session.client.customs.contains(*name));
        let customs = session.client.customs.iter().map(String::as_str).chain(named);
        let customs = customs.filter(|name| !leftovers::OWN.contains(name)).chain(leftovers::OWN);
        message::query(&mut server.out, &leftovers::question(customs));
        server.unnamed = (0, 0);
        self.expects.push(ExpectedReply::Check { has_begun: false });
        self.check = Some(CheckResult::default());
    }

    /// True if a text parsed now may mean something else to other clients under the same settings.
    pub(crate) fn is_apart(&self) -> bool {
        self.is_skewed || self.has_temporary
    }

    /// Notes that the session has the settings that its client is known to have.
    pub(crate) fn settings_are_known(&mut self) {
        self.is_skewed = false;
        if std::mem::take(&mut self.brings_skewed) {
            self.taken.server.prepared.doubt_all();
        }
    }

    /// Ends the check.
    pub(crate) fn end_check(&mut self, session: &mut ClientSession) {
        let Some(CheckResult { settings, holds, has_temporary, failed, is_cancelled }) = self.check.take() else {
            return;
        };
        self.params = Arc::clone(&self.taken.server.params);
        if is_cancelled && self.cancelled_checks < leftovers::TRIES {
            self.cancelled_checks += 1;
            return self.begin_check(session);
        }
        self.cancelled_checks = 0;
        if failed {
            // The check is repeated after the next transaction.
            self.has_failed_check = true;
            self.hold = self.hold.max(ConnectionTie::Held);
            self.has_temporary = true;
            return;
        }
        let had = Arc::clone(&self.taken.server.settings);
        if *session.client.settings != settings || *had != settings {
            let settings = Arc::new(settings);
            session.client.follow(&had, &settings);
            self.taken.server.settings = settings;
        }
        self.settings_are_known();
        self.has_temporary = has_temporary;
        if self.hold != ConnectionTie::Bound {
            self.hold = if holds { ConnectionTie::Held } else { ConnectionTie::Free };
        }
    }
}
