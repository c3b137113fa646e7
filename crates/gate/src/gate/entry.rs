//! Transactions that the gate knows, and their numbers.
//!
//! **Invariant:** a [`Ticket`] is valid from the arrival of its transaction to its end. After that it names no
//! transaction, though another one stands at the same place.

use super::queue::QueuePlace;
use super::rooms::{PoolId, SubqueueIndex};
use crate::settings::ClassId;
use crate::time::Time;
use std::time::Duration;

/// Number of a transaction at a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    index: u32,
    generation: u32,
}

impl Ticket {
    /// Returns the place of the transaction: below the largest number of transactions that were at the gate at one
    /// time; after the end of this one it is another one's.
    pub fn place(self) -> usize {
        self.index as usize
    }

    /// Returns the ticket as a number, to be kept where there is room for no more.
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// Returns the ticket that was this number. A number that never was one names no transaction, like that of a
    /// transaction that is over.
    pub fn from_bits(bits: u64) -> Ticket {
        Ticket { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// State of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransactionState {
    /// The transaction waits for admission, in the queue of its class.
    Waiting,
    /// The transaction waits for another one with the same hot key to leave, and then in the queue.
    HeldBack,
    /// The transaction is active and has a slot.
    Inside,
    /// The transaction waits for its client and has its slot.
    Resting,
    /// The transaction waits for its client and has lent its slot.
    Lent,
    /// The client is back; the transaction waits for a slot again, before all others of its class.
    Returning,
    /// The transaction needs a connection and no slot: it waits for one, or has it.
    Asking,
}

impl TransactionState {
    pub(super) fn has_slot(self) -> bool {
        matches!(self, TransactionState::Inside | TransactionState::Resting)
    }
}

/// Record of a transaction.
#[derive(Clone, Debug)]
pub(super) struct GateEntry {
    pub(super) state: TransactionState,
    pub(super) class: ClassId,
    /// Time of the arrival.
    pub(super) arrived: Time,
    /// Time since which the transaction is in its state.
    pub(super) since: Time,
    /// Place in the queue, if it stands there.
    pub(super) place: QueuePlace,
    pub(super) fingerprint: Option<u64>,
    pub(super) hot: Option<u64>,
    /// Owner; 0: no owner.
    pub(super) owner: u64,
    /// Nanoseconds of a slot that its class was charged for it before its actual time was known.
    pub(super) charged: f64,
    /// Times in the states that are over.
    pub(super) waited: Duration,
    pub(super) active: Duration,
    pub(super) rested: Duration,
    /// Work so far, by the meter, up to the last rest.
    pub(super) demand: f64,
    /// Reading of the meter when the transaction became active.
    pub(super) meter: f64,
    /// True if the slot is an extra one, which goes with the transaction.
    pub(super) is_extra: bool,
    /// True if the transaction waits for a lock in the database, as the caller says.
    pub(super) is_stalled: bool,
    /// Ticket of its client that got an extra slot because others wait for this transaction.
    pub(super) helper: Option<Ticket>,
    /// Pool that it needs, or has, a connection of.
    pub(super) pool: Option<PoolId>,
    /// True if it has that connection.
    pub(super) has_place: bool,
    /// Class and subqueue where it stood, if it has its slot because no transaction had been admitted from there for long.
    pub(super) aged: Option<(ClassId, SubqueueIndex)>,
}

impl GateEntry {
    pub(super) fn new(class: ClassId, now: Time, place: QueuePlace) -> GateEntry {
        GateEntry {
            state: TransactionState::Waiting,
            class,
            arrived: now,
            since: now,
            place,
            fingerprint: None,
            hot: None,
            owner: 0,
            charged: 0.0,
            waited: Duration::ZERO,
            active: Duration::ZERO,
            rested: Duration::ZERO,
            demand: 0.0,
            meter: 0.0,
            is_extra: false,
            is_stalled: false,
            helper: None,
            pool: None,
            has_place: false,
            aged: None,
        }
    }

    /// Returns the subqueue of the class's queue in which the transaction stands, if it does.
    pub(super) fn subqueue(&self) -> SubqueueIndex {
        SubqueueIndex::of(self.needs())
    }

    /// Returns the pool that the transaction still needs a connection of.
    pub(super) fn needs(&self) -> Option<PoolId> {
        self.pool.filter(|_| !self.has_place)
    }

    /// Changes the state; the time in the last one is counted.
    pub(super) fn turn(&mut self, state: TransactionState, now: Time) {
        let spent = now.since(self.since);
        match self.state {
            TransactionState::Waiting
            | TransactionState::HeldBack
            | TransactionState::Returning
            | TransactionState::Asking => self.waited += spent,
            TransactionState::Inside => self.active += spent,
            TransactionState::Resting | TransactionState::Lent => self.rested += spent,
        }
        self.state = state;
        self.since = now;
    }
}

/// Set of all transactions at the gate.
#[derive(Debug, Default)]
pub(super) struct Entries {
    slots: Vec<EntrySlot>,
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct EntrySlot {
    /// Generation of the present or the next transaction of the place.
    generation: u32,
    entry: Option<GateEntry>,
}

impl EntrySlot {
    fn is_of(&self, ticket: Ticket) -> bool {
        self.generation == ticket.generation
    }
}

impl Entries {
    pub(super) fn insert(&mut self, entry: GateEntry) -> Ticket {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(EntrySlot::default());
                u32::try_from(self.slots.len() - 1).expect("there are fewer transactions than that")
            }
        };
        let slot = &mut self.slots[index as usize];
        slot.entry = Some(entry);
        Ticket { index, generation: slot.generation }
    }

    pub(super) fn get(&self, ticket: Ticket) -> Option<&GateEntry> {
        self.slots.get(ticket.index as usize).filter(|slot| slot.is_of(ticket))?.entry.as_ref()
    }

    pub(super) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut GateEntry> {
        self.slots.get_mut(ticket.index as usize).filter(|slot| slot.is_of(ticket))?.entry.as_mut()
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<GateEntry> {
        let slot = self.slots.get_mut(ticket.index as usize).filter(|slot| slot.is_of(ticket))?;
        let entry = slot.entry.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(ticket.index);
        Some(entry)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Ticket, &GateEntry)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let ticket = Ticket { index: index as u32, generation: slot.generation };
            Some((ticket, slot.entry.as_ref()?))
        })
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
