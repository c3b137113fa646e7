//! Limbo: nodes and keys that have left the tree and wait until no reader can have met them.
//!
//! **Invariant:** every node and long key that was unlinked is in exactly one bag; a sealed bag carries an epoch read
//! after the last of its contents was unlinked, and is freed two epochs later (see [`epoch`]).
//!
//! Work per call is bounded: one sealed bag in, at most two out, or a few where that is all that is done.

use super::epoch;
use super::key::{LongKey, Tail, short_length};
use super::node::Node;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use preempt::{Latch, NoPreempt};
use std::collections::VecDeque;

/// Objects in a bag. That many unlinkings share one epoch advance, which looks at every slot.
const BAG_SIZE: usize = 32;
const BAGS_FREED_MAX: usize = 2;
/// Bags freed by a call that does nothing else.
const BAGS_COLLECTED_MAX: usize = 16;

enum Retired {
    Node(*mut Node),
    Long(*mut LongKey),
}

impl Retired {
    /// # Safety
    /// No thread can reach it any more.
    unsafe fn free(self) {
        match self {
            // SAFETY: the caller's promise; a retired node's tails and children have moved elsewhere.
            Retired::Node(node) => unsafe { Node::free(node) },
            // SAFETY: the caller's promise.
            Retired::Long(key) => unsafe { LongKey::free(key) },
        }
    }
}

type Bag = Vec<Retired>;

struct Bags {
    open: Bag,
    sealed: VecDeque<(u64, Bag)>,
}

// SAFETY: the pointers in the bags are owned by them: unlinked, and freed by the thread that takes the bag out.
unsafe impl Send for Bags {}

/// Bags of one tree.
pub(super) struct Limbo {
    bags: Latch<Bags>,
    waiting: AtomicU64,
}

impl Limbo {
    pub(super) fn new() -> Limbo {
        Limbo { bags: Latch::new(Bags { open: Vec::new(), sealed: VecDeque::new() }), waiting: AtomicU64::new(0) }
    }

    /// Returns the number of objects that wait to be freed.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting.load(Relaxed)
    }

    /// Takes a node that left the tree; its contents have moved elsewhere.
    pub(super) fn retire_node(&self, node: *mut Node, no_preempt: &NoPreempt) {
        self.retire(Retired::Node(node), no_preempt);
    }

    /// Takes the tail of an entry that left the tree.
    pub(super) fn retire_tail(&self, tail: Tail, no_preempt: &NoPreempt) {
        if short_length(tail).is_none() {
            self.retire(Retired::Long(tail), no_preempt);
        }
    }

    fn retire(&self, retired: Retired, no_preempt: &NoPreempt) {
        self.waiting.fetch_add(1, Relaxed);
        {
            let mut bags = self.bags.lock(no_preempt);
            bags.open.push(retired);
            if bags.open.len() < BAG_SIZE {
                return;
            }
            bags.seal();
        }
        let now = epoch::advance();
        for _ in 0..BAGS_FREED_MAX {
            self.free_one(now, no_preempt);
        }
    }

    /// Frees objects that can be freed now, a few bags of them. Returns true if there may be more.
    pub(super) fn collect(&self, no_preempt: &NoPreempt) -> bool {
        self.bags.lock(no_preempt).seal();
        epoch::advance();
        let now = epoch::advance();
        (0..BAGS_COLLECTED_MAX).all(|_| self.free_one(now, no_preempt))
    }

    fn free_one(&self, now: u64, no_preempt: &NoPreempt) -> bool {
        let bag = self.bags.lock(no_preempt).take_free(now);
        let Some(bag) = bag else { return false };
        self.waiting.fetch_sub(bag.len() as u64, Relaxed);
        for retired in bag {
            // SAFETY: its epoch is two behind, so no pin that could have met it is left.
            unsafe { retired.free() };
        }
        true
    }
}

impl Bags {
    fn seal(&mut self) {
        if !self.open.is_empty() {
            let bag = core::mem::replace(&mut self.open, Vec::with_capacity(BAG_SIZE));
            self.sealed.push_back((epoch::tag(), bag));
        }
    }

    fn take_free(&mut self, now: u64) -> Option<Bag> {
        match self.sealed.front() {
            Some((epoch, _)) if epoch + 2 <= now => self.sealed.pop_front().map(|(_, bag)| bag),
            _ => None,
        }
    }
}

impl Drop for Limbo {
    fn drop(&mut self) {
        let bags = self.bags.get_mut();
        let sealed = bags.sealed.drain(..).flat_map(|(_, bag)| bag);
        for retired in sealed.chain(bags.open.drain(..)) {
            // SAFETY: the tree is being dropped: no thread is inside it.
            unsafe { retired.free() };
        }
    }
}
