//! Latency histograms.

/// Quantiles that every figure reports, in the histogram's unit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quantiles {
    /// Median.
    pub p50: f64,
    /// Value that 90 % do not exceed.
    pub p90: f64,
    /// Value that 99 % do not exceed.
    pub p99: f64,
    /// Value that 99.9 % do not exceed.
    pub p999: f64,
    /// Largest value, exact.
    pub max: f64,
}

/// A histogram of durations in nanoseconds, exact to three digits up to an hour.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: hdrhistogram::Histogram<u64>,
    max_ns: u64,
}

const HIGHEST_NS: u64 = 3_600_000_000_000;

impl Histogram {
    /// Creates an empty histogram. All its memory is allocated here.
    pub fn new() -> Histogram {
        let counts = hdrhistogram::Histogram::new_with_bounds(1, HIGHEST_NS, 3).expect("these bounds are valid");
        Histogram { counts, max_ns: 0 }
    }

    /// Counts one duration.
    pub fn record_ns(&mut self, ns: u64) {
        self.max_ns = self.max_ns.max(ns);
        self.counts.saturating_record(ns.clamp(1, HIGHEST_NS));
    }

    /// Returns the number of durations counted.
    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Histogram) {
        self.max_ns = self.max_ns.max(other.max_ns);
        self.counts.add(&other.counts).expect("both have the same bounds");
    }

    /// Returns the value below which a share `quantile` (0 to 1) of the durations lies, in microseconds; 0 when empty.
    pub fn quantile_us(&self, quantile: f64) -> f64 {
        self.counts.value_at_quantile(quantile).min(self.max_ns) as f64 / 1e3
    }

    /// Returns the mean in microseconds; 0 when empty.
    pub fn mean_us(&self) -> f64 {
        self.counts.mean() / 1e3
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

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

impl Quantiles {
    /// Returns the quantiles with their names in figures.
    pub fn named(&self) -> [(&'static str, f64); 5] {
        [("p50", self.p50), ("p90", self.p90), ("p99", self.p99), ("p999", self.p999), ("max", self.max)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_thousandth() {
        let mut histogram = Histogram::new();
        (1..=100_000).for_each(|us| histogram.record_ns(us * 1_000));
        let q = histogram.quantiles_us();
        for (value, expected) in [(q.p50, 50_000.0), (q.p90, 90_000.0), (q.p99, 99_000.0), (q.p999, 99_900.0)] {
            assert!((value - expected).abs() / expected < 2e-3, "{value} is not about {expected}");
        }
        assert_eq!(q.max, 100_000.0);
    }

    #[test]
    fn an_empty_histogram_says_zero() {
        assert_eq!(Histogram::new().quantiles_us(), Quantiles::default());
    }

    #[test]
    fn what_is_longer_than_the_range_is_kept_as_the_maximum() {
        let mut histogram = Histogram::new();
        histogram.record_ns(HIGHEST_NS * 2);
        assert_eq!(histogram.count(), 1);
        assert_eq!(histogram.quantiles_us().max, HIGHEST_NS as f64 * 2.0 / 1e3);
    }
}
