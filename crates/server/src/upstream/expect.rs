//! What a server still has to answer: one entry for each message that was sent, in order.
//!
//! **Invariant:** the queue knows for each message of the server which message of ours it answers, through errors, too: after
//! one in the extended protocol the server ignores everything up to `Sync`, and so does the queue, sent before or after. What
//! does not fit is [`Confused`], and ends the connection.

use super::priority::Answer;
use std::collections::VecDeque;

/// One kind of a server's messages, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
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
    /// Whatever else passes.
    Other,
}

impl Reply {
    pub(crate) fn of(kind: u8) -> Reply {
        match kind {
            b'D' => Reply::Row,
            b'd' => Reply::CopyData,
            b'T' => Reply::Columns,
            b'n' => Reply::NoData,
            b't' => Reply::Parameters,
            b'1' => Reply::Parsed,
            b'2' => Reply::Bound,
            b'3' => Reply::Closed,
            b'C' | b'I' | b's' => Reply::Executed,
            b'G' | b'W' => Reply::CopyIn,
            b'E' => Reply::Error,
            b'S' => Reply::Parameter,
            b'Z' => Reply::Ready,
            _ => Reply::Other,
        }
    }
}

/// An answer that the front gives itself, when its turn comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// `ParseComplete` for a statement that the server has already; the client's message of this number.
    Parsed(u32),
    /// `CloseComplete` for one that it may keep; the client's message of this number.
    Closed(u32),
    /// A command of the front, with this answer; then `ReadyForQuery`.
    Done(Answer),
}

/// What is to come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// `ParseComplete`. The statement, 0 for those that are not shared; the client's message, 0 if the front has asked.
    Parse {
        statement: u64,
        message: u32,
    },
    Bind,
    /// Types of parameters, then as `Columns`.
    Parameters,
    /// `RowDescription` or `NoData`.
    Columns,
    /// The end of an `Execute`, of the client's message of this number.
    Execute(u32),
    /// `CloseComplete`, and whether the client waits for it.
    Close {
        is_own: bool,
    },
    /// Nothing; here the client has ended the data of a COPY, if there is one.
    CopyEnd,
    Sync,
    Query(u32),
    Function,
    Own(Own),
    /// An error: the server cannot but refuse this.
    Refusal,
    /// The front's own query that makes the client's settings.
    Prelude,
    /// A BEGIN that was held back, to the end of its `Execute`.
    Begin,
    /// The front's own query that asks what the client has left behind; whether its answer has begun.
    Check {
        has_begun: bool,
    },
}

impl Expect {
    /// Whether the server ignores it after an error.
    fn is_extended(&self) -> bool {
        !matches!(self, Expect::Sync | Expect::Query(_) | Expect::Function | Expect::Prelude | Expect::Check { .. })
            && !matches!(self, Expect::Own(Own::Done(_)))
    }
}

/// A message that answers nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Confused;

/// What a message means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Means {
    /// It is the client's.
    Pass,
    /// It is the front's: the client does not see it.
    Swallow,
    /// A statement is there now, by the client's message of this number, 0 if the front has asked.
    Parsed { statement: u64, message: u32 },
    /// A command of the client's message of this number has ended.
    Executed(u32),
    /// The client's turn; so does the server's transaction stand.
    Ready,
    /// The client's settings are made.
    PreludeDone,
    /// A row, an error or the end of the check.
    OfCheck,
}

#[derive(Debug, Default)]
pub(crate) struct Expects {
    queue: VecDeque<Expect>,
    /// Whether the server ignores what comes, up to a `Sync` that was not sent yet.
    skips: bool,
    /// Whether the server reads data of a COPY: it ignores `Sync` meanwhile.
    pub(crate) copies_in: bool,
    /// Whether a `Sync` was taken to be ignored by the COPY under way.
    has_ignored: bool,
    /// Whether a COPY has failed in a way that leaves open which `Sync` the server has seen.
    pub(crate) is_unsure: bool,
}

impl Expects {
    /// One that expects nothing, in the same memory.
    pub(crate) fn anew(self) -> Expects {
        let mut queue = self.queue;
        queue.clear();
        Expects { queue, ..Expects::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether the server ignores what comes, up to `Sync`.
    pub(crate) fn skips(&self) -> bool {
        self.skips
    }

    /// Whether a BEGIN that was held back is still to be answered.
    pub(crate) fn has_begin(&self) -> bool {
        self.queue.contains(&Expect::Begin)
    }

    /// Whether nothing is to come of a batch before this one: then it is known how the server's transaction stands.
    pub(crate) fn is_one_batch(&self) -> bool {
        !self.queue.iter().any(|expect| matches!(expect, Expect::Sync | Expect::Query(_) | Expect::Function))
    }

    /// What will be answered next.
    pub(crate) fn front(&self) -> Option<&Expect> {
        self.queue.front()
    }

    /// A message was sent. Says whether the server will look at it.
    pub(crate) fn push(&mut self, expect: Expect) -> bool {
        if matches!(expect, Expect::Sync) {
            if self.copies_in {
                self.has_ignored = true;
                return false;
            }
            self.skips = false;
        } else if self.skips || (matches!(expect, Expect::CopyEnd) && self.queue.is_empty()) {
            return false;
        }
        self.queue.push_back(expect);
        true
    }

    /// The next answer is the front's own.
    pub(crate) fn take_own(&mut self) -> Option<Own> {
        if !matches!(self.queue.front(), Some(Expect::Own(_))) {
            return None;
        }
        let own = self.queue.pop_front();
        self.pass_ends();
        match own {
            Some(Expect::Own(own)) => Some(own),
            _ => None,
        }
    }

    /// What a message means. `dropped` is told of what will not be answered any more.
    pub(crate) fn answered(&mut self, reply: Reply, dropped: &mut impl FnMut(Expect)) -> Result<Means, Confused> {
        match (reply, self.queue.front_mut()) {
            (Reply::Parameter | Reply::Other, _) => Ok(Means::Pass),
            (Reply::Ready, Some(Expect::Check { has_begun: true })) => self.pop(Means::OfCheck),
            (Reply::Columns | Reply::Error, Some(Expect::Check { has_begun })) => {
                *has_begun = true;
                Ok(Means::OfCheck)
            }
            (Reply::Row | Reply::Executed, Some(Expect::Check { .. })) => Ok(Means::OfCheck),
            (Reply::Ready, Some(Expect::Prelude)) => self.pop(Means::PreludeDone),
            // One that fails is seen by who asked.
            (Reply::Error, Some(Expect::Prelude)) => Ok(Means::Pass),
            (_, Some(Expect::Prelude)) => Ok(Means::Swallow),
            (Reply::Error, Some(Expect::Begin)) => Ok(Means::Pass),
            (Reply::Parsed | Reply::Bound, Some(Expect::Begin)) => Ok(Means::Swallow),
            (Reply::Executed, Some(Expect::Begin)) => self.pop(Means::Swallow),
            (Reply::Error, _) => Ok(self.failed(dropped)),
            (Reply::Row | Reply::CopyData, _) => Ok(Means::Pass),
            (Reply::Parsed, Some(&mut Expect::Parse { statement, message })) => {
                self.pop(Means::Parsed { statement, message })
            }
            (Reply::Bound, Some(Expect::Bind)) => self.pop(Means::Pass),
            (Reply::Closed, Some(&mut Expect::Close { is_own })) => {
                self.pop(if is_own { Means::Swallow } else { Means::Pass })
            }
            (Reply::Parameters, Some(Expect::Parameters)) => {
                self.queue[0] = Expect::Columns;
                Ok(Means::Pass)
            }
            (Reply::Columns | Reply::NoData, Some(Expect::Columns)) => self.pop(Means::Pass),
            (Reply::Columns, Some(Expect::Query(_))) => Ok(Means::Pass),
            (Reply::CopyIn, Some(Expect::Query(_) | Expect::Execute(_))) => {
                self.copies_in = true;
                // Those that were sent on the way are read as part of the COPY, and ignored.
                while matches!(self.queue.get(1), Some(Expect::Sync)) {
                    self.queue.remove(1);
                    self.has_ignored = true;
                }
                // Its data have all been sent before it had begun.
                if matches!(self.queue.get(1), Some(Expect::CopyEnd)) {
                    self.queue.remove(1);
                    self.copies_in = false;
                }
                Ok(Means::Pass)
            }
            (Reply::Executed, Some(&mut Expect::Query(message))) => {
                (self.copies_in, self.has_ignored) = (false, false);
                Ok(Means::Executed(message))
            }
            (Reply::Executed, Some(&mut Expect::Execute(message))) => {
                (self.copies_in, self.has_ignored) = (false, false);
                self.pop(Means::Executed(message))
            }
            (Reply::Ready, Some(Expect::Sync | Expect::Query(_) | Expect::Function)) => {
                self.copies_in = false;
                self.pop(Means::Ready)
            }
            // Of a `Sync` that the COPY was taken to have ignored.
            (Reply::Ready, _) if self.is_unsure => Ok(Means::Ready),
            _ => Err(Confused),
        }
    }

    /// A COPY of a query has met a message that it has not expected: that one is gone.
    pub(crate) fn was_unexpected(&mut self) {
        if self.copies_in && matches!(self.queue.front(), Some(Expect::Query(_))) && 1 < self.queue.len() {
            self.queue.remove(1);
        }
    }

    fn pop(&mut self, means: Means) -> Result<Means, Confused> {
        self.queue.pop_front();
        self.pass_ends();
        Ok(means)
    }

    fn pass_ends(&mut self) {
        while matches!(self.queue.front(), Some(Expect::CopyEnd)) {
            self.queue.pop_front();
        }
    }

    fn failed(&mut self, dropped: &mut impl FnMut(Expect)) -> Means {
        self.copies_in = false;
        self.is_unsure |= std::mem::take(&mut self.has_ignored);
        // Without any, it is what the server says on its own account, before it ends the connection.
        if !self.queue.front().is_some_and(Expect::is_extended) {
            return Means::Pass;
        }
        self.skips = true;
        while let Some(next) = self.queue.front() {
            if matches!(next, Expect::Sync) {
                self.skips = false;
                break;
            }
            self.queue.pop_front().into_iter().for_each(&mut *dropped);
        }
        self.pass_ends();
        Means::Pass
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expects(all: impl IntoIterator<Item = Expect>) -> Expects {
        let mut expects = Expects::default();
        all.into_iter().for_each(|one| assert!(expects.push(one)));
        expects
    }

    fn answer(expects: &mut Expects, kinds: &[u8]) -> Vec<Means> {
        kinds.iter().map(|&kind| expects.answered(Reply::of(kind), &mut |_| {}).expect("it fits")).collect()
    }

    #[test]
    fn a_prepared_execution() {
        let parse = Expect::Parse { statement: 7, message: 1 };
        let mut all = expects([parse, Expect::Bind, Expect::Columns, Expect::Execute(4), Expect::Sync]);
        let means = answer(&mut all, b"12TDDCZ");
        assert_eq!(means[0], Means::Parsed { statement: 7, message: 1 });
        assert_eq!(means[5..], [Means::Executed(4), Means::Ready]);
        assert!(all.is_empty());
        assert_eq!(all.answered(Reply::Bound, &mut |_| {}), Err(Confused));
    }

    #[test]
    fn an_error_takes_with_it_what_follows_up_to_sync() {
        let mut all = expects([Expect::Bind, Expect::Execute(2), Expect::Query(3), Expect::Sync, Expect::Query(5)]);
        let mut dropped = 0;
        assert_eq!(all.answered(Reply::Error, &mut |_| dropped += 1), Ok(Means::Pass));
        assert_eq!(dropped, 3);
        answer(&mut all, b"ZCZ");
        // What is sent later is ignored, too, until there is a Sync.
        let mut all = expects([Expect::Bind]);
        answer(&mut all, b"E");
        assert!(!all.push(Expect::Query(2)));
        assert!(all.push(Expect::Sync));
        answer(&mut all, b"Z");
        assert!(all.is_empty());
    }

    #[test]
    fn an_error_of_a_query_ends_with_its_own_ready() {
        let mut all = expects([Expect::Query(1), Expect::Query(2)]);
        answer(&mut all, b"TDEZCZ");
        assert!(all.is_empty());
    }

    #[test]
    fn a_copy_ignores_sync() {
        let mut all = expects([Expect::Bind, Expect::Execute(1), Expect::Sync]);
        answer(&mut all, b"2G");
        assert!(!all.push(Expect::Sync));
        answer(&mut all, b"C");
        assert!(all.is_empty());
        assert!(all.push(Expect::Sync));
        answer(&mut all, b"Z");
    }
}
