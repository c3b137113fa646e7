//! Epochs, held for one look-up: they tell when the memory of a node that left the tree may be freed.
//!
//! **Invariant:** a node that was unlinked before [`tag`] returned `t` is freed only after [`advance`] returned at least
//! `t + 2`, and then no [`EpochPin`] is left that could have met it.
//!
//! A pin belongs to a *context*, not to a thread: it is one slot of a global table, claimed by compare-and-swap from
//! zero. An urgent context that interrupts a look-up finds its thread's usual slot taken, or sees it taken half-way
//! through its own claim, and takes the next. Nothing is registered, initialised late or destroyed, and the thread-local
//! is only a hint where to look first.
//!
//! # Why two advances suffice
//! Let the advance from `t + 1` to `t + 2` look at a reader's slot with a read-modify-write `A`. `tag` is a
//! read-modify-write of the epoch that left `t` there, so the advance from `t` to `t + 1` reads from it and *the unlinking
//! happens before `A`*. Three cases.
//! - The claim follows `A` in the slot's modification order. It acquires from `A` (through the claims and releases in
//!   between, which are all acquire and release), so the unlinking happens before the reader's loads: it cannot meet the
//!   node.
//! - The slot's value at `A` is the reader's. Then it equals `t + 1`, or the advance gives up. The reader loaded `t + 1`
//!   with acquire from the advance to `t + 1`, which the unlinking happens before: it cannot meet the node either.
//! - The reader left before `A`: its release, `A`'s acquire and the epoch's release order its loads before the free.
//!
//! The number of slots to look at grows by read-modify-write before the first claim of a slot, and the advance reads it
//! by one, so the same argument covers a slot that the advance did not look at.

use core::marker::PhantomData;
use core::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Contexts that can be inside a look-up at the same time; more of them wait for one to leave.
const SLOTS_COUNT: usize = 256;
const FREE: u64 = 0;
const NO_HINT: usize = usize::MAX;

#[repr(align(128))]
struct EpochSlot(AtomicU64);

#[repr(align(128))]
struct Alone<T>(T);

static SLOTS: [EpochSlot; SLOTS_COUNT] = [const { EpochSlot(AtomicU64::new(FREE)) }; SLOTS_COUNT];
static EPOCH: Alone<AtomicU64> = Alone(AtomicU64::new(1));
/// First slot that was never claimed.
static IN_USE: Alone<AtomicUsize> = Alone(AtomicUsize::new(0));
static NEXT_HINT: Alone<AtomicUsize> = Alone(AtomicUsize::new(0));

thread_local! {
    /// Slot that this thread used last. Atomic because an urgent context may change it between any two instructions.
    static HINT: AtomicUsize = const { AtomicUsize::new(NO_HINT) };
}

/// Guard of a look-up: the nodes that the context met in the tree stay allocated until it is dropped.
pub(super) struct EpochPin {
    slot: usize,
    _own_thread: PhantomData<*const ()>,
}

impl EpochPin {
    /// Returns a small number that contexts running at the same time seldom share.
    #[inline]
    pub(super) fn slot(&self) -> usize {
        self.slot
    }
}

impl Drop for EpochPin {
    #[inline]
    fn drop(&mut self) {
        SLOTS[self.slot].0.store(FREE, Release);
    }
}

/// Begins a look-up.
#[inline]
pub(super) fn pin() -> EpochPin {
    HINT.with(|hint| {
        let slot = hint.load(Relaxed);
        if slot < SLOTS_COUNT && claim(slot) {
            return EpochPin { slot, _own_thread: PhantomData };
        }
        let slot = claim_any(slot);
        hint.store(slot, Relaxed);
        EpochPin { slot, _own_thread: PhantomData }
    })
}

#[inline]
fn claim(slot: usize) -> bool {
    let epoch = EPOCH.0.load(Acquire);
    SLOTS[slot].0.compare_exchange(FREE, epoch, Acquire, Relaxed).is_ok()
}

#[cold]
fn claim_any(hint: usize) -> usize {
    // Two apart, so that a nested context finds the neighbour free.
    let first = if hint == NO_HINT { NEXT_HINT.0.fetch_add(2, Relaxed) } else { hint + 1 };
    loop {
        for step in 0..SLOTS_COUNT {
            let slot = (first + step) % SLOTS_COUNT;
            IN_USE.0.fetch_max(slot + 1, AcqRel);
            if claim(slot) {
                return slot;
            }
        }
        // 256 contexts are inside look-ups, most of them descheduled.
        std::thread::yield_now();
    }
}

/// Returns the epoch to note for objects that were unlinked before this call.
pub(super) fn tag() -> u64 {
    // A read-modify-write, so that the next advance reads from it; see the module.
    EPOCH.0.fetch_add(0, AcqRel)
}

/// Advances the epoch if every context inside a look-up has seen the present one. Returns the epoch afterwards.
pub(super) fn advance() -> u64 {
    let epoch = EPOCH.0.load(Acquire);
    let in_use = IN_USE.0.fetch_add(0, AcqRel);
    for slot in &SLOTS[..in_use] {
        let seen = slot.0.fetch_add(0, AcqRel);
        if seen != FREE && seen != epoch {
            return epoch;
        }
    }
    match EPOCH.0.compare_exchange(epoch, epoch + 1, AcqRel, Acquire) {
        Ok(_) => epoch + 1,
        Err(now) => now,
    }
}
