//! Raising a worker that runs below other threads, while an urgent request wants it.
//!
//! A signal reaches a thread at once only if it has a processor. A worker of the class SCHED_IDLE loses its processor to
//! every thread that wakes, so the submitter of a request raises it: the kernel then runs the worker before ordinary
//! threads, the submitter among them. The worker lowers itself at the end of the entry.
//!
//! **Invariant:** a worker is lowered after it was raised. The submitter marks the worker, sends the interrupt and raises
//! the worker, in this order; the interrupt's handler comes after the mark, and lowers a marked worker. A submitter that
//! finds the mark gone after it has raised the worker does not know which came first, so it lowers the worker, too. If
//! that meets the request of another submitter, the request runs on as the query does.

use core::sync::atomic::{AtomicU8, Ordering::SeqCst};
use preempt::os::ThreadPriority;
use std::sync::OnceLock;

/// Priorities to raise a worker to, the best first. The second needs a lower limit of nice values than the first.
const HIGHER: [ThreadPriority; 2] = [ThreadPriority::ordinary(-20), ThreadPriority::ordinary(0)];

/// Priorities of a worker.
struct WorkerPriorities {
    own: ThreadPriority,
    raised: ThreadPriority,
}

/// State of raising one worker.
#[derive(Default)]
pub(crate) struct Raising {
    /// Unset for a worker that is never raised.
    priorities: OnceLock<WorkerPriorities>,
    /// [`LOW`], [`MARKED`] or [`RAISED`].
    mark: AtomicU8,
}

/// The worker has its own priority, or somebody is about to lower it.
const LOW: u8 = 0;
/// A submitter is about to raise the worker.
const MARKED: u8 = 1;
/// The worker is raised, and lowers itself.
const RAISED: u8 = 2;

/// Obligation to raise a worker after the interrupt was sent.
#[must_use]
pub(crate) struct Marked<'a>(Option<(&'a Raising, &'a WorkerPriorities)>);

impl Raising {
    /// Finds the priority that this thread, a worker, may be raised to. Returns false if it runs in the class SCHED_IDLE
    /// and may not leave it.
    pub(crate) fn attach(&self) -> bool {
        let Ok(own) = ThreadPriority::of_current() else { return true };
        for raised in HIGHER {
            // To go back down needs no privilege.
            if own.is_below(raised) && raised.apply_to_current().is_ok() && own.apply_to_current().is_ok() {
                self.priorities.get_or_init(|| WorkerPriorities { own, raised });
                return true;
            }
        }
        !own.is_idle()
    }

    /// Marks the worker as one to be raised, before the interrupt is sent.
    #[inline]
    pub(crate) fn mark(&self) -> Marked<'_> {
        // Whoever has set the mark before raises the worker.
        let is_first = |_: &&WorkerPriorities| self.mark.compare_exchange(LOW, MARKED, SeqCst, SeqCst).is_ok();
        let priorities = self.priorities.get().filter(is_first);
        Marked(priorities.map(|priorities| (self, priorities)))
    }

    /// Raises the worker from its own thread, before it runs a request.
    #[inline]
    pub(crate) fn raise_current(&self) {
        // A submitter that has marked the worker may not have come to raising it.
        if let Some(priorities) = self.priorities.get()
            && self.mark.load(SeqCst) != RAISED
        {
            // A worker that stays below takes longer.
            let _ = priorities.raised.apply_to_current();
            self.mark.store(RAISED, SeqCst);
        }
    }

    /// Lowers the worker from its own thread, at the end of an entry.
    #[inline]
    pub(crate) fn lower_current(&self) {
        let Some(priorities) = self.priorities.get() else { return };
        match self.mark.compare_exchange(MARKED, LOW, SeqCst, SeqCst) {
            Err(LOW) => {}
            // A submitter that comes to raising the worker after this finds the mark gone.
            Ok(_) => drop(priorities.own.apply_to_current()),
            Err(_) => {
                // Only this thread ends the state [`RAISED`], so nobody raises the worker meanwhile.
                let _ = priorities.own.apply_to_current();
                self.mark.store(LOW, SeqCst);
            }
        }
    }
}

impl Marked<'_> {
    /// Raises the worker, whose thread has this number. If the worker's processor is the caller's, the worker runs
    /// before this returns.
    pub(crate) fn raise(self, thread: i32) {
        let Some((raising, priorities)) = self.0 else { return };
        // The thread may have ended, or the privilege may be gone: the request then starts later.
        let _ = priorities.raised.apply_to(thread);
        if raising.mark.compare_exchange(MARKED, RAISED, SeqCst, SeqCst) == Err(LOW) {
            let _ = priorities.own.apply_to(thread);
        }
    }
}
