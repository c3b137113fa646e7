//! View of the gate's state.
//!
//! **Invariant:** a view is copied under the lock and computed after it: models take long, and transactions come and
//! go.

use super::{Admission, Mode};
use gate::control::{Controller, Forecast, Move, Phase};
use gate::{Observation, View};
use types::table::NamedRows;

/// State of the gate.
#[derive(Clone, Debug)]
pub struct AdmissionView {
    /// Mode of the gate.
    pub mode: Mode,
    /// Queues, slots and counters of the gate.
    pub gate: View,
    /// Number of processors of the database.
    pub processors: u32,
    /// Observation since the limit last changed.
    pub seen: Observation,
    /// Phase of the controller, under [`Mode::Auto`].
    pub phase: Option<Phase>,
    /// Moves of the limit with their reasons, the latest last.
    pub moves: Vec<Move>,
    /// Seconds since the gate was created: the clock of [`Move::at`].
    pub seconds: f64,
}

impl Admission {
    /// Returns the state; `None` if there is no gate.
    pub fn view(&self) -> Option<AdmissionView> {
        let shared = self.gate()?;
        let state = shared.lock();
        let acts = state.mode == Mode::Auto;
        Some(AdmissionView {
            mode: state.mode,
            gate: state.gate.view(),
            processors: state.gate.settings().processors,
            seen: state.gate.observation(),
            phase: acts.then(|| state.controller.phase()),
            moves: state.controller.moves().copied().collect(),
            seconds: shared.time.since(shared.began).as_secs_f64(),
        })
    }

    /// Returns the rows of a view of the schema `overtake` that is about the gate, for callers that show it without
    /// SQL: each value with its column's name. The forecast takes a while.
    pub fn lines(&self, view: &str) -> NamedRows {
        super::lines::lines(self, view)
    }

    /// Returns the rows of `overtake.mpl_history` for the last seconds.
    pub fn history_lines(&self, seconds: f64) -> NamedRows {
        super::lines::history(self, seconds)
    }

    /// Predicts the effect of other limits. `None` if there is no gate, too little was observed, or the model does not
    /// apply: where most of the time goes into waits for locks, only measurements under other limits count.
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
