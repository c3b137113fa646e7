//! Workload: the work of a transaction in a simulated database.

use super::random::SimRandom;
use crate::model::H2;

/// Mean work of transactions.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Seconds of a processor, on average; exactly proportional to the size.
    pub processor: f64,
    /// Seconds of disks, on average; each visit takes an exponential time.
    pub disk: f64,
    /// Number of times that an average transaction goes from the processor to a disk and back. One of twice the size
    /// goes twice as often.
    pub visits: f64,
    /// Squared coefficient of variation of sizes.
    pub c2: f64,
    /// Rows that a transaction locks.
    pub locks: Locks,
}

/// Rows that transactions lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Locks {
    /// Number of rows that several transactions want.
    pub rows: u32,
    /// Number of rows that each transaction locks, one after the other on its way, until it ends.
    pub each: u32,
    /// Part of its work by which a transaction is delayed by each one that waits for a row meanwhile: looking for
    /// deadlocks, switching contexts, waking.
    pub overhead: f64,
}

impl Locks {
    /// No locks.
    pub const NONE: Locks = Locks { rows: 0, each: 0, overhead: 0.0 };
}

/// Work that is still before one transaction.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    /// Amount of work, over the average.
    pub(super) size: f64,
    /// Visits to come.
    pub(super) visits: u32,
    /// Number of visits in all.
    pub(super) visits_all: u32,
    /// Rows, in ascending order, so that no transactions wait in a circle.
    pub(super) rows: Vec<u32>,
    /// Number of rows locked so far.
    pub(super) locked: usize,
}

impl Plan {
    /// Returns the row to take before the next visit, if there is one: rows are spread over the visits.
    pub(super) fn next_row(&self) -> Option<u32> {
        let row = *self.rows.get(self.locked)?;
        let begun = u64::from(self.visits_all - self.visits);
        let due = self.locked as u64 * u64::from(self.visits_all) / self.rows.len() as u64;
        (due <= begun).then_some(row)
    }
}

impl Workload {
    /// Returns the mean number of visits to a disk: each transaction goes once at least, however small it is.
    pub(super) fn visits_mean(&self) -> f64 {
        let sizes = H2::with_balanced_means(1.0, self.c2).expect("sizes of mean 1 have a distribution");
        // Rounded down to nothing with the probability 1 - v, where v < 1 would be visits: the mean of that, over exponential v.
        let none = |rate: f64| 1.0 + (-rate).exp_m1() / rate;
        let [short, long] = [sizes.mu1, sizes.mu2].map(|rate| none(rate / self.visits));
        self.visits + sizes.p * short + sizes.q() * long
    }

    pub(super) fn plan(&self, sizes: &H2, random: &mut SimRandom) -> Plan {
        let size = sizes.sample(random.uniform(), random.uniform());
        // Rounded up or down by chance, so that the mean stays what it is.
        let visits = size * self.visits;
        let visits = visits.floor() as u32 + u32::from(random.happens(visits.fract()));
        let visits = visits.max(1);
        let Locks { rows, each, .. } = self.locks;
        let mut locked: Vec<u32> = (0..each.min(rows)).map(|_| random.below(rows)).collect();
        locked.sort_unstable();
        locked.dedup();
        Plan { size, visits, visits_all: visits, rows: locked, locked: 0 }
    }
}
