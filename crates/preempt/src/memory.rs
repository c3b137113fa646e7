//! Bytes that the process holds, and their limits.
//!
//! Each thread counts the blocks that it allocates and frees, and adds its sum to the total when that sum has grown by
//! `BATCH`; so a call of the allocator touches nothing that another thread writes. A block counts as the size of the
//! class that mimalloc serves it from. Big blocks are mappings (`mappings`) and count at once, those that are kept for
//! the next owner included.
//!
//! **Invariant:** the total differs from the truth by at most `BATCH` for each thread that there is, or has been. A thread's
//! own sum changes inside the allocator's region only, where no urgent context can start, so a plain load and store suffice.
//!
//! The counted bytes are not the resident ones: freed memory stays until it is purged, pages hold free blocks beside
//! used ones, and threads have stacks. A thread that samples the resident size reports it ([`set_resident_bytes`]), and
//! both have a limit.

use crate::heap;
use crate::region::LOCAL;
use core::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

/// Bytes that a thread counts on its own.
const BATCH: usize = 32 << 10;

/// A word on lines of its own: every thread writes the total now and then.
#[repr(align(128))]
struct PaddedTotal(AtomicIsize);

static TOTAL: PaddedTotal = PaddedTotal(AtomicIsize::new(0));
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
static RESIDENT_LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Bytes of all promises.
static PROMISED: AtomicUsize = AtomicUsize::new(0);
/// Resident bytes less counted ones, when they were sampled.
static BESIDE: AtomicIsize = AtomicIsize::new(0);

/// Returns the bytes that blocks of this process take.
pub fn held_bytes() -> usize {
    usize::try_from(TOTAL.0.load(Relaxed)).unwrap_or(0)
}

/// Returns the bytes that blocks of this process should not exceed; `usize::MAX` if no limit was set.
pub fn limit_bytes() -> usize {
    LIMIT.load(Relaxed)
}

/// Sets the limit. The allocator allocates memory beyond it, too: code that needs much memory asks [`has_room`] before.
pub fn set_limit_bytes(bytes: usize) {
    LIMIT.store(bytes, Relaxed);
}

/// Returns the bytes of freed big blocks, which are among [`held_bytes`].
pub fn kept_bytes() -> usize {
    heap::mappings().kept_bytes()
}

/// Returns the number of freed big blocks that have found another owner so far.
pub fn kept_blocks_reused() -> usize {
    heap::mappings().reused()
}

/// Returns the bytes that should be resident at most; `usize::MAX` if no limit was set.
pub fn resident_limit_bytes() -> usize {
    RESIDENT_LIMIT.load(Relaxed)
}

/// Sets the limit of resident bytes, the reserve included: past it [`has_room`] and the others return false, whatever
/// is counted.
pub fn set_resident_limit_bytes(bytes: usize) {
    RESIDENT_LIMIT.store(bytes, Relaxed);
}

/// Reports the bytes that are resident now.
pub fn set_resident_bytes(bytes: usize) {
    BESIDE.store(bytes as isize - held_bytes() as isize, Relaxed);
}

/// Returns the resident bytes, by the last sample and by what has been counted since.
pub fn resident_bytes() -> usize {
    held_bytes().saturating_add_signed(BESIDE.load(Relaxed))
}

/// Returns true if `more` bytes fit below both limits. Freed mappings that are kept do not count: they are unmapped for
/// others.
pub fn has_room(more: usize) -> bool {
    has_room_beside(0, more)
}

/// Returns true if `more` bytes fit as for [`has_room`], for a caller that has a promise of `own` bytes.
pub fn has_room_beside(own: usize, more: usize) -> bool {
    let others = PROMISED.load(Relaxed).saturating_sub(own);
    fits(more.saturating_add(others), 0)
}

/// A promise of bytes that its owner is going to allocate, or has allocated: no one else gets them.
#[derive(Debug)]
pub struct Promise(usize);

/// Returns the bytes of all promises.
pub fn promised_bytes() -> usize {
    PROMISED.load(Relaxed)
}

/// Promises bytes if there is room for them, whatever is promised to others at the same time.
pub fn promise(bytes: usize) -> Option<Promise> {
    let promise = Promise(bytes);
    PROMISED.fetch_add(bytes, Relaxed);
    has_room(0).then_some(promise)
}

impl Promise {
    /// Returns the number of bytes.
    pub fn bytes(&self) -> usize {
        self.0
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        PROMISED.fetch_sub(self.0, Relaxed);
    }
}

/// Bytes of a mapping that the allocator does not know. They are among [`held_bytes`] until the value is dropped.
///
/// It may change in an urgent context: nothing here takes a lock.
#[derive(Debug, Default)]
pub struct HeldMapping(usize);

impl HeldMapping {
    /// Returns the number of bytes.
    pub fn bytes(&self) -> usize {
        self.0
    }

    /// Counts this many bytes from now on. Returns false, and changes nothing, if more would not fit.
    #[must_use]
    pub fn resize(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.0);
        add(more as isize);
        if 0 < more && !has_room(0) {
            add(-(more as isize));
            return false;
        }
        add(-(self.0.saturating_sub(bytes) as isize));
        self.0 = bytes;
        true
    }
}

impl Drop for HeldMapping {
    fn drop(&mut self) {
        add(-(self.0 as isize));
    }
}

/// Returns true if `more` bytes fit for work that frees memory when it is done: it may use the reserve.
pub fn has_reserve(more: usize) -> bool {
    fits(more, reserve_bytes())
}

/// Returns true if there is room for small transactions, which leave half of the reserve to others.
pub fn has_small_reserve() -> bool {
    fits(0, reserve_bytes() / 2)
}

/// Returns the bytes beyond the limit of blocks, a seventh of it. The limit of resident bytes has them already.
fn reserve_bytes() -> usize {
    match limit_bytes() {
        usize::MAX => 0,
        limit => limit / 7,
    }
}

/// Returns true if `more` bytes fit for a caller that may use `of_reserve` bytes of the reserve.
fn fits(more: usize, of_reserve: usize) -> bool {
    let fits = |used: usize, limit: usize| {
        used.saturating_sub(kept_bytes()).saturating_add(more) <= limit.saturating_add(of_reserve)
    };
    fits(held_bytes(), limit_bytes()) && fits(resident_bytes(), resident_limit_bytes().saturating_sub(reserve_bytes()))
}

/// Parts of the heap that [`purge`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purge {
    /// Freed big blocks that are not kept for the next owner.
    Freed,
    /// Freed big blocks, the kept ones included.
    Kept,
    /// Freed big blocks, and free huge pages of the allocator.
    HugePages,
    /// Freed big blocks, and every free page of the allocator, which takes huge pages apart.
    All,
}

/// Returns free memory to the kernel: at most 4 MB by one call of the kernel, so that others get the processor in
/// between. To be called by an ordinary thread, never by one that runs statements. Once it has been called, big blocks
/// that are too many to be kept wait for the next call.
pub fn purge(what: Purge) {
    /// Size of a huge page of an x86-64.
    const HUGE_PAGE_KIB: usize = 2048;
    /// Size of the slices from which mimalloc makes its pages.
    const SLICE_KIB: usize = 64;
    heap::mappings().purge(what != Purge::Freed);
    match what {
        Purge::Freed | Purge::Kept => {}
        Purge::HugePages => heap::purge(HUGE_PAGE_KIB),
        Purge::All => heap::purge(SLICE_KIB),
    }
}

/// Returns free memory in this thread's heap to the allocator, for the next [`purge`]: otherwise a thread that has
/// answered large statements keeps their pages until it asks for blocks of the same sizes. It takes about a millisecond
/// for a gigabyte.
pub fn collect() {
    heap::collect();
}

/// Returns true if `more` bytes at once would pass a limit, with all that is kept.
pub(crate) fn is_tight(more: usize) -> bool {
    let is_past = |used: usize, limit| limit < used.saturating_add(more);
    is_past(held_bytes(), limit_bytes()) || is_past(resident_bytes(), resident_limit_bytes())
}

/// Adds a change to the total at once.
pub(crate) fn add(change: isize) {
    TOTAL.0.fetch_add(change, Relaxed);
}

/// Returns the bytes of the class that a block of this size is served from: four classes between a power of two and the
/// next.
#[inline]
pub fn block_bytes(size: usize) -> usize {
    if size <= 64 {
        return size.next_multiple_of(16);
    }
    let mask = (1_usize << ((size - 1).ilog2() - 2)) - 1;
    (size + mask) & !mask
}

#[inline]
pub(crate) fn class_bytes(size: usize) -> isize {
    block_bytes(size) as isize
}

/// Sums of one thread. Changed inside a region only.
pub(crate) struct ThreadSums {
    /// Bytes that the total does not have yet.
    sum: AtomicIsize,
    /// Bytes that the total has, and big blocks.
    before: AtomicIsize,
}

impl ThreadSums {
    pub(crate) const fn new() -> ThreadSums {
        ThreadSums { sum: AtomicIsize::new(0), before: AtomicIsize::new(0) }
    }

    #[inline]
    pub(crate) fn add(&self, change: isize) {
        let sum = self.sum.load(Relaxed) + change;
        if sum.unsigned_abs() < BATCH {
            self.sum.store(sum, Relaxed);
        } else {
            self.sum.store(0, Relaxed);
            self.add_big(sum);
            add(sum);
        }
    }

    /// Adds a change that the total has counted otherwise.
    pub(crate) fn add_big(&self, change: isize) {
        self.before.store(self.before.load(Relaxed) + change, Relaxed);
    }
}

/// Returns the bytes of blocks that this thread has allocated, less those that it has freed. Blocks of it that others
/// free count for them, so only the difference between two moments says anything.
#[inline]
pub fn thread_bytes() -> isize {
    LOCAL.with(|local| local.held.before.load(Relaxed) + local.held.sum.load(Relaxed))
}

#[cfg(test)]
mod tests {
    use super::class_bytes;

    #[test]
    fn classes_are_those_of_mimalloc() {
        for (size, class) in
            [(0, 0), (1, 16), (64, 64), (65, 80), (80, 80), (81, 96), (128, 128), (129, 160), (1000, 1024)]
        {
            assert_eq!(class_bytes(size), class, "{size}");
        }
    }
}
