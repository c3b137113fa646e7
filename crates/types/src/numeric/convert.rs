//! Conversion of [`Numeric`] from and to machine numbers and the binary format of the wire protocol.

use super::{MAX_SCALE, Numeric, Repr, ten_to};
use crate::binary::take;
use num_bigint::{BigInt, Sign};
use num_traits::{Signed, Zero};
use statement::error::{SqlError, SqlResult, SqlState};

const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
const INFINITY: u16 = 0xD000;
const NEGATIVE_INFINITY: u16 = 0xF000;

impl From<i64> for Numeric {
    fn from(value: i64) -> Numeric {
        Numeric(Repr::Small(value, 0))
    }
}

impl From<i32> for Numeric {
    fn from(value: i32) -> Numeric {
        Numeric::from(i64::from(value))
    }
}

impl From<i128> for Numeric {
    fn from(value: i128) -> Numeric {
        Numeric::from_parts(value, 0)
    }
}

impl Numeric {
    /// Converts the `digits` most significant decimal digits of a float: 15 for float8, 6 for float4, as in PostgreSQL.
    pub fn from_f64(value: f64, digits: usize) -> Numeric {
        if value.is_nan() {
            return Numeric::NAN;
        }
        if value.is_infinite() {
            return if value > 0.0 { Numeric::INFINITY } else { Numeric::NEGATIVE_INFINITY };
        }
        let written = format!("{:.*e}", digits - 1, value);
        let (mantissa, exponent) = written.split_once('e').unwrap_or((&written, "0"));
        let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
        Numeric::parse(&format!("{mantissa}e{exponent}")).unwrap_or(Numeric::NAN)
    }

    /// Returns the nearest float8, and infinity beyond its range.
    pub fn to_f64(&self) -> f64 {
        match &self.0 {
            Repr::NaN => f64::NAN,
            Repr::Infinity => f64::INFINITY,
            Repr::NegativeInfinity => f64::NEG_INFINITY,
            Repr::Small(value, 0) => *value as f64,
            Repr::Small(..) | Repr::Big(_) => self.to_string().parse().unwrap_or(f64::NAN),
        }
    }

    /// Rounds to a whole number, if that fits 128 bits.
    pub fn to_i128(&self) -> Option<i128> {
        match &self.0 {
            Repr::Small(value, 0) => Some(i128::from(*value)),
            _ => self.round(0).parts().and_then(|(int, _)| i128::try_from(int.as_ref()).ok()),
        }
    }

    /// Returns the number times 10^`scale`, rounded, if that fits 128 bits: the unscaled value
    /// of a decimal of this scale.
    pub fn to_i128_with_scale(&self, scale: u32) -> Option<i128> {
        match &self.0 {
            Repr::Small(value, own) if u32::from(*own) == scale => Some(i128::from(*value)),
            _ => self.rescaled(scale).parts().and_then(|(int, _)| i128::try_from(int.as_ref()).ok()),
        }
    }

    /// Rounds to a whole number of the named type.
    ///
    /// # Errors
    /// `22003` if it is out of range, `0A000` for NaN and infinity.
    pub fn to_integer<T: TryFrom<i128>>(&self, type_name: &str) -> SqlResult<T> {
        if !self.is_finite() {
            let what = if self.is_nan() { "NaN" } else { "infinity" };
            let message = format!("cannot convert {what} to {type_name}");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        self.to_i128()
            .and_then(|value| T::try_from(value).ok())
            .ok_or_else(|| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{type_name} out of range")))
    }

    /// Appends the wire's binary format: digits in base 10000.
    pub fn send(&self, out: &mut Vec<u8>) {
        let mut header = |digits: u16, weight: i16, sign: u16, scale: u16| {
            out.extend_from_slice(&digits.to_be_bytes());
            out.extend_from_slice(&weight.to_be_bytes());
            out.extend_from_slice(&sign.to_be_bytes());
            out.extend_from_slice(&scale.to_be_bytes());
        };
        let Some((unscaled, scale)) = self.parts() else {
            return match self.0 {
                Repr::NaN => header(0, 0, NAN, 0),
                // PostgreSQL sends a scale of 32 here, an accident of how it keeps the infinities.
                Repr::Infinity => header(0, 0, INFINITY, 32),
                _ => header(0, 0, NEGATIVE_INFINITY, 32),
            };
        };
        if unscaled.is_zero() {
            return header(0, 0, 0, scale as u16);
        }
        let fraction_groups = scale.div_ceil(4);
        let mut digits = (unscaled.abs() * ten_to(fraction_groups * 4 - scale)).magnitude().to_radix_be(100);
        if digits.len() % 2 == 1 {
            digits.insert(0, 0);
        }
        let mut groups: Vec<u16> =
            digits.chunks_exact(2).map(|pair| u16::from(pair[0]) * 100 + u16::from(pair[1])).collect();
        let weight = groups.len() as i64 - i64::from(fraction_groups) - 1;
        while groups.last() == Some(&0) {
            groups.pop();
        }
        let sign = if unscaled.is_negative() { NEGATIVE } else { 0 };
        header(groups.len() as u16, weight as i16, sign, scale as u16);
        for group in groups {
            out.extend_from_slice(&group.to_be_bytes());
        }
    }

    /// Reads the wire's binary format.
    ///
    /// # Errors
    /// `08P01`, `22P03`.
    pub fn receive(bytes: &mut &[u8]) -> SqlResult<Numeric> {
        let invalid = |what: &str| {
            SqlError::new(
                SqlState::INVALID_BINARY_REPRESENTATION,
                format!("invalid {what} in external \"numeric\" value"),
            )
        };
        let mut word = || take(bytes).map(u16::from_be_bytes);
        let (count, weight, sign) = (word()?, word()?, word()?);
        if !matches!(sign, NAN | INFINITY | NEGATIVE_INFINITY | NEGATIVE | 0) {
            return Err(invalid("sign"));
        }
        let scale = word()?;
        if u32::from(scale) > MAX_SCALE {
            return Err(invalid("scale"));
        }
        let mut digits = Vec::with_capacity(2 * usize::from(count));
        for _ in 0..count {
            let group = word()?;
            if group > 9999 {
                return Err(invalid("digit"));
            }
            digits.extend_from_slice(&[(group / 100) as u8, (group % 100) as u8]);
        }
        let sign = match sign {
            NAN => return Ok(Numeric::NAN),
            INFINITY => return Ok(Numeric::INFINITY),
            NEGATIVE_INFINITY => return Ok(Numeric::NEGATIVE_INFINITY),
            NEGATIVE => Sign::Minus,
            _ => Sign::Plus,
        };
        let weight = i64::from(weight as i16);
        let unscaled = BigInt::from_radix_be(sign, &digits, 100).unwrap_or_default();
        // The last group has the weight 10000^(weight - count + 1).
        let exponent = 4 * (weight - i64::from(count) + 1);
        let scale = u32::from(scale);
        let shift = exponent + i64::from(scale);
        // As in PostgreSQL, digits beyond the scale are truncated, not rounded.
        let unscaled =
            if shift >= 0 { unscaled * ten_to(shift as u32) } else { unscaled / ten_to(shift.unsigned_abs() as u32) };
        Numeric::checked(unscaled, scale)
    }
}
