//! Registry of all sessions, which counts them and finds the one to cancel.
//!
//! **Invariant:** a session is registered exactly as long as its [`SessionPlace`] lives. Only an authenticated client
//! has one, and only a holder of a session's secret can cancel it.

use locked::Locked;
use statement::SqlError;
use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use wire::Cancel;
use wire::errors;
use wire::scram;

pub(crate) struct Registry {
    places_max: usize,
    next_pid: AtomicI32,
    places: Mutex<HashMap<i32, SessionEntry>>,
}

/// Kinds of clients. Later kinds still get places when none are left for earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Role without the right to reserved places.
    Ordinary,
    /// Superuser, for whom some places are reserved.
    Superuser,
    /// Superuser in the proxy's own administration database.
    Administrator,
}

/// Number of places that each of the higher standings has beyond those of the one below: the default of PostgreSQL's
/// `superuser_reserved_connections`. Unlike there, they are not part of `max_connections`.
const RESERVED: usize = 3;

struct SessionEntry {
    secret: i32,
    user: Box<str>,
    cancel: Option<Arc<dyn Cancel>>,
}

/// Place of one session in the registry.
pub struct SessionPlace {
    registry: Arc<Registry>,
    /// Process number by which clients cancel the session.
    pub pid: i32,
    /// Secret that a cancel request must present.
    pub secret: i32,
}

impl Registry {
    pub fn new(places_max: usize) -> Arc<Registry> {
        Arc::new(Registry { places_max, next_pid: AtomicI32::new(1), places: Mutex::default() })
    }

    fn places(&self) -> std::sync::MutexGuard<'_, HashMap<i32, SessionEntry>> {
        self.places.locked()
    }

    /// Registers a session of a user, who may have `most` of them. Without random bytes for a secret, there is no
    /// place.
    ///
    /// # Errors
    /// `53300`: no place is free.
    pub fn enter(
        self: &Arc<Registry>,
        user: &str,
        standing: Standing,
        most: Option<usize>,
    ) -> Result<SessionPlace, SqlError> {
        let secret = i32::from_be_bytes(scram::random().map_err(|_| errors::too_many())?);
        let mut places = self.places();
        let beyond = |standings: usize| self.places_max.saturating_add(standings * RESERVED) <= places.len();
        match standing {
            Standing::Ordinary if beyond(0) && !beyond(1) => return Err(errors::reserved()),
            Standing::Ordinary if beyond(0) => return Err(errors::too_many()),
            Standing::Superuser if beyond(1) => return Err(errors::too_many()),
            Standing::Administrator if beyond(2) => return Err(errors::too_many()),
            Standing::Ordinary | Standing::Superuser | Standing::Administrator => {}
        }
        let count = || places.values().filter(|entry| *entry.user == *user).count();
        if most.is_some_and(|most| most <= count()) {
            return Err(errors::too_many_of(user));
        }
        // Numbers wrap around after two thousand million sessions; those in use are skipped.
        let pid = loop {
            let pid = self.next_pid.fetch_add(1, Relaxed) & i32::MAX;
            if pid != 0 && !places.contains_key(&pid) {
                break pid;
            }
        };
        places.insert(pid, SessionEntry { secret, user: user.into(), cancel: None });
        Ok(SessionPlace { registry: Arc::clone(self), pid, secret })
    }

    /// Cancels what a session is doing, if it exists and this is its secret. Returns when the cancel has been
    /// delivered.
    pub async fn cancel(&self, pid: i32, secret: i32) {
        let cancel = match self.places().get(&pid) {
            Some(entry) if entry.secret == secret => entry.cancel.clone(),
            _ => None,
        };
        if let Some(cancel) = cancel {
            cancel.cancel();
            cancel.delivered().await;
        }
    }
}

impl SessionPlace {
    /// Sets the session's cancel handle, once it has begun.
    pub(crate) fn set_cancel(&self, cancel: Arc<dyn Cancel>) {
        if let Some(entry) = self.registry.places().get_mut(&self.pid) {
            entry.cancel = Some(cancel);
        }
    }
}

impl Drop for SessionPlace {
    fn drop(&mut self) {
        // The drop may be part of the unwinding of a panic under this lock.
        self.registry.places.locked_anyway().remove(&self.pid);
    }
}
