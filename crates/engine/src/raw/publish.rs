//! Serial mode: whether commits publish their writes for SERIALIZABLE transactions to check.
//!
//! **Invariant:** a SERIALIZABLE transaction that may write has a snapshot `s` such that every transaction with a commit
//! timestamp above `s` committed the *serial way* ([`crate::serial`]), or will. That costs the others nothing while there
//! is no such transaction.
//!
//! ```text
//! state   begun (48) | live (14) | ready (1) | on (1)
//! ```
//!
//! *Turning on.* The first one (whoever finds the state not ready) sets `on`, visits every slot, sets `ready`, and takes
//! its snapshot only then. A visit gives an active status the `publish` bit, with which the plain way to commit fails, and
//! helps a committing one to its decision. Why nobody slips through: a writer W stores its active status, publishes its
//! snapshot, and later loads the state to commit; the visitor V stores `on`, and later loads W's snapshot and status. All
//! but W's store of the status are sequentially consistent. Either W's load finds `on`, and W goes the serial way; or it
//! comes before V's store, hence W's snapshot was published before V's load of it, which orders W's status before V's next
//! load: V finds W active (and marks it), committing (and helps), or decided. In the last two cases W's timestamp is at
//! most what the clock reads when V takes its snapshot.
//!
//! *Turning off* is one compare-and-swap of the whole state from "nobody is live" ([`Registry::rest_serial`]), so it never
//! happens between a transaction's beginning and its end. A `publish` bit that is left over only sends one commit the
//! longer way.

use super::horizon::TENTATIVE;
use super::slots::{ABORTED, ACTIVE, COMMITTING, GENERATION_MASK, PUBLISH, Registry, STATE_SHIFT, Slot, status};
use crate::sync::{Acquire, AtomicU64, Relaxed, SeqCst};

const ON: u64 = 1;
const READY: u64 = 2;
const LIVE_ONE: u64 = 4;
const LIVE_BITS: u32 = 14;
const LIVE_MASK: u64 = ((1 << LIVE_BITS) - 1) * LIVE_ONE;
const BEGUN_ONE: u64 = LIVE_ONE << LIVE_BITS;
const _: () = assert!(super::slots::SLOTS_MAX < (1 << LIVE_BITS));

/// The state: see the module. Its own cache line: every commit loads it.
#[repr(align(128))]
pub(super) struct SerialState(AtomicU64);

impl SerialState {
    pub(super) fn new() -> SerialState {
        SerialState(AtomicU64::new(0))
    }
}

/// What the state was when somebody looked; equal if nothing began or ended since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SerialSeen(u64);

impl Registry {
    /// Whether commits must go the serial way.
    #[inline]
    pub(crate) fn is_serial(&self) -> bool {
        self.serial.0.load(SeqCst) & ON != 0
    }

    /// A SERIALIZABLE transaction that may write begins; it takes its snapshot after this.
    #[inline]
    pub(super) fn enter_serial(&self) {
        let before = self.serial.0.fetch_add(LIVE_ONE + BEGUN_ONE, SeqCst);
        if before & READY == 0 {
            self.turn_on();
        }
    }

    /// Does not wait for another who is doing the same: both finish it.
    #[cold]
    fn turn_on(&self) {
        self.serial.0.fetch_or(ON, SeqCst);
        self.publish_all();
        self.serial.0.fetch_or(READY, SeqCst);
    }

    /// It has ended.
    #[inline]
    pub(super) fn leave_serial(&self) {
        self.serial.0.fetch_sub(LIVE_ONE, SeqCst);
    }

    /// How many SERIALIZABLE transactions that may write are live.
    #[inline]
    pub(crate) fn serial_live(&self) -> u64 {
        (self.serial.0.load(SeqCst) & LIVE_MASK) / LIVE_ONE
    }

    /// Looks at the state, for [`Registry::rest_serial`].
    pub(crate) fn look_at_serial(&self) -> SerialSeen {
        SerialSeen(self.serial.0.load(SeqCst))
    }

    /// Turns serial mode off if nobody is live and no transaction has begun since `seen`. Says whether it is off.
    pub(crate) fn rest_serial(&self, seen: SerialSeen) -> bool {
        let SerialSeen(state) = seen;
        if state & LIVE_MASK != 0 {
            return false;
        }
        state & ON == 0 || self.serial.0.compare_exchange(state, state & !(ON | READY), SeqCst, SeqCst).is_ok()
    }

    /// A bound for those who free versions between snapshots: a version that began after it may still be compared with
    /// what a SERIALIZABLE transaction has read, so it must stay, whether or not a snapshot lies within its life. Without
    /// such transactions it is the clock.
    ///
    /// A transaction that this call misses has taken its snapshot after the call read the clock. So whoever clears away
    /// what died at or before a clock reading made earlier than this call need not care for it.
    pub(crate) fn serial_floor(&self) -> u64 {
        self.least_serial(false)
    }

    /// The same for those who keep recent writes: what was aborted needs none.
    pub(crate) fn serial_floor_of_active(&self) -> u64 {
        self.least_serial(true)
    }

    /// Makes every transaction that is active now commit the serial way, and helps to decide those that are committing:
    /// their timestamps are not above the clock when this returns.
    fn publish_all(&self) {
        for slot in self.used() {
            // Who published a snapshot before this load has stored its status before it, so the next load sees that.
            slot.snapshot.load(SeqCst);
            let mut seen = slot.status.load(SeqCst);
            loop {
                let next = match seen >> STATE_SHIFT {
                    ACTIVE if seen & PUBLISH == 0 => {
                        slot.status.compare_exchange(seen, seen | PUBLISH, SeqCst, SeqCst).map(|_| ())
                    }
                    COMMITTING => self.decide(slot, seen).map(|_| ()),
                    _ => Ok(()),
                };
                match next {
                    Ok(()) => break,
                    Err(now) => seen = now,
                }
            }
        }
    }

    /// The least snapshot of the live SERIALIZABLE transactions that may write; the clock, read before, if there is none.
    /// With `only_active`, those that somebody aborted do not count.
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

    /// Aborts the SERIALIZABLE transactions whose snapshots are below `bound`. Returns how many.
    pub(crate) fn abort_serial_below(&self, bound: u64) -> usize {
        let abort = |slot: &&Slot| {
            let active = slot.status.load(Acquire);
            // If the slot changes hands now, these two are another transaction's; the compare-and-swap then fails.
            let is_old = slot.snapshot.load(SeqCst) & !TENTATIVE < bound && slot.serial.load(Relaxed) == 1;
            let aborted = status(ABORTED, active & GENERATION_MASK);
            active >> STATE_SHIFT == ACTIVE
                && is_old
                && slot.status.compare_exchange(active, aborted, SeqCst, Relaxed).is_ok()
        };
        self.used().iter().filter(abort).count()
    }
}
