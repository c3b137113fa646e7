//! `CALL` of an urgent procedure as a request of the scheduler.
//!
//! The session prepares the call (its arguments, the tables and rights, an instance of the code), leaves it to the
//! scheduler and waits, as it waits for a lock. A worker that is busy with a query is interrupted, makes the call as a
//! transaction of its own and wakes the session, which answers. A call that gives up, and one for which no worker is busy,
//! is made by the executor as any other: see `exec::urgent`.
//!
//! **Invariant:** what a call owns is made and dropped by its session, in base context: the worker takes it out of its
//! place and puts it back before it says that the call is over. A session that ends meanwhile leaves the call to the
//! database, where a thread waits for its end: what the call owns may hold others up, a place in a lock's queue above
//! all. A call that has begun is never given up half-way: a cancel asks it to end, and the session waits for that, so
//! the answer says whether it has committed.

use super::action::ProcedureCall;
use super::analysis::{Analysis, ThreadWake};
use super::procedure::returned;
use super::run::{RunNeeds, StatementRun};
use super::{Database, Parked, Session, Step};
use crate::context::PreparedUrgent;
use crate::exec::urgent::{GaveUp, UrgentEnd, UrgentJob, is_plain};
use crate::exec::{may_end_transactions, of_code};
use catalog::{Routine, RoutineKind};
use engine::{Isolation, SessionOptions, Wake};
use locked::Locked;
use preempt::{Latch, no_preempt};
use query::analytics::AnalyticsRun;
use query::bind::result_kinds;
use query::plan::RoutineCall;
use stage::Class;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, Thread};
use std::time::Duration;
use types::datum::Datum;

/// A call that a scheduler runs once, in an urgent context or outside of one.
pub trait UrgentWork: Send + Sync {
    /// Makes the call.
    fn run(&self);
}

/// Scheduler of urgent calls, which the server passes in.
pub trait UrgentScheduler: Send + Sync {
    /// Returns true if a worker runs a query that this thread can interrupt at once. If none does, a call is best made where
    /// it was read.
    fn can_interrupt(&self) -> bool;

    /// Accepts a call, which runs soon. Returns false if it was refused.
    fn submit(&self, work: Arc<dyn UrgentWork>) -> bool;
}

/// Counts of urgent calls since the database was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UrgentCounts {
    /// Calls that the scheduler's workers made, and that committed.
    pub committed: u64,
    /// Calls whose code failed there.
    pub failed: u64,
    /// Calls that gave up there, by the reasons of [`GaveUp::ALL`], and were made by the executor.
    pub gave_up: [u64; GaveUp::ALL.len()],
    /// Calls that no worker could be interrupted for, or that were refused, and were made where they were read.
    pub at_once: u64,
}

/// Common state of a database's urgent calls.
pub(super) struct UrgentCalls {
    scheduler: Arc<dyn UrgentScheduler>,
    counts: [AtomicU64; 3 + GaveUp::ALL.len()],
    orphans: Arc<Mutex<Orphans>>,
}

/// Calls whose sessions have ended before them.
#[derive(Default)]
struct Orphans {
    all: Vec<Arc<UrgentCall>>,
    /// Thread that waits for their ends, while there are some.
    keeper: Option<Thread>,
}

/// Longest time between two looks of the keeper. The end of a call wakes it; a call that nobody will make does not.
const KEEPER_LOOK: Duration = Duration::from_secs(1);

impl Orphans {
    /// Takes those that are over, and those that their scheduler has dropped.
    fn take_over(&mut self) -> Vec<Arc<UrgentCall>> {
        self.all.extract_if(.., |orphan| orphan.is_over() || Arc::strong_count(orphan) == 1).collect()
    }

    /// Waits for the ends of all, and drops what they own.
    fn keep(orphans: &Mutex<Orphans>) {
        loop {
            let (over, is_empty) = {
                let mut orphans = orphans.locked_anyway();
                let over = orphans.take_over();
                if orphans.all.is_empty() {
                    // The next orphan wants another thread.
                    orphans.keeper = None;
                }
                (over, orphans.all.is_empty())
            };
            drop_all(over);
            if is_empty {
                return;
            }
            thread::park_timeout(KEEPER_LOOK);
        }
    }
}

/// Drops what calls own that are over.
fn drop_all(over: Vec<Arc<UrgentCall>>) {
    over.into_iter().for_each(|call| drop(call.take()));
}

const COMMITTED: usize = 0;
const FAILED: usize = 1;
const AT_ONCE: usize = 2;
const GAVE_UP: usize = 3;

impl UrgentCalls {
    fn count(&self, what: usize) {
        self.counts[what].fetch_add(1, Relaxed);
    }

    /// Keeps a call until it is over.
    fn adopt(&self, call: Arc<UrgentCall>) {
        let mut orphans = self.orphans.locked_anyway();
        orphans.all.push(Arc::clone(&call));
        if orphans.keeper.is_none() {
            let of_keeper = Arc::clone(&self.orphans);
            let keeper = thread::Builder::new().name("urgent-orphans".to_owned());
            // Without the thread, other sessions' sweeps find the call.
            let spawned = keeper.spawn(move || Orphans::keep(&of_keeper));
            orphans.keeper = spawned.ok().map(|keeper| keeper.thread().clone());
        }
        if let Some(keeper) = &orphans.keeper {
            call.on_over(Arc::new(ThreadWake(keeper.clone())));
        }
    }

    /// Drops what orphans own that are over.
    fn sweep(&self) {
        let over = self.orphans.locked_anyway().take_over();
        drop_all(over);
    }
}

/// Place of a call.
#[derive(Default)]
struct CallHome {
    job: Option<Box<UrgentJob>>,
    is_over: bool,
    /// Session that waits.
    wake: Option<Arc<dyn Wake>>,
}

/// A call on its way: what session and worker share.
pub(crate) struct UrgentCall {
    home: Latch<CallHome>,
    is_cancelled: AtomicBool,
}

impl UrgentCall {
    fn new(job: UrgentJob) -> Arc<UrgentCall> {
        let home = CallHome { job: Some(Box::new(job)), ..CallHome::default() };
        Arc::new(UrgentCall { home: Latch::new(home), is_cancelled: AtomicBool::new(false) })
    }

    fn with<R>(&self, f: impl FnOnce(&mut CallHome) -> R) -> R {
        no_preempt(|no_preempt| f(&mut self.home.lock(no_preempt)))
    }

    /// Returns true if the call has ended.
    pub(super) fn is_over(&self) -> bool {
        self.with(|home| home.is_over)
    }

    /// Calls `wake` when the call ends; at once, if it has ended.
    pub(super) fn on_over(&self, wake: Arc<dyn Wake>) {
        let (is_over, before) = self.with(|home| (home.is_over, home.wake.replace(Arc::clone(&wake))));
        drop(before);
        if is_over {
            wake.wake();
        }
    }

    /// Returns the error of a cancel that has come.
    fn check_cancel(&self) -> SqlResult<()> {
        if self.is_cancelled.load(Relaxed) { Err(engine::Error::Cancelled.into()) } else { Ok(()) }
    }

    /// Takes what the call owns; `None` before its end.
    fn take(&self) -> Option<Box<UrgentJob>> {
        self.with(|home| if home.is_over { home.job.take() } else { None })
    }
}

impl UrgentWork for UrgentCall {
    fn run(&self) {
        let Some(mut job) = self.with(|home| home.job.take()) else { return };
        pulse::unwatched(|| job.run(&self.is_cancelled));
        let wake = self.with(|home| {
            home.job = Some(job);
            home.is_over = true;
            home.wake.take()
        });
        if let Some(wake) = wake {
            wake.wake();
        }
    }
}

impl AnalyticsRun for UrgentCall {
    fn cancel(&self) {
        self.is_cancelled.store(true, Relaxed);
    }
}

/// Call that a session waits for.
struct UrgentWait {
    calls: Arc<UrgentCalls>,
    call: Arc<UrgentCall>,
    analysis: Arc<Analysis>,
    returns_row: bool,
}

impl Drop for UrgentWait {
    fn drop(&mut self) {
        self.call.cancel();
        if self.call.is_over() {
            drop(self.call.take());
        } else {
            self.calls.adopt(Arc::clone(&self.call));
        }
    }
}

/// State of a session's urgent calls.
#[derive(Default)]
pub(super) struct SessionUrgent {
    wait: Option<UrgentWait>,
    /// True if the call of the statement under way is the executor's.
    is_over: bool,
    /// True if the transaction ends with the statement, unless it is a block.
    ends_with_statement: bool,
    /// Session of the engine for these calls, while none is on its way.
    engine: Option<engine::Session>,
}

impl Database {
    /// Sets the scheduler of urgent calls.
    #[must_use]
    pub fn with_urgent(self, scheduler: Arc<dyn UrgentScheduler>) -> Database {
        let calls = UrgentCalls { scheduler, counts: Default::default(), orphans: Arc::default() };
        Database { urgent: Some(Arc::new(calls)), ..self }
    }

    /// Drops what is left of urgent calls whose sessions have ended.
    pub(super) fn sweep_urgent(&self) {
        if let Some(calls) = &self.urgent {
            calls.sweep();
        }
    }

    /// Returns the counts of urgent calls.
    pub fn urgent_counts(&self) -> UrgentCounts {
        let Some(calls) = &self.urgent else { return UrgentCounts::default() };
        let count = |what: usize| calls.counts[what].load(Relaxed);
        UrgentCounts {
            committed: count(COMMITTED),
            failed: count(FAILED),
            gave_up: std::array::from_fn(|at| count(GAVE_UP + at)),
            at_once: count(AT_ONCE),
        }
    }
}

impl Session {
    /// Tells whether the transaction ends with the next statement, if that is not within a block: its message is the last
    /// one before the end. Other statements may belong to its transaction otherwise, and an urgent call belongs to none.
    pub fn ends_with_statement(&mut self, ends: bool) {
        self.urgent.ends_with_statement = ends;
    }

    /// Returns the state of urgent calls if this call of the procedure may be one: it is of class high, and a transaction
    /// of its own at READ COMMITTED.
    pub(super) fn urgent_calls(&mut self, routine: &Arc<Routine>) -> Option<Arc<UrgentCalls>> {
        if !routine.isolation.is_urgent || self.urgent.is_over {
            return None;
        }
        // The transaction has its characteristics from its beginning on.
        self.open_implicit();
        let is_alone = self.urgent.ends_with_statement
            && !self.is_in_block()
            && !self.is_parked
            && !self.engine.is_open()
            && self.work.is_none()
            && self.explaining.is_none();
        let is_plain = self.class() == Class::High
            && self.settings.isolation() == Isolation::ReadCommitted
            && !self.settings.is_read_only();
        let is_known = routine.kind == RoutineKind::Procedure && may_end_transactions(routine);
        let is_ending = self.database.ending_procedures.has(routine);
        let calls = self.database.urgent.as_ref().filter(|_| is_alone && is_plain && is_known && !is_ending)?;
        if !calls.scheduler.can_interrupt() {
            calls.count(AT_ONCE);
            return None;
        }
        Some(Arc::clone(calls))
    }

    /// Runs `CALL` as a request of the scheduler.
    pub(super) fn call_urgently(
        &mut self,
        given: StatementRun<'_>,
        procedure: &ProcedureCall,
        call: &RoutineCall,
        calls: &Arc<UrgentCalls>,
    ) -> SqlResult<Step> {
        if !call.arguments.iter().all(is_plain) {
            calls.count(AT_ONCE);
            return self.call_here(given, procedure, call);
        }
        let ran = self.run(given.values, RunNeeds::of(given.bound), |run| run.prepare_urgent(call))?;
        self.step_of(ran, given, |session, prepared| match prepared {
            Some(prepared) => session.submit(prepared, given, (procedure, call), calls),
            None => {
                calls.count(AT_ONCE);
                session.call_here(given, procedure, call)
            }
        })
    }

    fn submit(
        &mut self,
        (prepared, arguments): (PreparedUrgent, Vec<Datum>),
        given: StatementRun<'_>,
        (procedure, call): (&ProcedureCall, &RoutineCall),
        calls: &Arc<UrgentCalls>,
    ) -> SqlResult<Step> {
        calls.sweep();
        let PreparedUrgent { code, entry, mut instance, place, version } = prepared;
        let routine = &call.routine;
        let seen = self.see_now();
        let result = result_kinds(routine, &seen.state)?.into();
        if instance.arm().is_err() {
            // The executor may have an instance that needs less.
            calls.count(AT_ONCE);
            return self.call_here(given, procedure, call);
        }
        let session = self.urgent.engine.take().unwrap_or_else(|| {
            let name = self.engine.options().name.clone();
            self.database.engine.session(SessionOptions { name, ..SessionOptions::new(Class::High) })
        });
        let job = UrgentJob {
            session,
            instance,
            place,
            code,
            routine: Arc::clone(routine),
            entry,
            arguments,
            kinds: routine.inputs().map(|input| input.kind.into()).collect(),
            result,
            catalog: Arc::clone(&self.database.catalog),
            version,
            notices: Vec::new(),
            is_waiting: false,
            is_sound: true,
            end: None,
        };
        let urgent = UrgentCall::new(job);
        let analysis = Analysis::of_urgent(Arc::clone(&urgent));
        self.analysis.0.set(Some(Arc::clone(&analysis)));
        let returns_row = procedure.returns_row;
        let wait = UrgentWait { calls: Arc::clone(calls), call: urgent, analysis: Arc::clone(&analysis), returns_row };
        // A cancel that came before found nothing to end.
        let checked = self.planning.check();
        if checked.is_err() || !calls.scheduler.submit(Arc::clone(&wait.call) as Arc<dyn UrgentWork>) {
            self.analysis.0.set(None);
            let job = wait.call.with(|home| {
                home.is_over = true;
                home.job.take()
            });
            if let Some(job) = job {
                self.keep(*job);
            }
            checked?;
            wait.call.check_cancel().map_err(|error| self.told(error, false))?;
            calls.count(AT_ONCE);
            return self.call_here(given, procedure, call);
        }
        self.urgent.wait = Some(wait);
        Ok(Step::Parked(Parked::Analysis(analysis)))
    }

    /// Returns true if an urgent call is on its way.
    pub(super) fn waits_urgently(&self) -> bool {
        self.urgent.wait.is_some()
    }

    /// Continues after the wait for an urgent call. Returns `None` if the call is to be made by the executor.
    pub(super) fn continue_urgently(&mut self) -> SqlResult<Option<Step>> {
        let Some(wait) = self.urgent.wait.take() else { return Ok(None) };
        let Some(mut job) = wait.call.take() else {
            let analysis = Arc::clone(&wait.analysis);
            self.urgent.wait = Some(wait);
            return Ok(Some(Step::Parked(Parked::Analysis(analysis))));
        };
        self.analysis.0.set(None);
        let end = job.end.take();
        let (routine, notices) = (Arc::clone(&job.routine), std::mem::take(&mut job.notices));
        self.keep(*job);
        let calls = Arc::clone(&wait.calls);
        match end {
            Some(UrgentEnd::GaveUp(why)) => {
                calls.count(GAVE_UP + GaveUp::ALL.iter().position(|one| *one == why).unwrap_or(0));
                // A cancel meanwhile has met no other part of the statement.
                wait.call.check_cancel().map_err(|error| self.told(error, false))?;
                self.urgent.is_over = true;
                Ok(None)
            }
            Some(UrgentEnd::Committed(rows)) => {
                calls.count(COMMITTED);
                self.tell(notices);
                Ok(Some(returned(&routine, rows, wait.returns_row)))
            }
            Some(UrgentEnd::Failed(error)) => {
                calls.count(FAILED);
                self.tell(notices);
                Err(of_code(self.told(error, false), &routine))
            }
            None => Err(SqlError::new(SqlState::INTERNAL_ERROR, "an urgent call without an end")),
        }
    }

    /// Passes on the notices of a call that is over, which nothing can refuse. The call has limited them.
    fn tell(&mut self, notices: Vec<(procs::NoticeLevel, String)>) {
        for (level, message) in notices {
            self.env.code.add_notice(level, &message);
        }
        self.notices.extend(self.env.code.take_notices());
    }

    /// Keeps what the next call can use.
    fn keep(&mut self, job: UrgentJob) {
        let UrgentJob { session, mut instance, place, is_waiting, is_sound, .. } = job;
        instance.disarm();
        if is_sound {
            self.env.code.keep_instance(place, instance);
        }
        // One that stands in a queue leaves it by its end.
        if !is_waiting {
            self.urgent.engine = Some(session);
        }
    }

    /// Forgets the urgent call of a statement that has ended.
    pub(super) fn end_urgent(&mut self) {
        self.urgent.is_over = false;
        if self.urgent.wait.is_some() {
            self.urgent.wait = None;
        }
    }
}
