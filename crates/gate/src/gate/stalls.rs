//! Lock waits between transactions inside, where the database can report them.
//!
//! A client that holds a lock in one transaction and waits at the gate with another waits for itself as soon as those
//! inside wait for that lock: no transaction inside can end it. It is known at once where locks can be seen, and need
//! not be guessed from silence.
//!
//! **Invariant:** for each transaction that is waited for, one extra slot at a time is given, so there are never more
//! of them than of those that wait for it in a slot and use nothing.

use super::Gate;
use super::entry::{Ticket, TransactionState};
use crate::time::Time;

impl Gate {
    /// Sets whether the caller reports transactions that wait for a lock inside; see
    /// [`GateSettings::knows_stalls`](crate::GateSettings::knows_stalls).
    pub fn know_stalls(&mut self, knows: bool) {
        self.settings.knows_stalls = knows;
    }

    /// Returns true if a transaction waits for a slot, and none has made progress since then.
    pub fn is_stuck_since(&self, then: Time) -> bool {
        self.progress <= then && self.classes.iter().any(|class| class.queue.can_run())
    }

    /// Notes that a transaction inside waits for a lock of this transaction. If its client does not go on with it, so
    /// that it has lent its slot, and waits at the gate with another one, then that one is what all of them wait for:
    /// it gets an extra slot at once.
    pub fn blocks(&mut self, now: Time, ticket: Ticket) {
        self.pass(now);
        let Some(blocker) = self.entries.get(ticket) else { return };
        let (owner, helper) = (blocker.owner, blocker.helper);
        let has_help = helper.is_some_and(|helper| self.entries.get(helper).is_some());
        // A slow client does not wait: the time after which slots are lent tells them apart, if there is one.
        let is_away = match blocker.state {
            TransactionState::Lent => true,
            TransactionState::Resting => self.settings.lend_after.is_none(),
            TransactionState::Waiting
            | TransactionState::HeldBack
            | TransactionState::Inside
            | TransactionState::Returning
            | TransactionState::Asking => false,
        };
        if owner == 0 || !is_away || has_help {
            return;
        }
        let is_own = |ticket: &Ticket| self.entries.get(*ticket).is_some_and(|entry| entry.owner == owner);
        let Some(own) = self.classes.iter().flat_map(|class| class.queue.runnable()).find(is_own) else { return };
        if let Some(blocker) = self.entries.get_mut(ticket) {
            blocker.helper = Some(own);
        }
        self.let_in_extra(own);
    }
}
