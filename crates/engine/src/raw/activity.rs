//! Activity of transactions, and the way in which a more important one makes another give way.
//!
//! **Invariant:** a transaction is aborted by another only by a compare-and-swap of its status from *active*, so never
//! past its commit point, and the aborted status tells the taker and the reason until the slot is given out again.
//! Nothing here touches the victim's writes: its words say *aborted* from then on, and any transaction may claim over
//! them.
//!
//! *The mark "wanted".* A transaction that finds that it must wait for a less important one that runs leaves its
//! importance in the victim's slot and then looks at the victim's activity once more. The victim stores its activity
//! and then looks at the mark. Both are sequentially consistent, so one of the two sees the other.

use super::horizon::{NO_SNAPSHOT, TENTATIVE};
use super::live::Role;
use super::slots::{
    ABORTED, ACTIVE, Fate, GENERATION_MASK, HeldSlot, Registry, SnapshotPin, TransactionSlot, generation_of, slot_of,
    status,
};
use crate::sync::{Acquire, Relaxed, Release, SeqCst};
use core::cell::Cell;
use core::marker::PhantomData;
use preempt::{Mode, Worker};
use stage::Class;

/// Returns the importance of a class when two transactions want one row.
pub(super) fn importance(class: Class) -> u64 {
    match class {
        Class::High => 2,
        Class::Normal => 1,
        Class::Low => 0,
    }
}

/// Activity of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// The transaction runs, or is paused under an urgent one.
    Running = 0,
    /// The transaction waits for a lock.
    LockWait = 1,
    /// The transaction waits for its client.
    ClientWait = 2,
    /// The transaction waits at the gate.
    GateWait = 3,
}

impl Activity {
    /// Returns the activity for the number in a slot.
    pub(super) fn of(number: u64) -> Activity {
        [Activity::LockWait, Activity::ClientWait, Activity::GateWait]
            .into_iter()
            .find(|activity| *activity as u64 == number)
            .unwrap_or(Activity::Running)
    }

    /// Returns the name of the activity in views.
    pub fn name(self) -> &'static str {
        match self {
            Activity::Running => "running",
            Activity::LockWait => "lock wait",
            Activity::ClientWait => "client",
            Activity::GateWait => "gate",
        }
    }
}

/// Reason why a transaction was aborted by a more important one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// The victim waited for a lock itself.
    LockWait,
    /// An urgent transaction ran above the victim on its worker.
    Paused,
    /// The victim waited for its client.
    Client,
    /// The victim waited at the gate.
    Gate,
    /// The victim ran for longer than the taker's patience.
    Patience,
}

impl Why {
    /// Every reason.
    pub const ALL: [Why; 5] = [Why::LockWait, Why::Paused, Why::Client, Why::Gate, Why::Patience];

    /// Returns the name of the reason in views.
    pub fn name(self) -> &'static str {
        match self {
            Why::LockWait => "lock wait",
            Why::Paused => "paused",
            Why::Client => "client",
            Why::Gate => "gate",
            Why::Patience => "patience",
        }
    }
}

/// Condition under which a less important holder gives way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Yields {
    Never,
    /// The holder waits for a lock.
    Waiting,
    /// The holder does not run.
    NotRunning,
    /// Unconditional: the taker's patience is at its end.
    Always,
}

/// Response of a holder when another transaction wants what it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pressed {
    /// The holder was aborted by this call.
    Taken {
        /// Importance of the victim.
        importance: u64,
        /// Reason why it gave way.
        why: Why,
    },
    /// The holder is decided already: look again.
    Settled,
    /// The holder does not give way now, but it is less important.
    Running,
    /// The holder is not less important.
    Refused,
}

const BY_SHIFT: u32 = 32;
const WHY_SHIFT: u32 = 36;
const BY_MASK: u64 = 0xf;

/// Taker of a transaction, by importance, and the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TakenBy {
    pub(crate) importance: u64,
}

impl TransactionSlot {
    /// Returns true if an urgent context runs above the transaction's own. A hint: it may go on at any moment.
    #[inline]
    fn is_paused(&self) -> bool {
        if cfg!(feature = "shuttle") {
            return true; // The model has no workers: a less important transaction counts as paused.
        }
        let worker = self.worker.load(Relaxed);
        // SAFETY: null, or made from a `&'static Worker` by `set_worker`.
        unsafe { worker.as_ref() }.is_some_and(|worker| worker.mode() == Mode::Urgent)
    }

    #[inline]
    pub(super) fn set_worker(&self, worker: Option<&'static Worker>) {
        let worker = worker.map_or(std::ptr::null_mut(), |worker| std::ptr::from_ref(worker).cast_mut());
        self.worker.store(worker, Relaxed);
    }

    /// Returns the reason for which it would give way now.
    fn reason(&self, yields: Yields) -> Option<Why> {
        let activity = self.activity.load(SeqCst);
        let reason = match yields {
            Yields::Never => None,
            _ if activity == Activity::LockWait as u64 => Some(Why::LockWait),
            Yields::Waiting => None,
            _ if activity == Activity::ClientWait as u64 => Some(Why::Client),
            _ if activity == Activity::GateWait as u64 => Some(Why::Gate),
            _ if self.is_paused() => Some(Why::Paused),
            Yields::NotRunning | Yields::Always => None,
        };
        if yields == Yields::Always { reason.or(Some(Why::Patience)) } else { reason }
    }
}

impl Registry {
    /// Returns true if the transaction of this owner or word is undecided.
    pub(crate) fn is_active(&self, owner: u64) -> bool {
        self.fate(owner) == Fate::Active
    }

    /// Returns true if the transaction of this owner or word is active and runs, as far as can be seen from here.
    pub(crate) fn is_running(&self, owner: u64) -> bool {
        let slot = &self.slots[slot_of(owner)];
        slot.status.load(Acquire) == status(ACTIVE, generation_of(owner))
            && slot.activity.load(Relaxed) == Activity::Running as u64
            && !slot.is_paused()
    }

    /// Aborts the transaction that wrote `word`, if it is active, less important than `importance`, and in a state in which
    /// it gives way.
    pub(crate) fn press(&self, word: u64, importance: u64, yields: Yields) -> Pressed {
        let slot = &self.slots[slot_of(word)];
        let generation = generation_of(word);
        loop {
            let active = slot.status.load(Acquire);
            if active != status(ACTIVE, generation) {
                // Committing is as good as decided: a caller that looks again helps.
                return Pressed::Settled;
            }
            // If the slot changes hands now, these are another transaction's; the compare-and-swap below then fails.
            let victim = slot.importance.load(Relaxed);
            if importance <= victim || yields == Yields::Never {
                return Pressed::Refused;
            }
            let mut reason = slot.reason(yields);
            if reason.is_none() {
                slot.wanted.fetch_max((generation << 2) | (importance + 1), SeqCst);
                reason = slot.reason(yields);
            }
            let Some(why) = reason else { return Pressed::Running };
            let by = (importance + 1) << BY_SHIFT | (why as u64) << WHY_SHIFT;
            let aborted = status(ABORTED, generation | by);
            if slot.status.compare_exchange(active, aborted, SeqCst, Acquire).is_ok() {
                return Pressed::Taken { importance: victim, why };
            }
        }
    }

    /// Calls `each` with the owners of active transactions that may have written to tables of this bit.
    pub(crate) fn writers_of(&self, bit: u64, mut each: impl FnMut(u64)) {
        for (index, slot) in self.slots[..self.slots_free.high_water()].iter().enumerate() {
            if slot.tables_written.load(SeqCst) & bit == 0 {
                continue;
            }
            let seen = slot.status.load(SeqCst);
            // Once more: what was found may have been the last transaction's, and the status is the next one's.
            if slot.tables_written.load(SeqCst) & bit == 0 {
                continue;
            }
            let owner = super::slots::owner_word(index, seen & GENERATION_MASK);
            // A committing one is helped to its end.
            if self.fate(owner) == Fate::Active {
                each(owner);
            }
        }
    }

    /// Takes a suspended transaction's slot in hand again. A snapshot that was hidden is not the transaction's any
    /// more: [`HeldSlot::refresh`] before anything is read.
    #[inline]
    pub(crate) fn resume(&self, suspended: SuspendedHold, worker: Option<&'static Worker>) -> HeldSlot<'_> {
        let SuspendedHold { index, owner, snapshot, importance, role } = suspended;
        let slot = &self.slots[index];
        slot.set_worker(worker);
        slot.activity.store(Activity::Running as u64, SeqCst);
        HeldSlot {
            registry: self,
            index,
            owner,
            snapshot: Cell::new(snapshot),
            importance,
            role,
            pin: SnapshotPin { _only_here: PhantomData },
        }
    }
}

/// A transaction's hold on its slot between two statements.
#[derive(Debug)]
pub(crate) struct SuspendedHold {
    index: usize,
    owner: u64,
    snapshot: u64,
    importance: u64,
    role: Role,
}

impl SuspendedHold {
    pub(crate) fn owner(&self) -> u64 {
        self.owner
    }
}

impl<'e> HeldSlot<'e> {
    /// Returns the words that it writes, with command 0.
    #[inline]
    pub(crate) fn owner(&self) -> u64 {
        self.owner
    }

    #[inline]
    pub(crate) fn importance(&self) -> u64 {
        self.importance
    }

    /// Gives the slot out of hand without giving it back. With `hide` its snapshot holds nothing back any more.
    #[inline]
    pub(crate) fn suspend(self, hide: bool) -> SuspendedHold {
        if hide {
            self.slot().snapshot.store(NO_SNAPSHOT, SeqCst);
        }
        let HeldSlot { index, owner, snapshot, importance, role, .. } = self;
        SuspendedHold { index, owner, snapshot: snapshot.get(), importance, role }
    }

    /// Takes a new snapshot. Returns true if the transaction was still active after that.
    ///
    /// Until the number is known the published one is tentative: a version that ends meanwhile may be exactly the one
    /// that it will see. And a transaction that was aborted keeps its old number: its claims may be another's by now,
    /// who commits, and no one may clear that away before it is undone. One that is still active after the reading of
    /// the clock is taken later, so by a commit above the new number.
    #[inline]
    pub(crate) fn refresh(&self, hidden: bool) -> bool {
        let slot = self.slot();
        if hidden {
            // It has changed nothing.
            self.snapshot.set(self.registry.register(&slot.snapshot));
            return self.is_active();
        }
        slot.snapshot.store(self.snapshot.get() | TENTATIVE, SeqCst);
        let now = self.registry.now();
        let is_active = self.is_active();
        if is_active {
            self.snapshot.set(now);
        }
        slot.snapshot.store(self.snapshot.get(), Release);
        is_active
    }

    /// Publishes the activity from now on, and gives way to a transaction that waits for it and may take it then: by
    /// importance.
    #[inline]
    pub(crate) fn rest(&self, activity: Activity, yields: Yields) -> Option<(u64, Pressed)> {
        let slot = self.slot();
        slot.activity.store(activity as u64, SeqCst);
        let wanted = slot.wanted.load(SeqCst);
        if wanted >> 2 != self.generation() || wanted & 3 == 0 {
            return None;
        }
        let importance = (wanted & 3) - 1;
        Some((importance, self.registry.press(self.owner, importance, yields)))
    }

    /// Presses on another transaction as [`Registry::press`] does, for this transaction.
    #[cfg(feature = "shuttle")]
    pub(crate) fn press(&self, word: u64, yields: Yields) -> Pressed {
        self.registry.press(word, self.importance, yields)
    }

    /// Returns the taker of this transaction, if there is one.
    pub(crate) fn taken_by(&self) -> Option<TakenBy> {
        let seen = self.slot().status.load(Acquire);
        let by = (seen >> BY_SHIFT) & BY_MASK;
        (seen >> super::slots::STATE_SHIFT == ABORTED && by != 0).then(|| TakenBy { importance: by - 1 })
    }

    /// Announces the tables, by bits, that it has written to. Sequentially consistent: a transaction that locks a table
    /// counts itself there, then looks at this.
    #[inline]
    pub(crate) fn set_tables_written(&self, tables: u64) {
        self.slot().tables_written.store(tables, SeqCst);
    }

    /// Returns the tables that it announced.
    pub(crate) fn tables_written(&self) -> u64 {
        self.slot().tables_written.load(Relaxed)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    /// A slot counts its transactions modulo 2^31: a mark from before it began anew must not hide later ones.
    #[test]
    fn marks_outlive_the_last_generation() {
        let registry = Registry::new(1, 1);
        registry.slots[0].generation.store(GENERATION_MASK - 1, Relaxed);
        for _ in 0..3 {
            let held = registry.begin(Class::Low, None, Role::None).expect("the slot is free");
            assert_eq!(registry.press(held.owner(), importance(Class::High), Yields::NotRunning), Pressed::Running);
            let given_way = held.rest(Activity::ClientWait, Yields::NotRunning);
            assert!(matches!(given_way, Some((2, Pressed::Taken { .. }))), "{given_way:?}");
            held.release();
        }
    }
}
