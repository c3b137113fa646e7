//! `N` or `A..B`: the limits that are asked for, and those that a table shows.

use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Range of whole numbers from 1, both ends included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MplRange {
    pub first: usize,
    pub last: usize,
}

impl MplRange {
    /// Parses `N` or `A..B`, of at most `MAX`.
    ///
    /// # Errors
    /// A sentence that names the allowed values.
    pub fn parse<const MAX: usize>(text: &str) -> Result<MplRange, String> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let number = |text: &str| usize::from_str(text).ok().filter(|number| (1..=MAX).contains(number));
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => Ok(MplRange { first, last }),
            _ => Err(format!("a number or a range A..B, both ends included, from 1 to {MAX} is needed")),
        }
    }

    /// Returns every limit of the range.
    pub fn all(self) -> impl Iterator<Item = usize> {
        self.first..=self.last
    }

    /// Returns true if a table shows this limit: the ends, all below 10, multiples of 5 below 100, of 50 below 1,000,
    /// and so on.
    pub fn shows(self, limit: usize) -> bool {
        let step = limit.checked_ilog10().filter(|digits| 0 < *digits).map_or(1, |digits| 10_usize.pow(digits) / 2);
        limit == self.first || limit == self.last || limit.is_multiple_of(step)
    }
}

impl fmt::Display for MplRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last { write!(f, "{}", self.first) } else { write!(f, "{}..{}", self.first, self.last) }
    }
}

impl Serialize for MplRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_or_a_range_is_understood() {
        for (text, first, last) in [("1", 1, 1), ("7", 7, 7), ("1..100", 1, 100), ("5..5", 5, 5)] {
            assert_eq!(MplRange::parse::<100>(text), Ok(MplRange { first, last }), "{text}");
        }
        for (text, printed) in [("1..100", "1..100"), ("7", "7"), ("5..5", "5")] {
            assert_eq!(MplRange::parse::<100>(text).map(|limits| limits.to_string()), Ok(printed.to_owned()));
        }
        for wrong in
            ["", "0", "0..5", "5..4", "1..101", "101", "-1", "1..", "..5", "1..2..3", "1..=5", "1-5", "x", "1.5"]
        {
            let message = MplRange::parse::<100>(wrong).unwrap_err();
            assert_eq!(message, "a number or a range A..B, both ends included, from 1 to 100 is needed", "{wrong}");
        }
    }

    #[test]
    fn a_table_stays_short() {
        let limits = MplRange { first: 2, last: 103 };
        let shown: Vec<usize> = limits.all().filter(|limit| limits.shows(*limit)).collect();
        assert_eq!(shown[..10], [2, 3, 4, 5, 6, 7, 8, 9, 10, 15]);
        assert_eq!(shown[shown.len() - 4..], [90, 95, 100, 103]);
        let many = MplRange { first: 1, last: 10_000 };
        assert!(many.all().filter(|limit| many.shows(*limit)).count() < 80);
    }
}
