//! Requests: a piece of work, its claim and its stamps.
//!
//! **Invariant:** whoever moves the state from queued to claimed by compare-and-swap, and nobody else, runs the work,
//! and gives the claim up when the run ends. A cancelled request never runs.
//!
//! ```text
//! new -> queued <-> claimed -> done
//!           \-> cancelled
//! ```

use crate::counters::Start;
use crate::sync::{AtomicU8, AtomicU64, Ordering};
use core::sync::atomic::{AtomicU32, AtomicU64 as PlainU64};
use stage::{Class, Clock};

/// How a run went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is finished; a failure that the work has reported by itself counts too.
    Done,
    /// It was aborted and wants to run again, after what is queued.
    Again,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The work said [`Outcome::Done`].
    Done,
    /// The work panicked. Nothing else was harmed.
    Panicked,
    /// The work still said [`Outcome::Again`] after the last attempt that the settings allow.
    Exhausted,
}

/// What a run may know.
pub struct RunCx<'a> {
    /// The request that runs.
    pub request: &'a Request,
    /// The index of the worker that runs it.
    pub worker: usize,
    /// 1 for the first run.
    pub attempt: u32,
    /// How it came to run.
    pub start: Start,
}

/// A piece of work that may run in an urgent context, under the rules of the design, section 4: it does not block,
/// do I/O, log, or touch tokio, and it latches only inside a [`preempt::Region`]. It may panic.
pub trait Work: Send + Sync {
    /// Runs it once.
    fn run(&self, cx: &RunCx<'_>) -> Outcome;
}

impl<F: Fn(&RunCx<'_>) -> Outcome + Send + Sync> Work for F {
    fn run(&self, cx: &RunCx<'_>) -> Outcome {
        self(cx)
    }
}

/// Where a request is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Not submitted yet, or rejected.
    New = 0,
    /// It waits; it can be cancelled.
    Queued = 1,
    /// Somebody runs it.
    Claimed = 2,
    /// It has ended.
    Done = 3,
    /// It was cancelled before anybody claimed it.
    Cancelled = 4,
}

/// A piece of work for the scheduler. Submit it once.
pub struct Request {
    id: u64,
    class: Class,
    work: Box<dyn Work>,
    state: AtomicU8,
    /// Its place in the one line of submissions.
    place: AtomicU64,
    clock: Clock,
    attempts: AtomicU32,
    /// The worker it was placed with; its index plus one, 0 for none.
    target: AtomicU32,
    /// What to subtract from its worker's run-queue delay in the end.
    run_delay_base_ns: PlainU64,
    first_run_ns: PlainU64,
}

impl Request {
    /// A request that the caller knows as `id`.
    pub fn new(id: u64, class: Class, work: Box<dyn Work>) -> Request {
        Request {
            id,
            class,
            work,
            state: AtomicU8::new(State::New as u8),
            place: AtomicU64::new(0),
            clock: Clock::new(),
            attempts: AtomicU32::new(0),
            target: AtomicU32::new(0),
            run_delay_base_ns: PlainU64::new(0),
            first_run_ns: PlainU64::new(0),
        }
    }

    /// The caller's number for it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// How important it is.
    pub fn class(&self) -> Class {
        self.class
    }

    /// Its stamps.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// How often it was started so far.
    pub fn attempts(&self) -> u32 {
        self.attempts.load(Ordering::Relaxed)
    }

    /// Where it is in its life.
    pub fn state(&self) -> State {
        match self.state.load(Ordering::SeqCst) {
            0 => State::New,
            1 => State::Queued,
            2 => State::Claimed,
            3 => State::Done,
            _ => State::Cancelled,
        }
    }

    /// Takes it back. False if it runs, or has run, or was never submitted.
    pub fn cancel(&self) -> bool {
        self.moves(State::Queued, State::Cancelled)
    }

    /// The submitter's step.
    #[doc(hidden)]
    pub fn enqueue(&self, place: u64) -> bool {
        let is_mine = self.moves(State::New, State::Queued);
        if is_mine {
            self.place.store(place, Ordering::Relaxed);
        }
        is_mine
    }

    /// The submitter found no room. True if nobody cancelled it meanwhile.
    pub(crate) fn withdraw(&self) -> bool {
        self.moves(State::Queued, State::New)
    }

    /// The right to run it. At most one caller gets it.
    #[doc(hidden)]
    pub fn claim(&self) -> bool {
        self.moves(State::Queued, State::Claimed)
    }

    /// The claimant lets it wait again.
    pub(crate) fn release(&self) {
        self.state.store(State::Queued as u8, Ordering::SeqCst);
    }

    /// The claimant is through with it.
    pub(crate) fn end(&self) {
        self.state.store(State::Done as u8, Ordering::SeqCst);
    }

    fn moves(&self, from: State, to: State) -> bool {
        self.state.compare_exchange(from as u8, to as u8, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    pub(crate) fn place(&self) -> u64 {
        self.place.load(Ordering::Relaxed)
    }

    pub(crate) fn work(&self) -> &dyn Work {
        &*self.work
    }

    /// Counts one more attempt and returns its number.
    pub(crate) fn begin_attempt(&self) -> u32 {
        let attempt = self.attempts.load(Ordering::Relaxed) + 1;
        self.attempts.store(attempt, Ordering::Relaxed);
        attempt
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
