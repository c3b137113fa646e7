//! Totals since the start, at any limit. The difference of two readings is the work done between them.
//!
//! **Invariant:** no total ever decreases.

use super::Gate;
use crate::time::Time;
use std::time::Duration;

/// Counts and times since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Seconds that have passed.
    pub seconds: f64,
    /// Transactions that were done.
    pub done: u64,
    /// Seconds from arrival to end of all transactions, the client's own time left out.
    pub response_seconds: f64,
    /// Seconds that transactions were active inside, summed over them.
    pub active_seconds: f64,
    /// Seconds that transactions waited, summed over them.
    pub waiting_seconds: f64,
}

impl Totals {
    pub(super) fn pass(&mut self, passed: Duration, active: u32, waiting: usize) {
        let seconds = passed.as_secs_f64();
        self.seconds += seconds;
        self.active_seconds += seconds * f64::from(active);
        self.waiting_seconds += seconds * waiting as f64;
    }

    pub(super) fn left(&mut self, response: Duration) {
        self.done += 1;
        self.response_seconds += response.as_secs_f64();
    }
}

impl Gate {
    /// Returns the totals since the start.
    pub fn totals(&mut self, now: Time) -> Totals {
        self.pass(now);
        self.totals
    }
}
