//! Memory of dead versions, kept for new ones.
//!
//! A row that is updated again and again needs blocks of one size again and again. A block that was freed a moment ago
//! is still in the processor's nearer caches; an allocator returns any block of that size among all rows', so its
//! lines, and those of its free list, come from memory. The last freed goes first.
//!
//! **Invariant:** a block in here was allocated with the layout of its class, and nothing else refers to it.

#![cfg_attr(feature = "shuttle", allow(dead_code, reason = "the model keeps the memory of the dead"))]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Unit of block sizes, equal to the allocator's, so rounding up to it costs nothing.
pub(super) const STEP: usize = 16;
/// Size up to which blocks are kept.
const KEPT_SIZE_MAX: usize = 1024;
const CLASSES: usize = KEPT_SIZE_MAX / STEP;
/// Blocks kept of one size: as many as some transactions write while the garbage waits for the horizon's next move.
const BLOCKS_MAX: usize = 128;
/// Bytes kept of all sizes: as many as fit into a processor's own cache beside the rest.
const BYTES_MAX: usize = 256 << 10;

/// Blocks of one slot, by size.
#[derive(Debug)]
pub(crate) struct Spares {
    /// Blocks by class; empty until the first block comes.
    classes: Vec<Vec<NonNull<u8>>>,
    bytes: usize,
    bytes_max: usize,
}

// SAFETY: the blocks are memory without an owner's thread: see the invariant.
unsafe impl Send for Spares {}

impl Default for Spares {
    fn default() -> Spares {
        Spares { classes: Vec::new(), bytes: 0, bytes_max: BYTES_MAX }
    }
}

impl Spares {
    /// Creates spares that keep nothing.
    #[inline]
    pub(super) fn none() -> Spares {
        Spares { classes: Vec::new(), bytes: 0, bytes_max: 0 }
    }

    fn class(size: usize) -> usize {
        debug_assert!(0 < size && size.is_multiple_of(STEP));
        size / STEP - 1
    }

    /// Allocates memory of this layout, whose size is a multiple of [`STEP`]. Its bytes are arbitrary.
    #[inline]
    pub(super) fn allocate(&mut self, layout: Layout) -> NonNull<u8> {
        if let Some(block) = self.classes.get_mut(Spares::class(layout.size())).and_then(Vec::pop) {
            self.bytes -= layout.size();
            return block;
        }
        // SAFETY: the size is not zero.
        NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
    }

    /// Takes a block back.
    ///
    /// # Safety
    /// It was allocated with this layout, here or by the global allocator, and the caller is the only one who knows it.
    #[inline]
    pub(super) unsafe fn release(&mut self, block: NonNull<u8>, layout: Layout) {
        let size = layout.size();
        if size <= KEPT_SIZE_MAX && self.bytes_max != 0 {
            if self.bytes_max < self.bytes + size {
                // Sizes that are written no more shall not keep out those that are.
                self.clear();
            }
            if self.classes.is_empty() {
                self.classes.resize_with(CLASSES, Vec::new);
            }
            let blocks = &mut self.classes[Spares::class(size)];
            if blocks.len() < BLOCKS_MAX {
                self.bytes += size;
                return blocks.push(block);
            }
        }
        // SAFETY: the caller's promise.
        unsafe { dealloc(block.as_ptr(), layout) };
    }

    /// Frees every block.
    pub(crate) fn clear(&mut self) {
        for (class, blocks) in self.classes.iter_mut().enumerate() {
            for block in core::mem::take(blocks) {
                let layout = super::version::layout_of_size((class + 1) * STEP);
                // SAFETY: the invariant.
                unsafe { dealloc(block.as_ptr(), layout) };
            }
        }
        self.bytes = 0;
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::super::version::layout_of_size;
    use super::*;

    #[test]
    fn the_last_block_freed_of_a_size_is_the_next_one_used() {
        let mut spares = Spares::default();
        let [small, large] = [layout_of_size(64), layout_of_size(1024)];
        let [a, b, c] = [small, small, large].map(|layout| spares.allocate(layout));
        // SAFETY: allocated with these layouts just now.
        unsafe {
            spares.release(a, small);
            spares.release(c, large);
            spares.release(b, small);
        }
        assert_eq!(spares.bytes, 2 * 64 + 1024);
        assert_eq!([small, small, large].map(|layout| spares.allocate(layout)), [b, a, c]);
        assert_eq!(spares.bytes, 0);
        // SAFETY: as above.
        unsafe {
            spares.release(a, small);
            spares.release(b, small);
            spares.release(c, large);
        }
    }

    #[test]
    fn no_more_is_kept_than_the_bounds_say() {
        const SIZES: [usize; 4] = [64, 512, 960, 1024];
        let mut spares = Spares::default();
        let huge = layout_of_size(KEPT_SIZE_MAX + STEP);
        let block = spares.allocate(huge);
        // SAFETY: allocated with this layout just now.
        unsafe { spares.release(block, huge) };
        assert_eq!(spares.bytes, 0, "too large to be kept");
        for size in SIZES {
            let layout = layout_of_size(size);
            let blocks: Vec<_> = (0..2 * BLOCKS_MAX).map(|_| spares.allocate(layout)).collect();
            for block in blocks {
                // SAFETY: as above.
                unsafe { spares.release(block, layout) };
                assert!(spares.bytes <= BYTES_MAX);
            }
            assert!(spares.classes.iter().all(|blocks| blocks.len() <= BLOCKS_MAX));
        }
        assert!(BYTES_MAX / 4 < spares.bytes);
        spares.clear();
        assert_eq!(spares.bytes, 0);
    }

    #[test]
    fn sizes_that_nobody_writes_any_more_make_room() {
        let mut spares = Spares::default();
        for size in [1008, 1024, 64] {
            let layout = layout_of_size(size);
            let blocks: Vec<_> = (0..BLOCKS_MAX).map(|_| spares.allocate(layout)).collect();
            for block in blocks {
                // SAFETY: allocated with this layout just now.
                unsafe { spares.release(block, layout) };
            }
        }
        assert!(BLOCKS_MAX / 2 < spares.classes[Spares::class(64)].len());
    }
}
