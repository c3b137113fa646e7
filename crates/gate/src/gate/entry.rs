//! Transactions that the gate knows, and their numbers.
//!
//! **Invariant:** a [`Ticket`] is good from the arrival of its transaction to its end. After that it means nobody, though another
//! transaction stands at the same place.

use super::queue::Place;
use super::rooms::{Lane, PoolId};
use crate::settings::ClassId;
use crate::time::Time;
use std::time::Duration;

/// The number of a transaction at a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    index: u32,
    generation: u32,
}

impl Ticket {
    /// Below the largest number of transactions that were at the gate at one time; after the end of this one it is another one's.
    pub fn place(self) -> usize {
        self.index as usize
    }

    /// It as a number, to be kept where there is room for no more.
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// The one that was this number. One that never was means nobody, as one does whose transaction is over.
    pub fn from_bits(bits: u64) -> Ticket {
        Ticket { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// Where a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It waits to be let in, in the queue of its class.
    Waiting,
    /// It waits for another one to leave that has the same hot key, and then in the queue.
    HeldBack,
    /// It is active and has a slot.
    Inside,
    /// It waits for its client and has its slot.
    Resting,
    /// It waits for its client and has lent its slot.
    Lent,
    /// Its client is back; it waits for a slot again, before all others of its class.
    Returning,
    /// It needs a connection and no slot: it waits for one, or has it.
    Asking,
}

impl State {
    pub(super) fn has_slot(self) -> bool {
        matches!(self, State::Inside | State::Resting)
    }

    /// Whether it stands in the queue of its class.
    pub(super) fn is_queued(self) -> bool {
        matches!(self, State::Waiting | State::Returning)
    }
}

/// What the gate knows of a transaction.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) state: State,
    pub(super) class: ClassId,
    /// When it came.
    pub(super) arrived: Time,
    /// Since when it is in its state.
    pub(super) since: Time,
    /// Where it stands in the queue, if it does.
    pub(super) place: Place,
    pub(super) fingerprint: Option<u64>,
    pub(super) hot: Option<u64>,
    /// Whose it is; 0: nobody's in particular.
    pub(super) owner: u64,
    /// What its class was charged for it before it was known what it takes, in nanoseconds of a slot.
    pub(super) charged: f64,
    /// Times in the states that are over.
    pub(super) waited: Duration,
    pub(super) active: Duration,
    pub(super) rested: Duration,
    /// Its work so far, by the meter, up to its last rest.
    pub(super) demand: f64,
    /// What the meter said when it became active.
    pub(super) meter: f64,
    /// Its slot is an extra one, which goes with it.
    pub(super) is_extra: bool,
    /// It waits for a lock in the database, as the caller says.
    pub(super) is_stalled: bool,
    /// What its client got an extra slot for because others wait for this one.
    pub(super) helper: Option<Ticket>,
    /// What it needs, or has, a connection of.
    pub(super) pool: Option<PoolId>,
    /// Whether it has that.
    pub(super) has_place: bool,
    /// Where it stood, if it has its slot because nobody had gone in from there for long.
    pub(super) aged: Option<(ClassId, Lane)>,
}

impl Entry {
    pub(super) fn new(class: ClassId, now: Time, place: Place) -> Entry {
        Entry {
            state: State::Waiting,
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

    /// Where in the queue of its class it stands, if it does.
    pub(super) fn lane(&self) -> Lane {
        Lane::of(self.needs())
    }

    /// What it still needs a connection of.
    pub(super) fn needs(&self) -> Option<PoolId> {
        self.pool.filter(|_| !self.has_place)
    }

    /// Goes into another state; the time in the last one is counted.
    pub(super) fn turn(&mut self, state: State, now: Time) {
        let spent = now.since(self.since);
        match self.state {
            State::Waiting | State::HeldBack | State::Returning | State::Asking => self.waited += spent,
            State::Inside => self.active += spent,
            State::Resting | State::Lent => self.rested += spent,
        }
        self.state = state;
        self.since = now;
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Entries {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct Slot {
    /// Of whoever is there, or is next.
    generation: u32,
    entry: Option<Entry>,
}

impl Slot {
    fn is_of(&self, ticket: Ticket) -> bool {
        self.generation == ticket.generation
    }
}

impl Entries {
    pub(super) fn insert(&mut self, entry: Entry) -> Ticket {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(Slot::default());
                u32::try_from(self.slots.len() - 1).expect("there are fewer transactions than that")
            }
        };
        let slot = &mut self.slots[index as usize];
        slot.entry = Some(entry);
        Ticket { index, generation: slot.generation }
    }

    pub(super) fn get(&self, ticket: Ticket) -> Option<&Entry> {
        self.slots.get(ticket.index as usize).filter(|slot| slot.is_of(ticket))?.entry.as_ref()
    }

    pub(super) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Entry> {
        self.slots.get_mut(ticket.index as usize).filter(|slot| slot.is_of(ticket))?.entry.as_mut()
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Entry> {
        let slot = self.slots.get_mut(ticket.index as usize).filter(|slot| slot.is_of(ticket))?;
        let entry = slot.entry.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(ticket.index);
        Some(entry)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Ticket, &Entry)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let ticket = Ticket { index: index as u32, generation: slot.generation };
            Some((ticket, slot.entry.as_ref()?))
        })
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
