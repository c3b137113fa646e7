//! The claimer: an urgent thread of the policy `preempt` that runs requests which no worker has started in time.
//!
//! An interrupt cannot help where the worker has lost its processor, or is in the kernel for long. Claiming a request is
//! a compare-and-swap, so any thread may; this one does so only after [`SchedulerSettings::claim_after_ns`], because a
//! worker that runs is faster than a thread that has to be scheduled first.
//!
//! **Invariant:** while an urgent request is queued, a timer is set that wakes the claimer before the oldest one is late,
//! or the claimer is awake. A thread that queues a request sets the timer afterwards, unless it is set to a time to come; the
//! claimer takes that time back before it looks at the queues, so one of them sees the other. A thread that has published a
//! time and loses its processor before it sets the timer keeps others from setting it until that time only.
//!
//! Between two requests the claimer sleeps: one that looks around by itself takes the processor from workers, and from
//! the thread that is about to interrupt one.

use crate::counters::Start;
use crate::policy::Point;
use crate::state::SchedulerState;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use preempt::os::{self, Timer};
use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::Sender;

/// Shortest pause between two looks at requests that cannot be claimed yet.
const PAUSE_NS_MIN: u64 = 10_000;
/// Time before a request is late at which the claimer is awake and spins: a sleep takes some microseconds more than it
/// should.
const SPIN_NS: u64 = 20_000;

/// State that the claimer shares with the threads that queue requests.
#[derive(Default)]
pub(crate) struct Claimer {
    /// Timer with the time after which a request is late; none without a claimer.
    timer: OnceLock<(Timer, u64)>,
    /// Time to which the timer is set, or is about to be; 0 if the claimer is awake.
    due_ns: AtomicU64,
}

impl Claimer {
    /// Makes the timer. Requests are late after this time.
    ///
    /// # Errors
    /// If the process has too many descriptors.
    pub(crate) fn prepare(&self, after_ns: u64) -> io::Result<()> {
        let timer = Timer::new()?;
        self.timer.get_or_init(|| (timer, after_ns));
        Ok(())
    }

    /// Sets the timer for an urgent request that was queued just now, at `queued_ns`, unless it is set. Allowed in an
    /// urgent context. Setting the timer may cost 10 µs in a virtual machine, so whoever interrupts a worker does that
    /// before.
    #[inline]
    pub(crate) fn expect(&self, queued_ns: u64) {
        let Some((timer, after_ns)) = self.timer.get() else { return };
        let due_ns = self.due_ns.load(SeqCst);
        if queued_ns < due_ns {
            return;
        }
        let own_ns = (queued_ns + after_ns).saturating_sub(SPIN_NS).max(1);
        // If that fails, another thread has set the timer, or the claimer is about to look.
        if self.due_ns.compare_exchange(due_ns, own_ns, SeqCst, SeqCst).is_ok() {
            timer.set_ns(own_ns);
        }
    }

    /// Wakes the claimer.
    pub(crate) fn wake(&self) {
        if let Some((timer, _)) = self.timer.get() {
            timer.set_ns(0);
        }
    }
}

/// Runs the claimer's thread until the scheduler stops. Sends true once it runs, if it does so in the real-time class.
pub(crate) fn run(shared: &SchedulerState, ready: &Sender<bool>) {
    let priority = shared.settings.realtime_priority;
    let is_realtime = 0 < priority && os::set_realtime(priority).is_ok();
    // Without it the kernel may wake an ordinary thread 50 µs late. A kernel that refuses makes the thread later.
    let _ = os::set_timer_slack(1);
    // The receiver may be gone if the scheduler could not be created.
    let _ = ready.send(is_realtime);
    let claimer = &shared.claimer;
    let Some((timer, after_ns)) = claimer.timer.get() else { return };
    while !shared.is_stopped() {
        timer.wait();
        claimer.due_ns.store(0, SeqCst);
        while !shared.is_stopped() {
            preempt::enter_urgent(&mut || {
                shared.serve(0, Point::Late, Start::Claimed);
            });
            let now_ns = os::now_ns();
            let next_ns = match shared.oldest_urgent_ns() {
                Some(oldest_ns) => {
                    let late_ns = oldest_ns + after_ns;
                    match late_ns.saturating_sub(now_ns) {
                        // A request that is late by now is one that the cap holds back.
                        0 => now_ns + (*after_ns).max(PAUSE_NS_MIN),
                        1..=SPIN_NS => {
                            spin_until(shared, late_ns);
                            continue;
                        }
                        left_ns => now_ns + left_ns - SPIN_NS,
                    }
                }
                // A worker takes one, or another thread queues one: the next one is not to be seen yet. That thread may have
                // lost this processor to the claimer, so it gets it back.
                None if shared.has_urgent() => now_ns + PAUSE_NS_MIN,
                None => break,
            };
            // A thread that queues a request now may set the timer as well, to a later time: then this one is claimed
            // later by what has passed between the two.
            claimer.due_ns.store(next_ns, SeqCst);
            timer.set_ns(next_ns);
            break;
        }
    }
}

/// Spins until this time, or until no request is queued.
fn spin_until(shared: &SchedulerState, until_ns: u64) {
    while os::now_ns() < until_ns && shared.has_queued() {
        core::hint::spin_loop();
    }
}
