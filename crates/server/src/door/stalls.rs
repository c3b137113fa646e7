//! Who waits for whom inside, as somebody sees who can look into the database.
//!
//! **Invariant:** what is told of a transaction that has ended in between concerns nobody.

use super::{Door, Mode, Slot};
use gate::Ticket;
use gate::control::Phase;
use std::time::Duration;

/// What was seen of those who are inside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Whether each of them waits for a lock.
    pub waits: Vec<(Ticket, bool)>,
    /// Those that sit idle while somebody waits for a lock of theirs.
    pub blockers: Vec<Ticket>,
}

impl Door {
    /// Whether somebody looks, and can see.
    pub fn know_stalls(&self, knows: bool) {
        if let Some(shared) = self.gate() {
            shared.lock().gate.know_stalls(knows);
        }
    }

    /// This is how it is.
    pub fn stalls(&self, seen: &Stalls) {
        if let Some(shared) = self.gate() {
            shared.with(|state, now| {
                seen.waits.iter().for_each(|&(ticket, waits)| state.gate.stall(now, ticket, waits));
                seen.blockers.iter().for_each(|&ticket| state.gate.blocks(now, ticket));
            });
        }
    }

    /// Whether anybody is inside; whether, besides, somebody waits and nobody has got on for so long.
    pub fn is_busy(&self, patience: Duration) -> (bool, bool) {
        let Some(shared) = self.gate() else { return (false, false) };
        let then = shared.began.elapsed().checked_sub(patience);
        let state = shared.lock();
        let then = then.map(|then| gate::Time::ZERO.after(then));
        (0 < state.gate.slots(), then.is_some_and(|then| state.gate.is_stuck_since(then)))
    }

    /// Whether the limit is being looked for.
    pub fn is_searching(&self) -> bool {
        let Some(shared) = self.gate() else { return false };
        let state = shared.lock();
        state.mode == Mode::Auto && state.controller.phase() == Phase::Searching
    }
}

impl Slot {
    /// The number of its transaction at the gate.
    pub fn ticket(&self) -> Option<Ticket> {
        self.inside.as_ref().map(|(_, ticket)| *ticket)
    }
}
