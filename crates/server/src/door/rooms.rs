//! Rooms: connections to a server, which the gate grants together with slots.
//!
//! A transaction that is let in for a room has one place in it, by its slot, and gives it back with that. A connection that its client
//! keeps for longer takes the place along ([`Slot::keep`]).
//!
//! **Invariant:** a room is there for as long as somebody is in it or waits for it, and each place is given back once: by the slot,
//! or by dropping it.

use super::{Door, Shared, Slot, TurnedAway};
use gate::{Entrance, PoolId};
use stage::Class;
use std::fmt;
use std::sync::Arc;

/// Connection that the gate grants together with a slot.
pub struct Room {
    shared: Arc<Shared>,
    pub(super) pool: PoolId,
}

/// A place in a room that no transaction has. Dropping it gives it back.
pub struct Place(Arc<Room>);

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Place").field(&self.0.pool).finish()
    }
}

impl Door {
    /// A room with so many places; nothing, if there is no gate.
    pub fn room(&self, size: usize) -> Option<Arc<Room>> {
        let shared = self.0.as_ref()?;
        let pool = shared.with(|state, _| state.gate.open_pool(size));
        Some(Arc::new(Room { shared: Arc::clone(shared), pool }))
    }
}

impl Room {
    /// It has so many places from now on. Nobody loses one.
    pub fn resize(&self, size: usize) {
        self.shared.with(|state, now| state.gate.resize_pool(now, self.pool, size));
    }

    /// The server has no room for more than so many connections, as was seen; none: that is over.
    pub fn bound(&self, ceiling: Option<usize>) {
        self.shared.with(|state, now| state.gate.bound_pool(now, self.pool, ceiling));
    }

    /// Whether all places are taken.
    pub fn is_full(&self) -> bool {
        self.shared.lock().gate.is_pool_shut(self.pool)
    }

    /// How many wait for a place, because there is none.
    pub fn waiting(&self) -> usize {
        self.shared.lock().gate.waiting_for_pool(self.pool)
    }

    /// Waits for a place without a slot, for what is no transaction. It goes before all others.
    pub async fn place(self: &Arc<Room>) -> Place {
        let class = self.shared.classes[Class::High as usize];
        let (ticket, entrance) = self.shared.with(|state, now| {
            let (ticket, entrance) = state.gate.ask(now, class, self.pool);
            if entrance == Entrance::Waits {
                state.waiting.insert(ticket);
            }
            (ticket, entrance)
        });
        // From here on whoever gives up leaves.
        let inside = Some((Arc::clone(&self.shared), ticket));
        let mut asking = Slot { inside, room: Some(Arc::clone(self)), class: Class::High, is_idle: false };
        if entrance == Entrance::Waits {
            // Nothing bounds this wait here.
            let _: Result<(), TurnedAway> = self.shared.admission(ticket).await;
        }
        asking.keep().unwrap_or_else(|| unreachable!("who was let in for a place has one"))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.shared.with(|state, _| state.gate.close_pool(self.pool));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let room = &self.0;
        room.shared.with(|state, now| state.gate.give_back(now, room.pool));
    }
}

impl Slot {
    /// Its place is not the transaction's any more, if it has one.
    pub fn keep(&mut self) -> Option<Place> {
        let (shared, ticket) = self.inside.as_ref()?;
        let room = self.room.take()?;
        shared.with(|state, _| state.gate.keep(*ticket))?;
        Some(Place(room))
    }

    /// The server has no room for more than so many connections: gives slot and place back, and waits again where it stood.
    ///
    /// # Errors
    /// It is turned away, by bounds that were set.
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
