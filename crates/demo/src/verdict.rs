//! The comparison of the policies in one sentence.
//!
//! **Invariant:** the sentence follows from the figures as the page shows them, rounded, of the same update. A reader who
//! divides one by the other gets the number in the sentence.

use crate::facts::Policy;
use crate::records::Summary;

/// Factor from which on two figures count as different: below, the sentence would say "1.0 times".
const DIFFERENT: f64 = 1.05;

/// Compares the 99th percentiles under `preempt` and `wait`; returns an empty text while one of them is missing.
pub fn verdict(summaries: &[Summary]) -> String {
    let p99 = |policy| summaries.iter().find(|summary| summary.policy == policy)?.latency_us.map(|us| shown(us.p99));
    let (Some(wait), Some(preempt)) = (p99(Policy::Wait), p99(Policy::Preempt)) else { return String::new() };
    // Zero is below the clock's resolution; a quotient of it would say nothing.
    if wait <= 0.0 || preempt <= 0.0 {
        return String::new();
    }
    let (times, word) = if preempt <= wait { (wait / preempt, "sooner") } else { (preempt / wait, "later") };
    if times < DIFFERENT {
        return "At p99, a New-Order ends as soon under wait as under preempt.".to_owned();
    }
    format!("At p99, a New-Order ends {} times {word} under preempt than under wait.", factor(times))
}

/// Rounds a figure to the three digits that the page shows of it.
fn shown(us: f64) -> f64 {
    format!("{us:.2e}").parse().unwrap_or(us)
}

/// Formats a factor: 2.7, 58, 5,810.
fn factor(times: f64) -> String {
    if times < 9.95 {
        return format!("{times:.1}");
    }
    let digits = format!("{times:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if 0 < at && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::verdict;
    use crate::facts::Policy;
    use crate::records::{Quantiles, Summary};

    fn of(figures: [Option<f64>; 3]) -> String {
        let summaries = Policy::ALL.map(|policy| Summary {
            policy,
            count: 1,
            latency_us: figures[policy.index()].map(|p99| Quantiles { p50: 1.0, p99, max: p99 }),
            on_cpu_us: None,
            on_cpu_count: 0,
            latest_us: None,
            start_us: None,
            aborts_count: 0,
            runs_count: 0,
            run_ms: None,
        });
        verdict(&summaries)
    }

    /// Goal: the sentence says what the figures beside it say, whichever is larger. Method: known figures; the reader's
    /// division of the rounded ones.
    #[test]
    fn the_sentence_follows_from_the_figures_that_are_shown() {
        let sentence = |times: &str, word: &str| {
            format!("At p99, a New-Order ends {times} times {word} under preempt than under wait.")
        };
        assert_eq!(of([Some(703_000.0), Some(9_000.0), Some(121.0)]), sentence("5,810", "sooner"));
        assert_eq!(of([Some(14_100.0), None, Some(5_180.0)]), sentence("2.7", "sooner"));
        assert_eq!(of([Some(100.0), None, Some(5_800.0)]), sentence("58", "later"));
        assert_eq!(of([Some(9_960.0), None, Some(1_000.0)]), sentence("10", "sooner"));
        // Shown as 1.00 ms and 1.10 ms: 1.1 times, though the quotient of the unrounded figures is below 1.095.
        assert_eq!(of([Some(1_096.0), None, Some(1_004.0)]), sentence("1.1", "sooner"));
        let same = "At p99, a New-Order ends as soon under wait as under preempt.";
        assert_eq!([of([Some(104.0), None, Some(100.0)]), of([Some(100.0), None, Some(104.0)])], [same, same]);
    }

    /// Goal: nothing is compared with nothing. Method: one figure missing.
    #[test]
    fn without_both_figures_there_is_no_sentence() {
        for figures in [[None; 3], [Some(1.0), Some(1.0), None], [None, Some(1.0), Some(1.0)], [Some(0.0); 3]] {
            assert_eq!(of(figures), "");
        }
    }
}
