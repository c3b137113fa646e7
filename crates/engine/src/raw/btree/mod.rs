//! The index: a B+tree of (key, row id), read without writing and latched a node at a time.
//!
//! **Invariant: a reader holds nothing.** It notes the version of each node it passes, and its copies count only if the
//! version is still unchanged afterwards; else it begins again at the root. So an urgent context may interrupt a
//! look-up at any instruction and change the very leaf it stands in: the look-up restarts. A writer latches nodes only
//! inside a region, which its `&NoPreempt` proves, so no context ever meets a latch that a paused context of its own
//! thread holds. This is optimistic lock coupling (Leis, Haubenschild, Neumann, "Optimistic Lock Coupling: A Scalable
//! and Efficient General-Purpose Synchronization Method", IEEE Data Eng. Bull. 42(1), 2019).
//!
//! The modules, in the order to read them:
//! - `version`: the version word, and why relaxed copies are safe once validated;
//! - `key`: bytes to words, the order of entries, separators;
//! - `node`: the layout of a node, searching and changing one;
//! - this one: looking up, inserting, removing;
//! - `shape`: splits and merges;
//! - `unique`: inserting under the uniqueness rule;
//! - `cursor`: ranges in both directions; `many`: many look-ups side by side;
//! - `epoch`, `limbo`: when memory that left the tree is freed.
//!
//! Keys are any bytes, in lexicographic order (the engine's encoding makes that the order of the values). Row ids are
//! below `u64::MAX`.
#![allow(unsafe_code)]

#[cfg(all(test, not(feature = "shuttle")))]
mod check;
mod cursor;
mod epoch;
mod key;
mod limbo;
mod many;
#[cfg(all(test, feature = "shuttle"))]
mod model;
mod node;
mod shape;
#[cfg(all(test, not(feature = "shuttle")))]
mod stress;
#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
mod unique;
mod version;

pub(crate) use cursor::{Cursor, ScanDirection};
pub(crate) use many::{MANY, first_many};
#[cfg(all(test, not(feature = "shuttle")))]
use unique::Occupied;
pub(crate) use unique::RUN_MAX;

use core::sync::atomic::{
    AtomicI64, AtomicPtr,
    Ordering::{Acquire, Relaxed},
};
use epoch::EpochPin;
use key::{NodeEntry, Probe, ROW_END};
use limbo::Limbo;
use node::{CAPACITY, Node, NodeRef};
use preempt::NoPreempt;
use std::time::Duration;
use version::Restart;

const COUNTERS: usize = 8;
/// Approximate number of bytes of a node: nearly all are leaves.
const NODE_BYTES: u64 = 2064;

/// One part of a count, on its own cache line, so that writers on different processors do not meet here.
#[repr(align(128))]
struct Counter {
    entries: AtomicI64,
    nodes: AtomicI64,
    /// Bytes of long keys of entries.
    long_bytes: AtomicI64,
}

impl Counter {
    fn new() -> Counter {
        Counter { entries: AtomicI64::new(0), nodes: AtomicI64::new(0), long_bytes: AtomicI64::new(0) }
    }
}

/// An ordered set of (key, row id).
pub(crate) struct BTree {
    root: AtomicPtr<Node>,
    limbo: Limbo,
    counters: [Counter; COUNTERS],
}

impl BTree {
    /// Creates an empty tree.
    pub(crate) fn new() -> BTree {
        let counters = core::array::from_fn(|_| Counter::new());
        counters[0].nodes.store(1, Relaxed);
        BTree { root: AtomicPtr::new(Node::leaf()), limbo: Limbo::new(), counters }
    }

    /// Returns the number of entries; while others write, a number it had lately.
    pub(crate) fn len(&self) -> usize {
        let entries: i64 = self.counters.iter().map(|part| part.entries.load(Relaxed)).sum();
        entries.max(0) as usize
    }

    /// Returns the number of nodes in the tree, of 2 to 2.5 KiB each.
    pub(crate) fn nodes(&self) -> usize {
        let nodes: i64 = self.counters.iter().map(|part| part.nodes.load(Relaxed)).sum();
        nodes.max(0) as usize
    }

    /// Returns the bytes of nodes and long keys. (Inner nodes have few long keys of their own.)
    pub(crate) fn bytes(&self) -> u64 {
        let long: i64 = self.counters.iter().map(|part| part.long_bytes.load(Relaxed)).sum();
        (self.nodes() + self.waiting()) as u64 * NODE_BYTES + long.max(0) as u64
    }

    /// Returns the number of nodes and long keys that left the tree and are not freed yet.
    pub(crate) fn waiting(&self) -> usize {
        self.limbo.waiting() as usize
    }

    /// Frees some of the objects that left the tree and that no look-up can still see. Returns true if there may be
    /// more. Every write does a bounded part of this by itself.
    pub(crate) fn collect(&self, no_preempt: &NoPreempt) -> bool {
        self.limbo.collect(no_preempt)
    }

    /// Returns the lowest row id with this key.
    pub(crate) fn first(&self, key: &[u8]) -> Option<u64> {
        let probe = Probe::new(key, 0);
        {
            let pin = epoch::pin();
            let mut backoff = Backoff::new();
            loop {
                match self.try_first(&probe, &pin) {
                    Ok(LeafLookup::Found(row)) => return Some(row),
                    Ok(LeafLookup::Absent) => return None,
                    Ok(LeafLookup::NextLeaf) => break,
                    Err(Restart) => backoff.wait(),
                }
            }
        }
        self.rows(key).next().map(|(_, row)| row)
    }

    #[inline]
    fn try_first(&self, probe: &Probe<'_>, pin: &EpochPin) -> Result<LeafLookup, Restart> {
        let (leaf, version) = self.descend(probe, pin)?;
        many::look(leaf, version, leaf.rank(probe), probe)
    }

    /// Calls `visit` for each row with this key, in order, until it returns `false`.
    ///
    /// No look-up is open while `visit` runs: it may use the tree.
    pub(crate) fn for_each(&self, key: &[u8], visit: &mut dyn FnMut(u64) -> bool) {
        let mut rows = self.rows(key);
        while let Some(row) = rows.next_row() {
            if !visit(row) {
                return;
            }
        }
    }

    /// Adds an entry. Returns `false` if it was there already.
    pub(crate) fn insert(&self, key: &[u8], row: u64, no_preempt: &NoPreempt) -> bool {
        debug_assert!(row < ROW_END);
        let probe = Probe::new(key, row);
        let pin = epoch::pin();
        let mut backoff = Backoff::new();
        loop {
            match self.try_insert(&probe, &pin, no_preempt) {
                Ok(added) => return added,
                Err(Restart) => backoff.wait(),
            }
        }
    }

    fn try_insert(&self, probe: &Probe<'_>, pin: &EpochPin, no_preempt: &NoPreempt) -> Result<bool, Restart> {
        let (leaf, version) = self.descend(probe, pin)?;
        leaf.lock.upgrade(version)?;
        let result = self.insert_locked(leaf, probe, pin);
        match result {
            Inserted::Added => leaf.lock.unlock_changed(),
            Inserted::Present | Inserted::Full => leaf.lock.unlock_unchanged(),
        }
        match result {
            Inserted::Added => Ok(true),
            Inserted::Present => Ok(false),
            Inserted::Full => {
                self.make_room(probe, pin, no_preempt)?;
                Err(Restart)
            }
        }
    }

    /// Adds the probe's entry to the leaf, which the caller has locked and which is the one for it.
    fn insert_locked(&self, leaf: NodeRef<'_>, probe: &Probe<'_>, pin: &EpochPin) -> Inserted {
        let at = leaf.rank(probe);
        let count = leaf.count();
        if at < count && leaf.row(at) == probe.row && leaf.has_key(at, probe) {
            return Inserted::Present;
        }
        if count == CAPACITY {
            return Inserted::Full;
        }
        leaf.leaf_insert(at, NodeEntry { words: probe.words, tail: probe.make_tail(), row: probe.row });
        let counter = self.count(pin);
        counter.entries.fetch_add(1, Relaxed);
        if let Some(bytes) = probe.long_bytes() {
            counter.long_bytes.fetch_add(bytes as i64, Relaxed);
        }
        Inserted::Added
    }

    /// Removes an entry. Returns `false` if it was not there.
    pub(crate) fn remove(&self, key: &[u8], row: u64, no_preempt: &NoPreempt) -> bool {
        self.remove_if(key, row, no_preempt, &mut || true)
    }

    /// Removes an entry if `check` agrees. Returns `false` if it was not there, or `check` did not agree.
    ///
    /// `check` runs under the leaf's lock: an `insert` of the same entry comes wholly before or wholly after it and the
    /// removal. It must be short, must not use the tree, and may be asked again.
    pub(crate) fn remove_if(
        &self,
        key: &[u8],
        row: u64,
        no_preempt: &NoPreempt,
        check: &mut dyn FnMut() -> bool,
    ) -> bool {
        let probe = Probe::new(key, row);
        let pin = epoch::pin();
        let mut backoff = Backoff::new();
        let left = loop {
            match self.try_remove(&probe, &pin, no_preempt, check) {
                Ok(left) => break left,
                Err(Restart) => backoff.wait(),
            }
        };
        let Some(left) = left else { return false };
        if shape::worth_merging(left) {
            self.shrink(&probe, &pin, no_preempt);
        }
        true
    }

    /// Removes an entry from a leaf. Returns the number of entries that the leaf has left, or `None` if the entry was
    /// not there.
    fn try_remove(
        &self,
        probe: &Probe<'_>,
        pin: &EpochPin,
        no_preempt: &NoPreempt,
        check: &mut dyn FnMut() -> bool,
    ) -> Result<Option<usize>, Restart> {
        let (leaf, version) = self.descend(probe, pin)?;
        let at = leaf.rank(probe);
        let present = at < leaf.count() && leaf.row(at) == probe.row && leaf.has_key(at, probe);
        if !present {
            leaf.lock.validate(version)?;
            return Ok(None);
        }
        leaf.lock.upgrade(version)?;
        let mut held = LockedLeaf::new(leaf);
        if !check() {
            return Ok(None);
        }
        let removed = leaf.leaf_remove(at);
        held.changed = true;
        drop(held);
        let counter = self.count(pin);
        counter.entries.fetch_sub(1, Relaxed);
        if let Some(bytes) = probe.long_bytes() {
            counter.long_bytes.fetch_sub(bytes as i64, Relaxed);
        }
        self.limbo.retire_tail(removed.tail, no_preempt);
        Ok(Some(leaf.count()))
    }

    #[inline]
    fn count(&self, pin: &EpochPin) -> &Counter {
        &self.counters[pin.slot() / 2 % COUNTERS]
    }

    /// Returns the root and its version.
    #[inline]
    fn enter<'p>(&self, pin: &'p EpochPin) -> Result<(NodeRef<'p>, u64), Restart> {
        let root = self.root.load(Acquire);
        // SAFETY: a root is retired only after the pointer to it was replaced.
        let root = unsafe { NodeRef::new(root, pin) };
        let version = root.lock.read()?;
        // It was still the root when it had this version; it stops being one only by a change.
        if self.root.load(Acquire) == root.as_ptr() { Ok((root, version)) } else { Err(Restart) }
    }

    /// Returns the leaf where the probe belongs.
    #[inline]
    fn descend<'p>(&self, probe: &Probe<'_>, pin: &'p EpochPin) -> Result<(NodeRef<'p>, u64), Restart> {
        let after = probe.after();
        let (mut node, mut version) = self.enter(pin)?;
        while !node.is_leaf() {
            (node, version) = node.step(version, node.rank(&after), pin)?;
        }
        Ok((node, version))
    }

    /// Returns the leaf where the probe belongs, and the first entry that belongs further right.
    #[inline]
    fn descend_fenced<'p>(
        &self,
        probe: &Probe<'_>,
        pin: &'p EpochPin,
    ) -> Result<(NodeRef<'p>, u64, Option<NodeEntry>), Restart> {
        let after = probe.after();
        let (mut node, mut version) = self.enter(pin)?;
        let mut fence = None;
        while !node.is_leaf() {
            let at = node.rank(&after);
            if at < node.count() {
                fence = Some(node.entry(at));
            }
            (node, version) = node.step(version, at, pin)?;
        }
        Ok((node, version, fence))
    }
}

impl Drop for BTree {
    fn drop(&mut self) {
        let pin = epoch::pin();
        // SAFETY: dropping proves that no other thread is inside.
        unsafe { NodeRef::new(*self.root.get_mut(), &pin).free_all() };
    }
}

/// A locked leaf, unlocked also when `check` panics.
struct LockedLeaf<'p> {
    leaf: NodeRef<'p>,
    changed: bool,
}

impl<'p> LockedLeaf<'p> {
    /// Guards the leaf's lock, which was taken just now.
    #[inline]
    fn new(leaf: NodeRef<'p>) -> LockedLeaf<'p> {
        LockedLeaf { leaf, changed: false }
    }
}

impl Drop for LockedLeaf<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.changed { self.leaf.lock.unlock_changed() } else { self.leaf.lock.unlock_unchanged() }
    }
}

/// Backoff of a restarted operation: it spins, then yields, then sleeps.
///
/// Sleep it must in the end: under a real-time class neither spinning nor yielding lets the thread run that holds the
/// latch, if that thread was descheduled on this processor.
struct Backoff {
    restarts: u32,
}

impl Backoff {
    const SPINS_MAX: u32 = 6;
    const YIELDS_MAX: u32 = 32;
    const SLEEP: Duration = Duration::from_micros(50);

    #[inline]
    fn new() -> Backoff {
        Backoff { restarts: 0 }
    }

    #[cold]
    fn wait(&mut self) {
        self.restarts += 1;
        preempt::latching(|| self.pause());
    }

    fn pause(&self) {
        if self.restarts <= Self::SPINS_MAX {
            for _ in 0..1 << self.restarts {
                core::hint::spin_loop();
            }
        } else if self.restarts <= Self::YIELDS_MAX {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Self::SLEEP);
        }
    }
}

enum LeafLookup {
    Found(u64),
    Absent,
    /// The leaf ends before the key: its rows, if there are any, begin in the next leaf.
    NextLeaf,
}

enum Inserted {
    Added,
    Present,
    Full,
}
