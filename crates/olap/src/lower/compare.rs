//! Comparisons on arrays, and the representations that allow them.

use super::{LoweredExpr, Lowering};
use crate::functions::kernels::{self, Kernel};
use crate::functions::rows::{self, RowComputation};
use crate::values::{Repr, mismatch, scalar};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr as Df, Operator as DfOperator, lit};
use statement::SqlResult;
use types::calendar::DAY;
use types::{Datum, Kind};

/// Returns the comparison operator of this name.
pub(super) fn comparison_named(name: &str) -> Option<DfOperator> {
    Some(match name {
        "=" => DfOperator::Eq,
        "<>" => DfOperator::NotEq,
        "<" => DfOperator::Lt,
        "<=" => DfOperator::LtEq,
        ">" => DfOperator::Gt,
        ">=" => DfOperator::GtEq,
        _ => return None,
    })
}

pub(super) fn binary(left: Df, operator: DfOperator, right: Df) -> Df {
    Df::BinaryExpr(BinaryExpr::new(Box::new(left), operator, Box::new(right)))
}

fn integer_width(repr: Repr) -> Option<u8> {
    match repr {
        Repr::Int2 => Some(2),
        Repr::Int4 => Some(4),
        Repr::Int8 => Some(8),
        _ => None,
    }
}

fn is_float(repr: Repr) -> bool {
    matches!(repr, Repr::Float4 | Repr::Float8)
}

fn is_numeric(repr: Repr) -> bool {
    matches!(repr, Repr::Decimal { .. } | Repr::Keyed(Kind::Numeric))
}

impl Lowering<'_> {
    /// Returns the value in a form whose order and equality as an array are those of SQL.
    pub(super) fn comparable(&self, value: LoweredExpr, kind: Kind) -> SqlResult<Df> {
        let value = self.settled(value);
        Ok(match value.repr {
            Repr::Null => Df::Literal(ScalarValue::Boolean(None), None),
            Repr::Float4 | Repr::Float8 => kernels::call(Kernel::Canonical, vec![value.expr]),
            Repr::Keyed(_) => kernels::call(Kernel::Key, vec![value.expr]),
            Repr::Blanks => trimmed(value),
            Repr::Text if kind == Kind::Bpchar => trimmed(value),
            Repr::Text
            | Repr::Padded(_)
            | Repr::Bool
            | Repr::Int2
            | Repr::Int4
            | Repr::Int8
            | Repr::Oid
            | Repr::Time
            | Repr::Decimal { .. }
            | Repr::Bytes
            | Repr::Uuid
            | Repr::Date
            | Repr::Timestamp => value.expr,
        })
    }

    /// Returns two values in forms that compare with each other; `None` if there are none.
    pub(super) fn pair(
        &self,
        left: LoweredExpr,
        left_kind: Kind,
        right: LoweredExpr,
        right_kind: Kind,
    ) -> SqlResult<Option<(Df, Df)>> {
        let (left, right) = (self.settled(left), self.settled(right));
        let null_like = |other: &LoweredExpr| ScalarValue::try_from(&other.repr.data_type()).map_err(|_| mismatch());
        // A null of no type takes that of the other side: DataFusion compares values of one type only.
        if left.repr == Repr::Null || right.repr == Repr::Null {
            let typed = if left.repr == Repr::Null { &right } else { &left };
            let null = Df::Literal(null_like(typed)?, None);
            let of = |value: &LoweredExpr| if value.repr == Repr::Null { null.clone() } else { value.expr.clone() };
            return Ok(Some((of(&left), of(&right))));
        }
        let (one, two) = (left.repr, right.repr);
        if let (Some(one), Some(two)) = (integer_width(one), integer_width(two)) {
            let to = if one < two { right.repr } else { left.repr };
            return Ok(Some((self.fitted(left, to)?, self.fitted(right, to)?)));
        }
        if is_float(one) && is_float(two) {
            return Ok(Some((self.comparable(left, left_kind)?, self.comparable(right, right_kind)?)));
        }
        if is_numeric(one) && is_numeric(two) {
            return self.numbers(left, right).map(Some);
        }
        let is_text = |repr: Repr| matches!(repr, Repr::Text | Repr::Blanks | Repr::Padded(_));
        if is_text(one) && is_text(two) {
            return Ok(match (left_kind, right_kind) {
                (Kind::Bpchar, Kind::Bpchar) => Some((trimmed(left), trimmed(right))),
                // Trailing blanks count or not by the operator that the binder chose, so rows are compared one by one.
                (Kind::Bpchar, _) | (_, Kind::Bpchar) => None,
                _ => Some((self.fitted(left, Repr::Text)?, self.fitted(right, Repr::Text)?)),
            });
        }
        Ok(match (one, two) {
            // `timestamp` and `timestamptz` compare by the session's time zone, which the numbers do not tell.
            (Repr::Timestamp, Repr::Timestamp) if left_kind != right_kind => None,
            (Repr::Keyed(of), Repr::Keyed(other)) if of == other => {
                Some((self.comparable(left, left_kind)?, self.comparable(right, right_kind)?))
            }
            (Repr::Timestamp, Repr::Timestamp)
            | (Repr::Bool, Repr::Bool)
            | (Repr::Bytes, Repr::Bytes)
            | (Repr::Uuid, Repr::Uuid)
            | (Repr::Date, Repr::Date)
            | (Repr::Time, Repr::Time)
            | (Repr::Oid, Repr::Oid) => Some((left.expr, right.expr)),
            _ => None,
        })
    }

    fn numbers(&self, left: LoweredExpr, right: LoweredExpr) -> SqlResult<(Df, Df)> {
        let (Repr::Decimal { scale: one, precision: a }, Repr::Decimal { scale: two, precision: b }) =
            (left.repr, right.repr)
        else {
            let keyed = Repr::Keyed(Kind::Numeric);
            let key =
                |value: LoweredExpr| self.fitted(value, keyed).map(|value| kernels::call(Kernel::Key, vec![value]));
            return Ok((key(left)?, key(right)?));
        };
        // A constant takes the other's type, so that a scan can use it.
        let scale = one.max(two);
        let precision = (a + (scale - one)).max(b + (scale - two));
        let wide = |own: LoweredExpr, other: Repr| -> SqlResult<Df> {
            match (&own.constant, other) {
                (Some(constant), Repr::Decimal { .. }) if precision <= crate::values::DIGITS_MAX => {
                    let other = match other {
                        Repr::Decimal { precision: own, scale: at } if at == scale => {
                            Repr::Decimal { precision: own.max(precision), scale }
                        }
                        _ => Repr::Decimal { precision, scale },
                    };
                    Ok(Df::Literal(scalar(constant, other)?, None))
                }
                _ => self.shifted(&own, scale),
            }
        };
        Ok((wide(left.clone(), right.repr)?, wide(right, left.repr)?))
    }

    /// Returns a comparison; `None` if arrays do not compare so.
    pub(super) fn comparison(
        &self,
        operator: DfOperator,
        left: &LoweredExpr,
        left_kind: Kind,
        right: &LoweredExpr,
        right_kind: Kind,
    ) -> SqlResult<Option<Df>> {
        if let (Repr::Date, Some(Datum::Timestamp(moment))) = (left.repr, &right.constant) {
            return Ok((right_kind == Kind::Timestamp)
                .then(|| of_date(left.expr.clone(), operator, *moment))
                .flatten());
        }
        if let (Some(Datum::Timestamp(moment)), Repr::Date) = (&left.constant, right.repr) {
            let turned = operator.swap().filter(|_| left_kind == Kind::Timestamp);
            return Ok(turned.and_then(|turned| of_date(right.expr.clone(), turned, *moment)));
        }
        let both = self.pair(left.clone(), left_kind, right.clone(), right_kind)?;
        Ok(both.map(|(left, right)| binary(left, operator, right)))
    }

    /// Returns a test against all values of a list; `None` if arrays do not compare so.
    pub(super) fn any_of_list(&self, value: &LoweredExpr, kind: Kind, list: &[LoweredExpr]) -> SqlResult<Option<Df>> {
        let mut own: Option<Df> = None;
        let mut items = Vec::with_capacity(list.len());
        let mut is_same = true;
        for item in list {
            let Some((left, right)) = self.pair(value.clone(), kind, item.clone(), kind)? else { return Ok(None) };
            is_same &= own.as_ref().is_none_or(|own| *own == left);
            own.get_or_insert_with(|| left.clone());
            items.push((left, right));
        }
        let Some(own) = own else { return Ok(Some(lit(false))) };
        if is_same && list.iter().all(|item| item.constant.is_some()) {
            return Ok(Some(own.in_list(items.into_iter().map(|(_, item)| item).collect(), false)));
        }
        let equal = items.into_iter().map(|(left, right)| binary(left, DfOperator::Eq, right));
        Ok(super::expr::balanced(equal.collect(), Df::or))
    }
}

/// Returns a text without its trailing blanks.
fn trimmed(value: LoweredExpr) -> Df {
    match (value.repr, &value.constant) {
        (Repr::Padded(_), _) => value.expr,
        (_, Some(Datum::Text(text))) => lit_text(text.trim_end_matches(' ')),
        _ => rows::call("trimmed", vec![(value.expr, value.repr)], Repr::Text, true, RowComputation::Trimmed),
    }
}

pub(super) fn lit_text(text: &str) -> Df {
    Df::Literal(ScalarValue::Utf8View(Some(text.to_owned())), None)
}

/// Returns a comparison of a date with a timestamp, as one of dates. Infinite timestamps are infinite dates.
fn of_date(date: Df, operator: DfOperator, moment: i64) -> Option<Df> {
    let literal = |days: i32| Df::Literal(ScalarValue::Date32(Some(days)), None);
    let (days, is_midnight) = match moment {
        i64::MAX => (i32::MAX, true),
        i64::MIN => (i32::MIN, true),
        _ => (i32::try_from(moment.div_euclid(DAY)).ok()?, moment.rem_euclid(DAY) == 0),
    };
    let operator = match operator {
        same if is_midnight => same,
        // After midnight, the day itself is earlier.
        DfOperator::Lt | DfOperator::LtEq => DfOperator::LtEq,
        DfOperator::Gt | DfOperator::GtEq => DfOperator::Gt,
        _ => return None,
    };
    Some(binary(date, operator, literal(days)))
}
