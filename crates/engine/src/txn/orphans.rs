//! Orphans: garbage queues handed over by idle transactions.
//!
//! **Invariant:** garbage that waits on a slot is cleared away by the next holder of the slot. A transaction whose
//! caller may take any time does not prevent that: before it rests it leaves the garbage that it found on its slot, and
//! its own, here.

use crate::raw::garbage::Graveyard;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use preempt::{Latch, no_preempt};

/// Number of versions below which a hand-over is not worth it: the slot's next holders clear them away.
const FEW: usize = 1024;

/// Garbage queues without a slot.
pub(crate) struct Orphans {
    queues: Latch<Vec<Graveyard>>,
    count: AtomicUsize,
}

impl Default for Orphans {
    fn default() -> Orphans {
        Orphans { queues: Latch::new(Vec::new()), count: AtomicUsize::new(0) }
    }
}

impl Orphans {
    /// Leaves a garbage queue here, if it is long.
    #[inline]
    pub(crate) fn leave(&self, graveyard: &mut Graveyard) {
        if !graveyard.is_empty() && FEW <= graveyard.len() {
            self.leave_all(graveyard);
        }
    }

    /// Leaves a garbage queue here, however long.
    #[cold]
    pub(crate) fn leave_all(&self, graveyard: &mut Graveyard) {
        let graveyard = core::mem::take(graveyard);
        no_preempt(|no_preempt| self.queues.lock(no_preempt).push(graveyard));
        self.count.fetch_add(1, Relaxed);
    }

    /// Returns true if there are any queues.
    #[inline]
    pub(crate) fn are_there(&self) -> bool {
        self.count.load(Relaxed) != 0
    }

    /// Takes the last queue over, if it is not longer than `most`. Only by [`crate::engine::Inner::adopt`].
    #[cold]
    pub(crate) fn adopt(&self, graveyard: &mut Graveyard, most: usize) -> bool {
        let is_wanted = |queue: &mut Graveyard| queue.len() <= most;
        let Some(other) = no_preempt(|no_preempt| self.queues.lock(no_preempt).pop_if(is_wanted)) else { return false };
        self.count.fetch_sub(1, Relaxed);
        graveyard.absorb(other);
        true
    }

    /// Takes out every queue, to look through them.
    pub(crate) fn take_all(&self) -> Vec<Graveyard> {
        let queues = no_preempt(|no_preempt| core::mem::take(&mut *self.queues.lock(no_preempt)));
        self.count.fetch_sub(queues.len(), Relaxed);
        queues
    }

    /// Puts back the queues that were taken out.
    pub(crate) fn give_back(&self, mut queues: Vec<Graveyard>) {
        queues.retain(|graveyard| !graveyard.is_empty() || graveyard.has_pending());
        self.count.fetch_add(queues.len(), Relaxed);
        no_preempt(|no_preempt| self.queues.lock(no_preempt).append(&mut queues));
    }

    /// Takes out every queue as the engine ends.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Graveyard> {
        self.queues.get_mut().drain(..)
    }
}
