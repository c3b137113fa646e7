//! Calls of stored code for many rows at once: entering the code costs the same for one row and for 1,024.
//!
//! An operator that evaluates expressions over its input keeps up to 1,024 rows back, calls the code for all of them, and
//! then evaluates the expressions row by row with the values at hand. Calls of functions that are not volatile only,
//! so nobody can tell.
//!
//! **Invariant:** a call that fails, or whose arguments do, is made again for each row alone. So an error is that of the
//! first row that has one, and an error of a row that is not needed, or of a branch that is not taken, is none.

use super::{Flow, RowSink, RowStack, Run};
use catalog::{Routine, RoutineResult, Volatility};
use procs::wire::BATCH_MAX;
use query::plan::{Child, Expr, Plan, RoutineCall, children_of_expr};
use query::rows::bytes_of;
use statement::error::{SqlError, SqlResult, SqlState};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use types::datum::Datum;

/// Greatest number of bytes of the rows that are kept back.
const BYTES_MAX: usize = 256 << 10;

/// Values of calls for the present row, by the addresses of the calls in the plan.
#[derive(Debug, Default)]
pub(crate) struct ReadyValues {
    /// True if there are any, so that other calls need not look.
    are_some: Cell<bool>,
    values: RefCell<HashMap<usize, Datum>>,
}

impl ReadyValues {
    /// Returns the value of a call.
    pub(super) fn of(&self, call: &RoutineCall) -> Option<Datum> {
        if !self.are_some.get() {
            return None;
        }
        self.values.borrow().get(&address(call)).cloned()
    }

    fn set(&self, call: &RoutineCall, value: Option<Datum>) {
        let mut values = self.values.borrow_mut();
        match value {
            Some(value) => drop(values.insert(address(call), value)),
            None => drop(values.remove(&address(call))),
        }
        self.are_some.set(!values.is_empty());
    }
}

/// Calls stay where they are while their statement runs, so their addresses tell them apart.
fn address(call: &RoutineCall) -> usize {
    std::ptr::from_ref(call).addr()
}

/// Returns true if calls of a routine can be made together.
fn is_batched(routine: &Routine) -> bool {
    let is_value = matches!(routine.result, RoutineResult::Value(_));
    routine.module().is_some() && !routine.is_set && is_value && routine.volatility != Volatility::Volatile
}

/// Returns the calls in expressions that can be made together. Those within arguments of others are made one by one, and
/// subqueries have rows of their own.
fn calls_of<'e>(exprs: &mut dyn Iterator<Item = &'e Expr>) -> Vec<&'e RoutineCall> {
    let mut calls = Vec::new();
    exprs.for_each(|expr| add_calls(expr, &mut calls));
    calls
}

fn add_calls<'e>(expr: &'e Expr, calls: &mut Vec<&'e RoutineCall>) {
    if let Expr::Routine(call) = expr
        && is_batched(&call.routine)
    {
        calls.push(call);
        return;
    }
    // The closure returns no error, so there is none to report.
    let _ = children_of_expr(expr, &mut |child, _| {
        if let Child::Expr(child) = child {
            add_calls(child, calls);
        }
        Ok(())
    });
}

impl Run<'_> {
    /// Passes the rows of a plan to `each`, which evaluates these expressions over each row.
    pub(super) fn rows_for<'e>(
        &self,
        input: &Plan,
        outer: Option<&RowStack<'_>>,
        exprs: &mut dyn Iterator<Item = &'e Expr>,
        each: &mut RowSink<'_>,
    ) -> SqlResult<Flow> {
        let calls = if self.catalog.has_no_routines() { Vec::new() } else { calls_of(exprs) };
        if calls.is_empty() {
            return self.rows(input, outer, each);
        }
        // The first batches are small: perhaps only the first rows are needed.
        let (mut most, mut bytes) = (1, 0);
        let mut kept: Vec<Box<[Datum]>> = Vec::new();
        let flow = self.rows(input, outer, &mut |row| {
            bytes += bytes_of(row);
            kept.push(row.into());
            if kept.len() < most && bytes < BYTES_MAX {
                return Ok(Flow::Continue(()));
            }
            (most, bytes) = ((most * 4).min(BATCH_MAX), 0);
            self.pass(&calls, std::mem::take(&mut kept), outer, each)
        })?;
        if flow.is_break() { Ok(flow) } else { self.pass(&calls, kept, outer, each) }
    }

    /// Passes rows on, with the values of the calls at hand.
    fn pass(
        &self,
        calls: &[&RoutineCall],
        rows: Vec<Box<[Datum]>>,
        outer: Option<&RowStack<'_>>,
        each: &mut RowSink<'_>,
    ) -> SqlResult<Flow> {
        if rows.is_empty() {
            return Ok(Flow::Continue(()));
        }
        let mut columns = Vec::with_capacity(calls.len());
        for call in calls {
            let before = self.env.code.count_notices();
            match self.values_of_call(call, &rows, outer) {
                Ok(values) => columns.push(Some(values)),
                Err(error) if ends_statement(&error) => return Err(error),
                Err(_) => {
                    // Each row makes the call again.
                    self.env.code.drop_notices_after(before);
                    columns.push(None);
                }
            }
        }
        let mut flow = Flow::Continue(());
        for (at, row) in rows.iter().enumerate() {
            for (call, values) in calls.iter().zip(&mut columns) {
                let value = values.as_mut().and_then(|values| values.get_mut(at)).map(std::mem::take);
                self.ready.set(call, value);
            }
            let passed = each(row);
            calls.iter().for_each(|call| self.ready.set(call, None));
            flow = passed?;
            if flow.is_break() {
                break;
            }
        }
        Ok(flow)
    }

    /// Returns the values of a call for rows.
    fn values_of_call(
        &self,
        call: &RoutineCall,
        rows: &[Box<[Datum]>],
        outer: Option<&RowStack<'_>>,
    ) -> SqlResult<Vec<Datum>> {
        let RoutineCall { routine, arguments } = call;
        let all: Vec<Vec<Datum>> =
            rows.iter().map(|row| self.values(arguments, &RowStack { row, outer })).collect::<SqlResult<_>>()?;
        statement::stack::check()?;
        rows.iter().try_for_each(|_| self.made_row())?;
        self.check_execute(routine)?;
        let is_called = |row: &&Vec<Datum>| !(routine.is_strict && row.iter().any(Datum::is_null));
        let given: Vec<&[Datum]> = all.iter().filter(is_called).map(Vec::as_slice).collect();
        let returned = match self.env.bodies.env_of(routine, self.catalog, self.env)? {
            _ if given.is_empty() => Vec::new(),
            None => self.called_for_rows(routine, &given)?,
            Some((env, path)) => Run { env: &env, path: &path, ..self.again() }.called_for_rows(routine, &given)?,
        };
        let mut returned = returned.into_iter();
        let value = |row: &Vec<Datum>| match is_called(&row) {
            false => Ok(Datum::Null),
            true => returned.next().ok_or_else(|| SqlError::new(SqlState::INTERNAL_ERROR, "fewer values than rows")),
        };
        all.iter().map(value).collect()
    }
}

/// Returns true if no row can go on after this error.
fn ends_statement(error: &SqlError) -> bool {
    let ends = [SqlState::QUERY_CANCELED, SqlState::OUT_OF_MEMORY, SqlState::STATEMENT_TOO_COMPLEX];
    error.engine().is_some() || error.begins_again().is_some() || ends.contains(&error.state())
}
