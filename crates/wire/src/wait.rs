//! Waits of a session, and ways to end them from elsewhere.

use statement::outcome::Signal;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Handle that ends from another thread what a session is doing.
pub trait Cancel: Send + Sync {
    /// Makes the statement under way, if any, end with `57014`.
    fn cancel(&self);

    /// Lowers the transaction to class `low`, as it runs for too long, so that whatever runs it may give way. The
    /// default does nothing.
    fn demote(&self) {}

    /// Returns a future that is ready when all requested cancels have reached the session, and hit nothing that it
    /// begins after this.
    fn delivered(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }
}

/// Handle that ends a session from elsewhere.
#[derive(Default)]
pub struct End {
    cancel: OnceLock<Arc<dyn Cancel>>,
    is_ended: AtomicBool,
    told: Notify,
    /// Tasks that wait for something that the session's own cancel does not reach.
    cancelled: Notify,
}

impl std::fmt::Debug for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("End")
    }
}

impl End {
    /// Sets the session's cancel handle, once it has begun.
    pub fn set_cancel(&self, cancel: Arc<dyn Cancel>) {
        // A session sets it once.
        let _ = self.cancel.set(cancel);
    }

    /// True once somebody has ended the session.
    pub fn is_ended(&self) -> bool {
        self.is_ended.load(SeqCst)
    }

    /// Waits until somebody ends the session.
    pub async fn ended(&self) {
        while !self.is_ended() {
            self.told.notified().await;
        }
    }

    /// Future that is ready at the next cancel.
    pub fn cancelled(&self) -> Notified<'_> {
        self.cancelled.notified()
    }

    /// Notifies the waits that somebody cancels what the session is doing.
    pub fn tell_cancelled(&self) {
        self.cancelled.notify_waiters();
    }

    /// Cancels the statement, or ends the session.
    pub fn signal(&self, signal: Signal) {
        if signal == Signal::Terminate {
            self.is_ended.store(true, SeqCst);
            self.told.notify_one();
        }
        if let Some(cancel) = self.cancel.get() {
            cancel.cancel();
        }
    }
}

/// Reason why nobody is left to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The client has closed the connection, or it broke.
    Client,
    /// The server ends.
    Server,
    /// The client was silent for too long. The session knows whether it was in a transaction.
    Idle,
    /// A fault of this program has ended a statement, and the session with it.
    Fault,
    /// The start of the client's next message is unknown.
    Confused,
    /// The client has waited this long for a server.
    Waited(Duration),
    /// The client has taken nothing of what it was sent for this long.
    Unread(Duration),
    /// A message, of the client or of a server for it, exceeds the memory that the process may use.
    NoRoom,
}
