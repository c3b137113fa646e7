//! `CALL`, and procedures that end transactions.
//!
//! A procedure runs as a statement until its code ends the transaction for the first time. It is undone then, and begins
//! again on a thread of its own, whose calls the session makes as statements: see `exec::remote`. Nothing was committed
//! before, and effects that no rollback undoes (values of sequences, session-level advisory locks, signals) are not
//! repeated up to that end, so nothing is done twice. The database remembers such procedures, and runs them so at once.
//!
//! **Invariant:** the transaction belongs to the session alone, and ends between two statements. Each wait is that of one
//! call, which begins again after it. A cancel finds the run from before the thread starts to its end: one is enough.

use super::action::ProcedureCall;
use super::analysis::Analysis;
use super::cursor_run::ThreadPlace;
use super::run::{RunNeeds, RunOutcome, StatementRun};
use super::{Database, Outcome, Parked, Session, Step};
use crate::context::{check_notices, notice_bytes};
use crate::exec::remote::{Letter, Mailbox, RemoteProcedure};
use crate::exec::{StepAnswer, StepCall, may_end_transactions, no_end_of_transaction, of_code};
use catalog::{Module, Routine, RoutineResult};
use locked::Locked;
use procs::TransactionEnd;
use procs::ends::Deadline;
use query::plan::RoutineCall;
use stage::Stage;
use statement::error::{RetryReason, SqlError, SqlResult, SqlState};
use statement::outcome::CommandTag;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use types::datum::Datum;

/// Greatest number of threads of procedures that end transactions in a server.
const THREADS_MAX: usize = 512;
/// Number of times that calls meet new definitions before the session gives way to others on its thread.
const MOVES_MAX: usize = 16;
/// Greatest number of procedures that are known to end transactions.
const ENDING_MAX: usize = 1_024;
/// Stack of such a thread: that of the server's threads, on which the code begins. Its calls are parsed, planned and
/// run on the thread of its session.
const STACK_BYTES: usize = 8 << 20;

/// Procedures that have ended transactions: for each remainder of OIDs the latest, by the address of its definition.
/// Sessions read it at each `CALL`, so that takes no lock.
///
/// **Invariant:** an address stands here only while a weak reference keeps it from becoming that of another definition.
#[derive(Debug)]
pub(super) struct EndingProcedures {
    addresses: [AtomicUsize; ENDING_MAX],
    kept: Mutex<HashMap<usize, Weak<Routine>>>,
}

impl Default for EndingProcedures {
    fn default() -> EndingProcedures {
        EndingProcedures { addresses: [const { AtomicUsize::new(0) }; ENDING_MAX], kept: Mutex::default() }
    }
}

impl EndingProcedures {
    fn place(procedure: &Arc<Routine>) -> usize {
        procedure.oid as usize % ENDING_MAX
    }

    pub(super) fn has(&self, procedure: &Arc<Routine>) -> bool {
        let address = self.addresses.get(EndingProcedures::place(procedure));
        address.is_some_and(|address| address.load(Relaxed) == Arc::as_ptr(procedure).addr())
    }

    fn note(&self, procedure: &Arc<Routine>) {
        let place = EndingProcedures::place(procedure);
        let mut kept = self.kept.locked_anyway();
        if let Some(address) = self.addresses.get(place) {
            address.store(Arc::as_ptr(procedure).addr(), Relaxed);
        }
        // The one before is let go after its address is gone.
        kept.insert(place, Arc::downgrade(procedure));
    }
}

/// Procedure that runs on a thread of its own.
pub(super) struct ProcedureRun {
    mailbox: Arc<Mailbox>,
    /// Run by which a cancel finds the code.
    analysis: Arc<Analysis>,
    routine: Arc<Routine>,
    /// Module whose code runs.
    module: Arc<Module>,
    returns_row: bool,
    /// Call of the code that has waited, and is to be made again; and the end of the invocation.
    call: Option<(StepCall, Option<Deadline>)>,
    /// Rows that calls may still read or change.
    rows_left: Option<u64>,
    /// Bytes of the notices so far.
    notices: usize,
}

impl Drop for ProcedureRun {
    /// Ends the code, unless it has ended.
    fn drop(&mut self) {
        self.mailbox.end();
    }
}

/// Tells the session of the end of a thread that panics.
struct ThreadEnd(Arc<Mailbox>, Option<ThreadPlace>);

impl Drop for ThreadEnd {
    fn drop(&mut self) {
        self.1 = None;
        if thread::panicking() {
            self.0
                .fail(SqlError::new(SqlState::INTERNAL_ERROR, "the thread of a procedure has ended without a result"));
        }
    }
}

impl Database {
    /// Returns the number of threads of procedures that end transactions.
    pub fn procedure_threads(&self) -> usize {
        self.procedure_threads.count()
    }
}

fn called(rows: Vec<Box<[Datum]>>, returns_row: bool) -> Step {
    let tag = CommandTag { words: "CALL", rows: None };
    Step::Done(if returns_row { Outcome::Rows(rows, tag) } else { Outcome::Done(tag) })
}

/// Returns the outcome of a procedure whose code has returned these rows, at most one.
pub(super) fn returned(routine: &Routine, rows: Vec<Vec<Datum>>, returns_row: bool) -> Step {
    let mut rows: Vec<Box<[Datum]>> = rows.into_iter().map(Into::into).collect();
    if rows.is_empty() && routine.result != RoutineResult::Nothing {
        rows.push(vec![Datum::Null; routine.outputs().count()].into());
    }
    called(rows, returns_row)
}

impl Session {
    /// Runs `CALL`.
    pub(super) fn call(&mut self, given: StatementRun<'_>, procedure: &ProcedureCall) -> SqlResult<Step> {
        let call = procedure.call().ok_or_else(|| SqlError::new(SqlState::INTERNAL_ERROR, "a CALL of no procedure"))?;
        match self.urgent_calls(&call.routine) {
            Some(calls) => self.call_urgently(given, procedure, call, &calls),
            None => self.call_here(given, procedure, call),
        }
    }

    /// Runs `CALL` by the executor.
    pub(super) fn call_here(
        &mut self,
        given: StatementRun<'_>,
        procedure: &ProcedureCall,
        call: &RoutineCall,
    ) -> SqlResult<Step> {
        let may_end = may_end_transactions(&call.routine) && !self.is_in_block();
        if may_end && self.database.ending_procedures.has(&call.routine) {
            return self.call_apart(given, call, procedure.returns_row);
        }
        let ran = self.run(given.values, RunNeeds::of(given.bound), |run| match run.collect(&procedure.rows) {
            Err(error) if error.begins_again() == Some(RetryReason::EndsTransaction) => {
                if !may_end {
                    return Err(of_code(no_end_of_transaction(), &call.routine));
                }
                run.txn.take_back();
                run.env.code.drop_notices_after(0);
                drop(run.env.take_asked());
                Ok(None)
            }
            rows => rows.map(Some),
        })?;
        self.step_of(ran, given, |session, rows| match rows {
            Some(rows) => Ok(called(rows, procedure.returns_row)),
            None => {
                session.database.ending_procedures.note(&call.routine);
                session.begin_repeat();
                session.call_apart(given, call, procedure.returns_row)
            }
        })
    }

    /// Lets the next statements together repeat the one that has ended, and was undone.
    fn begin_repeat(&mut self) {
        self.is_repeating = true;
        self.numbers.repeat();
        self.advised.repeat();
        self.env.repeat();
    }

    /// Ends such a repetition, if there is one.
    pub(super) fn end_repeat(&mut self) {
        if std::mem::take(&mut self.is_repeating) {
            self.numbers.end_repeat();
            self.advised.end_repeat();
            self.env.end_repeat();
        }
    }

    /// Runs a procedure on a thread of its own.
    fn call_apart(&mut self, given: StatementRun<'_>, call: &RoutineCall, returns_row: bool) -> SqlResult<Step> {
        let ran = self.run(given.values, RunNeeds::of(given.bound), |run| run.procedure_arguments(call))?;
        self.step_of(ran, given, |session, arguments| session.begin_procedure(&call.routine, arguments, returns_row))
    }

    fn begin_procedure(&mut self, routine: &Arc<Routine>, arguments: Vec<Datum>, returns_row: bool) -> SqlResult<Step> {
        let Some(place) = self.database.procedure_threads.enter(THREADS_MAX) else {
            return Err(procs::ends::exhausted("procedures that end transactions", THREADS_MAX));
        };
        let seen = self.see_now();
        let env = self.env_at(self.env.statement_us);
        let mailbox = Mailbox::new(self.time.clone(), self.deadline, env.code.clock());
        let analysis = Analysis::of_procedure(Arc::clone(&mailbox));
        self.analysis.0.set(Some(Arc::clone(&analysis)));
        // A cancel that came between the arguments and this found nothing else.
        self.planning.check()?;
        let remote = RemoteProcedure::new(routine, arguments, (env, &seen.state, &seen.path), &mailbox)?;
        let module = Arc::clone(remote.module());
        let end = ThreadEnd(Arc::clone(&mailbox), Some(place));
        let work = move || {
            let _end = end;
            remote.run();
        };
        let procedure = ProcedureRun {
            mailbox,
            analysis,
            routine: Arc::clone(routine),
            module,
            returns_row,
            call: None,
            rows_left: routine.isolation.limits.rows,
            notices: 0,
        };
        let thread = thread::Builder::new().name("procedure".to_owned()).stack_size(STACK_BYTES);
        let started = thread.spawn(work);
        started.map_err(|error| {
            SqlError::new(SqlState::INSUFFICIENT_RESOURCES, format!("a procedure cannot get a thread: {error}"))
        })?;
        Ok(self.await_letter(procedure))
    }

    /// Waits for the next letter of a procedure. A cancel ends the wait, and the code.
    fn await_letter(&mut self, procedure: ProcedureRun) -> Step {
        let analysis = Arc::clone(&procedure.analysis);
        self.procedure = Some(procedure);
        Step::Parked(Parked::Analysis(analysis))
    }

    /// Continues a procedure: makes its calls until it has no more, or one of them waits.
    pub(super) fn continue_procedure(&mut self) -> SqlResult<Step> {
        let Some(mut procedure) = self.procedure.take() else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "no procedure to continue"));
        };
        self.clock.enter(Stage::Run);
        let routine = Arc::clone(&procedure.routine);
        let mut moves = 0;
        loop {
            let letter = match procedure.call.take() {
                // A cancel ends the wait of the call itself.
                Some((call, deadline)) => Some(Letter::Call(call, deadline)),
                None => {
                    procedure.analysis.take().transpose()?;
                    procedure.mailbox.letter()
                }
            };
            let Some(letter) = letter else { return Ok(self.await_letter(procedure)) };
            let answered = match letter {
                Letter::Result(result) => return self.end_procedure(&procedure, result),
                Letter::Call(call, deadline) => self.answer(&mut procedure, call, deadline),
                Letter::EndTransaction(end) => self.end_within(end),
                Letter::Notice(level, message) => {
                    // The account of the statement begins anew with each transaction.
                    procedure.notices += notice_bytes(&message);
                    check_notices(procedure.notices).and_then(|()| self.env.code.notice(level, &message)).map(|()| {
                        self.notices.extend(self.env.code.take_notices());
                        RunOutcome::Done(StepAnswer::Nothing)
                    })
                }
            };
            match answered.map_err(|error| of_code(error, &routine))? {
                RunOutcome::Done(answer) => procedure.mailbox.answer(answer),
                // The call is made again, by the present definitions, but not for ever on this thread.
                RunOutcome::Moved if moves < MOVES_MAX => {
                    moves += 1;
                    procedure.analysis.take().transpose()?;
                }
                RunOutcome::Moved => {
                    self.procedure = Some(procedure);
                    return Ok(Step::Parked(Parked::Elsewhere));
                }
                RunOutcome::Parked(parked) => {
                    self.procedure = Some(procedure);
                    return Ok(Step::Parked(parked));
                }
            }
        }
    }

    /// Makes a call of the code. If it waits, it is kept.
    fn answer(
        &mut self,
        procedure: &mut ProcedureRun,
        call: StepCall,
        deadline: Option<Deadline>,
    ) -> SqlResult<RunOutcome<StepAnswer>> {
        let (routine, module, left) =
            (Arc::clone(&procedure.routine), Arc::clone(&procedure.module), procedure.rows_left);
        let analysis = Arc::clone(&procedure.analysis);
        let ran = self.run(&[], RunNeeds::Call, |run| {
            // A later cancel finds the statement in the engine.
            if analysis.is_ready() {
                return Err(SqlError::from(engine::Error::Cancelled));
            }
            let mut left = left;
            let answer = run.code_step(&routine, &module, (&call, deadline), &mut left)?;
            Ok((answer, left))
        })?;
        Ok(match ran {
            RunOutcome::Done((answer, left)) => {
                procedure.rows_left = left;
                // The code's own account has the rows from now on.
                self.env.holdings.forget_results();
                RunOutcome::Done(answer)
            }
            RunOutcome::Moved => {
                procedure.call = Some((call, deadline));
                RunOutcome::Moved
            }
            RunOutcome::Parked(parked) => {
                procedure.call = Some((call, deadline));
                RunOutcome::Parked(parked)
            }
        })
    }

    /// Ends the transaction within a procedure, and begins another with the same characteristics.
    fn end_within(&mut self, end: TransactionEnd) -> SqlResult<RunOutcome<StepAnswer>> {
        let (modes, hinted) = (self.settings.characteristics(), self.hinted);
        self.end_repeat();
        self.end(end == TransactionEnd::Commit)?;
        self.hinted = hinted;
        self.open_implicit();
        for (name, value) in &modes {
            self.settings.set_of_transaction(name, value)?;
        }
        Ok(RunOutcome::Done(StepAnswer::Nothing))
    }

    fn end_procedure(&mut self, procedure: &ProcedureRun, result: SqlResult<Vec<Vec<Datum>>>) -> SqlResult<Step> {
        self.analysis.0.set(None);
        if let Some(work) = procedure.mailbox.work() {
            self.clock.take_out_of_run(work);
        }
        Ok(returned(&procedure.routine, result?, procedure.returns_row))
    }
}
