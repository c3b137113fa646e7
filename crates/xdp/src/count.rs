//! Counters of the process, and the bytes that connections hold.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Memory of the process, of which ports and connections are parts.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Hears how many bytes more are held; fewer if it is negative.
    pub change: fn(i64),
    /// Returns true if this number of bytes may be held more.
    pub has_room: fn(usize) -> bool,
}

/// Bytes of one object, for as long as it exists.
#[derive(Debug)]
pub(crate) struct Counted {
    memory: Memory,
    bytes: usize,
}

impl Counted {
    pub(crate) fn new(memory: Memory, bytes: usize) -> Counted {
        (memory.change)(bytes as i64);
        Counted { memory, bytes }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.memory.change)(-(self.bytes as i64));
    }
}

/// Counter.
pub(crate) struct Count(AtomicU64);

impl Count {
    const fn new() -> Count {
        Count(AtomicU64::new(0))
    }

    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

pub(crate) static RECEIVED: Count = Count::new();
pub(crate) static SENT: Count = Count::new();
pub(crate) static REFUSED: Count = Count::new();
pub(crate) static UNFINISHED: Count = Count::new();
pub(crate) static COOKIES: Count = Count::new();
pub(crate) static RESETS: Count = Count::new();
pub(crate) static PROBES: Count = Count::new();
pub(crate) static ACCEPTED: Count = Count::new();
pub(crate) static EMPTY_LOOKS: Count = Count::new();
pub(crate) static SLEEPS: Count = Count::new();
static CALLS: Count = Count::new();
static KERNEL_NS: Count = Count::new();

/// Books a call of the kernel that has begun at this time.
pub(crate) fn kernel(begun: Instant) {
    CALLS.add(1);
    KERNEL_NS.add(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
}

/// Counters of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpCounts {
    /// Frames that were diverted to this process.
    pub received: u64,
    /// Frames that were sent.
    pub sent: u64,
    /// Diverted frames that were no valid TCP.
    pub refused: u64,
    /// Diverted frames whose sender had left the checksum to its device.
    pub unfinished: u64,
    /// Answers to connection requests of which nothing was kept, because too many were open.
    pub cookies: u64,
    /// Resets in answer to segments of no connection.
    pub resets: u64,
    /// Segments sent again because no answer had come for long.
    pub probes: u64,
    /// Connections that were established.
    pub accepted: u64,
    /// Looks that found no frame.
    pub empty_looks: u64,
    /// Sleeps until a frame comes.
    pub sleeps: u64,
    /// Calls of the kernel for sending, and for receiving where the driver asks for them.
    pub kernel_calls: u64,
    /// Nanoseconds that these calls took.
    pub kernel_ns: u64,
}

/// Returns the counters of this process.
pub fn counts() -> XdpCounts {
    XdpCounts {
        received: RECEIVED.get(),
        sent: SENT.get(),
        refused: REFUSED.get(),
        unfinished: UNFINISHED.get(),
        cookies: COOKIES.get(),
        resets: RESETS.get(),
        probes: PROBES.get(),
        accepted: ACCEPTED.get(),
        empty_looks: EMPTY_LOOKS.get(),
        sleeps: SLEEPS.get(),
        kernel_calls: CALLS.get(),
        kernel_ns: KERNEL_NS.get(),
    }
}
