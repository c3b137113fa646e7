//! What the door shows of itself.
//!
//! **Invariant:** whoever looks copies under the lock and computes after it: models take long, and transactions come and go.

use super::{Door, Mode};
use gate::control::{Controller, Forecast, Move, Phase};
use gate::{Observation, View};
use types::table::Lines;

/// What there is to see.
#[derive(Clone, Debug)]
pub struct DoorView {
    /// What it does.
    pub mode: Mode,
    /// The gate.
    pub gate: View,
    /// How many processors the database has.
    pub processors: u32,
    /// What was seen since the limit last changed.
    pub seen: Observation,
    /// Whether the controller searches or holds, under [`Mode::Auto`].
    pub phase: Option<Phase>,
    /// Why the limit has moved, the latest last.
    pub moves: Vec<Move>,
    /// Seconds since the door was made, which [`Move::at`] counts from.
    pub seconds: f64,
}

impl Door {
    /// What there is to see; nothing, if there is no gate.
    pub fn view(&self) -> Option<DoorView> {
        let shared = self.gate()?;
        let state = shared.lock();
        let acts = state.mode == Mode::Auto;
        Some(DoorView {
            mode: state.mode,
            gate: state.gate.view(),
            processors: state.gate.settings().processors,
            seen: state.gate.observation(),
            phase: acts.then(|| state.controller.phase()),
            moves: state.controller.moves().copied().collect(),
            seconds: shared.began.elapsed().as_secs_f64(),
        })
    }

    /// The rows of a view of the schema `overtake` that is about the gate, for those who show it without SQL: each value with its
    /// column's name. The forecast takes a while.
    pub fn lines(&self, view: &str) -> Lines {
        super::lines::lines(self, view)
    }

    /// Those of `overtake.mpl_history` of the last so many seconds.
    pub fn history_lines(&self, seconds: f64) -> Lines {
        super::lines::history(self, seconds)
    }

    /// What other limits would do; nothing, if there is no gate, too little was seen, or they would do what the model does not know:
    /// where most of the time goes into waits for locks, what was measured under other limits counts, or nothing.
    pub fn forecast(&self) -> Option<Forecast> {
        let shared = self.gate()?;
        if self.mode() != Mode::Auto && self.locks_share().is_some() {
            return None;
        }
        let (mut controller, seen, processors): (Controller, Observation, u32) = {
            let state = shared.lock();
            (state.controller.clone(), state.gate.observation(), state.gate.settings().processors)
        };
        shared.teach(&mut controller);
        controller.forecast(&seen, processors)
    }
}
