//! Transactions that are cancelled because they run for too long, and the reason that their clients are told.
//!
//! A cancel may arrive before the statement that it is for has begun, and do nothing. So it is repeated until the
//! transaction ends, becomes idle, or has been told.
//!
//! **Invariant:** the reason is given once, to the transaction that the gate has cancelled, and only for a cancel. A
//! statement that fails for another reason meanwhile keeps that reason.

use super::{AdmissionShared, AdmissionState, Slot};
use gate::{ClassId, Ticket, Time};
use statement::{SqlError, SqlState};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Time between two cancels of one transaction.
const AGAIN: Duration = Duration::from_secs(1);

/// Transactions that were cancelled and do not know the reason yet.
#[derive(Default)]
pub(super) struct Runaways(HashMap<Ticket, Runaway>);

/// Cancelled transaction.
struct Runaway {
    class: ClassId,
    bound: Duration,
    /// Time of its next cancel.
    again: Time,
}

impl AdmissionState {
    /// Notes a transaction whose time is over.
    pub(super) fn note_runaway(&mut self, now: Time, ticket: Ticket) {
        let Some((class, _)) = self.gate.active(ticket) else { return };
        if let Some(rule) = self.gate.settings().classes[class.index()].runaway {
            self.runaways.0.insert(ticket, Runaway { class, bound: rule.after, again: now.after(AGAIN) });
        }
    }

    /// Cancels again the transactions that go on although they were cancelled before.
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

    /// Forgets a transaction whose statement has ended, or which has left.
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
        Some(SqlError::new(SqlState::QUERY_CANCELED, message).detail(detail).hint(hint))
    }
}

impl Slot {
    /// Returns the reason why its statement was cancelled, if the gate has done that.
    pub fn runaway(&self) -> Option<SqlError> {
        let (shared, ticket): &(Arc<AdmissionShared>, Ticket) = self.inside.as_ref()?;
        shared.with(|state, _| state.told(*ticket))
    }
}
