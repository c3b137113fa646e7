//! Certainty of the mean of samples that follow one another: the method of batch means.
//!
//! Neighbouring samples of a queue are alike, so their spread is too small a measure. Means of long batches are nearly
//! independent. There are always between 32 and 64 batches; when there would be more, two become one (Law and Kelton,
//! Simulation Modeling and Analysis, section 9.5.3).
//!
//! **Invariant:** all batches but the last have the same number of samples.

use std::time::Duration;

/// Largest number of batches.
const MOST: usize = 64;
/// Smallest number of batches from which the certainty of a mean is told.
const FEWEST: usize = 16;

/// Mean of a quantity, with its interval of confidence.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Mean.
    pub mean: f64,
    /// Half the width of the interval in which the true mean lies 19 times of 20, over the mean; infinite if there are too
    /// few samples to say.
    pub half_width: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    samples: u64,
    /// Seconds from the end of the batch before to the end of this one.
    seconds: f64,
    /// Sum of the responses of all samples.
    response_seconds: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Batches {
    done: Vec<Batch>,
    last: Batch,
    size: u64,
}

impl Default for Batches {
    fn default() -> Batches {
        Batches { done: Vec::with_capacity(MOST), last: Batch::default(), size: 1 }
    }
}

impl Batches {
    /// Adds one sample: a transaction that left `after_seconds` after the one before it, and had taken `response`.
    pub(super) fn add(&mut self, after_seconds: f64, response: Duration) {
        self.last.samples += 1;
        self.last.seconds += after_seconds;
        self.last.response_seconds += response.as_secs_f64();
        if self.last.samples < self.size {
            return;
        }
        self.done.push(std::mem::take(&mut self.last));
        if self.done.len() == MOST {
            let (pairs, _) = self.done.as_chunks::<2>();
            self.done = pairs.iter().map(|[a, b]| a.and(b)).collect();
            self.size *= 2;
        }
    }

    /// Returns the samples per second.
    pub(super) fn throughput(&self) -> Estimate {
        // Batches have equal numbers of samples, so their rate is one over the mean of their times.
        let estimate = self.estimate(|batch| batch.seconds);
        let mean = if 0.0 < estimate.mean { self.size as f64 / estimate.mean } else { 0.0 };
        Estimate { mean, ..estimate }
    }

    /// Returns the seconds that a sample took.
    pub(super) fn response(&self) -> Estimate {
        let estimate = self.estimate(|batch| batch.response_seconds);
        Estimate { mean: estimate.mean / self.size as f64, ..estimate }
    }

    fn estimate(&self, value: impl Fn(&Batch) -> f64) -> Estimate {
        let count = self.done.len() as f64;
        if self.done.is_empty() {
            return Estimate { mean: 0.0, half_width: f64::INFINITY };
        }
        let mean = self.done.iter().map(&value).sum::<f64>() / count;
        if self.done.len() < FEWEST || mean <= 0.0 {
            return Estimate { mean, half_width: f64::INFINITY };
        }
        let variance = self.done.iter().map(|batch| (value(batch) - mean).powi(2)).sum::<f64>() / (count - 1.0);
        Estimate { mean, half_width: student(count - 1.0) * (variance / count).sqrt() / mean }
    }
}

impl Batch {
    fn and(&self, other: &Batch) -> Batch {
        Batch {
            samples: self.samples + other.samples,
            seconds: self.seconds + other.seconds,
            response_seconds: self.response_seconds + other.response_seconds,
        }
    }
}

/// Returns the 97.5 % quantile of Student's distribution with this many degrees of freedom, to three digits from 10, to
/// a hundredth from 3 (Cornish and Fisher's expansion).
pub(crate) fn student(freedom: f64) -> f64 {
    1.95996 + 2.37227 / freedom + 2.82250 / freedom.powi(2) + 2.55585 / freedom.powi(3)
}

/// First moments of a quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    /// Adds one value (Welford 1962).
    pub fn add(&mut self, value: f64) {
        self.count += 1.0;
        let off = value - self.mean;
        self.mean += off / self.count;
        self.squares += off * (value - self.mean);
    }

    /// Returns the moments of both samples together (Chan, Golub and LeVeque 1979).
    pub(crate) fn and(&self, other: &Moments) -> Moments {
        let count = self.count + other.count;
        if count == 0.0 {
            return Moments::default();
        }
        let (off, share) = (other.mean - self.mean, other.count / count);
        let squares = self.squares + other.squares + off * off * self.count * share;
        Moments { count, mean: self.mean + off * share, squares }
    }

    /// Returns the number of values.
    pub fn count(&self) -> f64 {
        self.count
    }

    /// Returns the mean; 0 without values.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Returns the squared coefficient of variation, the variance over the square of the mean; 0 for fewer than two
    /// values.
    pub fn c2(&self) -> f64 {
        if self.count < 2.0 || self.mean == 0.0 { 0.0 } else { self.squares / (self.count - 1.0) / self.mean.powi(2) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn student_is_known() {
        for (freedom, known) in [(15.0, 2.131), (31.0, 2.040), (63.0, 1.998)] {
            assert!((student(freedom) - known).abs() < 2e-3, "{} of {freedom}", student(freedom));
        }
    }

    #[test]
    fn the_true_mean_is_inside_19_times_of_20_though_samples_are_alike() {
        // A wave of period 40 in the responses, and noise; means of short batches would be far too sure.
        let mut seed = 7u64;
        let mut random = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as f64 / f64::from(1u32 << 31)
        };
        let (mut inside, mut walk) = (0, 0.0);
        for _ in 0..400 {
            let mut batches = Batches::default();
            for _ in 0..20_000 {
                walk = 0.95 * walk + random() - 0.5;
                let response = Duration::from_secs_f64(10.0 + walk);
                batches.add(0.01, response);
            }
            let estimate = batches.response();
            inside += usize::from((estimate.mean - 10.0).abs() <= estimate.half_width * estimate.mean);
        }
        assert!((365..=396).contains(&inside), "{inside} of 400");
    }

    #[test]
    fn rates_and_responses_are_those_of_the_samples() {
        let mut batches = Batches::default();
        for _ in 0..1_000 {
            batches.add(0.002, Duration::from_millis(30));
        }
        let (rate, response) = (batches.throughput(), batches.response());
        assert!((rate.mean - 500.0).abs() < 1e-6 && rate.half_width < 1e-9, "{rate:?}");
        assert!((response.mean - 0.03).abs() < 1e-9, "{response:?}");
    }

    #[test]
    fn c2_of_two_values() {
        let mut moments = Moments::default();
        (0..1_000).for_each(|at| moments.add(f64::from(at % 2) * 2.0));
        assert!((moments.mean() - 1.0).abs() < 1e-12);
        assert!((moments.c2() - 1.0).abs() < 2e-3);
    }
}
