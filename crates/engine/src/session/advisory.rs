//! Advisory locks: locks of applications on numbers of their own.
//!
//! **Invariant:** a session's lock outlives its transactions, and is held as many times as it was taken and not
//! released. A transaction's is held once, and is released as its other locks are. A session never waits for itself,
//! whichever of the two it holds.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::locks::{Advisory, Key, Mode, Unknown, Wait, Waiter};
use crate::session::Session;
use crate::txn::Txn;
use std::sync::Arc;

/// Lifetime of an advisory lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdvisoryScope {
    /// Held until the transaction ends, or goes back to before it.
    Transaction,
    /// Held until the session releases it, or ends.
    Session,
}

fn mode_of(shared: bool) -> Mode {
    if shared { Mode::SHARED } else { Mode::EXCLUSIVE }
}

fn release(engine: &Engine, waiter: &Waiter, lock: Advisory, mode: Mode) {
    let inner = &engine.inner;
    inner.locks.release(&inner.registry, &Unknown, waiter.id, Key::Advisory(lock), mode);
}

impl Txn<'_> {
    /// Takes an advisory lock. Returns false if another transaction has it, and `wait` is not [`Wait::Block`].
    ///
    /// # Errors
    /// [`Error::MustWait`] in a session; [`Error::WriteConflict`] without one, which can have no lock of a session either;
    /// [`Error::Limit`]; [`Error::Taken`].
    pub fn lock_advisory(&self, lock: Advisory, shared: bool, scope: AdvisoryScope, wait: Wait) -> Result<bool> {
        let _call = self.call();
        let (key, mode) = (Key::Advisory(lock), mode_of(shared));
        let session = self.waiter.filter(|_| scope == AdvisoryScope::Session);
        if scope == AdvisoryScope::Session && session.is_none() {
            return Err(Error::WriteConflict { table: "advisory lock".to_owned(), is_deleted: false });
        }
        let taken = self.acquire_as(session.is_some(), "advisory lock", key, mode, wait)?;
        if taken && let Some(waiter) = session {
            waiter.advisories.add(lock, mode);
        }
        Ok(taken)
    }

    /// Releases an exclusive lock that this statement has taken for the transaction, before the end of either.
    pub fn give_back_advisory(&self, lock: Advisory) {
        let _call = self.call();
        let had = (Key::Advisory(lock), mode_of(false));
        let mut scratch = self.scratch();
        let Some(at) = scratch.locks.iter().rposition(|own| *own == had) else { return };
        let (key, mode) = scratch.locks.remove(at);
        self.release(key, mode);
    }
}

impl Session {
    /// Releases one of the session's advisory locks once. Returns false if the session does not hold it.
    pub fn unlock_advisory(&self, lock: Advisory, shared: bool) -> bool {
        self.advisory_locks().unlock(lock, shared)
    }

    /// Releases all of the session's advisory locks.
    pub fn unlock_all_advisory(&self) {
        self.advisory_locks().unlock_all();
    }

    /// Returns the session's advisory locks, to be released from within a statement.
    pub fn advisory_locks(&self) -> AdvisoryLocks {
        AdvisoryLocks { engine: self.engine().clone(), waiter: Arc::clone(self.waiter()) }
    }
}

/// Advisory locks of a session; see [`Session::advisory_locks`].
#[derive(Clone)]
pub struct AdvisoryLocks {
    engine: Engine,
    waiter: Arc<Waiter>,
}

impl AdvisoryLocks {
    /// Releases one of the locks once. Returns false if the session does not hold it.
    pub fn unlock(&self, lock: Advisory, shared: bool) -> bool {
        let mode = mode_of(shared);
        let taken = self.waiter.advisories.take(lock, mode);
        if taken == Some(true) {
            release(&self.engine, &self.waiter, lock, mode);
        }
        taken.is_some()
    }

    /// Releases every one of the locks.
    pub fn unlock_all(&self) {
        for ((lock, mode), _) in self.waiter.advisories.take_all() {
            release(&self.engine, &self.waiter, lock, mode);
        }
    }
}
