//! Big blocks of the heap: mappings of the kernel's, some of which are kept when they are freed.
//!
//! A query's operators ask for arrays of many megabytes and free them again, tens of times a second. To return one to
//! the kernel takes about a millisecond, in which no other thread gets the processor where the kernel is not
//! preemptible, and the next one's pages come one fault at a time. So freed mappings wait here for the next owner that
//! asks for one of their length, and new ones are requested in huge pages. Mappings that are too many to be kept go
//! back to the kernel by the thread that purges, if there is one.
//!
//! **Invariant:** a mapping in a slot has no owner, and a thread that takes it empties the slot by the same step.
//! Nothing here waits, so it needs no region: an interrupt between two steps finds a mapping in a slot, or with its
//! owner.

use crate::memory;
use core::alloc::Layout;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize};

/// Blocks of at least this size are mappings.
pub(crate) const SMALLEST: usize = 8 << 20;
/// Lengths are multiples of this, the size of a huge page.
const STEP: usize = 2 << 20;
/// Longest mapping that is kept.
const LONGEST_KEPT: usize = 256 << 20;
/// Mappings of each length that are kept.
const SLOTS: usize = 4;
const LENGTHS: usize = (LONGEST_KEPT - SMALLEST) / STEP + 1;
/// Bounds of the bytes kept altogether, which are at most a sixteenth of the limit of memory.
const KEPT_LEAST: usize = 256 << 20;
const KEPT_MOST: usize = 1 << 30;
const PAGE: usize = 4096;

/// Returns true if a block of this layout is a mapping.
pub(crate) fn is_big(layout: &Layout) -> bool {
    layout.size() >= SMALLEST && layout.align() <= PAGE
}

/// Returns the bytes that may be kept altogether.
fn kept_max() -> usize {
    (memory::limit_bytes() / 16).clamp(KEPT_LEAST, KEPT_MOST)
}

/// Returns the length of the mapping of a block.
fn length_of(size: usize) -> usize {
    size.next_multiple_of(STEP)
}

/// Bytes that the purge returns by one call of the kernel.
const PURGED_AT_ONCE: usize = 4 << 20;

/// Freed mappings of the process.
pub(crate) struct Mappings {
    /// Mappings that wait for the next owner, by their lengths.
    slots: [[AtomicPtr<u8>; SLOTS]; LENGTHS],
    /// Mappings that wait for the purge, each a [`FreedMapping`]. Taken all at once, so that a list's head is never
    /// compared twice.
    doomed: AtomicPtr<u8>,
    /// Bytes of the mappings that wait for an owner or for the purge.
    kept: AtomicUsize,
    /// Mappings that were taken out of slots.
    reused: AtomicUsize,
    /// True if a thread purges.
    is_purged: AtomicBool,
}

/// First bytes of a mapping that waits for the purge.
struct FreedMapping {
    next: *mut u8,
    length: usize,
}

impl Mappings {
    pub(crate) const fn new() -> Mappings {
        Mappings {
            slots: [const { [const { AtomicPtr::new(ptr::null_mut()) }; SLOTS] }; LENGTHS],
            doomed: AtomicPtr::new(ptr::null_mut()),
            kept: AtomicUsize::new(0),
            reused: AtomicUsize::new(0),
            is_purged: AtomicBool::new(false),
        }
    }

    fn slots_of(&self, length: usize) -> &[AtomicPtr<u8>] {
        self.slots.get((length - SMALLEST) / STEP).map_or(&[], |slots| &slots[..])
    }

    /// Returns a mapping for a block of this size, at least [`SMALLEST`], and whether it is new, and so all zero. Null
    /// if there is no memory.
    pub(crate) fn take(&self, size: usize) -> (*mut u8, bool) {
        let length = length_of(size);
        for slot in self.slots_of(length) {
            if !slot.load(Relaxed).is_null() {
                let block = slot.swap(ptr::null_mut(), Acquire);
                if !block.is_null() {
                    self.kept.fetch_sub(length, Relaxed);
                    self.reused.fetch_add(1, Relaxed);
                    return (block, false);
                }
            }
        }
        if memory::is_tight(length) {
            self.release();
        }
        (map(length), true)
    }

    /// Returns the bytes of the mappings that are kept.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.kept.load(Relaxed)
    }

    /// Returns the number of mappings that have found another owner.
    pub(crate) fn reused(&self) -> usize {
        self.reused.load(Relaxed)
    }

    /// Returns every kept mapping to the kernel.
    pub(crate) fn release(&self) {
        self.release_doomed(unmap);
        self.release_kept(unmap);
    }

    /// Returns kept mappings to the kernel in steps, by a thread that does so again and again. Those that wait for an
    /// owner go only if `with_kept`.
    pub(crate) fn purge(&self, with_kept: bool) {
        self.is_purged.store(true, Relaxed);
        self.release_doomed(unmap_in_steps);
        if with_kept {
            self.release_kept(unmap_in_steps);
        }
    }

    fn release_kept(&self, unmap: unsafe fn(*mut u8, usize)) {
        for (slots, length) in self.slots.iter().zip((SMALLEST..).step_by(STEP)) {
            for slot in slots {
                let block = slot.swap(ptr::null_mut(), Acquire);
                if !block.is_null() {
                    self.kept.fetch_sub(length, Relaxed);
                    // SAFETY: a mapping of this length, which no other thread has: the slot was emptied by the same
                    // step.
                    unsafe { unmap(block, length) };
                }
            }
        }
    }

    fn release_doomed(&self, unmap: unsafe fn(*mut u8, usize)) {
        let mut block = self.doomed.swap(ptr::null_mut(), Acquire);
        while !block.is_null() {
            // SAFETY: mappings of the list belong to the thread that took it, and begin with what `doom` has written
            // there.
            unsafe {
                let FreedMapping { next, length } = block.cast::<FreedMapping>().read();
                self.kept.fetch_sub(length, Relaxed);
                unmap(block, length);
                block = next;
            }
        }
    }

    /// Leaves a mapping, which counts as kept, to the purge.
    ///
    /// # Safety
    /// The mapping has this length, and is not in use.
    unsafe fn doom(&self, block: *mut u8, length: usize) {
        let mut next = self.doomed.load(Relaxed);
        loop {
            // SAFETY: the caller's promise; mappings are aligned to pages.
            unsafe { block.cast::<FreedMapping>().write(FreedMapping { next, length }) };
            match self.doomed.compare_exchange_weak(next, block, AcqRel, Relaxed) {
                Ok(_) => return,
                Err(other) => next = other,
            }
        }
    }

    /// Takes back the mapping of a block of this size.
    ///
    /// # Safety
    /// The block came from [`take`](Mappings::take) or [`resize`](Mappings::resize) for a size with the same length,
    /// and is not in use.
    pub(crate) unsafe fn give(&self, block: *mut u8, size: usize) {
        let length = length_of(size);
        // Counted before another thread can take it.
        if self.kept.fetch_add(length, Relaxed) + length <= kept_max() {
            for slot in self.slots_of(length) {
                if slot.compare_exchange(ptr::null_mut(), block, AcqRel, Relaxed).is_ok() {
                    return;
                }
            }
        }
        // SAFETY: a mapping of this length, which is the caller's.
        unsafe {
            if self.is_purged.load(Relaxed) {
                self.doom(block, length);
            } else {
                self.kept.fetch_sub(length, Relaxed);
                unmap(block, length);
            }
        }
    }

    /// Turns the mapping of a block into one of another size, by moving its pages rather than their bytes. Returns null
    /// if there is no memory; the block is then as it was.
    ///
    /// # Safety
    /// As for [`give`](Mappings::give) with `old`; `new` is at least [`SMALLEST`].
    pub(crate) unsafe fn resize(&self, block: *mut u8, old: usize, new: usize) -> *mut u8 {
        let (old, new) = (length_of(old), length_of(new));
        if old == new {
            return block;
        }
        // Kept mappings make room for a block that grows as for one that is new.
        if memory::is_tight(new.saturating_sub(old)) {
            self.release();
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
/// A mapping of this length that is not in use.
unsafe fn unmap(block: *mut u8, length: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(block.cast(), length) };
    memory::add(-(length as isize));
}

/// # Safety
/// As for [`unmap`].
unsafe fn unmap_in_steps(block: *mut u8, length: usize) {
    for at in (0..length).step_by(PURGED_AT_ONCE) {
        // SAFETY: inside the mapping, whose bytes are not needed.
        unsafe {
            libc::madvise(block.add(at).cast(), PURGED_AT_ONCE.min(length - at), libc::MADV_DONTNEED);
        }
    }
    // SAFETY: the caller's promise.
    unsafe { unmap(block, length) };
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_KEPT, Mappings, SLOTS, SMALLEST, STEP, kept_max};

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
        assert!(kept(&mappings) <= kept_max());
        mappings.release();
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
    fn what_is_too_much_goes_by_the_purge_if_there_is_one() {
        let mappings = Mappings::new();
        // SAFETY: each is ours, and given once.
        let give = |length| unsafe { mappings.give(mappings.take(length).0, length) };
        give(LONGEST_KEPT + STEP);
        assert_eq!(mappings.kept_bytes(), 0, "nobody purges");
        mappings.purge(false);
        give(LONGEST_KEPT + STEP);
        give(LONGEST_KEPT + 2 * STEP);
        give(SMALLEST);
        assert_eq!(mappings.kept_bytes(), 2 * LONGEST_KEPT + 3 * STEP + SMALLEST);
        mappings.purge(false);
        assert_eq!(mappings.kept_bytes(), SMALLEST);
        mappings.purge(true);
        assert_eq!(mappings.kept_bytes(), 0);
        give(LONGEST_KEPT + STEP);
        mappings.release();
        assert_eq!(mappings.kept_bytes(), 0);
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
