//! Arithmetic of [`Numeric`], with the same scales of results as PostgreSQL.

use super::{
    MAX_MADE_SCALE, MAX_SCALE, MAX_WHOLE_DIGITS, MIN_SIGNIFICANT, Numeric, Repr, counted, divide_rounded, ten_to,
};
use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::Signed;
use statement::error::{SqlError, SqlResult, SqlState};

fn division_by_zero() -> SqlError {
    SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

impl Numeric {
    /// Returns the sum.
    ///
    /// # Errors
    /// `22003`, as for all operators, if the result has more digits than the format allows.
    pub fn add(&self, other: &Numeric) -> SqlResult<Numeric> {
        if let (Repr::Small(a, s), Repr::Small(b, t)) = (&self.0, &other.0)
            && s.abs_diff(*t) <= 18
        {
            let power = 10_i128.pow(u32::from(s.abs_diff(*t)));
            let (a, b) = (i128::from(*a), i128::from(*b));
            let sum = if s < t { a * power + b } else { a + b * power };
            return Ok(Numeric::from_parts(sum, *s.max(t)));
        }
        let (Some((a, s)), Some((b, t))) = (self.parts(), other.parts()) else {
            return Ok(match (&self.0, &other.0) {
                (Repr::NaN, _) | (_, Repr::NaN) => Numeric::NAN,
                (Repr::Infinity, Repr::NegativeInfinity) | (Repr::NegativeInfinity, Repr::Infinity) => Numeric::NAN,
                (Repr::Infinity | Repr::NegativeInfinity, _) => self.clone(),
                _ => other.clone(),
            });
        };
        let scale = s.max(t);
        counted(a.bits().max(b.bits()) / 8)?;
        Numeric::checked(a.as_ref() * ten_to(scale - s) + b.as_ref() * ten_to(scale - t), scale)
    }

    /// Returns the difference.
    ///
    /// # Errors
    /// Those of [`Numeric::add`].
    pub fn sub(&self, other: &Numeric) -> SqlResult<Numeric> {
        self.add(&other.neg())
    }

    /// Returns the product.
    ///
    /// # Errors
    /// Those of [`Numeric::add`].
    pub fn mul(&self, other: &Numeric) -> SqlResult<Numeric> {
        if let (Repr::Small(a, s), Repr::Small(b, t)) = (&self.0, &other.0)
            && u32::from(*s) + u32::from(*t) <= super::MAX_SCALE
        {
            return Ok(Numeric::from_parts(i128::from(*a) * i128::from(*b), s + t));
        }
        let (Some((a, s)), Some((b, t))) = (self.parts(), other.parts()) else {
            return Ok(if self.is_nan() || other.is_nan() {
                Numeric::NAN
            } else {
                match self.signum() * other.signum() {
                    0 => Numeric::NAN,
                    1 => Numeric::INFINITY,
                    _ => Numeric::NEGATIVE_INFINITY,
                }
            });
        };
        counted(a.bits().max(b.bits()))?;
        Numeric::checked(a.as_ref() * b.as_ref(), s + t)
    }

    /// Returns the quotient or remainder if a side is not finite.
    fn divide_special(&self, other: &Numeric) -> Option<SqlResult<Numeric>> {
        if self.is_nan() || other.is_nan() {
            return Some(Ok(Numeric::NAN));
        }
        if other.is_zero() {
            return Some(Err(division_by_zero()));
        }
        None
    }

    /// Returns the scale of a quotient, as PostgreSQL's `select_div_scale` does: at least 16 significant digits, by
    /// the digits in base 10000.
    fn quotient_scale(&self, other: &Numeric) -> u32 {
        let ((weight, first), (other_weight, other_first)) = (self.weight_and_first(), other.weight_and_first());
        let mut weight = weight - other_weight;
        if first <= other_first {
            weight -= 1;
        }
        let own = i64::from(self.scale().max(other.scale()));
        (MIN_SIGNIFICANT - weight * 4).max(own).clamp(0, MAX_MADE_SCALE) as u32
    }

    /// Returns the quotient.
    ///
    /// # Errors
    /// `22012`, and those of [`Numeric::add`].
    pub fn div(&self, other: &Numeric) -> SqlResult<Numeric> {
        if let Some(result) = self.divide_special(other) {
            return result;
        }
        let (Some((a, s)), Some((b, t))) = (self.parts(), other.parts()) else {
            return Ok(match (self.is_finite(), other.is_finite()) {
                (false, false) => Numeric::NAN,
                (true, _) => Numeric::ZERO,
                _ if self.signum() * other.signum() > 0 => Numeric::INFINITY,
                _ => Numeric::NEGATIVE_INFINITY,
            });
        };
        let scale = self.quotient_scale(other);
        if let (Repr::Small(a, s), Repr::Small(b, t)) = (&self.0, &other.0)
            && let Some(shift @ 0..=19) = (scale + u32::from(*t)).checked_sub(u32::from(*s))
        {
            let (dividend, divisor) = (i128::from(*a) * 10_i128.pow(shift), i128::from(*b));
            let (quotient, rest) = (dividend / divisor, dividend % divisor);
            let is_half = divisor.unsigned_abs() <= rest.unsigned_abs() * 2;
            let away = if (dividend < 0) == (divisor < 0) { 1 } else { -1 };
            return Numeric::checked_small(quotient + if is_half { away } else { 0 }, scale);
        }
        counted(2 * a.bits().max(b.bits()))?;
        // a/10^s / (b/10^t) * 10^scale
        let up = scale + t;
        let quotient = if up >= s {
            divide_rounded(&(a.as_ref() * ten_to(up - s)), &b)
        } else {
            divide_rounded(&a, &(b.as_ref() * ten_to(s - up)))
        };
        Numeric::checked(quotient, scale)
    }

    /// Returns the quotient truncated to a whole number.
    ///
    /// # Errors
    /// `22012`, and those of [`Numeric::add`].
    pub fn div_trunc(&self, other: &Numeric) -> SqlResult<Numeric> {
        if !self.is_finite() || !other.is_finite() || other.is_zero() {
            return self.div(other);
        }
        let (a, b, _) = self.aligned(other);
        counted(a.bits().max(b.bits()))?;
        Numeric::checked(a / b, 0)
    }

    /// Returns the remainder, with the sign of the dividend.
    ///
    /// # Errors
    /// `22012`.
    pub fn rem(&self, other: &Numeric) -> SqlResult<Numeric> {
        if let Some(result) = self.divide_special(other) {
            return result;
        }
        if !self.is_finite() {
            return Ok(Numeric::NAN);
        }
        if !other.is_finite() {
            return Ok(self.clone());
        }
        let (a, b, scale) = self.aligned(other);
        counted(a.bits().max(b.bits()))?;
        Numeric::checked(a % b, scale)
    }

    /// Returns both integers at one scale, and that scale. Both numbers must be finite.
    fn aligned(&self, other: &Numeric) -> (BigInt, BigInt, u32) {
        let scale = self.scale().max(other.scale());
        let at = |number: &Numeric| number.rescaled(scale).parts().map(|(int, _)| int.into_owned()).unwrap_or_default();
        (at(self), at(other), scale)
    }

    /// Returns the number with the opposite sign.
    #[must_use]
    pub fn neg(&self) -> Numeric {
        match &self.0 {
            Repr::NaN => Numeric::NAN,
            Repr::Infinity => Numeric::NEGATIVE_INFINITY,
            Repr::NegativeInfinity => Numeric::INFINITY,
            Repr::Small(value, scale) => Numeric::from_parts(-i128::from(*value), *scale),
            Repr::Big(big) => Numeric::made(-&big.0, u32::from(big.1)),
        }
    }

    /// Returns the absolute value.
    #[must_use]
    pub fn abs(&self) -> Numeric {
        if self.signum() < 0 { self.neg() } else { self.clone() }
    }

    /// Rounds half away from zero to so many digits after the decimal point, or before it for a
    /// negative number of digits.
    #[must_use]
    pub fn round(&self, digits: i32) -> Numeric {
        let Some((unscaled, scale)) = self.parts() else { return self.clone() };
        match u32::try_from(digits) {
            Ok(digits) => self.rescaled(digits.min(MAX_SCALE)),
            // Rounding may add a digit at the front: 6 to the nearest ten is 10.
            Err(_) if self.digits_before_point() < -i64::from(digits) => Numeric::ZERO,
            Err(_) => {
                let power = ten_to(digits.unsigned_abs());
                let whole = divide_rounded(&unscaled, &(ten_to(scale) * &power));
                Numeric::made(whole * power, 0)
            }
        }
    }

    /// Truncates to so many digits after the decimal point, or before it for a negative number of digits.
    #[must_use]
    pub fn trunc(&self, digits: i32) -> Numeric {
        let Some((unscaled, scale)) = self.parts() else { return self.clone() };
        match u32::try_from(digits) {
            Ok(digits) if digits >= scale => self.rescaled(digits.min(MAX_SCALE)),
            Ok(digits) => Numeric::made(unscaled.as_ref() / ten_to(scale - digits), digits),
            Err(_) if self.digits_before_point() < -i64::from(digits) => Numeric::ZERO,
            Err(_) => {
                let power = ten_to(digits.unsigned_abs());
                let whole = unscaled.as_ref() / (ten_to(scale) * &power);
                Numeric::made(whole * power, 0)
            }
        }
    }

    /// Returns the number if the format can hold it. Rounding may have made it longer by a digit, and parts from outside
    /// may have any scale.
    ///
    /// # Errors
    /// `22003`.
    pub fn in_range(self) -> SqlResult<Numeric> {
        let is_long = matches!(&self.0, Repr::Big(big) if big.0.bits() > 400_000);
        let is_beyond = MAX_SCALE < self.scale() || is_long && self.digits_before_point() > MAX_WHOLE_DIGITS;
        if is_beyond { Err(Numeric::overflow()) } else { Ok(self) }
    }

    /// Returns the least whole number that is not less than this one.
    #[must_use]
    pub fn ceil(&self) -> Numeric {
        let Some((unscaled, scale)) = self.parts() else { return self.clone() };
        Numeric::made(unscaled.div_ceil(&ten_to(scale)), 0)
    }

    /// Returns the greatest whole number that is not greater than this one.
    #[must_use]
    pub fn floor(&self) -> Numeric {
        let Some((unscaled, scale)) = self.parts() else { return self.clone() };
        Numeric::made(unscaled.div_floor(&ten_to(scale)), 0)
    }

    /// Returns -1, 0 or 1 as a number. NaN stays.
    #[must_use]
    pub fn sign(&self) -> Numeric {
        if self.is_nan() { Numeric::NAN } else { Numeric::from(i64::from(self.signum())) }
    }

    /// Removes the trailing zeros of the fraction.
    #[must_use]
    pub fn trim_scale(&self) -> Numeric {
        let Some((unscaled, scale)) = self.parts() else { return self.clone() };
        let digits = unscaled.abs().to_str_radix(10);
        let zeros = if self.is_zero() { scale } else { digits.bytes().rev().take_while(|b| *b == b'0').count() as u32 };
        self.rescaled(scale - zeros.min(scale))
    }
}
