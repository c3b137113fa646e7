//! Arithmetic of integers, floats and numerics, and bit operations on integers.

use super::get::{division_by_zero, float, int, mistyped, numeric, out_of_range};
use super::{Operator, operator, prefix};
use crate::Kind;
use crate::datum::Datum;
use statement::error::{SqlError, SqlResult, SqlState};

/// Returns the result of a float operation, if it is in range. `exact_zero` tells that 0 is correct, not an underflow.
pub(super) fn checked_float(result: f64, infinite_operand: bool, exact_zero: bool) -> SqlResult<f64> {
    let refuse = |what| Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("value out of range: {what}")));
    if result.is_infinite() && !infinite_operand {
        return refuse("overflow");
    }
    if result == 0.0 && !exact_zero {
        return refuse("underflow");
    }
    Ok(result)
}

/// Defines the operations of one integer type, in a module of its own.
macro_rules! integers {
    ($module:ident, $variant:ident, $type:ty, $name:literal) => {
        mod $module {
            use super::*;

            fn done(result: Option<i128>) -> SqlResult<Datum> {
                let value = result.and_then(|value| <$type>::try_from(value).ok());
                value.map(Datum::$variant).ok_or_else(|| out_of_range($name))
            }

            #[inline]
            fn both(args: &[Datum]) -> SqlResult<(i128, i128)> {
                Ok((i128::from(int(&args[0])?), i128::from(int(&args[1])?)))
            }

            pub(super) fn add(args: &[Datum]) -> SqlResult<Datum> {
                let (a, b) = both(args)?;
                done(Some(a + b))
            }
            pub(super) fn sub(args: &[Datum]) -> SqlResult<Datum> {
                let (a, b) = both(args)?;
                done(Some(a - b))
            }
            pub(super) fn mul(args: &[Datum]) -> SqlResult<Datum> {
                let (a, b) = both(args)?;
                done(Some(a * b))
            }
            pub(super) fn div(args: &[Datum]) -> SqlResult<Datum> {
                let (a, b) = both(args)?;
                if b == 0 { Err(division_by_zero()) } else { done(Some(a / b)) }
            }
            pub(super) fn rem(args: &[Datum]) -> SqlResult<Datum> {
                let (a, b) = both(args)?;
                if b == 0 { Err(division_by_zero()) } else { done(Some(a % b)) }
            }
            pub(super) fn neg(args: &[Datum]) -> SqlResult<Datum> {
                done(Some(-i128::from(int(&args[0])?)))
            }
            pub(super) fn abs(args: &[Datum]) -> SqlResult<Datum> {
                done(Some(i128::from(int(&args[0])?).abs()))
            }
            pub(super) fn bits(all: &mut Vec<Operator>) {
                const KIND: Kind = Kind::$variant;
                fn value(datum: &Datum) -> SqlResult<$type> {
                    if let Datum::$variant(value) = datum { Ok(*value) } else { Err(mistyped(datum)) }
                }
                // The processor handles a shift by the type's width or more. PostgreSQL shifts an int2 as an int.
                fn count(datum: &Datum) -> SqlResult<u32> {
                    Ok(int(datum)? as u32)
                }
                all.push(operator("&", KIND, KIND, KIND, |a| Ok(Datum::$variant(value(&a[0])? & value(&a[1])?))));
                all.push(operator("|", KIND, KIND, KIND, |a| Ok(Datum::$variant(value(&a[0])? | value(&a[1])?))));
                all.push(operator("#", KIND, KIND, KIND, |a| Ok(Datum::$variant(value(&a[0])? ^ value(&a[1])?))));
                all.push(prefix("~", KIND, KIND, |a| Ok(Datum::$variant(!value(&a[0])?))));
                all.push(operator("<<", KIND, Kind::Int4, KIND, |a| {
                    let bits = <$type>::BITS.max(32) - 1;
                    Ok(Datum::$variant(i64::from(value(&a[0])?).wrapping_shl(count(&a[1])? & bits) as $type))
                }));
                all.push(operator(">>", KIND, Kind::Int4, KIND, |a| {
                    let bits = <$type>::BITS.max(32) - 1;
                    Ok(Datum::$variant(i64::from(value(&a[0])?).wrapping_shr(count(&a[1])? & bits) as $type))
                }));
            }
        }
    };
}

integers!(int2, Int2, i16, "smallint");
integers!(int4, Int4, i32, "integer");
integers!(int8, Int8, i64, "bigint");

/// Defines the operations of one float type, in a module of its own.
macro_rules! floats {
    ($module:ident, $variant:ident, $type:ty) => {
        mod $module {
            use super::*;

            // For float4, computing in float8 and rounding once gives the same result as computing in float4.
            fn done(result: f64, operands: [f64; 2], exact_zero: bool) -> SqlResult<Datum> {
                let result = result as $type;
                let infinite = operands.iter().any(|operand| operand.is_infinite());
                checked_float(f64::from(result), infinite, exact_zero)?;
                Ok(Datum::$variant(result))
            }

            pub(super) fn add(args: &[Datum]) -> SqlResult<Datum> {
                let (a, b) = (float(&args[0])?, float(&args[1])?);
                done(a + b, [a, b], true)
            }
            pub(super) fn sub(args: &[Datum]) -> SqlResult<Datum> {
                let (a, b) = (float(&args[0])?, float(&args[1])?);
                done(a - b, [a, b], true)
            }
            pub(super) fn mul(args: &[Datum]) -> SqlResult<Datum> {
                let (a, b) = (float(&args[0])?, float(&args[1])?);
                done(a * b, [a, b], a == 0.0 || b == 0.0)
            }
            pub(super) fn div(args: &[Datum]) -> SqlResult<Datum> {
                let (a, b) = (float(&args[0])?, float(&args[1])?);
                if b == 0.0 && !a.is_nan() {
                    return Err(division_by_zero());
                }
                done(a / b, [a, 0.0], a == 0.0 || b.is_infinite())
            }
            pub(super) fn neg(args: &[Datum]) -> SqlResult<Datum> {
                Ok(Datum::$variant(-float(&args[0])? as $type))
            }
            pub(super) fn abs(args: &[Datum]) -> SqlResult<Datum> {
                Ok(Datum::$variant(float(&args[0])?.abs() as $type))
            }
        }
    };
}

floats!(float4, Float4, f32);
floats!(float8, Float8, f64);

fn same(args: &[Datum]) -> SqlResult<Datum> {
    Ok(args[0].clone())
}

macro_rules! of_numeric {
    ($method:ident) => {
        |args| Ok(Datum::Numeric(numeric(&args[0])?.$method(numeric(&args[1])?.as_ref())?))
    };
}

/// Absolute value, for functions and the operator `@`.
pub(super) const ABSOLUTE: [(Kind, super::PlainFunction); 6] = [
    (Kind::Int2, int2::abs),
    (Kind::Int4, int4::abs),
    (Kind::Int8, int8::abs),
    (Kind::Float4, float4::abs),
    (Kind::Float8, float8::abs),
    (Kind::Numeric, |args| Ok(Datum::Numeric(numeric(&args[0])?.abs()))),
];

/// Remainder, for functions and the operator `%`.
pub(super) const REMAINDER: [(Kind, super::PlainFunction); 4] =
    [(Kind::Int2, int2::rem), (Kind::Int4, int4::rem), (Kind::Int8, int8::rem), (Kind::Numeric, of_numeric!(rem))];

pub(super) fn operators() -> Vec<Operator> {
    use Kind::{Float4, Float8, Int2, Int4, Int8, Numeric};
    let mut all = Vec::new();
    let integers = [Int2, Int4, Int8];
    let names = ["+", "-", "*", "/"];
    for (left, right) in integers.iter().flat_map(|left| integers.map(|right| (*left, right))) {
        let (result, evals): (Kind, [super::PlainFunction; 4]) = match (left, right) {
            (Int8, _) | (_, Int8) => (Int8, [int8::add, int8::sub, int8::mul, int8::div]),
            (Int4, _) | (_, Int4) => (Int4, [int4::add, int4::sub, int4::mul, int4::div]),
            _ => (Int2, [int2::add, int2::sub, int2::mul, int2::div]),
        };
        all.extend(names.into_iter().zip(evals).map(|(name, eval)| operator(name, left, right, result, eval)));
    }
    for (left, right) in [(Float4, Float4), (Float4, Float8), (Float8, Float4), (Float8, Float8)] {
        let (result, evals): (Kind, [super::PlainFunction; 4]) = match (left, right) {
            (Float4, Float4) => (Float4, [float4::add, float4::sub, float4::mul, float4::div]),
            _ => (Float8, [float8::add, float8::sub, float8::mul, float8::div]),
        };
        all.extend(names.into_iter().zip(evals).map(|(name, eval)| operator(name, left, right, result, eval)));
    }
    let evals: [super::PlainFunction; 4] = [of_numeric!(add), of_numeric!(sub), of_numeric!(mul), of_numeric!(div)];
    all.extend(names.into_iter().zip(evals).map(|(name, eval)| operator(name, Numeric, Numeric, Numeric, eval)));
    let negations: [(Kind, super::PlainFunction); 6] = [
        (Int2, int2::neg),
        (Int4, int4::neg),
        (Int8, int8::neg),
        (Float4, float4::neg),
        (Float8, float8::neg),
        (Numeric, |args| Ok(Datum::Numeric(numeric(&args[0])?.neg()))),
    ];
    all.extend(negations.into_iter().map(|(kind, eval)| prefix("-", kind, kind, eval)));
    all.extend(ABSOLUTE.into_iter().map(|(kind, eval)| prefix("@", kind, kind, eval)));
    all.extend(REMAINDER.into_iter().map(|(kind, eval)| operator("%", kind, kind, kind, eval)));
    all.extend([Int2, Int4, Int8, Float4, Float8, Numeric].map(|kind| prefix("+", kind, kind, same)));
    int2::bits(&mut all);
    int4::bits(&mut all);
    int8::bits(&mut all);
    all
}
