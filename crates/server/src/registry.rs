//! All sessions: how many there are, and how each is cancelled.
//!
//! **Invariant:** a session is here exactly as long as its [`Place`]. Only who knows a session's secret can cancel it.

use crate::backend::Cancel;
use crate::scram;
use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) struct Registry {
    places_max: usize,
    next_pid: AtomicI32,
    places: Mutex<HashMap<i32, Entry>>,
}

struct Entry {
    secret: i32,
    /// Once it has proved who it is.
    user: Option<Box<str>>,
    cancel: Option<Arc<dyn Cancel>>,
}

/// The place of one session.
pub(crate) struct Place {
    registry: Arc<Registry>,
    pub(crate) pid: i32,
    pub(crate) secret: i32,
}

impl Registry {
    pub(crate) fn new(places_max: usize) -> Arc<Registry> {
        Arc::new(Registry { places_max, next_pid: AtomicI32::new(1), places: Mutex::default() })
    }

    fn places(&self) -> std::sync::MutexGuard<'_, HashMap<i32, Entry>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place, if there is one; no secret, no place.
    pub(crate) fn enter(self: &Arc<Registry>) -> Option<Place> {
        let secret = i32::from_be_bytes(scram::random().ok()?);
        let mut places = self.places();
        if self.places_max <= places.len() {
            return None;
        }
        // Numbers come round again after two thousand million sessions; those still there keep theirs.
        let pid = loop {
            let pid = self.next_pid.fetch_add(1, Relaxed) & i32::MAX;
            if pid != 0 && !places.contains_key(&pid) {
                break pid;
            }
        };
        places.insert(pid, Entry { secret, user: None, cancel: None });
        Some(Place { registry: Arc::clone(self), pid, secret })
    }

    /// Cancels what a session is doing, if it exists and that is its secret. Ready when the cancel has come there.
    pub(crate) async fn cancel(&self, pid: i32, secret: i32) {
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

impl Place {
    /// The session is this user's, who may have so many; whether there is room.
    pub(crate) fn set_user(&self, user: &str, most: Option<usize>) -> bool {
        let mut places = self.registry.places();
        let count = || places.values().filter(|entry| entry.user.as_deref() == Some(user)).count();
        if most.is_some_and(|most| most <= count()) {
            return false;
        }
        if let Some(entry) = places.get_mut(&self.pid) {
            entry.user = Some(user.into());
        }
        true
    }

    /// The session has begun and can be cancelled.
    pub(crate) fn set_cancel(&self, cancel: Arc<dyn Cancel>) {
        if let Some(entry) = self.registry.places().get_mut(&self.pid) {
            entry.cancel = Some(cancel);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.registry.places().remove(&self.pid);
    }
}
