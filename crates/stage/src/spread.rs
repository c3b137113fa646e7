//! Distribution of times, counted in buckets.

use crate::observe::Times;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of buckets in which times are counted: eight for each doubling, so a quantile is at most an eighth too high.
const BUCKETS: usize = 40 * 8;

/// Distribution of times. It only grows.
#[derive(Debug)]
pub struct TimeSpread {
    counts: Box<[AtomicU64]>,
    total_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Default for TimeSpread {
    fn default() -> TimeSpread {
        let counts = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        TimeSpread { counts, total_ns: AtomicU64::new(0), max_ns: AtomicU64::new(0) }
    }
}

fn bucket(ns: u64) -> usize {
    let ns = ns.max(8);
    let doubling = 63 - ns.leading_zeros() as usize;
    let eighth = (ns >> (doubling - 3)) as usize & 7;
    ((doubling - 3) * 8 + eighth).min(BUCKETS - 1)
}

/// Upper bound of a bucket.
fn bound(bucket: usize) -> u64 {
    let (doubling, eighth) = (bucket / 8, bucket % 8);
    (9 + eighth as u64) << doubling
}

impl TimeSpread {
    /// Counts a time in nanoseconds. Any thread may do so.
    pub fn add(&self, ns: u64) {
        if let Some(count) = self.counts.get(bucket(ns)) {
            count.fetch_add(1, Relaxed);
        }
        self.total_ns.fetch_add(ns, Relaxed);
        if self.max_ns.load(Relaxed) < ns {
            self.max_ns.fetch_max(ns, Relaxed);
        }
    }

    /// Does the same for a distribution that no other thread changes, which takes a fraction of the time.
    pub(crate) fn add_alone(&self, ns: u64) {
        if let Some(count) = self.counts.get(bucket(ns)) {
            count.store(count.load(Relaxed) + 1, Relaxed);
        }
        self.total_ns.store(self.total_ns.load(Relaxed) + ns, Relaxed);
        if self.max_ns.load(Relaxed) < ns {
            self.max_ns.store(ns, Relaxed);
        }
    }

    /// Returns the figures of the distribution.
    pub fn times(&self) -> Times {
        TimeSpread::times_of([self])
    }

    /// Returns the figures of several distributions together.
    pub(crate) fn times_of<'s>(all: impl IntoIterator<Item = &'s TimeSpread>) -> Times {
        let (mut counts, mut total_ns, mut max_ns) = (vec![0; BUCKETS], 0, 0);
        for one in all {
            for (sum, count) in counts.iter_mut().zip(&one.counts) {
                *sum += count.load(Relaxed);
            }
            total_ns += one.total_ns.load(Relaxed);
            max_ns = one.max_ns.load(Relaxed).max(max_ns);
        }
        let count: u64 = counts.iter().sum();
        let quantile = |per_1000: u64| {
            let (wanted, mut passed) = ((count * per_1000).div_ceil(1000), 0);
            let at = counts.iter().position(|count| {
                passed += count;
                wanted <= passed
            });
            at.filter(|_| 0 < count).map_or(0.0, |at| bound(at).min(max_ns) as f64 / 1e3)
        };
        Times {
            count,
            total_us: total_ns as f64 / 1e3,
            p50_us: quantile(500),
            p99_us: quantile(990),
            p999_us: quantile(999),
            max_us: max_ns as f64 / 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_at_most_an_eighth_too_high() {
        for ns in [0, 1, 8, 9, 100, 1_000, 123_456, 10_000_000_000] {
            let high = bound(bucket(ns));
            assert!(ns <= high && high as f64 <= (ns.max(8) as f64) * 1.126, "{ns} is counted as {high}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        let spread = TimeSpread::default();
        (1..=1000).for_each(|us| spread.add(us * 1000));
        let times = spread.times();
        assert_eq!((times.count, times.max_us), (1000, 1000.0));
        assert!((500.0..=563.0).contains(&times.p50_us) && (990.0..=1000.0).contains(&times.p99_us), "{times:?}");
        assert!((999.0..=1000.0).contains(&times.p999_us), "{times:?}");
        assert_eq!(TimeSpread::default().times(), Times::default());
    }

    #[test]
    fn several_are_one() {
        let (one, other) = (TimeSpread::default(), TimeSpread::default());
        (1..=500).for_each(|us| one.add(us * 1000));
        (501..=1000).for_each(|us| other.add_alone(us * 1000));
        let all = TimeSpread::default();
        (1..=1000).for_each(|us| all.add(us * 1000));
        assert_eq!(TimeSpread::times_of([&one, &other]), all.times());
    }
}
