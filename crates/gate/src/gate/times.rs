//! Histogram of durations, small enough to copy while the gate's lock is held.
//!
//! Each octave of microseconds has 16 parts, so quantiles are known to within 3 %. Nine of them are 44 kilobytes, which
//! take two microseconds to copy; a histogram that is exact to three digits takes two hundred times as long.
//!
//! **Invariant:** powers of two, and the middles between two of them, are bounds of parts: counts up to them are exact.

use stage::Quantiles;

/// Parts of an octave.
const PARTS: usize = 16;
/// Number of octaves. The last one ends at 2^36 microseconds, 19 hours; longer times are counted there.
const OCTAVES: usize = 36;
/// Number of parts. The first octave is all below a microsecond.
const LENGTH: usize = (OCTAVES + 1) * PARTS;

/// Histogram of durations.
#[derive(Clone, PartialEq)]
pub struct Times {
    counts: [u64; LENGTH],
    count: u64,
    sum_ns: u64,
    max_ns: u64,
}

impl std::fmt::Debug for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Times").field("count", &self.count).field("sum_ns", &self.sum_ns).finish_non_exhaustive()
    }
}

impl Default for Times {
    fn default() -> Times {
        Times { counts: [0; LENGTH], count: 0, sum_ns: 0, max_ns: 0 }
    }
}

/// Returns the part in which a time lies, in sixteenths of a microsecond.
fn part_of(sixteenths: u64) -> usize {
    if sixteenths < PARTS as u64 {
        return sixteenths as usize;
    }
    let octave = sixteenths.ilog2() as usize - 4;
    octave * PARTS + (sixteenths >> octave) as usize
}

/// Returns the start of a part, in microseconds.
fn begin_us(part: usize) -> f64 {
    let octave = (part / PARTS).saturating_sub(1);
    let within = part - octave * PARTS;
    within as f64 / PARTS as f64 * (1u64 << octave) as f64
}

impl Times {
    pub(super) fn record_ns(&mut self, ns: u64) {
        let part = part_of(ns.saturating_mul(2) / 125).min(LENGTH - 1);
        self.counts[part] += 1;
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Returns the number of times counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of all times, in seconds.
    pub fn sum(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// Returns the number of times shorter than `us` microseconds: exact for powers of two, and half-way between two of
    /// them.
    pub fn below_us(&self, us: u64) -> u64 {
        let end = part_of(us.saturating_mul(PARTS as u64)).min(LENGTH);
        self.counts[..end].iter().sum()
    }

    /// Returns the buckets that are not empty, in ascending order: the start and the end of each, in microseconds, and
    /// the number of times in it. They end at powers of two, and half-way between two of them.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, f64, u64)> {
        let halves = self.counts[PARTS..].chunks(PARTS / 2).enumerate().map(|(at, counts)| {
            let begin = PARTS + at * (PARTS / 2);
            (begin_us(begin), begin_us(begin + PARTS / 2), counts.iter().sum())
        });
        let first = (0.0, 1.0, self.counts[..PARTS].iter().sum());
        std::iter::once(first).chain(halves).filter(|(_, _, count)| 0 < *count)
    }

    /// Returns the value below which a share `quantile` (0 to 1) lies, in microseconds; 0 when empty.
    pub fn quantile_us(&self, quantile: f64) -> f64 {
        let max_us = self.max_ns as f64 / 1e3;
        let wanted = (quantile * self.count as f64).max(1.0);
        let mut before = 0.0;
        for (part, &count) in self.counts.iter().enumerate() {
            let count = count as f64;
            if 0.0 < count && wanted <= before + count {
                let (begin, end) = (begin_us(part), begin_us(part + 1));
                return (begin + (end - begin) * (wanted - before) / count).min(max_us);
            }
            before += count;
        }
        max_us
    }

    /// Returns every reported quantile, in microseconds.
    pub fn quantiles_us(&self) -> Quantiles {
        Quantiles {
            p50: self.quantile_us(0.5),
            p90: self.quantile_us(0.9),
            p99: self.quantile_us(0.99),
            p999: self.quantile_us(0.999),
            max: self.max_ns as f64 / 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_one_another() {
        let mut last = 0;
        for sixteenths in 0..100_000 {
            let part = part_of(sixteenths);
            assert!(part == last || part == last + 1, "{sixteenths} is in part {part} after {last}");
            let (begin, end) = (begin_us(part), begin_us(part + 1));
            let us = sixteenths as f64 / 16.0;
            assert!(begin <= us && us < end, "{us} is not from {begin} to {end}");
            last = part;
        }
    }

    #[test]
    fn quantiles_are_within_a_part() {
        let mut times = Times::default();
        (1..=100_000).for_each(|us| times.record_ns(us * 1_000));
        let q = times.quantiles_us();
        for (value, expected) in [(q.p50, 50_000.0), (q.p90, 90_000.0), (q.p99, 99_000.0), (q.p999, 99_900.0)] {
            assert!((value / expected - 1.0).abs() < 0.03, "{value} is not about {expected}");
        }
        assert_eq!((q.max, times.count()), (100_000.0, 100_000));
        assert!((times.sum() - 5_000.05).abs() < 1e-6);
        assert_eq!(Times::default().quantiles_us(), Quantiles::default());
    }

    #[test]
    fn buckets_are_exact() {
        let mut times = Times::default();
        for us in [0, 1, 2, 2, 3, 4, 5, 6, 1_000_000_000_000] {
            times.record_ns(us * 1_000);
        }
        let last = 2f64.powi(36);
        let wanted = [(0.0, 1.0, 1), (1.0, 1.5, 1), (2.0, 3.0, 2), (3.0, 4.0, 1), (4.0, 6.0, 2), (6.0, 8.0, 1)];
        assert_eq!(times.buckets().take(6).collect::<Vec<_>>(), wanted);
        assert_eq!(times.buckets().last(), Some((last * 0.75, last, 1)));
        assert_eq!([1, 2, 4, 8].map(|us| times.below_us(us)), [1, 2, 5, 8]);
    }
}
