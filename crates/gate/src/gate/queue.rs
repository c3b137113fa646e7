//! Queues of waiting transactions, in the order of admission, one for each class.
//!
//! A queue has a subqueue for each pool of connections, and one for transactions that need none. The subqueues of pools without
//! room are shut: transactions in them are passed over, and keep their places. So the first that can run is found at
//! once, however many cannot.
//!
//! **Invariant:** a place does not change while a transaction stands at it, so the order of two waiting ones never
//! reverses. `heads` has the first of each subqueue that is open and not empty, and no other.

use super::entry::Ticket;
use super::rooms::SubqueueIndex;
use crate::settings::AdmissionOrder;
use crate::time::Time;
use std::collections::BTreeMap;

/// A place in a queue: the smaller, the sooner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueuePlace {
    /// Rank: a transaction that comes back for a slot that it has lent stands before all others.
    rank: Rank,
    /// Nanoseconds of the arrival, real or as if it had come then.
    at: u64,
    /// Number that makes each place different.
    number: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Returning,
    #[default]
    New,
}

impl QueuePlace {
    /// Creates the place of a transaction that arrives now, and is expected to take `expected_ns` nanoseconds.
    pub(super) fn new(order: AdmissionOrder, now: Time, expected_ns: f64, number: u64) -> QueuePlace {
        let at = match order {
            AdmissionOrder::Fifo => now.ns(),
            // A float becomes the nearest number that there is.
            AdmissionOrder::ShortestExpected { patience } => now.ns().saturating_add((patience * expected_ns) as u64),
        };
        QueuePlace { rank: Rank::New, at, number }
    }

    /// Returns the number that tells the place from all others, in the order of arrival.
    pub(super) fn number(self) -> u64 {
        self.number
    }

    /// Creates the place of a transaction that comes back.
    pub(super) fn returning(now: Time, number: u64) -> QueuePlace {
        QueuePlace { rank: Rank::Returning, at: now.ns(), number }
    }
}

/// Waiting transactions of one class.
#[derive(Debug, Default)]
pub(super) struct ClassQueue {
    subqueues: Vec<Subqueue>,
    heads: BTreeMap<QueuePlace, (SubqueueIndex, Ticket)>,
    count: usize,
}

/// Waiting transactions of one class and one pool.
#[derive(Debug, Default)]
struct Subqueue {
    all: BTreeMap<QueuePlace, Ticket>,
    is_shut: bool,
    served: Time,
    /// Number of transactions inside that ageing has admitted.
    aged: u32,
}

impl Subqueue {
    fn head(&self) -> Option<(QueuePlace, Ticket)> {
        let first = self.all.first_key_value().map(|(place, ticket)| (*place, *ticket));
        first.filter(|_| !self.is_shut)
    }
}

impl ClassQueue {
    fn subqueue_mut(&mut self, subqueue: SubqueueIndex) -> &mut Subqueue {
        if self.subqueues.len() <= subqueue.index() {
            self.subqueues.resize_with(subqueue.index() + 1, Subqueue::default);
        }
        &mut self.subqueues[subqueue.index()]
    }

    /// Changes a subqueue, and its head with it.
    fn change(&mut self, subqueue: SubqueueIndex, change: impl FnOnce(&mut Subqueue)) {
        let waiting = self.subqueue_mut(subqueue);
        let before = waiting.head();
        change(waiting);
        let after = waiting.head();
        if before == after {
            return;
        }
        if let Some((place, _)) = before {
            self.heads.remove(&place);
        }
        if let Some((place, ticket)) = after {
            self.heads.insert(place, (subqueue, ticket));
        }
    }

    /// Adds a transaction to a subqueue that is open, or shut.
    pub(super) fn push(&mut self, place: QueuePlace, ticket: Ticket, subqueue: SubqueueIndex, is_open: bool) {
        self.count += 1;
        self.change(subqueue, |waiting| {
            waiting.is_shut = !is_open;
            let before = waiting.all.insert(place, ticket);
            assert!(before.is_none(), "two transactions stand at one place of a queue");
        });
    }

    pub(super) fn remove(&mut self, place: QueuePlace, subqueue: SubqueueIndex) {
        self.count -= 1;
        self.change(subqueue, |waiting| {
            let before = waiting.all.remove(&place);
            assert!(before.is_some(), "who leaves a queue stands in it");
        });
    }

    /// Opens or shuts a subqueue.
    pub(super) fn set_open(&mut self, subqueue: SubqueueIndex, is_open: bool) {
        if subqueue.index() < self.subqueues.len() {
            self.change(subqueue, |waiting| waiting.is_shut = !is_open);
        }
    }

    /// Returns the first transaction that can run.
    pub(super) fn first(&self) -> Option<Ticket> {
        self.heads.first_key_value().map(|(_, (_, ticket))| *ticket)
    }

    /// Returns the time since which no transaction of this subqueue was admitted.
    pub(super) fn served(&self, subqueue: SubqueueIndex) -> Time {
        self.subqueues.get(subqueue.index()).map_or(Time::ZERO, |waiting| waiting.served)
    }

    /// Returns true if a transaction is inside that ageing has admitted from this subqueue.
    pub(super) fn has_aged(&self, subqueue: SubqueueIndex) -> bool {
        self.subqueues.get(subqueue.index()).is_some_and(|waiting| 0 < waiting.aged)
    }

    /// Notes that a transaction of this subqueue is admitted.
    pub(super) fn serve(&mut self, subqueue: SubqueueIndex, now: Time) {
        self.subqueue_mut(subqueue).served = now;
    }

    /// Notes that ageing has admitted a transaction of this subqueue.
    pub(super) fn age(&mut self, subqueue: SubqueueIndex) {
        self.subqueue_mut(subqueue).aged += 1;
    }

    /// Notes that a transaction admitted by ageing has given its slot up.
    pub(super) fn rejuvenate(&mut self, subqueue: SubqueueIndex) {
        self.subqueue_mut(subqueue).aged -= 1;
    }

    /// Returns the number of transactions before this place.
    pub(super) fn before(&self, place: QueuePlace) -> usize {
        self.subqueues.iter().map(|waiting| waiting.all.range(..place).count()).sum()
    }

    /// Returns the transactions that can run, in no order.
    pub(super) fn runnable(&self) -> impl Iterator<Item = Ticket> {
        self.subqueues.iter().filter(|waiting| !waiting.is_shut).flat_map(|waiting| waiting.all.values().copied())
    }

    /// Returns the number of transactions that wait in this subqueue.
    pub(super) fn count_in(&self, subqueue: SubqueueIndex) -> usize {
        self.subqueues.get(subqueue.index()).map_or(0, |waiting| waiting.all.len())
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns true if a transaction waits that could run.
    pub(super) fn can_run(&self) -> bool {
        !self.heads.is_empty()
    }
}
