//! What a transaction is told that is cancelled because it runs for too long.
//!
//! **Invariant:** it is said once, to the transaction that the gate has cancelled, and only of a cancel: what fails for another
//! reason meanwhile has that one.

use super::{Shared, Slot, State};
use gate::{ClassId, Ticket};
use sql::{SqlError, SqlState};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The transactions that were cancelled and do not know why yet: of which class they were, and the bound.
#[derive(Default)]
pub(super) struct Runaways(HashMap<Ticket, (ClassId, Duration)>);

impl State {
    /// Its time is over.
    pub(super) fn note_runaway(&mut self, ticket: Ticket) {
        let class = self.gate.active(ticket).map(|(class, _)| class);
        let rule = class.and_then(|class| Some((class, self.gate.settings().classes[class.index()].runaway?.after)));
        self.runaways.0.extend(rule.map(|rule| (ticket, rule)));
    }

    /// Its statement has ended, or it has left.
    pub(super) fn forget_runaway(&mut self, ticket: Ticket) {
        if !self.runaways.0.is_empty() {
            self.runaways.0.remove(&ticket);
        }
    }

    fn told(&mut self, ticket: Ticket) -> Option<SqlError> {
        let (class, bound) = self.runaways.0.remove(&ticket)?;
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
    pub(crate) fn runaway(&self) -> Option<SqlError> {
        let (shared, ticket): &(Arc<Shared>, Ticket) = self.inside.as_ref()?;
        shared.with(|state, _| state.told(*ticket))
    }
}
