//! Sums over the results of several rounds or servers.

/// Returns the middle value, or the mean of both middle ones; NaN if there are no values, which a report refuses as a
/// figure.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    match sorted.len().checked_sub(1) {
        Some(last) => (sorted[last / 2] + sorted[sorted.len() / 2]) / 2.0,
        None => f64::NAN,
    }
}

/// Returns the geometric mean; NaN if there are no values.
pub fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_an_even_number_is_between_two() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_geometric_mean_is_of_ratios() {
        assert!((geometric_mean(&[0.5, 2.0, 8.0]) - 2.0).abs() < 1e-12);
        assert!(geometric_mean(&[]).is_nan());
    }
}
