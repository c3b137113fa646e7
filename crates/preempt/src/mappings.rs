//! Big blocks of the heap: mappings of the kernel's, some of which are kept when they are freed.
//!
//! A query's operators ask for arrays of many megabytes and free them again, tens of times a second. To give one back to the kernel
//! takes about a millisecond, in which nobody else gets the processor where the kernel is not preemptible, and the next one's
//! pages come one fault at a time. So freed mappings wait here for the next who wants one of their length, and those that are
//! made are asked for in huge pages.
//!
//! **Invariant:** a mapping in a slot belongs to nobody else, and whoever takes it empties the slot by the same step. Nothing here
//! waits, so it needs no region: an interrupt between two steps finds a mapping in a slot, or with its owner.

use crate::memory;
use core::alloc::Layout;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use core::sync::atomic::{AtomicPtr, AtomicUsize};

/// Blocks of at least this size are mappings.
pub(crate) const SMALLEST: usize = 8 << 20;
/// Lengths are multiples of this, the size of a huge page.
const STEP: usize = 2 << 20;
/// Longer ones are not kept.
const LONGEST_KEPT: usize = 64 << 20;
/// So many of each length.
const SLOTS: usize = 4;
const LENGTHS: usize = (LONGEST_KEPT - SMALLEST) / STEP + 1;
/// What is kept altogether is at most this.
const KEPT_MAX: usize = 256 << 20;
const PAGE: usize = 4096;

/// Whether a block of this layout is a mapping.
pub(crate) fn is_big(layout: &Layout) -> bool {
    layout.size() >= SMALLEST && layout.align() <= PAGE
}

/// How long the mapping of a block is.
fn length_of(size: usize) -> usize {
    size.next_multiple_of(STEP)
}

/// Freed mappings, by their lengths.
pub(crate) struct Mappings {
    slots: [[AtomicPtr<u8>; SLOTS]; LENGTHS],
    kept: AtomicUsize,
}

impl Mappings {
    pub(crate) const fn new() -> Mappings {
        Mappings {
            slots: [const { [const { AtomicPtr::new(ptr::null_mut()) }; SLOTS] }; LENGTHS],
            kept: AtomicUsize::new(0),
        }
    }

    fn slots_of(&self, length: usize) -> &[AtomicPtr<u8>] {
        self.slots.get((length - SMALLEST) / STEP).map_or(&[], |slots| &slots[..])
    }

    /// A mapping for a block of this size, at least [`SMALLEST`], and whether it is new, and so all zero. Null: there is no memory.
    pub(crate) fn take(&self, size: usize) -> (*mut u8, bool) {
        let length = length_of(size);
        for slot in self.slots_of(length) {
            if !slot.load(Relaxed).is_null() {
                let block = slot.swap(ptr::null_mut(), Acquire);
                if !block.is_null() {
                    self.kept.fetch_sub(length, Relaxed);
                    return (block, false);
                }
            }
        }
        if memory::is_tight(length) {
            self.release();
        }
        (map(length), true)
    }

    /// Bytes of those that are kept.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.kept.load(Relaxed)
    }

    /// Gives those that are kept back to the kernel.
    fn release(&self) {
        for (slots, length) in self.slots.iter().zip((SMALLEST..).step_by(STEP)) {
            for slot in slots {
                let block = slot.swap(ptr::null_mut(), Acquire);
                if !block.is_null() {
                    self.kept.fetch_sub(length, Relaxed);
                    // SAFETY: a mapping of this length, which nobody else has: the slot was emptied by the same step.
                    unsafe { unmap(block, length) };
                }
            }
        }
    }

    /// Takes back the mapping of a block of this size.
    ///
    /// # Safety
    /// It came from [`take`](Mappings::take) or [`resize`](Mappings::resize) for a size with the same length, and nobody uses it.
    pub(crate) unsafe fn give(&self, block: *mut u8, size: usize) {
        let length = length_of(size);
        // Counted before somebody can take it.
        if self.kept.fetch_add(length, Relaxed) + length <= KEPT_MAX {
            for slot in self.slots_of(length) {
                if slot.compare_exchange(ptr::null_mut(), block, AcqRel, Relaxed).is_ok() {
                    return;
                }
            }
        }
        self.kept.fetch_sub(length, Relaxed);
        // SAFETY: a mapping of this length, which is the caller's.
        unsafe { unmap(block, length) };
    }

    /// Makes the mapping of a block another's, by moving its pages rather than their bytes. Null: there is no memory, and
    /// the block is as it was.
    ///
    /// # Safety
    /// As for [`give`](Mappings::give) with `old`; `new` is at least [`SMALLEST`].
    pub(crate) unsafe fn resize(&self, block: *mut u8, old: usize, new: usize) -> *mut u8 {
        let (old, new) = (length_of(old), length_of(new));
        if old == new {
            return block;
        }
        // SAFETY: a mapping of this length, which is the caller's; the kernel moves it if it must.
        let moved = unsafe { libc::mremap(block.cast(), old, new, libc::MREMAP_MAYMOVE) };
        if moved == libc::MAP_FAILED {
            return ptr::null_mut();
        }
        memory::add(new as isize - old as isize);
        moved.cast()
    }
}

fn map(length: usize) -> *mut u8 {
    // SAFETY: an anonymous mapping at an address of the kernel's choice; it is made to consist of huge pages where there are any.
    unsafe {
        let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let block = libc::mmap(ptr::null_mut(), length, rights, kind, -1, 0);
        if block == libc::MAP_FAILED {
            return ptr::null_mut();
        }
        libc::madvise(block, length, libc::MADV_HUGEPAGE);
        memory::add(length as isize);
        block.cast()
    }
}

/// # Safety
/// A mapping of this length that nobody uses.
unsafe fn unmap(block: *mut u8, length: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(block.cast(), length) };
    memory::add(-(length as isize));
}

#[cfg(test)]
mod tests {
    use super::{KEPT_MAX, LONGEST_KEPT, Mappings, SLOTS, SMALLEST, STEP};

    #[test]
    fn a_freed_mapping_is_taken_again_for_its_length_only() {
        let mappings = Mappings::new();
        let (block, is_new) = mappings.take(SMALLEST + 1);
        assert!(is_new && !block.is_null());
        // SAFETY: ours, and as long as was asked for.
        unsafe {
            block.add(SMALLEST).write(7);
            mappings.give(block, SMALLEST + 1);
        }
        let (other, is_new) = mappings.take(SMALLEST);
        assert!(is_new && other != block);
        let (again, is_new) = mappings.take(SMALLEST + STEP);
        assert_eq!((again, is_new), (block, false));
        // SAFETY: ours again.
        unsafe {
            assert_eq!(again.add(SMALLEST).read(), 7);
            mappings.give(again, SMALLEST + STEP);
            mappings.give(other, SMALLEST);
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mappings = Mappings::new();
        let kept = |mappings: &Mappings| mappings.kept.load(super::Relaxed);
        let blocks: Vec<*mut u8> = (0..=SLOTS).map(|_| mappings.take(SMALLEST).0).collect();
        // SAFETY: each is ours, and given once.
        blocks.into_iter().for_each(|block| unsafe { mappings.give(block, SMALLEST) });
        assert_eq!(kept(&mappings), SLOTS * SMALLEST);
        // SAFETY: as above.
        unsafe { mappings.give(mappings.take(LONGEST_KEPT + 1).0, LONGEST_KEPT + 1) };
        assert_eq!(kept(&mappings), SLOTS * SMALLEST, "too long to be kept");
        let blocks: Vec<*mut u8> = (0..SLOTS).map(|_| mappings.take(LONGEST_KEPT).0).collect();
        // SAFETY: as above.
        blocks.into_iter().for_each(|block| unsafe { mappings.give(block, LONGEST_KEPT) });
        assert!(kept(&mappings) <= KEPT_MAX);
    }

    #[test]
    fn what_is_kept_is_released() {
        let mappings = Mappings::new();
        // SAFETY: ours, and given once.
        unsafe { mappings.give(mappings.take(SMALLEST + STEP).0, SMALLEST + STEP) };
        assert_eq!(mappings.kept_bytes(), SMALLEST + STEP);
        mappings.release();
        assert_eq!(mappings.kept_bytes(), 0);
        let (block, is_new) = mappings.take(SMALLEST + STEP);
        assert!(is_new);
        // SAFETY: as above.
        unsafe { mappings.give(block, SMALLEST + STEP) };
        mappings.release();
    }

    #[test]
    fn a_block_that_grows_keeps_its_bytes() {
        let mappings = Mappings::new();
        let (block, _) = mappings.take(SMALLEST);
        // SAFETY: ours; lengths as given.
        unsafe {
            block.write(1);
            block.add(SMALLEST - 1).write(2);
            assert_eq!(mappings.resize(block, SMALLEST, SMALLEST), block);
            let moved = mappings.resize(block, SMALLEST, 4 * SMALLEST);
            assert_eq!((moved.read(), moved.add(SMALLEST - 1).read(), moved.add(4 * SMALLEST - 1).read()), (1, 2, 0));
            mappings.give(moved, 4 * SMALLEST);
        }
    }

    #[test]
    fn nobody_gets_what_another_has() {
        let mappings = Mappings::new();
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let mappings = &mappings;
                scope.spawn(move || {
                    for turn in 0..200_usize {
                        let size = SMALLEST + (turn % 3) * STEP;
                        let (block, _) = mappings.take(size);
                        // SAFETY: ours from here until it is given.
                        unsafe {
                            block.write_volatile(thread);
                            std::thread::yield_now();
                            assert_eq!(block.read_volatile(), thread);
                            mappings.give(block, size);
                        }
                    }
                });
            }
        });
    }
}
