//! Who waits, in the order of going in, a queue for each class.
//!
//! **Invariant:** a place does not change while somebody stands at it, so the order of two that wait never turns round.

use super::entry::Ticket;
use crate::settings::Order;
use crate::time::Time;
use std::collections::BTreeMap;

/// A place in a queue: the smaller, the sooner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Who comes back to a slot that it has lent stands before all others.
    rank: Rank,
    /// Nanoseconds: when it came, or as if it had come.
    at: u64,
    /// No two stand at one place.
    number: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Returning,
    #[default]
    New,
}

impl Place {
    /// Of one that comes now, and is expected to take so many nanoseconds.
    pub(super) fn new(order: Order, now: Time, expected_ns: f64, number: u64) -> Place {
        let at = match order {
            Order::Fifo => now.ns(),
            // A float becomes the nearest number that there is.
            Order::ShortestExpected { patience } => now.ns().saturating_add((patience * expected_ns) as u64),
        };
        Place { rank: Rank::New, at, number }
    }

    /// By which it is told from all others, in the order of arrival.
    pub(super) fn number(self) -> u64 {
        self.number
    }

    /// Of one that comes back.
    pub(super) fn returning(now: Time, number: u64) -> Place {
        Place { rank: Rank::Returning, at: now.ns(), number }
    }
}

/// Those of one class that wait.
#[derive(Debug, Default)]
pub(super) struct Queue(BTreeMap<Place, Ticket>);

impl Queue {
    pub(super) fn push(&mut self, place: Place, ticket: Ticket) {
        let before = self.0.insert(place, ticket);
        assert!(before.is_none(), "two transactions stand at one place of a queue");
    }

    pub(super) fn first(&self) -> Option<Ticket> {
        self.0.first_key_value().map(|(_, ticket)| *ticket)
    }

    pub(super) fn remove(&mut self, place: Place) {
        let before = self.0.remove(&place);
        assert!(before.is_some(), "who leaves a queue stands in it");
    }

    /// How many stand before this place.
    pub(super) fn before(&self, place: Place) -> usize {
        self.0.range(..place).count()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Ticket> {
        self.0.values().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
