//! Splits and merges: the operations that keep the tree's shape.
//!
//! **Invariant:** a change of shape holds the locks of the parent and of every node whose range changes, so each of
//! their versions moves; a reader in any of them restarts. Locks are taken by turning a validated version into a lock,
//! top down, and a failure releases all of them: no thread waits here while holding one.
//!
//! *Splits* go top down. An insert that finds its leaf full walks down once more and splits the first full node on the
//! way, so that a parent always has room for one more child when its child is split.
//!
//! *Merges* go bottom up, a level at a time. A node with few entries left absorbs its right neighbour under the same
//! parent, or is absorbed by its left one. Both are tried, so a node that found its neighbour too full is taken up later
//! by that neighbour: a queue (inserts at the right, deletes at the left) leaves nothing behind.

use super::epoch::EpochPin;
use super::key::{NodeEntry, Probe};
use super::node::{CAPACITY, Node, NodeRef};
use super::version::Restart;
use super::{BTree, Backoff};
use core::sync::atomic::Ordering::{Relaxed, Release};
use preempt::NoPreempt;

/// Number of entries up to which a node looks for a neighbour to merge with. A purge that leaves one row of many behind
/// a window thins out all leaves alike, so with much less than half they would stay nearly empty side by side.
const FEW: usize = CAPACITY / 2;
/// Number of entries up to which two nodes merge into one, so that the next insert does not split it again.
const MERGED_MAX: usize = CAPACITY * 3 / 4;

/// Returns true if a leaf that a removal left with `count` entries should look for a neighbour: at a few counts only,
/// so that not every removal from a sparse leaf tries again what has just failed.
pub(super) fn worth_merging(count: usize) -> bool {
    count <= FEW && (count.is_multiple_of(8) || count.is_power_of_two())
}

/// Returns true if two neighbours fit in one node; `between` is 1 for inner nodes, whose separator comes down.
fn fit(left: usize, right: usize, between: usize) -> bool {
    let merged = left + right + between;
    if left == 0 || right == 0 { merged <= CAPACITY } else { merged <= MERGED_MAX }
}

/// A node with its version.
type VersionedNode<'p> = (NodeRef<'p>, u64);

enum Merge {
    /// Nothing more is to be done.
    Settled,
    /// The level above may have few entries now.
    LookAbove,
}

impl BTree {
    /// Splits the first full node on the way to the probe's leaf. The caller begins again in any case.
    #[cold]
    pub(super) fn make_room(&self, probe: &Probe<'_>, pin: &EpochPin, _: &NoPreempt) -> Result<(), Restart> {
        let after = probe.after();
        let mut parent: Option<(VersionedNode<'_>, usize)> = None;
        let (mut node, mut version) = self.enter(pin)?;
        loop {
            let full = node.count() == CAPACITY;
            if full {
                return self.split(parent, (node, version), probe, pin);
            }
            if node.is_leaf() {
                // Another thread made room, or the count was torn.
                return node.lock.validate(version);
            }
            let at = node.rank(&after);
            let child = node.step(version, at, pin)?;
            parent = Some(((node, version), at));
            (node, version) = child;
        }
    }

    /// Splits a full node, which is the root or child `at` of a parent with room.
    fn split(
        &self,
        parent: Option<(VersionedNode<'_>, usize)>,
        (node, version): VersionedNode<'_>,
        probe: &Probe<'_>,
        pin: &EpochPin,
    ) -> Result<(), Restart> {
        if let Some(((parent, parent_version), _)) = parent {
            parent.lock.upgrade(parent_version)?;
        }
        if let Err(restart) = node.lock.upgrade(version) {
            if let Some(((parent, _), _)) = parent {
                parent.lock.unlock_unchanged();
            }
            return Err(restart);
        }
        let (separator, right) = if node.is_leaf() {
            let at = node.rank(probe);
            let keep = node.split_point(at);
            let last = node.entry(keep - 1);
            let next = if keep < CAPACITY { Some(node.entry(keep)) } else { None };
            let separator = match next {
                // SAFETY: the entries were loaded under this pin.
                Some(next) => unsafe { NodeEntry::separator(&last, &next.probe()) },
                // SAFETY: the entry was loaded under this pin.
                None => unsafe { NodeEntry::separator(&last, probe) },
            };
            (separator, node.leaf_split(keep, pin))
        } else {
            let at = node.rank(&probe.after());
            node.inner_split(node.split_point(at), pin)
        };
        self.count(pin).nodes.fetch_add(1, Relaxed);
        match parent {
            Some(((parent, _), at)) => {
                parent.inner_insert(at, separator, right.as_ptr());
                parent.lock.unlock_changed();
            }
            None => {
                // SAFETY: made here.
                let root = unsafe { NodeRef::new(Node::inner(node.level() + 1, node.as_ptr()), pin) };
                root.inner_insert(0, separator, right.as_ptr());
                self.root.store(root.as_ptr(), Release);
                self.count(pin).nodes.fetch_add(1, Relaxed);
            }
        }
        node.lock.unlock_changed();
        Ok(())
    }

    /// Merges the nodes that have become sparse on the way to the probe's leaf.
    #[cold]
    pub(super) fn shrink(&self, probe: &Probe<'_>, pin: &EpochPin, no_preempt: &NoPreempt) {
        let mut backoff = Backoff::new();
        let mut level = 0;
        loop {
            match self.merge_at(level, probe, pin, no_preempt) {
                Ok(Merge::Settled) => return,
                Ok(Merge::LookAbove) => level += 1,
                Err(Restart) => backoff.wait(),
            }
        }
    }

    /// Merges the node at `level` on the way to the probe with a neighbour, if it is sparse and they fit.
    fn merge_at(
        &self,
        level: u16,
        probe: &Probe<'_>,
        pin: &EpochPin,
        no_preempt: &NoPreempt,
    ) -> Result<Merge, Restart> {
        let after = probe.after();
        let (mut node, mut version) = self.enter(pin)?;
        if node.level() <= level {
            return self.lower_root((node, version), pin, no_preempt);
        }
        let mut at = node.rank(&after);
        while level + 1 < node.level() {
            (node, version) = node.step(version, at, pin)?;
            at = node.rank(&after);
        }
        let parent = (node, version);
        let child = node.step(version, at, pin)?;
        let (count, siblings) = (child.0.count(), node.count());
        child.0.lock.validate(child.1)?;
        if FEW < count {
            return Ok(Merge::Settled);
        }
        if at < siblings {
            let right = node.step(version, at + 1, pin)?;
            if self.merge(parent, at, child, right, no_preempt, pin)? {
                return Ok(Merge::LookAbove);
            }
        }
        if 0 < at {
            let left = node.step(version, at - 1, pin)?;
            if self.merge(parent, at - 1, left, child, no_preempt, pin)? {
                return Ok(Merge::LookAbove);
            }
        }
        // An only child waits until its parent is merged.
        Ok(if siblings == 0 { Merge::LookAbove } else { Merge::Settled })
    }

    /// Merges the children `at` and `at + 1` of the parent. Returns `false` if they do not fit.
    fn merge(
        &self,
        (parent, parent_version): VersionedNode<'_>,
        at: usize,
        (left, left_version): VersionedNode<'_>,
        (right, right_version): VersionedNode<'_>,
        no_preempt: &NoPreempt,
        pin: &EpochPin,
    ) -> Result<bool, Restart> {
        // Torn counts do no harm: locking proves that they were not.
        if !fit(left.count(), right.count(), usize::from(!left.is_leaf())) {
            return Ok(false);
        }
        parent.lock.upgrade(parent_version)?;
        if let Err(restart) = left.lock.upgrade(left_version) {
            parent.lock.unlock_unchanged();
            return Err(restart);
        }
        if let Err(restart) = right.lock.upgrade(right_version) {
            left.lock.unlock_unchanged();
            parent.lock.unlock_unchanged();
            return Err(restart);
        }
        let separator = parent.inner_remove(at);
        left.absorb(separator, right);
        right.lock.unlock_obsolete();
        left.lock.unlock_changed();
        parent.lock.unlock_changed();
        self.count(pin).nodes.fetch_sub(1, Relaxed);
        if left.is_leaf() {
            self.limbo.retire_tail(separator.tail, no_preempt);
        }
        self.limbo.retire_node(right.as_ptr(), no_preempt);
        Ok(true)
    }

    /// Makes an only child of the root the root.
    fn lower_root(
        &self,
        (root, version): VersionedNode<'_>,
        pin: &EpochPin,
        no_preempt: &NoPreempt,
    ) -> Result<Merge, Restart> {
        if root.is_leaf() || 0 < root.count() {
            root.lock.validate(version)?;
            return Ok(Merge::Settled);
        }
        root.lock.upgrade(version)?;
        self.root.store(root.child(0), Release);
        root.lock.unlock_obsolete();
        self.count(pin).nodes.fetch_sub(1, Relaxed);
        self.limbo.retire_node(root.as_ptr(), no_preempt);
        // The new root may have an only child as well; its level is below the one asked for.
        self.lower_root(self.enter(pin)?, pin, no_preempt)
    }
}
