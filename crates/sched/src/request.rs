//! Requests: a piece of work, its claim and its stamps.
//!
//! **Invariant:** the thread that moves the state from queued to claimed by compare-and-swap, and no other, runs the
//! work, and gives the claim up when the run ends. A cancelled request never runs. Of a run that parks, the wake-up and
//! the end of the run are two compare-and-swaps on one word, in either order: the second of them queues the request
//! again, so no wake-up is lost and none counts twice. A wake-up names the run it is for; one that comes late does
//! nothing.
//!
//! ```text
//! new -> queued <-> claimed -> done
//!          | \        \-> parked -> queued           the run ended, then the wake-up came
//!          |  \-------- woken                        the wake-up came first
//!          \-> cancelled
//! ```

use crate::counters::Start;
use crate::state::SchedulerState;
use crate::sync::{AtomicU64, Ordering};
use core::sync::atomic::{AtomicU32, AtomicU64 as PlainU64};
use preempt::os;
use stage::{Class, Clock};
use std::fmt;
use std::sync::Arc;

/// Outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// The request is finished; a failure that the work has reported by itself counts too.
    Done,
    /// The run was aborted and the request is to run again, after the queued ones.
    Again,
    /// The request waits for something outside, and has left a [`Resubmit`] of this run with the party that will know:
    /// the request is submitted again when that is used. The worker goes on with other work meanwhile.
    Parked,
}

/// End of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The work returned [`RunOutcome::Done`].
    Done,
    /// The work panicked. Nothing else was harmed.
    Panicked,
    /// The work still returned [`RunOutcome::Again`] after the last attempt that the settings allow.
    Exhausted,
}

/// Reason of a refusal of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// The limit of requests under way, or of waiting queries, is reached; the work may be submitted again later.
    #[error("the scheduler is full")]
    Full,
    /// The scheduler was shut down.
    #[error("the scheduler was shut down")]
    Stopped,
    /// The request was submitted before.
    #[error("a request is submitted once")]
    NotNew,
}

/// Context of a run, as the work sees it.
pub struct RunCx<'a> {
    pub(crate) shared: &'a SchedulerState,
    /// Request that runs.
    pub request: &'a Arc<Request>,
    /// Index of the worker that runs the request.
    pub worker: usize,
    /// Number of the run: 1 for the first.
    pub attempt: u32,
    /// Occasion of the run.
    pub start: Start,
}

impl RunCx<'_> {
    /// Returns the wake-up for this run. The work leaves it with what it waits for before it returns
    /// [`RunOutcome::Parked`]. Neither this call nor clones of the wake-up allocate.
    pub fn resubmitter(&self) -> Resubmit {
        Resubmit { shared: self.shared.own(), request: Arc::clone(self.request), attempt: self.attempt }
    }
}

/// Wake-up of a parked request: submits it again. Any thread may use it, in any context outside of a region, urgent
/// ones included.
#[derive(Clone)]
pub struct Resubmit {
    shared: Arc<SchedulerState>,
    request: Arc<Request>,
    attempt: u32,
}

impl Resubmit {
    /// Lets the request run again after the run that this wake-up was made in, whether that run has ended yet or not.
    /// The first call counts; later ones, and those for a run that did not park, do nothing.
    pub fn resubmit(&self) {
        if let Some(parked_ns) = self.request.wake(self.attempt, os::now_ns()) {
            self.request.clock().add_lock_wait(parked_ns);
            self.shared.resubmit(Arc::clone(&self.request));
        }
    }

    /// Returns the request.
    pub fn request(&self) -> &Arc<Request> {
        &self.request
    }
}

impl fmt::Debug for Resubmit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resubmit").field("request", &self.request.id).field("attempt", &self.attempt).finish()
    }
}

/// A piece of work that may run in an urgent context, under the rules of the design, section 4: it does not block,
/// do I/O, log, or touch tokio, and it latches only inside a [`preempt::Region`]. It may panic.
pub trait Work: Send + Sync {
    /// Runs it once.
    fn run(&self, cx: &RunCx<'_>) -> RunOutcome;
}

impl<F: Fn(&RunCx<'_>) -> RunOutcome + Send + Sync> Work for F {
    fn run(&self, cx: &RunCx<'_>) -> RunOutcome {
        self(cx)
    }
}

/// State of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RequestState {
    /// The request was not submitted yet, or was rejected.
    New = 0,
    /// The request waits in a queue; it can be cancelled.
    Queued = 1,
    /// A thread runs the request.
    Claimed = 2,
    /// The request has ended.
    Done = 3,
    /// The request was cancelled while it was queued.
    Cancelled = 4,
    /// The request runs, and its wake-up came already.
    Woken = 5,
    /// The request waits for something outside of the scheduler.
    Parked = 6,
}

/// State and number of the run, in one word: `attempt << 8 | state`.
const ATTEMPT_SHIFT: u32 = 8;
const STATE_MASK: u64 = (1 << ATTEMPT_SHIFT) - 1;

const fn word(state: RequestState, attempt: u64) -> u64 {
    attempt << ATTEMPT_SHIFT | state as u64
}

fn state_of(word: u64) -> RequestState {
    match word & STATE_MASK {
        0 => RequestState::New,
        1 => RequestState::Queued,
        2 => RequestState::Claimed,
        3 => RequestState::Done,
        4 => RequestState::Cancelled,
        5 => RequestState::Woken,
        _ => RequestState::Parked,
    }
}

/// A piece of work for the scheduler. Submit it once.
pub struct Request {
    id: u64,
    class: Class,
    work: Box<dyn Work>,
    /// State and number of the run, as [`word`] packs them.
    word: AtomicU64,
    /// Place in the one line of submissions.
    place: AtomicU64,
    clock: Clock,
    /// Number of runs that returned [`RunOutcome::Again`].
    repeats: AtomicU32,
    /// Number of runs that returned [`RunOutcome::Parked`].
    parks: AtomicU32,
    /// Time at which it was queued last.
    queued_ns: PlainU64,
    /// Worker that the request was placed with; its index plus one, 0 for none.
    target: AtomicU32,
    /// Nanoseconds to subtract from the worker's run-queue delay in the end.
    run_delay_base_ns: PlainU64,
    first_run_ns: PlainU64,
    parked_ns: PlainU64,
}

impl Request {
    /// Creates a request that the caller knows as `id`.
    pub fn new(id: u64, class: Class, work: Box<dyn Work>) -> Request {
        Request {
            id,
            class,
            work,
            word: AtomicU64::new(word(RequestState::New, 0)),
            place: AtomicU64::new(0),
            clock: Clock::new(),
            repeats: AtomicU32::new(0),
            parks: AtomicU32::new(0),
            queued_ns: PlainU64::new(0),
            target: AtomicU32::new(0),
            run_delay_base_ns: PlainU64::new(0),
            first_run_ns: PlainU64::new(0),
            parked_ns: PlainU64::new(0),
        }
    }

    /// Returns the caller's number of the request.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the class of the request.
    pub fn class(&self) -> Class {
        self.class
    }

    /// Returns the stamps of the request.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the number of runs started so far.
    pub fn attempts(&self) -> u32 {
        (self.word.load(Ordering::SeqCst) >> ATTEMPT_SHIFT) as u32
    }

    /// Returns the number of runs that parked.
    pub fn parks(&self) -> u32 {
        self.parks.load(Ordering::Relaxed)
    }

    /// Returns the state of the request.
    pub fn state(&self) -> RequestState {
        state_of(self.word.load(Ordering::SeqCst))
    }

    /// Takes the request back. Returns false if it runs, or has run, or was never submitted. A parked one is not taken
    /// back, because it may have a place elsewhere: end what it waits for, and it runs once more to learn of that.
    pub fn cancel(&self) -> bool {
        self.change(RequestState::Queued, RequestState::Cancelled, 0).is_some()
    }

    /// Queues the request: the submitter's step. Returns false if it was submitted before.
    #[doc(hidden)]
    pub fn enqueue(&self, place: u64) -> bool {
        let is_mine = self.change(RequestState::New, RequestState::Queued, 0).is_some();
        if is_mine {
            self.place.store(place, Ordering::Relaxed);
        }
        is_mine
    }

    /// Claims the right to run the request. At most one caller gets it, with the number of the run: 1 for the first.
    #[doc(hidden)]
    pub fn claim(&self) -> Option<u32> {
        self.change(RequestState::Queued, RequestState::Claimed, 1)
    }

    /// Returns a claimed request to the state queued, whether its wake-up came or not.
    pub(crate) fn release(&self) {
        self.set(RequestState::Queued);
    }

    /// Ends a claimed request.
    pub(crate) fn end(&self) {
        self.set(RequestState::Done);
    }

    /// Parks the request after the claimant's run ended at `now_ns`. Returns false if the wake-up came before: the
    /// request is queued then, and the caller has to put it into a queue.
    #[doc(hidden)]
    pub fn park(&self, now_ns: u64) -> bool {
        self.parks.fetch_add(1, Ordering::Relaxed);
        self.parked_ns.store(now_ns, Ordering::Relaxed);
        if preempt::plants::is_planted("early_wake_up_lost") {
            self.set(RequestState::Parked);
            return true;
        }
        if self.change(RequestState::Claimed, RequestState::Parked, 0).is_some() {
            return true;
        }
        self.set(RequestState::Queued);
        false
    }

    /// Wakes run `attempt`. Returns the nanoseconds that it was parked if the caller has to put it into a queue; none
    /// if the run has not ended yet, or if this wake-up is too late or too often.
    #[doc(hidden)]
    pub fn wake(&self, attempt: u32, now_ns: u64) -> Option<u64> {
        let swap = |from, to| {
            let (from, to) = (word(from, attempt.into()), word(to, attempt.into()));
            self.word.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        };
        // Parking comes after the claim, so a caller that finds neither the claim nor the parked state has nothing to
        // do.
        if !swap(RequestState::Claimed, RequestState::Woken) && swap(RequestState::Parked, RequestState::Queued) {
            return Some(now_ns.saturating_sub(self.parked_ns.load(Ordering::Relaxed)));
        }
        None
    }

    /// Stores a state for the claimant. Only a wake-up can come between, and the claimant ignores it.
    fn set(&self, to: RequestState) {
        let attempt = self.word.load(Ordering::SeqCst) >> ATTEMPT_SHIFT;
        self.word.store(word(to, attempt), Ordering::SeqCst);
    }

    /// Moves the state `from` one `to` another, and the number of the run on by `runs`. Returns the number of the run,
    /// or none if the request was in another state.
    fn change(&self, from: RequestState, to: RequestState, runs: u64) -> Option<u32> {
        let mut now = self.word.load(Ordering::SeqCst);
        while state_of(now) == from {
            let attempt = (now >> ATTEMPT_SHIFT) + runs;
            match self.word.compare_exchange(now, word(to, attempt), Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Some(attempt as u32),
                Err(other) => now = other,
            }
        }
        None
    }

    pub(crate) fn place(&self) -> u64 {
        self.place.load(Ordering::Relaxed)
    }

    /// Returns the time at which the request was queued last.
    pub(crate) fn queued_ns(&self) -> u64 {
        self.queued_ns.load(Ordering::Relaxed)
    }

    /// Notes that the request is about to be queued.
    pub(crate) fn set_queued_ns(&self, at_ns: u64) {
        self.queued_ns.store(at_ns, Ordering::Relaxed);
    }

    pub(crate) fn work(&self) -> &dyn Work {
        &*self.work
    }

    /// Counts one more run that asked to run again.
    pub(crate) fn count_repeat(&self) -> u32 {
        self.repeats.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn target(&self) -> Option<usize> {
        (self.target.load(Ordering::Relaxed) as usize).checked_sub(1)
    }

    pub(crate) fn set_target(&self, slot: usize) {
        self.target.store(slot as u32 + 1, Ordering::Relaxed);
    }

    pub(crate) fn run_delay_base_ns(&self) -> u64 {
        self.run_delay_base_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn set_run_delay_base_ns(&self, base_ns: u64) {
        self.run_delay_base_ns.store(base_ns, Ordering::Relaxed);
    }

    pub(crate) fn first_run_ns(&self) -> u64 {
        self.first_run_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn set_first_run_ns(&self, at_ns: u64) {
        self.first_run_ns.store(at_ns, Ordering::Relaxed);
    }
}
