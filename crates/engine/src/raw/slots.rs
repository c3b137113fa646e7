//! Transaction slots, their status words, and the registry of live snapshots.
//!
//! **Invariant (commit):** whether a transaction's effects exist is decided by one compare-and-swap of its status word.
//! Begin and end words name slot and generation, so the decision holds for all of them at once. A slot gets a new
//! generation only when no word carries the old one any more.
//!
//! **Invariant (snapshots):** a published snapshot number is never above the number that its owner reads with, and it
//! was published before that number was taken. So `horizon`, the least of them all, is never above a live snapshot.
//! Once it is no longer marked tentative it *is* that number. See [`super::horizon`] for the use of both.
//!
//! ```text
//! begin and end words   0 | commit timestamp (63)                          NEVER = all ones: open end, or undone
//!                                                                          MOVED = one less: open end, moved to a block
//!                       1 | slot (12) | generation (31) | strong (1) | command (19)
//! status word           00 active     | generation (31)
//!                       01 committing | generation                         whoever meets it helps to decide
//!                       10 aborted    | by whom and why (see `activity`) | generation
//!                       11 committed  | timestamp (62)
//! ```

use super::activity::importance;
use super::bitmap::Bitmap;
use super::horizon::{Horizons, IDLE, NO_FLOOR, NO_SNAPSHOT, TENTATIVE, WALKERS_MAX, WALKING};
use super::live::{Role, SerialState};
use super::shared::SharedWords;
use crate::sync::{Acquire, AtomicPtr, AtomicU64, Relaxed, Release, SeqCst};
use core::cell::Cell;
use core::marker::PhantomData;
use preempt::Worker;
use stage::Class;

/// End word of a version that was not ended; begin word of a version whose creation was undone.
pub const NEVER: u64 = UNCOMMITTED - 1;
pub(crate) const UNCOMMITTED: u64 = 1 << 63;
/// End word of a version that was not ended, but is a row of a block now: changes begin there.
pub(crate) const MOVED: u64 = NEVER - 1;
/// Snapshot of all that is committed.
pub(crate) const LATEST: u64 = MOVED - 1;

/// Flag of an end word: the holder of the row may change its keys or delete it. Without it the lock is FOR NO KEY
/// UPDATE.
pub(super) const STRONG: u64 = 1 << (COMMAND_BITS - 1);
/// Bits of the command and of [`STRONG`].
const COMMAND_BITS: u32 = 20;
const GENERATION_BITS: u32 = 31;
const SLOT_BITS: u32 = 12;
const COMMAND_MASK: u64 = (1 << COMMAND_BITS) - 1;
pub(super) const GENERATION_MASK: u64 = (1 << GENERATION_BITS) - 1;
/// Largest number of transactions at a time.
pub(crate) const SLOTS_MAX: usize = 1 << SLOT_BITS;
/// Largest number of registered snapshots at a time, beside those of transactions.
pub(crate) const READERS_MAX: usize = 1024;
/// Largest number of commands of one transaction.
pub(crate) const COMMANDS_MAX: u32 = STRONG as u32 - 1;
const _: () = assert!(1 + SLOT_BITS + GENERATION_BITS + COMMAND_BITS == u64::BITS);

pub(super) const STATE_SHIFT: u32 = 62;
pub(super) const ACTIVE: u64 = 0;
pub(super) const COMMITTING: u64 = 1;
pub(super) const ABORTED: u64 = 2;
const COMMITTED: u64 = 3;
const VALUE_MASK: u64 = (1 << STATE_SHIFT) - 1;

#[inline]
pub(super) const fn status(state: u64, value: u64) -> u64 {
    (state << STATE_SHIFT) | value
}

#[inline]
pub(crate) const fn owner_of(word: u64) -> u64 {
    word & !COMMAND_MASK
}

/// Returns true if this is an owner word, with or without a command.
#[inline]
pub(crate) const fn is_owner(word: u64) -> bool {
    word & UNCOMMITTED != 0
}

#[inline]
pub(crate) const fn command_of(word: u64) -> u32 {
    (word & (STRONG - 1)) as u32
}

/// Returns the word that a transaction writes, with command 0.
#[inline]
pub(super) const fn owner_word(index: usize, generation: u64) -> u64 {
    UNCOMMITTED | ((index as u64) << (COMMAND_BITS + GENERATION_BITS)) | (generation << COMMAND_BITS)
}

#[inline]
pub(crate) const fn slot_of(word: u64) -> usize {
    ((word >> (COMMAND_BITS + GENERATION_BITS)) & (SLOTS_MAX as u64 - 1)) as usize
}

#[inline]
pub(super) const fn generation_of(word: u64) -> u64 {
    (word >> COMMAND_BITS) & GENERATION_MASK
}

/// Fate of the transaction that wrote a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Undecided; a snapshot taken before now will not see it.
    Active,
    /// Committed at this timestamp.
    Committed(u64),
    /// Aborted; the word may still wait to be undone.
    Aborted,
    /// The word was stamped or undone meanwhile. Read it again.
    Moved,
}

/// Slot of one transaction at a time. Own cache lines: others read it, its owner writes it.
#[repr(align(128))]
pub(super) struct TransactionSlot {
    pub(super) status: AtomicU64,
    pub(super) generation: AtomicU64,
    /// Published snapshot, [`NO_SNAPSHOT`] without one.
    pub(super) snapshot: AtomicU64,
    /// [`WALKING`] while it may stand on any version, [`IDLE`] while it does not. Set before `snapshot`: read it after that.
    pub(super) walk: AtomicU64,
    /// Timestamp to which a pass of the garbage holds the horizon back, [`NO_FLOOR`] without one.
    pub(super) floor: AtomicU64,
    /// Time at which the transaction began, by the coarse clock of [`Horizons`].
    pub(super) began_ns: AtomicU64,
    /// Number of its session, or 0.
    pub(super) session: AtomicU64,
    /// Importance of the transaction's class.
    pub(super) importance: AtomicU64,
    /// Worker whose base context runs the transaction, or null.
    pub(super) worker: AtomicPtr<Worker>,
    /// 1 while the transaction is SERIALIZABLE and may write. Stored before `snapshot`, so read it after that.
    pub(super) serial: AtomicU64,
    /// Activity, mark and taker: see [`super::activity`].
    pub(super) activity: AtomicU64,
    pub(super) tables_written: AtomicU64,
    pub(super) wanted: AtomicU64,
    pub(super) shared: SharedWords,
}

/// Clock, slots and live snapshots of one engine.
pub struct Registry {
    pub(super) clock: Clock,
    /// State of SERIALIZABLE transactions: see [`super::live`].
    pub(super) serial: SerialState,
    pub(super) slots: Box<[TransactionSlot]>,
    pub(super) slots_free: Bitmap,
    pub(super) readers: Box<[SnapshotSlot]>,
    pub(super) readers_free: Bitmap,
    /// Begin of each walk of a reader; the greatest number without one.
    pub(super) walkers: Box<[Walker]>,
    pub(super) walkers_free: Bitmap,
    pub(super) horizons: Horizons,
}

#[repr(align(128))]
pub(super) struct Clock(pub(super) AtomicU64);

/// A registered snapshot that belongs to no transaction.
#[repr(align(64))]
pub(super) struct SnapshotSlot {
    pub(super) snapshot: AtomicU64,
    /// Time at which it was taken, by the coarse clock of [`Horizons`].
    pub(super) began_ns: AtomicU64,
}

/// Place of one walk at a time.
#[repr(align(64))]
pub(super) struct Walker(pub(super) AtomicU64);

/// Witness that a snapshot is registered: no version that it may reach is freed while it exists.
pub struct SnapshotPin {
    pub(super) _only_here: PhantomData<()>,
}

impl Registry {
    /// Creates a registry for at most `slots_count` transactions and `readers_count` snapshots at a time.
    pub fn new(slots_count: usize, readers_count: usize) -> Registry {
        assert!(slots_count <= SLOTS_MAX);
        let slot = |_| TransactionSlot {
            status: AtomicU64::new(status(ABORTED, 0)),
            generation: AtomicU64::new(0),
            snapshot: AtomicU64::new(NO_SNAPSHOT),
            walk: AtomicU64::new(IDLE),
            floor: AtomicU64::new(NO_FLOOR),
            began_ns: AtomicU64::new(0),
            session: AtomicU64::new(0),
            importance: AtomicU64::new(0),
            worker: AtomicPtr::new(std::ptr::null_mut()),
            serial: AtomicU64::new(0),
            activity: AtomicU64::new(0),
            tables_written: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            shared: SharedWords::default(),
        };
        let walkers_count = WALKERS_MAX.min(readers_count);
        let reader = || SnapshotSlot { snapshot: AtomicU64::new(NO_SNAPSHOT), began_ns: AtomicU64::new(0) };
        Registry {
            clock: Clock(AtomicU64::new(1)),
            serial: SerialState::new(),
            slots: (0..slots_count).map(slot).collect(),
            slots_free: Bitmap::new(slots_count),
            readers: (0..readers_count).map(|_| reader()).collect(),
            readers_free: Bitmap::new(readers_count),
            walkers: (0..walkers_count).map(|_| Walker(AtomicU64::new(u64::MAX))).collect(),
            walkers_free: Bitmap::new(walkers_count),
            horizons: Horizons::new(),
        }
    }

    /// Advances the clock and returns its new reading.
    #[inline]
    pub(super) fn tick(&self) -> u64 {
        self.clock.0.fetch_add(1, SeqCst) + 1
    }

    /// Publishes a snapshot in `place` and returns the number to read with.
    ///
    /// Ordering: the first store and the second load are sequentially consistent, as are the loads in `horizon`. If those
    /// miss the store, then the second load comes after their reading of the clock and the snapshot is not below it.
    #[inline]
    pub(super) fn register(&self, place: &AtomicU64) -> u64 {
        place.store(self.clock.0.load(Relaxed) | TENTATIVE, SeqCst);
        let snapshot = self.clock.0.load(SeqCst);
        place.store(snapshot, Release);
        snapshot
    }

    /// Returns the slots that were ever used.
    pub(super) fn used(&self) -> &[TransactionSlot] {
        &self.slots[..self.slots_free.high_water()]
    }

    /// Returns the clock's reading.
    pub(crate) fn now(&self) -> u64 {
        self.clock.0.load(SeqCst)
    }

    /// Returns the number of slots that were ever used.
    pub(crate) fn slots_used(&self) -> usize {
        self.slots_free.high_water()
    }

    /// Begins a transaction: a slot, a new generation, a snapshot. Returns none if all slots are in use.
    #[inline]
    pub(crate) fn begin(&self, class: Class, worker: Option<&'static Worker>, role: Role) -> Option<HeldSlot<'_>> {
        let index = self.slots_free.acquire()?;
        if role == Role::Writer {
            self.enter_serial();
        }
        Some(self.hold(index, class, worker, role))
    }

    /// Begins a transaction on a given slot, if it is free.
    pub(crate) fn begin_on(&self, index: usize, class: Class) -> Option<HeldSlot<'_>> {
        self.slots_free.acquire_at(index).then(|| self.hold(index, class, None, Role::None))
    }

    #[inline]
    fn hold(&self, index: usize, class: Class, worker: Option<&'static Worker>, role: Role) -> HeldSlot<'_> {
        let slot = &self.slots[index];
        let generation = (slot.generation.load(Relaxed) + 1) & GENERATION_MASK;
        // The order matters to `fate`: the generation moves on before the status does.
        slot.generation.store(generation, Release);
        if generation == 0 {
            // They begin anew, and the greatest mark wins: see `activity`.
            slot.wanted.store(0, Relaxed);
        }
        slot.importance.store(importance(class), Relaxed);
        slot.set_worker(worker);
        // Before the status, as what it must not be taken for is the last transaction's.
        slot.activity.store(0, Relaxed);
        slot.tables_written.store(0, Relaxed);
        slot.shared.clear();
        slot.serial.store(u64::from(role == Role::Writer), Relaxed);
        slot.began_ns.store(self.horizons.coarse_ns(), Relaxed);
        slot.session.store(0, Relaxed);
        slot.walk.store(WALKING, Relaxed);
        slot.status.store(status(ACTIVE, generation), Release);
        let snapshot = self.register(&slot.snapshot);
        let owner = owner_word(index, generation);
        HeldSlot {
            registry: self,
            index,
            owner,
            snapshot: Cell::new(snapshot),
            importance: importance(class),
            role,
            pin: SnapshotPin { _only_here: PhantomData },
        }
    }

    /// Returns the fate of the transaction that wrote `word`. An undecided commit is decided here: no caller waits for
    /// it.
    ///
    /// A committed status belongs to this word's generation: the word was written after the status became active for
    /// its generation, so the status is of that generation or a later one; and the generation, read after the status,
    /// has not moved on.
    #[inline]
    pub(crate) fn fate(&self, word: u64) -> Fate {
        let slot = &self.slots[slot_of(word)];
        let generation = generation_of(word);
        let mut seen = slot.status.load(Acquire);
        loop {
            let value = seen & VALUE_MASK;
            match seen >> STATE_SHIFT {
                COMMITTED => {
                    return if slot.generation.load(Acquire) == generation {
                        Fate::Committed(value)
                    } else {
                        Fate::Moved
                    };
                }
                _ if value & GENERATION_MASK != generation => return Fate::Moved,
                ACTIVE => return Fate::Active,
                ABORTED => return Fate::Aborted,
                _ => match self.decide(slot, seen) {
                    Ok(timestamp) => return Fate::Committed(timestamp),
                    Err(now) => seen = now,
                },
            }
        }
    }

    /// Does the second half of a commit, for its owner and for any transaction that meets it.
    ///
    /// Ordering: the timestamp is taken after the status became committing. So a transaction that read the clock for
    /// its snapshot and then found the status active will find the timestamp above its snapshot.
    #[inline]
    pub(super) fn decide(&self, slot: &TransactionSlot, committing: u64) -> Result<u64, u64> {
        let timestamp = self.tick();
        match slot.status.compare_exchange(committing, status(COMMITTED, timestamp), SeqCst, Acquire) {
            Ok(_) => Ok(timestamp),
            Err(now) => Err(now),
        }
    }
}

/// A transaction's hold on its slot.
pub struct HeldSlot<'e> {
    pub(super) registry: &'e Registry,
    pub(super) index: usize,
    /// Words that the transaction writes, with command 0.
    pub(super) owner: u64,
    pub(super) snapshot: Cell<u64>,
    pub(super) importance: u64,
    pub(super) role: Role,
    pub(super) pin: SnapshotPin,
}

impl<'e> HeldSlot<'e> {
    /// Returns the witness that the transaction's snapshot is registered.
    #[inline]
    pub fn pin(&self) -> &SnapshotPin {
        &self.pin
    }

    /// Returns the number of the snapshot that it reads.
    #[inline]
    pub fn snapshot(&self) -> u64 {
        self.snapshot.get()
    }

    /// Returns true if there was a commit after the snapshot.
    #[inline]
    pub(crate) fn is_outdated(&self) -> bool {
        self.registry.now() != self.snapshot.get()
    }

    /// Records the session that the transaction belongs to.
    #[inline]
    pub(crate) fn set_session(&self, session: u64) {
        self.slot().session.store(session, Relaxed);
    }

    /// Returns the index of the slot.
    #[inline]
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Returns the word of an effect of `command`.
    #[inline]
    pub fn word(&self, command: u32) -> u64 {
        self.owner | u64::from(command)
    }

    #[inline]
    pub(super) fn slot(&self) -> &'e TransactionSlot {
        &self.registry.slots[self.index]
    }

    #[inline]
    pub(super) fn generation(&self) -> u64 {
        generation_of(self.owner)
    }

    /// Returns true if the transaction is SERIALIZABLE and may write.
    #[inline]
    pub(crate) fn is_serial(&self) -> bool {
        self.role == Role::Writer
    }

    /// Returns true if it is a declared READ ONLY transaction beside SERIALIZABLE ones that may write.
    #[inline]
    pub(crate) fn is_serial_reader(&self) -> bool {
        self.role == Role::Reader
    }

    /// Returns true if it records its reads.
    #[inline]
    pub(crate) fn logs_reads(&self) -> bool {
        self.role != Role::None
    }

    /// Returns true if no other transaction has aborted it.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.slot().status.load(Acquire) == status(ACTIVE, self.generation())
    }

    /// Commits: from here on all its effects exist. Returns the timestamp; none if another aborted it before.
    #[inline]
    pub fn commit(&self) -> Option<u64> {
        let slot = self.slot();
        let active = status(ACTIVE, self.generation());
        let committing = status(COMMITTING, self.generation());
        slot.status.compare_exchange(active, committing, SeqCst, Acquire).ok()?;
        match self.registry.decide(slot, committing) {
            Ok(timestamp) => Some(timestamp),
            // Only helpers change a committing status, and only to committed; the slot is ours until it is released.
            Err(now) => Some(now & VALUE_MASK),
        }
    }

    /// Aborts. Returns true if another had done so before.
    pub fn abort(&self) -> bool {
        let active = status(ACTIVE, self.generation());
        let aborted = status(ABORTED, self.generation());
        self.slot().status.compare_exchange(active, aborted, SeqCst, Acquire).is_err()
    }

    /// Ends the snapshot and gives the slot back. No word may carry its owner any more.
    #[inline]
    pub fn release(self) {
        self.slot().snapshot.store(NO_SNAPSHOT, SeqCst);
        if self.is_serial() {
            self.registry.leave_serial();
        }
        self.registry.slots_free.release(self.index);
    }
}
