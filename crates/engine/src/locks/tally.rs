//! Statistics of locks: takings by class and reason; waits and their ends.

use crate::raw::activity::Why;
use crate::sync::{AtomicU64, Relaxed};
use stage::Class;

/// Count of the takings by one class from another for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taking {
    /// Class of the taker.
    pub taker: Class,
    /// Class of the aborted transaction.
    pub victim: Class,
    /// Reason why the victim could be aborted.
    pub why: Why,
    /// Number of takings.
    pub count: u64,
}

/// Costs of locks, since the engine was created.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LockStats {
    /// Waits, by class: high, normal, low.
    pub waits: [u64; 3],
    /// Nanoseconds waited, of waits that are over.
    pub waited_ns: [u64; 3],
    /// Deadlocks, each of which had one victim.
    pub deadlocks: u64,
    /// Waits that a timeout ended.
    pub timeouts: u64,
    /// Statements that were cancelled while they waited.
    pub cancelled: u64,
    /// Transactions begun with the class of a taker from their session.
    pub promotions: u64,
    /// Locks and places in queues now, without the end words of rows.
    pub entries: u64,
    /// Sessions in queues now.
    pub waiting: u64,
    /// Takings by class and reason, where there were any.
    pub takings: Vec<Taking>,
}

/// Classes by importance.
const CLASSES: [Class; 3] = [Class::Low, Class::Normal, Class::High];

/// Returns the class of this importance.
pub(crate) fn class_of(importance: u64) -> Class {
    CLASSES[importance as usize]
}

#[derive(Default)]
pub(crate) struct Tally {
    waits: [AtomicU64; 3],
    waited_ns: [AtomicU64; 3],
    pub(crate) deadlocks: AtomicU64,
    pub(crate) timeouts: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) promotions: AtomicU64,
    /// Number of procedures that a session began again: part of [`crate::Stats::retries`].
    pub(crate) retries: AtomicU64,
    /// Takings by taker, victim and reason.
    takings: [[[AtomicU64; Why::ALL.len()]; 3]; 3],
}

impl Tally {
    pub(crate) fn one(count: &AtomicU64) {
        count.fetch_add(1, Relaxed);
    }

    pub(crate) fn waited(&self, importance: u64, ns: u64) {
        let class = class_of(importance) as usize;
        Tally::one(&self.waits[class]);
        self.waited_ns[class].fetch_add(ns, Relaxed);
    }

    pub(crate) fn took(&self, taker: u64, victim: u64, why: Why) {
        Tally::one(&self.takings[taker as usize][victim as usize][why as usize]);
    }

    pub(crate) fn read(&self, entries: u64, waiting: u64) -> LockStats {
        let read = |count: &AtomicU64| count.load(Relaxed);
        let mut takings = Vec::new();
        for (taker, victims) in self.takings.iter().enumerate() {
            for (victim, reasons) in victims.iter().enumerate() {
                for (why, count) in Why::ALL.into_iter().zip(reasons).filter(|(_, count)| 0 < read(count)) {
                    let (taker, victim) = (CLASSES[taker], CLASSES[victim]);
                    takings.push(Taking { taker, victim, why, count: read(count) });
                }
            }
        }
        LockStats {
            waits: self.waits.each_ref().map(read),
            waited_ns: self.waited_ns.each_ref().map(read),
            deadlocks: read(&self.deadlocks),
            timeouts: read(&self.timeouts),
            cancelled: read(&self.cancelled),
            promotions: read(&self.promotions),
            entries,
            waiting,
            takings,
        }
    }
}
