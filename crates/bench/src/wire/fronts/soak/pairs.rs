//! Pairs of phases, and their results.

use super::Front;
use super::other_load::OtherLoad;
use std::ops::Range;
use std::time::Duration;

/// Share of the pairs that count as the worst.
const WORST: f64 = 0.05;

/// Phases of both gates, next to one another.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    time: Range<Duration>,
    gated: Vec<f64>,
    ungated: Vec<f64>,
    hogs: f64,
}

impl Pair {
    pub(super) fn begin(at: Duration) -> Pair {
        Pair { time: at..at, gated: Vec::new(), ungated: Vec::new(), hogs: 0.0 }
    }

    /// Adds the transactions per second of one more phase.
    pub(super) fn add(&mut self, front: Front, per_s: f64) {
        match front {
            Front::Gated => self.gated.push(per_s),
            Front::Ungated => self.ungated.push(per_s),
        }
    }

    pub(super) fn end(&mut self, at: Duration, load: &OtherLoad) {
        self.time.end = at;
        self.hogs = load.mean(&self.time);
    }

    /// Returns the time of the pair since the beginning of the run.
    pub(super) fn time(&self) -> &Range<Duration> {
        &self.time
    }

    /// Returns the mean number of running threads of other load.
    pub(super) fn hogs(&self) -> f64 {
        self.hogs
    }

    pub(super) fn per_s(&self, front: Front) -> f64 {
        match front {
            Front::Gated => mean(&self.gated),
            Front::Ungated => mean(&self.ungated),
        }
    }

    pub(super) fn ratio(&self) -> f64 {
        self.per_s(Front::Gated) / self.per_s(Front::Ungated)
    }
}

/// Results of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct PairTotals {
    pub(super) gated_per_s: f64,
    pub(super) ungated_per_s: f64,
    /// Transactions with the limit over transactions without it, over all pairs.
    pub(super) ratio: f64,
    /// Mean ratio of the worst pairs.
    pub(super) worst: f64,
    pub(super) least: f64,
    /// Mean ratio of the worst pairs of ungated phases against ungated ones.
    pub(super) noise_worst: f64,
    pub(super) hogs: f64,
}

impl PairTotals {
    pub(super) fn of(pairs: &[Pair]) -> PairTotals {
        // All pairs have equally many phases, and phases are equally long.
        let of = |front| mean(&pairs.iter().map(|pair| pair.per_s(front)).collect::<Vec<_>>());
        let (gated_per_s, ungated_per_s) = (of(Front::Gated), of(Front::Ungated));
        let ratios: Vec<f64> = pairs.iter().map(Pair::ratio).collect();
        let ungated: Vec<f64> = pairs.iter().flat_map(|pair| pair.ungated.iter().copied()).collect();
        let halves = pairs.first().map_or(1, |pair| pair.ungated.len()).max(2);
        let noise: Vec<f64> = ungated.chunks_exact(halves).map(every_other).collect();
        PairTotals {
            gated_per_s,
            ungated_per_s,
            ratio: gated_per_s / ungated_per_s,
            worst: worst(&ratios),
            least: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            noise_worst: if noise.is_empty() { 1.0 } else { worst(&noise) },
            hogs: mean(&pairs.iter().map(Pair::hogs).collect::<Vec<_>>()),
        }
    }
}

/// Returns the mean of every other phase over that of the rest.
fn every_other(phases: &[f64]) -> f64 {
    let half = |odd: usize| mean(&phases.iter().copied().skip(odd).step_by(2).collect::<Vec<_>>());
    half(0) / half(1)
}

/// Returns the mean of the worst ratios, one at least.
fn worst(ratios: &[f64]) -> f64 {
    let mut sorted = ratios.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.truncate(((ratios.len() as f64 * WORST).round() as usize).max(1));
    mean(&sorted)
}

/// Returns the mean; NaN if there are no values, which a report refuses as a figure.
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(gated: &[f64], ungated: &[f64]) -> Pair {
        Pair { time: Duration::ZERO..Duration::ZERO, gated: gated.to_vec(), ungated: ungated.to_vec(), hogs: 1.0 }
    }

    #[test]
    fn the_worst_are_one_in_twenty() {
        let ratios: Vec<f64> = (1..=40).map(f64::from).collect();
        assert_eq!((worst(&ratios), worst(&[3.0, 2.0])), (1.5, 2.0));
    }

    #[test]
    fn totals_are_of_all_transactions_and_not_of_ratios() {
        let pairs = [pair(&[100.0, 100.0], &[50.0, 50.0]), pair(&[1_000.0, 1_000.0], &[2_000.0, 1_000.0])];
        let totals = PairTotals::of(&pairs);
        assert!((totals.ratio - 1_100.0 / 1_550.0).abs() < 1e-9, "{totals:?}");
        assert!((totals.least - 2.0 / 3.0).abs() < 1e-9 && totals.worst == totals.least, "{totals:?}");
        assert_eq!(totals.noise_worst, 1.0);
    }
}
