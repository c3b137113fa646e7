//! Calls of procedures in urgent contexts: reads and writes by key, without the executor and without a session.
//!
//! An urgent context interrupts any code, so it may use nothing that the interrupted code can be half-way through: no
//! lock of the standard library, no thread-local value with a destructor, no lazy value, no clock of a session. The
//! engine keeps to that. So does this module: tables, rights and the instance of the code are prepared by the session,
//! and what is left for the urgent context are calls of the engine, conversions of values, and memory.
//!
//! **Invariant:** an urgent call ends as the same call would by the executor, or it *gives up*: it leaves no trace, and
//! its session makes the call by the executor. It gives up wherever the executor would do more than read and write rows
//! by key: wait, evaluate a default, report the violation of a constraint, refuse a right. Nothing waits here.

use super::Run;
use super::code::{CodeCursor, check_cursors, check_single, check_values};
use crate::context::{
    InstancePlace, PreparedUrgent, UrgentCode, UrgentTable, no_cursor, no_handle, notice_bytes, tenant_of,
};
use catalog::storage::{datum, decimal, store};
use catalog::{Catalog, Routine, TableInfo};
use engine::{Begin, Direction, Row, RowLock, RowWriter, Step, Txn, Value, Wait};
use procs::calls::{DirectBody, EachRow};
use procs::ends::{self, Deadline};
use procs::{
    CursorHandle, EngineCalls, Executed, Instance, Invocation, NoticeLevel, StatementHandle, TableHandle,
    TransactionEnd,
};
use query::code::{CallScope, PlannedCall};
use query::plan::{Expr, RoutineCall, TableUse};
use stage::Class;
use statement::error::{SqlError, SqlResult, SqlState};
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use types::SqlType;
use types::datum::Datum;
use types::ops::is_same;

/// Greatest duration of an urgent call, which holds up the query that it has interrupted.
const BUDGET: Duration = Duration::from_millis(5);
/// Greatest number of rows that the scans of an urgent call read.
const SCANNED_MAX: usize = 1_000;
/// Greatest number of entries of indexes that they pass, with those whose rows are not to be seen.
const PASSED_MAX: usize = 10_000;
/// Entries between two looks for the end of the call.
const LOOK_EVERY: usize = 32;
/// Greatest number of bytes of the notices of an urgent call.
const NOTICES_MAX: usize = 64 << 10;

/// Reason for which an urgent call has left no trace, and is to be made by the executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GaveUp {
    /// Another transaction has a lock that the call needs.
    Lock,
    /// A write or the commit met a change of another transaction, or a constraint.
    Conflict,
    /// The catalog has changed since the call was prepared.
    Definitions,
    /// The call does what only the executor can.
    Executor,
    /// The call exceeded its budget of time or of rows.
    Budget,
    /// The code has crashed, perhaps because its stack is smaller here than elsewhere.
    Crash,
}

impl GaveUp {
    /// All reasons.
    pub const ALL: [GaveUp; 6] =
        [GaveUp::Lock, GaveUp::Conflict, GaveUp::Definitions, GaveUp::Executor, GaveUp::Budget, GaveUp::Crash];

    /// Returns the name of the reason in figures.
    pub fn name(self) -> &'static str {
        match self {
            GaveUp::Lock => "lock",
            GaveUp::Conflict => "conflict",
            GaveUp::Definitions => "definitions",
            GaveUp::Executor => "executor",
            GaveUp::Budget => "budget",
            GaveUp::Crash => "crash",
        }
    }
}

/// End of an urgent call.
#[derive(Debug)]
pub(crate) enum UrgentEnd {
    /// The call has committed, with this result.
    Committed(Vec<Vec<Datum>>),
    /// The code has failed, and the call left no trace.
    Failed(SqlError),
    /// The call left no trace.
    GaveUp(GaveUp),
}

/// Numbers of the calls of a table, in the order of [`UrgentTable::calls`].
const GET: usize = 0;
const LOCK: usize = 1;
const PUT: usize = 2;
const INSERT: usize = 3;
const DELETE: usize = 4;

/// Everything that a call needs in an urgent context. It is made and dropped in base context.
pub(crate) struct UrgentJob {
    pub(crate) session: engine::Session,
    pub(crate) instance: Box<dyn Instance>,
    /// Place to which the instance returns afterwards.
    pub(crate) place: InstancePlace,
    pub(crate) code: Arc<UrgentCode>,
    pub(crate) routine: Arc<Routine>,
    pub(crate) entry: u16,
    pub(crate) arguments: Vec<Datum>,
    pub(crate) kinds: Vec<SqlType>,
    pub(crate) result: Arc<[SqlType]>,
    pub(crate) catalog: Arc<Catalog>,
    /// Version of the catalog by which the call was prepared.
    pub(crate) version: u64,
    /// Notices of the code.
    pub(crate) notices: Vec<(NoticeLevel, String)>,
    /// True if the session stands in the queue of a lock.
    pub(crate) is_waiting: bool,
    /// True if the instance can run another invocation.
    pub(crate) is_sound: bool,
    pub(crate) end: Option<UrgentEnd>,
}

impl UrgentJob {
    /// Makes the call as a transaction of its own. Runs in an urgent context, within
    /// [`unwatched`](statement::pulse::unwatched).
    pub(crate) fn run(&mut self, is_cancelled: &AtomicBool) {
        let ended = panic::catch_unwind(AssertUnwindSafe(|| self.attempt(is_cancelled)));
        self.end = Some(match ended {
            Ok(end) => end,
            Err(payload) => {
                // Its drop is the code's, and may panic again.
                std::mem::forget(payload);
                self.is_sound = false;
                UrgentEnd::Failed(ends::crashed("it panicked"))
            }
        });
    }

    fn attempt(&mut self, is_cancelled: &AtomicBool) -> UrgentEnd {
        let UrgentJob { session, instance, code, routine, entry, arguments, kinds, result, .. } = self;
        let limits = routine.isolation.limits;
        let rows = [arguments.as_slice()];
        let invocation = Invocation { entry: *entry, rows: &rows, arguments: kinds, result, limits };
        let budget = Deadline::from_now(Some(BUDGET));
        let mut end = UrgentEnd::GaveUp(GaveUp::Conflict);
        let (notices, is_sound) = (&mut self.notices, &mut self.is_sound);
        let (catalog, version) = (&*self.catalog, self.version);
        let step = session.try_run(Begin::new(Class::High), |txn| {
            if !*is_sound {
                // The engine begins again after a conflict; what is left of the code cannot.
                return Err(engine::Error::RolledBack);
            }
            notices.clear();
            let mut calls = UrgentCalls {
                txn,
                code,
                routine,
                result,
                catalog,
                version,
                budget,
                deadline: Deadline::from_now(limits.time),
                is_cancelled,
                gave_up: Cell::new(None),
                cursors: Vec::new(),
                open: 0,
                scanned: 0,
                passed: 0,
                rows_left: limits.rows,
                notices,
                notice_bytes: 0,
            };
            let invoked = instance.invoke(&invocation, &mut calls);
            *is_sound = invoked.is_ok() || instance.is_reusable();
            // What would be refused later is refused now: a call that has committed has no error.
            let invoked = invoked.and_then(|rows| {
                check_single(rows.len())?;
                rows.iter().try_for_each(|row| check_values(row, result))?;
                Ok(rows)
            });
            let gave_up = calls.gave_up.get();
            end = match (gave_up, invoked) {
                (Some(gave_up), _) => UrgentEnd::GaveUp(gave_up),
                (None, Err(error)) if error.state() == SqlState::EXTERNAL_ROUTINE_EXCEPTION => {
                    UrgentEnd::GaveUp(GaveUp::Crash)
                }
                (None, Err(error)) => UrgentEnd::Failed(error),
                (None, Ok(rows)) => {
                    end = UrgentEnd::Committed(rows);
                    return Ok(());
                }
            };
            Err(engine::Error::RolledBack)
        });
        match step {
            Ok(Step::Done(())) | Err(engine::Error::RolledBack) => end,
            Ok(Step::Parked(ticket)) => {
                drop(ticket);
                self.is_waiting = true;
                UrgentEnd::GaveUp(GaveUp::Lock)
            }
            Err(_) => UrgentEnd::GaveUp(GaveUp::Conflict),
        }
    }
}

/// Engine as the code of an urgent call sees it.
struct UrgentCalls<'r, 'e> {
    txn: &'r Txn<'e>,
    code: &'r UrgentCode,
    routine: &'r Routine,
    result: &'r Arc<[SqlType]>,
    catalog: &'r Catalog,
    version: u64,
    budget: Option<Deadline>,
    /// End of the invocation by the routine's own limit.
    deadline: Option<Deadline>,
    is_cancelled: &'r AtomicBool,
    gave_up: Cell<Option<GaveUp>>,
    /// Open cursors, by their numbers less one. A map would want random keys, which a thread makes lazily.
    cursors: Vec<Option<CodeCursor>>,
    open: usize,
    scanned: usize,
    /// Entries of indexes that scans have passed.
    passed: usize,
    rows_left: Option<u64>,
    notices: &'r mut Vec<(NoticeLevel, String)>,
    notice_bytes: usize,
}

/// Returns true if a value is stored as it is: the executor would neither round nor cut it, nor refuse it.
fn fits(value: &Datum, kind: SqlType) -> bool {
    if kind.typmod < 0 {
        return true;
    }
    match value {
        Datum::Null => true,
        Datum::Text(text) => kind.max_length().is_some_and(|longest| text.chars().count() <= longest),
        Datum::Numeric(number) => decimal(kind).is_some_and(|(precision, scale)| {
            let scale = u32::from(scale.unsigned_abs());
            let bound = 10_u128.checked_pow(precision.into()).unwrap_or(u128::MAX);
            let unscaled = number.to_i128_with_scale(scale);
            number.scale() <= scale && unscaled.is_some_and(|unscaled| unscaled.unsigned_abs() < bound)
        }),
        Datum::Time(_) | Datum::Timestamp(_) => kind.second_digits() == Some(6),
        _ => false,
    }
}

/// Calls `f` with the stored form of values of these columns.
fn stored<'v, R>(
    table: &TableInfo,
    columns: impl Iterator<Item = usize>,
    values: impl Iterator<Item = &'v Datum>,
    f: impl FnOnce(&[Value<'_>]) -> R,
) -> SqlResult<R> {
    let of: Vec<(SqlType, &Datum)> = columns.map(|at| table.columns[at].kind).zip(values).collect();
    let mut buffers = vec![Vec::new(); of.len()];
    let values = of.iter().zip(&mut buffers).map(|((kind, value), buffer)| store(value, *kind, buffer));
    Ok(f(&values.collect::<SqlResult<Vec<_>>>()?))
}

impl<'r, 'e> UrgentCalls<'r, 'e> {
    /// Notes that the call is the executor's. Returns the error that ends the code.
    fn give_up(&self, why: GaveUp) -> SqlError {
        if self.gave_up.get().is_none() {
            self.gave_up.set(Some(why));
        }
        SqlError::new(SqlState::INTERNAL_ERROR, "the call is made by the executor")
    }

    /// Passes on a result of the engine. What the engine refuses, the executor words.
    fn by_engine<R>(&self, result: engine::Result<R>) -> SqlResult<R> {
        result.map_err(|error| {
            self.give_up(match error {
                engine::Error::MustWait => GaveUp::Lock,
                _ => GaveUp::Conflict,
            })
        })
    }

    fn table(&self, table: TableHandle) -> SqlResult<&'r UrgentTable> {
        self.code.tables.get(usize::from(table.0)).ok_or_else(|| no_handle("table", table.0))
    }

    fn statement(&self, statement: StatementHandle) -> SqlResult<&'r PlannedCall> {
        let found = self.code.statements.get(usize::from(statement.0));
        let found = found.ok_or_else(|| no_handle("statement", statement.0))?;
        found.as_deref().ok_or_else(|| self.give_up(GaveUp::Executor))
    }

    /// Takes the locks of a call, as its executor does.
    fn take(&self, uses: &[TableUse]) -> SqlResult<()> {
        for one in uses {
            self.by_engine(one.take(self.txn))?;
            if one.table.is_retired() {
                return Err(self.give_up(GaveUp::Definitions));
            }
        }
        Ok(())
    }

    /// Runs `body` as one command of the procedure.
    fn command<R>(&self, uses: &[TableUse], body: impl FnOnce() -> SqlResult<R>) -> SqlResult<R> {
        self.look()?;
        let ran = self.txn.nested(|| {
            if self.catalog.current_version() != self.version {
                return Err(self.give_up(GaveUp::Definitions));
            }
            self.take(uses)?;
            body()
        });
        self.by_engine(ran)?
    }

    /// Runs `body` as the call of this number of a table, if the role has the rights for it.
    fn call<R>(&self, table: &UrgentTable, call: usize, body: impl FnOnce() -> SqlResult<R>) -> SqlResult<R> {
        let planned = table.calls.get(call).and_then(Option::as_ref);
        let planned = planned.ok_or_else(|| self.give_up(GaveUp::Executor))?;
        self.command(&planned.statement.uses, body)
    }

    /// Counts rows that a call has read or changed.
    fn count(&mut self, rows: u64) -> SqlResult<()> {
        let Some(left) = self.rows_left else { return Ok(()) };
        self.rows_left = Some(left.checked_sub(rows).ok_or_else(|| self.give_up(GaveUp::Executor))?);
        Ok(())
    }

    /// Returns the row with a key of an index, if there is one.
    fn find(&self, table: &'r TableInfo, index: usize, columns: &[usize], key: &[Datum]) -> SqlResult<Option<Row<'r>>> {
        if key.len() == columns.len() && key.iter().any(Datum::is_null) {
            return Ok(None);
        }
        self.check_fit(table, columns, key)?;
        let found =
            stored(table, columns.iter().copied(), key.iter(), |values| self.txn.get(&table.table, index, values))?;
        self.by_engine(found)
    }

    /// Checks that the values can be those of the columns. The executor says what is wrong with others.
    fn check_fit(&self, table: &TableInfo, columns: &[usize], values: &[Datum]) -> SqlResult<()> {
        let fit = columns.len() == values.len()
            && columns.iter().zip(values).all(|(at, value)| fits(value, table.columns[*at].kind));
        if fit { Ok(()) } else { Err(self.give_up(GaveUp::Executor)) }
    }

    /// Locks a row. Returns it as it is then; `None` if it has gone, or has another key.
    fn locked(
        &self,
        table: &'r TableInfo,
        found: &Row<'_>,
        (columns, key): (&[usize], &[Datum]),
        mode: RowLock,
        wait: Wait,
    ) -> SqlResult<Option<Row<'r>>> {
        let locked = self.by_engine(self.txn.lock_newer(&table.table, found.row_id(), mode, wait))?;
        let is_it = |row: &Row<'_>| has_key(table, |at| row.get(at), columns, key);
        Ok(locked.filter(|(row, is_newer)| !is_newer || is_it(row)).map(|(row, _)| row))
    }

    fn open(&mut self, columns: &Arc<[SqlType]>, rows: VecDeque<Box<[Datum]>>) -> SqlResult<CursorHandle> {
        check_cursors(self.open, self.routine)?;
        self.open += 1;
        self.cursors.push(Some(CodeCursor { columns: Arc::clone(columns), rows }));
        Ok(CursorHandle(self.cursors.len() as u32))
    }

    fn cursor(&mut self, cursor: CursorHandle) -> Option<&mut Option<CodeCursor>> {
        let at = usize::try_from(cursor.0).ok()?.checked_sub(1)?;
        self.cursors.get_mut(at).filter(|cursor| cursor.is_some())
    }
}

/// Returns true if a row, of which `get` returns the columns, has these values in these columns.
fn has_key<'v>(table: &TableInfo, get: impl Fn(usize) -> Value<'v>, columns: &[usize], key: &[Datum]) -> bool {
    columns.iter().zip(key).all(|(at, value)| {
        let kind = table.columns[*at].kind;
        is_same(&datum(get(*at), kind), value, kind.kind)
    })
}

/// Returns the values of these columns of a row.
fn row_of(table: &TableInfo, row: &Row<'_>, columns: &[usize]) -> Vec<Datum> {
    columns.iter().map(|at| datum(row.get(*at), table.columns[*at].kind)).collect()
}

impl EngineCalls for UrgentCalls<'_, '_> {
    fn key(&mut self, table: TableHandle) -> SqlResult<Arc<[SqlType]>> {
        self.table(table).map(|table| Arc::clone(&table.key_types))
    }

    fn columns(&mut self, table: TableHandle) -> SqlResult<Arc<[SqlType]>> {
        self.table(table).map(|table| Arc::clone(&table.column_types))
    }

    fn parameters(&mut self, statement: StatementHandle) -> SqlResult<Arc<[SqlType]>> {
        self.statement(statement).map(|call| Arc::clone(&call.parameters))
    }

    fn cursor_columns(&mut self, cursor: CursorHandle) -> SqlResult<Arc<[SqlType]>> {
        let open = self.cursor(cursor).and_then(|cursor| cursor.as_ref());
        open.map(|open| Arc::clone(&open.columns)).ok_or_else(|| no_cursor(cursor))
    }

    fn get(&mut self, table: TableHandle, key: &[Datum], locks: bool, each: &mut EachRow<'_>) -> SqlResult<bool> {
        let of = self.table(table)?;
        let (info, columns) = (&*of.table, &*of.key);
        let is_found = self.call(of, if locks { LOCK } else { GET }, || {
            let found = match self.find(info, of.index, columns, key)? {
                Some(found) if locks => self.locked(info, &found, (columns, key), RowLock::Update, Wait::Block)?,
                found => found,
            };
            let Some(found) = found else { return Ok(false) };
            each(&row_of(info, &found, &of.columns)).map(|_| true)
        })?;
        self.count(is_found.into())?;
        Ok(is_found)
    }

    fn put(&mut self, table: TableHandle, row: &[Datum], is_new: bool) -> SqlResult<()> {
        let of = self.table(table)?;
        check_values(row, &of.column_types)?;
        let info = &*of.table;
        let places = of.key_in_columns.as_ref().ok_or_else(|| self.give_up(GaveUp::Executor))?;
        self.call(of, if is_new { INSERT } else { PUT }, || {
            let is_missing = |(at, value): (&usize, &Datum)| value.is_null() && info.columns[*at].not_null;
            if of.columns.iter().zip(row).any(is_missing) {
                return Err(self.give_up(GaveUp::Executor));
            }
            self.check_fit(info, &of.columns, row)?;
            let key: Vec<Datum> = places.iter().map(|at| row[*at].clone()).collect();
            let existing = match is_new {
                true => None,
                false => {
                    let newest = stored(info, of.key.iter().copied(), key.iter(), |values| {
                        self.txn.newest(&info.table, of.index, values)
                    })?;
                    self.by_engine(newest)?
                }
            };
            let Some(existing) = existing else {
                let mut all = vec![Datum::Null; info.columns.len()];
                of.columns.iter().zip(row).for_each(|(at, value)| all[*at] = value.clone());
                let inserted = stored(info, 0..all.len(), all.iter(), |values| self.txn.insert(&info.table, values))?;
                return self.by_engine(inserted).map(drop);
            };
            let others: Vec<usize> = (0..of.columns.len()).filter(|at| !places.contains(at)).collect();
            let targets = others.iter().map(|at| of.columns[*at]);
            let changed = stored(info, targets.clone(), others.iter().map(|at| &row[*at]), |values| {
                let patch = |writer: &mut RowWriter<'_>| {
                    let is_key = has_key(info, |at| writer.get(at), &of.key, &key);
                    if is_key {
                        targets.zip(values).for_each(|(at, value)| writer.set(at, *value));
                    }
                    is_key
                };
                self.txn.update_if(&info.table, existing.row_id(), patch)
            })?;
            // A row that has gone, or has another key now, is looked for again by the executor.
            if self.by_engine(changed)? { Ok(()) } else { Err(self.give_up(GaveUp::Conflict)) }
        })?;
        self.count(1)
    }

    fn delete(&mut self, table: TableHandle, key: &[Datum]) -> SqlResult<bool> {
        let of = self.table(table)?;
        let (info, columns) = (&*of.table, &*of.key);
        let was_there = self.call(of, DELETE, || {
            let Some(found) = self.find(info, of.index, columns, key)? else { return Ok(false) };
            let is_it = |row: &Row<'_>| has_key(info, |at| row.get(at), columns, key);
            self.by_engine(self.txn.delete_if(&info.table, found.row_id(), is_it))
        })?;
        self.count(was_there.into())?;
        Ok(was_there)
    }

    fn scan(&mut self, table: TableHandle, prefix: &[Datum], is_descending: bool) -> SqlResult<CursorHandle> {
        let of = self.table(table)?;
        let info = &*of.table;
        let direction = if is_descending { Direction::Backward } else { Direction::Forward };
        let (room, mut passed) = (SCANNED_MAX - self.scanned, self.passed);
        // It needs the rights that a read of one row needs.
        let rows = self.call(of, GET, || {
            let mut rows = VecDeque::new();
            let columns = of.key.get(..prefix.len()).unwrap_or(&of.key);
            if prefix.iter().any(Datum::is_null) {
                return Ok(rows);
            }
            self.check_fit(info, columns, prefix)?;
            let range = stored(info, columns.iter().copied(), prefix.iter(), |values| {
                self.txn.range(&info.table, of.index, values, direction)
            })?;
            let mut range = self.by_engine(range)?;
            while let Some(row) = range.pass() {
                passed += 1;
                if passed.is_multiple_of(LOOK_EVERY) {
                    self.look()?;
                }
                if PASSED_MAX < passed || row.is_some() && room <= rows.len() {
                    return Err(self.give_up(GaveUp::Budget));
                }
                rows.extend(row.map(|row| Box::from(row_of(info, &row, &of.columns))));
            }
            Ok(rows)
        })?;
        self.passed = passed;
        self.scanned += rows.len();
        self.count(rows.len() as u64)?;
        self.open(&of.column_types, rows)
    }

    fn next(&mut self, cursor: CursorHandle, count: u32, each: &mut EachRow<'_>) -> SqlResult<bool> {
        let place = self.cursor(cursor).ok_or_else(|| no_cursor(cursor))?;
        let is_over = place.as_mut().map_or(Ok(true), |open| open.pass(count, each, |_| ()))?;
        if is_over {
            *place = None;
            self.open -= 1;
        }
        Ok(is_over)
    }

    fn close(&mut self, cursor: CursorHandle) -> SqlResult<()> {
        let place = self.cursor(cursor).ok_or_else(|| no_cursor(cursor))?;
        *place = None;
        self.open -= 1;
        Ok(())
    }

    fn execute(&mut self, statement: StatementHandle, parameters: &[Datum]) -> SqlResult<Executed> {
        let call = self.statement(statement)?;
        let (Some(read), Some(columns)) = (call.keyed_read(), &call.columns) else {
            return Err(self.give_up(GaveUp::Executor));
        };
        let info = &*read.table;
        let index = info.indexes.get(read.key.index).ok_or_else(|| self.give_up(GaveUp::Executor))?;
        // Values of other types than their columns' are compared by the executor.
        let value = |(key, at): (&query::plan::KeyValue, &usize)| match key.value {
            _ if key.kind != info.columns[*at].kind.kind => None,
            Expr::Parameter(number) => parameters.get(number).cloned(),
            Expr::Constant(ref constant) => Some(constant.clone()),
            _ => None,
        };
        let key = read.key.values.iter().zip(&index.columns).map(value).collect::<Option<Vec<Datum>>>();
        let key = key.ok_or_else(|| self.give_up(GaveUp::Executor))?;
        let row = self.command(&call.statement.uses, || {
            let found = match (self.find(info, read.key.index, &index.columns, &key)?, &read.lock) {
                (Some(found), Some(lock)) => self.locked(info, &found, (&index.columns, &key), lock.mode, lock.wait)?,
                (found, _) => found,
            };
            Ok(found.map(|row| row_of(info, &row, &read.columns)))
        })?;
        let rows: VecDeque<Box<[Datum]>> = row.into_iter().map(Into::into).collect();
        let count = rows.len() as u64;
        self.count(count)?;
        Ok(Executed { rows: count, cursor: Some(self.open(columns, rows)?) })
    }

    fn end_transaction(&mut self, _: TransactionEnd) -> SqlResult<()> {
        Err(self.give_up(GaveUp::Executor))
    }

    fn notice(&mut self, level: NoticeLevel, message: &str) -> SqlResult<()> {
        self.notice_bytes += notice_bytes(message);
        if NOTICES_MAX < self.notice_bytes {
            return Err(self.give_up(GaveUp::Budget));
        }
        self.notices.push((level, message.to_owned()));
        Ok(())
    }

    fn emit(&mut self, _: &[Datum]) -> SqlResult<()> {
        Err(self.give_up(GaveUp::Executor))
    }

    fn result(&self) -> Arc<[SqlType]> {
        Arc::clone(self.result)
    }

    fn look(&self) -> SqlResult<()> {
        if self.is_cancelled.load(Relaxed) {
            return Err(SqlError::from(engine::Error::Cancelled));
        }
        self.deadline.map_or(Ok(()), |deadline| deadline.look())?;
        match self.budget.map_or(Ok(()), |budget| budget.look()) {
            Ok(()) => Ok(()),
            Err(_) => Err(self.give_up(GaveUp::Budget)),
        }
    }

    fn direct(&mut self, body: &mut DirectBody<'_>) -> SqlResult<bool> {
        let uses = self.code.direct.as_ref().ok_or_else(|| self.give_up(GaveUp::Executor))?;
        self.command(uses, || {
            body(self.txn, &self.code.engine).map_err(|error| match error.engine().cloned() {
                Some(own) => match self.by_engine::<()>(Err(own)) {
                    Ok(()) => error,
                    Err(given_up) => given_up,
                },
                None => error,
            })
        })?;
        Ok(true)
    }
}

impl Run<'_> {
    /// Prepares an urgent call of a procedure, and evaluates its arguments. Returns `None` if only the executor can make
    /// the call.
    ///
    /// # Errors
    /// Those of the arguments; `42501` if the current role may not call it; those of
    /// [`SessionCode::prepare_urgent`](crate::context::SessionCode::prepare_urgent).
    pub(crate) fn prepare_urgent(&self, call: &RoutineCall) -> SqlResult<Option<(PreparedUrgent, Vec<Datum>)>> {
        let arguments = self.procedure_arguments(call)?;
        let routine = &call.routine;
        if routine.is_strict && arguments.iter().any(Datum::is_null) {
            return Ok(None);
        }
        let scope = CallScope { catalog: self.catalog, path: self.path, env: self.env };
        let prepared = self.env.code.prepare_urgent(routine, tenant_of(self.env), (scope, self.env))?;
        Ok(prepared.map(|prepared| (prepared, arguments)))
    }
}

/// Returns true for an argument whose evaluation has no effect, so that it may be evaluated twice.
pub(crate) fn is_plain(argument: &Expr) -> bool {
    match argument {
        Expr::Constant(_) | Expr::Parameter(_) => true,
        Expr::Cast { eval: _, to: _, argument } => is_plain(argument),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::Kind;
    use types::numeric::Numeric;

    #[test]
    fn a_value_fits_if_the_executor_would_store_it_as_it_is() {
        let numeric = SqlType::numeric(5, 2);
        let number = |unscaled: i128, scale| Datum::Numeric(Numeric::from_parts(unscaled, scale));
        for (value, does) in [
            (number(12_345, 2), true),
            (number(99_999, 2), true),
            (number(100_000, 2), false),
            (number(1, 3), false),
            (number(999, 0), true),
            (number(1_000, 0), false),
            (Datum::Null, true),
        ] {
            assert_eq!(fits(&value, numeric), does, "{value:?}");
        }
        let varchar = SqlType { kind: Kind::Varchar, typmod: 4 + 3 };
        assert!(fits(&Datum::text("äöü"), varchar));
        assert!(!fits(&Datum::text("abcd"), varchar));
        assert!(fits(&Datum::text("abcd"), Kind::Text.into()));
        assert!(fits(&Datum::Int4(7), Kind::Int4.into()));
        assert!(!fits(&Datum::Timestamp(1), SqlType { kind: Kind::Timestamp, typmod: 3 }));
    }
}
