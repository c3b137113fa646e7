//! A transaction's turn: its place inside the door, its passage to its database, and what is written down of it.
//!
//! **Invariant:** whoever waits at the door, for a connection or for the end of a pause is not under way; a turn ends by being
//! dropped, whatever becomes of its client, and is counted then. Counting takes a few additions and reads of the clock.

use super::database::Passage;
use super::node::Presence;
use super::nodes::Patience;
use super::pool::{Pool, Taken};
use super::target::Target;
use crate::backend::Cancel;
use crate::door::{About, Slot, TurnedAway};
use crate::stats::{Stage, Stats};
use stage::Class;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a client has in hand that wants to begin.
pub(crate) struct Wanted {
    pub(crate) pool: Arc<Pool>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) about: About,
    pub(crate) target: Target,
    pub(crate) arrived: Instant,
}

/// See the module.
pub(crate) struct Turn {
    slot: Option<Slot>,
    passage: Passage,
    _presence: Presence,
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

/// Since when somebody has waited, and for how long at the door; none: not at all.
struct Waits {
    since: Instant,
    at_door: Option<Duration>,
    has_waited: bool,
}

/// Also says whether it was not there at once: only then the clock is read.
async fn waited<T>(job: impl Future<Output = T>) -> (T, bool) {
    let mut job = pin!(job);
    let mut has_waited = false;
    // Whoever yields to the runtime yields to it, and is not asked again at once.
    let done = poll_fn(|cx| {
        let polled = job.as_mut().poll(cx);
        has_waited |= polled.is_pending();
        polled
    });
    let done = done.await;
    (done, has_waited)
}

impl Wanted {
    /// Waits for a turn and a connection.
    pub(crate) async fn connected(self) -> Result<(Taken, Turn), TurnedAway> {
        let nodes = &self.pool.nodes;
        let mut patience = Patience::default();
        let mut was_elsewhere = false;
        loop {
            let (presence, has_chosen_late) = waited(nodes.choose(self.target, &mut patience)).await;
            let presence = presence?;
            let node = &presence.0;
            let Some(admitted) = nodes.while_suited(node, self.target, self.admitted(&presence)).await else {
                was_elsewhere = true;
                continue;
            };
            let (slot, mut waits) = admitted?;
            let (taken, has_waited) =
                waited(nodes.while_suited(node, self.target, self.pool.take(node, self.target))).await;
            waits.has_waited |= has_waited || has_chosen_late || was_elsewhere;
            match taken {
                Some(Ok(taken)) => {
                    if let Some(passage) = self.pool.database.begin() {
                        return Ok((taken, self.begun(slot, passage, presence, &waits)));
                    }
                    // A pause has come in between: the connection is closed, the place inside is for others.
                }
                Some(Err(not)) if !not.is_away || !nodes.may_retry(&mut patience) => return Err(not.error.into()),
                // The server has gone, or has ceased to be what it was: there may be another one.
                _ => was_elsewhere = true,
            }
        }
    }

    /// Waits for a turn of a client that has a connection.
    pub(crate) async fn turned(self, presence: Presence) -> Result<Turn, TurnedAway> {
        loop {
            let (slot, waits) = self.admitted(&presence).await?;
            if let Some(passage) = self.pool.database.begin() {
                return Ok(self.begun(slot, passage, presence, &waits));
            }
        }
    }

    async fn admitted(&self, Presence(node): &Presence) -> Result<(Slot, Waits), TurnedAway> {
        let mut since = self.arrived;
        if self.pool.database.is_paused() {
            self.pool.database.opened().await;
            since = Instant::now();
        }
        let (slot, has_waited) = waited(node.door.enter(self.about)).await;
        let at_door = has_waited.then(|| since.elapsed());
        Ok((slot?, Waits { since, at_door, has_waited }))
    }

    fn begun(&self, slot: Slot, passage: Passage, presence: Presence, waits: &Waits) -> Turn {
        let class = self.about.class;
        let mut begun = waits.since;
        if waits.has_waited {
            begun = Instant::now();
            passage.waited(begun.saturating_duration_since(waits.since));
        }
        if let Some(time) = waits.at_door {
            self.stats.stage(class, Stage::Gate, time);
        }
        let (slot, stats) = (Some(slot), Arc::clone(&self.stats));
        Turn { slot, passage, _presence: presence, stats, class, begun, statements: 0 }
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
