//! Job sizes that vary: the hyperexponential distribution of two phases (H2) with balanced means.
//!
//! **Invariant:** each type brings half of the work, `p / mu1 == (1 - p) / mu2`; mean and C² then fix the rest.

use super::{ModelError, is_amount};

/// Two types of jobs, each exponential: many that are short, few that are long.
///
/// The squared coefficient of variation C² (variance over squared mean) is the one property of a workload's sizes that
/// matters here; Schroeder et al. measured 2 to 15 for commercial ones (section 4.2). Below 1 there is no H2; such
/// sizes count as exponential, C² = 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct H2 {
    /// Probability of the first type, the shorter one: 0.5 up to 1.
    pub p: f64,
    /// Rate of the first type: its mean size is `1 / mu1`.
    pub mu1: f64,
    /// Rate of the second type.
    pub mu2: f64,
}

impl H2 {
    /// Creates the distribution with this mean, in any unit of time, and this C².
    ///
    /// # Errors
    /// [`ModelError::OutOfRange`] for a mean that is not above 0, [`ModelError::Variability`] for an invalid C².
    pub fn with_balanced_means(mean: f64, c2: f64) -> Result<H2, ModelError> {
        if !is_amount(mean) || mean == 0.0 {
            return Err(ModelError::OutOfRange { what: "a mean size of", value: mean });
        }
        if !is_amount(c2) {
            return Err(ModelError::Variability(c2));
        }
        let c2 = c2.max(1.0);
        let apart = ((c2 - 1.0) / (c2 + 1.0)).sqrt();
        // 1 - apart without the digits that this difference loses when C² is large.
        let rare = 2.0 / (c2 + 1.0) / (1.0 + apart);
        Ok(H2 { p: (1.0 + apart) / 2.0, mu1: (1.0 + apart) / mean, mu2: rare / mean })
    }

    /// Returns the probability of the second type, the longer one.
    pub fn q(&self) -> f64 {
        // By balance, and so without the digits that 1 - p loses.
        self.p * self.mu2 / self.mu1
    }

    /// Returns E\[S\], E\[S²\] and E\[S³\].
    pub fn moments(&self) -> [f64; 3] {
        let moment = |k: i32, factorial: f64| factorial * (self.p / self.mu1.powi(k) + self.q() / self.mu2.powi(k));
        [moment(1, 1.0), moment(2, 2.0), moment(3, 6.0)]
    }

    /// Returns the size for two independent numbers, uniform from 0 to below 1.
    pub fn sample(&self, choice: f64, size: f64) -> f64 {
        let rate = if choice < self.p { self.mu1 } else { self.mu2 };
        -(-size).ln_1p() / rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Goal: mean and C² are those asked for. Method: the first two moments.
        #[test]
        fn mean_and_variability_are_as_asked(mean in 1e-6..1e6_f64, c2 in 0.0..1e4_f64) {
            let sizes = H2::with_balanced_means(mean, c2).unwrap();
            let [first, second, third] = sizes.moments();
            prop_assert!((first / mean - 1.0).abs() < 1e-12);
            prop_assert!((second / (first * first) - 1.0 - c2.max(1.0)).abs() < 1e-9 * (1.0 + c2));
            prop_assert!(second * second <= first * third * (1.0 + 1e-12), "moments of a positive quantity");
            prop_assert!((sizes.p + sizes.q() - 1.0).abs() < 1e-12);
        }
    }

    /// Goal: samples have the distribution's moments. Method: the midpoints of a fine grid of the unit square.
    #[test]
    fn samples_follow_the_distribution() {
        let sizes = H2::with_balanced_means(3.0, 15.0).unwrap();
        let points = 100_000;
        let grid = |at: i32| (f64::from(at) + 0.5) / f64::from(points);
        let mean_of_type =
            |choice: f64| (0..points).map(|at| sizes.sample(choice, grid(at))).sum::<f64>() / f64::from(points);
        let mean = sizes.p * mean_of_type(0.0) + sizes.q() * mean_of_type(sizes.p);
        assert!((mean / 3.0 - 1.0).abs() < 1e-4, "{mean}");
        assert_eq!(sizes.sample(0.5, 0.0), 0.0);
    }

    #[test]
    fn nonsense_is_refused() {
        for mean in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(H2::with_balanced_means(mean, 1.0).is_err(), "{mean}");
        }
        for c2 in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(H2::with_balanced_means(1.0, c2).is_err(), "{c2}");
        }
    }
}
