//! Rings and frames that are shared with the kernel.
//!
//! **Invariant:** a frame is either here, as a [`Frame`] that nobody can copy, or with the kernel. Its bytes are
//! reached through the frame alone, so nobody looks at them while the kernel may change them. A frame that the kernel gives
//! back without having it is not taken.
#![allow(unsafe_code)]

use crate::system;
use std::io;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Lets the reactor of this thread's runtime wait for frames.
pub(crate) fn watched(socket: &OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    let socket = socket.try_clone()?;
    // SAFETY: the result owns its descriptor, which stays open for as long as it is registered.
    Ok(unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }?)
}

/// Part of the address space.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the value. Who reaches into it says why that is allowed.
unsafe impl Send for Mapping {}
// SAFETY: the same.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this mapping is ours, and no reference to it outlives the value.
        unsafe { system::unmap(self.base, self.bytes) };
    }
}

/// Entry of the rings that carry frames: the kernel's `xdp_desc`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Descriptor {
    pub(crate) address: u64,
    pub(crate) length: u32,
    pub(crate) options: u32,
}

/// Entry of a ring: any bytes are a value.
///
/// # Safety
/// The type has neither invalid values nor addresses.
pub(crate) unsafe trait Entry: Copy {}
// SAFETY: three numbers.
unsafe impl Entry for Descriptor {}
// SAFETY: a number.
unsafe impl Entry for u64 {}

/// Ring of which this process is one side, and the kernel the other one.
#[derive(Debug)]
pub(crate) struct Ring<E> {
    mapping: Mapping,
    offsets: [usize; 4],
    size: u32,
    /// Own position: what it has produced or consumed.
    own: u32,
    entries: PhantomData<E>,
}

impl<E: Entry> Ring<E> {
    /// Maps a ring of a socket, with this number of entries, a power of two.
    pub(crate) fn map(socket: &OwnedFd, page: i64, at: &libc::xdp_ring_offset, size: u32) -> io::Result<Ring<E>> {
        let offsets = [at.producer, at.consumer, at.flags, at.desc].map(|offset| offset as usize);
        let bytes = offsets[3] + size as usize * size_of::<E>();
        let words_fit = offsets[..3].iter().all(|offset| offset.is_multiple_of(4) && offset + 4 <= bytes);
        if !size.is_power_of_two() || !words_fit || !offsets[3].is_multiple_of(align_of::<E>()) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel's rings are not understood"));
        }
        let mapping = Mapping { base: system::map(Some((socket, page)), bytes)?, bytes };
        Ok(Ring { mapping, offsets, size, own: 0, entries: PhantomData })
    }

    fn word(&self, which: usize) -> &AtomicU32 {
        let offset = self.offsets[which];
        // SAFETY: aligned and within the mapping, see `map`. The kernel changes it atomically.
        unsafe { AtomicU32::from_ptr(self.mapping.base.as_ptr().add(offset).cast()) }
    }

    fn producer(&self) -> &AtomicU32 {
        self.word(0)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.word(1)
    }

    fn entry(&self, position: u32) -> *mut E {
        let at = (position & (self.size - 1)) as usize;
        // SAFETY: less than the size, so within the mapping.
        unsafe { self.mapping.base.as_ptr().add(self.offsets[3]).cast::<E>().add(at) }
    }

    /// Produces an entry, for which there is room. The kernel sees it when it is [published](Ring::publish).
    pub(crate) fn push(&mut self, entry: E) -> bool {
        if self.size <= self.own.wrapping_sub(self.consumer().load(Acquire)) {
            return false;
        }
        // SAFETY: the kernel has consumed this entry, and reads it again when it is published. This side produces.
        unsafe { self.entry(self.own).write(entry) };
        self.own = self.own.wrapping_add(1);
        true
    }

    /// Shows the kernel what was produced.
    pub(crate) fn publish(&self) {
        self.producer().store(self.own, Release);
    }

    /// Returns true if the kernel has consumed everything that was produced.
    pub(crate) fn is_consumed(&self) -> bool {
        self.consumer().load(Acquire) == self.own
    }

    /// Consumes an entry. The kernel may use its place when it is [released](Ring::release).
    pub(crate) fn pop(&mut self) -> Option<E> {
        if self.producer().load(Acquire) == self.own {
            return None;
        }
        // SAFETY: the kernel has produced this entry, and writes it again when it is released. Any bytes are a value.
        let entry = unsafe { self.entry(self.own).read() };
        self.own = self.own.wrapping_add(1);
        Some(entry)
    }

    /// Gives the kernel the places of what was consumed.
    pub(crate) fn release(&self) {
        self.consumer().store(self.own, Release);
    }

    /// Returns true if the kernel has to be told of what was published.
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.word(2).load(Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// Frame that is here.
#[derive(Debug)]
pub(crate) struct Frame(u32);

/// Some of the frames of a socket.
#[derive(Debug)]
pub(crate) struct Frames {
    mapping: Arc<Mapping>,
    frame_bytes: usize,
    /// Number of the first one.
    first: u32,
    /// For each one, whether the kernel has it.
    is_away: Vec<bool>,
}

impl Frames {
    /// Creates two parts of the memory of frames, and registers it. Returns them with the frames themselves, all here.
    pub(crate) fn create(
        socket: &OwnedFd,
        frame_bytes: usize,
        counts: [u32; 2],
    ) -> io::Result<[(Frames, Vec<Frame>); 2]> {
        let bytes = (counts[0] + counts[1]) as usize * frame_bytes;
        let mapping = Arc::new(Mapping { base: system::map(None, bytes)?, bytes });
        system::register_frames(socket, mapping.base, bytes, frame_bytes)?;
        let part = |first: u32, count: u32| {
            let is_away = vec![false; count as usize];
            let frames = Frames { mapping: Arc::clone(&mapping), frame_bytes, first, is_away };
            (frames, (first..first + count).map(Frame).collect())
        };
        Ok([part(0, counts[0]), part(counts[0], counts[1])])
    }

    /// Returns the bytes of a frame.
    pub(crate) fn bytes(&mut self, frame: &mut Frame) -> &mut [u8] {
        let at = frame.0 as usize * self.frame_bytes;
        assert!(at + self.frame_bytes <= self.mapping.bytes, "a frame of another memory");
        // SAFETY: within the mapping. The frame is here, so the kernel does not touch it; both borrows are exclusive,
        // and the other part of the memory has other frames.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.base.as_ptr().add(at), self.frame_bytes) }
    }

    /// Gives a frame away. Returns its address for the kernel.
    pub(crate) fn give(&mut self, frame: Frame) -> u64 {
        if let Some(is_away) = self.is_away.get_mut((frame.0 - self.first) as usize) {
            *is_away = true;
        }
        u64::from(frame.0) * self.frame_bytes as u64
    }

    /// Takes the frame with an address back, which the kernel names. Returns it with the offset in it.
    pub(crate) fn take(&mut self, address: u64) -> Option<(Frame, usize)> {
        let number = u32::try_from(address / self.frame_bytes as u64).ok()?;
        let is_away = self.is_away.get_mut(number.checked_sub(self.first)? as usize)?;
        let offset = (address % self.frame_bytes as u64) as usize;
        std::mem::replace(is_away, false).then_some((Frame(number), offset))
    }
}
