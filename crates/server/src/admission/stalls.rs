//! Lock waits of transactions inside, as an observer of the database reports them.
//!
//! **Invariant:** a report about a transaction that has ended in between affects nobody.

use super::{Admission, Mode, Slot};
use gate::Ticket;
use gate::control::Phase;
use std::time::Duration;

/// Observed lock waits of the transactions inside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Transactions, each with true if it waits for a lock.
    pub waits: Vec<(Ticket, bool)>,
    /// Idle transactions that hold locks for which somebody waits.
    pub blockers: Vec<Ticket>,
}

impl Admission {
    /// Sets whether somebody observes lock waits.
    pub fn know_stalls(&self, knows: bool) {
        if let Some(shared) = self.gate() {
            shared.lock().gate.know_stalls(knows);
        }
    }

    /// Reports the lock waits.
    pub fn stalls(&self, seen: &Stalls) {
        if let Some(shared) = self.gate() {
            shared.with(|state, now| {
                seen.waits.iter().for_each(|&(ticket, waits)| state.gate.stall(now, ticket, waits));
                seen.blockers.iter().for_each(|&ticket| state.gate.blocks(now, ticket));
            });
        }
    }

    /// Returns true if transactions are inside; and besides, true if others wait while no transaction has made progress
    /// for this long.
    pub fn is_busy(&self, patience: Duration) -> (bool, bool) {
        let Some(shared) = self.gate() else { return (false, false) };
        let then = shared.time.since(shared.began).checked_sub(patience);
        let state = shared.lock();
        let then = then.map(|then| gate::Time::ZERO.after(then));
        (0 < state.gate.slots(), then.is_some_and(|then| state.gate.is_stuck_since(then)))
    }

    /// True if the controller is searching for the limit.
    pub fn is_searching(&self) -> bool {
        let Some(shared) = self.gate() else { return false };
        let state = shared.lock();
        state.mode == Mode::Auto && state.controller.phase() == Phase::Searching
    }
}

impl Slot {
    /// Ticket of its transaction at the gate.
    pub fn ticket(&self) -> Option<Ticket> {
        self.inside.as_ref().map(|(_, ticket)| *ticket)
    }
}
