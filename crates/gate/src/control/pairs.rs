//! Comparison of two limits in alternating phases: on a host with other loads, successive observations cannot tell two
//! limits apart, but two neighbouring phases can, because both see nearly the same host.
//!
//! Phases come in the order A B, B A, A B …, so that a drift favours neither. Each pair gives the logarithm of one
//! ratio, and the certainty of their mean follows from their own spread (paired differences: Law and Kelton, Simulation
//! Modeling and Analysis, section 10.2.1).
//!
//! **Invariant:** a comparison ends, after [`PAIRS_MAX`] pairs at most.

use crate::gate::student;

/// Pairs needed before anything is concluded.
const PAIRS_MIN: usize = 4;
/// Factor by which the interval is wider in which the ratio must lie for a limit to count as better: a better limit is
/// held for long, and repeated tries are lucky at some time.
const STRICT: f64 = 1.5;
/// Pairs from which on a limit is left that loses [`GROSS`] in their mean: more precision would cost more than it is
/// worth.
const GROSS_PAIRS: usize = 2;
/// Logarithm of a gross loss: three tenths.
const GROSS: f64 = -0.357;
/// Pairs after which the comparison ends with the uncertainty that is left.
const PAIRS_MAX: usize = 32;
/// Phases in a row that may show nothing, as the load pauses or begins; after them there is nothing to compare any
/// more.
const EMPTY_MAX: u32 = 4;
/// Transactions of a phase.
pub(super) const PHASE_COMPLETIONS: u64 = 200;

/// A comparison under way.
#[derive(Clone, Debug)]
pub(super) struct PairedComparison {
    /// Limit that is known, and limit that is compared with it.
    limits: [u32; 2],
    /// Throughput of the first phase of the pair under way.
    first: Option<f64>,
    /// For each pair, the logarithm of the other limit's throughput over that of the known one.
    ratios: Vec<f64>,
    /// Seconds under the other limit.
    other_seconds: f64,
    /// Phases in a row that showed nothing.
    empty: u32,
    /// Number of pairs at which the comparison is next checked for a result.
    next_look: usize,
}

/// Result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PairResult {
    /// Limit that was known.
    pub(super) known: u32,
    /// Limit that was compared with it.
    pub(super) other: u32,
    /// Throughput of the other limit over that of the known one.
    pub(super) ratio: f64,
    /// Half the width of its interval of confidence, over itself.
    pub(super) half_width: f64,
    /// False if the pairs do not tell the two limits apart: nothing follows.
    pub(super) is_known: bool,
    /// True if the other surely does more.
    pub(super) is_better: bool,
    /// Seconds of throughput that the comparison has cost, if it is right.
    pub(super) cost: f64,
}

impl PairedComparison {
    pub(super) fn new(known: u32, other: u32) -> PairedComparison {
        PairedComparison {
            limits: [known, other],
            first: None,
            ratios: Vec::new(),
            other_seconds: 0.0,
            empty: 0,
            next_look: PAIRS_MIN,
        }
    }

    /// Returns the limit of the phase under way.
    pub(super) fn limit(&self) -> u32 {
        // The known limit is first in every other pair.
        let is_other = (self.ratios.len() % 2 == 1) ^ self.first.is_some();
        self.limits[usize::from(is_other)]
    }

    /// Returns the limit that is known.
    pub(super) fn known(&self) -> u32 {
        self.limits[0]
    }

    /// Returns the limit that is compared with it.
    pub(super) fn other(&self) -> u32 {
        self.limits[1]
    }

    /// Returns true if a phase with `crowd` active transactions on average says something of this limit, whether or not
    /// the limit held anything back: the lower limit would have.
    pub(super) fn is_filled(&self, mpl: u32, crowd: f64) -> bool {
        let lower = self.limits[0].min(self.limits[1]);
        lower < mpl && f64::from(lower) < crowd
    }

    /// Ends a phase in which the limit held nothing back: the pair begins anew. Returns true if there is still
    /// something to compare.
    pub(super) fn skip(&mut self) -> bool {
        self.first = None;
        self.empty += 1;
        self.empty < EMPTY_MAX
    }

    /// Ends a phase of `seconds`. Returns the result if the pairs are conclusive: the ratio is known to within half of
    /// `loss`; or the other limit surely loses more than that, or surely keeps it and is the lower one, or surely does
    /// more. After [`PAIRS_MAX`] pairs it returns what is known by then, which may be nothing.
    pub(super) fn add(&mut self, throughput: f64, seconds: f64, loss: f64) -> Option<PairResult> {
        self.empty = 0;
        let [known, other] = self.limits;
        if self.limit() == other {
            self.other_seconds += seconds;
        }
        let Some(first) = self.first.take() else {
            self.first = Some(throughput);
            return None;
        };
        let is_known_first = self.ratios.len().is_multiple_of(2);
        let [of_known, of_other] = if is_known_first { [first, throughput] } else { [throughput, first] };
        self.ratios.push((of_other.max(f64::MIN_POSITIVE) / of_known.max(f64::MIN_POSITIVE)).ln());
        let count = self.ratios.len();
        let is_gross = GROSS_PAIRS <= count && self.ratios.iter().sum::<f64>() < GROSS * count as f64;
        // Looking all the time and stopping when the ratio seems precise would stop when it only seems so.
        if count < self.next_look && !is_gross {
            return None;
        }
        if self.next_look <= count {
            self.next_look = count + count.div_ceil(2);
        }
        let n = count as f64;
        let mean = self.ratios.iter().sum::<f64>() / n;
        let variance = self.ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let half_width = student(n - 1.0) * (variance / n).sqrt();
        let is_better = 0.0 < mean - STRICT * half_width;
        // A lower limit need not do as much to be better.
        let keeps = if other < known { -loss < mean - STRICT * half_width } else { is_better };
        let is_surely = is_gross || mean + half_width < -loss || keeps;
        let is_enough = half_width <= loss / 2.0 || is_surely || PAIRS_MAX < self.next_look;
        let ratio = mean.exp();
        is_enough.then(|| PairResult {
            known,
            other,
            ratio,
            half_width,
            is_known: is_surely || half_width <= loss,
            is_better,
            cost: self.other_seconds * (1.0 - ratio).max(0.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares two limits of which the other does `ratio` times as much, on a host with these speeds, one for each
    /// phase.
    fn compare(ratio: f64, speeds: impl Fn(usize) -> f64) -> (PairResult, usize) {
        let mut pairs = PairedComparison::new(10, 3);
        for at in 0.. {
            let does = if pairs.limit() == 3 { ratio } else { 1.0 };
            if let Some(compared) = pairs.add(1_000.0 * does * speeds(at), 1.0, 0.05) {
                return (compared, at + 1);
            }
        }
        unreachable!("a comparison ends")
    }

    #[test]
    fn a_drift_favours_neither() {
        // The host becomes slower by a twentieth with every phase.
        let (compared, phases) = compare(0.9, |at| 0.95f64.powi(at as i32));
        assert!((compared.ratio - 0.9).abs() < 0.01, "{compared:?} after {phases}");
    }

    #[test]
    fn a_steady_host_needs_few_phases_and_noise_needs_more() {
        assert_eq!(compare(0.97, |_| 1.0).1, 8);
        let noise = |at: usize| 1.0 + 0.1 * ((at * 7_919 % 101) as f64 / 50.0 - 1.0);
        let (compared, phases) = compare(0.97, noise);
        assert!(8 < phases && phases <= 2 * PAIRS_MAX, "{phases}");
        assert!((compared.ratio - 0.97).abs() <= 1.5 * compared.half_width, "{compared:?}");
    }

    #[test]
    fn what_is_far_worse_is_left_soon() {
        let noise = |at: usize| 1.0 + 0.1 * ((at * 7_919 % 101) as f64 / 50.0 - 1.0);
        let (compared, phases) = compare(0.5, noise);
        assert_eq!(phases, 2 * GROSS_PAIRS);
        assert!(compared.is_known && compared.ratio < 0.6);
    }

    #[test]
    fn what_is_surely_good_enough_need_not_be_known_better() {
        let noise = |at: usize| 1.0 + 0.1 * ((at * 7_919 % 101) as f64 / 50.0 - 1.0);
        let (close, many) = compare(0.95, noise);
        let (compared, few) = compare(1.2, noise);
        assert!(2 * few <= many, "{few} {many}");
        assert!(close.half_width < compared.half_width && 1.0 < compared.ratio, "{close:?} {compared:?}");
    }

    #[test]
    fn a_comparison_that_shows_nothing_ends() {
        let (compared, _) = compare(1.0, |at| if at % 3 == 0 { 0.1 } else { 1.0 });
        assert!(0.05 < compared.half_width && !compared.is_known, "{compared:?}");
    }
}
