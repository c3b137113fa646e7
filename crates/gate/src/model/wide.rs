//! Positive numbers with the precision of `f64` and an exponent that does not overflow.
//!
//! A normalising constant of 10,000 transactions has thousands of digits before the point. Scaling the demands cannot bring
//! all constants of one network into the range of `f64` at a time, logarithms would cost a call of `exp` for each term.
//!
//! **Invariant:** the mantissa is 0, or at least 1 and below 2.

use std::ops::{Add, Mul};

/// `mantissa * 2^exponent`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wide {
    mantissa: f64,
    exponent: i64,
}

const MANTISSA_BITS: u32 = 52;
const EXPONENT_BIAS: i64 = 1023;
/// Number of bits by which a summand may be smaller before it leaves the other one as it is.
const BITS_KEPT: i64 = 64;

impl Wide {
    pub(super) const ZERO: Wide = Wide { mantissa: 0.0, exponent: 0 };
    pub(super) const ONE: Wide = Wide { mantissa: 1.0, exponent: 0 };

    /// Creates a number equal to `value`, which must be finite and not below 0; a number too small to be normal counts
    /// as 0.
    pub(super) fn new(value: f64) -> Wide {
        debug_assert!(super::is_amount(value), "{value}");
        if value < f64::MIN_POSITIVE { Wide::ZERO } else { Wide::normalised(value, 0) }
    }

    /// Returns this number divided by `other`, which is above 0, when both are about equally large.
    pub(super) fn ratio(self, other: Wide) -> f64 {
        let shift = self.exponent - other.exponent;
        self.mantissa / other.mantissa * 2_f64.powi(shift.clamp(-2_000, 2_000) as i32)
    }

    /// Moves the exponent of a positive, normal `mantissa` into `exponent`.
    fn normalised(mantissa: f64, exponent: i64) -> Wide {
        let bits = mantissa.to_bits();
        let moved = (bits >> MANTISSA_BITS) as i64 - EXPONENT_BIAS;
        let fraction = bits & ((1 << MANTISSA_BITS) - 1);
        let bits = fraction | ((EXPONENT_BIAS as u64) << MANTISSA_BITS);
        Wide { mantissa: f64::from_bits(bits), exponent: exponent + moved }
    }
}

impl Mul for Wide {
    type Output = Wide;

    fn mul(self, other: Wide) -> Wide {
        let mantissa = self.mantissa * other.mantissa;
        if mantissa == 0.0 { Wide::ZERO } else { Wide::normalised(mantissa, self.exponent + other.exponent) }
    }
}

impl Add for Wide {
    type Output = Wide;

    fn add(self, other: Wide) -> Wide {
        if other.mantissa == 0.0 {
            return self;
        }
        if self.mantissa == 0.0 {
            return other;
        }
        let (large, small) = if self.exponent < other.exponent { (other, self) } else { (self, other) };
        let apart = large.exponent - small.exponent;
        if BITS_KEPT < apart {
            return large;
        }
        let shift = f64::from_bits(((EXPONENT_BIAS - apart) as u64) << MANTISSA_BITS);
        Wide::normalised(large.mantissa + small.mantissa * shift, large.exponent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Goal: where `f64` has the range, both compute the same. Method: random numbers, both ways.
        #[test]
        fn it_agrees_with_plain_numbers(a in 1e-60..1e60_f64, b in 1e-60..1e60_f64) {
            let one = |value: f64| Wide::new(value).ratio(Wide::ONE);
            let close = |wide: Wide, plain: f64| (wide.ratio(Wide::ONE) / plain - 1.0).abs() <= 2.0 * f64::EPSILON;
            prop_assert_eq!(one(a), a);
            prop_assert!(close(Wide::new(a) * Wide::new(b), a * b));
            prop_assert!(close(Wide::new(a) + Wide::new(b), a + b));
            prop_assert!((Wide::new(a).ratio(Wide::new(b)) * b / a - 1.0).abs() <= 4.0 * f64::EPSILON);
        }
    }

    #[test]
    fn it_does_not_overflow() {
        let large = (0..100).fold(Wide::ONE, |product, _| product * Wide::new(2_f64.powi(1_000)));
        let larger = large * Wide::new(3.0);
        assert_eq!(larger.ratio(large), 3.0);
        assert_eq!((larger + large).ratio(large), 4.0);
        assert_eq!(Wide::ONE.ratio(large), 0.0);
        assert_eq!(Wide::ZERO + Wide::ONE, Wide::ONE);
        assert_eq!(Wide::ZERO * large, Wide::ZERO);
    }
}
