//! A transaction's turn: its place inside the door, its passage to its database, and what is written down of it.
//!
//! **Invariant:** whoever waits at the door, for a connection or for the end of a pause is not under way; a turn ends by being
//! dropped, whatever becomes of its client, and is counted then. Counting takes a few additions and reads of the clock.

use super::Shared;
use super::database::Passage;
use super::pool::{Pool, Taken};
use crate::backend::Cancel;
use crate::door::{About, Slot, TurnedAway};
use crate::stats::{Stage, Stats};
use stage::Class;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// What a client has in hand that wants to begin.
pub(crate) struct Wanted {
    pub(crate) shared: Arc<Shared>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) about: About,
}

/// See the module.
pub(crate) struct Turn {
    slot: Option<Slot>,
    passage: Passage,
    stats: Arc<Stats>,
    class: Class,
    begun: Instant,
    /// What its client has asked the server to run.
    pub(crate) statements: u64,
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("class", &self.class).field("slot", &self.slot).finish_non_exhaustive()
    }
}

impl Wanted {
    /// Waits for a turn and a connection.
    pub(crate) async fn connected(self) -> Result<(Taken, Turn), TurnedAway> {
        loop {
            let (slot, arrived, admitted) = self.admitted().await?;
            let taken = self.pool.take().await?;
            if let Some(turn) = self.turn(slot, arrived, admitted) {
                return Ok((taken, turn));
            }
            // A pause has come in between: the connection is closed, the place inside is for others.
        }
    }

    /// Waits for a turn of a client that has a connection.
    pub(crate) async fn turned(self) -> Result<Turn, TurnedAway> {
        loop {
            let (slot, arrived, admitted) = self.admitted().await?;
            if let Some(turn) = self.turn(slot, arrived, admitted) {
                return Ok(turn);
            }
        }
    }

    async fn admitted(&self) -> Result<(Slot, Instant, Instant), TurnedAway> {
        self.pool.database.opened().await;
        let arrived = Instant::now();
        let slot = self.shared.door.enter(self.about).await?;
        Ok((slot, arrived, Instant::now()))
    }

    fn turn(&self, slot: Slot, arrived: Instant, admitted: Instant) -> Option<Turn> {
        let passage = self.pool.database.begin()?;
        let (class, begun) = (self.about.class, Instant::now());
        self.stats.stage(class, Stage::Gate, admitted.saturating_duration_since(arrived));
        passage.waited(begun.saturating_duration_since(arrived));
        Some(Turn { slot: Some(slot), passage, stats: Arc::clone(&self.stats), class, begun, statements: 0 })
    }
}

impl Turn {
    pub(crate) fn begun(&self) -> Instant {
        self.begun
    }

    /// The transaction waits for its client.
    pub(crate) fn idle(&mut self) {
        self.slot.iter_mut().for_each(Slot::idle);
    }

    /// Its client has spoken again.
    pub(crate) async fn active(&mut self) {
        if let Some(slot) = &mut self.slot {
            slot.active().await;
        }
    }

    /// How it is cancelled if it runs for too long.
    pub(crate) fn cancel_by(&self, cancel: impl FnOnce() -> Arc<dyn Cancel>) {
        if let Some(slot) = &self.slot {
            slot.cancel_by(cancel);
        }
    }

    /// It has done what it was for.
    pub(crate) fn done(mut self) {
        self.slot.take().into_iter().for_each(Slot::done);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let run = self.begun.elapsed();
        self.stats.stage(self.class, Stage::Run, run);
        self.passage.count(self.statements, run);
    }
}
