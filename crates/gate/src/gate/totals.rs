//! Totals since the start, at any limit. The difference of two readings says what was done between them.
//!
//! **Invariant:** nothing of it ever becomes less.

use super::Gate;
use crate::time::Time;
use std::time::Duration;

/// Counts and times since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Seconds that have passed.
    pub seconds: f64,
    /// Transactions that have done what they were for.
    pub done: u64,
    /// Their seconds from arrival to end, the client's own time left out.
    pub response_seconds: f64,
    /// Seconds of each transaction that was active inside.
    pub active_seconds: f64,
    /// Seconds of each that waited.
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
    /// What has been done since the beginning.
    pub fn totals(&mut self, now: Time) -> Totals {
        self.pass(now);
        self.totals
    }
}
