//! Waits of a session, and how they are ended from elsewhere.

use engine::Wake;
use statement::outcome::Signal;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// A wait.
pub trait Parked: Send {
    /// Has `wake` called when it is over: at once if it is.
    fn on_ready(&self, wake: Arc<dyn Wake>);

    /// Whether it is a lock that is waited for, and not somebody who computes.
    fn is_lock(&self) -> bool {
        true
    }

    /// True if analytics compute what is waited for.
    fn is_analysis(&self) -> bool {
        false
    }

    /// True if nothing is waited for: the portal is to be run again where it delays no other session.
    fn is_elsewhere(&self) -> bool {
        false
    }

    /// When it is over without anybody's doing.
    fn until(&self) -> Option<Instant> {
        None
    }
}

/// Ends from another thread what a session is doing.
pub trait Cancel: Send + Sync {
    /// Makes the statement under way, if any, end with `57014`.
    fn cancel(&self);

    /// Its transaction is of class `low` from here on, as it runs for too long: what runs it may give way. By itself it does not.
    fn demote(&self) {}

    /// Ready when cancels that were asked for have come to where the session is, and hit nothing that it begins after this.
    fn delivered(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }
}

/// How a session is ended from elsewhere.
#[derive(Default)]
pub struct End {
    cancel: OnceLock<Arc<dyn Cancel>>,
    is_ended: AtomicBool,
    told: Notify,
    /// Those who wait for something that the session's own cancel does not reach.
    cancelled: Notify,
}

impl std::fmt::Debug for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("End")
    }
}

impl End {
    /// The session has begun.
    pub fn set_cancel(&self, cancel: Arc<dyn Cancel>) {
        // A session has one.
        let _ = self.cancel.set(cancel);
    }

    /// True once somebody has ended the session.
    pub fn is_ended(&self) -> bool {
        self.is_ended.load(SeqCst)
    }

    /// Ready when somebody ends it.
    pub async fn ended(&self) {
        while !self.is_ended() {
            self.told.notified().await;
        }
    }

    /// Ready at the next cancel.
    pub fn cancelled(&self) -> Notified<'_> {
        self.cancelled.notified()
    }

    /// Somebody cancels what the session is doing.
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

/// Why there is nobody to answer any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The client closed the connection, or it broke.
    Client,
    /// The server ends.
    Server,
    /// The client said nothing for too long; whether in a transaction is for the session to know.
    Idle,
    /// A statement ended by a fault of this program, and the session with it.
    Fault,
    /// It is not known where the client's next message begins.
    Confused,
    /// The client has waited before the servers for so long.
    Waited(Duration),
    /// The client has taken nothing of what it was sent for so long.
    Unread(Duration),
    /// A message, of the client or of a server for it, does not fit into what the process may hold.
    NoRoom,
}
