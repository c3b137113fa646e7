//! What the door shows of itself.

use super::{Door, Mode};
use gate::View;
use gate::control::{Move, Phase};

/// What there is to see.
#[derive(Clone, Debug)]
pub struct DoorView {
    /// What it does.
    pub mode: Mode,
    /// The gate.
    pub gate: View,
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
        let shared = self.0.as_ref()?;
        let state = shared.lock();
        let controller = state.controller.as_ref();
        Some(DoorView {
            mode: shared.mode,
            gate: state.gate.view(),
            phase: controller.map(gate::control::Controller::phase),
            moves: controller.map(|controller| controller.moves().copied().collect()).unwrap_or_default(),
            seconds: shared.began.elapsed().as_secs_f64(),
        })
    }
}
