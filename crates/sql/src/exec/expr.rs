//! Evaluation of expressions.

use super::{Flow, RowStack, Run};
use engine::memory::SMALL_BYTES;
use query::plan::{Expr, ListId, Over, Plan};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::holdings::MemoryUse;
use statement::pulse;
use std::cmp::Ordering;
use std::slice;
use types::Kind;
use types::datum::Datum;
use types::ops::{Callee, compare, is_same, mistyped};

impl Run<'_> {
    /// Evaluates an expression over a row.
    pub(super) fn value(&self, expr: &Expr, rows: &RowStack<'_>) -> SqlResult<Datum> {
        let one = |expr: &Expr| self.value(expr, rows);
        Ok(match expr {
            Expr::Constant(datum) => datum.clone(),
            Expr::Parameter(at) => self.parameters[*at].clone(),
            Expr::Column(at) => copied(&rows.row[*at])?,
            Expr::Outer { level, column } => {
                let mut out = rows;
                for _ in 0..*level {
                    let no_such = || SqlError::new(SqlState::INTERNAL_ERROR, "a query looks beyond its statement");
                    out = out.outer.ok_or_else(no_such)?;
                }
                copied(&out.row[*column])?
            }
            Expr::Call { callee, arguments } => match &arguments[..] {
                // Operators are called without an allocation.
                [left, right] => callee.call(&[one(left)?, one(right)?], self.env)?,
                arguments => {
                    let values = arguments.iter().map(one).collect::<SqlResult<Vec<_>>>()?;
                    callee.call(&values, self.env)?
                }
            },
            Expr::Cast { eval, to, argument } => match one(argument)? {
                Datum::Null => Datum::Null,
                value => eval(&value, *to, self.env)?,
            },
            Expr::And(parts) => self.connect(parts, rows, false)?,
            Expr::Or(parts) => self.connect(parts, rows, true)?,
            Expr::Not(inner) => match one(inner)? {
                Datum::Bool(value) => Datum::Bool(!value),
                Datum::Null => Datum::Null,
                other => return Err(mistyped(&other)),
            },
            Expr::IsNull(inner) => Datum::Bool(one(inner)?.is_null()),
            Expr::IsBool(inner, wanted) => Datum::Bool(one(inner)? == wanted.map_or(Datum::Null, Datum::Bool)),
            Expr::IsSame { kind, arguments } => {
                let (left, right) = (one(&arguments[0])?, one(&arguments[1])?);
                Datum::Bool(is_same(&left, &right, *kind))
            }
            Expr::Case { whens, otherwise } => {
                if statement::plants::is_planted("guard_ignored") {
                    whens.iter().try_for_each(|(_, then)| one(then).map(drop))?;
                }
                for (when, then) in whens {
                    if self.holds(when, rows)? {
                        return one(then);
                    }
                }
                one(otherwise)?
            }
            Expr::Let { values, body } => self.with_locals(values, body, rows)?,
            Expr::Local(at) => {
                let locals = self.locals.borrow();
                let no_such = || SqlError::new(SqlState::INTERNAL_ERROR, "a local value outside of its expression");
                locals.last().and_then(|values| values.get(*at)).cloned().ok_or_else(no_such)?
            }
            Expr::Coalesce(parts) => {
                for part in parts {
                    let value = one(part)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Datum::Null
            }
            Expr::Extreme { greatest, kind, arguments } => {
                let mut best = Datum::Null;
                for argument in arguments {
                    let value = one(argument)?;
                    let wanted = if *greatest { Ordering::Greater } else { Ordering::Less };
                    if !value.is_null() && (best.is_null() || compare(&value, &best, *kind) == wanted) {
                        best = value;
                    }
                }
                best
            }
            Expr::Scalar(plan) => {
                let mut found = None;
                self.every(plan, Some(rows), &mut |row| {
                    if found.is_some() {
                        let message = "more than one row returned by a subquery used as an expression";
                        return Err(SqlError::new(SqlState::CARDINALITY_VIOLATION, message));
                    }
                    found = Some(row[0].clone());
                    Ok(())
                })?;
                found.unwrap_or_default()
            }
            Expr::Exists(plan) => {
                let mut exists = false;
                let _ = self.rows(plan, Some(rows), &mut |_| {
                    exists = true;
                    Ok(Flow::Break(()))
                })?;
                Datum::Bool(exists)
            }
            Expr::InQuery { kinds, arguments, query } => match &arguments[..] {
                [argument] => self.in_query(kinds, slice::from_ref(&one(argument)?), query, rows)?,
                several => {
                    let values = several.iter().map(one).collect::<SqlResult<Vec<_>>>()?;
                    self.in_query(kinds, &values, query, rows)?
                }
            },
            Expr::Quantified { all, arguments, over: Over::Array(array), condition, hashed: Some(id) } => {
                self.is_in_array(*id, *all, arguments, array, condition, rows)?
            }
            Expr::Quantified { all, arguments, over, condition, hashed: _ } => {
                self.quantified(*all, arguments, over, condition, rows)?
            }
            Expr::Array(items) => Datum::Array(items.iter().map(one).collect::<SqlResult<_>>()?),
            Expr::ArrayQuery(plan) => {
                let mut items = Vec::new();
                self.every(plan, Some(rows), &mut |row| {
                    self.keep(MemoryUse::HashTables, &row[..1])?;
                    items.push(row[0].clone());
                    Ok(())
                })?;
                Datum::Array(items.into())
            }
            Expr::InList { kind, argument, list, hashed: Some(id) } => {
                let value = one(argument)?;
                let one = |other| pulse::tick(pulse::ITEM).and_then(|()| one(other));
                let set = self.list_set(*id, *kind, || list.iter().map(one).collect::<SqlResult<_>>().map(Some))?;
                set.has(slice::from_ref(&value))?
            }
            Expr::InList { kind, argument, list, hashed: None } => {
                let value = one(argument)?;
                let mut result = Datum::Bool(false);
                for other in list {
                    let equal =
                        are_equal(slice::from_ref(&value), slice::from_ref(&one(other)?), slice::from_ref(kind));
                    if found(equal, &mut result).is_break() {
                        break;
                    }
                }
                result
            }
            Expr::Now { to } => types::ops::context::now(self.env, *to)?,
            Expr::Sequence { call, arguments } => self.sequence(*call, arguments, rows)?,
            Expr::Routine(call) => self.routine_value(call, rows)?,
            Expr::Advisory { call, arguments } => self.advisory(*call, arguments, rows)?,
        })
    }

    fn with_locals(&self, values: &[Expr], body: &Expr, rows: &RowStack<'_>) -> SqlResult<Datum> {
        let values = values.iter().map(|value| self.value(value, rows)).collect::<SqlResult<_>>()?;
        self.locals.borrow_mut().push(values);
        let result = self.value(body, rows);
        self.locals.borrow_mut().pop();
        result
    }

    /// Returns true if a condition is true; null counts as false.
    pub(super) fn holds(&self, condition: &Expr, rows: &RowStack<'_>) -> SqlResult<bool> {
        Ok(self.truth(condition, rows)? == Some(true))
    }

    /// Returns the truth value of a condition; `None` for null.
    pub(super) fn truth(&self, condition: &Expr, rows: &RowStack<'_>) -> SqlResult<Option<bool>> {
        match self.value(condition, rows)? {
            Datum::Bool(value) => Ok(Some(value)),
            Datum::Null => Ok(None),
            other => Err(mistyped(&other)),
        }
    }

    /// Evaluates `AND` or `OR`: the first part that decides, otherwise null if any part is null.
    fn connect(&self, parts: &[Expr], rows: &RowStack<'_>, decides: bool) -> SqlResult<Datum> {
        let mut result = Datum::Bool(!decides);
        for part in parts {
            match self.value(part, rows)? {
                Datum::Bool(value) if value == decides => return Ok(Datum::Bool(decides)),
                Datum::Bool(_) => {}
                Datum::Null => result = Datum::Null,
                other => return Err(mistyped(&other)),
            }
        }
        Ok(result)
    }

    /// Evaluates `IN` over a query.
    fn in_query(&self, kinds: &[Kind], values: &[Datum], query: &Plan, rows: &RowStack<'_>) -> SqlResult<Datum> {
        if let Plan::Shared { id, plan } = query {
            return self.shared_set(*id, plan, kinds)?.has(values);
        }
        let mut result = Datum::Bool(false);
        let _ = self.rows(query, Some(rows), &mut |row| Ok(found(are_equal(values, row, kinds), &mut result)))?;
        Ok(result)
    }

    /// Evaluates `= ANY` or `<> ALL` over an array whose hash table is kept.
    fn is_in_array(
        &self,
        id: ListId,
        all: bool,
        arguments: &[Expr],
        array: &Expr,
        condition: &Expr,
        rows: &RowStack<'_>,
    ) -> SqlResult<Datum> {
        let (Expr::Call { callee: Callee::Operator(operator), arguments: sides }, [argument]) = (condition, arguments)
        else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a hashed array without an equality"));
        };
        // The sides of the equality refer to a row of the argument and the element.
        let side = |at: usize, row: [Datum; 2]| self.value(&sides[at], &RowStack { row: &row, outer: Some(rows) });
        let value = side(0, [self.value(argument, rows)?, Datum::Null])?;
        let set = self.list_set(id, operator.right, || match self.value(array, rows)? {
            Datum::Array(items) => {
                let sides = items.into_iter().map(|item| side(1, [Datum::Null, item]));
                sides.collect::<SqlResult<_>>().map(Some)
            }
            Datum::Null => Ok(None),
            _ => Err(SqlError::new(SqlState::INTERNAL_ERROR, "a hashed array that is none")),
        })?;
        Ok(match set.has(slice::from_ref(&value))? {
            Datum::Bool(found) => Datum::Bool(found != all),
            unknown => unknown,
        })
    }

    /// Evaluates `ANY`: true if the condition is true for any element, otherwise null if it is null for any. `ALL`
    /// likewise with false.
    fn quantified(
        &self,
        all: bool,
        arguments: &[Expr],
        over: &Over,
        condition: &Expr,
        rows: &RowStack<'_>,
    ) -> SqlResult<Datum> {
        // The condition's row: the arguments, then the values of the element or row that is compared.
        let mut own = arguments.iter().map(|argument| self.value(argument, rows)).collect::<SqlResult<Vec<_>>>()?;
        let count = own.len();
        let mut result = Datum::Bool(all);
        let mut step = |found: &[Datum]| {
            own.truncate(count);
            own.extend_from_slice(found);
            match self.value(condition, &RowStack { row: &own, outer: Some(rows) })? {
                Datum::Bool(value) if value != all => {
                    result = Datum::Bool(value);
                    return Ok(Flow::Break(()));
                }
                Datum::Bool(_) => {}
                // Null unless a later element decides.
                Datum::Null => result = Datum::Null,
                other => return Err(mistyped(&other)),
            }
            Ok(Flow::Continue(()))
        };
        match over {
            Over::Query(plan) => {
                let _ = self.rows(plan, Some(rows), &mut step)?;
            }
            Over::Array(array) => match self.value(array, rows)? {
                Datum::Array(items) => {
                    for item in &items {
                        if step(slice::from_ref(item))?.is_break() {
                            break;
                        }
                    }
                }
                Datum::Null => return Ok(Datum::Null),
                other => return Err(mistyped(&other)),
            },
        }
        Ok(result)
    }
}

/// Copies a value of a row.
///
/// # Errors
/// `53200` if it is long and memory is short.
#[inline]
fn copied(value: &Datum) -> SqlResult<Datum> {
    let bytes = value.text_bytes();
    if SMALL_BYTES < bytes {
        pulse::check_room(bytes)?;
    }
    Ok(value.clone())
}

/// Compares rows for equality: false if two values differ, otherwise `None` if any is null.
pub(super) fn are_equal(row: &[Datum], other: &[Datum], kinds: &[Kind]) -> Option<bool> {
    let mut equal = Some(true);
    for ((value, other), kind) in row.iter().zip(other).zip(kinds) {
        if value.is_null() || other.is_null() {
            equal = None;
        } else if compare(value, other, *kind).is_ne() {
            return Some(false);
        }
    }
    equal
}

/// Adds a comparison to the result of `IN`: null if any comparison is null, and true if any is true.
fn found(equal: Option<bool>, result: &mut Datum) -> Flow {
    match equal {
        Some(true) => {
            *result = Datum::Bool(true);
            return Flow::Break(());
        }
        Some(false) => {}
        None => *result = Datum::Null,
    }
    Flow::Continue(())
}

/// Compares two values, with nulls last.
pub(super) fn order(left: &Datum, right: &Datum, kind: Kind) -> Ordering {
    match (left.is_null(), right.is_null()) {
        (false, false) => compare(left, right, kind),
        (left, right) => left.cmp(&right),
    }
}
