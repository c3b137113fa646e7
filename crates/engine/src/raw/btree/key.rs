//! Keys: arbitrary bytes in lexicographic order, then the row id.
//!
//! **Invariant:** the first 16 bytes, zero-padded, are two big-endian words, so comparing the words compares the bytes;
//! the *tail* tells the part that the padding hides. A tail is either the length of a key of at most 16 bytes or a
//! pointer to all bytes of a longer one, which are written once, before the pointer is published, and never change:
//!
//! ```text
//!  words: | bytes 0..8 | bytes 8..16 |     tail: | length << 1 | 1 |   or   | *LongKey, even |
//! ```
//!
//! Equal words leave three cases. Two short keys: the shorter one is a prefix. A short and a long key: the short one
//! is a prefix of the long one. Two long keys: the bytes from 16 on decide. So `(words, tail, row)` is a total order.

use crate::memory::block_bytes;
use core::cmp::Ordering;
use core::ptr;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};

/// Bytes of a key that live in the node.
pub(super) const INLINE_BYTES: usize = 16;
/// Above every row id: the end of a key's rows. No row may have it.
pub(super) const ROW_END: u64 = u64::MAX;

/// A key of more than [`INLINE_BYTES`] bytes: its length, and then the bytes in the same allocation.
#[repr(C)]
pub(super) struct LongKey {
    length: usize,
}

/// Tail of a key: see the module. Always valid to compare while a [`Pin`](super::epoch::EpochPin) is held.
pub(super) type Tail = *mut LongKey;

/// Returns the tail of a key that fits its words.
pub(super) fn short_tail(length: usize) -> Tail {
    ptr::without_provenance_mut(length << 1 | 1)
}

/// Returns the length of a short key, or `None` for a long one.
#[inline]
pub(super) fn short_length(tail: Tail) -> Option<usize> {
    let address = tail.addr();
    if address & 1 == 1 { Some(address >> 1) } else { None }
}

impl LongKey {
    fn layout(length: usize) -> Layout {
        let header = Layout::new::<LongKey>();
        let bytes = Layout::array::<u8>(length).expect("a key that exists in memory has a layout");
        header.extend(bytes).expect("a key is far smaller than the address space").0
    }

    /// Creates a key of these 16 bytes and the rest.
    fn new(head: &[u8; INLINE_BYTES], rest: &[u8]) -> *mut LongKey {
        let length = head.len() + rest.len();
        let layout = LongKey::layout(length);
        // SAFETY: the layout is not empty, and the header and the bytes are written inside it.
        unsafe {
            let key = alloc(layout).cast::<LongKey>();
            if key.is_null() {
                handle_alloc_error(layout);
            }
            key.write(LongKey { length });
            let bytes = key.add(1).cast::<u8>();
            ptr::copy_nonoverlapping(head.as_ptr(), bytes, head.len());
            ptr::copy_nonoverlapping(rest.as_ptr(), bytes.add(head.len()), rest.len());
            key
        }
    }

    /// # Safety
    /// `key` came from [`LongKey::new`] and is not freed during `'a`.
    pub(super) unsafe fn bytes<'a>(key: *const LongKey) -> &'a [u8] {
        // SAFETY: the bytes follow the header in one allocation, and no thread writes them after `new`.
        unsafe { core::slice::from_raw_parts(key.add(1).cast::<u8>(), (*key).length) }
    }

    /// # Safety
    /// `key` came from [`LongKey::new`], and no thread can reach it any more.
    pub(super) unsafe fn free(key: *mut LongKey) {
        // SAFETY: allocated with this layout; the caller owns it.
        unsafe { dealloc(key.cast::<u8>(), LongKey::layout((*key).length)) }
    }
}

/// Returns the first 16 bytes as one number, zero-padded.
#[inline]
fn words_of(key: &[u8]) -> u128 {
    let word = |at: usize| u64::from_be_bytes(key[at..at + 8].try_into().expect("eight bytes"));
    match key.len() {
        16.. => u128::from(word(0)) << 64 | u128::from(word(8)),
        // The last eight bytes overlap the first word; the shift drops what it has already.
        length @ 9..16 => u128::from(word(0)) << 64 | u128::from(word(length - 8) << (8 * (16 - length))),
        8 => u128::from(word(0)) << 64,
        length => {
            let mut bytes = [0; 8];
            bytes[..length].copy_from_slice(key);
            u128::from(u64::from_be_bytes(bytes)) << 64
        }
    }
}

/// A key and row id to look for.
#[derive(Clone, Copy)]
pub(super) struct Probe<'k> {
    pub(super) words: u128,
    length: usize,
    /// Bytes from [`INLINE_BYTES`] on.
    rest: &'k [u8],
    pub(super) row: u64,
}

impl<'k> Probe<'k> {
    #[inline]
    pub(super) fn new(key: &'k [u8], row: u64) -> Probe<'k> {
        Probe { words: words_of(key), length: key.len(), rest: key.get(INLINE_BYTES..).unwrap_or(&[]), row }
    }

    #[inline]
    pub(super) fn with_row(self, row: u64) -> Probe<'k> {
        Probe { row, ..self }
    }

    /// Returns the least probe above this one: counting the entries below it counts those not above this one.
    #[inline]
    pub(super) fn after(self) -> Probe<'k> {
        // No entry has the highest row id, so saturating loses nothing.
        self.with_row(self.row.saturating_add(1))
    }

    /// Returns true if this probe is not above the other.
    pub(super) fn is_at_most(&self, other: &Probe<'_>) -> bool {
        let keys = self.words.cmp(&other.words).then_with(|| match (self.rest, other.rest) {
            // Equal words and at most one long key: the shorter one is a prefix.
            ([], _) | (_, []) => self.length.cmp(&other.length),
            (left, right) => left.cmp(right),
        });
        keys.then(self.row.cmp(&other.row)).is_le()
    }

    /// Returns the bytes that the allocator counts for the key, if it does not fit the node.
    pub(super) fn long_bytes(&self) -> Option<usize> {
        (INLINE_BYTES < self.length).then(|| block_bytes(LongKey::layout(self.length).size()))
    }

    /// Creates a new tail with this key's bytes.
    pub(super) fn make_tail(&self) -> Tail {
        if self.length <= INLINE_BYTES {
            short_tail(self.length)
        } else {
            LongKey::new(&self.words.to_be_bytes(), self.rest)
        }
    }
}

/// An entry of a node, copied out of it. The tail is borrowed from the tree, for as long as the pin.
#[derive(Clone, Copy)]
pub(super) struct NodeEntry {
    pub(super) words: u128,
    pub(super) tail: Tail,
    pub(super) row: u64,
}

impl NodeEntry {
    /// Compares the keys, without the rows.
    ///
    /// # Safety
    /// The tail was loaded from a node under a pin that is still held.
    #[inline]
    pub(super) unsafe fn compare_key(&self, probe: &Probe<'_>) -> Ordering {
        self.words.cmp(&probe.words).then_with(|| match short_length(self.tail) {
            // Right for a long probe too: it is longer than any short key.
            Some(length) => length.cmp(&probe.length),
            None if probe.length <= INLINE_BYTES => Ordering::Greater,
            None => {
                // SAFETY: a live long key, by the caller's promise.
                let bytes = unsafe { LongKey::bytes(self.tail) };
                bytes[INLINE_BYTES..].cmp(probe.rest)
            }
        })
    }

    /// Compares the keys, then the rows.
    ///
    /// # Safety
    /// As [`compare_key`](Self::compare_key).
    #[inline]
    pub(super) unsafe fn compare(&self, probe: &Probe<'_>) -> Ordering {
        // SAFETY: the caller's promise is the same.
        unsafe { self.compare_key(probe) }.then(self.row.cmp(&probe.row))
    }

    /// Returns this entry as a probe.
    ///
    /// # Safety
    /// The tail was loaded from a node under a pin that outlives `'a`.
    pub(super) unsafe fn probe<'a>(&self) -> Probe<'a> {
        match short_length(self.tail) {
            Some(length) => Probe { words: self.words, length, rest: &[], row: self.row },
            None => {
                // SAFETY: a live long key, by the caller's promise.
                let bytes = unsafe { LongKey::bytes(self.tail) };
                Probe { words: self.words, length: bytes.len(), rest: &bytes[INLINE_BYTES..], row: self.row }
            }
        }
    }

    /// Returns a short separator `s` with `left < s <= right`, owning its tail.
    ///
    /// # Safety
    /// The tail was loaded from a node under a pin that is still held.
    pub(super) unsafe fn separator(left: &NodeEntry, right: &Probe<'_>) -> NodeEntry {
        // SAFETY: the caller's promise.
        let same_key = unsafe { left.compare_key(right) }.is_eq();
        // If the 16 bytes tell them apart they are a separator: a prefix of `right`, and above `left`.
        let tail = if right.length <= INLINE_BYTES {
            short_tail(right.length)
        } else if left.words != right.words {
            short_tail(INLINE_BYTES)
        } else {
            LongKey::new(&right.words.to_be_bytes(), right.rest)
        };
        NodeEntry { words: right.words, tail, row: if same_key { right.row } else { 0 } }
    }
}

/// A probe that owns its bytes: the position at which a cursor goes on after its pin has ended.
#[derive(Clone)]
pub(super) struct Position {
    words: u128,
    length: usize,
    rest: Vec<u8>,
    row: u64,
}

impl Position {
    /// Position before every entry.
    pub(super) const START: Position = Position { words: 0, length: 0, rest: Vec::new(), row: 0 };

    pub(super) fn new(probe: &Probe<'_>) -> Position {
        Position { words: probe.words, length: probe.length, rest: probe.rest.to_vec(), row: probe.row }
    }

    /// Returns the position after every entry whose key begins with `prefix`; `None` if that is the end.
    pub(super) fn after_prefix(prefix: &[u8]) -> Option<Position> {
        let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
        let mut after = prefix[..=last].to_vec();
        after[last] += 1;
        Some(Position::new(&Probe::new(&after, 0)))
    }

    pub(super) fn set(&mut self, probe: &Probe<'_>) {
        self.words = probe.words;
        self.length = probe.length;
        self.rest.clear();
        self.rest.extend_from_slice(probe.rest);
        self.row = probe.row;
    }

    #[inline]
    pub(super) fn probe(&self) -> Probe<'_> {
        Probe { words: self.words, length: self.length, rest: &self.rest, row: self.row }
    }
}

/// Frees the memory that a tail owns, if any.
///
/// # Safety
/// No thread can reach the tail any more.
pub(super) unsafe fn free_tail(tail: Tail) {
    if short_length(tail).is_none() {
        // SAFETY: a tail that is not short is a long key; the caller owns it.
        unsafe { LongKey::free(tail) };
    }
}
