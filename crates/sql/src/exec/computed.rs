//! Stored code that an analytical run calls: computations, which reach no rows and so need no transaction.
//!
//! Several threads may call it at once. Each call takes an instance of the session's, or a new one, so calls never
//! share one.
//!
//! **Invariant:** the code has the rights, the settings, the limits and the instances that it has on the row path. What
//! depends on the order of calls, such as notices, is refused. A failure is remembered: rows decide whether it is one
//! of the query, since the two paths may call code for different rows before an error.

use super::code::{check_count, check_values, no_direct_access, no_end_of_transaction, no_set, of_code};
use crate::context::{Env, PlannedRoutine, no_cursor, no_handle};
use catalog::{CatalogSnapshot, Routine};
use procs::calls::{DirectBody, EachRow};
use procs::ends::Deadline;
use procs::{
    CursorHandle, EngineCalls, Executed, Instance, Invocation, NoticeLevel, StatementHandle, TableHandle,
    TransactionEnd,
};
use query::analytics::StoredCode;
use stage::AwayTime;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use types::SqlType;
use types::datum::Datum;

/// Stored code of one statement.
pub(crate) struct StatementCode {
    env: Arc<Env>,
    has_ended: AtomicBool,
    has_failed: AtomicBool,
    /// Time in code, if the session's clock runs.
    crossing: Option<AwayTime>,
}

impl fmt::Debug for StatementCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StatementCode")
    }
}

/// Guard of the time in code.
struct CrossingGuard<'c>(Option<&'c AwayTime>);

impl Drop for CrossingGuard<'_> {
    fn drop(&mut self) {
        if let Some(time) = self.0 {
            time.end();
        }
    }
}

impl StatementCode {
    /// Returns the code of a statement with this environment. With `is_apart`, it goes on while the session runs other
    /// statements, so it shares no instances with these.
    pub(crate) fn new(env: &Arc<Env>, is_apart: bool) -> Arc<StatementCode> {
        let mut env = Arc::clone(env);
        if is_apart {
            let code = env.code.apart();
            Arc::make_mut(&mut env).code = code;
        }
        let crossing = env.code.clock().map(|clock| AwayTime::new(clock.source().clone()));
        let (has_ended, has_failed) = Default::default();
        Arc::new(StatementCode { env, has_ended, has_failed, crossing })
    }

    /// Returns true if a call has failed, whatever DataFusion has made of the error.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Relaxed)
    }

    /// Returns the time in code.
    pub(crate) fn crossing(&self) -> Option<&AwayTime> {
        self.crossing.as_ref()
    }

    fn enter(&self) -> CrossingGuard<'_> {
        let time = self.crossing.as_ref();
        if let Some(time) = time {
            time.begin();
        }
        CrossingGuard(time)
    }

    /// Runs a wait in which a thread that has entered code sleeps.
    fn asleep(&self, wait: &mut dyn FnMut()) {
        match &self.crossing {
            Some(time) => time.asleep(wait),
            None => wait(),
        }
    }

    fn look(&self) -> SqlResult<()> {
        if self.has_ended.load(Relaxed) {
            return Err(SqlError::from(engine::Error::Cancelled));
        }
        pulse::look()
    }

    /// Returns true if no row can be computed after this error.
    fn ends_run(&self, error: &SqlError) -> bool {
        self.has_ended.load(Relaxed) || error.engine().is_some() || error.cancellation().is_some()
    }

    fn values(&self, routine: &Arc<Routine>, rows: &[&[Datum]]) -> SqlResult<Vec<Datum>> {
        self.look()?;
        let of_session = &*self.env;
        let snapshot = of_session.catalog_snapshot.as_deref();
        let snapshot = snapshot.ok_or_else(|| SqlError::new(SqlState::INTERNAL_ERROR, "code without a catalog"))?;
        let catalog = &*snapshot.state;
        of_session.bodies.check_execute(routine, catalog, of_session)?;
        let own = of_session.bodies.env_of(routine, catalog, of_session)?;
        let (env, path) = own.as_ref().map_or((of_session, &snapshot.path), |(env, path)| (env, path));
        let called = |rows: &[&[Datum]]| {
            let returned = self.called(routine, (env, path, snapshot), rows);
            returned.map_err(|error| of_code(error, routine))
        };
        match called(rows) {
            // The rows may be too much together, or the first that fails is another one.
            Err(error) if 1 < rows.len() && !self.ends_run(&error) => {
                let mut all = Vec::with_capacity(rows.len());
                for row in rows {
                    all.extend(called(std::slice::from_ref(row))?);
                }
                Ok(all)
            }
            returned => returned,
        }
    }

    fn called(
        &self,
        routine: &Arc<Routine>,
        (env, path, snapshot): (&Env, &[String], &CatalogSnapshot),
        rows: &[&[Datum]],
    ) -> SqlResult<Vec<Datum>> {
        let planned = env.code.planned(routine, &snapshot.state, path, env)?;
        let limits = routine.isolation.limits;
        let PlannedRoutine { entry, arguments, result, .. } = &*planned;
        let invocation = Invocation { entry: *entry, rows, arguments, result, limits };
        let deadline = Deadline::from_now(limits.time);
        let mut calls = Computation { code: self, routine, result: Arc::clone(result), deadline };
        let in_code = self.enter();
        let invoke = |instance: &mut dyn Instance| instance.invoke(&invocation, &mut calls);
        let invoked = env.code.with_instance(&planned, |wait| self.asleep(wait), invoke);
        drop(in_code);
        let returned = invoked?;
        check_count(returned.len(), rows.len())?;
        let first = |row: Vec<Datum>| check_values(&row, result).map(|()| row.into_iter().next().unwrap_or_default());
        returned.into_iter().map(first).collect()
    }
}

impl StoredCode for StatementCode {
    fn call(&self, routine: &Arc<Routine>, rows: &[&[Datum]]) -> SqlResult<Vec<Datum>> {
        let values = self.values(routine, rows);
        if let Err(error) = &values
            && !self.ends_run(error)
        {
            self.has_failed.store(true, Relaxed);
        }
        values
    }

    fn end(&self) {
        self.has_ended.store(true, Relaxed);
    }
}

/// Engine as a computation sees it: there is none.
struct Computation<'c> {
    code: &'c StatementCode,
    routine: &'c Routine,
    result: Arc<[SqlType]>,
    deadline: Option<Deadline>,
}

impl EngineCalls for Computation<'_> {
    fn key(&mut self, table: TableHandle) -> SqlResult<Arc<[SqlType]>> {
        Err(no_handle("table", table.0))
    }

    fn columns(&mut self, table: TableHandle) -> SqlResult<Arc<[SqlType]>> {
        Err(no_handle("table", table.0))
    }

    fn parameters(&mut self, statement: StatementHandle) -> SqlResult<Arc<[SqlType]>> {
        Err(no_handle("statement", statement.0))
    }

    fn cursor_columns(&mut self, cursor: CursorHandle) -> SqlResult<Arc<[SqlType]>> {
        Err(no_cursor(cursor))
    }

    fn get(&mut self, table: TableHandle, _: &[Datum], _: bool, _: &mut EachRow<'_>) -> SqlResult<bool> {
        Err(no_handle("table", table.0))
    }

    fn put(&mut self, table: TableHandle, _: &[Datum], _: bool) -> SqlResult<()> {
        Err(no_handle("table", table.0))
    }

    fn delete(&mut self, table: TableHandle, _: &[Datum]) -> SqlResult<bool> {
        Err(no_handle("table", table.0))
    }

    fn scan(&mut self, table: TableHandle, _: &[Datum], _: bool) -> SqlResult<CursorHandle> {
        Err(no_handle("table", table.0))
    }

    fn next(&mut self, cursor: CursorHandle, _: u32, _: &mut EachRow<'_>) -> SqlResult<bool> {
        Err(no_cursor(cursor))
    }

    fn close(&mut self, cursor: CursorHandle) -> SqlResult<()> {
        Err(no_cursor(cursor))
    }

    fn execute(&mut self, statement: StatementHandle, _: &[Datum]) -> SqlResult<Executed> {
        Err(no_handle("statement", statement.0))
    }

    fn end_transaction(&mut self, _: TransactionEnd) -> SqlResult<()> {
        Err(no_end_of_transaction())
    }

    fn notice(&mut self, _: NoticeLevel, _: &str) -> SqlResult<()> {
        Err(SqlError::unsupported("notices of a stored function as analytics"))
    }

    fn emit(&mut self, _: &[Datum]) -> SqlResult<()> {
        Err(no_set(self.routine))
    }

    fn result(&self) -> Arc<[SqlType]> {
        Arc::clone(&self.result)
    }

    fn look(&self) -> SqlResult<()> {
        self.deadline.map_or(Ok(()), |deadline| deadline.look())?;
        self.code.look()
    }

    fn asleep(&self, wait: &mut dyn FnMut()) {
        self.code.asleep(wait);
    }

    fn direct(&mut self, _: &mut DirectBody<'_>) -> SqlResult<bool> {
        Err(no_direct_access())
    }
}
