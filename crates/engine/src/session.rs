//! Sessions: what waits for a lock in place of a thread.
//!
//! **Invariant:** between two calls a session's open transaction lives on the heap and no reference into the engine's rows
//! is left. A statement that must wait has been undone before its [`Ticket`] is handed out: it has its place in a queue,
//! and nothing else to remember.

mod open;
mod run;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::locks::{Outcome, Tally, Ticket, Unknown, Waiter, class_of};
use crate::txn::begin::Begin;
use open::Open;
use preempt::{Worker, in_urgent, os};
use stage::Class;
use std::sync::Arc;
use std::time::Duration;

/// What a session is made with.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// Its class, for whoever makes its transactions.
    pub class: Class,
    /// Its name in views.
    pub name: String,
    /// How long it waits for one lock: [`Error::LockNotAvailable`] after that.
    pub lock_timeout: Option<Duration>,
    /// How long a statement may take, its waits included: [`Error::Cancelled`] after that.
    pub statement_timeout: Option<Duration>,
}

impl SessionOptions {
    /// A session of this class without a name and without timeouts.
    pub fn new(class: Class) -> SessionOptions {
        SessionOptions { class, name: String::new(), lock_timeout: None, statement_timeout: None }
    }
}

/// What a statement came to that does not block.
#[derive(Debug)]
#[must_use]
pub enum Step<R> {
    /// It is done.
    Done(R),
    /// It waits, and has had no effect. Call again with the same statement when the ticket is ready.
    Parked(Ticket),
}

/// A point in an open transaction; see [`Session::savepoint`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Savepoint {
    session: u64,
    number: u64,
}

/// One after another, transactions that may wait for locks. Dropping it rolls back what is open.
///
/// A transaction is either a procedure ([`Session::run`]), which counts as one statement, or is opened by
/// [`Session::begin`] and goes on statement by statement ([`Session::execute`]).
pub struct Session {
    engine: Engine,
    options: SessionOptions,
    waiter: Arc<Waiter>,
    /// Whether its statement waits, or has waited and not come back.
    is_parked: bool,
    /// True if that statement waits for the locks with which it begins.
    is_locking: bool,
    /// How often the procedure that runs was begun again after an error.
    retries: u32,
    /// Whether the transaction has the class of who took from its session.
    promoted: bool,
    open: Option<Open>,
    /// How many savepoints it has made: the handle of one is never taken for another's.
    savepoints: u64,
}

/// What is left to do when the caller's statement panics, which has dropped its transaction: one that was open has failed
/// as a whole, and whoever is next in a queue goes on.
struct Unwind<'s>(&'s mut Session);

impl Drop for Unwind<'_> {
    #[cold]
    fn drop(&mut self) {
        let session = &mut *self.0;
        match &mut session.open {
            Some(open) => open.fail_whole(),
            None => session.end_transaction(false),
        }
        session.end_statement();
    }
}

/// Cancels what a session does, from anywhere.
#[derive(Clone)]
pub struct Canceller {
    engine: Engine,
    waiter: Arc<Waiter>,
}

impl Canceller {
    /// Makes the statement that runs or waits fail with [`Error::Cancelled`], if there is one. Says whether there was.
    pub fn cancel(&self) -> bool {
        if !self.waiter.cancel_statement() {
            return false;
        }
        let inner = &self.engine.inner;
        if inner.locks.fail(&inner.registry, &Unknown, &self.waiter, None, Error::Cancelled) {
            Tally::one(&inner.locks.tally.cancelled);
        }
        true
    }

    /// Fails if the statement that runs, if there is one, must end: it was cancelled, or has taken longer than it may. For what
    /// computes for long without its transaction.
    ///
    /// # Errors
    /// [`Error::Cancelled`]
    pub fn check(&self) -> Result<()> {
        if self.waiter.is_stopped() { Err(Error::Cancelled) } else { Ok(()) }
    }
}

impl Engine {
    /// A session.
    pub fn session(&self, options: SessionOptions) -> Session {
        let waiter = Arc::new(Waiter::new(self.inner.locks.number(), options.name.clone()));
        self.inner.sessions.add(waiter.id, &options.name);
        waiter.set_lock_timeout_ns(options.lock_timeout.map_or(u64::MAX, nanoseconds));
        let engine = self.clone();
        Session {
            engine,
            options,
            waiter,
            is_parked: false,
            is_locking: false,
            retries: 0,
            promoted: false,
            open: None,
            savepoints: 0,
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The worker whose base context this is. An urgent context is never paused.
fn worker() -> Option<&'static Worker> {
    if in_urgent() { None } else { Worker::current() }
}

impl Session {
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn waiter(&self) -> &Arc<Waiter> {
        &self.waiter
    }

    /// What it was made with.
    pub fn options(&self) -> &SessionOptions {
        &self.options
    }

    /// Cancels its statements from elsewhere.
    pub fn canceller(&self) -> Canceller {
        Canceller { engine: self.engine.clone(), waiter: self.waiter.clone() }
    }

    /// Whether a transaction is open.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Changes and locks of the open transaction, and what it has read at SERIALIZABLE: either end, and a statement that fails, takes
    /// time in proportion.
    #[inline]
    pub fn weight(&self) -> usize {
        self.open.as_ref().map_or(0, Open::weight)
    }

    /// Tells whether the statement that waits has not begun: it waits for locks that it takes before its snapshot.
    pub fn is_locking(&self) -> bool {
        self.is_parked && self.is_locking
    }

    /// Tells whether the open transaction has no snapshot yet that it must keep: no statement of it has read anything.
    pub fn is_unread(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.is_unread)
    }

    /// How often the last procedure was begun again after a retryable error.
    pub fn retries(&self) -> u32 {
        self.retries
    }

    /// Changes how long it waits for one lock.
    pub fn set_lock_timeout(&mut self, timeout: Option<Duration>) {
        self.options.lock_timeout = timeout;
        self.waiter.set_lock_timeout_ns(timeout.map_or(u64::MAX, nanoseconds));
    }

    /// Changes how long its next statements may take.
    pub fn set_statement_timeout(&mut self, timeout: Option<Duration>) {
        self.options.statement_timeout = timeout;
    }

    /// A statement that is not one submitted again begins. (A cancel counts for all of its submissions.)
    #[inline]
    fn begin_statement(&mut self) {
        let deadline_ns = match self.options.statement_timeout {
            None => u64::MAX,
            Some(timeout) => os::now_ns().saturating_add(nanoseconds(timeout)),
        };
        self.waiter.begin_statement(deadline_ns);
    }

    /// The statement is over, one way or another: its place in a queue goes to who is next.
    #[inline]
    fn end_statement(&mut self) {
        self.is_parked = false;
        self.waiter.end_statement();
        if self.waiter.has_place() {
            self.engine.inner.leave_queue(&self.waiter);
        }
    }

    /// If the statement was parked: whether it still is, and what it came to.
    ///
    /// # Errors
    /// Why the wait ended without success.
    #[inline]
    fn come_back(&mut self) -> Result<Option<Ticket>> {
        if !self.is_parked {
            return Ok(None);
        }
        match self.engine.inner.locks.outcome(&self.waiter) {
            Outcome::Waits => Ok(Some(self.ticket())),
            Outcome::Over(error) => {
                self.is_parked = false;
                error.map_or(Ok(None), Err)
            }
        }
    }

    fn ticket(&self) -> Ticket {
        let number = self.waiter.with(|state| state.number);
        Ticket::new(self.engine.clone(), self.waiter.clone(), number)
    }

    /// The class that a transaction begins with: after too many losses that of who took from us.
    #[inline]
    fn promote(&mut self, begin: Begin) -> Begin {
        let locks = &self.engine.inner.locks;
        let Some(importance) = self.waiter.taker_after(locks.settings.promote_after()) else { return begin };
        let class = class_of(importance).min(begin.class);
        if !core::mem::replace(&mut self.promoted, true) {
            Tally::one(&locks.tally.promotions);
        }
        Begin { class, ..begin }
    }

    /// A transaction has ended.
    #[inline]
    fn end_transaction(&mut self, committed: bool) {
        if committed || self.promoted {
            self.waiter.forget_losses();
        }
        self.promoted = false;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.rollback();
        self.end_statement();
        self.unlock_all_advisory();
        self.engine.inner.sessions.remove(self.waiter.id);
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Session");
        debug.field("name", &self.options.name).field("is_parked", &self.is_parked);
        debug.field("is_open", &self.open.is_some()).finish_non_exhaustive()
    }
}
