//! Sessions: they wait for locks in place of threads.
//!
//! **Invariant:** between two calls a session's open transaction lives on the heap and no reference into the engine's
//! rows is left. A statement that must wait has been undone before its [`Ticket`] is returned: it has its place in a
//! queue, and nothing else to remember.

pub(crate) mod advisory;
mod open;
mod run;
mod snapshot;
mod ticket;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::locks::{Outcome, Tally, Unknown, Waiter, class_of};
use crate::txn::begin::Begin;
use open::Open;
use preempt::{Worker, in_urgent, os};
use stage::Class;
use std::sync::Arc;
use std::time::Duration;
pub use ticket::Ticket;

/// Options of a session.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// Class of the session, for the code that begins its transactions.
    pub class: Class,
    /// Name of the session in views.
    pub name: String,
    /// Longest wait for one lock: [`Error::LockNotAvailable`] after that.
    pub lock_timeout: Option<Duration>,
    /// Longest time of a statement, its waits included: [`Error::Cancelled`] after that.
    pub statement_timeout: Option<Duration>,
}

impl SessionOptions {
    /// Returns the options of a session of this class without a name and without timeouts.
    pub fn new(class: Class) -> SessionOptions {
        SessionOptions { class, name: String::new(), lock_timeout: None, statement_timeout: None }
    }
}

/// Result of a statement that does not block.
#[derive(Debug)]
#[must_use]
pub enum Step<R> {
    /// The statement is done.
    Done(R),
    /// The statement waits, and has had no effect. Call again with the same statement when the ticket is ready.
    Parked(Ticket),
}

/// A point in an open transaction; see [`Session::savepoint`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Savepoint {
    session: u64,
    number: u64,
}

/// Session: transactions, one after another, that may wait for locks. Dropping it rolls back the open transaction.
///
/// A transaction is either a procedure ([`Session::run`]), which counts as one statement, or is opened by
/// [`Session::begin`] and goes on statement by statement ([`Session::execute`]).
pub struct Session {
    engine: Engine,
    options: SessionOptions,
    waiter: Arc<Waiter>,
    /// True if its statement waits, or has waited and not come back.
    is_parked: bool,
    /// True if that statement waits for the locks with which it begins.
    is_locking: bool,
    /// Number of times that the procedure that runs was begun again after an error.
    retries: u32,
    /// True if the transaction has the class of a taker from its session.
    promoted: bool,
    open: Option<Open>,
    /// Number of savepoints it has made: the handle of one is never taken for another's.
    savepoints: u64,
}

/// Cleanup for the case that the caller's statement panics, which has dropped its transaction: an open transaction has
/// failed as a whole, and the next session in a queue goes on.
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

/// Handle that cancels a session's statement, from anywhere.
#[derive(Clone)]
pub struct Canceller {
    engine: Engine,
    waiter: Arc<Waiter>,
}

impl Canceller {
    /// Makes the statement that runs or waits fail with [`Error::Cancelled`], if there is one. Returns true if there
    /// was.
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

    /// Checks that the statement that runs, if there is one, may go on: it must end if it was cancelled, or has taken
    /// longer than it may. For code that computes for long without its transaction.
    ///
    /// # Errors
    /// [`Error::Cancelled`]
    pub fn check(&self) -> Result<()> {
        if self.waiter.is_stopped() { Err(Error::Cancelled) } else { Ok(()) }
    }
}

impl Engine {
    /// Opens a session.
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

/// Returns the worker whose base context this is. An urgent context is never paused.
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

    /// Returns the number of the session.
    pub fn number(&self) -> u64 {
        self.waiter.id
    }

    /// Returns the options of the session.
    pub fn options(&self) -> &SessionOptions {
        &self.options
    }

    /// Returns a handle that cancels its statements from elsewhere.
    pub fn canceller(&self) -> Canceller {
        Canceller { engine: self.engine.clone(), waiter: self.waiter.clone() }
    }

    /// Returns true if a transaction is open.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Returns the number of changes and locks of the open transaction, and of its reads at SERIALIZABLE: either end,
    /// and a statement that fails, takes time in proportion.
    #[inline]
    pub fn weight(&self) -> usize {
        self.open.as_ref().map_or(0, Open::weight)
    }

    /// Returns true if the statement that waits has not begun: it waits for locks that it takes before its snapshot.
    pub fn is_locking(&self) -> bool {
        self.is_parked && self.is_locking
    }

    /// Returns true if the open transaction has no snapshot yet that it must keep: no statement of it has read
    /// anything.
    pub fn is_unread(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.is_unread)
    }

    /// Returns the number of times that the last procedure was begun again after a retryable error.
    pub fn retries(&self) -> u32 {
        self.retries
    }

    /// Has the open transaction refuse writes from its next statement on, or accept them again. A transaction that was
    /// begun as READ ONLY refuses them in any case.
    pub fn set_writable(&mut self, is_writable: bool) {
        if let Some(open) = &mut self.open {
            open.set_writable(is_writable);
        }
    }

    /// Changes the longest wait for one lock.
    pub fn set_lock_timeout(&mut self, timeout: Option<Duration>) {
        self.options.lock_timeout = timeout;
        self.waiter.set_lock_timeout_ns(timeout.map_or(u64::MAX, nanoseconds));
    }

    /// Changes the longest time of its next statements.
    pub fn set_statement_timeout(&mut self, timeout: Option<Duration>) {
        self.options.statement_timeout = timeout;
    }

    /// Begins a statement that is not one submitted again. (A cancel counts for all of its submissions.)
    #[inline]
    fn begin_statement(&mut self) {
        let deadline_ns = match self.options.statement_timeout {
            None => u64::MAX,
            Some(timeout) => os::now_ns().saturating_add(nanoseconds(timeout)),
        };
        self.waiter.begin_statement(deadline_ns);
    }

    /// Ends the statement, one way or another: its place in a queue goes to the next.
    #[inline]
    fn end_statement(&mut self) {
        self.is_parked = false;
        self.waiter.end_statement();
        if self.waiter.has_place() {
            self.engine.inner.leave_queue(&self.waiter);
        }
    }

    /// Comes back to a statement that was parked: returns its ticket if it still is, and else the outcome of the wait.
    ///
    /// # Errors
    /// The reason why the wait ended without success.
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

    /// Returns the class that a transaction begins with: after too many losses that of the taker.
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

    /// Notes that a transaction has ended.
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
