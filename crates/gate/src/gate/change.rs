//! Changes of a gate's settings while it works.
//!
//! **Invariant:** transactions stay in place: places, slots and keys are kept, and every waiting or running transaction
//! is timed by the new limits from the moment that its wait or run began.

use super::Gate;
use super::entry::TransactionState;
use super::timer::{Timed, Timer};
use crate::settings::{GateSettings, SettingsError};
use crate::time::Time;

impl Gate {
    /// Applies these settings from now on, except the limit, which is [`Gate::set_mpl`]'s, and the processors. A
    /// waiting transaction keeps its place, though its class may have another order now.
    ///
    /// # Errors
    /// If the settings are invalid, or have other classes; the gate stays as it was.
    pub fn change(&mut self, now: Time, settings: GateSettings) -> Result<(), SettingsError> {
        settings.check()?;
        let names =
            |settings: &GateSettings| settings.classes.iter().map(|class| class.name.clone()).collect::<Vec<_>>();
        let own = names(&self.settings);
        if let Some(missing) = own.iter().find(|name| settings.class(name).is_none()) {
            return Err(SettingsError::Missing(missing.clone()));
        }
        if own != names(&settings) {
            return Err(SettingsError::Classes(settings.classes.len()));
        }
        self.pass(now);
        let settings = GateSettings { processors: self.settings.processors, ..settings };
        let before = std::mem::replace(&mut self.settings, settings);
        // A transaction that waits for a key stands by its level.
        for (ticket, entry) in self.entries.iter().filter(|(_, entry)| entry.state == TransactionState::HeldBack) {
            let Some(key) = entry.hot else { continue };
            let (index, number) = (entry.class.index(), entry.place.number());
            self.hot.forget(key, before.classes[index].level, number, ticket);
            self.hot.wait(key, self.settings.classes[index].level, number, ticket);
        }
        for (index, (class, settings)) in self.classes.iter_mut().zip(&self.settings.classes).enumerate() {
            let of_class: Vec<_> = self.entries.iter().filter(|(_, entry)| entry.class.index() == index).collect();
            class.wait_timer = Timer::of(Timed::Waiting, settings.wait_max, &of_class);
            let after = settings.runaway.map(|runaway| runaway.after);
            class.run_timer = Timer::of(Timed::Being(TransactionState::Inside), after, &of_class);
        }
        let all: Vec<_> = self.entries.iter().collect();
        self.lend_timer = Timer::of(Timed::Being(TransactionState::Resting), self.settings.lend_after, &all);
        self.return_timer =
            Timer::of(Timed::Being(TransactionState::Returning), Some(self.settings.return_patience), &all);
        self.admit();
        Ok(())
    }
}
