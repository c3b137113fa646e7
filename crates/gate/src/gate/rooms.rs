//! Connections that transactions need besides slots, pool by pool.
//!
//! Slot and connection are granted together: a transaction that needs a connection of a pool that has none left is
//! passed over, holds no slot meanwhile and keeps its place. A connection outlives the transaction that it was granted
//! to ([`Gate::keep`]), and is given back by itself ([`Gate::give_back`]).
//!
//! **Invariant:** `taken` is the number of transactions that have a connection of the pool and of connections that were
//! kept. A pool has no room while a request for a connection alone waits, which goes before all others. Subqueues of queues
//! are shut where it has none.

use super::entry::{GateEntry, Ticket, TransactionState};
use super::queue::QueuePlace;
use super::{Event, Gate};
use crate::settings::ClassId;
use crate::time::Time;
use std::collections::VecDeque;

/// A pool of connections that a gate grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolId(u32);

/// SubqueueIndex of a queue in which a transaction waits: by the pool that it needs a connection of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SubqueueIndex(u32);

impl SubqueueIndex {
    pub(super) fn of(pool: Option<PoolId>) -> SubqueueIndex {
        SubqueueIndex(pool.map_or(0, |PoolId(number)| number + 1))
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Connections of one pool.
#[derive(Debug, Default)]
struct Room {
    size: usize,
    /// Number of connections that the pool may grant for now, though it is larger.
    ceiling: Option<usize>,
    taken: usize,
    /// Requests for a connection that need no slot.
    asking: VecDeque<Ticket>,
    is_shut: bool,
}

impl Room {
    fn has_place(&self) -> bool {
        self.taken < self.ceiling.map_or(self.size, |ceiling| ceiling.min(self.size))
    }
}

/// Set of all pools.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    rooms: Vec<Room>,
    free: Vec<u32>,
}

impl Rooms {
    fn get_mut(&mut self, PoolId(number): PoolId) -> &mut Room {
        &mut self.rooms[number as usize]
    }

    /// Returns true if a transaction that needs this pool can have it.
    pub(super) fn is_open(&self, pool: Option<PoolId>) -> bool {
        pool.is_none_or(|PoolId(number)| !self.rooms[number as usize].is_shut)
    }

    #[cfg(test)]
    pub(super) fn taken(&self, PoolId(number): PoolId) -> (usize, usize) {
        let room = &self.rooms[number as usize];
        (room.taken, room.asking.len())
    }
}

impl Gate {
    /// Opens a pool of `size` connections.
    pub fn open_pool(&mut self, size: usize) -> PoolId {
        let room = Room { size, is_shut: size == 0, ..Room::default() };
        let rooms = &mut self.rooms;
        match rooms.free.pop() {
            Some(number) => {
                rooms.rooms[number as usize] = room;
                PoolId(number)
            }
            None => {
                rooms.rooms.push(room);
                PoolId(u32::try_from(rooms.rooms.len() - 1).expect("there are fewer pools than that"))
            }
        }
    }

    /// Closes a pool. No transaction waits for it, and none has a connection of it.
    pub fn close_pool(&mut self, pool: PoolId) {
        let room = std::mem::take(self.rooms.get_mut(pool));
        assert!(room.taken == 0 && room.asking.is_empty(), "a pool that is closed is nobody's");
        self.rooms.free.push(pool.0);
    }

    /// Sets the size of a pool from now on. No transaction loses a connection.
    pub fn resize_pool(&mut self, now: Time, pool: PoolId, size: usize) {
        self.pass(now);
        self.rooms.get_mut(pool).size = size;
        self.settle(pool);
        self.admit();
    }

    /// Sets the number of connections of this pool that the server has room for, as observed; none: the bound is over.
    pub fn bound_pool(&mut self, now: Time, pool: PoolId, ceiling: Option<usize>) {
        self.pass(now);
        self.rooms.get_mut(pool).ceiling = ceiling;
        self.settle(pool);
        self.admit();
    }

    /// Returns true if no connection of this pool is free.
    pub fn is_pool_shut(&self, PoolId(number): PoolId) -> bool {
        self.rooms.rooms[number as usize].is_shut
    }

    /// Returns the number of transactions that wait for a connection of this pool, because it has none left.
    pub fn waiting_for_pool(&self, pool: PoolId) -> usize {
        let room = &self.rooms.rooms[pool.0 as usize];
        let subqueue = SubqueueIndex::of(Some(pool));
        let in_subqueues = || self.classes.iter().map(|class| class.queue.count_in(subqueue)).sum::<usize>();
        room.asking.len() + if room.is_shut { in_subqueues() } else { 0 }
    }

    /// Asks for a connection and no slot: for a query of the gate's own, which is no transaction. It goes before all
    /// others.
    pub fn ask(&mut self, now: Time, class: ClassId, pool: PoolId) -> (Ticket, super::Entrance) {
        self.pass(now);
        let place = QueuePlace::returning(now, self.next_number);
        self.next_number += 1;
        let mut entry = GateEntry::new(class, now, place);
        (entry.state, entry.pool) = (TransactionState::Asking, Some(pool));
        let ticket = self.entries.insert(entry);
        self.rooms.get_mut(pool).asking.push_back(ticket);
        self.settle(pool);
        // The answer of this call tells it, not an event.
        let has_place = self.entries.get(ticket).is_some_and(|entry| entry.has_place);
        if has_place {
            let told = self.events.pop_back();
            assert_eq!(told, Some(Event::Admitted(ticket)), "nobody else was let in");
        }
        (ticket, if has_place { super::Entrance::In } else { super::Entrance::Waits })
    }

    /// Keeps the connection that was granted with this transaction's slot beyond it: it is to be given back by
    /// [`Gate::give_back`]. Returns none if the transaction has no connection, or it was kept before.
    pub fn keep(&mut self, ticket: Ticket) -> Option<PoolId> {
        let entry = self.entries.get_mut(ticket)?;
        if !std::mem::take(&mut entry.has_place) {
            return None;
        }
        entry.pool.take()
    }

    /// Notes that the connection that was granted to a transaction with its slot is not available after all: the
    /// transaction gives both back, and waits again where it stood. [`Event::Admitted`] reports its admission.
    pub fn wait_again(&mut self, now: Time, ticket: Ticket) {
        self.pass(now);
        let Some(entry) = self.entries.get_mut(ticket) else { return };
        if entry.state != TransactionState::Inside || !std::mem::take(&mut entry.has_place) {
            return;
        }
        let (id, place, arrived, charged) = (entry.class, entry.place, entry.arrived, entry.charged);
        if let Some(pool) = entry.pool {
            self.vacate(pool);
        }
        self.deactivate(ticket);
        self.release(ticket);
        // The transaction is charged anew.
        self.classes[id.index()].used -= charged / self.weight(id);
        self.turn(ticket, TransactionState::Waiting);
        self.enqueue(ticket, place);
        self.classes[id.index()].wait_timer.set_since(arrived, ticket);
        self.admit();
    }

    /// Frees a connection that was kept.
    pub fn give_back(&mut self, now: Time, pool: PoolId) {
        self.pass(now);
        self.vacate(pool);
        self.admit();
    }

    /// Gives this transaction the connection that it needs.
    pub(super) fn occupy(&mut self, ticket: Ticket) {
        let Some(entry) = self.entries.get_mut(ticket) else { return };
        let Some(pool) = entry.needs() else { return };
        entry.has_place = true;
        self.rooms.get_mut(pool).taken += 1;
        self.settle(pool);
    }

    /// Frees a connection.
    pub(super) fn vacate(&mut self, pool: PoolId) {
        self.rooms.get_mut(pool).taken -= 1;
        self.settle(pool);
    }

    /// Removes a request for a connection alone that was given up.
    pub(super) fn ask_no_more(&mut self, pool: PoolId, ticket: Ticket) {
        self.rooms.get_mut(pool).asking.retain(|asking| *asking != ticket);
    }

    /// Grants connections to the requests for nothing else, and opens or shuts subqueues as there is room then.
    fn settle(&mut self, pool: PoolId) {
        let room = self.rooms.get_mut(pool);
        while room.has_place()
            && let Some(ticket) = room.asking.pop_front()
        {
            if let Some(entry) = self.entries.get_mut(ticket) {
                room.taken += 1;
                entry.has_place = true;
                self.events.push_back(Event::Admitted(ticket));
            }
        }
        let is_shut = !room.has_place();
        if room.is_shut == is_shut {
            return;
        }
        room.is_shut = is_shut;
        let subqueue = SubqueueIndex::of(Some(pool));
        self.classes.iter_mut().for_each(|class| class.queue.set_open(subqueue, !is_shut));
    }
}
