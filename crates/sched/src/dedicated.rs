//! Dedicated threads of the policy `thread`: the kernel's scheduler does the preempting.
//!
//! **Invariant:** a dedicated thread sleeps only by parking, after it has found every queue empty; the thread that
//! queues a request unparks it afterwards, and the token of [`std::thread::park`] keeps that wake-up from being lost.

use crate::counters::Start;
use crate::entry::LeftRequests;
use crate::policy::Point;
use crate::state::SchedulerState;
use core::sync::atomic::Ordering::SeqCst;
use core::time::Duration;
use preempt::no_preempt;
use preempt::os::{self, RunDelay};
use std::sync::mpsc::Sender;
use std::thread;

/// Channel on which a dedicated thread reports that it is ready: true if it runs in the real-time class.
pub(crate) type Ready = Sender<bool>;

/// Runs the dedicated thread of worker `at` until the scheduler stops.
pub(crate) fn run(shared: &SchedulerState, at: usize, ready: &Ready) {
    let slot = &shared.slots[at];
    if let Some(cpu) = shared.cpu_of(at) {
        // A processor that is gone, or forbidden, makes the thread slower, not wrong.
        let _ = os::pin_to_cpu(cpu);
    }
    let priority = shared.settings.realtime_priority;
    let is_realtime = 0 < priority && os::set_realtime(priority).is_ok();
    if shared.settings.track_run_delay
        && let Ok(run_delay) = RunDelay::open_current()
    {
        let _ = slot.run_delay.set(run_delay);
    }
    slot.dedicated.get_or_init(thread::current);
    // The receiver may be gone if another thread could not be started.
    let _ = ready.send(is_realtime);
    while !shared.is_stopped() {
        let mut left = LeftRequests::Nothing;
        preempt::enter_urgent(&mut || left = shared.serve(at, Point::Dedicated, Start::Dedicated));
        match left {
            LeftRequests::Nothing => {
                slot.dedicated_sleeps.store(true, SeqCst);
                thread::park();
                slot.dedicated_sleeps.store(false, SeqCst);
            }
            LeftRequests::HeldBack => {
                let now_ns = os::now_ns();
                let opens_at_ns = no_preempt(|no_preempt| slot.cap.lock(no_preempt).opens_at(now_ns));
                let pause_ns = opens_at_ns.saturating_sub(now_ns).min(shared.settings.cap.window_ns);
                thread::park_timeout(Duration::from_nanos(pause_ns));
            }
        }
    }
}
