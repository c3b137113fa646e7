//! The global allocator as a non-preemptible region.
//!
//! An allocator that is entered again halfway corrupts itself: without this guard the prototype crashed in 11 of 11
//! runs. So every call into it is a [`Region`](crate::Region), everywhere in the process; [`self_test`] checks at start
//! that this is so (a Rust dylib, for one, would bring an unguarded shim of its own).
//!
//! Work that would take long inside the region happens outside it: big blocks are mappings of their own
//! (`mappings.rs`), and this module clears and copies middle-sized ones itself. No thread that frees memory returns it
//! to the kernel ([`prepare_heap`]), because that costs milliseconds inside the allocator: [`crate::memory::purge`]
//! does, on a thread of its own.

use crate::mappings::{Mappings, SMALLEST, is_big};
use crate::memory::class_bytes;
use crate::region::{LOCAL, Local, NoPreempt};
use core::alloc::{GlobalAlloc, Layout};
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

/// Blocks of at least this size are cleared and moved outside the region.
const MOVED_OUTSIDE: usize = 32 << 10;

/// Freed mappings of the whole process.
static MAPPINGS: Mappings = Mappings::new();

/// Returns the freed big blocks.
pub(crate) fn mappings() -> &'static Mappings {
    &MAPPINGS
}

/// An allocator that makes every call a region.
pub struct Guarded<A>(A);

/// Allocator of every Overtake process: `#[global_allocator] static HEAP: preempt::Heap = preempt::Heap::HEAP`.
pub type Heap = Guarded<Mimalloc>;

/// mimalloc 3.
///
/// Aligned allocation takes a longer way, and more memory, for all sizes that are not a power of two. The
/// blocks of its plain functions are aligned to 8 bytes, and to 16 from that size on (`MI_MAX_ALIGN_SIZE`), which is
/// enough for nearly everything. (The Rust crate `mimalloc` always asks for aligned memory: TPC-C's New-Order spent 8 %
/// in there.)
#[derive(Debug)]
pub struct Mimalloc;

#[inline]
fn is_aligned_anyway(layout: &Layout) -> bool {
    layout.align() <= 8 || (layout.align() == 16 && 16 <= layout.size())
}

// SAFETY: plain calls of an allocator, each with arguments that it accepts: sizes and alignments as `Layout` promises
// them, and blocks that it allocated. `mi_free` and the functions for reallocation accept blocks of both kinds of
// functions.
unsafe impl GlobalAlloc for Mimalloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: see above.
        unsafe {
            if is_aligned_anyway(&layout) {
                libmimalloc_sys::mi_malloc(layout.size()).cast()
            } else {
                libmimalloc_sys::mi_malloc_aligned(layout.size(), layout.align()).cast()
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: see above.
        unsafe { libmimalloc_sys::mi_free(block.cast()) };
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: see above.
        unsafe {
            if is_aligned_anyway(&layout) {
                libmimalloc_sys::mi_zalloc(layout.size()).cast()
            } else {
                libmimalloc_sys::mi_zalloc_aligned(layout.size(), layout.align()).cast()
            }
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: see above. Whether a block is aligned anyway depends on its new size.
        unsafe {
            let new = Layout::from_size_align_unchecked(size, layout.align());
            if is_aligned_anyway(&new) {
                libmimalloc_sys::mi_realloc(block.cast(), size).cast()
            } else {
                libmimalloc_sys::mi_realloc_aligned(block.cast(), size, layout.align()).cast()
            }
        }
    }
}

impl Guarded<Mimalloc> {
    /// mimalloc, guarded.
    pub const HEAP: Heap = Guarded(Mimalloc);

    /// Allocates a block of `bytes` (0 counts as 1) from mimalloc and frees it, past the guard: a benchmark compares
    /// the guard with this. The witness keeps interrupts out, as the guard would.
    #[inline]
    pub fn take_and_give_unguarded(bytes: usize, _: &NoPreempt) {
        let layout = Layout::array::<u8>(bytes.max(1)).expect("a benchmark asks for small blocks");
        // SAFETY: the layout is not empty, the block goes back with the layout it was taken with, and no interrupt
        // can come between the two, or enter mimalloc halfway, as long as the witness lives.
        unsafe { Mimalloc.dealloc(core::hint::black_box(Mimalloc.alloc(layout)), layout) };
    }
}

impl<A> Guarded<A> {
    /// Guards the allocator `inner`.
    pub const fn new(inner: A) -> Guarded<A> {
        Guarded(inner)
    }

    #[inline]
    fn guarded<R>(call: impl FnOnce(&Local) -> R) -> R {
        LOCAL.with(|local| {
            if crate::plants::is_planted("allocator_guard_off") {
                return call(local);
            }
            local.enter();
            let result = call(local);
            local.exit();
            result
        })
    }
}

impl<A> Guarded<A> {
    /// Calls `call` for a block of `new` bytes in place of one of `old`, and counts it if it returns a block.
    #[inline]
    fn counted(old: usize, new: usize, call: impl FnOnce() -> *mut u8) -> *mut u8 {
        Self::guarded(|local| {
            let block = call();
            if !block.is_null() {
                local.held.add(class_bytes(new) - class_bytes(old));
            }
            block
        })
    }

    /// Counts a block as [`counted`](Self::counted) does, for mappings, which the total counts itself.
    fn counted_big(old: usize, new: usize, call: impl FnOnce() -> *mut u8) -> *mut u8 {
        let block = call();
        if !block.is_null() {
            LOCAL.with(|local| local.held.add_big(new as isize - old as isize));
        }
        block
    }
}

// SAFETY: every block comes from, and goes back to, the inner allocator or the mappings. Which of the two depends only on
// the layout, which callers must repeat exactly, so a block returns to where it came from.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Guarded<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_big(&layout) {
            return Self::counted_big(0, layout.size(), || MAPPINGS.take(layout.size()).0);
        }
        // SAFETY: the caller's promise, passed on.
        Self::counted(0, layout.size(), || unsafe { self.0.alloc(layout) })
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_big(&layout) {
            // SAFETY: a block of this layout is a mapping, and the caller's to give.
            unsafe { MAPPINGS.give(block, layout.size()) };
            LOCAL.with(|local| local.held.add_big(-(layout.size() as isize)));
            return;
        }
        // SAFETY: the caller's promise, passed on.
        Self::guarded(|local| unsafe {
            self.0.dealloc(block, layout);
            local.held.add(-class_bytes(layout.size()));
        });
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_big(&layout) {
            let mut is_new = true;
            let block = Self::counted_big(0, layout.size(), || {
                let taken = MAPPINGS.take(layout.size());
                is_new = taken.1;
                taken.0
            });
            if !is_new {
                // SAFETY: a mapping that is at least so long, and the caller's.
                unsafe { ptr::write_bytes(block, 0, layout.size()) };
            }
            return block;
        }
        if layout.size() < MOVED_OUTSIDE {
            // SAFETY: the caller's promise, passed on.
            return Self::counted(0, layout.size(), || unsafe { self.0.alloc_zeroed(layout) });
        }
        // SAFETY: a new block of this size is ours to clear.
        unsafe {
            let block = self.alloc(layout);
            if !block.is_null() {
                ptr::write_bytes(block, 0, layout.size());
            }
            block
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that `size` is valid for this alignment.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if is_big(&layout) && is_big(&new) {
            // SAFETY: a block of this layout is a mapping, and the caller's.
            return Self::counted_big(layout.size(), size, || unsafe { MAPPINGS.resize(block, layout.size(), size) });
        }
        if layout.size() < MOVED_OUTSIDE && size < SMALLEST {
            // SAFETY: the caller's promise, passed on.
            return Self::counted(layout.size(), size, || unsafe { self.0.realloc(block, layout, size) });
        }
        // SAFETY: both blocks are valid for the smaller size, and the old one is given back with its own layout.
        unsafe {
            let moved = self.alloc(new);
            if !moved.is_null() {
                ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
                self.dealloc(block, layout);
            }
            moved
        }
    }
}

/// Error: the process allocates past the guard, so the first interrupt inside an allocation would corrupt the heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardMissing;

impl core::fmt::Display for GuardMissing {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(
            "the global allocator is not preempt::Heap, so interrupting this process would corrupt its memory; \
             build overtake as one static binary",
        )
    }
}

impl core::error::Error for GuardMissing {}

/// Checks that this process allocates through the guard: a probe planted in the thread's state must be consumed by
/// the region of an allocation made by std. Call it at start, before any worker registers on this thread.
///
/// # Errors
/// [`GuardMissing`]: do not register workers then.
pub fn self_test() -> Result<(), GuardMissing> {
    let covered = |allocate: &dyn Fn()| {
        LOCAL.with(|local| {
            local.pending.store(true, Relaxed);
            allocate();
            !local.pending.swap(false, Relaxed)
        })
    };
    let boxed = covered(&|| drop(core::hint::black_box(Box::new(0_u64))));
    let by_std = covered(&|| drop(core::hint::black_box(std::ffi::CString::new("probe"))));
    let large = covered(&|| drop(core::hint::black_box(vec![0_u8; MOVED_OUTSIDE])));
    if boxed && by_std && large { Ok(()) } else { Err(GuardMissing) }
}

/// `mi_option_purge_delay` of mimalloc 3 (`mimalloc.h`, `mi_option_e`); the Rust crate names none of these.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
/// `mi_option_minimal_purge_size`, in KiB.
const MINIMAL_PURGE_SIZE: libmimalloc_sys::mi_option_t = 44;
/// Milliseconds: some thirty years. Not -1, with which mimalloc would not record what is free.
const NEVER: core::ffi::c_long = 1 << 40;

/// Sets the allocator up for short pauses: freed memory stays with it until [`crate::memory::purge`]. Call it at start.
pub fn prepare_heap() {
    // SAFETY: a plain call into mimalloc, which this process uses as its allocator.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, NEVER) };
}

/// Returns the pages of this thread's heap in which no block is left to the allocator. Other threads free blocks of
/// them, too, and the allocator learns of that when their owner looks.
pub(crate) fn collect() {
    LOCAL.with(|local| {
        local.enter();
        // SAFETY: as in `purge`. Without force it calls the kernel for nothing.
        unsafe { libmimalloc_sys::mi_collect(false) };
        local.exit();
    });
}

/// Returns mimalloc's free memory to the kernel, as far as aligned ranges of `range_kib` are free.
pub(crate) fn purge(range_kib: usize) {
    LOCAL.with(|local| {
        local.enter();
        // SAFETY: plain calls; an interrupt cannot enter mimalloc halfway, as this is a region.
        unsafe {
            libmimalloc_sys::mi_option_set(MINIMAL_PURGE_SIZE, range_kib as core::ffi::c_long);
            libmimalloc_sys::mi_collect(true);
        }
        local.exit();
    });
}
