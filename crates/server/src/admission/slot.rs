//! Slot of a transaction inside.
//!
//! **Invariant:** the gate knows every holder, and the holder leaves it once, by ending or by dropping the slot.

use super::{AdmissionShared, Room, TurnedAway};
use gate::{Ending, Entrance, Ticket};
use stage::Class;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use wire::Cancel;

/// Slot of a transaction inside. Dropping it leaves the gate.
pub struct Slot {
    pub(super) inside: Option<(Arc<AdmissionShared>, Ticket)>,
    /// Room in which the transaction has a place, too. The field stands behind the ticket: the ticket is released
    /// before the room may go.
    pub(super) room: Option<Arc<Room>>,
    pub(super) class: Class,
    pub(super) is_idle: bool,
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("is_idle", &self.is_idle).finish_non_exhaustive()
    }
}

impl Slot {
    /// Marks the transaction as waiting for its client, which has all its answers.
    pub fn idle(&mut self) {
        self.rest(true);
    }

    /// Marks the transaction as waiting for its client, which takes nothing of the answer of a running statement.
    pub fn unread(&mut self) {
        self.rest(false);
    }

    fn rest(&mut self, has_ended: bool) {
        if let Some((shared, ticket)) = &self.inside
            && !std::mem::replace(&mut self.is_idle, true)
        {
            shared.with(|state, now| {
                state.gate.rest(now, *ticket);
                if has_ended {
                    // The statement that was cancelled has ended.
                    state.forget_runaway(*ticket);
                }
            });
        }
    }

    /// Marks the transaction as active: its client has sent something, or reads again. Waits for a slot, if its own was
    /// lent.
    pub async fn active(&mut self) {
        let Some((shared, ticket)) = &self.inside else { return };
        if !self.is_idle {
            return;
        }
        let entrance = shared.with(|state, now| {
            let entrance = state.gate.resume(now, *ticket);
            if entrance == Entrance::Waits {
                state.waiting.insert(*ticket);
            }
            entrance
        });
        self.is_idle = false;
        if entrance == Entrance::Waits {
            // A transaction that comes back is not turned away.
            let _: Result<(), TurnedAway> = shared.admission(*ticket).await;
        }
    }

    /// Changes the class of the transaction from now on.
    pub fn reclass(&mut self, class: Class) {
        if let Some((shared, ticket)) = &self.inside
            && std::mem::replace(&mut self.class, class) != class
        {
            let class = shared.classes[class as usize];
            shared.with(|state, now| state.gate.reclass(now, *ticket, class));
        }
    }

    /// Sets the handle that cancels or demotes the transaction, if it may be limited for running too long.
    pub fn cancel_by(&self, cancel: impl FnOnce() -> Arc<dyn Cancel>) {
        if let Some((shared, ticket)) = &self.inside
            && shared.bounds_runaways.load(Relaxed)
        {
            let cancel = cancel();
            shared.with(|state, _| state.cancels.insert(*ticket, cancel));
        }
    }

    /// Records that the transaction waits for a lock, or goes on.
    pub fn stall(&self, is_stalled: bool) {
        if let Some((shared, ticket)) = &self.inside {
            shared.with(|state, now| state.gate.stall(now, *ticket, is_stalled));
        }
    }

    /// Records that the transaction has completed.
    pub fn done(mut self, now: Instant) {
        self.leave(now, Ending::Done);
    }

    fn leave(&mut self, now: Instant, ending: Ending) {
        if let Some((shared, ticket)) = self.inside.take() {
            shared.with_at(shared.at(now), |state, now| {
                state.waiting.remove(ticket);
                if !state.cancels.is_empty() {
                    state.cancels.remove(&ticket);
                }
                state.forget_runaway(ticket);
                state.gate.leave(now, ticket, ending);
            });
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let now = |(shared, _): &(Arc<AdmissionShared>, Ticket)| (!shared.is_half_changed()).then(|| shared.time.now());
        if let Some(now) = self.inside.as_ref().and_then(now) {
            self.leave(now, Ending::Failed);
        }
    }
}
