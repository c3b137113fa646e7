//! Values that the driver has no type for: exact decimals and timestamps, in PostgreSQL's binary form.
//!
//! **Invariant:** a decimal keeps its value exactly, or its conversion is an error.

use bytes::{Buf, BufMut, BytesMut};
use std::error::Error;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

/// Value of type `numeric`: a number of ten-thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decimal(pub i64);

/// Value of type `timestamp`: microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp(pub i64);

const NEGATIVE: u16 = 0x4000;
/// Base of PostgreSQL's digits, and so one of them holds the four decimals after the point.
const BASE: u64 = 10_000;
/// Moment from which PostgreSQL counts, 2000-01-01, in microseconds since 1970.
const EPOCH_US: i64 = 946_684_800_000_000;

impl Decimal {
    /// Creates a decimal from cents.
    pub fn of_cents(cents: i64) -> Decimal {
        Decimal(cents * 100)
    }
}

impl ToSql for Decimal {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let mut left = self.0.unsigned_abs();
        let mut digits = Vec::with_capacity(5);
        while left != 0 {
            digits.push((left % BASE) as i16);
            left /= BASE;
        }
        // The first digit is the one after the point, if there is any.
        let weight = digits.len() as i16 - 2;
        let from = digits.iter().take_while(|digit| **digit == 0).count();
        let kept = &digits[from..];
        out.put_i16(kept.len() as i16);
        out.put_i16(if kept.is_empty() { 0 } else { weight });
        out.put_u16(if self.0 < 0 { NEGATIVE } else { 0 });
        out.put_i16(if self.0 % 100 == 0 { 2 } else { 4 });
        kept.iter().rev().for_each(|digit| out.put_i16(*digit));
        Ok(IsNull::No)
    }

    accepts!(NUMERIC);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Decimal {
    fn from_sql(_: &Type, mut raw: &'a [u8]) -> Result<Decimal, Box<dyn Error + Sync + Send>> {
        let broken = || "a numeric that is not exact in ten-thousandths";
        if raw.len() < 8 {
            return Err(broken().into());
        }
        let (count, weight, sign, _scale) = (raw.get_u16(), raw.get_i16(), raw.get_u16(), raw.get_u16());
        if raw.len() != usize::from(count) * 2 || (sign != 0 && sign != NEGATIVE) {
            return Err(broken().into());
        }
        let mut value = 0_i64;
        // The loop goes digit by digit down to the one after the point.
        for place in (-1..=weight.max(-1)).rev() {
            let is_given = place <= weight && raw.has_remaining();
            let digit = if is_given { i64::from(raw.get_u16()) } else { 0 };
            value = value.checked_mul(BASE as i64).and_then(|value| value.checked_add(digit)).ok_or_else(broken)?;
        }
        while raw.has_remaining() {
            if raw.get_u16() != 0 {
                return Err(broken().into());
            }
        }
        Ok(Decimal(if sign == NEGATIVE { -value } else { value }))
    }

    accepts!(NUMERIC);
}

impl ToSql for Timestamp {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_i64(self.0 - EPOCH_US);
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMP);
    to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(value: Decimal) -> Vec<u8> {
        let mut out = BytesMut::new();
        value.to_sql(&Type::NUMERIC, &mut out).expect("it has a binary form");
        out.to_vec()
    }

    #[test]
    fn a_decimal_comes_back_as_it_went() {
        for value in [0, 1, -1, 100, 9_999, 10_000, 123_456_789, -10_000_000_000, i64::MAX / 2, 50_000 * 10_000] {
            let raw = bytes_of(Decimal(value));
            assert_eq!(Decimal::from_sql(&Type::NUMERIC, &raw).expect("it is exact"), Decimal(value));
        }
    }

    #[test]
    fn the_binary_form_is_postgresqls() {
        // select numeric_send(12.34), numeric_send(-10000), numeric_send(0.05)
        assert_eq!(bytes_of(Decimal::of_cents(1_234)), [0, 2, 0, 0, 0, 0, 0, 2, 0, 12, 0x0D, 0x48]);
        assert_eq!(bytes_of(Decimal::of_cents(-1_000_000)), [0, 1, 0, 1, 0x40, 0, 0, 2, 0, 1]);
        assert_eq!(bytes_of(Decimal::of_cents(5)), [0, 1, 0xFF, 0xFF, 0, 0, 0, 2, 0x01, 0xF4]);
    }

    #[test]
    fn what_is_not_exact_is_refused() {
        // 0.00001, NaN, and a piece of one.
        for raw in [&[0, 1, 0xFF, 0xFE, 0, 0, 0, 5, 0x03, 0xE8][..], &[0, 0, 0, 0, 0xC0, 0, 0, 0], &[0, 1]] {
            assert!(Decimal::from_sql(&Type::NUMERIC, raw).is_err(), "{raw:?}");
        }
    }
}
