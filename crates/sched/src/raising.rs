//! Raising a worker that runs below other threads, while an urgent request wants it.
//!
//! A signal reaches a thread at once only if it has a processor. A worker of the class SCHED_IDLE loses its processor to
//! every thread that wakes, so the submitter of a request raises it to the ordinary class, with a slice so short that the
//! kernel runs it soon. The worker lowers itself at the end of the entry.
//!
//! The real-time class would start requests sooner, and at a rate of a thousand a second it kept ordinary threads from
//! the processor for 100 ms and more: threads that go from it to SCHED_IDLE and back, above all.
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

/// Priority to which a worker is raised.
const RAISED: ThreadPriority = ThreadPriority::Ordinary { nice: 0, slice_ns: SLICE_NS };
/// Shortest slice that Linux knows (6.12 and later). A thread with a shorter one than others has an earlier deadline.
const SLICE_NS: u64 = 100_000;

/// State of raising one worker.
#[derive(Default)]
pub(crate) struct Raising {
    /// Priority of the worker; unset for one that is never raised.
    own: OnceLock<ThreadPriority>,
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
    ended: u64,
}

impl Raising {
    /// Finds the priority that this thread, a worker, may be raised to. Returns false if it runs in the class SCHED_IDLE
    /// and may not leave it.
    pub(crate) fn attach(&self) -> bool {
        let Ok(own) = ThreadPriority::of_current() else { return false };
        // To go back down needs no right.
        if own.is_below(RAISED) && RAISED.apply_to_current().is_ok() && own.apply_to_current().is_ok() {
            self.own.get_or_init(|| own);
            return true;
        }
        !own.is_idle()
    }

    /// Says that the worker will be raised, before the interrupt is sent. Returns `None` for one that is never raised.
    #[inline]
    pub(crate) fn begin(&self) -> Option<PendingRaise<'_>> {
        self.own.get()?;
        let ended = self.ended.load(SeqCst);
        self.is_due.store(true, SeqCst);
        Some(PendingRaise { raising: self, ended })
    }

    /// Raises the worker from its own thread, before it runs a request. Returns false if that is not allowed any more.
    #[inline]
    pub(crate) fn raise_current(&self) -> bool {
        self.own.get().is_none() || self.is_raised.swap(true, SeqCst) || RAISED.apply_to_current().is_ok()
    }

    /// Lowers the worker from its own thread, at the end of an entry.
    #[inline]
    pub(crate) fn lower_current(&self) {
        let Some(own) = self.own.get() else { return };
        // In this order: see `PendingRaise::raise`.
        self.ended.fetch_add(1, SeqCst);
        let is_due = self.is_due.swap(false, SeqCst);
        if is_due | self.is_raised.swap(false, SeqCst) {
            // Needs no right, so it cannot fail.
            let _ = own.apply_to_current();
            // A submitter may have raised the worker meanwhile, in vain. Its interrupt is on the way.
            if self.is_due.load(SeqCst) {
                let _ = RAISED.apply_to_current();
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
        let _ = RAISED.apply_to(thread);
        self.raising.is_due.store(true, SeqCst);
        self.raising.ended.load(SeqCst) != self.ended
    }
}
