//! Statements that are transactions of their own.
//!
//! **Invariant:** nothing of such a statement reaches the client before it has run, and before its commit where that is known to
//! follow. One that a more important transaction has aborted until then can therefore be run again, and no tag is followed by the news
//! that it was in vain.

use super::{Session, Stop};
use crate::backend::Backend;
use crate::lent::Lent;
use crate::stats::Totals;
use sql::session::Outcome;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// What follows an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// The end of its transaction, if it has none of another statement.
    Commit,
    /// More rows of the same portal, perhaps.
    MoreRows,
    /// Nobody knows: the client has not said, or says another statement.
    Unknown,
}

impl<B: Backend> Session<B> {
    /// Runs a portal to its end, or to its commit, and again when a more important transaction has aborted it, within
    /// `statement_timeout`.
    ///
    /// Each abort means that a more important transaction has gone on, so the repetitions end with its kind. Between two of them
    /// the other sessions of this thread have their turn.
    pub(super) async fn run_alone(
        &mut self,
        totals: &Totals,
        portal: &mut Lent<B::Portal>,
        commits: bool,
    ) -> Result<Outcome, Stop> {
        let begun = Instant::now();
        let outcome = loop {
            let outcome = match self.run_to_end(totals, portal).await {
                Ok(outcome) if !commits => Ok(outcome),
                Ok(outcome) => {
                    self.conn.lap();
                    let ran = self.conn.now;
                    let committed = self.commit();
                    self.spent.commit += self.conn.now.saturating_duration_since(ran);
                    committed.map(|()| outcome).map_err(Stop::Error)
                }
                Err(stop) => Err(stop),
            };
            match outcome {
                Err(Stop::Error(error)) if error.is_preempted() => {
                    self.backend.begin_again();
                    self.stats.run_again.fetch_add(1, Relaxed);
                    self.backend.has_waited(self.spent.gate + begun.elapsed());
                    tokio::task::yield_now().await;
                }
                outcome => break outcome,
            }
        };
        self.backend.has_waited(Duration::ZERO);
        if outcome.is_ok() {
            self.notices();
        }
        outcome
    }
}
