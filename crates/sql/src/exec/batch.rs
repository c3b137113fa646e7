//! Calls of stored code for many rows at once: entering the code costs the same for one row and for 1,024.
//!
//! An operator that evaluates expressions over its input keeps up to 1,024 rows back, calls the code for all of them, and
//! then evaluates the expressions row by row with the values at hand.
//!
//! **Invariant:** only calls that every row makes, and that change nothing, are made together, and one that fails, whose
//! arguments fail, or that sends notices is made again for each row alone. So errors and notices are those of the rows
//! that are needed, in their order.

use super::{Flow, RowSink, RowStack, Run};
use catalog::{RoutineResult, Volatility};
use procs::wire::BATCH_MAX;
use query::plan::{Expr, Plan, RoutineCall, is_volatile_plan};
use query::rows::bytes_of;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::holdings::MemoryUse;
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

impl Run<'_> {
    /// Returns true if a call can be made together with others: its function changes nothing, its arguments are the same
    /// whenever they are evaluated, and its code executes no statements, which may do more than read.
    fn is_batched(&self, call: &RoutineCall) -> bool {
        let RoutineCall { routine, arguments, is_computation: _ } = call;
        let Some((module, _)) = routine.module() else { return false };
        let executes = self.catalog.module(module).is_none_or(|module| !module.manifest.statements.is_empty());
        let is_value = !routine.is_set && matches!(routine.result, RoutineResult::Value(_));
        is_value && !executes && routine.volatility != Volatility::Volatile && !arguments.iter().any(Expr::is_volatile)
    }

    /// Returns the calls that can be made together among those which the expressions make for every row.
    fn calls_of<'e>(&self, exprs: &mut dyn Iterator<Item = &'e Expr>) -> Vec<&'e RoutineCall> {
        let mut calls = Vec::new();
        exprs.for_each(|expr| self.add_calls(expr, &mut calls));
        calls
    }

    /// Adds the calls of an expression. Those in branches that may not be taken are made one by one, and so are those
    /// within the arguments of others, those that see values of [`Expr::Let`], and those of subqueries.
    fn add_calls<'e>(&self, expr: &'e Expr, calls: &mut Vec<&'e RoutineCall>) {
        match expr {
            Expr::Routine(call) if self.is_batched(call) => calls.push(call),
            Expr::Call { callee: _, arguments } | Expr::Array(arguments) | Expr::Extreme { arguments, .. } => {
                arguments.iter().for_each(|argument| self.add_calls(argument, calls));
            }
            Expr::IsSame { kind: _, arguments } => {
                arguments.iter().for_each(|argument| self.add_calls(argument, calls));
            }
            Expr::Cast { eval: _, to: _, argument }
            | Expr::Not(argument)
            | Expr::IsNull(argument)
            | Expr::IsBool(argument, _) => self.add_calls(argument, calls),
            Expr::And(all) | Expr::Or(all) | Expr::Coalesce(all) => {
                all.iter().take(1).for_each(|first| self.add_calls(first, calls));
            }
            Expr::Case { whens, otherwise: _ } => {
                whens.iter().take(1).for_each(|(when, _)| self.add_calls(when, calls));
            }
            Expr::Constant(_)
            | Expr::Parameter(_)
            | Expr::Column(_)
            | Expr::Outer { .. }
            | Expr::Let { .. }
            | Expr::Local(_)
            | Expr::Scalar(_)
            | Expr::Exists(_)
            | Expr::InQuery { .. }
            | Expr::InList { .. }
            | Expr::Quantified { .. }
            | Expr::ArrayQuery(_)
            | Expr::Now { .. }
            | Expr::Sequence { .. }
            | Expr::Routine(_)
            | Expr::Advisory { .. } => {}
        }
    }

    /// Returns true if no row can go on after this error.
    fn ends_statement(&self, error: &SqlError) -> bool {
        let is_asked = self.env.sleeps.is_asked();
        is_asked || error.engine().is_some() || error.begins_again().is_some() || error.cancellation().is_some()
    }

    /// Passes the rows of a plan to `each`, which evaluates these expressions over each row.
    pub(super) fn rows_for(
        &self,
        input: &Plan,
        outer: Option<&RowStack<'_>>,
        exprs: &mut dyn Iterator<Item = &Expr>,
        each: &mut RowSink<'_>,
    ) -> SqlResult<Flow> {
        let calls = if self.catalog.has_no_routines() { Vec::new() } else { self.calls_of(exprs) };
        // Rows of a volatile input are made one at a time, so that nothing is done for rows that are not needed.
        if calls.is_empty() || is_volatile_plan(input) {
            return self.rows(input, outer, each);
        }
        // The first batches are small: perhaps only the first rows are needed.
        let (mut most, mut bytes) = (1, 0);
        let mut kept: Vec<Box<[Datum]>> = Vec::new();
        let made = self.rows(input, outer, &mut |row| {
            self.keep(MemoryUse::Results, row)?;
            bytes += bytes_of(row);
            kept.push(row.into());
            if kept.len() < most && bytes < BYTES_MAX {
                return Ok(Flow::Continue(()));
            }
            let (flow, were_together) = self.pass(&calls, std::mem::take(&mut kept), outer, each)?;
            (most, bytes) = (if were_together { (most * 4).min(BATCH_MAX) } else { 1 }, 0);
            Ok(flow)
        });
        match made {
            Ok(flow) if flow.is_break() => Ok(flow),
            Ok(_) => Ok(self.pass(&calls, kept, outer, each)?.0),
            Err(error) if self.ends_statement(&error) => Err(error),
            // The rows before the error come first, and may be all that are needed.
            Err(error) => match self.pass(&calls, kept, outer, each)?.0 {
                Flow::Break(()) => Ok(Flow::Break(())),
                Flow::Continue(()) => Err(error),
            },
        }
    }

    /// Passes rows on, with the values of the calls at hand. Returns false if a call has to be made row by row.
    fn pass(
        &self,
        calls: &[&RoutineCall],
        rows: Vec<Box<[Datum]>>,
        outer: Option<&RowStack<'_>>,
        each: &mut RowSink<'_>,
    ) -> SqlResult<(Flow, bool)> {
        let kept: usize = rows.iter().map(|row| bytes_of(row)).sum();
        if rows.is_empty() {
            return Ok((Flow::Continue(()), true));
        }
        let mut columns = Vec::with_capacity(calls.len());
        for call in calls {
            let before = self.env.code.count_notices();
            match self.values_of_call(call, &rows, outer) {
                // Notices come row by row.
                Ok(values) if self.env.code.count_notices() == before => columns.push(Some(values)),
                Err(error) if self.ends_statement(&error) => return Err(error),
                Ok(_) | Err(_) => {
                    // Each row makes the call again.
                    self.env.code.drop_notices_after(before);
                    columns.push(None);
                }
            }
        }
        let were_together = columns.iter().all(Option::is_some);
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
        self.give_back(MemoryUse::Results, kept);
        Ok((flow, were_together))
    }

    /// Returns the values of a call for rows.
    fn values_of_call(
        &self,
        call: &RoutineCall,
        rows: &[Box<[Datum]>],
        outer: Option<&RowStack<'_>>,
    ) -> SqlResult<Vec<Datum>> {
        let RoutineCall { routine, arguments, is_computation: _ } = call;
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
