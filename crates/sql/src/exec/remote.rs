//! Code of a procedure that may end transactions: it runs on a thread of its own, and its session makes its calls.
//!
//! A statement of the engine cannot outlast a transaction, so the code does not run within one. Each of its calls is a
//! statement of the session, which alone waits and begins again if it meets a lock; what was committed before is not
//! repeated.
//!
//! **Invariant:** code and session take turns: one of them waits while the other works, so they need no more than a
//! place for one letter and one for its answer. Code whose session needs it no more meets an error at its next call or
//! look, within 100 ms.

use super::code::{CodeCursor, check_cursors, check_single, check_values, no_set, of_code};
use super::steps::{StepAnswer, StepCall};
use crate::context::{Env, PlannedRoutine, no_cursor};
use catalog::{CatalogState, Module, Routine};
use engine::Wake;
use locked::{Locked, LockedResult};
use procs::calls::{DirectBody, EachRow, TypesOf};
use procs::ends::Deadline;
use procs::{
    CursorHandle, EngineCalls, Executed, Invocation, NoticeLevel, StatementHandle, TableHandle, TransactionEnd,
};
use query::analytics::AnalyticsRun;
use query::rows::{BYTES_MAX, bytes_of, too_much};
use stage::{AwayTime, StageClock};
use statement::error::{Cancellation, SqlError, SqlResult, SqlState};
use statement::holdings::{MemoryUse, SessionHoldings};
use statement::pulse::{self, Watch};
use statement::time::TimeSource;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;
use types::SqlType;
use types::datum::Datum;

/// Letter of the code to its session.
pub(crate) enum Letter {
    /// Call that is a statement, and the end of the invocation.
    Call(StepCall, Option<Deadline>),
    /// End of the transaction.
    EndTransaction(TransactionEnd),
    /// Notice for the client.
    Notice(NoticeLevel, String),
    /// Result of the procedure. The thread ends.
    Result(SqlResult<Vec<Vec<Datum>>>),
}

/// Place where a procedure and its session meet.
pub(crate) struct Mailbox {
    state: Mutex<MailboxState>,
    answered: Condvar,
    /// True if the session needs the code no more.
    has_ended: AtomicBool,
    time: TimeSource,
    /// End of the session's statement.
    deadline: Option<Instant>,
    /// Time in which the code works, if the session's clock runs.
    work: Option<AwayTime>,
}

#[derive(Default)]
struct MailboxState {
    letter: Option<Letter>,
    answer: Option<StepAnswer>,
    /// Session that waits for a letter.
    reader: Option<Arc<dyn Wake>>,
}

impl Mailbox {
    /// Creates the place for a statement that ends by `deadline`.
    pub(crate) fn new(time: TimeSource, deadline: Option<Instant>, clock: Option<Arc<StageClock>>) -> Arc<Mailbox> {
        let (state, answered, has_ended) = Default::default();
        let work = clock.map(|clock| AwayTime::new(clock.source().clone()));
        let mailbox = Mailbox { state, answered, has_ended, time, deadline, work };
        mailbox.works(true);
        Arc::new(mailbox)
    }

    /// Notes whether the code works, or waits.
    fn works(&self, does: bool) {
        match &self.work {
            Some(work) if does => work.begin(),
            Some(work) => work.end(),
            None => {}
        }
    }

    /// Runs a wait in which the code's thread, which works, sleeps.
    fn asleep(&self, wait: &mut dyn FnMut()) {
        match &self.work {
            Some(work) => work.asleep(wait),
            None => wait(),
        }
    }

    /// Takes the letter, if there is one.
    pub(crate) fn letter(&self) -> Option<Letter> {
        self.state.locked_anyway().letter.take()
    }

    /// Returns true if there is a letter.
    pub(crate) fn has_letter(&self) -> bool {
        self.state.locked_anyway().letter.is_some()
    }

    /// Calls `reader` when there is a letter; at once, if there is one.
    pub(crate) fn on_letter(&self, reader: Arc<dyn Wake>) {
        let mut state = self.state.locked_anyway();
        if state.letter.is_none() {
            state.reader = Some(reader);
            return;
        }
        drop(state);
        reader.wake();
    }

    /// Answers the letter that was taken last.
    pub(crate) fn answer(&self, answer: StepAnswer) {
        self.state.locked_anyway().answer = Some(answer);
        self.answered.notify_all();
    }

    /// Sends the error of a thread that has ended otherwise.
    pub(crate) fn fail(&self, error: SqlError) {
        self.put(Letter::Result(Err(error)));
    }

    /// Ends the code.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Relaxed);
        // With the lock, so that the code is not between its look and its wait.
        drop(self.state.locked_anyway());
        self.answered.notify_all();
    }

    /// Returns the time in which the code has worked.
    pub(crate) fn work(&self) -> Option<&AwayTime> {
        self.work.as_ref()
    }

    fn put(&self, letter: Letter) {
        self.works(false);
        let reader = {
            let mut state = self.state.locked_anyway();
            state.letter = Some(letter);
            state.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Sends a letter, and waits for its answer.
    fn ask(&self, letter: Letter) -> SqlResult<StepAnswer> {
        Watch::look(self)?;
        self.put(letter);
        let mut state = self.state.locked_anyway();
        let answer = loop {
            if self.has_ended.load(Relaxed) {
                return Err(SqlError::from(engine::Error::Cancelled));
            }
            match state.answer.take() {
                Some(answer) => break answer,
                None => state = self.answered.wait(state).anyway(),
            }
        };
        drop(state);
        self.works(true);
        Ok(answer)
    }
}

impl Watch for Mailbox {
    fn look(&self) -> SqlResult<()> {
        if self.has_ended.load(Relaxed) {
            return Err(SqlError::from(engine::Error::Cancelled));
        }
        match self.deadline {
            Some(deadline) if self.time.is_past(deadline) => Err(SqlError::cancelled(Cancellation::StatementTimeout)),
            Some(_) | None => Ok(()),
        }
    }
}

impl AnalyticsRun for Mailbox {
    fn cancel(&self) {
        self.end();
    }
}

/// Procedure that is about to run on a thread of its own.
pub(crate) struct RemoteProcedure {
    env: Arc<Env>,
    planned: Arc<PlannedRoutine>,
    arguments: Vec<Datum>,
    mailbox: Arc<Mailbox>,
}

impl RemoteProcedure {
    /// Prepares the code of a procedure.
    ///
    /// # Errors
    /// Those of [`SessionCode::planned`](crate::context::SessionCode::planned).
    pub(crate) fn new(
        routine: &Arc<Routine>,
        arguments: Vec<Datum>,
        (env, catalog, path): (Arc<Env>, &CatalogState, &[String]),
        mailbox: &Arc<Mailbox>,
    ) -> SqlResult<RemoteProcedure> {
        let planned = env.code.planned(routine, catalog, path, &env)?;
        Ok(RemoteProcedure { env, planned, arguments, mailbox: Arc::clone(mailbox) })
    }

    /// Returns the module of the code.
    pub(crate) fn module(&self) -> &Arc<Module> {
        self.planned.code.module()
    }

    /// Runs the code to its end, which the session learns by a letter.
    pub(crate) fn run(self) {
        let result = pulse::during(Arc::clone(&self.mailbox) as _, || self.invoked());
        let result = result.map_err(|error| of_code(error, &self.planned.routine));
        self.mailbox.put(Letter::Result(result));
    }

    fn invoked(&self) -> SqlResult<Vec<Vec<Datum>>> {
        let RemoteProcedure { env, planned, arguments, mailbox } = self;
        let PlannedRoutine { routine, entry, arguments: kinds, result, .. } = &**planned;
        let limits = routine.isolation.limits;
        let rows = [arguments.as_slice()];
        let invocation = Invocation { entry: *entry, rows: &rows, arguments: kinds, result, limits };
        let mut calls = RemoteCalls {
            mailbox,
            routine,
            result: Arc::clone(result),
            deadline: Deadline::from_now(limits.time),
            cursors: HashMap::new(),
            last_cursor: 0,
            held: HeldRows { bytes: 0, session: &env.holdings },
            types: HashMap::new(),
        };
        let invoke = |instance: &mut dyn procs::Instance| instance.invoke(&invocation, &mut calls);
        let returned = env.code.with_instance(planned, |wait| mailbox.asleep(wait), invoke)?;
        check_single(returned.len())?;
        returned.iter().try_for_each(|row| check_values(row, result))?;
        Ok(returned)
    }
}

/// Engine as the code sees it: its session makes the calls.
struct RemoteCalls<'r> {
    mailbox: &'r Mailbox,
    routine: &'r Routine,
    result: Arc<[SqlType]>,
    /// End of the invocation by the routine's own limit.
    deadline: Option<Deadline>,
    cursors: HashMap<u32, CodeCursor>,
    last_cursor: u32,
    /// Rows of the cursors.
    held: HeldRows<'r>,
    /// Types that the session has told in this transaction. The values of a call are checked by its own definitions.
    types: HashMap<TypesOf, Arc<[SqlType]>>,
}

/// Memory of the rows that the cursors of the code hold, together, from one statement of its session to the next.
struct HeldRows<'r> {
    bytes: usize,
    session: &'r SessionHoldings,
}

impl HeldRows<'_> {
    /// Adds the rows of a cursor.
    ///
    /// # Errors
    /// `53200` if that exceeds the limit of a statement or of the process.
    fn add<'d>(&mut self, rows: impl Iterator<Item = &'d [Datum]>) -> SqlResult<()> {
        let more = rows.map(bytes_of).sum();
        SqlError::check_room(more)?;
        self.bytes += more;
        self.session.add(MemoryUse::Cursors, more as i64);
        if self.bytes <= BYTES_MAX { Ok(()) } else { Err(too_much()) }
    }

    fn give_back(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.session.add(MemoryUse::Cursors, -(bytes as i64));
    }

    /// Gives back the rest of a cursor.
    fn close(&mut self, cursor: &CodeCursor) {
        self.give_back(cursor.rows.iter().map(|row| bytes_of(row)).sum());
    }
}

impl Drop for HeldRows<'_> {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

/// Returns the error for an answer of another kind than that of its call.
fn mixed_up() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "the answer belongs to another call of the procedure")
}

impl RemoteCalls<'_> {
    fn ask(&self, letter: Letter) -> SqlResult<StepAnswer> {
        self.deadline.map_or(Ok(()), |deadline| deadline.look())?;
        self.mailbox.ask(letter)
    }

    fn call(&self, call: StepCall) -> SqlResult<StepAnswer> {
        self.ask(Letter::Call(call, self.deadline))
    }

    fn types(&mut self, of: TypesOf) -> SqlResult<Arc<[SqlType]>> {
        if let Some(known) = self.types.get(&of) {
            return Ok(Arc::clone(known));
        }
        match self.call(StepCall::Types(of))? {
            StepAnswer::Types(types) => Ok(Arc::clone(self.types.entry(of).or_insert(types))),
            StepAnswer::Row(_) | StepAnswer::Found(_) | StepAnswer::Executed(..) | StepAnswer::Nothing => {
                Err(mixed_up())
            }
        }
    }

    fn nothing(&self, letter: Letter) -> SqlResult<()> {
        match self.ask(letter)? {
            StepAnswer::Nothing => Ok(()),
            StepAnswer::Types(_) | StepAnswer::Row(_) | StepAnswer::Found(_) | StepAnswer::Executed(..) => {
                Err(mixed_up())
            }
        }
    }

    fn executed(&mut self, call: StepCall) -> SqlResult<Executed> {
        check_cursors(self.cursors.len(), self.routine)?;
        match self.call(call)? {
            StepAnswer::Executed(rows, None) => Ok(Executed { rows, cursor: None }),
            StepAnswer::Executed(rows, Some(cursor)) => {
                self.held.add(cursor.rows.iter().map(|row| &**row))?;
                self.last_cursor += 1;
                self.cursors.insert(self.last_cursor, cursor);
                Ok(Executed { rows, cursor: Some(CursorHandle(self.last_cursor)) })
            }
            StepAnswer::Types(_) | StepAnswer::Row(_) | StepAnswer::Found(_) | StepAnswer::Nothing => Err(mixed_up()),
        }
    }
}

impl EngineCalls for RemoteCalls<'_> {
    fn key(&mut self, table: TableHandle) -> SqlResult<Arc<[SqlType]>> {
        self.types(TypesOf::Key(table))
    }

    fn columns(&mut self, table: TableHandle) -> SqlResult<Arc<[SqlType]>> {
        self.types(TypesOf::Columns(table))
    }

    fn parameters(&mut self, statement: StatementHandle) -> SqlResult<Arc<[SqlType]>> {
        self.types(TypesOf::Parameters(statement))
    }

    fn cursor_columns(&mut self, cursor: CursorHandle) -> SqlResult<Arc<[SqlType]>> {
        self.cursors.get(&cursor.0).map(|open| Arc::clone(&open.columns)).ok_or_else(|| no_cursor(cursor))
    }

    fn get(&mut self, table: TableHandle, key: &[Datum], locks: bool, each: &mut EachRow<'_>) -> SqlResult<bool> {
        match self.call(StepCall::Get { table, key: key.to_vec(), locks })? {
            StepAnswer::Row(None) => Ok(false),
            StepAnswer::Row(Some(row)) => each(&row).map(|_| true),
            StepAnswer::Types(_) | StepAnswer::Found(_) | StepAnswer::Executed(..) | StepAnswer::Nothing => {
                Err(mixed_up())
            }
        }
    }

    fn put(&mut self, table: TableHandle, row: &[Datum], is_new: bool) -> SqlResult<()> {
        self.nothing(Letter::Call(StepCall::Put { table, row: row.to_vec(), is_new }, self.deadline))
    }

    fn delete(&mut self, table: TableHandle, key: &[Datum]) -> SqlResult<bool> {
        match self.call(StepCall::Delete { table, key: key.to_vec() })? {
            StepAnswer::Found(was_there) => Ok(was_there),
            StepAnswer::Types(_) | StepAnswer::Row(_) | StepAnswer::Executed(..) | StepAnswer::Nothing => {
                Err(mixed_up())
            }
        }
    }

    fn scan(&mut self, table: TableHandle, prefix: &[Datum], is_descending: bool) -> SqlResult<CursorHandle> {
        let opened = self.executed(StepCall::Scan { table, prefix: prefix.to_vec(), is_descending })?;
        opened.cursor.ok_or_else(mixed_up)
    }

    fn next(&mut self, cursor: CursorHandle, count: u32, each: &mut EachRow<'_>) -> SqlResult<bool> {
        let open = self.cursors.get_mut(&cursor.0).ok_or_else(|| no_cursor(cursor))?;
        let is_over = open.pass(count, each, |bytes| self.held.give_back(bytes))?;
        if is_over {
            self.cursors.remove(&cursor.0);
        }
        Ok(is_over)
    }

    fn close(&mut self, cursor: CursorHandle) -> SqlResult<()> {
        let closed = self.cursors.remove(&cursor.0).ok_or_else(|| no_cursor(cursor))?;
        self.held.close(&closed);
        Ok(())
    }

    fn execute(&mut self, statement: StatementHandle, parameters: &[Datum]) -> SqlResult<Executed> {
        self.executed(StepCall::Execute { statement, parameters: parameters.to_vec() })
    }

    fn end_transaction(&mut self, end: TransactionEnd) -> SqlResult<()> {
        self.cursors.clear();
        self.held.give_back(self.held.bytes);
        self.types.clear();
        self.nothing(Letter::EndTransaction(end))
    }

    fn notice(&mut self, level: NoticeLevel, message: &str) -> SqlResult<()> {
        self.nothing(Letter::Notice(level, message.to_owned()))
    }

    fn emit(&mut self, _: &[Datum]) -> SqlResult<()> {
        Err(no_set(self.routine))
    }

    fn result(&self) -> Arc<[SqlType]> {
        Arc::clone(&self.result)
    }

    fn look(&self) -> SqlResult<()> {
        self.deadline.map_or(Ok(()), |deadline| deadline.look())?;
        pulse::look()
    }

    fn asleep(&self, wait: &mut dyn FnMut()) {
        self.mailbox.asleep(wait);
    }

    fn direct(&mut self, _: &mut DirectBody<'_>) -> SqlResult<bool> {
        Err(SqlError::unsupported("direct access to tables in a procedure that ends transactions"))
    }
}
