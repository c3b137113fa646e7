//! Live SERIALIZABLE transactions: the number that may write, the number that have begun, and the least of their
//! snapshots.
//!
//! **Invariant:** a SERIALIZABLE transaction that may write counts as live from before it takes its snapshot until its slot
//! goes back. Transactions of other levels neither read nor write anything here.
//!
//! ```text
//! state   begun (50) | live (14)
//! ```

use super::horizon::TENTATIVE;
use super::slots::{ABORTED, Registry, STATE_SHIFT};
use crate::sync::{AtomicU64, Relaxed, SeqCst};

const LIVE_BITS: u32 = 14;
const LIVE_MASK: u64 = (1 << LIVE_BITS) - 1;
const BEGUN_ONE: u64 = 1 << LIVE_BITS;
const _: () = assert!(super::slots::SLOTS_MAX < (1 << LIVE_BITS));

/// Role of a transaction in SERIALIZABLE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// No role: another level, or a declared READ ONLY transaction that cannot become part of a dangerous structure.
    None,
    /// A declared READ ONLY transaction that began beside one that may write.
    Reader,
    /// A transaction that may write.
    Writer,
}

/// The state: see the module. A cache line of its own.
#[repr(align(128))]
pub(super) struct SerialState(AtomicU64);

impl SerialState {
    pub(super) fn new() -> SerialState {
        SerialState(AtomicU64::new(0))
    }
}

/// State at a look; equal to a later one if no writer has begun or ended since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SerialObservation(u64);

impl SerialObservation {
    /// Returns the number of SERIALIZABLE transactions that may write and were live.
    pub(crate) fn live(self) -> u64 {
        self.0 & LIVE_MASK
    }
}

impl Registry {
    /// Counts a SERIALIZABLE transaction that may write and begins; it takes its snapshot after this.
    #[inline]
    pub(super) fn enter_serial(&self) {
        self.serial.0.fetch_add(BEGUN_ONE + 1, SeqCst);
    }

    /// Counts the end of a SERIALIZABLE transaction that may write.
    #[inline]
    pub(super) fn leave_serial(&self) {
        self.serial.0.fetch_sub(1, SeqCst);
    }

    /// Looks at the state.
    #[inline]
    pub(crate) fn look_at_serial(&self) -> SerialObservation {
        SerialObservation(self.serial.0.load(SeqCst))
    }

    /// Returns a bound for threads that free versions between snapshots: a version that began after it may still be
    /// compared with the reads of a SERIALIZABLE transaction, so it must stay, whether or not a snapshot lies within
    /// its life. Without such transactions it is the clock.
    ///
    /// A transaction that this call misses has taken its snapshot after the call read the clock. So a thread that
    /// clears away versions that died at or before a clock reading made earlier than this call need not care for it.
    pub(crate) fn serial_floor(&self) -> u64 {
        self.least_serial(false)
    }

    /// Returns that bound for code that keeps committed transactions: an aborted one needs none.
    pub(crate) fn serial_floor_of_active(&self) -> u64 {
        self.least_serial(true)
    }

    /// Returns the least snapshot of the live SERIALIZABLE transactions that may write; the clock, read before, if
    /// there is none. With `only_active`, those that another aborted do not count.
    fn least_serial(&self, only_active: bool) -> u64 {
        let mut least = self.now();
        for slot in self.used() {
            let snapshot = slot.snapshot.load(SeqCst) & !TENTATIVE;
            let is_aborted = || slot.status.load(Relaxed) >> STATE_SHIFT == ABORTED;
            if slot.serial.load(Relaxed) == 1 && !(only_active && is_aborted()) {
                least = least.min(snapshot);
            }
        }
        least
    }
}
