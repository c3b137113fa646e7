//! Arithmetic, and conversions between representations of numbers.

use super::{LoweredExpr, Lowering};
use crate::functions::can_raise;
use crate::functions::kernels::{self, Arithmetic, Kernel};
use crate::functions::rows::{self, RowComputation};
use crate::values::{DIGITS_MAX, Repr, mismatch, scalar};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::{Expr as Df, cast, lit};
use statement::{SqlError, SqlResult};
use types::{Datum, Kind};

/// Returns the precision, at most 38, and true if an overflow must be checked.
fn within(precision: u8) -> (u8, bool) {
    (precision.min(DIGITS_MAX), DIGITS_MAX < precision)
}

impl Lowering<'_> {
    /// Returns arithmetic on arrays; `None` if it must be evaluated row by row.
    pub(super) fn arithmetic(
        &self,
        name: &str,
        left: &LoweredExpr,
        right: &LoweredExpr,
        result: Kind,
    ) -> SqlResult<Option<LoweredExpr>> {
        let operation = match name {
            "+" => Arithmetic::Add,
            "-" => Arithmetic::Subtract,
            "*" => Arithmetic::Multiply,
            "/" => Arithmetic::Divide,
            _ => return Ok(None),
        };
        if left.scale.is_some() || right.scale.is_some() {
            return Ok(None);
        }
        let is_integer = |repr: Repr| matches!(repr, Repr::Int2 | Repr::Int4 | Repr::Int8);
        if is_integer(left.repr) && is_integer(right.repr) {
            let Ok(to @ (Repr::Int2 | Repr::Int4 | Repr::Int8)) = Repr::of_kind(result) else { return Ok(None) };
            let operands = vec![self.fitted(left.clone(), to)?, self.fitted(right.clone(), to)?];
            return Ok(Some(LoweredExpr::of(kernels::call(Kernel::Integers(operation, to), operands), to)));
        }
        let (Repr::Decimal { precision: a, scale: one }, Repr::Decimal { precision: b, scale: two }) =
            (left.repr, right.repr)
        else {
            return Ok(None);
        };
        let (scale, precision, shifts) = match operation {
            Arithmetic::Add | Arithmetic::Subtract => {
                let scale = one.max(two);
                (scale, (a - one.min(a)).max(b - two.min(b)) + 1 + scale, [scale - one, scale - two])
            }
            Arithmetic::Multiply => (one + two, a + b, [0, 0]),
            // The scale of a quotient depends on its operands.
            Arithmetic::Divide => return Ok(None),
        };
        if DIGITS_MAX < scale {
            return Ok(None);
        }
        let (precision, checked) = within(precision);
        let result = Repr::Decimal { precision, scale };
        let [left_shift, right_shift] = shifts;
        let kernel = Kernel::Decimals { operation, left_shift, right_shift, result, checked };
        Ok(Some(LoweredExpr::of(kernels::call(kernel, vec![left.expr.clone(), right.expr.clone()]), result)))
    }

    /// Returns a decimal with this scale, which is at least its own.
    pub(super) fn shifted(&self, value: &LoweredExpr, to: u8) -> SqlResult<Df> {
        Ok(match value.repr {
            Repr::Decimal { scale, precision } if scale < to => {
                let (wide, checked) = within(precision + (to - scale));
                let result = Repr::Decimal { precision: wide, scale: to };
                let literal = value.constant.as_ref().and_then(|constant| scalar(constant, result).ok());
                match literal.filter(|_| !checked) {
                    Some(literal) => Df::Literal(literal, None),
                    None => {
                        kernels::call(Kernel::Shifted { shift: to - scale, result, checked }, vec![value.expr.clone()])
                    }
                }
            }
            Repr::Decimal { .. } => value.expr.clone(),
            _ => return Err(mismatch()),
        })
    }

    /// Returns the value in a form that determines its scale.
    pub(super) fn settled(&self, value: LoweredExpr) -> LoweredExpr {
        let LoweredExpr { expr, repr, constant, scale: Some(scale) } = value else { return value };
        let arguments = vec![(expr, repr), (*scale, Repr::Int8)];
        let to = Repr::Keyed(Kind::Numeric);
        LoweredExpr {
            expr: rows::call("numeric", arguments, to, true, RowComputation::Rounded),
            repr: to,
            constant,
            scale: None,
        }
    }

    /// Returns a representation for all of these values.
    pub(super) fn unified<'v>(&self, values: impl Iterator<Item = &'v LoweredExpr>) -> SqlResult<Repr> {
        let own = |value: &LoweredExpr| if value.scale.is_some() { Repr::Keyed(Kind::Numeric) } else { value.repr };
        let mut found = Repr::Null;
        for repr in values.map(own) {
            found = match (found, repr) {
                (Repr::Null, repr) => repr,
                (found, Repr::Null) => found,
                (found, repr) if found == repr => found,
                (Repr::Decimal { precision: a, scale }, Repr::Decimal { precision: b, scale: two }) if scale == two => {
                    Repr::Decimal { precision: a.max(b), scale }
                }
                (
                    Repr::Decimal { .. } | Repr::Keyed(Kind::Numeric),
                    Repr::Decimal { .. } | Repr::Keyed(Kind::Numeric),
                ) => Repr::Keyed(Kind::Numeric),
                (Repr::Blanks | Repr::Padded(_), Repr::Blanks | Repr::Padded(_)) => Repr::Blanks,
                // A text beside char(n) is a constant of that type.
                (Repr::Text, Repr::Blanks | Repr::Padded(_)) | (Repr::Blanks | Repr::Padded(_), Repr::Text) => {
                    Repr::Blanks
                }
                _ => return Err(SqlError::unsupported("values of different types as analytics")),
            };
        }
        Ok(found)
    }

    /// Converts the value to this representation.
    pub(super) fn fitted(&self, value: LoweredExpr, to: Repr) -> SqlResult<Df> {
        let value = self.settled(value);
        if value.repr == to {
            return Ok(value.expr);
        }
        let data_type = to.data_type();
        if value.repr == Repr::Null {
            return Ok(Df::Literal(ScalarValue::try_from(&data_type).map_err(|_| mismatch())?, None));
        }
        Ok(match (value.repr, to) {
            (Repr::Int2 | Repr::Int4, Repr::Int4 | Repr::Int8) => match &value.constant {
                Some(Datum::Int2(number)) if to == Repr::Int4 => lit(i32::from(*number)),
                Some(Datum::Int2(number)) => lit(i64::from(*number)),
                Some(Datum::Int4(number)) if to == Repr::Int8 => lit(i64::from(*number)),
                _ => cast(value.expr, data_type),
            },
            (Repr::Decimal { scale, .. }, Repr::Decimal { scale: wanted, .. }) if scale == wanted => {
                cast(value.expr, data_type)
            }
            (Repr::Decimal { .. }, Repr::Keyed(Kind::Numeric)) => match &value.constant {
                Some(constant) => Df::Literal(scalar(constant, to)?, None),
                None => rows::call("numeric", vec![(value.expr, value.repr)], to, true, RowComputation::Numeric),
            },
            (Repr::Blanks, Repr::Text) | (Repr::Text, Repr::Blanks) => value.expr,
            (Repr::Padded(length), Repr::Text | Repr::Blanks) => kernels::call(Kernel::Pad(length), vec![value.expr]),
            (Repr::Float4, Repr::Float8) => value.expr,
            _ => return Err(SqlError::unsupported("values of different types as analytics")),
        })
    }

    /// Returns the value of the first condition that is true.
    pub(super) fn choice(&self, whens: Vec<(Df, LoweredExpr)>, otherwise: LoweredExpr) -> SqlResult<LoweredExpr> {
        let all = || whens.iter().map(|(_, value)| value).chain([&otherwise]);
        // Decimals of different scales get the largest one, with each value's own scale beside it.
        let decimals = all().map(|value| match value.repr {
            Repr::Null => Some((0, 0)),
            Repr::Decimal { precision, scale } => Some((precision - scale.min(precision), scale)),
            _ => None,
        });
        let decimals: Option<Vec<(u8, u8)>> = decimals.collect();
        let to = self.unified(all());
        if let (Ok(Repr::Keyed(Kind::Numeric)), Some(decimals)) = (&to, decimals) {
            let scale = decimals.iter().map(|(_, scale)| *scale).max().unwrap_or(0);
            let whole = decimals.iter().map(|(whole, _)| *whole).max().unwrap_or(0);
            if whole + scale <= DIGITS_MAX {
                let repr = Repr::Decimal { precision: whole + scale, scale };
                let null = ScalarValue::try_from(&repr.data_type()).map_err(|_| mismatch())?;
                let value = |value: &LoweredExpr| match value.repr {
                    Repr::Null => Ok(Df::Literal(null.clone(), None)),
                    _ => self.shifted(value, scale).map(|shifted| cast(shifted, repr.data_type())),
                };
                let own = |value: &LoweredExpr| match (&value.scale, value.repr) {
                    (Some(own), _) => (**own).clone(),
                    (None, Repr::Decimal { scale, .. }) => lit(i64::from(scale)),
                    (None, _) => lit(0_i64),
                };
                let values =
                    whens.iter().map(|(when, then)| Ok((when.clone(), value(then)?))).collect::<SqlResult<_>>()?;
                let scales = whens.iter().map(|(when, then)| (when.clone(), own(then))).collect();
                let expr = case(values, value(&otherwise)?);
                let scale = Some(Box::new(case(scales, own(&otherwise))));
                return Ok(LoweredExpr { expr, repr, constant: None, scale });
            }
        }
        let to = to?;
        let whens = whens.into_iter().map(|(when, then)| Ok((when, self.fitted(then, to)?)));
        let (whens, otherwise) = (whens.collect::<SqlResult<Vec<(Df, Df)>>>()?, self.fitted(otherwise, to)?);
        let raises = whens.iter().flat_map(|(when, then)| [when, then]).chain([&otherwise]).any(can_raise);
        if to == Repr::Bool && raises {
            let flag = |value: Df| kernels::call(Kernel::Flag, vec![value]);
            let whens = whens.into_iter().map(|(when, then)| (when, flag(then))).collect();
            let expr = kernels::call(Kernel::Truth, vec![case(whens, flag(otherwise))]);
            return Ok(LoweredExpr::of(expr, to));
        }
        Ok(LoweredExpr::of(case(whens, otherwise), to))
    }
}

pub(super) fn case(whens: Vec<(Df, Df)>, otherwise: Df) -> Df {
    let whens = whens.into_iter().map(|(when, then)| (Box::new(when), Box::new(then))).collect();
    Df::Case(Case::new(None, whens, Some(Box::new(otherwise))))
}
