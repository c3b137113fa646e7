//! Tasks that handle timeouts and the limit.
//!
//! **Invariant:** neither transactions nor the clock wait for a model.

use super::{AdmissionShared, Mode};
use std::time::Duration;

/// Interval at which the controller looks, if there is anything to observe.
const LOOK: Duration = Duration::from_millis(100);
/// Smallest gain in time for which the task that handles timeouts is woken earlier.
pub(super) const SOONER: Duration = Duration::from_millis(1);

impl AdmissionShared {
    /// Lends slots and ends waits when they are due, and notifies the controller that there may be something to
    /// observe.
    pub(super) async fn keep_time(&self) {
        loop {
            let wait = self.with(|state, now| {
                state.gate.tick(now);
                state.cancel_again(now);
                let look = (0 < state.gate.slots()).then(|| now.after(LOOK));
                state.armed = [state.gate.due(), look].into_iter().flatten().min();
                state.armed.map(|due| due.since(now))
            });
            self.looks.notify_one();
            match wait {
                Some(wait) => drop(tokio::time::timeout(wait.max(SOONER), self.alarm.notified()).await),
                None => self.alarm.notified().await,
            }
        }
    }

    /// Moves the limit under [`Mode::Auto`]. The model is computed on a separate thread: it may take seconds, and
    /// neither transactions nor the clock wait for it.
    pub(super) async fn control(&self) {
        loop {
            self.looks.notified().await;
            let over = self.with(|state, now| {
                if state.mode != Mode::Auto {
                    return None;
                }
                let seen = state.controller.observed(now, &mut state.gate)?;
                Some((state.controller.clone(), seen, state.gate.settings().processors, now, state.controllers))
            });
            let Some((mut controller, seen, processors, now, number)) = over else { continue };
            self.teach(&mut controller);
            let decided = tokio::task::spawn_blocking(move || {
                let mpl = controller.decide(now, &seen, processors);
                (controller, mpl)
            });
            let Ok((controller, mpl)) = decided.await else { continue };
            if let Some(moved) = controller.moves().last()
                && moved.from != moved.to
            {
                let off = moved.seen.throughput.half_width;
                tracing::info!(from = moved.from, to = moved.to, reason = %moved.reason, off, "the limit has moved");
            }
            self.with(|state, now| {
                if state.controllers == number {
                    state.controller = controller;
                    state.controller.steer(now, &mut state.gate, mpl);
                }
            });
        }
    }
}
