//! Numeric: exact decimal numbers of any length, like PostgreSQL's.
//!
//! A number is an integer and a display scale, the number of its decimal digits after the decimal point. Most numbers
//! fit a machine word and are computed without allocation; the others use `num-bigint`.
//!
//! **Invariant:** equality, order and hash go by value: 1.0 = 1.00. An integer that fits 64 bits is `Small`.

mod arith;
mod convert;
pub mod key;
mod math;
#[cfg(test)]
mod tests;

use crate::calendar::digits_in;
use num_bigint::{BigInt, Sign};
use num_traits::{Signed, Zero};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

/// Maximum number of digits before the decimal point.
const MAX_WHOLE_DIGITS: i64 = 131_072;
/// Maximum number of digits after the decimal point.
const MAX_SCALE: u32 = 16_383;
/// Maximum number of digits after the decimal point that an operator adds of its own.
const MAX_MADE_SCALE: i64 = 1000;
/// Minimum number of significant digits of a quotient.
const MIN_SIGNIFICANT: i64 = 16;

/// A decimal number.
#[derive(Clone, Debug)]
pub struct Numeric(Repr);

#[derive(Clone, Debug)]
enum Repr {
    NegativeInfinity,
    Small(i64, u16),
    Big(Box<(BigInt, u16)>),
    Infinity,
    NaN,
}

impl Numeric {
    /// Returns the bytes of memory beside the value's own.
    pub fn bytes_beside(&self) -> usize {
        match &self.0 {
            Repr::Big(number) => size_of_val(&**number) + number.0.bits() as usize / 8,
            Repr::NegativeInfinity | Repr::Small(..) | Repr::Infinity | Repr::NaN => 0,
        }
    }
}

/// Returns 10 to the power of `exponent`.
fn ten_to(exponent: u32) -> BigInt {
    match 10_i128.checked_pow(exponent) {
        Some(power) => BigInt::from(power),
        None => BigInt::from(10).pow(exponent),
    }
}

/// Counts the work with numbers of about so many bits. The library that multiplies, divides and converts them does not
/// look whether it should end, but a number has no more than 150,000 digits, so that one operation takes milliseconds.
fn counted(bits: u64) -> SqlResult<()> {
    let words = (bits / 64 + 1) as usize;
    pulse::tick(words.saturating_mul(words))
}

/// Returns the quotient rounded half away from zero.
fn divide_rounded(dividend: &BigInt, divisor: &BigInt) -> BigInt {
    let twice: BigInt = dividend.abs() * 2 + divisor.abs();
    let quotient: BigInt = twice / (divisor.abs() * 2);
    if dividend.sign() * divisor.sign() == Sign::Minus { -quotient } else { quotient }
}

impl Numeric {
    /// NaN.
    pub const NAN: Numeric = Numeric(Repr::NaN);
    /// Infinity.
    pub const INFINITY: Numeric = Numeric(Repr::Infinity);
    /// Negative infinity.
    pub const NEGATIVE_INFINITY: Numeric = Numeric(Repr::NegativeInfinity);
    /// Zero.
    pub const ZERO: Numeric = Numeric(Repr::Small(0, 0));

    /// Returns the error for a number that PostgreSQL's format cannot hold.
    fn overflow() -> SqlError {
        SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
    }

    /// Returns `unscaled` / 10^`scale`, without a check of its length.
    fn made(unscaled: BigInt, scale: u32) -> Numeric {
        let scale = scale as u16;
        match i64::try_from(&unscaled) {
            Ok(small) => Numeric(Repr::Small(small, scale)),
            Err(_) => Numeric(Repr::Big(Box::new((unscaled, scale)))),
        }
    }

    /// Returns `unscaled` / 10^`scale`, rounded if it has more digits than the format allows, and an
    /// error if it is too large.
    fn checked(unscaled: BigInt, scale: u32) -> SqlResult<Numeric> {
        let number = if scale > MAX_SCALE {
            Numeric::made(divide_rounded(&unscaled, &ten_to(scale - MAX_SCALE)), MAX_SCALE)
        } else {
            Numeric::made(unscaled, scale)
        };
        number.in_range()
    }

    /// Returns the same for an integer that is far from the format's limit.
    fn checked_small(unscaled: i128, scale: u32) -> SqlResult<Numeric> {
        match u16::try_from(scale).ok().filter(|_| scale <= MAX_SCALE) {
            Some(scale) => Ok(Numeric::from_parts(unscaled, scale)),
            None => Numeric::checked(BigInt::from(unscaled), scale),
        }
    }

    /// Creates a number from the parts of a decimal: `unscaled` / 10^`scale`, with `scale` as its display scale. For parts
    /// from outside, [`Numeric::in_range`] says whether the format can hold it.
    pub fn from_parts(unscaled: i128, scale: u16) -> Numeric {
        match i64::try_from(unscaled) {
            Ok(small) => Numeric(Repr::Small(small, scale)),
            Err(_) => Numeric::made(BigInt::from(unscaled), u32::from(scale)),
        }
    }

    /// Returns the integer and the scale, if the number is finite.
    fn parts(&self) -> Option<(Cow<'_, BigInt>, u32)> {
        match &self.0 {
            Repr::Small(value, scale) => Some((Cow::Owned(BigInt::from(*value)), u32::from(*scale))),
            Repr::Big(big) => Some((Cow::Borrowed(&big.0), u32::from(big.1))),
            Repr::NegativeInfinity | Repr::Infinity | Repr::NaN => None,
        }
    }

    /// Returns true if the number is neither infinite nor NaN.
    pub fn is_finite(&self) -> bool {
        matches!(self.0, Repr::Small(..) | Repr::Big(_))
    }

    /// Returns true for NaN.
    pub fn is_nan(&self) -> bool {
        matches!(self.0, Repr::NaN)
    }

    /// Returns true for 0.
    pub fn is_zero(&self) -> bool {
        matches!(self.0, Repr::Small(0, _))
    }

    /// Returns -1, 0 or 1. NaN counts as positive.
    pub fn signum(&self) -> i32 {
        match &self.0 {
            Repr::NegativeInfinity => -1,
            Repr::Small(value, _) => value.signum() as i32,
            Repr::Big(big) if big.0.is_negative() => -1,
            Repr::Big(_) | Repr::Infinity | Repr::NaN => 1,
        }
    }

    /// Returns the display scale, and 0 for a number that is not finite.
    pub fn scale(&self) -> u32 {
        match &self.0 {
            Repr::Small(_, scale) => u32::from(*scale),
            Repr::Big(big) => u32::from(big.1),
            Repr::NegativeInfinity | Repr::Infinity | Repr::NaN => 0,
        }
    }

    /// Counts the work of writing the number or computing with it.
    ///
    /// # Errors
    /// `57014`
    pub(crate) fn count_work(&self) -> SqlResult<()> {
        match &self.0 {
            Repr::Big(big) => counted(big.0.bits()),
            Repr::Small(..) | Repr::NaN | Repr::Infinity | Repr::NegativeInfinity => Ok(()),
        }
    }

    /// Returns the number of decimal digits of the integer, without leading zeros.
    fn digits(&self) -> i64 {
        match &self.0 {
            Repr::Small(value, _) => value.unsigned_abs().checked_ilog10().map_or(0, |log| i64::from(log) + 1),
            Repr::Big(big) => {
                // A number of so many bits has one of at most two numbers of digits.
                let of_bits = |bits: u64| (bits as f64 * std::f64::consts::LOG10_2) as u32;
                let (least, most) = (of_bits(big.0.bits() - 1), of_bits(big.0.bits()));
                let is_more = least < most && ten_to(most).magnitude() <= big.0.magnitude();
                i64::from(if is_more { most } else { least }) + 1
            }
            Repr::NegativeInfinity | Repr::Infinity | Repr::NaN => 0,
        }
    }

    /// Returns the place of the first digit that is not 0: 1 for units, 2 for tens, 0 for tenths. For
    /// 0, it depends on the scale.
    fn digits_before_point(&self) -> i64 {
        self.digits() - i64::from(self.scale())
    }

    /// Returns PostgreSQL's weight in base 10000, and the first digit in that base.
    fn weight_and_first(&self) -> (i64, i64) {
        if let Repr::Small(value, scale) = &self.0 {
            let Some(log) = value.unsigned_abs().checked_ilog10() else { return (0, 0) };
            let digits = i64::from(log) + 1;
            let before = digits - i64::from(*scale);
            let weight = (before - 1).div_euclid(4);
            let shift = digits - (before - 4 * weight);
            let power = 10_u64.pow(shift.unsigned_abs() as u32);
            let magnitude = value.unsigned_abs();
            return (weight, (if 0 <= shift { magnitude / power } else { magnitude * power }) as i64);
        }
        let Some((unscaled, _)) = self.parts().filter(|(unscaled, _)| !unscaled.is_zero()) else { return (0, 0) };
        let (digits, before) = (self.digits(), self.digits_before_point());
        let weight = (before - 1).div_euclid(4);
        let wanted = before - 4 * weight;
        let first = if digits >= wanted {
            i64::try_from(unscaled.abs() / ten_to((digits - wanted) as u32)).unwrap_or(0)
        } else {
            i64::try_from(unscaled.abs() * ten_to((wanted - digits) as u32)).unwrap_or(0)
        };
        (weight, first)
    }

    /// Returns the number with exactly this scale, rounded half away from zero.
    fn rescaled(&self, scale: u32) -> Numeric {
        let Some((unscaled, own)) = self.parts() else { return self.clone() };
        match own.cmp(&scale) {
            Ordering::Equal => self.clone(),
            Ordering::Less => Numeric::made(unscaled.as_ref() * ten_to(scale - own), scale),
            Ordering::Greater => Numeric::made(divide_rounded(&unscaled, &ten_to(own - scale)), scale),
        }
    }

    /// Reads PostgreSQL's text format, which may be surrounded by blanks.
    ///
    /// # Errors
    /// `22P02` and `22003`.
    pub fn parse(text: &str) -> SqlResult<Numeric> {
        let invalid = || {
            let message = format!("invalid input syntax for type numeric: \"{text}\"");
            SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
        };
        let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
        let (negative, unsigned) = match trimmed.as_bytes().first() {
            Some(b'-') => (true, &trimmed[1..]),
            Some(b'+') => (false, &trimmed[1..]),
            _ => (false, trimmed),
        };
        if unsigned.eq_ignore_ascii_case("nan") && unsigned.len() == trimmed.len() {
            return Ok(Numeric::NAN);
        }
        if unsigned.eq_ignore_ascii_case("infinity") || unsigned.eq_ignore_ascii_case("inf") {
            return Ok(if negative { Numeric::NEGATIVE_INFINITY } else { Numeric::INFINITY });
        }
        let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
            Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
            None => (unsigned, None),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if !is_digits(whole) || !is_digits(fraction) || whole.len() + fraction.len() == 0 {
            return Err(invalid());
        }
        let exponent = match exponent {
            None => 0,
            Some(written) => {
                let digits = written.strip_prefix(['-', '+']).unwrap_or(written);
                if digits.is_empty() || !is_digits(digits) {
                    return Err(invalid());
                }
                written
                    .parse::<i64>()
                    .ok()
                    .filter(|e| e.abs() < i64::from(i32::MAX / 2))
                    .ok_or_else(Numeric::overflow)?
            }
        };
        // Numbers with more digits fit on neither side of the decimal point, whatever the exponent is.
        let leading = whole.bytes().chain(fraction.bytes()).take_while(|byte| *byte == b'0').count();
        let significant = (whole.len() + fraction.len() - leading) as i64;
        if MAX_WHOLE_DIGITS + i64::from(MAX_SCALE) < significant {
            return Err(Numeric::overflow());
        }
        let mut digits = String::from(if negative { "-0" } else { "0" });
        digits.push_str(whole.get(leading..).unwrap_or_default());
        digits.push_str(&fraction[leading.saturating_sub(whole.len())..]);
        counted(4 * digits.len() as u64)?;
        let unscaled: BigInt = digits.parse().map_err(|_| invalid())?;
        let scale = fraction.len() as i64 - exponent;
        if scale > i64::from(MAX_SCALE) {
            return Err(Numeric::overflow());
        }
        if unscaled.is_zero() {
            return Ok(Numeric::made(unscaled, scale.max(0) as u32));
        }
        if scale < 0 {
            // The number of digits is checked first, since the power itself may be too large to compute.
            if whole.len() as i64 + exponent > MAX_WHOLE_DIGITS + whole.len() as i64 + fraction.len() as i64 {
                return Err(Numeric::overflow());
            }
            return Numeric::checked(unscaled * ten_to(scale.unsigned_abs() as u32), 0);
        }
        Numeric::checked(unscaled, scale as u32)
    }

    /// Rounds to a type's precision and scale. `typmod` is PostgreSQL's.
    ///
    /// # Errors
    /// `22003` if there are too many digits before the decimal point.
    pub fn with_typmod(&self, typmod: i32) -> SqlResult<Numeric> {
        let kind = crate::SqlType { kind: crate::Kind::Numeric, typmod };
        let Some((precision, scale)) = kind.precision_and_scale() else { return Ok(self.clone()) };
        let overflow = |detail: String| {
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").detail(detail)
        };
        if !self.is_finite() {
            if self.is_nan() {
                return Ok(self.clone());
            }
            let detail = format!("A field with precision {precision}, scale {scale} cannot hold an infinite value.");
            return Err(overflow(detail));
        }
        let rounded = self.round(scale);
        let most = i64::from(precision - scale);
        if !rounded.is_zero() && rounded.digits_before_point() > most {
            let limit = if most == 0 { "1".to_owned() } else { format!("10^{most}") };
            return Err(overflow(format!(
                "A field with precision {precision}, scale {scale} must round to an absolute value less than {limit}."
            )));
        }
        Ok(rounded)
    }
}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut room = [0; 20];
        let (negative, digits, scale) = match &self.0 {
            Repr::NaN => return f.write_str("NaN"),
            Repr::Infinity => return f.write_str("Infinity"),
            Repr::NegativeInfinity => return f.write_str("-Infinity"),
            Repr::Small(value, scale) => {
                (*value < 0, Cow::Borrowed(digits_in(&mut room, value.unsigned_abs())), usize::from(*scale))
            }
            Repr::Big(big) => (big.0.is_negative(), Cow::Owned(big.0.magnitude().to_str_radix(10)), usize::from(big.1)),
        };
        if negative {
            f.write_str("-")?;
        }
        if scale == 0 {
            return f.write_str(&digits);
        }
        if digits.len() > scale {
            let (whole, fraction) = digits.split_at(digits.len() - scale);
            f.write_str(whole)?;
            f.write_str(".")?;
            return f.write_str(fraction);
        }
        write!(f, "0.{digits:0>scale$}")
    }
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Numeric) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Numeric {}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Numeric) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Numeric {
    /// Compares in PostgreSQL's order: NaN is equal to itself and greater than infinity.
    fn cmp(&self, other: &Numeric) -> Ordering {
        if let (Repr::Small(a, s), Repr::Small(b, t)) = (&self.0, &other.0) {
            if s == t {
                return a.cmp(b);
            }
            let (a, b) = (i128::from(*a), i128::from(*b));
            if s.abs_diff(*t) <= 18 {
                let power = 10_i128.pow(u32::from(s.abs_diff(*t)));
                return if s < t { (a * power).cmp(&b) } else { a.cmp(&(b * power)) };
            }
        }
        let rank = |number: &Numeric| match number.0 {
            Repr::NegativeInfinity => 0,
            Repr::Infinity => 2,
            Repr::NaN => 3,
            Repr::Small(..) | Repr::Big(_) => 1,
        };
        match (self.parts(), other.parts()) {
            (Some((a, s)), Some((b, t))) => match s.cmp(&t) {
                Ordering::Equal => a.cmp(&b),
                Ordering::Less => (a.as_ref() * ten_to(t - s)).cmp(&b),
                Ordering::Greater => a.as_ref().cmp(&(b.as_ref() * ten_to(s - t))),
            },
            _ => rank(self).cmp(&rank(other)),
        }
    }
}

impl Hash for Numeric {
    fn hash<H: Hasher>(&self, state: &mut H) {
        key::ordering_part(&self.to_key()).hash(state);
    }
}
