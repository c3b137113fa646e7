//! Queue of the answers that a server owes: one entry for each message that was sent, in order.
//!
//! **Invariant:** for each message of the server the queue knows which message of the proxy it answers, through errors,
//! too: after one in the extended protocol the server ignores everything up to `Sync`, and so does the queue, sent
//! before or after. A message that does not fit is [`UnexpectedReply`], and ends the connection.
//!
//! # COPY FROM STDIN
//!
//! While a server reads data of a COPY, it ignores `Flush` and `Sync`, and any other message ends the COPY. When the
//! COPY fails, the server ends an extended query at the next `Sync`. Which `Sync` that is depends on the moment of the
//! failure, which only the server knows: of those that were sent since the COPY began, any number may have been ignored
//! ([`ExpectedReplies::ignorable`]).
//!
//! So the queue asks. Behind the error of such a COPY it wants a *barrier* sent: `Sync`, `Close` of a statement that
//! does not exist, `Sync`. The first `Sync` ends whatever the server still skips, so exactly one `ReadyForQuery` before
//! `CloseComplete` is the barrier's, and all others are the client's. Nothing of the client is sent while the barrier
//! is under way.
//!
//! For this to work, only `Sync`s may be in doubt. So a message that is neither data nor `Sync` nor `Flush` waits until
//! the server has said that an `Execute` or a query is not, or no longer, a COPY ([`ExpectedReplies::admits`]). If the
//! COPY waits for data, such a message would end it; in its place the server is sent an empty query, which ends it as
//! well and does nothing else.

mod queue;

use self::queue::ReplyQueue;
use crate::clients::priority::CommandResult;
use crate::statements::message;
use crate::statements::shared::PREFIX;
use bytes::BytesMut;

/// Kind of a server's message, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyKind {
    Row,
    CopyData,
    Columns,
    NoData,
    Parameters,
    Parsed,
    Bound,
    Closed,
    /// `CommandComplete`, `EmptyQueryResponse`, `PortalSuspended`.
    Executed,
    CopyIn,
    Error,
    Parameter,
    Ready,
    /// Any other message, which is forwarded.
    Other,
}

impl ReplyKind {
    pub(crate) fn of(kind: u8) -> ReplyKind {
        match kind {
            b'D' => ReplyKind::Row,
            b'd' => ReplyKind::CopyData,
            b'T' => ReplyKind::Columns,
            b'n' => ReplyKind::NoData,
            b't' => ReplyKind::Parameters,
            b'1' => ReplyKind::Parsed,
            b'2' => ReplyKind::Bound,
            b'3' => ReplyKind::Closed,
            b'C' | b'I' | b's' => ReplyKind::Executed,
            b'G' | b'W' => ReplyKind::CopyIn,
            b'E' => ReplyKind::Error,
            b'S' => ReplyKind::Parameter,
            b'Z' => ReplyKind::Ready,
            _ => ReplyKind::Other,
        }
    }
}

/// Answer that the proxy gives itself, when its turn comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProxyReply {
    /// `ParseComplete` for a statement that the server has already, with the number of the client's message.
    Parsed(u64),
    /// `CloseComplete` for a statement that the server may keep, with the number of the client's message.
    Closed(u64),
    /// Result of a command of the proxy's, followed by `ReadyForQuery`.
    Done(CommandResult),
}

/// Answer that is expected.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ExpectedReply {
    /// `ParseComplete`. `statement` is 0 for those that are not shared; `message` is the client's, 0 if the proxy has
    /// asked.
    Parse {
        statement: u64,
        message: u64,
    },
    Bind,
    /// `ParameterDescription`, then as for `Columns`.
    Parameters,
    /// `RowDescription` or `NoData`.
    Columns,
    /// End of an `Execute`, with the number of the client's message.
    Execute(u64),
    /// `CloseComplete`. `message` is the client's, 0 if the proxy has asked.
    Close {
        message: u64,
    },
    /// `CloseComplete`. The proxy makes room by closing the shared statement of this number.
    Evicted(u64),
    /// No answer; here the client has ended the data of a COPY, if there is one.
    CopyEnd,
    Sync,
    Query(u64),
    Function,
    /// End of the proxy's own empty query, which ends a batch of the client as any query does.
    Settle,
    Own(ProxyReply),
    /// Error: the server has to refuse this.
    Refusal,
    /// End of the proxy's own query that makes the client's settings.
    Prelude,
    /// End of the `Execute` of a BEGIN that was held back.
    Begin,
    /// End of the proxy's own query that begins a block which has failed already.
    BeginFailed,
    /// End of the proxy's own query that asks what the client has left behind. `has_begun` tells that its answer has
    /// begun.
    Check {
        has_begun: bool,
    },
    /// Barrier behind a failed COPY, up to its `CloseComplete`.
    Barrier {
        /// Number of the next `ReadyForQuery` messages that the client must not see.
        own: usize,
        /// True if the client has seen one, or need not: a simple query has its own.
        is_ready: bool,
    },
    /// Last `Sync` of the barrier. `skips`: the client still owes one.
    BarrierSync {
        skips: bool,
    },
}

impl ExpectedReply {
    /// True if the server ignores the message after an error.
    fn is_extended(&self) -> bool {
        !matches!(
            self,
            ExpectedReply::Sync
                | ExpectedReply::Query(_)
                | ExpectedReply::Function
                | ExpectedReply::Settle
                | ExpectedReply::Prelude
        ) && !matches!(
            self,
            ExpectedReply::Own(ProxyReply::Done(_)) | ExpectedReply::BeginFailed | ExpectedReply::Check { .. }
        ) && !matches!(self, ExpectedReply::Barrier { .. } | ExpectedReply::BarrierSync { .. })
    }
}

/// Treatment of a message of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendDecision {
    /// The message is sent.
    Now,
    /// The message waits for an answer that comes by itself.
    Later,
    /// The message waits like `Later`, once a `Flush` was sent.
    AfterFlush,
    /// The message waits like `Later`, once an empty query was sent, which ends the COPY.
    AfterProbe,
}

/// Error: a message that answers nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnexpectedReply;

/// Meaning of a message of the server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReplyMeaning {
    /// The message is the client's.
    Pass,
    /// The message is the proxy's: the client does not see it.
    Swallow,
    /// A statement exists now, by the client's message of this number, 0 if the proxy has asked.
    Parsed { statement: u64, message: u64 },
    /// A statement is gone: the proxy has closed it to make room.
    Evicted(u64),
    /// A command of the client's message of this number has ended.
    Executed(u64),
    /// The server is ready, in this state of its transaction, and it is the client's turn.
    Ready,
    /// The client's settings are made.
    PreludeDone,
    /// A row, an error or the end of the check.
    OfCheck,
    /// The barrier behind a COPY has passed, or a batch was settled. `skips`: the client still owes a `Sync`.
    Resolved { skips: bool },
}

#[derive(Debug, Default)]
pub(crate) struct ExpectedReplies {
    queue: ReplyQueue,
    /// True if the server ignores messages up to a `Sync` that was not sent yet.
    skips: bool,
    /// True if the server reads data of a COPY, and the client has not ended them.
    pub(crate) copies_in: bool,
    /// True if a COPY has begun, and is not answered.
    is_copy: bool,
    /// True if the last `Execute` or query of the queue may begin a COPY; the next field is for one that stands behind
    /// a COPY.
    may_copy: bool,
    may_copy_next: bool,
    /// Number of `Sync`s that the COPY has ignored, unless it had failed before.
    ignorable: usize,
    /// True if a `Flush` was sent for a message that waits, and nothing since then.
    has_flushed: bool,
    /// True if an empty query was sent in place of a message that ends the COPY.
    has_probed: bool,
    /// True if the barrier is still to be sent.
    wants_barrier: bool,
}

impl ExpectedReplies {
    /// Returns a queue that expects nothing, in the same memory.
    pub(crate) fn anew(self) -> ExpectedReplies {
        let mut queue = self.queue;
        queue.clear();
        ExpectedReplies { queue, ..ExpectedReplies::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// True if the server ignores messages up to `Sync`.
    pub(crate) fn skips(&self) -> bool {
        self.skips
    }

    /// True if a BEGIN that was held back is still to be answered.
    pub(crate) fn has_begin(&self) -> bool {
        self.queue.iter().any(|expect| matches!(expect, ExpectedReply::Begin | ExpectedReply::BeginFailed))
    }

    /// True if no answer of an earlier batch is outstanding: then the state of the server's transaction is known.
    pub(crate) fn is_one_batch(&self) -> bool {
        !self.queue.has_end()
    }

    /// True if the last message ends a batch in place of a command of the proxy's.
    pub(crate) fn is_settling(&self) -> bool {
        matches!(self.queue.back(), Some(ExpectedReply::Settle))
    }

    /// Returns the answer that is expected next.
    pub(crate) fn front(&self) -> Option<&ExpectedReply> {
        self.queue.front()
    }

    /// Returns the treatment of a client's message of this kind.
    pub(crate) fn admits(&mut self, kind: u8) -> SendDecision {
        if self.is_resolving() {
            return SendDecision::Later;
        }
        let ends_copy = !matches!(kind, b'd' | b'c' | b'f' | b'S' | b'H' | b'X');
        if !ends_copy || self.skips || !self.awaits_copy() {
            return SendDecision::Now;
        }
        let is_in_doubt = 0 < self.ignorable || self.queue.has_sync();
        match (self.is_copy, self.copies_in) {
            (true, true) if !self.has_probed => {
                self.has_probed = true;
                SendDecision::AfterProbe
            }
            (true, false) if !is_in_doubt && !self.may_copy_next => SendDecision::Now,
            // Until a flush, the server keeps the answer to an extended query, even that of a COPY whose data have
            // ended.
            (false, _) | (true, false) if !self.has_flushed => {
                self.has_flushed = true;
                SendDecision::AfterFlush
            }
            // A probe or a flush is under way: its answer comes without anything more from the client.
            (true, true) | (true, false) | (false, _) => SendDecision::Later,
        }
    }

    /// True if the barrier behind a COPY is under way, or is to be sent.
    pub(crate) fn is_resolving(&self) -> bool {
        matches!(self.queue.back(), Some(ExpectedReply::Barrier { .. } | ExpectedReply::BarrierSync { .. }))
    }

    /// True if the client has to send another `Sync` than those that the COPY of an `Execute` has ignored.
    pub(crate) fn owes_sync(&self) -> bool {
        matches!(self.queue.front(), Some(ExpectedReply::Execute(_))) && !self.queue.has_sync()
    }

    /// True if the command under way may be a COPY. Only `Sync` and the end of data stand behind it.
    fn awaits_copy(&self) -> bool {
        self.may_copy
            && self
                .queue
                .iter()
                .rev()
                .any(|expect| matches!(expect, ExpectedReply::Execute(_) | ExpectedReply::Query(_)))
    }

    /// True if an empty query was sent that ends a COPY.
    pub(crate) fn has_probed(&self) -> bool {
        self.has_probed
    }

    /// Writes the barrier, if it is to be sent, at the end of a message of the client.
    pub(crate) fn put_barrier(&mut self, out: &mut BytesMut) {
        if std::mem::take(&mut self.wants_barrier) {
            message::put(out, b'S', |_| {});
            message::about_statement(out, b'C', PREFIX.as_bytes());
            message::put(out, b'S', |_| {});
        }
    }

    /// Adds an `Execute` or a query that was sent and may begin a COPY.
    pub(crate) fn push_copy(&mut self, expect: ExpectedReply) {
        self.may_copy_next = self.is_copy;
        self.may_copy = true;
        self.push(expect);
    }

    /// Notes that the client has ended the data of a COPY, if there is one.
    pub(crate) fn end_copy(&mut self) {
        // A `Flush` that was read as part of the COPY was ignored.
        self.has_flushed = false;
        if self.copies_in {
            self.copies_in = false;
        } else {
            self.push(ExpectedReply::CopyEnd);
        }
    }

    /// Adds the answer to a message that was sent. Returns true if the server will process the message.
    pub(crate) fn push(&mut self, expect: ExpectedReply) -> bool {
        self.has_flushed = false;
        if matches!(expect, ExpectedReply::Sync) {
            if self.copies_in {
                self.ignorable += 1;
                return false;
            }
            self.skips = false;
        } else if self.skips || (matches!(expect, ExpectedReply::CopyEnd) && self.queue.is_empty()) {
            return false;
        }
        self.queue.push_back(expect);
        true
    }

    /// Takes the next answer, if it is the proxy's own.
    pub(crate) fn take_own(&mut self) -> Option<ProxyReply> {
        if !matches!(self.queue.front(), Some(ExpectedReply::Own(_))) {
            return None;
        }
        let own = self.queue.pop_front();
        self.pass_ends();
        let Some(ExpectedReply::Own(own)) = own else { return None };
        Some(own)
    }

    /// Returns the meaning of a message of the server. `dropped` receives the entries that will not be answered any
    /// more.
    pub(crate) fn answered(
        &mut self,
        reply: ReplyKind,
        dropped: &mut impl FnMut(ExpectedReply),
    ) -> Result<ReplyMeaning, UnexpectedReply> {
        match (reply, self.queue.front_mut()) {
            (ReplyKind::Parameter | ReplyKind::Other, _) => Ok(ReplyMeaning::Pass),
            (ReplyKind::Ready, Some(ExpectedReply::Check { has_begun: true })) => self.pop(ReplyMeaning::OfCheck),
            (ReplyKind::Columns | ReplyKind::Error, Some(ExpectedReply::Check { has_begun })) => {
                *has_begun = true;
                Ok(ReplyMeaning::OfCheck)
            }
            (ReplyKind::Row | ReplyKind::Executed, Some(ExpectedReply::Check { .. })) => Ok(ReplyMeaning::OfCheck),
            (ReplyKind::Ready, Some(ExpectedReply::Prelude)) => self.pop(ReplyMeaning::PreludeDone),
            // An error of the prelude is handled by the caller.
            (ReplyKind::Error, Some(ExpectedReply::Prelude)) => Ok(ReplyMeaning::Pass),
            (_, Some(ExpectedReply::Prelude)) => Ok(ReplyMeaning::Swallow),
            (ReplyKind::Ready, Some(ExpectedReply::BeginFailed)) => self.pop(ReplyMeaning::Swallow),
            (_, Some(ExpectedReply::BeginFailed)) => Ok(ReplyMeaning::Swallow),
            (ReplyKind::Error, Some(ExpectedReply::Begin)) => Ok(ReplyMeaning::Pass),
            (ReplyKind::Parsed | ReplyKind::Bound, Some(ExpectedReply::Begin)) => Ok(ReplyMeaning::Swallow),
            (ReplyKind::Executed, Some(ExpectedReply::Begin)) => self.pop(ReplyMeaning::Swallow),
            (ReplyKind::Executed, Some(ExpectedReply::Settle)) => Ok(ReplyMeaning::Swallow),
            (ReplyKind::Ready, Some(ExpectedReply::Settle)) => self.pop(ReplyMeaning::Resolved { skips: false }),
            (ReplyKind::Error, Some(ExpectedReply::Barrier { .. })) => Ok(ReplyMeaning::Pass),
            (ReplyKind::Ready, Some(ExpectedReply::Barrier { own, is_ready })) => {
                if let Some(left) = own.checked_sub(1) {
                    *own = left;
                    return Ok(ReplyMeaning::Swallow);
                }
                *is_ready = true;
                Ok(ReplyMeaning::Ready)
            }
            // The reply belongs to the empty query: its own `ReadyForQuery` follows.
            (ReplyKind::Executed, Some(ExpectedReply::Barrier { own, .. })) => {
                *own += 1;
                Ok(ReplyMeaning::Swallow)
            }
            (ReplyKind::Closed, Some(&mut ExpectedReply::Barrier { is_ready, .. })) => {
                self.replace_front(ExpectedReply::BarrierSync { skips: !is_ready });
                Ok(ReplyMeaning::Swallow)
            }
            (ReplyKind::Ready, Some(&mut ExpectedReply::BarrierSync { skips })) => {
                self.skips = skips;
                self.pop(ReplyMeaning::Resolved { skips })
            }
            (ReplyKind::Error, _) => Ok(self.failed(dropped)),
            (ReplyKind::Row | ReplyKind::CopyData, _) => Ok(ReplyMeaning::Pass),
            (ReplyKind::Parsed, Some(&mut ExpectedReply::Parse { statement, message })) => {
                self.pop(ReplyMeaning::Parsed { statement, message })
            }
            (ReplyKind::Bound, Some(ExpectedReply::Bind)) => self.pop(ReplyMeaning::Pass),
            (ReplyKind::Closed, Some(&mut ExpectedReply::Close { message })) => {
                self.pop(if message == 0 { ReplyMeaning::Swallow } else { ReplyMeaning::Pass })
            }
            (ReplyKind::Closed, Some(&mut ExpectedReply::Evicted(statement))) => {
                self.pop(ReplyMeaning::Evicted(statement))
            }
            (ReplyKind::Parameters, Some(ExpectedReply::Parameters)) => {
                self.replace_front(ExpectedReply::Columns);
                Ok(ReplyMeaning::Pass)
            }
            (ReplyKind::Columns | ReplyKind::NoData, Some(ExpectedReply::Columns)) => self.pop(ReplyMeaning::Pass),
            (ReplyKind::Columns, Some(ExpectedReply::Query(_))) => Ok(ReplyMeaning::Pass),
            (ReplyKind::CopyIn, Some(ExpectedReply::Query(_) | ExpectedReply::Execute(_))) => {
                (self.copies_in, self.is_copy, self.has_flushed) = (true, true, false);
                // `Sync`s that were sent on the way are read as part of the COPY, and ignored.
                while matches!(self.queue.second(), Some(ExpectedReply::Sync)) {
                    self.queue.remove_second();
                    self.ignorable += 1;
                }
                // All of its data were sent before the COPY had begun.
                if matches!(self.queue.second(), Some(ExpectedReply::CopyEnd)) {
                    self.queue.remove_second();
                    self.copies_in = false;
                }
                Ok(ReplyMeaning::Pass)
            }
            (ReplyKind::Executed, Some(&mut ExpectedReply::Query(message))) => {
                self.forget_copy();
                Ok(ReplyMeaning::Executed(message))
            }
            (ReplyKind::Executed, Some(&mut ExpectedReply::Execute(message))) => {
                self.forget_copy();
                self.pop(ReplyMeaning::Executed(message))
            }
            (ReplyKind::Ready, Some(ExpectedReply::Sync | ExpectedReply::Query(_) | ExpectedReply::Function)) => {
                self.forget_copy();
                self.pop(ReplyMeaning::Ready)
            }
            _ => Err(UnexpectedReply),
        }
    }

    /// Forgets the COPY, which has ended, or never was.
    fn forget_copy(&mut self) {
        (self.copies_in, self.is_copy, self.ignorable) = (false, false, 0);
        (self.has_probed, self.may_copy_next) = (false, false);
    }

    /// Notes that the empty query has ended a COPY, at a server that goes on after that (before PostgreSQL 14): the
    /// COPY has ignored every `Sync` before.
    pub(crate) fn was_unexpected(&mut self) {
        (self.ignorable, self.has_probed) = (0, false);
    }

    fn pop(&mut self, means: ReplyMeaning) -> Result<ReplyMeaning, UnexpectedReply> {
        self.queue.pop_front();
        self.pass_ends();
        self.may_copy &= !self.queue.is_empty();
        Ok(means)
    }

    /// Replaces the expected answer after a part of it has come.
    fn replace_front(&mut self, expect: ExpectedReply) {
        if let Some(front) = self.queue.front_mut() {
            *front = expect;
        }
    }

    fn pass_ends(&mut self) {
        while matches!(self.queue.front(), Some(ExpectedReply::CopyEnd)) {
            self.queue.pop_front();
        }
    }

    fn failed(&mut self, dropped: &mut impl FnMut(ExpectedReply)) -> ReplyMeaning {
        let is_in_doubt = self.is_copy && (0 < self.ignorable || self.has_probed);
        self.forget_copy();
        if is_in_doubt {
            // An extended query has ended; a simple one ends with a `ReadyForQuery` of its own.
            let is_ready = matches!(self.queue.front(), Some(ExpectedReply::Query(_)));
            self.queue.drain_from(usize::from(is_ready)).for_each(&mut *dropped);
            self.queue.push_back(ExpectedReply::Barrier { own: 1, is_ready });
            self.wants_barrier = true;
            return ReplyMeaning::Pass;
        }
        // Without an expected answer, the error is an announcement of the server, before it ends the connection.
        if !self.queue.front().is_some_and(ExpectedReply::is_extended) {
            return ReplyMeaning::Pass;
        }
        self.skips = true;
        while let Some(next) = self.queue.front() {
            if matches!(next, ExpectedReply::Sync) {
                self.skips = false;
                break;
            }
            self.queue.pop_front().into_iter().for_each(&mut *dropped);
        }
        self.pass_ends();
        ReplyMeaning::Pass
    }
}

#[cfg(test)]
mod tests;
