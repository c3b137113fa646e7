//! Timers with one delay for all: the one that begins first is due first, so a queue suffices.

use super::entry::{Entries, GateEntry, Ticket, TransactionState};
use crate::time::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// State that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timed {
    /// A stay in this state, without a break.
    Being(TransactionState),
    /// A wait for the first time, in the queue or for a hot key.
    Waiting,
}

impl Timed {
    /// Returns the time since which the state lasts; none if it does not.
    fn since(self, entry: &GateEntry) -> Option<Time> {
        match self {
            Timed::Being(state) => (entry.state == state).then_some(entry.since),
            Timed::Waiting => {
                matches!(entry.state, TransactionState::Waiting | TransactionState::HeldBack).then_some(entry.arrived)
            }
        }
    }
}

/// Queue of transactions and the times at which they are due.
///
/// **Invariant:** moments do not decrease from front to back.
#[derive(Debug)]
pub(super) struct Timer {
    timed: Timed,
    delay: Option<Duration>,
    due: VecDeque<(Time, Ticket)>,
}

impl Timer {
    /// Creates a timer with this delay; without one nothing is ever due.
    pub(super) fn new(timed: Timed, delay: Option<Duration>) -> Timer {
        Timer { timed, delay, due: VecDeque::new() }
    }

    /// Creates a timer in which the transactions stand whose state lasts already.
    pub(super) fn of(timed: Timed, delay: Option<Duration>, entries: &[(Ticket, &GateEntry)]) -> Timer {
        let mut timer = Timer::new(timed, delay);
        if let Some(delay) = delay {
            let due = entries.iter().filter_map(|(ticket, entry)| Some((timed.since(entry)?.after(delay), *ticket)));
            timer.due.extend(due);
            timer.due.make_contiguous().sort_by_key(|(due, _)| *due);
        }
        timer
    }

    /// Begins the delay of a transaction.
    pub(super) fn set(&mut self, now: Time, ticket: Ticket, entries: &Entries) {
        let Some(delay) = self.delay else { return };
        // Most states end before they are due. Two are removed for each one added, so the queue stays as short as the
        // number of lasting ones.
        for _ in 0..2 {
            match self.due.front() {
                Some((due, first)) if !self.goes_on(*first, *due, entries) => drop(self.due.pop_front()),
                _ => break,
            }
        }
        self.due.push_back((now.after(delay), ticket));
    }

    /// Continues the delay of a transaction that began at an earlier time.
    pub(super) fn set_since(&mut self, since: Time, ticket: Ticket) {
        let Some(delay) = self.delay else { return };
        let due = since.after(delay);
        let at = self.due.partition_point(|(other, _)| *other <= due);
        let is_there = self.due.range(..at).rev().take_while(|(other, _)| *other == due).any(|(_, own)| *own == ticket);
        if !is_there {
            self.due.insert(at, (due, ticket));
        }
    }

    /// Returns the time at which the first one is due; its state may be over by then.
    pub(super) fn next(&self) -> Option<Time> {
        self.due.front().map(|(due, _)| *due)
    }

    /// Takes a transaction that is due, and whose state has lasted all the while.
    pub(super) fn pop(&mut self, now: Time, entries: &Entries) -> Option<Ticket> {
        while let Some((due, ticket)) = self.due.front().copied().filter(|(due, _)| *due <= now) {
            self.due.pop_front();
            if self.goes_on(ticket, due, entries) {
                return Some(ticket);
            }
        }
        None
    }

    /// Returns true if the transaction's state is still the one that was to be due then.
    fn goes_on(&self, ticket: Ticket, due: Time, entries: &Entries) -> bool {
        let since = entries.get(ticket).and_then(|entry| self.timed.since(entry));
        since.zip(self.delay).is_some_and(|(since, delay)| since.after(delay) == due)
    }
}
