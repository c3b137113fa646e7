//! Progress of a statement: done, or waiting.

use super::Outcome;
use super::analysis::Analysis;
use super::sleeps::Sleep;
use engine::{Ticket, Wake};
use statement::outcome::CopyShape;
use std::sync::Arc;
use std::time::Instant;

/// Progress of a statement, like [`engine::Step`].
#[derive(Debug)]
pub enum Step {
    /// The statement is done.
    Done(Outcome),
    /// The statement waits; run the portal again after the wait.
    Parked(Parked),
    /// COPY FROM, which receives data by [`copy_data`](super::Session::copy_data) and
    /// [`copy_done`](super::Session::copy_done).
    CopyIn(CopyShape),
    /// COPY TO, which sends data by [`copy_next`](super::Session::copy_next).
    CopyOut(CopyShape),
}

/// Event that a statement waits for.
#[derive(Debug)]
pub enum Parked {
    /// Lock.
    Lock(Ticket),
    /// End or rows of its own analytical run, or a letter of its procedure.
    Analysis(Arc<Analysis>),
    /// Rows of a cursor's run; the time limit of the statement.
    Rows(Arc<Analysis>, Option<Instant>),
    /// End of a sleep.
    Sleep(Sleep),
    /// No event: the statement is to be continued on another thread, where it delays no others; see
    /// [`stay_for`](super::Session::stay_for).
    Elsewhere,
}

impl Parked {
    /// Returns the time at which the wait ends at the latest. The caller has to watch it.
    pub fn until(&self) -> Option<Instant> {
        match self {
            Parked::Sleep(sleep) => Some(sleep.until()),
            Parked::Rows(_, until) => *until,
            Parked::Lock(_) | Parked::Analysis(_) | Parked::Elsewhere => None,
        }
    }

    /// Calls `wake` when the wait ends; at once, if it has ended. A later call replaces the waker.
    pub fn on_ready(&self, wake: Arc<dyn Wake>) {
        match self {
            Parked::Lock(ticket) => ticket.on_ready(wake),
            Parked::Analysis(analysis) | Parked::Rows(analysis, _) => analysis.on_ready(wake),
            Parked::Sleep(sleep) => sleep.on_ready(wake),
            Parked::Elsewhere => wake.wake(),
        }
    }

    /// Blocks the thread until the wait ends. For ordinary threads only, never for workers.
    pub fn wait(&self) {
        match self {
            Parked::Lock(ticket) => ticket.wait(),
            Parked::Analysis(analysis) | Parked::Rows(analysis, _) => analysis.wait(),
            Parked::Sleep(sleep) => sleep.wait(),
            Parked::Elsewhere => {}
        }
    }
}
