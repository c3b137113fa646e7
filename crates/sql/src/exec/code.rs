//! Calls of routines whose code is in a module, and the engine's side of them.
//!
//! Each call that the code makes is a statement: in a volatile routine a command of its own, with a snapshot of its own
//! at READ COMMITTED, as those of routines in SQL are; in any other it reads what the calling statement reads.
//!
//! **Invariant:** code in a sandbox reaches rows only by the planned calls of its module, as the role that calls. Linked
//! code may also use the tables of its module without SQL, if the role may read and write them and they have neither
//! checks nor foreign keys.

use super::routine::of_body;
use super::{Flow, RowSink, Run};
use crate::context::{ModuleCode, PlannedRoutine, PlannedTable, no_cursor};
use catalog::{Routine, RoutineKind, RoutineResult, Volatility};
use procs::calls::{ComingCall, ComingKind, DirectBody, EachRow, EachTypedRow, EachTypes, TypesOf, query_by_cursor};
use procs::ends::Deadline;
use procs::{
    CursorHandle, EngineCalls, Executed, Instance, Invocation, Level, NoticeLevel, StatementHandle, TableHandle,
    TransactionEnd,
};
use query::code::{CallScope, PlannedCall, TableCall};
use query::rows::bytes_of;
use stage::{Stage, StageClock};
use statement::error::{RetryReason, SqlError, SqlResult, SqlState};
use statement::holdings::MemoryUse;
use statement::pulse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use types::datum::Datum;
use types::{Kind, SqlType};

/// Greatest number of cursors that one invocation has open.
pub(super) const CURSORS_MAX: usize = 1_000;

/// Engine as the code of one invocation sees it.
pub(super) struct CodeCalls<'r, 'a> {
    pub(super) run: &'r Run<'a>,
    pub(super) code: &'r ModuleCode,
    pub(super) clock: Option<&'r StageClock>,
    pub(super) routine: &'r Routine,
    pub(super) result: Arc<[SqlType]>,
    pub(super) cursors: BTreeMap<u32, CodeCursor>,
    pub(super) last_cursor: u32,
    pub(super) emitted: Vec<Box<[Datum]>>,
    /// End of the invocation by the routine's own limit.
    pub(super) deadline: Option<Deadline>,
    /// Rows that calls may still read, change or emit.
    pub(super) rows_left: Option<u64>,
}

/// Rows that wait for the code.
pub(crate) struct CodeCursor {
    pub(super) columns: Arc<[SqlType]>,
    pub(super) rows: VecDeque<Box<[Datum]>>,
}

impl CodeCursor {
    /// Passes this number of rows to `each`, or fewer if it breaks: the row at which it does so stays. Gives the bytes of
    /// each row that has gone to `freed`. Returns true if no row is left.
    pub(super) fn pass(&mut self, count: u32, each: &mut EachRow<'_>, mut freed: impl FnMut(usize)) -> SqlResult<bool> {
        for _ in 0..count {
            let Some(row) = self.rows.front() else { break };
            pulse::tick(pulse::ITEM)?;
            if each(row)?.is_break() {
                return Ok(false);
            }
            freed(bytes_of(row));
            self.rows.pop_front();
        }
        Ok(self.rows.is_empty())
    }
}

impl Run<'_> {
    /// Runs the code of a routine for one row of arguments.
    pub(super) fn called_code(
        &self,
        routine: &Arc<Routine>,
        arguments: &[Datum],
        each: &mut RowSink<'_>,
    ) -> SqlResult<Flow> {
        let rows = self.invoked(routine, &[arguments]).map_err(|error| of_code(error, routine))?;
        if !routine.is_set {
            check_single(rows.len())?;
        }
        if rows.is_empty() && !routine.is_set && routine.result != RoutineResult::Nothing {
            // The path by columns refuses it, too: a value that nobody has returned is not NULL.
            if routine.kind == RoutineKind::Function && routine.result != RoutineResult::Value(Kind::Void) {
                check_count(0, 1).map_err(|error| of_code(error, routine))?;
            }
            return each(&self.nulls(routine));
        }
        let mut flow = Flow::Continue(());
        for row in rows {
            self.give_back(MemoryUse::Results, bytes_of(&row));
            if flow.is_continue() {
                flow = each(&row)?;
            }
        }
        Ok(flow)
    }

    /// Runs the code of a function that returns a value, for many rows of arguments.
    pub(super) fn called_for_rows(&self, routine: &Arc<Routine>, rows: &[&[Datum]]) -> SqlResult<Vec<Datum>> {
        let returned = self.invoked(routine, rows).map_err(|error| of_code(error, routine))?;
        check_count(returned.len(), rows.len()).map_err(|error| of_code(error, routine))?;
        let bytes = returned.iter().map(|row| bytes_of(row)).sum();
        self.give_back(MemoryUse::Results, bytes);
        Ok(returned.into_iter().map(|row| row.into_vec().into_iter().next().unwrap_or_default()).collect())
    }

    /// Runs the code of a routine, and returns the rows of its result.
    fn invoked(&self, routine: &Arc<Routine>, rows: &[&[Datum]]) -> SqlResult<Vec<Box<[Datum]>>> {
        let planned = self.env.code.planned(routine, self.catalog, self.path, self.env)?;
        let limits = routine.isolation.limits;
        let PlannedRoutine { entry, arguments, result, .. } = &*planned;
        let invocation = Invocation { entry: *entry, rows, arguments, result, limits };
        let clock = self.env.code.clock();
        let clock = clock.as_deref();
        let mut calls = CodeCalls {
            run: self,
            code: &planned.code,
            clock,
            routine,
            result: Arc::clone(result),
            cursors: BTreeMap::new(),
            last_cursor: 0,
            emitted: Vec::new(),
            deadline: Deadline::from_now(limits.time),
            rows_left: limits.rows,
        };
        let before = clock.map(|clock| clock.enter(Stage::Crossing));
        let invoke = |instance: &mut dyn Instance| instance.invoke(&invocation, &mut calls);
        let invoked = self.env.code.with_instance(&planned, |wait| asleep(clock, wait), invoke);
        if let (Some(clock), Some(before)) = (clock, before) {
            clock.restore(before);
        }
        let returned = match invoked {
            Ok(returned) => returned,
            Err(error) => {
                // The statement begins again after a sleep, with a new limit, so it must not begin one that passes it.
                if let Some(deadline) = calls.deadline {
                    self.env.sleeps.check_asked(|sleep| deadline.check_wait(sleep))?;
                }
                return Err(error);
            }
        };
        if routine.is_set {
            calls.count(returned.len() as u64)?;
        }
        let mut all = std::mem::take(&mut calls.emitted);
        drop(calls);
        all.reserve_exact(returned.len());
        for row in returned {
            check_values(&row, result)?;
            self.keep(MemoryUse::Results, &row)?;
            all.push(row.into());
        }
        Ok(all)
    }
}

/// Runs a wait in which the session's thread sleeps until code in another process answers.
fn asleep(clock: Option<&StageClock>, wait: &mut dyn FnMut()) {
    match clock {
        Some(clock) => clock.asleep(Stage::CrossingWait, wait),
        None => wait(),
    }
}

/// Adds the routine to an error of its code.
pub(crate) fn of_code(error: SqlError, routine: &Routine) -> SqlError {
    match error.begins_again() {
        Some(_) => error,
        None => {
            let place = format!("{} {} \"{}\"", routine.language.name(), routine.kind.word(), routine.name);
            error.nowhere().within(place)
        }
    }
}

impl<'r, 'a> CodeCalls<'r, 'a> {
    fn scope(&self) -> CallScope<'r> {
        CallScope { catalog: self.run.catalog, path: self.run.path, env: self.run.env }
    }

    fn table(&self, table: TableHandle) -> SqlResult<&'r Arc<PlannedTable>> {
        self.code.table(table, self.scope())
    }

    fn table_call(&self, table: TableHandle, call: TableCall) -> SqlResult<Arc<PlannedCall>> {
        self.table(table)?.call(call, self.scope())
    }

    /// Checks the values of a key that linked code has made, or the first of them. Those of other code were read by the
    /// key's types.
    ///
    /// # Errors
    /// `39000` for another number of values, `42804` for one of another type.
    fn check_key(&self, table: TableHandle, values: &[Datum], may_be_part: bool) -> SqlResult<()> {
        if self.routine.level().is_none_or(|(level, _)| level != Level::Native) {
            return Ok(());
        }
        let key = &self.table(table)?.table.key;
        match key.get(..values.len()) {
            Some(part) if may_be_part || part.len() == key.len() => check_types(values, part),
            Some(_) | None => Err(broken("a key has other columns than the table's")),
        }
    }

    /// Runs `body` as one command of the routine.
    fn command<R>(
        &self,
        call: &PlannedCall,
        parameters: &[Datum],
        body: impl FnOnce(&Run<'_>) -> SqlResult<R>,
    ) -> SqlResult<R> {
        self.look_at_deadline()?;
        self.run.env.check_settings_of_body()?;
        let clock = self.clock;
        let before = clock.map(|clock| clock.enter(Stage::Run));
        let command = || match self.routine.volatility {
            Volatility::Volatile => {
                let nested = self.run.txn.nested(|| {
                    self.run.check_definitions()?;
                    body(&self.run.run_of_body(parameters))
                });
                nested.map_err(SqlError::from).and_then(|ran| ran)
            }
            Volatility::Stable | Volatility::Immutable => {
                call.statement.check_changes_nothing().and_then(|()| body(&self.run.run_of_body(parameters)))
            }
        };
        let ran = match self.deadline {
            Some(deadline) => pulse::also(Arc::new(deadline), command),
            None => command(),
        };
        if let (Some(clock), Some(before)) = (clock, before) {
            clock.restore(before);
        }
        ran.map_err(|error| of_body(error, &call.statement, None))
    }

    fn look_at_deadline(&self) -> SqlResult<()> {
        self.deadline.map_or(Ok(()), |deadline| deadline.look())
    }

    /// Counts rows that a call has read, changed or emitted.
    fn count(&mut self, rows: u64) -> SqlResult<()> {
        let Some(left) = &mut self.rows_left else { return Ok(()) };
        match left.checked_sub(rows) {
            Some(fewer) => {
                *left = fewer;
                Ok(())
            }
            None => Err(self.too_many_rows()),
        }
    }

    fn too_many_rows(&self) -> SqlError {
        let most = self.routine.isolation.limits.rows.unwrap_or_default();
        let message = format!("routine \"{}\" exceeded its limit of {most} rows", self.routine.name);
        SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
    }

    /// Runs a query or a change, and keeps its rows for a cursor.
    fn open(&mut self, call: &PlannedCall, parameters: &[Datum]) -> SqlResult<Executed> {
        let mut rows = VecDeque::new();
        let left = self.rows_left;
        let changed = self.command(call, parameters, |run| {
            run.body_rows(&call.statement, &mut |row| {
                if left.is_some_and(|left| left <= rows.len() as u64) {
                    return Err(self.too_many_rows());
                }
                self.run.keep(MemoryUse::Results, row)?;
                rows.push_back(row.into());
                Ok(Flow::Continue(()))
            })
        })?;
        let count = changed.unwrap_or(rows.len() as u64);
        self.count(count)?;
        let Some(columns) = &call.columns else { return Ok(Executed { rows: count, cursor: None }) };
        let cursor = self.keep_rows(columns, rows)?;
        Ok(Executed { rows: count, cursor: Some(cursor) })
    }

    /// Keeps rows for a new cursor.
    fn keep_rows(&mut self, columns: &Arc<[SqlType]>, rows: VecDeque<Box<[Datum]>>) -> SqlResult<CursorHandle> {
        check_cursors(self.cursors.len(), self.routine)?;
        self.last_cursor += 1;
        self.cursors.insert(self.last_cursor, CodeCursor { columns: Arc::clone(columns), rows });
        Ok(CursorHandle(self.last_cursor))
    }
}

impl Drop for CodeCalls<'_, '_> {
    fn drop(&mut self) {
        let of_cursors = self.cursors.values().flat_map(|cursor| &cursor.rows);
        let bytes = of_cursors.chain(&self.emitted).map(|row| bytes_of(row)).sum();
        self.run.give_back(MemoryUse::Results, bytes);
    }
}

/// Checks the number of rows that code has returned for these rows of arguments.
pub(super) fn check_count(returned: usize, given: usize) -> SqlResult<()> {
    if returned == given {
        return Ok(());
    }
    let message = format!("the routine returned {returned} rows for {given}");
    Err(SqlError::new(SqlState::EXTERNAL_ROUTINE_INVOCATION_EXCEPTION, message))
}

/// Checks the number of rows that code which returns no set has returned.
pub(super) fn check_single(returned: usize) -> SqlResult<()> {
    if returned <= 1 {
        return Ok(());
    }
    let message = "the routine returned more than one row";
    Err(SqlError::new(SqlState::EXTERNAL_ROUTINE_INVOCATION_EXCEPTION, message))
}

/// Checks the number of cursors before another is opened.
pub(super) fn check_cursors(open: usize, routine: &Routine) -> SqlResult<()> {
    if open < CURSORS_MAX {
        return Ok(());
    }
    let message = format!("routine \"{}\" has more than {CURSORS_MAX} cursors open", routine.name);
    Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message))
}

/// Returns true for a procedure that may end the transaction if `CALL` runs it outside a transaction block. One with
/// settings or rights of its own has them to its end, and a transaction cannot end within them.
pub(crate) fn may_end_transactions(routine: &Routine) -> bool {
    routine.kind == RoutineKind::Procedure && !routine.is_security_definer && routine.settings.is_empty()
}

/// Returns the error for the end of a transaction where none is possible.
pub(crate) fn no_end_of_transaction() -> SqlError {
    SqlError::new(SqlState::INVALID_TRANSACTION_TERMINATION, "invalid transaction termination")
}

/// Returns the error for code that emits rows although its routine returns no set.
pub(super) fn no_set(routine: &Routine) -> SqlError {
    let message = format!("routine \"{}\" does not return a set", routine.name);
    SqlError::new(SqlState::EXTERNAL_ROUTINE_INVOCATION_EXCEPTION, message)
}

/// Returns the error for linked code of a function that has promised to change nothing, and wants tables without SQL.
pub(super) fn no_direct_access() -> SqlError {
    let message = "direct access to tables is not allowed in a non-volatile function";
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}

/// Checks a row that linked code has made: its width, and the types of its values.
///
/// # Errors
/// `39000` for another width, `42804` for a value of another type.
pub(super) fn check_values(row: &[Datum], kinds: &[SqlType]) -> SqlResult<()> {
    if row.len() != kinds.len() {
        return Err(broken("a row has other columns than declared"));
    }
    check_types(row, kinds)
}

fn check_types(values: &[Datum], kinds: &[SqlType]) -> SqlResult<()> {
    let is_value = |(value, of): &(&Datum, &SqlType)| value.is_null() || value.is_of(of.kind);
    match values.iter().zip(kinds).find(|pair| !is_value(pair)) {
        None => Ok(()),
        Some((_, of)) => {
            let message = format!("the routine sent a value of another type for one of type {}", of.kind.name());
            Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message))
        }
    }
}

fn broken(how: &str) -> SqlError {
    SqlError::new(SqlState::EXTERNAL_ROUTINE_INVOCATION_EXCEPTION, format!("the routine broke the protocol: {how}"))
}

impl EngineCalls for CodeCalls<'_, '_> {
    fn key(&mut self, table: TableHandle) -> SqlResult<Arc<[SqlType]>> {
        self.table(table).map(|planned| Arc::clone(&planned.table.key))
    }

    fn columns(&mut self, table: TableHandle) -> SqlResult<Arc<[SqlType]>> {
        self.table(table).map(|planned| Arc::clone(&planned.table.columns))
    }

    fn parameters(&mut self, statement: StatementHandle) -> SqlResult<Arc<[SqlType]>> {
        self.code.statement(statement, self.scope()).map(|call| Arc::clone(&call.parameters))
    }

    fn with_types(&mut self, of: TypesOf, each: &mut EachTypes<'_>) -> SqlResult<()> {
        match of {
            TypesOf::Key(table) => each(&self.table(table)?.table.key),
            TypesOf::Columns(table) => each(&self.table(table)?.table.columns),
            TypesOf::Parameters(statement) => each(&self.code.statement(statement, self.scope())?.parameters),
        }
    }

    fn cursor_columns(&mut self, cursor: CursorHandle) -> SqlResult<Arc<[SqlType]>> {
        self.cursors.get(&cursor.0).map(|open| Arc::clone(&open.columns)).ok_or_else(|| no_cursor(cursor))
    }

    fn foresee(&mut self, calls: &[ComingCall], values: &[Datum]) {
        let planned = |what| match what {
            ComingKind::Get { table, locks } => self.table_call(table, TableCall::Get { locks }),
            ComingKind::Delete(table) => self.table_call(table, TableCall::Delete),
            ComingKind::Statement(statement) => self.code.statement(statement, self.scope()),
        };
        // What fails here fails when the call is made.
        let planned: Vec<_> = calls.iter().map_while(|call| planned(call.what).ok()).collect();
        let rows = planned.iter().zip(calls).filter_map(|(planned, call)| {
            let (table, key) = planned.statement.keyed_row()?;
            Some((table, key, values.get(call.values.clone())?))
        });
        let clock = self.clock;
        let before = clock.map(|clock| clock.enter(Stage::Run));
        self.run.foresee(rows);
        if let (Some(clock), Some(before)) = (clock, before) {
            clock.restore(before);
        }
    }

    fn get(&mut self, table: TableHandle, key: &[Datum], locks: bool, each: &mut EachRow<'_>) -> SqlResult<bool> {
        self.check_key(table, key, false)?;
        let call = self.table_call(table, TableCall::Get { locks })?;
        let mut is_found = false;
        let mut each = |row: &[Datum]| {
            is_found = true;
            each(row)
        };
        self.command(&call, key, |run| run.body_rows(&call.statement, &mut each).map(drop))?;
        self.count(is_found.into())?;
        Ok(is_found)
    }

    fn get_typed(
        &mut self,
        table: TableHandle,
        key: &[Datum],
        locks: bool,
        each: &mut EachTypedRow<'_>,
    ) -> SqlResult<bool> {
        let columns = &*self.table(table)?.table.columns;
        self.get(table, key, locks, &mut |row| each(columns, row))
    }

    fn put(&mut self, table: TableHandle, row: &[Datum], is_new: bool) -> SqlResult<()> {
        check_values(row, &self.table(table)?.table.columns)?;
        let call = self.table_call(table, TableCall::Put { is_new })?;
        self.command(&call, row, |run| run.body_rows(&call.statement, &mut |_| Ok(Flow::Continue(()))))?;
        self.count(1)
    }

    fn delete(&mut self, table: TableHandle, key: &[Datum]) -> SqlResult<bool> {
        self.check_key(table, key, false)?;
        let call = self.table_call(table, TableCall::Delete)?;
        let changed =
            self.command(&call, key, |run| run.body_rows(&call.statement, &mut |_| Ok(Flow::Continue(()))))?;
        let changed = changed.unwrap_or_default();
        self.count(changed)?;
        Ok(0 < changed)
    }

    fn scan(&mut self, table: TableHandle, prefix: &[Datum], is_descending: bool) -> SqlResult<CursorHandle> {
        self.check_key(table, prefix, true)?;
        let call = self.table_call(table, TableCall::Scan { prefix: prefix.len(), is_descending })?;
        let opened = self.open(&call, prefix)?;
        opened.cursor.ok_or_else(|| SqlError::new(SqlState::INTERNAL_ERROR, "a scan without columns"))
    }

    fn next(&mut self, cursor: CursorHandle, count: u32, each: &mut EachRow<'_>) -> SqlResult<bool> {
        let open = self.cursors.get_mut(&cursor.0).ok_or_else(|| no_cursor(cursor))?;
        let is_over = open.pass(count, each, |bytes| self.run.give_back(MemoryUse::Results, bytes))?;
        if is_over {
            self.cursors.remove(&cursor.0);
        }
        Ok(is_over)
    }

    fn close(&mut self, cursor: CursorHandle) -> SqlResult<()> {
        let closed = self.cursors.remove(&cursor.0).ok_or_else(|| no_cursor(cursor))?;
        closed.rows.iter().for_each(|row| self.run.give_back(MemoryUse::Results, bytes_of(row)));
        Ok(())
    }

    fn execute(&mut self, statement: StatementHandle, parameters: &[Datum]) -> SqlResult<Executed> {
        let call = self.code.statement(statement, self.scope())?;
        self.open(&call, parameters)
    }

    fn query(
        &mut self,
        statement: StatementHandle,
        parameters: &[Datum],
        each: &mut EachTypedRow<'_>,
    ) -> SqlResult<Executed> {
        let call = self.code.statement(statement, self.scope())?;
        let (Some(columns), true) = (&call.columns, call.statement.keyed.is_some()) else {
            return query_by_cursor(self, statement, parameters, each);
        };
        // A row at most, which needs no cursor.
        let (mut rows, mut left) = (0, None);
        let changed = self.command(&call, parameters, |run| {
            run.body_rows(&call.statement, &mut |row| {
                rows += 1;
                if each(columns, row)?.is_break() {
                    left = Some(Box::from(row));
                }
                Ok(Flow::Continue(()))
            })
        })?;
        let rows = changed.unwrap_or(rows);
        self.count(rows)?;
        let Some(left) = left else { return Ok(Executed { rows, cursor: None }) };
        self.run.keep(MemoryUse::Results, &left)?;
        let cursor = self.keep_rows(columns, VecDeque::from([left]))?;
        Ok(Executed { rows, cursor: Some(cursor) })
    }

    fn end_transaction(&mut self, _: TransactionEnd) -> SqlResult<()> {
        if !may_end_transactions(self.routine) {
            return Err(no_end_of_transaction());
        }
        // The session runs the procedure again, on a thread of its own.
        Err(SqlError::again(RetryReason::EndsTransaction))
    }

    fn notice(&mut self, level: NoticeLevel, message: &str) -> SqlResult<()> {
        self.run.env.code.notice(level, message)
    }

    fn emit(&mut self, row: &[Datum]) -> SqlResult<()> {
        if !self.routine.is_set {
            return Err(no_set(self.routine));
        }
        check_values(row, &self.result)?;
        self.count(1)?;
        self.run.keep(MemoryUse::Results, row)?;
        self.emitted.push(row.into());
        Ok(())
    }

    fn result(&self) -> Arc<[SqlType]> {
        Arc::clone(&self.result)
    }

    fn look(&self) -> SqlResult<()> {
        self.look_at_deadline()?;
        pulse::look()
    }

    fn asleep(&self, wait: &mut dyn FnMut()) {
        asleep(self.clock, wait);
    }

    fn direct(&mut self, body: &mut DirectBody<'_>) -> SqlResult<bool> {
        if self.routine.volatility != Volatility::Volatile {
            return Err(no_direct_access());
        }
        self.look()?;
        let tables = self.code.direct(self.scope())?;
        for (table, put) in &tables.puts {
            for one in &put.statement.uses {
                self.run.hold_once(&one.table, one.hold)?;
            }
            if !self.run.txn.reads_latest() {
                self.run.txn.try_share_table(&table.table)?;
            }
        }
        let nested = self.run.txn.nested(|| {
            self.run.check_definitions()?;
            body(self.run.txn, &tables.engine)
        });
        nested.map_err(SqlError::from).and_then(|ran| ran).map(|()| true)
    }
}
