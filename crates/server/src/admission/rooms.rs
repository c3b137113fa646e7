//! Rooms: connections to a server, which the gate grants together with slots.
//!
//! A transaction that is admitted for a room holds one place in it, through its slot, and returns it with the slot. If
//! a client keeps its connection for longer, the place goes with it ([`Slot::keep`]).
//!
//! **Invariant:** a room exists for as long as somebody is in it or waits for it, and each place is returned once: by
//! the slot, or by dropping the place.

use super::{Admission, AdmissionShared, Slot, TurnedAway};
use gate::{Entrance, PoolId};
use stage::Class;
use std::fmt;
use std::sync::Arc;

/// Pool of connections that the gate grants together with slots.
pub struct Room {
    shared: Arc<AdmissionShared>,
    pub(super) pool: PoolId,
}

/// Place in a room that belongs to no transaction. Dropping it returns it.
pub struct RoomPlace(Arc<Room>);

impl fmt::Debug for RoomPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Place").field(&self.0.pool).finish()
    }
}

impl Admission {
    /// Creates a room with this many places; `None` if there is no gate.
    pub fn room(&self, size: usize) -> Option<Arc<Room>> {
        let shared = self.0.as_ref()?;
        let pool = shared.with(|state, _| state.gate.open_pool(size));
        Some(Arc::new(Room { shared: Arc::clone(shared), pool }))
    }
}

impl Room {
    /// Sets the number of places. Places that are held stay valid.
    pub fn resize(&self, size: usize) {
        self.shared.with(|state, now| state.gate.resize_pool(now, self.pool, size));
    }

    /// Sets the maximum number of connections that the server was found to allow; `None` once that is over.
    pub fn bound(&self, ceiling: Option<usize>) {
        self.shared.with(|state, now| state.gate.bound_pool(now, self.pool, ceiling));
    }

    /// True if all places are taken.
    pub fn is_full(&self) -> bool {
        self.shared.lock().gate.is_pool_shut(self.pool)
    }

    /// Number of transactions that wait for a place because none is free.
    pub fn waiting(&self) -> usize {
        self.shared.lock().gate.waiting_for_pool(self.pool)
    }

    /// Waits for a place without a slot, for connections that serve no transaction. The request precedes all others.
    pub async fn place(self: &Arc<Room>) -> RoomPlace {
        let class = self.shared.classes[Class::High as usize];
        let (ticket, entrance) = self.shared.with(|state, now| {
            let (ticket, entrance) = state.gate.ask(now, class, self.pool);
            if entrance == Entrance::Waits {
                state.waiting.insert(ticket);
            }
            (ticket, entrance)
        });
        // From here on, dropping the future leaves the gate.
        let inside = Some((Arc::clone(&self.shared), ticket));
        let mut asking = Slot { inside, room: Some(Arc::clone(self)), class: Class::High, is_idle: false };
        if entrance == Entrance::Waits {
            // Nothing bounds this wait.
            let _: Result<(), TurnedAway> = self.shared.admission(ticket).await;
        }
        asking.keep().unwrap_or_else(|| unreachable!("who was let in for a place has one"))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if !self.shared.is_half_changed() {
            self.shared.with(|state, _| state.gate.close_pool(self.pool));
        }
    }
}

impl Drop for RoomPlace {
    fn drop(&mut self) {
        let room = &self.0;
        if !room.shared.is_half_changed() {
            room.shared.with(|state, now| state.gate.give_back(now, room.pool));
        }
    }
}

impl Slot {
    /// Takes the place from the transaction, if it has one, so that it outlives the slot.
    pub fn keep(&mut self) -> Option<RoomPlace> {
        let (shared, ticket) = self.inside.as_ref()?;
        let room = self.room.take()?;
        shared.with(|state, _| state.gate.keep(*ticket))?;
        Some(RoomPlace(room))
    }

    /// Returns slot and place, because the server allows no more than `ceiling` connections, and waits again at the old
    /// position.
    ///
    /// # Errors
    /// The transaction is turned away, by bounds that were set.
    pub async fn wait_again(&mut self, ceiling: usize) -> Result<(), TurnedAway> {
        let (Some((shared, ticket)), Some(room)) = (&self.inside, &self.room) else { return Ok(()) };
        shared.with(|state, now| {
            state.waiting.insert(*ticket);
            state.gate.bound_pool(now, room.pool, Some(ceiling));
            state.gate.wait_again(now, *ticket);
        });
        shared.admission(*ticket).await
    }
}
