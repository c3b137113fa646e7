//! Waiters: sessions that wait, never threads.
//!
//! **Invariant:** a wait ends exactly once, by the first of the grant, the victim's killer, the clock and the
//! canceller: the phase leaves *waiting* under the waiter's latch. The thread that ends it wakes the session after
//! unlatching.

use super::advisory::Advisories;
use super::key::Key;
use super::mode::Mode;
use crate::error::Error;
use crate::sync::{AtomicU64, Latch, Relaxed, SeqCst};
use preempt::{Region, os};
use std::sync::Arc;

/// Callback for the end of a session's wait. Called in any context, urgent ones included.
pub trait Wake: Send + Sync {
    /// Causes the session's statement to be submitted again. Must neither block nor panic: the caller is the other
    /// transaction, in the middle of its end.
    fn wake(&self);
}

/// Phase of a session's wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The session does not wait.
    Idle,
    Waiting,
    /// The session may go on; or it must not, for this reason.
    Ready(Option<Error>),
}

pub(crate) struct WaiterState {
    pub(crate) phase: Phase,
    /// Number of waits.
    pub(crate) number: u64,
    /// Queue in which the session has a place, and the mode.
    pub(crate) place: Option<(Key, Mode)>,
    pub(crate) owner: u64,
    pub(crate) importance: u64,
    /// Importance below which a holder gives way to it.
    pub(crate) force: u64,
    /// Time at which its transaction, or for a procedure its first wait, began.
    pub(crate) born_ns: u64,
    pub(crate) since_ns: u64,
    /// Deadlines, of which the earliest is the next event for the clock; `u64::MAX` for none.
    pub(crate) lock_deadline_ns: u64,
    pub(crate) statement_deadline_ns: u64,
    pub(crate) patience_ns: u64,
    /// True if the statement was undone and its session stands here with all it still has: part of the graph of waits.
    pub(crate) parked: bool,
    wake: Option<Arc<dyn Wake>>,
}

impl WaiterState {
    /// Returns the time at which the clock has something to do.
    pub(crate) fn look_ns(&self) -> u64 {
        self.statement_deadline_ns.min(self.lock_deadline_ns).min(self.patience_ns)
    }

    /// Begins a new wait. The callback of the last one is forgotten.
    pub(crate) fn begin_wait(&mut self) {
        self.number += 1;
        self.parked = false;
        self.wake = None;
    }
}

/// State of the session's statement, for the canceller.
const IDLE: u64 = 0;
const RUNNING: u64 = 1;
const CANCELLED: u64 = 2;

/// A session, as seen by those that make it wait.
pub(crate) struct Waiter {
    pub(crate) id: u64,
    pub(crate) name: String,
    /// 1 while it has a place in a queue. Its own session clears and sets it; so do those that end its wait.
    has_place: AtomicU64,
    statement: AtomicU64,
    /// Time that each wait may take; `u64::MAX` for ever.
    lock_timeout_ns: AtomicU64,
    /// Time at which the statement must be over; `u64::MAX` for never.
    deadline_ns: AtomicU64,
    /// Time at which the clock looks at it, by which it is found among those that wait; written under their latch.
    look_ns: AtomicU64,
    /// Order of arrival of the statement: given at its first wait, kept through all of them; 0 before.
    arrival: AtomicU64,
    /// Transactions lost in a row, and the importance of the last taker.
    losses: AtomicU64,
    taker: AtomicU64,
    /// Advisory locks that it has outside of its transactions.
    pub(crate) advisories: Advisories,
    state: Latch<WaiterState>,
}

/// Outcome of a parked statement.
pub(crate) enum Outcome {
    Waits,
    /// The wait is over: the statement may go on, or must not.
    Over(Option<Error>),
}

impl Waiter {
    pub(crate) fn new(id: u64, name: String) -> Waiter {
        let state = WaiterState {
            phase: Phase::Idle,
            number: 0,
            place: None,
            owner: 0,
            importance: 0,
            force: 0,
            born_ns: 0,
            since_ns: 0,
            lock_deadline_ns: u64::MAX,
            statement_deadline_ns: u64::MAX,
            patience_ns: u64::MAX,
            parked: false,
            wake: None,
        };
        Waiter {
            id,
            name,
            has_place: AtomicU64::new(0),
            statement: AtomicU64::new(IDLE),
            lock_timeout_ns: AtomicU64::new(u64::MAX),
            deadline_ns: AtomicU64::new(u64::MAX),
            look_ns: AtomicU64::new(u64::MAX),
            arrival: AtomicU64::new(0),
            losses: AtomicU64::new(0),
            taker: AtomicU64::new(0),
            advisories: Advisories::default(),
            state: Latch::new(state),
        }
    }

    /// Counts a loss: a more important transaction, of this importance, took the session's.
    pub(crate) fn lost_to(&self, importance: u64) {
        self.losses.fetch_add(1, Relaxed);
        self.taker.store(importance, Relaxed);
    }

    /// Returns the importance of the last taker, after this many losses.
    #[inline]
    pub(crate) fn taker_after(&self, losses: u32) -> Option<u64> {
        let lost = self.losses.load(Relaxed);
        (lost != 0 && u64::from(losses) <= lost).then(|| self.taker.load(Relaxed))
    }

    /// Forgets the losses: the session won, or had its chance.
    #[inline]
    pub(crate) fn forget_losses(&self) {
        if self.losses.load(Relaxed) != 0 {
            self.losses.store(0, Relaxed);
        }
    }

    /// Runs `f` on the state, under the latch. `f` is short and wakes no one.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut WaiterState) -> R) -> R {
        let region = Region::enter();
        f(&mut self.state.lock(&region))
    }

    /// Returns true if it may have a place in a queue.
    #[inline]
    pub(crate) fn has_place(&self) -> bool {
        self.has_place.load(Relaxed) != 0
    }

    pub(crate) fn set_place(&self, has_place: bool) {
        self.has_place.store(u64::from(has_place), Relaxed);
    }

    pub(crate) fn look_ns(&self) -> u64 {
        self.look_ns.load(Relaxed)
    }

    pub(crate) fn set_look_ns(&self, look_ns: u64) {
        self.look_ns.store(look_ns, Relaxed);
    }

    /// Returns the arrival of the statement, if it has waited before: the less, the earlier.
    pub(crate) fn arrival(&self) -> Option<u64> {
        Some(self.arrival.load(Relaxed)).filter(|arrival| *arrival != 0)
    }

    pub(crate) fn set_arrival(&self, arrival: u64) {
        self.arrival.store(arrival, Relaxed);
    }

    /// Ends the wait with this number, unless it has ended. Returns whether it did, with the callback to wake.
    pub(crate) fn end_wait(&self, number: Option<u64>, outcome: Option<Error>) -> Ended {
        self.with(|state| {
            if state.phase != Phase::Waiting || number.is_some_and(|number| number != state.number) {
                return Ended { wait: None, wake: None };
            }
            state.phase = Phase::Ready(outcome);
            Ended { wait: Some((state.number, state.place)), wake: state.wake.take() }
        })
    }

    /// Leaves a callback for the end of wait `number`. Returns it if that is over.
    pub(crate) fn on_ready(&self, number: u64, wake: Arc<dyn Wake>) -> Option<Arc<dyn Wake>> {
        self.with(|state| {
            if state.number != number || state.phase != Phase::Waiting {
                return Some(wake);
            }
            state.wake = Some(wake);
            None
        })
    }

    pub(crate) fn is_ready(&self, number: u64) -> bool {
        self.with(|state| state.number != number || state.phase != Phase::Waiting)
    }

    /// Begins a statement, to be over at this time.
    #[inline]
    pub(crate) fn begin_statement(&self, deadline_ns: u64) {
        self.deadline_ns.store(deadline_ns, Relaxed);
        self.statement.store(RUNNING, Relaxed);
    }

    /// Ends the statement.
    #[inline]
    pub(crate) fn end_statement(&self) {
        self.deadline_ns.store(u64::MAX, Relaxed);
        self.arrival.store(0, Relaxed);
        self.statement.store(IDLE, Relaxed);
    }

    /// Returns true if the statement must not go on. One that is over has no deadline any more.
    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_cancelled() || self.is_late()
    }

    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.statement.load(Relaxed) == CANCELLED
    }

    #[inline]
    fn is_late(&self) -> bool {
        let deadline_ns = self.deadline_ns.load(Relaxed);
        deadline_ns != u64::MAX && deadline_ns <= os::now_ns()
    }

    pub(crate) fn set_lock_timeout_ns(&self, ns: u64) {
        self.lock_timeout_ns.store(ns, Relaxed);
    }

    pub(crate) fn lock_timeout_ns(&self) -> u64 {
        self.lock_timeout_ns.load(Relaxed)
    }

    pub(crate) fn deadline_ns(&self) -> u64 {
        self.deadline_ns.load(Relaxed)
    }

    /// Cancels the statement that runs or waits. Returns true if there is one.
    pub(crate) fn cancel_statement(&self) -> bool {
        self.statement.compare_exchange(RUNNING, CANCELLED, SeqCst, SeqCst).is_ok()
    }
}

/// End of a wait.
#[must_use]
pub(crate) struct Ended {
    /// Number of the wait that was ended, and its place. None if it had ended before.
    pub(crate) wait: Option<(u64, Option<(Key, Mode)>)>,
    pub(crate) wake: Option<Arc<dyn Wake>>,
}
