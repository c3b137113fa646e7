//! Pools without a spare connection: the clients that wait for one, and their waiting times.
//!
//! A pool is full when all of its places are taken. A server may have no room for that many (53300): then the gate is
//! told how many there are, and periodically one more client is admitted to try again.
//!
//! **Invariant:** a client that waits for a connection holds no slot and no place. It waits for as long as connections
//! change hands; when none has for `overtake.upstream_wait`, nobody can tell when one will.

use crate::servers::node::Node;
use crate::servers::pool::{Pool, Shelf, TakeError, TakeErrorKind};
use locked::Locked;
use statement::time::TimeSource;
use statement::{SqlError, SqlState};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Time after which the server may have room that others have left.
const AGAIN: Duration = Duration::from_millis(300);
/// Patience while there is no connection that could come back.
const ALONE_PATIENCE: Duration = Duration::from_secs(2);

/// Pools without a spare connection.
pub(crate) struct FullPools {
    time: TimeSource,
    begun: Instant,
    /// Time at which a client last got a connection, in milliseconds since `begun`.
    moved_ms: AtomicU64,
    /// Time since when the server has refused this pool, which has no connection there, and the server's error.
    alone: Mutex<Option<(Instant, SqlError)>>,
    /// Signals a change of `alone`.
    is_alone: Notify,
    is_bounded: AtomicBool,
    /// True if a client will try again.
    is_tried: AtomicBool,
}

impl FullPools {
    pub(crate) fn new(time: TimeSource) -> FullPools {
        FullPools {
            begun: time.now(),
            time,
            moved_ms: AtomicU64::new(0),
            alone: Mutex::default(),
            is_alone: Notify::new(),
            is_bounded: AtomicBool::new(false),
            is_tried: AtomicBool::new(false),
        }
    }

    /// Notes that a client has got a connection.
    pub(crate) fn moves(&self) {
        self.moved_ms.store(u64::try_from(self.time.since(self.begun).as_millis()).unwrap_or(u64::MAX), Relaxed);
    }

    fn moved(&self) -> Instant {
        self.begun + Duration::from_millis(self.moved_ms.load(Relaxed))
    }
}

impl Pool {
    /// Notes that a server has accepted a connection: if it had no room before, there may be room for one more.
    pub(crate) fn rises(&self, node: &Node) {
        let shelf = self.shelf(node);
        shelf.full.alone.locked_anyway().take();
        if shelf.full.is_bounded.load(SeqCst) {
            shelf.rise();
        }
    }

    /// Notes that a server has no room for another connection of this pool.
    pub(crate) fn full(self: &Arc<Pool>, node: &Node, error: SqlError) -> TakeError {
        let shelf = self.shelf(node);
        let (count, full) = (shelf.count.load(SeqCst), &shelf.full);
        if count == 0 {
            full.alone.locked_anyway().get_or_insert_with(|| (full.time.now(), error.clone()));
            full.is_alone.notify_waiters();
        }
        full.is_bounded.store(true, SeqCst);
        if !full.is_tried.swap(true, SeqCst) {
            let (pool, number) = (Arc::downgrade(self), node.number);
            tokio::spawn(async move {
                tokio::time::sleep(AGAIN).await;
                if let Some(pool) = pool.upgrade() {
                    let shelf = &pool.shelves[number];
                    shelf.full.is_tried.store(false, SeqCst);
                    shelf.rise();
                }
            });
        }
        TakeError { error, why: TakeErrorKind::Full(count) }
    }

    /// Waits for a place at this node for a client that has waited since then, for as long as there is hope.
    ///
    /// # Errors
    /// `53300`: no client has got a connection for long, or the server refuses this pool.
    pub(crate) async fn in_patience<T>(
        &self,
        node: &Node,
        since: Instant,
        job: impl Future<Output = T>,
    ) -> Result<T, SqlError> {
        let mut job = pin!(job);
        // Most requests are served at once.
        if let Poll::Ready(done) = poll_fn(|cx| Poll::Ready(job.as_mut().poll(cx))).await {
            return Ok(done);
        }
        tokio::select! {
            biased;
            done = job => Ok(done),
            error = Box::pin(self.given_up(node, since)) => Err(error),
        }
    }

    async fn given_up(&self, node: &Node, since: Instant) -> SqlError {
        let shelf = self.shelf(node);
        loop {
            let is_alone = shelf.full.is_alone.notified();
            let (until, error) = self.hope(shelf, since);
            match error {
                Some(error) if shelf.full.time.is_past(until) => return error,
                _ => {}
            }
            let _ = tokio::time::timeout_at(shelf.full.time.timer_at(until).into(), is_alone).await;
        }
    }

    /// Returns the time until which a client that has waited since then keeps waiting, and its error after that;
    /// `None`: it checks again then.
    fn hope(&self, shelf: &Shelf, since: Instant) -> (Instant, Option<SqlError>) {
        let patience = self.nodes.watching.patience;
        if shelf.count.load(Relaxed) == 0
            && let Some((alone, error)) = &*shelf.full.alone.locked_anyway()
        {
            return (since.max(*alone) + ALONE_PATIENCE.min(patience), Some(error.clone()));
        }
        if !shelf.room.is_full() {
            // The client waits for a slot.
            return (shelf.full.time.now() + patience.max(AGAIN), None);
        }
        let error = SqlError::new(SqlState::TOO_MANY_CONNECTIONS, "no connection to the server became free")
            .detail(format!(
                "All connections of user \"{}\" to database \"{}\" are in use, and nobody has got one for {} ms.",
                self.user,
                self.name,
                patience.as_millis()
            ))
            .hint("Raise overtake.upstream_pool, or overtake.upstream_wait. SHOW CLIENTS in the administration database says who has them.");
        (since.max(shelf.full.moved()) + patience, Some(error))
    }
}

impl Shelf {
    /// Lets one connection more than there are try if the server has room for it.
    fn rise(&self) {
        let most = self.count.load(SeqCst) + 1;
        let ceiling = (most < self.size.load(SeqCst)).then_some(most);
        self.full.is_bounded.store(ceiling.is_some(), SeqCst);
        self.room.bound(ceiling);
    }
}
