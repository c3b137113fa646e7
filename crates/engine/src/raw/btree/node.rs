//! A node: up to 63 entries in order, and for inner nodes 64 children between and around them.
//!
//! ```text
//!  bytes   0..16    version 8 | count 2 | level 2 | last 2 | run 2
//!         16..128   words of the seven pivots: entries 7, 15, .. 55      [high, low]
//!        128..1024  words of the others, seven of each group together
//!       1024..2032  rests  [tail, row; 63]
//!       2032..2048  unused
//!       2048..2560  children [64], inner nodes only
//! ```
//!
//! **Invariants**, for a reader that validated the version, and for the holder of its lock:
//! - `entries[0..count]` ascend strictly by (key, row);
//! - an inner node's child `i` holds the entries `e` with `entries[i - 1] <= e < entries[i]`, at `level - 1`;
//! - the words of entry `i` are at `place(i)`: pivots first, so that a search, in two rounds, meets the first two lines
//!   of the node and then two or three more, and not a line for each pivot;
//! - a slot from `count` on has words of all ones, so that searching the words needs no count, and a short tail.
//!
//! For every reader, at any time: every index that a search can return is inside the arrays, and a tail or child that
//! is not null points to memory that was not freed since the reader's pin began. So a reader may follow the pointers
//! that it read before it validates, as long as it ignores the result if validation fails.
//!
//! All fields that change are atomics, accessed relaxed: the version lock orders them. Only pointers are stored with
//! release and loaded with acquire, because a reader follows tails before it validates.

use super::epoch::EpochPin;
use super::key::{LongKey, NodeEntry, Probe, free_tail, short_tail};
use super::version::{Restart, VersionLock};
use core::marker::PhantomData;
use core::ops::Deref;
use core::sync::atomic::{
    AtomicPtr, AtomicU16, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Entries of a node: eight groups of eight less one, so that a search has 64 outcomes in two rounds of eight.
pub(super) const CAPACITY: usize = GROUP * GROUP - 1;
const GROUP: usize = 8;
/// Last entry of each group but the last, which has no pivot.
const PIVOTS: usize = GROUP - 1;
const LINE_BYTES: usize = 64;
const WORDS_START: usize = 16;
const WORDS_BYTES: usize = size_of::<[u64; 2]>();
/// Inserts in a row, each after the one before, after which a leaf counts as being appended to.
pub(super) const RUN_MIN: u16 = 4;
const NOWHERE: u16 = u16::MAX;

#[repr(C)]
struct EntryRest {
    tail: AtomicPtr<LongKey>,
    row: AtomicU64,
}

/// A leaf, and the beginning of an inner node.
#[repr(C, align(64))]
pub(super) struct Node {
    pub(super) lock: VersionLock,
    count: AtomicU16,
    level: u16,
    /// Index of the last insert, and the number of inserts before it that went each right after its predecessor.
    last: AtomicU16,
    run: AtomicU16,
    words: [[AtomicU64; 2]; CAPACITY],
    rests: [EntryRest; CAPACITY],
    _unused: [u64; 2],
}

/// An inner node.
#[repr(C, align(64))]
struct InnerNode {
    node: Node,
    children: [AtomicPtr<Node>; CAPACITY + 1],
}

#[cfg(not(feature = "shuttle"))]
const _: () = {
    assert!(size_of::<Node>() == 2048);
    assert!(size_of::<InnerNode>() == 2560);
    assert!(core::mem::offset_of!(Node, words) == WORDS_START);
    assert!(place(CAPACITY - 1) == CAPACITY - 1);
    assert!(core::mem::offset_of!(Node, rests) == 1024);
    assert!(core::mem::offset_of!(InnerNode, children) == 2048);
};

/// Returns the position of the words of entry `at`.
#[inline]
const fn place(at: usize) -> usize {
    let (group, within) = (at / GROUP, at % GROUP);
    if within == PIVOTS { group } else { PIVOTS + group * PIVOTS + within }
}

impl Node {
    fn new(level: u16) -> Node {
        Node {
            lock: VersionLock::new(),
            count: AtomicU16::new(0),
            level,
            last: AtomicU16::new(NOWHERE),
            run: AtomicU16::new(0),
            words: [const { [const { AtomicU64::new(u64::MAX) }; 2] }; CAPACITY],
            rests: core::array::from_fn(|_| EntryRest { tail: AtomicPtr::new(short_tail(0)), row: AtomicU64::new(0) }),
            _unused: [0; 2],
        }
    }

    /// Creates a new, empty leaf.
    pub(super) fn leaf() -> *mut Node {
        Box::into_raw(Box::new(Node::new(0)))
    }

    /// Creates a new inner node over one child.
    pub(super) fn inner(level: u16, child: *mut Node) -> *mut Node {
        debug_assert!(0 < level);
        let children = core::array::from_fn(|_| AtomicPtr::new(core::ptr::null_mut()));
        let inner = InnerNode { node: Node::new(level), children };
        inner.children[0].store(child, Release);
        Box::into_raw(Box::new(inner)).cast()
    }

    /// Frees the node, not the memory that it points to.
    ///
    /// # Safety
    /// `node` came from `leaf` or `inner`, and no thread can reach it any more.
    pub(super) unsafe fn free(node: *mut Node) {
        // SAFETY: the level, set at creation, tells which of the two it is; the caller owns it.
        unsafe {
            if (*node).level == 0 {
                drop(Box::from_raw(node));
            } else {
                drop(Box::from_raw(node.cast::<InnerNode>()));
            }
        }
    }
}

/// A node that cannot be freed during `'p`.
///
/// A pointer rather than a reference, because it may stand for the whole of an inner node.
#[derive(Clone, Copy)]
pub(super) struct NodeRef<'p> {
    node: *mut Node,
    _pinned: PhantomData<&'p EpochPin>,
}

impl Deref for NodeRef<'_> {
    type Target = Node;
    #[inline]
    fn deref(&self) -> &Node {
        // SAFETY: not freed while the pin lives, and all that changes in it is atomic.
        unsafe { &*self.node }
    }
}

impl<'p> NodeRef<'p> {
    /// # Safety
    /// `node` was loaded from the tree, under the pin, from a place that the caller has validated since; or the caller
    /// has just made it.
    #[inline]
    pub(super) unsafe fn new(node: *mut Node, _: &'p EpochPin) -> NodeRef<'p> {
        NodeRef { node, _pinned: PhantomData }
    }

    #[inline]
    pub(super) fn as_ptr(self) -> *mut Node {
        self.node
    }

    #[inline]
    pub(super) fn is_leaf(self) -> bool {
        self.level == 0
    }

    #[inline]
    pub(super) fn level(self) -> u16 {
        self.level
    }

    /// Returns the number of entries; of a torn read any number up to the capacity.
    #[inline]
    pub(super) fn count(self) -> usize {
        usize::from(self.count.load(Relaxed)).min(CAPACITY)
    }

    #[inline]
    fn words(self, at: usize) -> u128 {
        self.words_at(place(at))
    }

    #[inline]
    fn words_at(self, place: usize) -> u128 {
        debug_assert!(place < CAPACITY);
        // SAFETY: `place` is below the capacity for any entry's index, and `entry` has checked that; in `rank` there are
        // seven pivots, and of the last group the last place is 62.
        let [high, low] = unsafe { (*self.node).words.get_unchecked(place) };
        let (high, low) = (high.load(Relaxed), low.load(Relaxed));
        u128::from(high) << 64 | u128::from(low)
    }

    #[inline]
    pub(super) fn entry(self, at: usize) -> NodeEntry {
        // Checks the index.
        let rest = &self.rests[at];
        NodeEntry { words: self.words(at), tail: rest.tail.load(Acquire), row: rest.row.load(Relaxed) }
    }

    #[inline]
    pub(super) fn row(self, at: usize) -> u64 {
        self.rests[at].row.load(Relaxed)
    }

    #[inline]
    fn children(self) -> &'p [AtomicPtr<Node>; CAPACITY + 1] {
        debug_assert!(!self.is_leaf());
        // SAFETY: a node above level 0 was made as an `InnerNode`, and the pointer stands for all of it.
        unsafe { &(*self.node.cast::<InnerNode>()).children }
    }

    #[inline]
    pub(super) fn child(self, at: usize) -> *mut Node {
        self.children()[at].load(Acquire)
    }

    /// Returns child `at` with its version, after validating this node both before following the pointer and after
    /// reading the child's version: at that moment it was this node's child.
    #[inline]
    pub(super) fn step(self, version: u64, at: usize, pin: &'p EpochPin) -> Result<(NodeRef<'p>, u64), Restart> {
        let child = self.child(at);
        self.lock.validate(version)?;
        self.arrive(version, child, pin)
    }

    /// Does the second half of [`step`](Self::step): `child` was read from this node, and this node validated since.
    #[inline]
    pub(super) fn arrive(
        self,
        version: u64,
        child: *mut Node,
        pin: &'p EpochPin,
    ) -> Result<(NodeRef<'p>, u64), Restart> {
        // SAFETY: when this node was validated the pointer was one of its children's, and the pin is older.
        let child = unsafe { NodeRef::new(child, pin) };
        let child_version = child.lock.read()?;
        self.lock.validate(version)?;
        Ok((child, child_version))
    }

    /// Asks the processor for the lines that a search of the node begins with: the lock's and those of the pivots.
    #[inline]
    pub(super) fn prefetch(node: *mut Node) {
        prefetch(node, 0);
        prefetch(node, LINE_BYTES);
    }

    /// Returns the group where the probe belongs: the first round of a search.
    #[inline]
    fn group(self, probe: &Probe<'_>) -> usize {
        (0..PIVOTS).map(|pivot| usize::from(self.words_at(pivot) < probe.words)).sum()
    }

    /// Does the first round of a search by itself, where its lines are at hand: finds the group for
    /// [`rank_in`](Self::rank_in), and asks the processor for the lines that this needs.
    #[inline]
    pub(super) fn prefetch_second_round(self, probe: &Probe<'_>) -> usize {
        let group = self.group(probe);
        let words = WORDS_START + place(GROUP * group) * WORDS_BYTES;
        prefetch(self.node, words);
        prefetch(self.node, words + LINE_BYTES);
        prefetch(self.node, words + PIVOTS * WORDS_BYTES - 1);
        self.prefetch_group(group);
        group
    }

    /// Returns the number of entries below the probe.
    #[inline]
    pub(super) fn rank(self, probe: &Probe<'_>) -> usize {
        // Two rounds of seven independent comparisons, without a branch: seven loads at a time are on their way, and no
        // comparison waits for the one before.
        let group = self.group(probe);
        self.prefetch_group(group);
        self.rank_in(group, probe)
    }

    /// Does the second round: returns the index where the probe belongs, from the group that the first one has found.
    /// If the node has changed since, some index.
    #[inline]
    pub(super) fn rank_in(self, group: usize, probe: &Probe<'_>) -> usize {
        assert!(group < GROUP);
        let first = place(GROUP * group);
        let below: usize = (first..first + PIVOTS).map(|at| usize::from(self.words_at(at) < probe.words)).sum();
        let base = GROUP * group + below;
        if base < CAPACITY && self.words(base) == probe.words { self.rank_equal(base, probe) } else { base }
    }

    /// Continues where the words are equal: the entries before `from` are below the probe.
    fn rank_equal(self, from: usize, probe: &Probe<'_>) -> usize {
        let (mut from, mut to) = (from, self.count());
        // The first one decides nearly always.
        let mut middle = from;
        while from < to {
            // SAFETY: the tail was loaded just now, under the pin of this reference.
            if unsafe { self.entry(middle).compare(probe) }.is_lt() {
                from = middle + 1;
            } else {
                to = middle;
            }
            middle = from + (to.saturating_sub(from)) / 2;
        }
        from
    }

    /// Returns true if the entry at `at` has the probe's key.
    #[inline]
    pub(super) fn has_key(self, at: usize, probe: &Probe<'_>) -> bool {
        // SAFETY: the tail was loaded just now, under the pin of this reference.
        unsafe { self.entry(at).compare_key(probe) }.is_eq()
    }

    /// Panics unless the slots from the count on are as the invariant says.
    #[cfg(all(test, not(feature = "shuttle")))]
    pub(super) fn check_padding(self) {
        for at in self.count()..CAPACITY {
            assert_eq!(self.words(at), u128::MAX);
            assert_eq!(self.entry(at).tail, short_tail(0));
        }
        if !self.is_leaf() {
            for (at, child) in self.children().iter().enumerate() {
                assert_eq!(child.load(Relaxed).is_null(), self.count() < at);
            }
        }
    }

    /// Asks the processor for the lines beside the words that are needed once a search has chosen a group.
    #[inline]
    fn prefetch_group(self, group: usize) {
        if self.is_leaf() {
            let rests = 1024 + GROUP * group * size_of::<EntryRest>();
            prefetch(self.node, rests);
            prefetch(self.node, rests + 64);
        } else {
            prefetch(self.node, 2048 + GROUP * group * size_of::<*mut Node>());
        }
    }
}

/// Asks the processor for the line at this offset.
#[inline]
fn prefetch(node: *mut Node, byte: usize) {
    #[cfg(not(miri))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch does not access memory as far as the program can tell, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(node.cast::<i8>().wrapping_add(byte)) };
    }
    #[cfg(miri)]
    let _ = (node, byte);
}

/// Operations for the holder of the lock only.
impl<'p> NodeRef<'p> {
    fn set_words(self, at: usize, words: u128) {
        let place = &self.words[place(at)];
        place[0].store((words >> 64) as u64, Relaxed);
        place[1].store(words as u64, Relaxed);
    }

    fn set_entry(self, at: usize, entry: NodeEntry) {
        self.set_words(at, entry.words);
        // Release: a reader that loads this pointer sees the bytes it points to.
        self.rests[at].tail.store(entry.tail, Release);
        self.rests[at].row.store(entry.row, Relaxed);
    }

    fn clear_entry(self, at: usize) {
        self.set_entry(at, NodeEntry { words: u128::MAX, tail: short_tail(0), row: 0 });
    }

    fn set_count(self, count: usize) {
        debug_assert!(count <= CAPACITY);
        self.count.store(count as u16, Relaxed);
    }

    fn set_child(self, at: usize, child: *mut Node) {
        self.children()[at].store(child, Release);
    }

    /// Makes room at `at` and puts the entry there.
    fn insert_entry(self, at: usize, entry: NodeEntry) {
        let count = self.count();
        debug_assert!(at <= count);
        debug_assert!(count < CAPACITY);
        for to in (at + 1..=count).rev() {
            self.set_entry(to, self.entry(to - 1));
        }
        self.set_entry(at, entry);
        self.set_count(count + 1);
    }

    /// Takes the entry at `at` out and closes the gap.
    fn take_entry(self, at: usize) -> NodeEntry {
        let count = self.count();
        let taken = self.entry(at);
        for to in at..count - 1 {
            self.set_entry(to, self.entry(to + 1));
        }
        self.clear_entry(count - 1);
        self.set_count(count - 1);
        taken
    }

    /// Puts an entry into a leaf with room, and notes whether it follows the last one.
    pub(super) fn leaf_insert(self, at: usize, entry: NodeEntry) {
        self.insert_entry(at, entry);
        let last = self.last.load(Relaxed);
        if at == usize::from(last.wrapping_add(1)) {
            self.run.store(self.run.load(Relaxed).saturating_add(1), Relaxed);
            self.last.store(at as u16, Relaxed);
        } else if at == usize::from(last) {
            // Two appenders, a little out of order: the run goes on after the one that was last.
            self.last.store(at as u16 + 1, Relaxed);
        } else {
            self.run.store(0, Relaxed);
            self.last.store(at as u16, Relaxed);
        }
    }

    /// Takes an entry out of a leaf. The caller retires its tail.
    pub(super) fn leaf_remove(self, at: usize) -> NodeEntry {
        self.run.store(0, Relaxed);
        self.last.store(NOWHERE, Relaxed);
        self.take_entry(at)
    }

    /// Returns the point at which to split a full node that makes room for an entry at `at`: the number of entries that
    /// stay.
    pub(super) fn split_point(self, at: usize) -> usize {
        let count = self.count();
        if !self.is_leaf() {
            // Appending at the right edge fills nodes; elsewhere halves.
            return if at == count { count - 2 } else { count / 2 };
        }
        let appending = RUN_MIN <= self.run.load(Relaxed) && at == usize::from(self.last.load(Relaxed)) + 1;
        if appending { at } else { count / 2 }
    }

    /// Moves the entries from `keep` on to a new leaf, which may stay empty.
    pub(super) fn leaf_split(self, keep: usize, pin: &'p EpochPin) -> NodeRef<'p> {
        // SAFETY: made here.
        let right = unsafe { NodeRef::new(Node::leaf(), pin) };
        let count = self.count();
        self.move_entries(keep, count, right, 0);
        if keep == count {
            // The appended run goes on in the new leaf.
            right.run.store(RUN_MIN, Relaxed);
        }
        right
    }

    /// Moves the part right of entry `keep` to a new inner node. That entry, now between the two, is the caller's.
    pub(super) fn inner_split(self, keep: usize, pin: &'p EpochPin) -> (NodeEntry, NodeRef<'p>) {
        let count = self.count();
        let first = self.child(keep + 1);
        // SAFETY: made here.
        let right = unsafe { NodeRef::new(Node::inner(self.level, first), pin) };
        for at in keep + 2..=count {
            right.set_child(at - keep - 1, self.child(at));
        }
        self.move_entries(keep + 1, count, right, 0);
        let separator = self.entry(keep);
        self.clear_entry(keep);
        self.set_count(keep);
        for at in keep + 1..=count {
            self.set_child(at, core::ptr::null_mut());
        }
        (separator, right)
    }

    /// Puts `separator` and the child right of it into an inner node with room.
    pub(super) fn inner_insert(self, at: usize, separator: NodeEntry, child: *mut Node) {
        for to in (at + 2..=self.count() + 1).rev() {
            self.set_child(to, self.child(to - 1));
        }
        self.set_child(at + 1, child);
        self.insert_entry(at, separator);
    }

    /// Takes separator `at` and the child right of it out.
    pub(super) fn inner_remove(self, at: usize) -> NodeEntry {
        let count = self.count();
        for to in at + 1..count {
            self.set_child(to, self.child(to + 1));
        }
        self.set_child(count, core::ptr::null_mut());
        self.take_entry(at)
    }

    /// Appends the whole right neighbour. An inner node takes `separator`, which stood between the two, with it.
    pub(super) fn absorb(self, separator: NodeEntry, right: NodeRef<'p>) {
        let added = right.count();
        if !self.is_leaf() {
            let count = self.count();
            self.insert_entry(count, separator);
            for at in 0..=added {
                self.set_child(count + 1 + at, right.child(at));
            }
        }
        let count = self.count();
        for at in 0..added {
            self.set_entry(count + at, right.entry(at));
        }
        self.set_count(count + added);
        self.run.store(0, Relaxed);
        self.last.store(NOWHERE, Relaxed);
    }

    /// Moves `self[from..to]` to `other[at..]`, the end of both; clears the slots.
    fn move_entries(self, from: usize, to: usize, other: NodeRef<'p>, at: usize) {
        for source in from..to {
            other.set_entry(at + source - from, self.entry(source));
            self.clear_entry(source);
        }
        other.set_count(at + to - from);
        self.set_count(from);
    }

    /// Frees the node and everything below it.
    ///
    /// # Safety
    /// No other thread can reach the tree any more.
    pub(super) unsafe fn free_all(self) {
        for at in 0..self.count() {
            // SAFETY: the tree owned its tails, each once.
            unsafe { free_tail(self.entry(at).tail) };
        }
        if !self.is_leaf() {
            for at in 0..=self.count() {
                let child = NodeRef { node: self.child(at), _pinned: PhantomData::<&'p EpochPin> };
                // SAFETY: as for the whole tree.
                unsafe { child.free_all() };
            }
        }
        // SAFETY: not used after this.
        unsafe { Node::free(self.node) };
    }
}
