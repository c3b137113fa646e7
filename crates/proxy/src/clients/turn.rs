//! Turn of a transaction: its slot, its way to its database, and its record in the statistics.
//!
//! **Invariant:** whoever waits at the door, for a connection or for the end of a pause is not under way; a turn ends by being
//! dropped, whatever becomes of its client, and is counted then. Counting takes a few additions and reads of the clock.

use crate::clients::database::Passage;
use crate::servers::node::Presence;
use crate::servers::nodes::Patience;
use crate::servers::pool::{NotTaken, Pool, Taken, Why};
use crate::servers::target::Target;
use gate::Ticket;
use server::door::{About, Place, Room, Slot, TurnedAway};
use server::stats::{Stage, Stats};
use stage::Class;
use statement::SqlError;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::Cancel;

/// What a client has in hand that wants to begin.
pub(crate) struct Wanted {
    pub(crate) pool: Arc<Pool>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) about: About,
    pub(crate) target: Target,
    pub(crate) arrived: Instant,
}

/// Turn of a transaction, from its admission to its end.
pub(crate) struct Turn {
    slot: Option<Slot>,
    passage: Passage,
    _presence: Presence,
    stats: Arc<Stats>,
    class: Class,
    begun: Instant,
    /// None: it has not done what it was for.
    ended: Option<Instant>,
    /// What its client has asked the server to run.
    pub(crate) statements: u64,
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("class", &self.class).field("slot", &self.slot).finish_non_exhaustive()
    }
}

/// Since when somebody has waited, since when at the door, and for how long; none: not at all.
struct Waits {
    since: Instant,
    came: Instant,
    at_door: Option<Duration>,
    has_waited: bool,
}

/// Also says whether it was not there at once: only then the clock is read.
async fn waited<T>(job: impl Future<Output = T>) -> (T, bool) {
    let mut job = pin!(job);
    let mut has_waited = false;
    let done = poll_fn(|cx| {
        let polled = job.as_mut().poll(cx);
        has_waited |= polled.is_pending();
        polled
    });
    (done.await, has_waited)
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
            let is_late = has_chosen_late || was_elsewhere;
            // Futures stay where they are: they are large to be moved.
            let got = {
                let getting = pin!(self.got(&presence, is_late));
                nodes.while_suited(node, self.target, getting).await
            };
            let Some(got) = got else {
                // The server has ceased to be what it was: there may be another one.
                was_elsewhere = true;
                continue;
            };
            let (slot, waits, taken) = got?;
            match taken {
                // It may have ceased to be what it was in the same moment.
                Ok(_) if !nodes.suits(node, self.target) => was_elsewhere = true,
                Ok(taken) => {
                    if let Some(passage) = self.pool.database.begin() {
                        return Ok((taken, self.begun(slot, passage, presence, &waits)));
                    }
                    // A pause has come in between: the connection is closed, the place inside is for others.
                }
                Err(not) => {
                    // Others may go in meanwhile.
                    drop(slot);
                    if not.why != Why::Away || !Box::pin(nodes.may_retry(node, &mut patience)).await {
                        return Err(not.error.into());
                    }
                    was_elsewhere = true;
                }
            }
        }
    }

    /// Waits for slot and connection.
    async fn got(
        &self,
        presence: &Presence,
        is_late: bool,
    ) -> Result<(Slot, Waits, Result<Taken, NotTaken>), TurnedAway> {
        let (node, pool) = (&presence.0, &self.pool);
        let (mut slot, mut waits) = self.admitted(presence, is_late, Some(pool.room(node))).await?;
        waits.has_waited |= is_late;
        loop {
            let (taken, has_waited) = waited(pool.take(node, self.target, self.arrived)).await;
            waits.has_waited |= has_waited;
            let Err(NotTaken { why: Why::Full(ceiling), .. }) = taken else { return Ok((slot, waits, taken)) };
            let again = Instant::now();
            Box::pin(pool.in_patience(node, waits.came, slot.wait_again(ceiling))).await??;
            *waits.at_door.get_or_insert_default() += again.elapsed();
        }
    }

    /// Waits for a turn of a client that has a connection.
    pub(crate) async fn turned(self, presence: Presence) -> Result<Turn, TurnedAway> {
        loop {
            let (slot, waits) = self.admitted(&presence, false, None).await?;
            if let Some(passage) = self.pool.database.begin() {
                return Ok(self.begun(slot, passage, presence, &waits));
            }
        }
    }

    /// Who has waited for the server before comes to its door now, for a connection of this room, or with one.
    async fn admitted(
        &self,
        Presence(node): &Presence,
        is_late: bool,
        room: Option<&Arc<Room>>,
    ) -> Result<(Slot, Waits), TurnedAway> {
        let mut since = self.arrived;
        let mut came = if is_late { Instant::now() } else { since };
        if self.pool.database.is_paused() {
            self.pool.database.opened().await;
            since = Instant::now();
            came = since;
        }
        let entering = node.door.enter_for(self.about, room, came);
        let (slot, has_waited) = match room {
            Some(_) => waited(self.pool.in_patience(node, came, entering)).await,
            None => {
                let (slot, has_waited) = waited(entering).await;
                (Ok(slot), has_waited)
            }
        };
        let at_door = has_waited.then(|| came.elapsed());
        Ok((slot??, Waits { since, came, at_door, has_waited }))
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
        Turn {
            slot: Some(slot),
            passage,
            _presence: presence,
            stats: Arc::clone(&self.stats),
            class,
            begun,
            ended: None,
            statements: 0,
        }
    }
}

impl Turn {
    pub(crate) fn begun(&self) -> Instant {
        self.begun
    }

    pub(crate) fn class(&self) -> Class {
        self.class
    }

    /// Its number at the gate.
    pub(crate) fn ticket(&self) -> Option<Ticket> {
        self.slot.as_ref().and_then(Slot::ticket)
    }

    /// The transaction waits for its client.
    pub(crate) fn idle(&mut self) {
        self.slot.iter_mut().for_each(Slot::idle);
    }

    /// Its client takes nothing of the answer to a statement that goes on.
    pub(crate) fn unread(&mut self) {
        self.slot.iter_mut().for_each(Slot::unread);
    }

    /// Its client has spoken again, or reads again.
    pub(crate) async fn active(&mut self) {
        if let Some(slot) = &mut self.slot {
            slot.active().await;
        }
    }

    /// Its connection outlives it, with the place that it has, if it has one.
    pub(crate) fn keep(&mut self) -> Option<Place> {
        self.slot.as_mut()?.keep()
    }

    /// How it is cancelled if it runs for too long.
    pub(crate) fn cancel_by(&self, cancel: impl FnOnce() -> Arc<dyn Cancel>) {
        if let Some(slot) = &self.slot {
            slot.cancel_by(cancel);
        }
    }

    /// Why its statement was cancelled, if the gate has done that.
    pub(crate) fn told_runaway(&self) -> Option<SqlError> {
        self.slot.as_ref()?.runaway()
    }

    /// It has done what it was for.
    pub(crate) fn done(mut self, now: Instant) {
        self.slot.take().into_iter().for_each(|slot| slot.done(now));
        self.ended = Some(now);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let run = self.ended.unwrap_or_else(Instant::now).saturating_duration_since(self.begun);
        self.stats.stage(self.class, Stage::Run, run);
        self.passage.count(self.statements, run);
    }
}
