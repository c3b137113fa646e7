//! Turn of a transaction: its slot, its way to its database, and its record in the statistics.
//!
//! **Invariant:** a transaction that waits for admission, for a connection or for the end of a pause is not under way.
//! A turn ends by being dropped, whatever becomes of its client, and is counted then. Counting takes a few additions
//! and reads of the clock.

use crate::clients::database::ActiveTransaction;
use crate::servers::node::NodePresence;
use crate::servers::nodes::Patience;
use crate::servers::pool::{Pool, TakeError, TakeErrorKind, TakenConn};
use crate::servers::target::TargetRole;
use gate::Ticket;
use server::admission::{About, Room, RoomPlace, Slot, TurnedAway};
use server::stats::Stats;
use stage::{Class, IsolationLevel, Stage, StageKey, Transport};
use statement::SqlError;
use statement::time::TimeSource;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::Cancel;

/// Transaction that is about to begin.
pub(crate) struct TransactionRequest {
    pub(crate) pool: Arc<Pool>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) about: About,
    pub(crate) target: TargetRole,
    pub(crate) arrived: Instant,
    pub(crate) transport: Transport,
}

/// Turn of a transaction, from its admission to its end.
pub(crate) struct Turn {
    time: TimeSource,
    slot: Option<Slot>,
    passage: ActiveTransaction,
    _presence: NodePresence,
    stats: Arc<Stats>,
    class: Class,
    transport: Transport,
    begun: Instant,
    /// Time of its completion; `None` if it has not completed.
    ended: Option<Instant>,
    /// Number of statements that its client has asked the server to run.
    pub(crate) statements: u64,
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("class", &self.class).field("slot", &self.slot).finish_non_exhaustive()
    }
}

/// Waiting times of a transaction: since when it has waited, since when for admission, and for how long; `None` if it
/// did not wait.
struct WaitTimes {
    since: Instant,
    came: Instant,
    at_admission: Option<Duration>,
    has_waited: bool,
}

/// Awaits a future, and also returns true if it was not ready at once: only then the clock is read.
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

impl TransactionRequest {
    fn time(&self) -> &TimeSource {
        self.pool.nodes.time()
    }

    /// Waits for a turn and a connection.
    pub(crate) async fn connected(self) -> Result<(TakenConn, Turn), TurnedAway> {
        let nodes = &self.pool.nodes;
        let mut patience = Patience::default();
        let mut was_elsewhere = false;
        loop {
            let (presence, has_chosen_late) = waited(nodes.choose(self.target, &mut patience)).await;
            let presence = presence?;
            let node = &presence.0;
            let is_late = has_chosen_late || was_elsewhere;
            // Futures stay in place: they are large to move.
            let got = {
                let getting = pin!(self.got(&presence, is_late));
                nodes.while_suited(node, self.target, getting).await
            };
            let Some(got) = got else {
                // The server has ceased to be what it was. Another one may serve.
                was_elsewhere = true;
                continue;
            };
            let (slot, waits, taken) = got?;
            match taken {
                // The server may have ceased to be what it was in the same moment.
                Ok(_) if !nodes.suits(node, self.target) => was_elsewhere = true,
                Ok(taken) => {
                    if let Some(passage) = self.pool.database.begin() {
                        return Ok((taken, self.begun(slot, passage, presence, &waits)));
                    }
                    // A pause has begun in between: the connection is closed, and the slot is free for others.
                }
                Err(not) => {
                    // Other transactions may enter meanwhile.
                    drop(slot);
                    if not.why != TakeErrorKind::Away || !Box::pin(nodes.may_retry(node, &mut patience)).await {
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
        presence: &NodePresence,
        is_late: bool,
    ) -> Result<(Slot, WaitTimes, Result<TakenConn, TakeError>), TurnedAway> {
        let (node, pool) = (&presence.0, &self.pool);
        let (mut slot, mut waits) = self.admitted(presence, is_late, Some(pool.room(node))).await?;
        waits.has_waited |= is_late;
        loop {
            let (taken, has_waited) = waited(pool.take(node, self.target, self.arrived)).await;
            waits.has_waited |= has_waited;
            let Err(TakeError { why: TakeErrorKind::Full(ceiling), .. }) = taken else {
                return Ok((slot, waits, taken));
            };
            let again = self.time().now();
            Box::pin(pool.in_patience(node, waits.came, slot.wait_again(ceiling))).await??;
            *waits.at_admission.get_or_insert_default() += self.time().since(again);
        }
    }

    /// Waits for a turn of a client that has a connection.
    pub(crate) async fn turned(self, presence: NodePresence) -> Result<Turn, TurnedAway> {
        loop {
            let (slot, waits) = self.admitted(&presence, false, None).await?;
            if let Some(passage) = self.pool.database.begin() {
                return Ok(self.begun(slot, passage, presence, &waits));
            }
        }
    }

    /// Asks for admission, for a connection of this room, or with one. A transaction that has waited for the server
    /// before arrives at its gate only now.
    async fn admitted(
        &self,
        NodePresence(node): &NodePresence,
        is_late: bool,
        room: Option<&Arc<Room>>,
    ) -> Result<(Slot, WaitTimes), TurnedAway> {
        let mut since = self.arrived;
        let mut came = if is_late { self.time().now() } else { since };
        if self.pool.database.is_paused() {
            self.pool.database.opened().await;
            since = self.time().now();
            came = since;
        }
        let entering = node.admission.enter_for(self.about, room, came);
        let (slot, has_waited) = match room {
            Some(_) => waited(self.pool.in_patience(node, came, entering)).await,
            None => {
                let (slot, has_waited) = waited(entering).await;
                (Ok(slot), has_waited)
            }
        };
        let at_admission = has_waited.then(|| self.time().since(came));
        Ok((slot??, WaitTimes { since, came, at_admission, has_waited }))
    }

    fn begun(&self, slot: Slot, passage: ActiveTransaction, presence: NodePresence, waits: &WaitTimes) -> Turn {
        let class = self.about.class;
        let mut begun = waits.since;
        if waits.has_waited {
            begun = self.time().now();
            passage.waited(begun.saturating_duration_since(waits.since));
        }
        if let Some(time) = waits.at_admission {
            count(&self.stats, (class, self.transport), Stage::Gate, time);
        }
        Turn {
            time: self.time().clone(),
            slot: Some(slot),
            passage,
            _presence: presence,
            stats: Arc::clone(&self.stats),
            class,
            transport: self.transport,
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

    /// Ticket of the transaction at the gate.
    pub(crate) fn ticket(&self) -> Option<Ticket> {
        self.slot.as_ref().and_then(Slot::ticket)
    }

    /// Marks the transaction as waiting for its client.
    pub(crate) fn idle(&mut self) {
        self.slot.iter_mut().for_each(Slot::idle);
    }

    /// Marks its client as taking nothing of the answer of a running statement.
    pub(crate) fn unread(&mut self) {
        self.slot.iter_mut().for_each(Slot::unread);
    }

    /// Marks its client as active again, because it has sent something, or reads again.
    pub(crate) async fn active(&mut self) {
        if let Some(slot) = &mut self.slot {
            slot.active().await;
        }
    }

    /// Takes the place of its connection, if it has one, for a connection that outlives the turn.
    pub(crate) fn keep(&mut self) -> Option<RoomPlace> {
        self.slot.as_mut()?.keep()
    }

    /// Sets the handle that cancels it if it runs for too long.
    pub(crate) fn cancel_by(&self, cancel: impl FnOnce() -> Arc<dyn Cancel>) {
        if let Some(slot) = &self.slot {
            slot.cancel_by(cancel);
        }
    }

    /// Returns the reason why its statement was cancelled, if the gate has done that.
    pub(crate) fn told_runaway(&self) -> Option<SqlError> {
        self.slot.as_ref()?.runaway()
    }

    /// Records that the transaction has completed just now.
    pub(crate) fn done_now(self) {
        let now = self.time.now();
        self.done(now);
    }

    /// Records that the transaction has completed.
    pub(crate) fn done(mut self, now: Instant) {
        self.slot.take().into_iter().for_each(|slot| slot.done(now));
        self.ended = Some(now);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let run = self.ended.unwrap_or_else(|| self.time.now()).saturating_duration_since(self.begun);
        count(&self.stats, (self.class, self.transport), Stage::Run, run);
        self.passage.count(self.statements, run);
    }
}

/// Adds the time of a stage. Transactions of the proxy have two: the gate, and the run on the server.
fn count(stats: &Stats, (class, transport): (Class, Transport), stage: Stage, time: Duration) {
    let key = StageKey { class, transport, isolation: IsolationLevel::None };
    stats.book().add(key, stage, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
}
