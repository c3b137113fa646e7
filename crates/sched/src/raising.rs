//! Raising a worker that runs below other threads, while an urgent request wants it.
//!
//! A signal reaches a thread at once only if it has a processor. A worker of the class SCHED_IDLE loses its processor to
//! every thread that wakes, so the submitter of a request raises it, to the real-time class where that is allowed: the
//! kernel then runs the worker at once, if need be instead of the submitter. Raised by its nice value alone, it may wait
//! for milliseconds for a thread that runs on. The worker lowers itself at the end of the entry.
//!
//! **Invariant:** a worker that was raised is lowered, because an entry ends after that. Whoever raises a worker says so
//! ([`Raising::is_due`]) before it sends the interrupt, and again afterwards; if an entry has ended meanwhile, it sends
//! another one. So while `is_due` is true, the end of an entry is to come, and that lowers the worker.
//!
//! **Invariant:** a request runs on a raised worker, because the worker raises itself as well: the submitter may not have
//! come to it, or another one may have been served.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use preempt::os::ThreadPriority;
use std::sync::OnceLock;

/// Priorities to raise a worker to, the best first. Each needs more rights than the next.
const CANDIDATES: [ThreadPriority; 3] = [
    ThreadPriority::Realtime { priority: 1 },
    ThreadPriority::Ordinary { nice: -20 },
    ThreadPriority::Ordinary { nice: 0 },
];

/// Priorities of a worker.
struct WorkerPriorities {
    own: ThreadPriority,
    raised: ThreadPriority,
}

/// State of raising one worker.
#[derive(Default)]
pub(crate) struct Raising {
    /// Priorities; unset for a worker that is never raised.
    priorities: OnceLock<WorkerPriorities>,
    /// True if the worker may be raised, and the end of an entry is to come.
    is_due: AtomicBool,
    /// Number of entries that have ended.
    ended: AtomicU64,
    /// True if the worker has raised itself in the present entry. It alone uses this.
    is_raised: AtomicBool,
}

/// Raise that a submitter owes: it has said so, and sends the interrupt next.
#[must_use]
pub(crate) struct PendingRaise<'a> {
    raising: &'a Raising,
    priorities: &'a WorkerPriorities,
    ended: u64,
}

impl WorkerPriorities {
    /// Lowers this thread.
    fn lower_current(&self) {
        // The class SCHED_IDLE keeps the nice value that the thread has, whatever is asked for.
        if let (ThreadPriority::Idle { nice }, ThreadPriority::Ordinary { .. }) = (self.own, self.raised) {
            let _ = ThreadPriority::Ordinary { nice }.apply_to_current();
        }
        // Needs no right, so it cannot fail.
        let _ = self.own.apply_to_current();
    }
}

impl Raising {
    /// Finds the priority that this thread, a worker, may be raised to. Returns false if it runs in the class SCHED_IDLE
    /// and may not leave it.
    pub(crate) fn attach(&self) -> bool {
        let Ok(own) = ThreadPriority::of_current() else { return false };
        for raised in CANDIDATES {
            if own.is_below(raised) && raised.apply_to_current().is_ok() {
                self.priorities.get_or_init(|| WorkerPriorities { own, raised }).lower_current();
                return true;
            }
        }
        !own.is_idle()
    }

    /// Says that the worker will be raised, before the interrupt is sent. Returns `None` for one that is never raised.
    #[inline]
    pub(crate) fn begin(&self) -> Option<PendingRaise<'_>> {
        let priorities = self.priorities.get()?;
        let ended = self.ended.load(SeqCst);
        self.is_due.store(true, SeqCst);
        Some(PendingRaise { raising: self, priorities, ended })
    }

    /// Raises the worker from its own thread, before it runs a request. Returns false if that is not allowed any more.
    #[inline]
    pub(crate) fn raise_current(&self) -> bool {
        match self.priorities.get() {
            Some(priorities) if !self.is_raised.swap(true, SeqCst) => priorities.raised.apply_to_current().is_ok(),
            _ => true,
        }
    }

    /// Lowers the worker from its own thread, at the end of an entry.
    #[inline]
    pub(crate) fn lower_current(&self) {
        let Some(priorities) = self.priorities.get() else { return };
        // In this order: see `PendingRaise::raise`.
        self.ended.fetch_add(1, SeqCst);
        let is_due = self.is_due.swap(false, SeqCst);
        if is_due | self.is_raised.swap(false, SeqCst) {
            priorities.lower_current();
            // A submitter may have raised the worker meanwhile, in vain. Its interrupt is on the way.
            if self.is_due.load(SeqCst) {
                let _ = priorities.raised.apply_to_current();
            }
        }
    }
}

impl PendingRaise<'_> {
    /// Raises the worker, whose thread has this number, after the interrupt was sent. Returns true if another one must be
    /// sent, so that an entry ends after this.
    #[must_use]
    pub(crate) fn raise(self, thread: i32) -> bool {
        // A worker that stays below comes later: the right may be gone.
        let _ = self.priorities.raised.apply_to(thread);
        self.raising.is_due.store(true, SeqCst);
        self.raising.ended.load(SeqCst) != self.ended
    }
}
