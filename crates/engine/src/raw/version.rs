//! Versions: a header of words and a row image behind it, in one allocation.
//!
//! **Invariant:** the image and the row never change after the version was published. `begin` and `end` change as the
//! protocol in [`super::chain`] describes; `prev` only ever goes on to an older version, when [`super::prune`] takes
//! the ones between out. Memory is freed only by [`super::garbage`], when no reader can reach it.
//!
//! ```text
//!  0        8        16       24       32            36         40
//! | begin  | end    | prev   | row id | image bytes | flags    | image ...  | 0 to 15 bytes of padding |
//! | word   | word   | ptr    | u64    | u32         | u32      |
//! ```

use super::slots::{NEVER, SnapshotPin};
use super::spares::{STEP, Spares};
use crate::memory::block_bytes;
use crate::sync::{AcqRel, Acquire, AtomicPtr, AtomicU64, Relaxed, Release, SeqCst};
use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;
use std::alloc::Layout;

/// The header. The image follows it in memory.
#[repr(C)]
pub struct Version {
    /// Start of the version's validity: a commit timestamp or a transaction's word.
    pub(super) begin: AtomicU64,
    /// End of the version's validity: a commit timestamp or a transaction's word, or [`NEVER`] while it was not ended.
    pub(super) end: AtomicU64,
    /// Version before this one that was committed, or this transaction's own.
    prev: AtomicPtr<Version>,
    row: u64,
    image_bytes: u32,
    flags: AtomicU32,
}

#[cfg(not(feature = "shuttle"))]
const _: () = {
    assert!(size_of::<Version>() == 40);
    assert!(align_of::<Version>() == 8);
    assert!(std::mem::offset_of!(Version, prev) == 16);
    assert!(std::mem::offset_of!(Version, row) == 24);
    assert!(std::mem::offset_of!(Version, image_bytes) == 32);
};

/// Flag of a version that was taken out of its row's chain: a walk that begins later does not find it.
pub(super) const UNLINKED: u32 = 1;
/// Flag of a version below a gap: versions between it and the next newer one were taken out, so it does not end where
/// that one begins.
pub(super) const GAP: u32 = 2;
/// Flag of a version that may be the only one for whose key an index has entries: the thread that clears it away looks.
pub(super) const DUTY: u32 = 4;
/// Flag of a version whose maker had the row to itself, or had a version since taken out below it: it changed a key, or had locked the
/// row FOR UPDATE.
pub(super) const SOLE: u32 = 16;

/// Flag, in the model, of a version that was freed.
#[cfg(feature = "shuttle")]
const FREED: u32 = 8;

impl Version {
    /// Returns the row image.
    #[inline]
    pub(crate) fn image(&self) -> &[u8] {
        let this: *const Version = self;
        // SAFETY: a version is only made by `NewVersion::new`, which puts `image_bytes` initialised bytes behind the
        // header in the same allocation; they never change once another can see the version.
        unsafe { std::slice::from_raw_parts(this.add(1).cast::<u8>(), self.image_bytes as usize) }
    }

    /// Returns the begin of the version, if it is committed and stamped, not after `time`, and the version was neither
    /// ended nor claimed.
    pub(crate) fn settled_by(&self, time: u64) -> Option<u64> {
        let begin = self.begin.load(Acquire);
        (begin <= time && self.end.load(Acquire) == NEVER).then_some(begin)
    }

    /// Returns the row that this is a version of.
    #[inline]
    pub(crate) fn row(&self) -> u64 {
        self.row
    }

    /// Returns the version before this one.
    ///
    /// Call it only when this version's creation is not visible to `pin`'s snapshot, or is above the horizon of `pin`'s
    /// pass, or by its creator: those are the cases in which the older version is kept for the pin.
    #[inline]
    pub(super) fn prev<'p>(&self, _pin: &'p SnapshotPin) -> Option<&'p Version> {
        let prev = self.prev.load(Acquire);
        // SAFETY: the version before is freed when the horizon has reached its end, or when it was unlinked and all walks
        // that began before are over. The first: a reader that comes by has a snapshot, or a pass pinned, below this
        // one's creation. Without a gap between the two that is the older one's end, so the horizon is below that. With
        // a gap no snapshot lies in it, so the snapshot is below the older one's end as well; and for a pass, a version
        // below a gap is always unlinked before it is freed. The second: the pin's owner walks. See `README.md` and
        // `horizon`.
        let prev = unsafe { prev.as_ref() };
        #[cfg(feature = "shuttle")]
        assert!(prev.is_none_or(|prev| prev.flags() & FREED == 0), "a walk met a version that was freed");
        prev
    }

    /// Returns true if there is no version before this one, freed or not.
    pub(super) fn is_first(&self) -> bool {
        self.prev.load(Acquire).is_null()
    }

    /// Returns true if `prev` is the version before, which may be gone.
    pub(super) fn comes_after(&self, prev: &Version) -> bool {
        std::ptr::eq(self.prev.load(Acquire), prev)
    }

    /// Continues to `prev` from here: the versions between were unlinked. With the row's latch.
    pub(super) fn set_prev(&self, prev: Option<&Version>) {
        let prev = prev.map_or(std::ptr::null_mut(), |prev| std::ptr::from_ref(prev).cast_mut());
        self.prev.store(prev, SeqCst);
    }

    #[inline]
    pub(super) fn flags(&self) -> u32 {
        self.flags.load(Acquire)
    }

    /// Sets flags.
    pub(super) fn set_flag(&self, flags: u32) {
        self.flags.fetch_or(flags, AcqRel);
    }

    #[inline]
    pub(super) fn pointer(&self) -> VersionPtr {
        VersionPtr(NonNull::from(self))
    }

    /// Returns the bytes that the allocator counts for the version.
    pub(crate) fn bytes(&self) -> usize {
        block_bytes(layout_of(self.image_bytes as usize).size())
    }
}

fn layout_of(image_bytes: usize) -> Layout {
    layout_of_size((size_of::<Version>() + image_bytes).next_multiple_of(STEP))
}

/// Returns the layout of a version whose header, image and padding have together `bytes` bytes.
pub(super) fn layout_of_size(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, align_of::<Version>()).expect("an image is bounded far below isize::MAX")
}

/// Pointer to a version in a write set or a garbage queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct VersionPtr(NonNull<Version>);

// SAFETY: all that is reached through it is atomics and immutable data; freeing needs `VersionPtr::free`'s contract.
unsafe impl Send for VersionPtr {}
// SAFETY: as above; a shared pointer gives no more than a copy of it.
unsafe impl Sync for VersionPtr {}

impl VersionPtr {
    /// Returns the version. Its holder is the write set of the transaction that owns `pin`, or the garbage queue that
    /// owns the version, or a committed write that `pin`'s transaction is compared with, so it was not freed.
    #[inline]
    pub(super) fn get(self, _pin: &SnapshotPin) -> &Version {
        // SAFETY: a write set names versions that its transaction made or claimed. A claimed one began at or before the
        // snapshot and did not end before it, so that snapshot keeps it, whoever ends it; one that it made is retired by
        // itself, or with a time after the snapshot. No other thread frees what a garbage queue owns. The third
        // kind of holder, a committed write, says in `recent` why its versions stay.
        unsafe { self.0.as_ref() }
    }

    /// Returns true if any of these flags is set. For the garbage queue that owns the version.
    #[inline]
    pub(super) fn has_flag(self, flags: u32) -> bool {
        // SAFETY: the queue that owns it is who frees it.
        unsafe { self.0.as_ref() }.flags() & flags != 0
    }

    /// Returns the row of the version. For the garbage queue that owns it.
    pub(super) fn row(self) -> u64 {
        // SAFETY: as in `has_flag`.
        unsafe { self.0.as_ref() }.row
    }

    /// Frees the version: its memory goes to the spares. Returns its bytes.
    ///
    /// # Safety
    /// No reader can reach it any more, and no other thread frees it.
    pub(super) unsafe fn free(self, spares: &mut Spares) -> usize {
        #[cfg(feature = "shuttle")]
        {
            // The model looks for readers that come too late, so it keeps the memory.
            // SAFETY: nothing is ever freed in the model.
            let version = unsafe { self.0.as_ref() };
            let _ = spares;
            assert!(version.flags() & FREED == 0, "a version is freed twice");
            version.set_flag(FREED);
            version.bytes()
        }
        #[cfg(not(feature = "shuttle"))]
        // SAFETY: the caller owns the version and no reference to it is left.
        unsafe {
            let layout = layout_of((*self.0.as_ptr()).image_bytes as usize);
            std::ptr::drop_in_place(self.0.as_ptr());
            spares.release(self.0.cast(), layout);
            block_bytes(layout.size())
        }
    }
}

/// A version that no other thread has seen.
pub(crate) struct NewVersion(NonNull<Version>);

impl NewVersion {
    /// Creates a version with this begin word, which was not ended.
    pub(crate) fn new(begin: u64, row: u64, prev: Option<&Version>, image: &[u8]) -> NewVersion {
        NewVersion::with(&mut Spares::none(), begin, row, prev, image)
    }

    /// Creates a version as [`NewVersion::new`] does, in memory from the spares.
    #[inline]
    pub(crate) fn with(spares: &mut Spares, begin: u64, row: u64, prev: Option<&Version>, image: &[u8]) -> NewVersion {
        let layout = layout_of(image.len());
        let prev = prev.map_or(std::ptr::null_mut(), |prev| std::ptr::from_ref(prev).cast_mut());
        let header = Version {
            begin: AtomicU64::new(begin),
            end: AtomicU64::new(NEVER),
            prev: AtomicPtr::new(prev),
            row,
            image_bytes: image.len() as u32,
            flags: AtomicU32::new(0),
        };
        let version = spares.allocate(layout).cast::<Version>();
        // SAFETY: the writes stay inside the layout: the header first, `image.len()` bytes behind it.
        unsafe {
            version.write(header);
            version.add(1).cast::<u8>().copy_from_nonoverlapping(NonNull::from(image).cast(), image.len());
            NewVersion(version)
        }
    }

    #[inline]
    fn into_pointer(self) -> *mut Version {
        let pointer = self.0.as_ptr();
        std::mem::forget(self);
        pointer
    }
}

impl Drop for NewVersion {
    fn drop(&mut self) {
        // SAFETY: no other thread has seen the version, so this is the only owner.
        unsafe { VersionPtr(self.0).free(&mut Spares::none()) };
    }
}

/// Number of lines of a version that are worth asking for; the processor has about that many misses under way.
const PREFETCHED_LINES_MAX: usize = 8;
const LINE_BYTES: usize = 64;

#[inline]
fn prefetch(line: *const u8) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch does not access memory as far as the program can tell, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
}

/// Entry of one row in the row map: its newest version, committed or not.
#[derive(Debug)]
pub struct RowCell(AtomicPtr<Version>);

impl RowCell {
    /// Creates the entry of a row that does not exist.
    pub fn new() -> RowCell {
        RowCell(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Returns the newest version.
    #[inline]
    pub(crate) fn load<'p>(&self, _pin: &'p SnapshotPin) -> Option<&'p Version> {
        // SAFETY: what the map points at is not retired yet, so it is freed only after `pin` is gone. Acquire pairs with
        // the release that published it, so its header and image are initialised.
        let newest = unsafe { self.0.load(Acquire).as_ref() };
        #[cfg(feature = "shuttle")]
        assert!(newest.is_none_or(|newest| newest.flags() & FREED == 0), "the map leads to a version that was freed");
        newest
    }

    /// Returns true if there is no version.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.load(Relaxed).is_null()
    }

    /// Asks the processor for this entry.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch(std::ptr::from_ref(self).cast());
    }

    /// Asks the processor for the newest version, whose image is expected to have this length.
    #[inline]
    pub(crate) fn prefetch_newest(&self, image_bytes: usize) {
        let newest = self.0.load(Relaxed).cast_const().cast::<u8>();
        let lines = (size_of::<Version>() + image_bytes).div_ceil(LINE_BYTES);
        for line in 0..lines.min(PREFETCHED_LINES_MAX) {
            prefetch(newest.wrapping_add(line * LINE_BYTES));
        }
    }

    /// Replaces `old` by `new` if it still is the newest. Returns `new` if not.
    #[inline]
    pub(super) fn publish<'p>(
        &self,
        old: Option<&Version>,
        new: NewVersion,
        _pin: &'p SnapshotPin,
    ) -> Result<&'p Version, NewVersion> {
        let old = old.map_or(std::ptr::null_mut(), |old| std::ptr::from_ref(old).cast_mut());
        match self.0.compare_exchange(old, new.0.as_ptr(), SeqCst, Acquire) {
            // SAFETY: from now on the version is kept as any published one is, and `pin` is older than its retirement.
            Ok(_) => Ok(unsafe { &*new.into_pointer() }),
            Err(_) => Err(new),
        }
    }

    /// Puts `old` back in the place of `new`, if `new` still is the newest.
    pub(super) fn restore(&self, new: &Version, old: Option<&Version>) {
        let old = old.map_or(std::ptr::null_mut(), |old| std::ptr::from_ref(old).cast_mut());
        // A failure means that a more important transaction took the row and linked its own version over ours.
        let _ = self.0.compare_exchange(std::ptr::from_ref(new).cast_mut(), old, SeqCst, Acquire);
    }

    /// Empties the entry: the row was deleted before every snapshot.
    pub(super) fn clear(&self) {
        self.0.store(std::ptr::null_mut(), Release);
    }

    /// Empties the entry, if `top` still is the newest version.
    pub(super) fn vacate(&self, top: &Version) -> bool {
        let top = std::ptr::from_ref(top).cast_mut();
        self.0.compare_exchange(top, std::ptr::null_mut(), SeqCst, Acquire).is_ok()
    }

    /// Frees the newest version when the whole table goes. Returns its bytes, and whether it was not ended.
    pub(super) fn free_newest(&mut self) -> Option<(usize, bool)> {
        let version = NonNull::new(self.0.load(Acquire))?;
        // SAFETY: `&mut self` proves that no thread reads the row map; the newest version belongs to no queue.
        unsafe {
            let is_live = version.as_ref().end.load(Acquire) == NEVER;
            Some((VersionPtr(version).free(&mut Spares::none()), is_live))
        }
    }
}
