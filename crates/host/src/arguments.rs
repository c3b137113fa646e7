//! Values on the command line.

const SECONDS_MIN: f64 = 0.1;
const SECONDS_MAX: f64 = 86_400.0;

/// Parses a time in seconds.
///
/// # Errors
/// A sentence that says which values are allowed.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (SECONDS_MIN..=SECONDS_MAX).contains(&seconds) => Ok(seconds),
        _ => Err(format!("a number of seconds from {SECONDS_MIN} to {SECONDS_MAX} is needed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_bounds() {
        assert_eq!(seconds("2.5"), Ok(2.5));
        for wrong in ["0", "-1", "x", "NaN", "inf", "86401"] {
            assert!(seconds(wrong).is_err(), "{wrong} was accepted");
        }
    }
}
