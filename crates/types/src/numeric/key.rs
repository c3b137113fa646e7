//! Keys for indexes and storage: bytes that sort in the order of the numbers.
//!
//! The ordering part is a byte for the sign. For numbers that are neither 0 nor special it goes on with the
//! exponent in base 100, the digits in base 100 without trailing zeros, each plus 1, and a 0. All of these are
//! inverted if the number is negative. So equal numbers of different display scales have equal ordering parts. The
//! display scale follows in two bytes.

use super::{Numeric, Repr, ten_to};
use num_bigint::{BigInt, Sign};
use num_traits::Signed;

const NEGATIVE_INFINITY: u8 = 0;
const NEGATIVE: u8 = 1;
const ZERO: u8 = 2;
const POSITIVE: u8 = 3;
const INFINITY: u8 = 4;
const NAN: u8 = 5;

/// Returns the part of a key that equal numbers have in common.
pub fn ordering_part(key: &[u8]) -> &[u8] {
    &key[..key.len().saturating_sub(2)]
}

/// Appends the ordering part of a number that is not 0, two digits at a time, in the format described above.
fn put_small(value: i64, scale: u16, key: &mut Vec<u8>) {
    let groups = i32::from(scale.div_ceil(2));
    let mut left = u128::from(value.unsigned_abs()) * if scale % 2 == 1 { 10 } else { 1 };
    let mut digits = [0_u8; 11];
    let mut first = digits.len();
    while left != 0 {
        first -= 1;
        digits[first] = (left % 100) as u8;
        left /= 100;
    }
    let digits = &digits[first..];
    let exponent = digits.len() as i32 - groups;
    let end = digits.iter().rposition(|digit| *digit != 0).map_or(0, |last| last + 1);
    let begin = key.len();
    key.push(POSITIVE);
    key.extend_from_slice(&((exponent + (1 << 23)) as u32).to_be_bytes()[1..]);
    key.extend(digits[..end].iter().map(|digit| digit + 1));
    key.push(0);
    if value < 0 {
        key[begin] = NEGATIVE;
        key[begin + 1..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

impl Numeric {
    /// Returns bytes that sort in the order of the numbers. The module describes the format.
    pub fn to_key(&self) -> Vec<u8> {
        let mut key = Vec::with_capacity(16);
        match (&self.0, self.parts()) {
            (Repr::NegativeInfinity, _) => key.push(NEGATIVE_INFINITY),
            (Repr::Infinity, _) => key.push(INFINITY),
            (_, Some(_)) if self.is_zero() => key.push(ZERO),
            (Repr::Small(value, scale), _) => put_small(*value, *scale, &mut key),
            (_, Some((unscaled, scale))) => {
                let groups = scale.div_ceil(2);
                let mut digits = (unscaled.abs() * ten_to(groups * 2 - scale)).magnitude().to_radix_be(100);
                let exponent = digits.len() as i32 - groups as i32;
                while digits.last() == Some(&0) {
                    digits.pop();
                }
                key.push(POSITIVE);
                // 2^23 is greater than any exponent.
                key.extend_from_slice(&((exponent + (1 << 23)) as u32).to_be_bytes()[1..]);
                key.extend(digits.iter().map(|digit| digit + 1));
                key.push(0);
                if unscaled.is_negative() {
                    key[0] = NEGATIVE;
                    key[1..].iter_mut().for_each(|byte| *byte = !*byte);
                }
            }
            _ => key.push(NAN),
        }
        key.extend_from_slice(&(self.scale() as u16).to_be_bytes());
        key
    }

    /// Takes the ordering part of a key from the front of `bytes`. Returns `None` if no such part begins there.
    pub fn take_key<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
        // The exponent may contain any byte. The digits after it do not contain the byte that ends them.
        let digits = |end: u8| Some(4 + bytes.get(4..)?.iter().position(|byte| *byte == end)? + 1);
        let len = match *bytes.first()? {
            NEGATIVE => digits(0xff)?,
            POSITIVE => digits(0)?,
            NEGATIVE_INFINITY | ZERO | INFINITY | NAN => 1,
            _ => return None,
        };
        let (found, after) = bytes.split_at_checked(len)?;
        *bytes = after;
        Some(found)
    }

    /// Returns the number of a key that [`Numeric::to_key`] wrote, and `None` for other bytes.
    pub fn from_key(key: &[u8]) -> Option<Numeric> {
        let (&tag, rest) = key.split_first()?;
        let (middle, scale) = rest.split_last_chunk::<2>()?;
        let scale = u32::from(u16::from_be_bytes(*scale));
        match tag {
            NEGATIVE_INFINITY => return Some(Numeric::NEGATIVE_INFINITY),
            ZERO => return Some(Numeric::from_parts(0, scale as u16)),
            INFINITY => return Some(Numeric::INFINITY),
            NAN => return Some(Numeric::NAN),
            NEGATIVE | POSITIVE => {}
            _ => return None,
        }
        let flip = if tag == NEGATIVE { 0xff } else { 0 };
        let (exponent, digits) = middle.split_first_chunk::<3>()?;
        let exponent = exponent.iter().fold(0_i32, |all, byte| (all << 8) | i32::from(byte ^ flip)) - (1 << 23);
        let (end, digits) = digits.split_last()?;
        if end ^ flip != 0 {
            return None;
        }
        let shift = 2 * (i64::from(exponent) - digits.len() as i64) + i64::from(scale);
        // Up to 18 digits, and as many zeros as fit 128 bits.
        if let (..=9, Ok(scale), -18..=18) = (digits.len(), u16::try_from(scale), shift) {
            let next = |all: i128, byte: &u8| Some(all * 100 + i128::from((byte ^ flip).checked_sub(1)?));
            let magnitude = digits.iter().try_fold(0, next)?;
            let power = 10_i128.pow(shift.unsigned_abs() as u32);
            let magnitude = if 0 <= shift { magnitude * power } else { magnitude / power };
            return Some(Numeric::from_parts(if tag == NEGATIVE { -magnitude } else { magnitude }, scale));
        }
        let digits = digits.iter().map(|byte| (byte ^ flip).checked_sub(1)).collect::<Option<Vec<u8>>>()?;
        let sign = if tag == NEGATIVE { Sign::Minus } else { Sign::Plus };
        let unscaled = BigInt::from_radix_be(sign, &digits, 100)?;
        let unscaled = match u32::try_from(shift) {
            Ok(shift) => unscaled * ten_to(shift),
            Err(_) => unscaled / ten_to(u32::try_from(-shift).ok()?),
        };
        Some(Numeric::made(unscaled, scale))
    }
}
