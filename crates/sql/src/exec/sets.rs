//! Set-returning functions.
//!
//! **Invariant:** values are made as they are consumed.

use super::{RowStack, Run};
use crate::context::Env;
use query::plan::{Expr, SetCall, SetFunction};
use statement::error::{SqlError, SqlResult, SqlState};
use types::datum::Datum;
use types::ops::arrays::split;
use types::ops::{compare, impossible};

/// Remaining values of a set.
pub(super) type SetValues = Box<dyn Iterator<Item = SqlResult<Datum>>>;

/// Returns the next values of several sets, null for those that have ended; false once all have ended.
pub(super) fn next_of(sets: &mut [Option<SetValues>], places: &mut [Datum]) -> SqlResult<bool> {
    let mut found = false;
    for (set, place) in sets.iter_mut().zip(places) {
        *place = match set.as_mut().and_then(Iterator::next) {
            Some(value) => {
                found = true;
                value?
            }
            None => {
                *set = None;
                Datum::Null
            }
        };
    }
    Ok(found)
}

impl Run<'_> {
    /// Starts these sets.
    pub(super) fn sets(&self, calls: &[SetCall], rows: &RowStack<'_>) -> SqlResult<Vec<Option<SetValues>>> {
        calls.iter().map(|call| self.set_of(call, rows)).collect()
    }

    fn set_of(&self, call: &SetCall, rows: &RowStack<'_>) -> SqlResult<Option<SetValues>> {
        let SetCall { function, arguments } = call;
        if let (SetFunction::Routine, [call]) = (function, &arguments[..]) {
            return Ok(Some(Box::new(self.routine_set(call, rows)?.into_iter().map(Ok))));
        }
        let mut values =
            arguments.iter().map(|argument: &Expr| self.value(argument, rows)).collect::<SqlResult<Vec<_>>>()?;
        if let SetFunction::One = function {
            return Ok(values.pop().map(|value| Box::new(std::iter::once(Ok(value))) as SetValues));
        }
        Ok(Some(match (function, &mut values[..]) {
            // A null argument gives no rows.
            (SetFunction::StringToTable, [Datum::Null, ..]) => return Ok(None),
            (SetFunction::StringToTable, values) => {
                let mut parts: Vec<Datum> = Vec::new();
                split(values, |part| {
                    parts.push(part);
                    Ok(())
                })?;
                Box::new(parts.into_iter().map(Ok))
            }
            (_, values) if values.iter().any(Datum::is_null) => return Ok(None),
            (SetFunction::Series { kind, step: step_kind, add, zero }, [from, to, step]) => {
                let (from, to, step) = (std::mem::take(from), std::mem::take(to), std::mem::take(step));
                finite(&from, "start value")?;
                finite(&to, "stop value")?;
                finite(&step, "step size")?;
                let direction = compare(&step, zero, *step_kind);
                if direction.is_eq() {
                    return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "step size cannot equal zero"));
                }
                let (kind, add, env) = (*kind, *add, self.env.clone());
                let mut next = Some(from);
                Box::new(std::iter::from_fn(move || {
                    let value = next.take()?;
                    if compare(&value, &to, kind) == direction {
                        return None;
                    }
                    match after(&value, &step, add, &env) {
                        Ok(after) => next = after,
                        Err(error) => return Some(Err(error)),
                    }
                    Some(Ok(value))
                }))
            }
            (SetFunction::Unnest, [Datum::Array(items)]) => Box::new(std::mem::take(items).into_iter().map(Ok)),
            (SetFunction::Subscripts { first }, [Datum::Array(items), Datum::Int4(1), Datum::Bool(reverse)]) => {
                let (first, last, reverse) = (*first, *first + items.len() as i32 - 1, *reverse);
                let number = move |at: i32| Ok(Datum::Int4(if reverse { first + last - at } else { at }));
                Box::new((first..=last).map(number))
            }
            // Arrays have one dimension.
            (SetFunction::Subscripts { .. }, [Datum::Array(_), Datum::Int4(_), Datum::Bool(_)]) => return Ok(None),
            (function, _) => return Err(impossible(&format!("{function:?} is given values that it does not take"))),
        }))
    }
}

/// Returns the next value of a series; `None` at the end of the type's range.
fn after(value: &Datum, step: &Datum, add: query::plan::Eval, env: &Env) -> SqlResult<Option<Datum>> {
    match (value, step) {
        (Datum::Int4(value), Datum::Int4(step)) => Ok(value.checked_add(*step).map(Datum::Int4)),
        (Datum::Int8(value), Datum::Int8(step)) => Ok(value.checked_add(*step).map(Datum::Int8)),
        _ => add.call(&[value.clone(), step.clone()], env).map(Some),
    }
}

/// # Errors
/// `22023` for NaN and infinity.
fn finite(value: &Datum, what: &str) -> SqlResult<()> {
    let Datum::Numeric(number) = value else { return Ok(()) };
    if number.is_finite() {
        return Ok(());
    }
    let what = format!("{what} cannot be {}", if number.is_nan() { "NaN" } else { "infinity" });
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what))
}
