//! Change of the gate's settings while transactions pass through it.
//!
//! **Invariant:** either all of the new settings take effect, or none. Transactions that wait or are inside stay there.

use super::{Admission, AdmissionOptions, DemandSource, Mode};
use gate::SettingsError;
use gate::control::Controller;
use locked::{Locked, RwLocked};
use std::sync::atomic::Ordering::{Relaxed, Release};

impl Admission {
    /// Applies these options from now on. Returns false where it cannot: a gate can neither be added nor removed while
    /// transactions are under way.
    ///
    /// # Errors
    /// The settings describe no valid gate; the old ones stay in force.
    pub fn change(&self, options: &AdmissionOptions) -> Result<bool, SettingsError> {
        let Some(shared) = self.gate() else { return Ok(options.mode == Mode::Off) };
        if options.mode == Mode::Off {
            return Ok(false);
        }
        shared.with(|state, now| {
            let mut gate = options.gate.clone();
            if !options.has_processors {
                // The detected number of processors is better than the assumed one.
                gate.processors = state.gate.settings().processors;
            }
            state.gate.change(now, gate)?;
            let was_auto = state.mode == Mode::Auto;
            let is_same = options.control == *state.controller.settings();
            if !is_same || (options.mode == Mode::Auto) != was_auto {
                state.controller = Controller::new(options.control.clone());
                state.controllers += 1;
                state.source = DemandSource::of(&options.control);
            }
            state.mode = options.mode;
            let (least, most) = (options.control.mpl_min, options.control.mpl_max);
            let mpl = match options.mode {
                // The search goes on from the current limit.
                Mode::Auto if was_auto => state.gate.mpl().clamp(least, most.max(least)),
                Mode::Auto => state.controller.start(state.gate.settings().processors),
                Mode::Off | Mode::Observe | Mode::Fixed => options.gate.mpl,
            };
            if mpl != state.gate.mpl() {
                state.gate.set_mpl(now, mpl);
            }
            Ok(())
        })?;
        *shared.options.locked_anyway() = options.clone();
        let asked = options.asked();
        shared.bounds_runaways.store(options.bounds_runaways(), Relaxed);
        shared.asks.store(!asked.is_nothing(), Relaxed);
        *shared.asked.write_locked_anyway() = asked;
        // A reader of the new number also sees the settings that belong to it.
        shared.generation.fetch_add(1, Release);
        // Timeouts may be due sooner.
        shared.alarm.notify_one();
        Ok(true)
    }
}
