//! Calls of stored routines.
//!
//! A volatile routine's statements are commands of their own, each with a snapshot of its own at READ COMMITTED, as in
//! PostgreSQL; those of others read what the calling statement reads.
//!
//! **Invariant:** a statement whose routine must wait is undone and restarted as a whole, so calls have no effect
//! outside of the transaction until the statement has ended.

use super::{Flow, RowSink, RowStack, Run};
use catalog::{Routine, RoutineResult, Volatility};
use query::plan::{Expr, RoutineCall};
use query::routine::{BodyStatement, BodyWork};
use statement::error::{RetryReason, SqlError, SqlResult, SqlState};
use statement::holdings::MemoryUse;
use std::borrow::Cow;
use std::sync::Arc;
use types::datum::Datum;

/// Rows of a routine.
type RoutineRows = Vec<Box<[Datum]>>;

impl Run<'_> {
    /// Returns the value of a call in an expression: the first column of its first row, or null.
    pub(super) fn routine_value(&self, call: &RoutineCall, rows: &RowStack<'_>) -> SqlResult<Datum> {
        if let Some(value) = self.ready.of(call) {
            return Ok(value);
        }
        let mut found = Datum::Null;
        let _ = self.routine(call, rows, &mut |row| {
            found = row.first().cloned().unwrap_or_default();
            Ok(Flow::Break(()))
        })?;
        Ok(found)
    }

    /// Passes the rows of the call that an expression is to `each`.
    pub(super) fn routine_rows(&self, call: &Expr, rows: &RowStack<'_>, each: &mut RowSink<'_>) -> SqlResult<Flow> {
        match call {
            Expr::Routine(call) => self.routine(call, rows, each),
            _ => Err(SqlError::new(SqlState::INTERNAL_ERROR, "a set of rows that is no call")),
        }
    }

    /// Returns the values of the call that an expression is, as a set.
    pub(super) fn routine_set(&self, call: &Expr, rows: &RowStack<'_>) -> SqlResult<Vec<Datum>> {
        let mut all = Vec::new();
        let _ = self.routine_rows(call, rows, &mut |row| {
            self.keep(MemoryUse::HashTables, row)?;
            all.push(row.first().cloned().unwrap_or_default());
            Ok(Flow::Continue(()))
        })?;
        Ok(all)
    }

    fn routine(&self, call: &RoutineCall, rows: &RowStack<'_>, each: &mut RowSink<'_>) -> SqlResult<Flow> {
        let RoutineCall { routine, arguments, is_computation: _ } = call;
        let arguments = self.arguments(arguments, rows)?;
        statement::stack::check()?;
        self.made_row()?;
        self.check_execute(routine)?;
        if routine.is_strict && arguments.iter().any(Datum::is_null) {
            return if routine.is_set { Ok(Flow::Continue(())) } else { each(&self.nulls(routine)) };
        }
        match self.env.bodies.env_of(routine, self.catalog, self.env)? {
            None => self.called(routine, &arguments, each),
            Some((env, path)) => Run { env: &env, path: &path, ..self.again() }.called(routine, &arguments, each),
        }
    }

    /// Returns the values of a call's arguments. Those that are parameters of the statement, one after the other, are
    /// not copied.
    fn arguments(&self, arguments: &[Expr], rows: &RowStack<'_>) -> SqlResult<Cow<'_, [Datum]>> {
        if let Some(Expr::Parameter(first)) = arguments.first() {
            let mut places = arguments.iter().zip(*first..);
            let are_in_order = places.all(|(argument, place)| matches!(argument, Expr::Parameter(at) if *at == place));
            if let Some(values) = self.parameters.get(*first..first + arguments.len()).filter(|_| are_in_order) {
                return Ok(Cow::Borrowed(values));
            }
        }
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            values.push(self.value(argument, rows)?);
        }
        Ok(Cow::Owned(values))
    }

    /// Checks that the current role may call a routine.
    ///
    /// # Errors
    /// `42501`
    pub(super) fn check_execute(&self, routine: &Arc<Routine>) -> SqlResult<()> {
        self.env.bodies.check_execute(routine, self.catalog, self.env)
    }

    /// Runs the body of a routine.
    fn called(&self, routine: &Arc<Routine>, arguments: &[Datum], each: &mut RowSink<'_>) -> SqlResult<Flow> {
        if routine.module().is_some() {
            return self.called_code(routine, arguments, each);
        }
        let path = routine.path.as_deref().unwrap_or(self.path);
        let body = self.env.bodies.of(routine, self.catalog, path, self.env)?;
        let mut flow = Flow::Continue(());
        let mut count = 0_u64;
        for (at, statement) in body.statements.iter().enumerate() {
            let context = || format!("SQL function \"{}\" statement {}", routine.name, at + 1);
            if let Some((denied, error)) = &body.denied
                && *denied == at
            {
                return Err(of_body(error.clone(), statement, Some(context())));
            }
            let mut pass = |row: &[Datum]| -> SqlResult<Flow> {
                count += 1;
                let passed = each(row)?;
                flow = passed;
                // Of a function that returns no set, the first row counts.
                Ok(if routine.is_set { passed } else { Flow::Break(()) })
            };
            match routine.volatility {
                Volatility::Volatile => {
                    let run = || self.body_in_its_view(statement, arguments, routine.is_set);
                    let rows = self.txn.nested(run).map_err(SqlError::from).and_then(|rows| rows);
                    for row in rows.map_err(|error| of_body(error, statement, Some(context())))? {
                        if pass(&row)?.is_break() {
                            break;
                        }
                    }
                }
                Volatility::Stable | Volatility::Immutable => {
                    let run = self.run_of_body(arguments);
                    // The rows pass to the calling statement, whose errors are its own.
                    let mut of_caller: Option<SqlError> = None;
                    let passed = run.body_rows(statement, &mut |row| {
                        pass(row).inspect_err(|error| of_caller = Some(error.clone()))
                    });
                    match (passed, of_caller) {
                        (_, Some(error)) => return Err(error),
                        (passed, None) => {
                            passed.map_err(|error| of_body(error, statement, Some(context())))?;
                        }
                    }
                }
            }
        }
        if count == 0 && !routine.is_set && routine.result != RoutineResult::Nothing {
            return each(&self.nulls(routine));
        }
        Ok(flow)
    }

    /// Checks that the catalog of the statement still describes what a new snapshot sees.
    ///
    /// # Errors
    /// An error that [`super::moves`] the statement.
    pub(super) fn check_definitions(&self) -> SqlResult<()> {
        match self.definitions {
            Some((catalog, version)) if catalog.current_version() != version => {
                Err(SqlError::again(RetryReason::Moved))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Runs a statement of a body in a view of its own, and returns the rows of the result.
    fn body_in_its_view(&self, statement: &BodyStatement, arguments: &[Datum], is_set: bool) -> SqlResult<RoutineRows> {
        self.check_definitions()?;
        let run = self.run_of_body(arguments);
        let mut rows = RoutineRows::new();
        run.body_rows(statement, &mut |row| {
            self.keep(MemoryUse::Results, row)?;
            rows.push(row.into());
            Ok(if is_set { Flow::Continue(()) } else { Flow::Break(()) })
        })?;
        Ok(rows)
    }

    /// Runs a statement of a body. Passes its rows to `each` if they are the result. Returns the number of rows that it
    /// has changed; `None` for a query.
    pub(super) fn body_rows(&self, statement: &BodyStatement, each: &mut RowSink<'_>) -> SqlResult<Option<u64>> {
        self.begin_body(statement)?;
        let mut ignore = |_: &[Datum]| Ok(Flow::Continue(()));
        let each = if statement.is_result { each } else { &mut ignore };
        if let Some(keyed) = &statement.keyed {
            return self.keyed(&statement.work, keyed, each);
        }
        match &statement.work {
            BodyWork::Rows(plan) | BodyWork::Locking(_, plan) => self.rows(plan, None, each).map(|_| None),
            BodyWork::Refused(error) => Err(error.clone()),
            BodyWork::Change(modify) => {
                let changed = self.modify(modify)?;
                for row in &changed.returned {
                    if each(row)?.is_break() {
                        break;
                    }
                }
                Ok(Some(changed.rows))
            }
        }
    }

    /// Takes the locks with which a statement of a body begins.
    fn begin_body(&self, statement: &BodyStatement) -> SqlResult<()> {
        self.env.check_settings_of_body()?;
        for one in &statement.uses {
            self.hold_once(&one.table, one.hold)?;
        }
        if !self.txn.reads_latest() {
            for table in &statement.tables {
                self.txn.try_share_table(&table.table)?;
            }
        }
        Ok(())
    }

    pub(super) fn run_of_body<'r>(&'r self, parameters: &'r [Datum]) -> Run<'r> {
        Run { parameters, probe: None, ..self.again() }
    }

    /// Returns a row of nulls, as wide as the routine's result.
    pub(super) fn nulls(&self, routine: &Routine) -> Vec<Datum> {
        let width = match routine.result {
            RoutineResult::Row => routine.outputs().count(),
            RoutineResult::Relation(oid) => match self.catalog.relation_numbered(oid) {
                Some(catalog::Relation::Table(table)) => table.columns.len(),
                Some(catalog::Relation::View(view)) => view.columns.len(),
                Some(catalog::Relation::Sequence(_) | catalog::Relation::Index { .. }) | None => 1,
            },
            RoutineResult::Nothing | RoutineResult::Value(_) | RoutineResult::Record => 1,
        };
        vec![Datum::Null; width]
    }
}

/// Adds the place in a body to an error of one of its statements.
pub(super) fn of_body(error: SqlError, statement: &BodyStatement, context: Option<String>) -> SqlError {
    if error.begins_again().is_some() {
        return error;
    }
    let error = match (&statement.work, error.engine()) {
        (BodyWork::Change(modify), Some(engine::Error::ReadOnly)) => {
            error.with_message(&format!("cannot execute {} in a read-only transaction", modify.change.verb()))
        }
        _ => error,
    };
    let error = error.nowhere();
    match context {
        Some(context) => error.within(context),
        None => error,
    }
}
