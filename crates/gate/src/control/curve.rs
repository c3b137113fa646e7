//! Throughput against the number of active transactions, from few points: the universal scalability law.
//!
//! `X(n) = n / (d + b n + c n (n - 1))` (Gunther 1993; Guerrilla Capacity Planning, chapter 5). `b` is the time that a
//! transaction takes of the bottleneck, `d` the time that it takes of all else: a balanced network of K single servers
//! of demand D is `b = D`, `d = (K - 1) D`, exactly the law of section 4.1. `c` is the cost of each pair of
//! transactions, so that beyond a best number throughput falls: locks, caches, context switches. `n / X(n)` is linear
//! in all three, so fitting is linear regression.
//!
//! **Invariant:** no coefficient is negative, and `d` or `b` is positive; so the curve has one maximum, and rises up to it.

/// A point of the curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    /// Number of active transactions.
    pub(super) active: f64,
    /// Transactions per second.
    pub(super) throughput: f64,
    /// Half the width of its interval of confidence, over itself.
    pub(super) half_width: f64,
}

/// Throughput as a function of the number of active transactions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve {
    elsewhere: f64,
    bottleneck: f64,
    pairs: f64,
}

/// Least error ascribed to any point: the law is no law of nature.
const LAW: f64 = 0.01;

impl Curve {
    /// Returns the curve that comes nearest to the points; none without any point.
    pub(super) fn through(points: &[Point]) -> Option<Curve> {
        // A coefficient that is negative at the best fit is zero at the best allowed one. There are few enough
        // combinations to try them all; of those that fit equally well, the first is the simplest.
        let [with_all, network, pairs] = [[true; 3], [true, true, false], [true, false, true]];
        let terms = [network, with_all, pairs, [false, true, true], [false, true, false], [true, false, false]];
        Curve::of_terms(points, &terms)
    }

    /// Returns the curve nearest to the points if pairs cost nothing: it has no maximum. Beyond the observed points no
    /// more than this is to be expected.
    pub(super) fn without_pairs(points: &[Point]) -> Option<Curve> {
        Curve::of_terms(points, &[[true, true, false], [false, true, false], [true, false, false]])
    }

    /// Returns the best fit with any of these terms.
    fn of_terms(points: &[Point], terms: &[[bool; 3]]) -> Option<Curve> {
        let points: Vec<&Point> = points.iter().filter(|point| 0.0 < point.throughput && 1.0 <= point.active).collect();
        let terms = terms.iter().copied();
        let fits = terms.into_iter().filter(|terms| terms.iter().filter(|term| **term).count() <= points.len());
        let fits = fits.filter_map(|terms| regression(&points, terms));
        let fits = fits.filter(|(fit, _)| fit.iter().all(|term| 0.0 <= *term) && 0.0 < fit[0] + fit[1]);
        let better = |best: ([f64; 3], f64), fit: ([f64; 3], f64)| if fit.1 < best.1 - 1e-6 { fit } else { best };
        let ([elsewhere, bottleneck, pairs], _) = fits.reduce(better)?;
        Some(Curve { elsewhere, bottleneck, pairs })
    }

    /// Returns the transactions per second with `active` active ones.
    pub fn throughput(&self, active: f64) -> f64 {
        active / (self.elsewhere + self.bottleneck * active + self.pairs * active * (active - 1.0))
    }

    /// Returns true if the curve goes through this point, as far as that is known.
    pub(super) fn is_near(&self, point: &Point) -> bool {
        (self.throughput(point.active) / point.throughput - 1.0).abs() <= point.half_width.max(LAW / 2.0)
    }

    /// Returns the number of active transactions with the highest throughput; no more than `most`.
    pub fn peak(&self, most: u32) -> u32 {
        if self.pairs <= 0.0 {
            return most;
        }
        let free = (self.elsewhere / self.pairs).sqrt();
        let below = (free.floor()).clamp(1.0, f64::from(most)) as u32;
        let above = (below + 1).min(most);
        if self.throughput(below.into()) < self.throughput(above.into()) { above } else { below }
    }

    /// Returns the smallest number of active transactions with this throughput; none if no number up to `most` reaches
    /// it.
    pub fn least(&self, throughput: f64, most: u32) -> Option<u32> {
        // The curve rises up to its maximum.
        let (mut below, mut enough) = (0, self.peak(most));
        if self.throughput(enough.into()) < throughput {
            return None;
        }
        while 1 < enough - below {
            let middle = below + (enough - below) / 2;
            if self.throughput(middle.into()) < throughput { below = middle } else { enough = middle }
        }
        Some(enough)
    }
}

/// Fits `n / X(n)` with these terms by least squares, each point weighted by its certainty. Returns the coefficients
/// and the residual.
fn regression(points: &[&Point], terms: [bool; 3]) -> Option<([f64; 3], f64)> {
    let row = |point: &Point| {
        let n = point.active;
        let all = [1.0, n, n * (n - 1.0)];
        [0, 1, 2].map(|at| if terms[at] { all[at] } else { 0.0 })
    };
    let weighted = |point: &Point| {
        let value = point.active / point.throughput;
        let sure = 1.0 / (value * point.half_width.max(LAW));
        (value, sure * sure)
    };
    let mut matrix = [[0.0; 4]; 3];
    for point in points {
        let ((value, weight), row) = (weighted(point), row(point));
        for at in 0..3 {
            (0..3).for_each(|other| matrix[at][other] += weight * row[at] * row[other]);
            matrix[at][3] += weight * row[at] * value;
        }
    }
    (0..3).filter(|at| !terms[*at]).for_each(|at| matrix[at][at] = 1.0);
    let solution = solve(matrix)?;
    let rest = points.iter().map(|point| {
        let ((value, weight), row) = (weighted(point), row(point));
        let off = value - row.iter().zip(&solution).map(|(a, b)| a * b).sum::<f64>();
        weight * off * off
    });
    Some((solution, rest.sum()))
}

/// Solves three linear equations (Gauss, with pivots); returns none if they do not determine the solution.
fn solve(mut matrix: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    let scale = [0, 1, 2].map(|at| matrix[at][at].abs().max(f64::MIN_POSITIVE));
    for column in 0..3 {
        let pivot = (column..3).max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))?;
        if matrix[pivot][column].abs() <= 1e-13 * scale[column] {
            return None;
        }
        matrix.swap(column, pivot);
        let pivot = matrix[column];
        for row in matrix.iter_mut().skip(column + 1) {
            let factor = row[column] / pivot[column];
            row.iter_mut().zip(pivot).for_each(|(value, of_pivot)| *value -= factor * of_pivot);
        }
    }
    let mut solution = [0.0; 3];
    for at in (0..3).rev() {
        let known: f64 = (at + 1..3).map(|other| matrix[at][other] * solution[other]).sum();
        solution[at] = (matrix[at][3] - known) / matrix[at][at];
    }
    Some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(of: impl Fn(f64) -> f64, at: &[u32]) -> Vec<Point> {
        let point = |active: f64| Point { active, throughput: of(active), half_width: 0.01 };
        at.iter().map(|active| point((*active).into())).collect()
    }

    #[test]
    fn a_balanced_network_is_found_from_two_points() {
        let balanced = |n: f64| 100.0 * n / (n + 3.0);
        let curve = Curve::through(&points(balanced, &[3, 40])).expect("two points");
        for n in [1u32, 10, 100] {
            assert!((curve.throughput(n.into()) / balanced(n.into()) - 1.0).abs() < 1e-6, "at {n}: {curve:?}");
        }
        assert_eq!(curve.peak(100), 100);
        assert_eq!(curve.least(95.0 - 1e-9, 200), Some(57));
        assert_eq!(curve.least(99.0, 100), None);
    }

    #[test]
    fn a_maximum_is_found_from_three_points() {
        let law = |n: f64| n / (0.008 + 0.002 * n + 0.0001 * n * (n - 1.0));
        let curve = Curve::through(&points(law, &[1, 4, 100])).expect("three points");
        assert_eq!(curve.peak(100), 9);
        let best = curve.throughput(9.0);
        let least = curve.least(0.95 * best, 100).expect("the best is enough");
        assert!(law(f64::from(least - 1)) < 0.95 * law(9.0) && 0.95 * law(9.0) <= law(least.into()), "{least}");
    }

    #[test]
    fn whatever_the_points_the_curve_rises_to_one_maximum() {
        let mut seed = 1u32;
        let mut random = move || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(seed >> 8) / f64::from(1u32 << 24)
        };
        for _ in 0..2_000 {
            let count = 1 + (random() * 5.0) as usize;
            let point = |_| Point {
                active: 1.0 + (random() * 99.0).floor(),
                throughput: random() * 1e4 + 1.0,
                half_width: random(),
            };
            let points: Vec<Point> = (0..count).map(point).collect();
            let Some(curve) = Curve::through(&points) else { panic!("no curve through {points:?}") };
            let all: Vec<f64> = (1..=100).map(|n| curve.throughput(n.into())).collect();
            let peak = curve.peak(100) as usize - 1;
            let tolerance = 1e-9 * all[peak];
            assert!(all[..=peak].windows(2).all(|pair| pair[0] <= pair[1] + tolerance), "{points:?}: {curve:?}");
            assert!(all[peak..].windows(2).all(|pair| pair[1] <= pair[0] + tolerance), "{points:?}: {curve:?}");
        }
    }
}
