//! Ranges, in both directions, a batch at a time.
//!
//! **Invariant:** between two calls of [`Cursor::next`] a cursor holds no pin and no pointer into the tree, only copies
//! and the bounds of the part that it has not seen. So it may be kept as long as one likes, by a paused context too,
//! and a writer that changes the tree meanwhile is not disturbed.
//!
//! A batch comes from one leaf at one version. At the end of a leaf the cursor goes on at the leaf's *fence*, the
//! separator that bounded its range at that version, by a new descent; nothing is assumed about the splits and merges
//! in between. Hence its promise: entries come in strict order, and an entry that was in the tree from the cursor's
//! beginning to its end comes exactly once.

use super::epoch::{self, EpochPin};
use super::key::{INLINE_BYTES, LongKey, NodeEntry, Position, Probe, ROW_END, short_length};
use super::node::{CAPACITY, NodeRef};
use super::version::Restart;
use super::{BTree, Backoff};
use core::mem::MaybeUninit;
use core::ops::Bound;

/// Entries copied at a time, first and later: many ranges are short. A long one takes the rest of a leaf.
const BATCH_FIRST: usize = 16;
const BATCH_MAX: usize = CAPACITY;

/// Direction of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanDirection {
    /// Lowest key first, and of one key the lowest row first.
    Ascending,
    /// The exact reverse.
    Descending,
}

/// A copied entry.
#[derive(Clone, Copy)]
struct Hit {
    words: u128,
    row: u64,
    length: u32,
    /// Start of the bytes of a long key in the batch's bytes.
    start: u32,
}

/// Iterator over the entries of a range.
pub(crate) struct Cursor<'t> {
    tree: &'t BTree,
    order: ScanDirection,
    /// Part of the range still to come: from `lower`, included, to `upper`, excluded.
    lower: Position,
    upper: Option<Position>,
    /// True if nothing is to come after this batch.
    ended: bool,
    batch: [MaybeUninit<Hit>; BATCH_MAX],
    batch_len: usize,
    batch_next: usize,
    batch_limit: usize,
    bytes: Vec<u8>,
    key: [u8; INLINE_BYTES],
}

/// A leaf at a version, and the bound of its range on the side where the cursor goes on.
type Landing<'p> = (NodeRef<'p>, u64, Option<NodeEntry>);

impl BTree {
    /// Returns a cursor over the entries whose keys are between the bounds.
    pub(crate) fn range(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>, order: ScanDirection) -> Cursor<'_> {
        let lower = match lower {
            Bound::Included(key) => Position::new(&Probe::new(key, 0)),
            Bound::Excluded(key) => Position::new(&Probe::new(key, ROW_END)),
            Bound::Unbounded => Position::START,
        };
        let upper = match upper {
            Bound::Included(key) => Some(Position::new(&Probe::new(key, ROW_END))),
            Bound::Excluded(key) => Some(Position::new(&Probe::new(key, 0))),
            Bound::Unbounded => None,
        };
        Cursor::new(self, order, lower, upper)
    }

    /// Returns a cursor over the entries whose keys begin with `prefix`.
    pub(crate) fn prefix(&self, prefix: &[u8], order: ScanDirection) -> Cursor<'_> {
        let upper = Position::after_prefix(prefix);
        Cursor::new(self, order, Position::new(&Probe::new(prefix, 0)), upper)
    }

    /// Returns a cursor over the entries with this key.
    pub(crate) fn rows(&self, key: &[u8]) -> Cursor<'_> {
        self.rows_from(key, 0)
    }

    /// Returns a cursor over the entries with this key, from this row on.
    pub(super) fn rows_from(&self, key: &[u8], row: u64) -> Cursor<'_> {
        let probe = Probe::new(key, row);
        let upper = Position::new(&probe.with_row(ROW_END));
        Cursor::new(self, ScanDirection::Ascending, Position::new(&probe), Some(upper))
    }

    /// Returns the leaf that holds the entry right below the position, or the last leaf, and the lower bound of its
    /// range.
    fn descend_below<'p>(&self, upper: Option<&Position>, pin: &'p EpochPin) -> Result<Landing<'p>, Restart> {
        let (mut node, mut version) = self.enter(pin)?;
        let mut fence = None;
        while !node.is_leaf() {
            let at = upper.map_or(node.count(), |upper| node.rank(&upper.probe()));
            if 0 < at {
                fence = Some(node.entry(at - 1));
            }
            (node, version) = node.step(version, at, pin)?;
        }
        Ok((node, version, fence))
    }
}

impl<'t> Cursor<'t> {
    fn new(tree: &'t BTree, order: ScanDirection, lower: Position, upper: Option<Position>) -> Cursor<'t> {
        Cursor {
            tree,
            order,
            lower,
            upper,
            ended: false,
            batch: [const { MaybeUninit::uninit() }; BATCH_MAX],
            batch_len: 0,
            batch_next: 0,
            batch_limit: BATCH_FIRST,
            bytes: Vec::new(),
            key: [0; INLINE_BYTES],
        }
    }

    /// Returns the next entry: its key, and its row.
    pub(crate) fn next(&mut self) -> Option<(&[u8], u64)> {
        let hit = self.next_hit()?;
        let length = hit.length as usize;
        if length <= INLINE_BYTES {
            self.key = hit.words.to_be_bytes();
            return Some((&self.key[..length], hit.row));
        }
        let start = hit.start as usize;
        Some((&self.bytes[start..start + length], hit.row))
    }

    /// Returns the entry that [`Cursor::next`] returned last, if it ever returned one, and has not come to the end.
    pub(crate) fn last(&self) -> Option<(&[u8], u64)> {
        let at = self.batch_next.checked_sub(1)?;
        // SAFETY: `fill` wrote the hits below `batch_len`, of which this one was handed out.
        let hit = unsafe { self.batch[at].assume_init_ref() };
        let length = hit.length as usize;
        if length <= INLINE_BYTES {
            return Some((&self.key[..length], hit.row));
        }
        let start = hit.start as usize;
        Some((&self.bytes[start..start + length], hit.row))
    }

    /// Returns the next entry's row: cheaper where the key is not wanted.
    pub(crate) fn next_row(&mut self) -> Option<u64> {
        self.next_hit().map(|hit| hit.row)
    }

    /// Copies the next batch if the last one is used up, and returns its rows, which [`Cursor::next`] is about to
    /// return; none while there are some left of the last one.
    #[inline]
    pub(crate) fn rows_ahead(&mut self) -> impl Iterator<Item = u64> + Clone {
        let is_fresh = self.batch_next == self.batch_len && !self.ended;
        if is_fresh {
            self.fill();
        }
        let ahead = if is_fresh { &self.batch[..self.batch_len] } else { &[] };
        // SAFETY: `fill` wrote the hits below `batch_len`.
        ahead.iter().map(|hit| unsafe { hit.assume_init_ref() }.row)
    }

    #[inline]
    fn next_hit(&mut self) -> Option<Hit> {
        if self.batch_next == self.batch_len {
            if self.ended {
                return None;
            }
            self.fill();
            if self.batch_len == 0 {
                return None;
            }
        }
        // SAFETY: `fill` wrote the hits below `batch_len`.
        let hit = unsafe { self.batch[self.batch_next].assume_init() };
        self.batch_next += 1;
        Some(hit)
    }

    /// Copies the next batch. It stays empty only at the end.
    fn fill(&mut self) {
        self.batch_len = 0;
        self.batch_next = 0;
        self.bytes.clear();
        let pin = epoch::pin();
        let mut backoff = Backoff::new();
        while !self.ended && self.batch_len == 0 {
            let copied = match self.order {
                ScanDirection::Ascending => self.copy_ascending(&pin),
                ScanDirection::Descending => self.copy_descending(&pin),
            };
            if copied == Err(Restart) {
                self.batch_len = 0;
                self.bytes.clear();
                backoff.wait();
            }
        }
        self.batch_limit = BATCH_MAX;
    }

    /// Copies entries from the leaf where `lower` belongs, as far as the batch has room, and moves `lower`.
    fn copy_ascending(&mut self, pin: &EpochPin) -> Result<(), Restart> {
        let (leaf, version, fence) = self.tree.descend_fenced(&self.lower.probe(), pin)?;
        let (count, room) = (leaf.count(), self.batch_limit);
        let from = leaf.rank(&self.lower.probe());
        let to = self.upper.as_ref().map_or(count, |upper| leaf.rank(&upper.probe())).min(count);
        let stop = to.min(from + room);
        for at in from..stop {
            self.push(leaf.entry(at));
        }
        let last = if from < stop { Some(leaf.entry(stop - 1)) } else { None };
        leaf.lock.validate(version)?;
        match (fence, last) {
            // SAFETY: loaded from the tree under this pin.
            (_, Some(last)) if stop < to => self.lower.set(&unsafe { last.probe() }.after()),
            // The end of the range is in this leaf, or the leaf is the last one.
            _ if to < count => self.ended = true,
            (None, _) => self.ended = true,
            (Some(fence), _) => {
                // SAFETY: loaded from the tree under this pin.
                let fence = unsafe { fence.probe() };
                self.ended = self.upper.as_ref().is_some_and(|upper| upper.probe().is_at_most(&fence));
                self.lower.set(&fence);
            }
        }
        Ok(())
    }

    /// Copies entries from the leaf that ends at `upper` or holds it, as far as the batch has room, and moves `upper`.
    fn copy_descending(&mut self, pin: &EpochPin) -> Result<(), Restart> {
        let (leaf, version, fence) = self.tree.descend_below(self.upper.as_ref(), pin)?;
        let (count, room) = (leaf.count(), self.batch_limit);
        let from = leaf.rank(&self.lower.probe());
        let to = self.upper.as_ref().map_or(count, |upper| leaf.rank(&upper.probe())).min(count);
        let stop = from.max(to.saturating_sub(room));
        for at in (stop..to).rev() {
            self.push(leaf.entry(at));
        }
        let last = if stop < to { Some(leaf.entry(stop)) } else { None };
        leaf.lock.validate(version)?;
        match (fence, last) {
            // SAFETY: loaded from the tree under this pin.
            (_, Some(last)) if from < stop => self.set_upper(&unsafe { last.probe() }),
            // The beginning of the range is in this leaf, or the leaf is the first one.
            _ if 0 < from => self.ended = true,
            (None, _) => self.ended = true,
            (Some(fence), _) => {
                // SAFETY: loaded from the tree under this pin.
                let fence = unsafe { fence.probe() };
                self.ended = fence.is_at_most(&self.lower.probe());
                self.set_upper(&fence);
            }
        }
        Ok(())
    }

    fn set_upper(&mut self, probe: &Probe<'_>) {
        match &mut self.upper {
            Some(upper) => upper.set(probe),
            None => self.upper = Some(Position::new(probe)),
        }
    }

    #[inline]
    fn push(&mut self, entry: NodeEntry) {
        let mut hit = Hit { words: entry.words, row: entry.row, length: 0, start: self.bytes.len() as u32 };
        match short_length(entry.tail) {
            Some(length) => hit.length = length as u32,
            None => {
                // SAFETY: a long key, loaded from the tree under the pin that the caller holds.
                let bytes = unsafe { LongKey::bytes(entry.tail) };
                hit.length = bytes.len() as u32;
                self.bytes.extend_from_slice(bytes);
            }
        }
        self.batch[self.batch_len].write(hit);
        self.batch_len += 1;
    }
}
