//! Exact decimal numbers.

use crate::error::Error;
use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Mul, Neg, Sub};
use std::str::FromStr;

/// Exact decimal number with up to 38 digits: the SQL type `numeric`.
///
/// Sums and differences have the greater scale of both operands, products the sum of both scales, as in SQL. The
/// operators panic when a result has too many digits, the methods `checked_…` return `None`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decimal {
    unscaled: i128,
    scale: u16,
}

impl Decimal {
    /// Zero.
    pub const ZERO: Decimal = Decimal::new(0, 0);
    /// One.
    pub const ONE: Decimal = Decimal::new(1, 0);

    /// Creates the number `unscaled` / 10^`scale`.
    pub const fn new(unscaled: i128, scale: u16) -> Decimal {
        Decimal { unscaled, scale }
    }

    /// Returns the number without its decimal point.
    pub const fn unscaled(self) -> i128 {
        self.unscaled
    }

    /// Returns the number of digits after the decimal point.
    pub const fn scale(self) -> u16 {
        self.scale
    }

    /// Returns both numbers, unscaled, at their greater scale.
    fn aligned(self, other: Decimal) -> Option<(i128, i128, u16)> {
        let scale = self.scale.max(other.scale);
        Some((self.unscaled_at(scale)?, other.unscaled_at(scale)?, scale))
    }

    /// Returns the unscaled number at this scale, which is not less than its own.
    fn unscaled_at(self, scale: u16) -> Option<i128> {
        if self.unscaled == 0 {
            return Some(0);
        }
        self.unscaled.checked_mul(power(scale - self.scale)?)
    }

    /// Returns the sum.
    pub fn checked_add(self, other: Decimal) -> Option<Decimal> {
        let (left, right, scale) = self.aligned(other)?;
        Some(Decimal::new(left.checked_add(right)?, scale))
    }

    /// Returns the difference.
    pub fn checked_sub(self, other: Decimal) -> Option<Decimal> {
        let (left, right, scale) = self.aligned(other)?;
        Some(Decimal::new(left.checked_sub(right)?, scale))
    }

    /// Returns the product.
    pub fn checked_mul(self, other: Decimal) -> Option<Decimal> {
        let scale = self.scale.checked_add(other.scale)?;
        Some(Decimal::new(self.unscaled.checked_mul(other.unscaled)?, scale))
    }

    /// Returns the number with this scale, rounded half away from zero; `None` if it has too many digits.
    pub fn checked_round(self, scale: u16) -> Option<Decimal> {
        if self.scale <= scale {
            return Some(Decimal::new(self.unscaled_at(scale)?, scale));
        }
        // A number that is divided by more than it can be is zero.
        let Some(divisor) = power(self.scale - scale) else { return Some(Decimal::new(0, scale)) };
        let (quotient, rest) = (self.unscaled / divisor, self.unscaled % divisor);
        let half = divisor / 2;
        let away = if half <= rest.abs() { self.unscaled.signum() } else { 0 };
        Some(Decimal::new(quotient + away, scale))
    }

    /// Returns the number with this scale, rounded half away from zero.
    ///
    /// # Panics
    /// If it has too many digits.
    #[must_use]
    pub fn round(self, scale: u16) -> Decimal {
        in_range(self.checked_round(scale))
    }

    /// Returns the nearest floating-point number.
    pub fn to_f64(self) -> f64 {
        self.to_string().parse().unwrap_or(f64::NAN)
    }
}

/// Returns 10^`exponent`.
fn power(exponent: u16) -> Option<i128> {
    10_i128.checked_pow(u32::from(exponent))
}

fn in_range(result: Option<Decimal>) -> Decimal {
    result.expect("a decimal number has at most 38 digits")
}

impl Add for Decimal {
    type Output = Decimal;

    fn add(self, other: Decimal) -> Decimal {
        in_range(self.checked_add(other))
    }
}

impl Sub for Decimal {
    type Output = Decimal;

    fn sub(self, other: Decimal) -> Decimal {
        in_range(self.checked_sub(other))
    }
}

impl Mul for Decimal {
    type Output = Decimal;

    fn mul(self, other: Decimal) -> Decimal {
        in_range(self.checked_mul(other))
    }
}

impl Neg for Decimal {
    type Output = Decimal;

    fn neg(self) -> Decimal {
        in_range(Decimal::ZERO.checked_sub(self))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        if let Some((left, right, _)) = self.aligned(*other) {
            return left.cmp(&right);
        }
        // Only the number with the smaller scale can be beyond the range, so it has the greater absolute value.
        if self.scale < other.scale { self.unscaled.cmp(&0) } else { 0.cmp(&other.unscaled) }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Decimal) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal {}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = usize::from(self.scale);
        let digits = format!("{:0width$}", self.unscaled.unsigned_abs(), width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        let sign = if self.unscaled < 0 { "-" } else { "" };
        if fraction.is_empty() { write!(f, "{sign}{whole}") } else { write!(f, "{sign}{whole}.{fraction}") }
    }
}

impl FromStr for Decimal {
    type Err = ParseDecimalError;

    fn from_str(text: &str) -> Result<Decimal, ParseDecimalError> {
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => ("-", digits),
            None => ("", text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all = format!("{whole}{fraction}");
        if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(ParseDecimalError);
        }
        let unscaled = format!("{sign}{all}").parse().map_err(|_| ParseDecimalError)?;
        Ok(Decimal::new(unscaled, u16::try_from(fraction.len()).map_err(|_| ParseDecimalError)?))
    }
}

/// Error for a text that is no decimal number, or one with too many digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseDecimalError;

impl fmt::Display for ParseDecimalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a decimal number of at most 38 digits")
    }
}

impl std::error::Error for ParseDecimalError {}

macro_rules! from_integers {
    ($($integer:ty),*) => {
        $(impl From<$integer> for Decimal {
            fn from(value: $integer) -> Decimal {
                Decimal::new(i128::from(value), 0)
            }
        })*
    };
}

from_integers!(i16, i32, i64, u16, u32, u64);

impl Decimal {
    /// Returns the error for a text that is no decimal number.
    pub(crate) fn refused(text: &str) -> Error {
        Error::new("22003", format!("\"{text}\" is no decimal number of at most 38 digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        text.parse().expect("a number")
    }

    #[test]
    fn texts_come_back() {
        for text in ["0", "-1", "1.50", "-0.001", "0.000", "170141183460469231731687303715884105727"] {
            assert_eq!(decimal(text).to_string(), text);
        }
        for text in ["", "-", "1.2.3", "1e5", "NaN", "--1", "170141183460469231731687303715884105728"] {
            assert_eq!(text.parse::<Decimal>(), Err(ParseDecimalError), "{text}");
        }
    }

    #[test]
    fn numbers_are_added_multiplied_and_rounded() {
        assert_eq!((decimal("1.5") + decimal("2.25")).to_string(), "3.75");
        assert_eq!((decimal("1.5") - decimal("2.25")).to_string(), "-0.75");
        assert_eq!((decimal("1.5") * decimal("-2.25")).to_string(), "-3.375");
        for (text, scale, rounded) in [
            ("2.345", 2, "2.35"),
            ("-2.345", 2, "-2.35"),
            ("2.344", 2, "2.34"),
            ("2.5", 0, "3"),
            ("2", 2, "2.00"),
            ("0.0000000000000000000000000000000000000000000000000001", 2, "0.00"),
        ] {
            assert_eq!(decimal(text).round(scale).to_string(), rounded, "{text}");
        }
    }

    #[test]
    fn numbers_are_compared_by_value() {
        assert_eq!(decimal("1.50"), decimal("1.5"));
        assert!(decimal("-1") < decimal("0.5"));
        let great = Decimal::new(i128::MAX, 0);
        let small = Decimal::new(1, 30);
        assert_eq!((small.cmp(&great), great.cmp(&small)), (Ordering::Less, Ordering::Greater));
        assert_eq!((small.cmp(&-great), (-great).cmp(&small)), (Ordering::Greater, Ordering::Less));
        assert_eq!(great.checked_add(small), None);
        assert_eq!(Decimal::new(0, 60).checked_add(great), None);
    }
}
