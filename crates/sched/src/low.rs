//! Low jobs: queries, which take whole workers until they end.
//!
//! **Invariant:** low jobs start in the order of their submission, in base context only, when as many workers as they
//! are wide are free of other low jobs (or none runs, or the settings let them share). A low job ends with the drop of
//! its [`Finish`], on whatever thread: there requests get their turn first, and then the next low job starts. A low job
//! that waits for something else than a worker takes none meanwhile. When it goes on, it waits for no other: then more
//! may run than there are workers, until the next one ends.

use crate::event::Event;
use crate::policy::Policy;
use crate::request::Rejected;
use crate::state::SchedulerState;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use preempt::{Latch, no_preempt, os};
use std::collections::VecDeque;
use std::sync::Arc;

/// A query, or any work that is not urgent.
pub trait LowWork: Send {
    /// Starts the job and returns at once; it runs on the runtime whose threads are the workers. Called in base context
    /// only. The job lasts until `finish` is dropped, best on the worker that did its last step.
    fn start(self: Box<Self>, finish: Finish);
}

impl<F: FnOnce(Finish) + Send> LowWork for F {
    fn start(self: Box<Self>, finish: Finish) {
        self(finish);
    }
}

/// Guard of a running low job, which ends when the guard is dropped.
///
/// # Panics
/// The drop panics in an urgent context, where no query can end.
#[must_use = "the low job ends when this is dropped"]
pub struct Finish {
    shared: Arc<SchedulerState>,
    id: u64,
    width: usize,
    is_paused: bool,
}

impl Finish {
    /// Returns the low job's number.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Gives the workers of the low job to others while it waits for something else, such as a client that reads.
    ///
    /// # Panics
    /// In an urgent context.
    pub fn pause(&mut self) {
        if !std::mem::replace(&mut self.is_paused, true) {
            self.shared.pause_low(self.width);
        }
    }

    /// Ends the pause. The low job goes on at once, whatever runs.
    pub fn resume(&mut self) {
        if std::mem::take(&mut self.is_paused) {
            self.shared.low.add(self.width);
        }
    }

    /// Ends the low job here.
    pub fn finish(self) {}
}

impl Drop for Finish {
    fn drop(&mut self) {
        let width = if self.is_paused { 0 } else { self.width };
        self.shared.end_low(self.id, width);
    }
}

struct LowJob {
    id: u64,
    width: usize,
    work: Box<dyn LowWork>,
}

struct LowState {
    waiting: VecDeque<LowJob>,
    running_width: usize,
}

/// Low jobs that wait, and the number of workers that the running ones take. Touched in base context only, except
/// `head`.
pub(crate) struct LowQueue {
    state: Latch<LowState>,
    /// Place of the oldest waiting job. A low job's number is its place in the line of submissions.
    head: AtomicU64,
    /// Number of low jobs that wait or run.
    alive: AtomicUsize,
    is_closed: AtomicBool,
    capacity: usize,
}

const NONE: u64 = u64::MAX;

thread_local! {
    /// True while this thread starts low jobs further up its stack; that loop goes on.
    static STARTING: Cell<bool> = const { Cell::new(false) };
}

impl LowQueue {
    pub(crate) fn new(capacity: usize) -> LowQueue {
        LowQueue {
            state: Latch::new(LowState { waiting: VecDeque::with_capacity(capacity), running_width: 0 }),
            head: AtomicU64::new(NONE),
            alive: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            capacity,
        }
    }

    pub(crate) fn head(&self) -> Option<u64> {
        Some(self.head.load(SeqCst)).filter(|&place| place != NONE)
    }

    /// Returns true if a low job waits or runs.
    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        0 < self.alive.load(SeqCst)
    }

    /// Returns the number of low jobs that wait or run.
    pub(crate) fn alive(&self) -> usize {
        self.alive.load(SeqCst)
    }

    pub(crate) fn len(&self) -> usize {
        no_preempt(|no_preempt| self.state.lock(no_preempt).waiting.len())
    }

    fn publish_head(&self, state: &LowState) {
        self.head.store(state.waiting.front().map_or(NONE, |job| job.id), SeqCst);
    }

    fn push(&self, work: Box<dyn LowWork>, width: usize, places: &AtomicU64) -> Result<u64, Box<dyn LowWork>> {
        no_preempt(|no_preempt| {
            let mut state = self.state.lock(no_preempt);
            if self.capacity <= state.waiting.len() || self.is_closed.load(SeqCst) {
                return Err(work);
            }
            // Under the latch, so that the queue is in the order of the places.
            let id = places.fetch_add(1, SeqCst);
            state.waiting.push_back(LowJob { id, width, work });
            self.alive.fetch_add(1, SeqCst);
            self.publish_head(&state);
            Ok(id)
        })
    }

    fn pop_fitting(&self, width_max: usize) -> Option<LowJob> {
        no_preempt(|no_preempt| {
            let mut state = self.state.lock(no_preempt);
            let width = state.waiting.front()?.width;
            if 0 < state.running_width && width_max < state.running_width + width {
                return None;
            }
            state.running_width += width;
            let job = state.waiting.pop_front();
            self.publish_head(&state);
            job
        })
    }

    fn add(&self, width: usize) {
        no_preempt(|no_preempt| self.state.lock(no_preempt).running_width += width);
    }

    fn subtract(&self, width: usize) {
        no_preempt(|no_preempt| self.state.lock(no_preempt).running_width -= width);
    }

    fn release(&self, width: usize) {
        self.subtract(width);
        self.alive.fetch_sub(1, SeqCst);
    }

    fn remove(&self, id: u64) -> Option<LowJob> {
        no_preempt(|no_preempt| {
            let mut state = self.state.lock(no_preempt);
            let at = state.waiting.iter().position(|job| job.id == id)?;
            let job = state.waiting.remove(at);
            self.alive.fetch_sub(1, SeqCst);
            self.publish_head(&state);
            job
        })
    }

    /// Accepts no more jobs, and drops those that wait.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, SeqCst);
        let dropped = no_preempt(|no_preempt| {
            let mut state = self.state.lock(no_preempt);
            let dropped = core::mem::take(&mut state.waiting);
            self.alive.fetch_sub(dropped.len(), SeqCst);
            self.publish_head(&state);
            dropped
        });
        drop(dropped);
    }
}

impl SchedulerState {
    pub(crate) fn submit_low(self: &Arc<Self>, work: Box<dyn LowWork>, width: usize) -> Result<u64, Rejected> {
        assert!(!preempt::in_urgent(), "a low job is submitted in base context");
        let width = width.clamp(1, self.settings.workers);
        match self.low.push(work, width, &self.next_place) {
            Ok(id) => {
                self.start_low_jobs();
                Ok(id)
            }
            Err(work) => {
                drop(work);
                Err(if self.is_stopped() { Rejected::Stopped } else { Rejected::Full })
            }
        }
    }

    pub(crate) fn cancel_low(self: &Arc<Self>, id: u64) -> bool {
        let Some(job) = self.low.remove(id) else { return false };
        drop(job);
        // A narrower job may have stood behind it, or, under `wait`, requests that idle workers may run.
        self.start_low_jobs();
        self.wake_idle_workers();
        true
    }

    fn end_low(self: &Arc<Self>, id: u64, width: usize) {
        assert!(!preempt::in_urgent(), "a low job ends in base context");
        let slot = self.current_slot();
        self.log(slot, Event::QueryEnd { id, worker: slot.map(|slot| slot as u32), at_ns: os::now_ns() });
        self.boundary();
        self.low.release(width);
        self.start_low_jobs();
    }

    fn pause_low(self: &Arc<Self>, width: usize) {
        assert!(!preempt::in_urgent(), "a low job pauses in base context");
        self.low.subtract(width);
        self.start_low_jobs();
    }

    fn start_low_jobs(self: &Arc<Self>) {
        if STARTING.replace(true) {
            return;
        }
        // A start that panics must not leave the mark behind.
        struct Unmark;
        impl Drop for Unmark {
            fn drop(&mut self) {
                STARTING.set(false);
            }
        }
        let unmark = Unmark;
        let mut is_started = false;
        let width_max = self.settings.low_width_max.unwrap_or(self.settings.workers);
        while let Some(LowJob { id, width, work }) = self.low.pop_fitting(width_max) {
            let slot = self.current_slot();
            self.log(slot, Event::QueryStart { id, worker: slot.map(|slot| slot as u32), at_ns: os::now_ns() });
            work.start(Finish { shared: Arc::clone(self), id, width, is_paused: false });
            is_started = true;
        }
        drop(unmark);
        if is_started && self.settings.policy == Policy::Wait {
            // Requests that stood behind them in the line may run now on workers that are still idle.
            self.wake_idle_workers();
        }
    }
}
