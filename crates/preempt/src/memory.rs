//! Bytes that the process holds, and how many it may.
//!
//! Each thread counts the blocks that it takes and gives back, and adds its sum to the total when that sum has grown by
//! `BATCH`; so a call of the allocator touches nothing that another thread writes. A block counts as the size of the class that
//! mimalloc serves it from. Big blocks are mappings (`mappings`) and count at once, those that are kept for the next
//! owner included.
//!
//! **Invariant:** the total differs from the truth by at most `BATCH` for each thread that there is, or has been. A thread's
//! own sum changes inside the allocator's region only, where no urgent context can start, so a plain load and store suffice.

use core::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

/// Bytes that a thread counts on its own.
const BATCH: usize = 32 << 10;

/// On lines of their own: every thread writes the total now and then.
#[repr(align(128))]
struct Total(AtomicIsize);

static TOTAL: Total = Total(AtomicIsize::new(0));
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Bytes that blocks of this process take.
pub fn held_bytes() -> usize {
    usize::try_from(TOTAL.0.load(Relaxed)).unwrap_or(0)
}

/// Bytes that blocks of this process should not exceed; `usize::MAX` if nobody has set a limit.
pub fn limit_bytes() -> usize {
    LIMIT.load(Relaxed)
}

/// Sets the limit. The allocator gives memory beyond it, too: whoever takes much of it asks [`has_room`] before.
pub fn set_limit_bytes(bytes: usize) {
    LIMIT.store(bytes, Relaxed);
}

/// Tells whether `more` bytes fit below the limit. Freed mappings that are kept do not count: they are unmapped for others.
pub fn has_room(more: usize) -> bool {
    let used = held_bytes().saturating_sub(crate::heap::kept_bytes());
    used.saturating_add(more) <= limit_bytes()
}

/// Tells whether `more` bytes at once would pass the limit, with all that is kept.
pub(crate) fn is_tight(more: usize) -> bool {
    limit_bytes() < held_bytes().saturating_add(more)
}

/// Adds a change to the total at once.
pub(crate) fn add(change: isize) {
    TOTAL.0.fetch_add(change, Relaxed);
}

/// Bytes of the class that a block of this size is served from: four classes between a power of two and the next.
#[inline]
pub(crate) fn class_bytes(size: usize) -> isize {
    if size <= 64 {
        return size.next_multiple_of(16) as isize;
    }
    let mask = (1_usize << ((size - 1).ilog2() - 2)) - 1;
    ((size + mask) & !mask) as isize
}

/// Sum of one thread. To be changed inside a region.
pub(crate) struct Own(AtomicIsize);

impl Own {
    pub(crate) const fn new() -> Own {
        Own(AtomicIsize::new(0))
    }

    #[inline]
    pub(crate) fn add(&self, change: isize) {
        let sum = self.0.load(Relaxed) + change;
        if sum.unsigned_abs() < BATCH {
            self.0.store(sum, Relaxed);
        } else {
            self.0.store(0, Relaxed);
            add(sum);
        }
    }
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
