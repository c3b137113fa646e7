//! The door: a transaction enters before it gets a server connection, and leaves when it has ended.
//!
//! **Invariant:** whoever has a [`Slot`] is inside, and leaves by dropping it. Who waits waits without a thread, and leaves the
//! queue by dropping the future.

use sql::SqlError;
use sql::SqlState;
use stage::Class;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What is known of a transaction at the door.
#[derive(Clone, Debug)]
#[expect(dead_code, reason = "one line has no use for it")]
pub(crate) struct About {
    /// How important it is.
    pub(crate) class: Class,
    /// Whose it is.
    pub(crate) user: Arc<str>,
    /// Where it goes.
    pub(crate) database: Arc<str>,
    /// What its client calls itself.
    pub(crate) application_name: Arc<str>,
    /// Its first statement with the literals left out, as a number; none if that is not known.
    pub(crate) fingerprint: Option<u64>,
}

/// Lets so many in at a time, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Door(Arc<Semaphore>);

/// A place inside. Dropping it is leaving.
#[derive(Debug)]
pub(crate) struct Slot(#[expect(dead_code, reason = "it is held, not looked at")] OwnedSemaphorePermit);

impl Door {
    pub(crate) fn new(slots: usize) -> Door {
        Door(Arc::new(Semaphore::new(slots)))
    }

    /// Waits for a place.
    ///
    /// # Errors
    /// The door has been closed.
    pub(crate) async fn enter(&self, about: About) -> Result<Slot, SqlError> {
        // All wait in one line, whatever they are.
        drop(about);
        match Arc::clone(&self.0).acquire_owned().await {
            Ok(permit) => Ok(Slot(permit)),
            Err(_) => Err(SqlError::new(SqlState("57P01"), "the server is about to end")),
        }
    }
}

impl Slot {
    /// The transaction waits for its client. It keeps its place: whoever came in is never sent out.
    pub(crate) fn idle(&mut self) {}

    /// Its client has spoken again.
    pub(crate) async fn active(&mut self) {}
}
