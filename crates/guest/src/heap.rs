//! Allocator of WebAssembly modules: lists of free blocks, one for each size, and the exchange area.
//!
//! An invocation makes some dozens of small values, each used for a moment. Taking one from a list is a tenth of the
//! work of the general allocator, which provides the blocks.
//!
//! **Invariant:** a block belongs to its list's size for as long as the module lives, and is either in its list or in
//! use. The exchange area is a block that is never free, whoever gives it back. A module has one thread.
#![allow(unsafe_code)]

use crate::bytes::AREA_BYTES;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// Size of the smallest blocks in bytes, and alignment of all.
const LEAST: usize = 16;
/// Sizes of blocks: each is twice the one before.
const SIZES: usize = 7;

/// First free block of each size; null without one. A free block begins with the address of the next.
struct Heap(UnsafeCell<[*mut u8; SIZES]>);

// SAFETY: the module has one thread.
unsafe impl Sync for Heap {}

#[global_allocator]
static HEAP: Heap = Heap(UnsafeCell::new([ptr::null_mut(); SIZES]));

/// Exchange area; null until somebody asks for it.
static AREA: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// Returns the exchange area, a block for a vector of [`AREA_BYTES`] bytes.
pub(crate) fn area() -> *mut u8 {
    let area = AREA.load(Relaxed);
    if area.is_null() { make_area() } else { area }
}

#[cold]
fn make_area() -> *mut u8 {
    let area = ManuallyDrop::new(Vec::<u8>::with_capacity(AREA_BYTES)).as_mut_ptr();
    AREA.store(area, Relaxed);
    area
}

/// Returns the list for a layout; `None` if the general allocator has to do it.
fn list_of(layout: Layout) -> Option<usize> {
    let blocks = layout.size().div_ceil(LEAST).next_power_of_two();
    let at = blocks.trailing_zeros() as usize;
    (layout.align() <= LEAST && at < SIZES).then_some(at)
}

/// Returns the layout of a list's blocks.
fn layout_of(list: usize) -> Option<Layout> {
    Layout::from_size_align(LEAST << list, LEAST).ok()
}

impl Heap {
    /// Returns the place of a list's first block.
    fn first(&self, list: usize) -> *mut *mut u8 {
        debug_assert!(list < SIZES);
        self.0.get().cast::<*mut u8>().wrapping_add(list)
    }
}

// SAFETY: a block is at least as large and as aligned as the layout whose list it is in. It is in use from when it
// leaves its list, or is made, until it is put back, so no two values have it. Blocks come from the general allocator,
// and never go back.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some((list, whole)) = list_of(layout).and_then(|list| Some((list, layout_of(list)?))) else {
            // SAFETY: the caller's layout.
            return unsafe { System.alloc(layout) };
        };
        let first = self.first(list);
        // SAFETY: the place is one of the array's, and nobody else uses it: the module has one thread. A block in the
        // list has room for an address, which was written when it was put there.
        unsafe {
            let block = *first;
            if block.is_null() {
                return System.alloc(whole);
            }
            *first = block.cast::<*mut u8>().read();
            block
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(list) = list_of(layout) else {
            if block == AREA.load(Relaxed) {
                return;
            }
            // SAFETY: a block of this layout came from the general allocator, with the same layout.
            return unsafe { System.dealloc(block, layout) };
        };
        let first = self.first(list);
        // SAFETY: as in `alloc`; the caller does not use the block any more.
        unsafe {
            block.cast::<*mut u8>().write(*first);
            *first = block;
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's size, not 0, does not overflow with the layout's alignment.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (list_of(layout), list_of(new)) {
            (Some(old), Some(new)) if old == new => block,
            // SAFETY: both belong to the general allocator.
            (None, None) if block != AREA.load(Relaxed) => unsafe { System.realloc(block, layout, size) },
            // SAFETY: two blocks that do not overlap, each of its layout; the old one is not used any more.
            (Some(_) | None, _) => unsafe {
                let moved = self.alloc(new);
                if !moved.is_null() {
                    ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
                    self.dealloc(block, layout);
                }
                moved
            },
        }
    }
}
