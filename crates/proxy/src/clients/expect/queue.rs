//! Queue of the expected answers, in order.
//!
//! **Invariant:** the checks that are made for each message need no walk through the queue: a client may have a hundred
//! thousand messages under way.

use super::ExpectedReply;
use std::collections::VecDeque;

/// Entries, and the numbers of those that end a batch.
#[derive(Debug, Default)]
pub(super) struct ReplyQueue {
    entries: VecDeque<ExpectedReply>,
    syncs: usize,
    /// Number of queries and function calls, which end a batch as well.
    queries: usize,
}

impl ReplyQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn has_sync(&self) -> bool {
        0 < self.syncs
    }

    /// True if an entry ends a batch.
    pub(super) fn has_end(&self) -> bool {
        0 < self.syncs + self.queries
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &ExpectedReply> {
        self.entries.iter()
    }

    pub(super) fn front(&self) -> Option<&ExpectedReply> {
        self.entries.front()
    }

    pub(super) fn second(&self) -> Option<&ExpectedReply> {
        self.entries.get(1)
    }

    pub(super) fn back(&self) -> Option<&ExpectedReply> {
        self.entries.back()
    }

    /// Mutable access to the first entry, which must neither be the end of a batch nor become one.
    pub(super) fn front_mut(&mut self) -> Option<&mut ExpectedReply> {
        self.entries.front_mut()
    }

    pub(super) fn push_back(&mut self, expect: ExpectedReply) {
        let (syncs, queries) = ReplyQueue::ends(&expect);
        self.syncs += syncs;
        self.queries += queries;
        self.entries.push_back(expect);
    }

    pub(super) fn pop_front(&mut self) -> Option<ExpectedReply> {
        let expect = self.entries.pop_front()?;
        self.has_lost(&expect);
        Some(expect)
    }

    pub(super) fn remove_second(&mut self) {
        let second = self.entries.remove(1);
        second.iter().for_each(|expect| self.has_lost(expect));
    }

    /// Removes all remaining entries after the first `kept`.
    pub(super) fn drain_from(&mut self, kept: usize) -> impl Iterator<Item = ExpectedReply> {
        let rest = self.entries.split_off(kept.min(self.entries.len()));
        rest.iter().for_each(|expect| self.has_lost(expect));
        rest.into_iter()
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        (self.syncs, self.queries) = (0, 0);
    }

    fn has_lost(&mut self, expect: &ExpectedReply) {
        let (syncs, queries) = ReplyQueue::ends(expect);
        self.syncs -= syncs;
        self.queries -= queries;
    }

    /// Numbers of batch ends that an entry stands for: by Sync, and by Query or a function call.
    fn ends(expect: &ExpectedReply) -> (usize, usize) {
        match expect {
            ExpectedReply::Sync => (1, 0),
            ExpectedReply::Query(_) | ExpectedReply::Function => (0, 1),
            ExpectedReply::Parse { .. }
            | ExpectedReply::Bind
            | ExpectedReply::Parameters
            | ExpectedReply::Columns
            | ExpectedReply::Execute(_)
            | ExpectedReply::Close { .. }
            | ExpectedReply::Evicted(_)
            | ExpectedReply::CopyEnd
            | ExpectedReply::Settle
            | ExpectedReply::Own(_)
            | ExpectedReply::Refusal
            | ExpectedReply::Prelude
            | ExpectedReply::Begin
            | ExpectedReply::BeginFailed
            | ExpectedReply::Check { .. }
            | ExpectedReply::Barrier { .. }
            | ExpectedReply::BarrierSync { .. } => (0, 0),
        }
    }
}
