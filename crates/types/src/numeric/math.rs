//! Roots, powers and logarithms of [`Numeric`], with the same scales of results as PostgreSQL.
//!
//! The functions compute with integers scaled by a power of ten, with some digits more than the
//! result has, and round once.

use super::{MAX_MADE_SCALE, MIN_SIGNIFICANT, Numeric, counted, divide_rounded, ten_to};
use num_bigint::{BigInt, BigUint};
use num_traits::{One, Signed, Zero};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use std::f64::consts::LOG10_E;

/// Limit on the exponent of e, as in PostgreSQL.
const MAX_EXPONENT: f64 = 6000.0;
/// Number of digits that are computed beyond those of the result.
const GUARD: u32 = 12;
/// Number of digits before the decimal point above which a number is shortened for its logarithm.
const LONG: i64 = 64;

fn error(state: SqlState, message: &str) -> SqlError {
    SqlError::new(state, message)
}

/// Returns a scale within PostgreSQL's limits.
fn made_scale(significant_before: i64, own: u32) -> u32 {
    (MIN_SIGNIFICANT - significant_before).max(i64::from(own)).clamp(0, MAX_MADE_SCALE) as u32
}

/// Returns (`int` / 10^`own`)^`times` times 10^`scale`, rounded. It is computed by squaring, with as many bits as the
/// result with so many `digits` before its decimal point needs. Each multiplication may be wrong in its last bit, and
/// there are fewer than 64 of them, each of which doubles the earlier error.
fn power_floating(int: &BigUint, own: u32, times: i32, digits: u64, scale: u32) -> SqlResult<BigInt> {
    let bits = (digits + u64::from(scale) + u64::from(GUARD)) * 10 / 3 + 128;
    // A mantissa of so many bits, and the exponent of its power of 2.
    let trimmed = |mantissa: BigUint, exponent: i64| {
        let more = mantissa.bits().saturating_sub(bits);
        (mantissa >> more, exponent + more as i64)
    };
    let one = ten_to(own).magnitude().clone();
    let shift = bits + one.bits();
    let base = trimmed((int << shift) / one, -(shift as i64));
    let count = times.unsigned_abs();
    let mut power = base.clone();
    for bit in (0..count.ilog2()).rev() {
        counted(bits)?;
        power = trimmed(&power.0 * &power.0, 2 * power.1);
        if count >> bit & 1 == 1 {
            power = trimmed(&power.0 * &base.0, power.1 + base.1);
        }
    }
    if times < 0 {
        power = trimmed((BigUint::one() << (2 * bits)) / power.0, -(2 * bits as i64) - power.1);
    }
    let fixed = power.0 * ten_to(scale).magnitude();
    let below = power.1.unsigned_abs();
    Ok(BigInt::from(match power.1 {
        0.. => fixed << below,
        _ if fixed.bits() + 1 < below => BigUint::zero(),
        _ => (fixed + (BigUint::one() << (below - 1))) >> below,
    }))
}

/// Returns the square root of a number that is not negative, rounded down. It is computed by Newton's method, whose
/// precision doubles with each step and whose divisions have no more digits than that (M. Dickinson, "Computing
/// integer square roots", 2019).
fn root(of: &BigInt) -> SqlResult<BigInt> {
    if !of.is_positive() {
        return Ok(BigInt::zero());
    }
    let half = (of.bits() - 1) / 2;
    let (mut root, mut precision) = (BigInt::one(), 0);
    // After each step (root - 1)² < of >> 2 (half - precision) < (root + 1)².
    for shift in (0..u64::BITS - half.leading_zeros()).rev() {
        counted(root.bits())?;
        let before = precision;
        precision = half >> shift;
        let quotient = (of >> (2 * half - before - precision + 1)) / &root;
        root = (root << (precision - before - 1)) + quotient;
    }
    if &root * &root > *of {
        root -= 1;
    }
    Ok(root)
}

/// Returns ln of `x` / `one`, times `one`.
fn ln_fixed(x: &BigInt, one: &BigInt) -> SqlResult<BigInt> {
    // Square roots bring it near 1, where the series converges fast. Each halves the logarithm.
    let mut x = x.clone();
    let mut halvings = 0_u32;
    let near = one / 64;
    while (&x - one).abs() > near {
        counted(x.bits())?;
        x = root(&(&x * one))?;
        halvings += 1;
    }
    // ln x = 2 artanh((x - 1) / (x + 1))
    let z = (&x - one) * one / (&x + one);
    let square = &z * &z / one;
    let (mut power, mut sum, mut n) = (z.clone(), z, 1_u32);
    while !power.is_zero() {
        counted(one.bits())?;
        power = &power * &square / one;
        n += 2;
        sum += &power / n;
    }
    Ok(sum << (halvings + 1))
}

/// Returns e to the power of `x` / `one`, times `one`.
fn exp_fixed(x: &BigInt, one: &BigInt) -> SqlResult<BigInt> {
    let halvings = (x.bits() + 8).saturating_sub(one.bits()) as u32;
    let x = x >> halvings;
    let (mut term, mut sum, mut n) = (one.clone(), one.clone(), 0_u32);
    while !term.is_zero() {
        counted(one.bits())?;
        n += 1;
        term = &term * &x / one / n;
        sum += &term;
    }
    for _ in 0..halvings {
        counted(sum.bits())?;
        sum = &sum * &sum / one;
    }
    Ok(sum)
}

impl Numeric {
    /// Returns the unscaled integer at this scale.
    fn fixed(&self, scale: u32) -> BigInt {
        self.rescaled(scale).parts().map(|(int, _)| int.into_owned()).unwrap_or_default()
    }

    /// Returns the square root.
    ///
    /// # Errors
    /// `2201F` for negative numbers.
    pub fn sqrt(&self) -> SqlResult<Numeric> {
        if self.signum() < 0 {
            return Err(error(
                SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
                "cannot take square root of a negative number",
            ));
        }
        if !self.is_finite() {
            return Ok(self.clone());
        }
        let weight = self.weight_and_first().0;
        let before = (weight + 1) * 2 - 1;
        let scale = made_scale(before, self.scale());
        self.sqrt_at(scale)
    }

    /// Returns the square root of a number that is not negative, with so many digits after the decimal point.
    ///
    /// # Errors
    /// None for such numbers.
    pub(crate) fn sqrt_at(&self, scale: u32) -> SqlResult<Numeric> {
        let wide = root(&self.fixed(2 * (scale + 1)))?;
        Numeric::checked(divide_rounded(&wide, &BigInt::from(10)), scale)
    }

    /// Estimates the number of digits of the natural logarithm before the decimal point. The estimate is
    /// PostgreSQL's, as scales depend on it.
    fn ln_weight(&self) -> i64 {
        let (weight, first) = self.weight_and_first();
        if *self >= Numeric::from_parts(9, 1) && *self <= Numeric::from_parts(11, 1) {
            let Ok(rest) = self.sub(&Numeric::from(1)) else { return 0 };
            if rest.is_zero() {
                return 0;
            }
            let (weight, first) = rest.weight_and_first();
            return weight * 4 + (first as f64).log10() as i64;
        }
        // The first two digits in base 10000, if there are two.
        let two = self.leading_two(weight);
        let (digits, weight) = match two {
            Some(two) => (two, weight * 4 - 4),
            None => (first, weight * 4),
        };
        let ln = (digits as f64).ln() + weight as f64 * std::f64::consts::LN_10;
        ln.abs().log10() as i64
    }

    /// Returns the first two digits in base 10000 as one number, if there is more than one such digit.
    fn leading_two(&self, weight: i64) -> Option<i64> {
        let (int, scale) = self.parts()?;
        let int = int.abs();
        let shift = i64::from(scale) + 4 * (weight - 1);
        let two = if shift >= 0 { &int / ten_to(shift as u32) } else { &int * ten_to(shift.unsigned_abs() as u32) };
        let two = i64::try_from(two).ok()?;
        let exact = shift <= 0 || (&int % ten_to(shift as u32)).is_zero();
        (two % 10_000 != 0 || !exact).then_some(two)
    }

    /// Returns the natural logarithm times 10^`scale`, rounded.
    fn ln_at(&self, scale: u32) -> SqlResult<BigInt> {
        let before = self.digits_before_point();
        if LONG < before { self.ln_of_long(before as u32, scale) } else { self.ln_of_all(scale) }
    }

    /// Returns the same for a number with so many digits before the decimal point, by adding the logarithms of its
    /// first digits and of a power of ten. The logarithm has no more digits than a number holds, so the digits left out
    /// are far beyond the result's last digit.
    fn ln_of_long(&self, before: u32, scale: u32) -> SqlResult<BigInt> {
        let wide = scale + 2 * GUARD + 8;
        let one = ten_to(wide);
        let (int, own) = self.parts().unwrap_or_default();
        counted(int.bits())?;
        let digits = before + own;
        let first =
            if wide < digits { int.as_ref() / ten_to(digits - wide) } else { int.as_ref() * ten_to(wide - digits) };
        let ln = ln_fixed(&first, &one)? + ln_fixed(&(&one * 10), &one)? * before;
        Ok(divide_rounded(&ln, &ten_to(wide - scale)))
    }

    /// Returns the same from all digits.
    fn ln_of_all(&self, scale: u32) -> SqlResult<BigInt> {
        // Square roots near 1 and large powers both cost digits.
        let extra = GUARD + (self.digits_before_point().unsigned_abs() as u32 / 4).min(2000) + 8;
        let wide = scale.max(self.scale()) + extra + self.digits_before_point().min(0).unsigned_abs() as u32;
        let ln = ln_fixed(&self.fixed(wide), &ten_to(wide))?;
        Ok(divide_rounded(&ln, &ten_to(wide - scale)))
    }

    fn check_logarithm(&self) -> SqlResult<()> {
        match self.signum() {
            0 => Err(error(SqlState::INVALID_ARGUMENT_FOR_LOGARITHM, "cannot take logarithm of zero")),
            -1 => Err(error(SqlState::INVALID_ARGUMENT_FOR_LOGARITHM, "cannot take logarithm of a negative number")),
            _ => Ok(()),
        }
    }

    /// Returns the natural logarithm.
    ///
    /// # Errors
    /// `2201E` unless the number is positive.
    pub fn ln(&self) -> SqlResult<Numeric> {
        self.check_logarithm()?;
        if !self.is_finite() {
            return Ok(self.clone());
        }
        let scale = made_scale(self.ln_weight(), self.scale());
        Numeric::checked(self.ln_at(scale)?, scale)
    }

    /// Returns the logarithm of `self` to a base.
    ///
    /// # Errors
    /// `2201E` unless both are positive; `22012` for base 1.
    pub fn log(&self, base: &Numeric) -> SqlResult<Numeric> {
        base.check_logarithm()?;
        self.check_logarithm()?;
        if !self.is_finite() || !base.is_finite() {
            return Ok(match (self.is_nan() || base.is_nan(), self.is_finite(), base.is_finite()) {
                (true, ..) | (_, false, false) => Numeric::NAN,
                (_, false, _) => Numeric::INFINITY,
                _ => Numeric::ZERO,
            });
        }
        let weight = self.ln_weight() - base.ln_weight();
        let scale = made_scale(weight, self.scale().max(base.scale()));
        let wide = (i64::from(scale) + weight.abs() + self.ln_weight().abs() + base.ln_weight().abs()) as u32 + GUARD;
        let (dividend, divisor) = (self.ln_at(wide)?, base.ln_at(wide)?);
        if divisor.is_zero() {
            return Err(error(SqlState::DIVISION_BY_ZERO, "division by zero"));
        }
        Numeric::checked(divide_rounded(&(dividend * ten_to(scale)), &divisor), scale)
    }

    /// Returns e to this power.
    ///
    /// # Errors
    /// `22003`.
    pub fn exp(&self) -> SqlResult<Numeric> {
        if !self.is_finite() {
            return Ok(if self.signum() < 0 { Numeric::ZERO } else { self.clone() });
        }
        let value = self.to_f64();
        if value.abs() >= MAX_EXPONENT {
            return if value > 0.0 { Err(Numeric::overflow()) } else { Ok(Numeric::from_parts(0, 1000)) };
        }
        let value = value * LOG10_E;
        let scale = made_scale(value as i64, self.scale());
        let wide = scale + GUARD + value.max(0.0) as u32 + 8;
        let result = exp_fixed(&self.fixed(wide), &ten_to(wide))?;
        Numeric::checked(divide_rounded(&result, &ten_to(wide - scale)), scale)
    }

    /// Returns the product of the whole numbers up to this one. More than 32,177 of them have too many digits.
    ///
    /// # Errors
    /// `22003`
    pub fn factorial(of: i64) -> SqlResult<Numeric> {
        let mut product = BigInt::one();
        for factor in 2..=of {
            pulse::tick((product.bits() / 64 + 1) as usize)?;
            product *= factor;
        }
        Numeric::checked(product, 0)
    }

    /// Returns this number to a power.
    ///
    /// # Errors
    /// `2201F` for 0 to a negative power and for negative numbers to fractional powers; `22003`.
    pub fn power(&self, exponent: &Numeric) -> SqlResult<Numeric> {
        if !self.is_finite() || !exponent.is_finite() {
            return self.power_special(exponent);
        }
        if self.is_zero() && exponent.signum() < 0 {
            return Err(error(
                SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
                "zero raised to a negative power is undefined",
            ));
        }
        let whole = exponent.trim_scale();
        if self.signum() < 0 && whole.scale() > 0 {
            return Err(error(
                SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
                "a negative number raised to a non-integer power yields a complex result",
            ));
        }
        if whole.scale() == 0
            && let Some(times) = whole.to_i128().and_then(|times| i32::try_from(times).ok())
        {
            return self.power_whole(times);
        }
        if self.is_zero() {
            return Ok(Numeric::from_parts(0, 16));
        }
        let odd = whole.scale() == 0 && !whole.rem(&Numeric::from(2))?.is_zero();
        let base = self.abs();
        // The estimate, and the place where it is rounded, are PostgreSQL's: the scale depends on them.
        let rough = (8 - base.ln_weight()).max(0) as u32;
        let product = Numeric::made(base.ln_at(rough)?, rough).mul(exponent)?.rescaled(rough).to_f64();
        if product.abs() >= MAX_EXPONENT {
            return if product > 0.0 { Err(Numeric::overflow()) } else { Ok(Numeric::from_parts(0, 1000)) };
        }
        let estimate = product * LOG10_E;
        let scale = made_scale(estimate as i64, self.scale().max(exponent.scale()));
        let wide = scale + GUARD + estimate.abs() as u32 + 8;
        let more = wide + exponent.digits_before_point().max(0) as u32;
        let ln = base.ln_at(more)? * exponent.fixed(exponent.scale());
        let ln = divide_rounded(&ln, &ten_to(more - wide + exponent.scale()));
        let result = divide_rounded(&exp_fixed(&ln, &ten_to(wide))?, &ten_to(wide - scale));
        Numeric::checked(if odd && self.signum() < 0 { -result } else { result }, scale)
    }

    fn power_special(&self, exponent: &Numeric) -> SqlResult<Numeric> {
        let one = Numeric::from(1);
        if self.is_nan() {
            return Ok(if exponent.is_zero() { one } else { Numeric::NAN });
        }
        if exponent.is_nan() {
            return Ok(if *self == one { one } else { Numeric::NAN });
        }
        if self.is_zero() && exponent.signum() < 0 {
            return Err(error(
                SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
                "zero raised to a negative power is undefined",
            ));
        }
        if *self == one || exponent.is_zero() {
            return Ok(one);
        }
        if exponent.is_finite() {
            let whole = exponent.trim_scale();
            if self.signum() < 0 && whole.scale() > 0 {
                return Err(error(
                    SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
                    "a negative number raised to a non-integer power yields a complex result",
                ));
            }
            let odd = !whole.rem(&Numeric::from(2))?.is_zero();
            return Ok(match (exponent.signum() > 0, self.signum() < 0 && odd) {
                (false, _) => Numeric::ZERO,
                (true, true) => Numeric::NEGATIVE_INFINITY,
                (true, false) => Numeric::INFINITY,
            });
        }
        let size = self.abs().cmp(&one);
        Ok(match (size.is_eq(), size.is_gt() == (exponent.signum() > 0)) {
            (true, _) => one,
            (false, true) => Numeric::INFINITY,
            (false, false) => Numeric::ZERO,
        })
    }

    fn power_whole(&self, times: i32) -> SqlResult<Numeric> {
        if self.is_zero() {
            let one = if times == 0 { BigInt::one() } else { BigInt::zero() };
            return Ok(Numeric::made(one * ten_to(16), 16));
        }
        let (int, own) = self.parts().unwrap_or_default();
        let digits = self.abs().digits();
        let leading = int.abs().to_str_radix(10)[..digits.min(17) as usize].parse::<f64>().unwrap_or(1.0);
        let log = leading.log10() + (digits - digits.min(17)) as f64 - f64::from(own);
        let size = f64::from(times) * log;
        if size > 131_072.0 + 1.0 {
            return Err(Numeric::overflow());
        }
        let scale = made_scale(0, own);
        if size < -f64::from(scale) - 1.0 {
            return Ok(Numeric::made(BigInt::zero(), scale));
        }
        counted(((digits as u64).saturating_mul(u64::from(times.unsigned_abs()))).min(400_000) * 4)?;
        // The result is exact where that is short: a whole number's power is no longer than the limit above allows.
        let is_short = (digits as u64).saturating_mul(u64::from(times.unsigned_abs())) < 200_000;
        let result = if is_short || (own == 0 && times >= 0) {
            let power = int.pow(times.unsigned_abs());
            let below = own * times.unsigned_abs();
            match (times >= 0, scale >= below) {
                (true, true) => power * ten_to(scale - below),
                (true, false) => divide_rounded(&power, &ten_to(below - scale)),
                (false, _) => divide_rounded(&ten_to(scale + below), &power),
            }
        } else {
            let result = power_floating(int.magnitude(), own, times, size.max(0.0) as u64, scale)?;
            if self.signum() < 0 && times % 2 != 0 { -result } else { result }
        };
        Numeric::checked(result, scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the logarithm of a long number equals the one of all its digits. Method: both ways, at all scales.
    #[test]
    fn long_logarithms_are_exact() {
        for digits in (LONG as usize + 1..400).step_by(13) {
            for (at, end) in ["", ".5", ".000000000000000000000001"].into_iter().enumerate() {
                let text: String =
                    (0..digits).map(|place| char::from(b'1' + ((place * 7 + at * 5) % 9) as u8)).collect();
                for text in [format!("{text}{end}"), format!("1{}{end}", "0".repeat(digits)), "9".repeat(digits)] {
                    let number = Numeric::parse(&text).expect("a number");
                    for scale in [0, 1, 13, 40, 200] {
                        assert_eq!(number.ln_at(scale), number.ln_of_all(scale), "ln of {text} to {scale} digits");
                    }
                }
            }
        }
    }
}
