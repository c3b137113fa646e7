//! The keeper: a thread that comes back for requests that the starvation cap held back.
//!
//! **Invariant:** while the cap holds requests back on a worker that would not come by itself, the keeper is awake, and
//! asks again as soon as the cap opens. It sleeps otherwise, but looks around ten times a second: a request that it
//! finds then is counted, and would be a lost wake-up.

use crate::policy::Policy;
use crate::state::SchedulerState;
use core::sync::atomic::{AtomicBool, Ordering::SeqCst};
use core::time::Duration;
use preempt::{no_preempt, os};
use stage::Class;
use std::sync::OnceLock;
use std::thread::{self, Thread};

/// Interval between two looks of the keeper while something is held back.
const LOOK_NS: u64 = 1_000_000;
/// Interval between two looks while nothing is held back.
const LOOK_AROUND: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(crate) struct Keeper {
    is_awake: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Keeper {
    /// Wakes the keeper because something was held back. Allowed in an urgent context: it stores a word and perhaps
    /// wakes a thread.
    pub(crate) fn wake(&self) {
        if !self.is_awake.swap(true, SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    pub(crate) fn unpark(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// Runs the keeper's thread.
pub(crate) fn run(shared: &SchedulerState) {
    shared.keeper.thread.get_or_init(thread::current);
    while !shared.is_stopped() {
        match shared.deliver_again() {
            Some(pause_ns) => thread::park_timeout(Duration::from_nanos(pause_ns)),
            None => {
                shared.keeper.is_awake.store(false, SeqCst);
                // Either this look finds what is held back now, or the thread that holds it back finds the keeper
                // asleep.
                if shared.deliver_again().is_none() {
                    thread::park_timeout(LOOK_AROUND);
                }
            }
        }
    }
}

impl SchedulerState {
    /// Asks every worker to serve that could and may. Returns the time to the next look, none if nothing is held back.
    fn deliver_again(&self) -> Option<u64> {
        let now_ns = os::now_ns();
        let has_queued = self.has_queued();
        let mut pause_ns: Option<u64> = None;
        for (at, slot) in self.slots.iter().enumerate() {
            let Some(worker) = slot.worker() else { continue };
            // By the mark, not by the mode: the worker may have woken us from its urgent context, just before it sleeps.
            let is_idle = has_queued && slot.is_parked.load(SeqCst);
            let is_interruptible =
                self.settings.policy == Policy::Preempt && (slot.queues.has_urgent() || self.overflow.has_urgent());
            if !is_idle && !is_interruptible {
                continue; // It comes by itself.
            }
            let opens_at_ns = no_preempt(|no_preempt| slot.cap.lock(no_preempt).opens_at(now_ns));
            let wait_ns = if opens_at_ns <= now_ns || !self.low.has_any() {
                self.counters.redelivered.add_one();
                if is_interruptible {
                    self.deliver(at, Class::High);
                } else {
                    preempt::wake_idle(worker);
                }
                LOOK_NS
            } else {
                (opens_at_ns - now_ns).min(LOOK_NS)
            };
            pause_ns = Some(pause_ns.map_or(wait_ns, |pause_ns| pause_ns.min(wait_ns)));
        }
        pause_ns
    }
}
