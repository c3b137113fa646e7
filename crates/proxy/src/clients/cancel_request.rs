//! Cancels a client's statement, wherever it is: waiting for admission, or on a server connection.
//!
//! **Invariant:** a cancel reaches the statement of the client that asked for it and no other. While one is [under
//! way](CancelInFlight) to a server connection, that connection belongs to the client; it goes back to the pool when
//! the server has closed the connection that brought the cancel. A cancel whose end was not seen may still come at any
//! time: its connection goes to nobody ([`ServerCancel::is_in_doubt`]). A cancel goes to the address of the connection,
//! encrypted as that is.
//! A cancel of one transaction ([`TransactionCancel`]) does nothing when that has ended, however late it comes; where
//! the client keeps its connection, the next transaction waits for its end.
//!
//! The close is enough, without a question to the server afterwards. PostgreSQL closes after `kill()` has returned, so
//! the signal is pending. The server process takes it at the latest on return from the system call that reads the next
//! message, and ignores cancels until it has read that message whole.

use crate::servers::dial::ServerRoute;
use crate::servers::internal::PriorityControl;
use crate::servers::url::ServerAddress;
use locked::Locked;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use wire::Cancel;

/// Time after which a cancel that was not delivered is given up.
const DELIVERY_TIME: Duration = Duration::from_secs(10);
const CANCEL_REQUEST: i32 = 80_877_102;

/// Handle that cancels the work of a server connection.
#[derive(Debug)]
pub(crate) struct ServerCancel {
    way: ServerRoute,
    key: Option<(i32, i32)>,
    /// Handle that lowers the processor priority of the server's process.
    lever: Mutex<PriorityControl>,
    /// Number of cancels on their way.
    under_way: AtomicUsize,
    delivered: Notify,
    /// Number of cancels that were sent, and whose end was not seen.
    sent: AtomicUsize,
}

/// Cancel on its way to a connection. Dropping it gives it up.
#[derive(Debug)]
pub(crate) struct CancelInFlight(Arc<ServerCancel>);

impl ServerCancel {
    pub(crate) fn new(way: ServerRoute) -> ServerCancel {
        ServerCancel {
            way,
            key: None,
            lever: Mutex::default(),
            under_way: AtomicUsize::new(0),
            delivered: Notify::new(),
            sent: AtomicUsize::new(0),
        }
    }

    pub(crate) fn with_key(way: ServerRoute, pid: i32, secret: i32) -> ServerCancel {
        ServerCancel { key: Some((pid, secret)), ..ServerCancel::new(way) }
    }

    pub(crate) fn host(&self) -> &ServerAddress {
        self.way.host()
    }

    pub(crate) fn lever(&self) -> MutexGuard<'_, PriorityControl> {
        self.lever.locked_anyway()
    }

    /// Process number of the connection at the server.
    pub(crate) fn pid(&self) -> i32 {
        self.key.map_or(0, |(pid, _)| pid)
    }

    /// True if no cancel is on its way.
    pub(crate) fn is_clear(&self) -> bool {
        self.under_way.load(SeqCst) == 0
    }

    /// Waits until none is.
    pub(crate) async fn cleared(&self) {
        loop {
            let delivered = self.delivered.notified();
            if self.is_clear() {
                return;
            }
            delivered.await;
        }
    }

    /// True if a cancel that was given up may still come: it may hit anything that the connection runs.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.is_clear() && 0 < self.sent.load(SeqCst)
    }

    /// Begins a cancel of the connection's work; from here on it is under way.
    pub(crate) fn cancel(self: &Arc<ServerCancel>) -> CancelInFlight {
        self.under_way.fetch_add(1, SeqCst);
        CancelInFlight(Arc::clone(self))
    }
}

impl CancelInFlight {
    /// Delivers the cancel. Returns when the server has signalled, or the result is unknown.
    pub(crate) async fn deliver(self) {
        let delivered = tokio::time::timeout(DELIVERY_TIME, self.send()).await;
        if !matches!(delivered, Ok(Ok(()))) {
            tracing::warn!(pid = self.0.pid(), "a cancel could not be delivered to the server");
        }
    }

    async fn send(&self) -> io::Result<()> {
        let Some((pid, secret)) = self.0.key else { return Ok(()) };
        let mut io = self.0.way.again().await?;
        self.0.sent.fetch_add(1, SeqCst);
        let words = [16, CANCEL_REQUEST, pid, secret].map(i32::to_be_bytes);
        io.write_all(words.as_flattened()).await?;
        io.flush().await?;
        // The server sends nothing, and closes when it has signalled; on an encrypted connection perhaps without a
        // notice of the close.
        match io.read_to_end(&mut Vec::new()).await {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
            Ok(_) | Err(_) => {}
        }
        self.0.sent.fetch_sub(1, SeqCst);
        Ok(())
    }
}

impl Drop for CancelInFlight {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, SeqCst);
        self.0.delivered.notify_waiters();
    }
}

/// Location of a client's work, for those that cancel it.
#[derive(Debug, Default)]
pub(crate) struct CancelTarget {
    at: Mutex<WorkLocation>,
    /// Number of the client's transaction under way. It changes under the lock.
    number: AtomicU64,
    is_cancelled: AtomicBool,
    told: Notify,
}

#[derive(Debug, Default)]
enum WorkLocation {
    #[default]
    Nowhere,
    Admission,
    Server(Arc<ServerCancel>),
}

/// Handle that cancels one transaction of a client, and no later one.
#[derive(Debug)]
pub(crate) struct TransactionCancel {
    reach: Arc<CancelTarget>,
    number: u64,
}

impl TransactionCancel {
    /// Calls `act` with the location of the client, while it is in that transaction.
    fn act(&self, act: impl FnOnce(&CancelTarget, &WorkLocation)) {
        let at = self.reach.lock();
        if self.reach.number.load(SeqCst) == self.number {
            act(&self.reach, &at);
        }
    }
}

impl CancelTarget {
    fn lock(&self) -> MutexGuard<'_, WorkLocation> {
        self.at.locked_anyway()
    }

    fn set(&self, at: WorkLocation) {
        *self.lock() = at;
    }

    /// Begins a transaction and returns its cancel handle.
    pub(crate) fn once(self: &Arc<CancelTarget>) -> TransactionCancel {
        let _at = self.lock();
        TransactionCancel { reach: Arc::clone(self), number: self.number.fetch_add(1, SeqCst) + 1 }
    }

    /// Notes that the client waits for a connection.
    pub(crate) fn waits(&self) {
        self.set(WorkLocation::Admission);
    }

    /// Notes that the client has a connection, on which only its request is under way. A cancel that came before goes
    /// on.
    pub(crate) fn works(&self, line: &Arc<ServerCancel>) {
        self.set(WorkLocation::Server(Arc::clone(line)));
        if self.is_cancelled.swap(false, SeqCst) {
            self.cancel();
        }
    }

    /// Notes that the client has no connection. No cancel starts towards its former connection after this.
    pub(crate) fn rests(&self) {
        let mut at = self.lock();
        *at = WorkLocation::Nowhere;
        self.number.fetch_add(1, SeqCst);
        drop(at);
        // A cancel that came too late for a wait is dropped as well.
        self.is_cancelled.store(false, SeqCst);
    }

    /// Waits for a cancel of a client that waits.
    pub(crate) async fn cancelled(&self) {
        while !self.is_cancelled.load(SeqCst) {
            self.told.notified().await;
        }
    }

    /// Cancels the work at this location. The caller holds the lock.
    fn cancel_at(&self, at: &WorkLocation) {
        match at {
            WorkLocation::Nowhere => {}
            WorkLocation::Admission => {
                self.is_cancelled.store(true, SeqCst);
                self.told.notify_one();
            }
            WorkLocation::Server(line) => {
                let Ok(runtime) = Handle::try_current() else { return };
                // The lock is held, so the client has not left the connection yet, and sees the cancel when it does.
                runtime.spawn(line.cancel().deliver());
            }
        }
    }

    /// Lowers the priority of the work at this location. The caller holds the lock, so the next user of the connection
    /// begins with the priority of its own class.
    fn demote_at(&self, at: &WorkLocation) {
        if let WorkLocation::Server(line) = at {
            line.lever().lower();
        }
    }
}

impl Cancel for CancelTarget {
    fn cancel(&self) {
        self.cancel_at(&self.lock());
    }

    fn demote(&self) {
        self.demote_at(&self.lock());
    }

    fn delivered(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let line = match &*self.lock() {
            WorkLocation::Server(line) => Some(Arc::clone(line)),
            WorkLocation::Nowhere | WorkLocation::Admission => None,
        };
        Box::pin(async move {
            if let Some(line) = line {
                line.cleared().await;
            }
        })
    }
}

impl Cancel for TransactionCancel {
    fn cancel(&self) {
        self.act(CancelTarget::cancel_at);
    }

    fn demote(&self) {
        self.act(CancelTarget::demote_at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_cancel_of_a_transaction_hits_no_other() {
        let reach = Arc::new(CancelTarget::default());
        let is_cancelled = || reach.is_cancelled.load(SeqCst);
        let first = reach.once();
        // The client has sent the next transaction meanwhile, which waits.
        reach.rests();
        reach.waits();
        first.cancel();
        assert!(!is_cancelled());
        let second = reach.once();
        first.cancel();
        assert!(!is_cancelled());
        second.cancel();
        assert!(is_cancelled());
        reach.rests();
        reach.waits();
        // A cancel of the client's work means its current work.
        reach.cancel();
        assert!(is_cancelled());
    }
}
