//! The claimer: an urgent thread of the policy `preempt` that runs requests which no worker has started in time.
//!
//! An interrupt cannot help where the worker has lost its processor, or is in the kernel for long. Claiming a request is
//! a compare-and-swap, so any thread may; this one does so only after [`SchedulerSettings::claim_after_ns`], because a
//! worker that runs is faster than a thread that has to be scheduled first.
//!
//! **Invariant:** while an urgent request is queued, the claimer looks at the queues at least once in
//! [`SchedulerSettings::claim_after_ns`]. It publishes that it sleeps before it looks at the queues for the last time, and
//! a thread that queues a request reads that afterwards, so one of them sees the other.
//!
//! [`SchedulerSettings::claim_after_ns`]: crate::SchedulerSettings::claim_after_ns

use crate::counters::Start;
use crate::policy::Point;
use crate::state::SchedulerState;
use core::sync::atomic::{AtomicBool, Ordering::SeqCst};
use core::time::Duration;
use preempt::os;
use std::sync::OnceLock;
use std::sync::mpsc::Sender;
use std::thread::{self, Thread};

/// Number of looks without a new request after which the claimer sleeps until there is one. Waking it costs the
/// submitter about 20 µs, so it stays awake for about 10 ms.
const QUIET_LOOKS_MAX: u32 = 100;
/// Shortest pause between two looks while no request will be late soon.
const PAUSE_NS_MIN: u64 = 10_000;
/// Time before a request is late at which the claimer is awake and spins: a sleep takes some microseconds more than it
/// should.
const SPIN_NS: u64 = 20_000;
/// Interval between two looks while it sleeps.
const LOOK_AROUND: Duration = Duration::from_millis(100);

/// State that the claimer shares with the threads that queue requests.
#[derive(Default)]
pub(crate) struct Claimer {
    sleeps: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Claimer {
    /// Wakes the claimer if it sleeps, because an urgent request was queued. Allowed in an urgent context.
    #[inline]
    pub(crate) fn wake(&self) {
        if self.sleeps.load(SeqCst) && self.sleeps.swap(false, SeqCst) {
            self.unpark();
        }
    }

    /// Ends a pause or the sleep of the claimer.
    pub(crate) fn unpark(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// Runs the claimer's thread until the scheduler stops. Sends true once it runs, if it does so in the real-time class.
pub(crate) fn run(shared: &SchedulerState, after_ns: u64, ready: &Sender<bool>) {
    let priority = shared.settings.realtime_priority;
    let is_realtime = 0 < priority && os::set_realtime(priority).is_ok();
    // Without it the kernel may wake an ordinary thread 50 µs late. A kernel that refuses makes the thread later.
    let _ = os::set_timer_slack(1);
    let claimer = &shared.claimer;
    claimer.thread.get_or_init(thread::current);
    // The receiver may be gone if the scheduler could not be created.
    let _ = ready.send(is_realtime);
    let (mut seen, mut quiet_looks) = (0, 0);
    while !shared.is_stopped() {
        preempt::enter_urgent(&mut || {
            shared.serve(0, Point::Late, Start::Claimed);
        });
        let queued = shared.counters.queued.read() + shared.counters.resubmits.read();
        let oldest_ns = shared.oldest_urgent_ns();
        let is_quiet = oldest_ns.is_none() && queued == seen;
        quiet_looks = if is_quiet { QUIET_LOOKS_MAX.min(quiet_looks + 1) } else { 0 };
        seen = queued;
        if quiet_looks < QUIET_LOOKS_MAX {
            let late_ns = oldest_ns.map_or(0, |oldest_ns| oldest_ns + after_ns);
            let pause_ns = match late_ns.saturating_sub(os::now_ns()) {
                // A request that is late by now is one that the cap holds back.
                0 => after_ns.max(PAUSE_NS_MIN),
                left_ns if left_ns <= SPIN_NS => {
                    spin_until(shared, late_ns);
                    continue;
                }
                left_ns => (left_ns - SPIN_NS).min(after_ns),
            };
            thread::park_timeout(Duration::from_nanos(pause_ns));
            continue;
        }
        claimer.sleeps.store(true, SeqCst);
        if shared.oldest_urgent_ns().is_none() && !shared.is_stopped() {
            thread::park_timeout(LOOK_AROUND);
        }
        // One look around, unless a submitter has woken it: then it stays awake.
        let was_woken = !claimer.sleeps.swap(false, SeqCst);
        quiet_looks = if was_woken { 0 } else { QUIET_LOOKS_MAX };
    }
}

/// Spins until this time, or until no request is queued.
fn spin_until(shared: &SchedulerState, until_ns: u64) {
    while os::now_ns() < until_ns && shared.has_queued() {
        core::hint::spin_loop();
    }
}
