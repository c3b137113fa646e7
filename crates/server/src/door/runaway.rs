//! What a transaction is told that is cancelled because it runs for too long.
//!
//! A cancel may come before the statement that it is for has begun, and do nothing: it comes again until the transaction ends, rests, or
//! has been told.
//!
//! **Invariant:** it is said once, to the transaction that the gate has cancelled, and only of a cancel: what fails for another
//! reason meanwhile has that one.

use super::{Shared, Slot, State};
use gate::{ClassId, Ticket, Time};
use statement::{SqlError, SqlState};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Time between two cancels of one transaction.
const AGAIN: Duration = Duration::from_secs(1);

/// The transactions that were cancelled and do not know why yet.
#[derive(Default)]
pub(super) struct Runaways(HashMap<Ticket, Runaway>);

/// One of them.
struct Runaway {
    class: ClassId,
    bound: Duration,
    /// When it is cancelled again.
    again: Time,
}

impl State {
    /// Its time is over.
    pub(super) fn note_runaway(&mut self, now: Time, ticket: Ticket) {
        let Some((class, _)) = self.gate.active(ticket) else { return };
        if let Some(rule) = self.gate.settings().classes[class.index()].runaway {
            self.runaways.0.insert(ticket, Runaway { class, bound: rule.after, again: now.after(AGAIN) });
        }
    }

    /// Cancels those that go on though they were cancelled before.
    pub(super) fn cancel_again(&mut self, now: Time) {
        for (ticket, runaway) in &mut self.runaways.0 {
            if runaway.again <= now {
                runaway.again = now.after(AGAIN);
                if let Some(cancel) = self.cancels.get(ticket) {
                    cancel.cancel();
                }
            }
        }
    }

    /// Its statement has ended, or it has left.
    pub(super) fn forget_runaway(&mut self, ticket: Ticket) {
        if !self.runaways.0.is_empty() {
            self.runaways.0.remove(&ticket);
        }
    }

    fn told(&mut self, ticket: Ticket) -> Option<SqlError> {
        let Runaway { class, bound, .. } = self.runaways.0.remove(&ticket)?;
        let (_, active) = self.gate.active(ticket)?;
        let name = &self.gate.settings().classes[class.index()].name;
        let ms = |time: Duration| time.as_millis();
        let message = format!("canceling statement due to the runaway limit of class \"{name}\"");
        let detail = format!("Its transaction has been active for {} ms; {} ms are the limit.", ms(active), ms(bound));
        let hint = "Raise runaway of the class in overtake.gate_classes, name there a class instead of cancel in \
                    runaway_to, or use another class by overtake.priority.";
        Some(SqlError::new(SqlState("57014"), message).detail(detail).hint(hint))
    }
}

impl Slot {
    /// Why its statement was cancelled, if the gate has done that.
    pub fn runaway(&self) -> Option<SqlError> {
        let (shared, ticket): &(Arc<Shared>, Ticket) = self.inside.as_ref()?;
        shared.with(|state, _| state.told(*ticket))
    }
}
