//! Transactions that wait for admission, and their answers.

use gate::{ClassId, Ticket, Whereabouts};
use std::task::Waker;

/// State of a waiting transaction.
pub(super) enum WaitState {
    Yet(Option<Waker>),
    Admitted,
    TimedOut(ClassId, Whereabouts),
}

/// Waiting transactions, each at the index that the gate has given to its ticket.
#[derive(Default)]
pub(super) struct Waits(Vec<Option<(Ticket, WaitState)>>);

impl Waits {
    pub(super) fn insert(&mut self, ticket: Ticket) {
        if self.0.len() <= ticket.place() {
            self.0.resize_with(ticket.place() + 1, || None);
        }
        self.0[ticket.place()] = Some((ticket, WaitState::Yet(None)));
    }

    pub(super) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut WaitState> {
        let (own, waiting) = self.0.get_mut(ticket.place())?.as_mut()?;
        (*own == ticket).then_some(waiting)
    }

    pub(super) fn remove(&mut self, ticket: Ticket) {
        if self.get_mut(ticket).is_some() {
            self.0[ticket.place()] = None;
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}
