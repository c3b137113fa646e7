//! Delays that are the same for all: whoever begins first is due first, so a queue does.

use super::entry::{Entries, Entry, State, Ticket};
use crate::time::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timed {
    /// Being in this state, without a break.
    Being(State),
    /// Waiting for the first time, in the queue or for a hot key.
    Waiting,
}

impl Timed {
    /// Since when it goes on; nothing if it does not.
    fn since(self, entry: &Entry) -> Option<Time> {
        match self {
            Timed::Being(state) => (entry.state == state).then_some(entry.since),
            Timed::Waiting => matches!(entry.state, State::Waiting | State::HeldBack).then_some(entry.arrived),
        }
    }
}

/// Who is due when.
///
/// **Invariant:** moments do not decrease from front to back.
#[derive(Debug)]
pub(super) struct Timer {
    timed: Timed,
    delay: Option<Duration>,
    due: VecDeque<(Time, Ticket)>,
}

impl Timer {
    /// After this delay; never, without one.
    pub(super) fn new(timed: Timed, delay: Option<Duration>) -> Timer {
        Timer { timed, delay, due: VecDeque::new() }
    }

    /// The same, for those for whom it goes on already.
    pub(super) fn of(timed: Timed, delay: Option<Duration>, entries: &[(Ticket, &Entry)]) -> Timer {
        let mut timer = Timer::new(timed, delay);
        if let Some(delay) = delay {
            let due = entries.iter().filter_map(|(ticket, entry)| Some((timed.since(entry)?.after(delay), *ticket)));
            timer.due.extend(due);
            timer.due.make_contiguous().sort_by_key(|(due, _)| *due);
        }
        timer
    }

    /// What is timed begins for somebody.
    pub(super) fn set(&mut self, now: Time, ticket: Ticket, entries: &Entries) {
        let Some(delay) = self.delay else { return };
        // Most are over before they are due. Two for one, so the queue stays as short as there are those that are not.
        for _ in 0..2 {
            match self.due.front() {
                Some((due, first)) if !self.goes_on(*first, *due, entries) => drop(self.due.pop_front()),
                _ => break,
            }
        }
        self.due.push_back((now.after(delay), ticket));
    }

    /// What is timed goes on again for somebody for whom it began then.
    pub(super) fn set_since(&mut self, since: Time, ticket: Ticket) {
        let Some(delay) = self.delay else { return };
        let due = since.after(delay);
        let at = self.due.partition_point(|(other, _)| *other <= due);
        let is_there = self.due.range(..at).rev().take_while(|(other, _)| *other == due).any(|(_, own)| *own == ticket);
        if !is_there {
            self.due.insert(at, (due, ticket));
        }
    }

    /// When the first one is due; it may be over by then.
    pub(super) fn next(&self) -> Option<Time> {
        self.due.front().map(|(due, _)| *due)
    }

    /// One that is due, and for whom it has gone on all the while.
    pub(super) fn pop(&mut self, now: Time, entries: &Entries) -> Option<Ticket> {
        while let Some((due, ticket)) = self.due.front().copied().filter(|(due, _)| *due <= now) {
            self.due.pop_front();
            if self.goes_on(ticket, due, entries) {
                return Some(ticket);
            }
        }
        None
    }

    /// Whether it is still what was to be due then.
    fn goes_on(&self, ticket: Ticket, due: Time, entries: &Entries) -> bool {
        let since = entries.get(ticket).and_then(|entry| self.timed.since(entry));
        since.zip(self.delay).is_some_and(|(since, delay)| since.after(delay) == due)
    }
}
