//! Rate at which waiting transactions are admitted.
//!
//! **Invariant:** only time in which somebody waited counts, so a pause of the load makes nobody slow; all of it counts, so one
//! that holds everybody up makes the pace slower while it does.

use std::time::Duration;

/// The share of what was seen before that counts when one more goes in: it is the last 32 or so.
const KEPT: f64 = 1.0 - 1.0 / 32.0;
/// Fewer say nothing.
const LEAST: u32 = 4;

/// Rate of admission.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Those who went in, the earlier the less they count, and the nanoseconds in which they did.
    count: f64,
    ns: f64,
    /// Nanoseconds since the last of them.
    open_ns: f64,
    seen: u32,
}

impl Pace {
    /// Somebody has waited for so long.
    pub(super) fn pass(&mut self, passed: Duration) {
        self.open_ns += passed.as_nanos() as f64;
    }

    /// One that has waited goes in.
    pub(super) fn step(&mut self) {
        self.count = self.count * KEPT + 1.0;
        self.ns = self.ns * KEPT + std::mem::take(&mut self.open_ns);
        self.seen = self.seen.saturating_add(1);
    }

    /// Nanoseconds from one to the next; nothing if too few were seen.
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
