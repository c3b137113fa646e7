//! Delays that are the same for all: whoever begins first is due first, so a queue does.

use super::entry::Ticket;
use crate::time::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// Who is due when.
///
/// **Invariant:** moments do not decrease from front to back.
#[derive(Debug)]
pub(super) struct Timer {
    delay: Option<Duration>,
    due: VecDeque<(Time, Ticket)>,
}

impl Timer {
    /// After this delay; never, without one.
    pub(super) fn new(delay: Option<Duration>) -> Timer {
        Timer { delay, due: VecDeque::new() }
    }

    /// Sets the clock for somebody. `is_stale` says of one who was set before, and when, whether it is over.
    pub(super) fn set(&mut self, now: Time, ticket: Ticket, is_stale: impl Fn(Ticket, Time) -> bool) {
        let Some(delay) = self.delay else { return };
        // Most are over before they are due. Two for one, so the queue stays as short as there are those that are not.
        for _ in 0..2 {
            match self.due.front() {
                Some((due, first)) if is_stale(*first, *due) => drop(self.due.pop_front()),
                _ => break,
            }
        }
        self.due.push_back((now.after(delay), ticket));
    }

    /// When the first one is due.
    pub(super) fn next(&self) -> Option<Time> {
        self.due.front().map(|(due, _)| *due)
    }

    /// One that is due, and when it was.
    pub(super) fn pop(&mut self, now: Time) -> Option<(Ticket, Time)> {
        let (due, ticket) = *self.due.front()?;
        if now < due {
            return None;
        }
        self.due.pop_front();
        Some((ticket, due))
    }

    pub(super) fn delay(&self) -> Option<Duration> {
        self.delay
    }
}
