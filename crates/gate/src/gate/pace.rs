//! Rate at which waiting transactions are admitted.
//!
//! **Invariant:** only time in which transactions waited counts, so a pause of the load makes no pace slow; all of it
//! counts, so a stall that holds every transaction up makes the pace slower while it lasts.

use std::time::Duration;

/// Share of the earlier admissions that counts when one more is admitted: the last 32 or so.
const KEPT: f64 = 1.0 - 1.0 / 32.0;
/// Number of admissions below which the pace is unknown.
const LEAST: u32 = 4;

/// Rate of admission.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Number of admissions, the earlier the less they count, and the nanoseconds in which they happened.
    count: f64,
    ns: f64,
    /// Nanoseconds since the last admission.
    open_ns: f64,
    seen: u32,
}

impl Pace {
    /// Adds a time in which transactions waited.
    pub(super) fn pass(&mut self, passed: Duration) {
        self.open_ns += passed.as_nanos() as f64;
    }

    /// Counts one admission of a transaction that has waited.
    pub(super) fn step(&mut self) {
        self.count = self.count * KEPT + 1.0;
        self.ns = self.ns * KEPT + std::mem::take(&mut self.open_ns);
        self.seen = self.seen.saturating_add(1);
    }

    /// Returns the nanoseconds from one admission to the next; none if too few were seen.
    pub(super) fn interval_ns(&self) -> Option<f64> {
        (LEAST <= self.seen).then(|| (self.ns + self.open_ns) / self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_that_of_late() {
        let mut pace = Pace::default();
        let mut steps = |count: u32, ms: u64| {
            for _ in 0..count {
                pace.pass(Duration::from_millis(ms));
                pace.step();
            }
            pace.interval_ns().map(|ns| (ns / 1e6).round())
        };
        assert_eq!([steps(3, 10), steps(1, 10)], [None, Some(10.0)]);
        assert_eq!(steps(300, 40), Some(40.0));
        pace.pass(Duration::from_secs(32));
        assert!(pace.interval_ns().is_some_and(|ns| 1e9 < ns), "nobody gets on");
    }
}
