//! How far a statement is: done, or waiting for something.

use super::Outcome;
use super::analysis::Analysis;
use super::naps::Nap;
use engine::{Ticket, Wake};
use statement::outcome::CopyShape;
use std::sync::Arc;
use std::time::Instant;

/// As [`engine::Step`].
#[derive(Debug)]
pub enum Step {
    /// It is done.
    Done(Outcome),
    /// It waits; run the portal again when that is over.
    Parked(Parked),
    /// It is a COPY that wants data: [`copy_data`](super::Session::copy_data), [`copy_done`](super::Session::copy_done).
    CopyIn(CopyShape),
    /// It is a COPY that gives data: [`copy_next`](super::Session::copy_next).
    CopyOut(CopyShape),
}

/// What a statement waits for.
#[derive(Debug)]
pub enum Parked {
    /// A lock.
    Lock(Ticket),
    /// Its own rows, which are computed elsewhere.
    Analysis(Arc<Analysis>),
    /// Rows of a cursor, which are computed elsewhere; the time when the statement has taken too long.
    Rows(Arc<Analysis>, Option<Instant>),
    /// Time.
    Nap(Nap),
    /// Nothing: it is to be run again where it delays nobody, see [`stay_for`](super::Session::stay_for).
    Elsewhere,
}

impl Parked {
    /// When the wait is over if nobody ends it: whoever waits sees to that.
    pub fn until(&self) -> Option<Instant> {
        match self {
            Parked::Nap(nap) => Some(nap.until()),
            Parked::Rows(_, until) => *until,
            Parked::Lock(_) | Parked::Analysis(_) | Parked::Elsewhere => None,
        }
    }

    /// Has `wake` called when somebody ends the wait: at once if somebody has. The last one counts.
    pub fn on_ready(&self, wake: Arc<dyn Wake>) {
        match self {
            Parked::Lock(ticket) => ticket.on_ready(wake),
            Parked::Analysis(analysis) | Parked::Rows(analysis, _) => analysis.on_ready(wake),
            Parked::Nap(nap) => nap.on_ready(wake),
            Parked::Elsewhere => wake.wake(),
        }
    }

    /// Blocks this thread until the wait is over. For ordinary threads, never for workers.
    pub fn wait(&self) {
        match self {
            Parked::Lock(ticket) => ticket.wait(),
            Parked::Analysis(analysis) | Parked::Rows(analysis, _) => analysis.wait(),
            Parked::Nap(nap) => nap.wait(),
            Parked::Elsewhere => {}
        }
    }
}
