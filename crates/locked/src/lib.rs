//! Locks of the standard library, and what becomes of one whose holder has panicked.
//!
//! **Invariant:** a panic that may leave shared state half changed ends the process. Whoever comes to such a lock next
//! writes one line to the standard error and aborts, so no other client reads what half a change has left. A server
//! that ends is started again; one that goes on with wrong state answers wrongly.
//!
//! The name of the method tells how the state of a lock is judged:
//!
//! - [`Locked::locked`], [`RwLocked::read_locked`], [`RwLocked::write_locked`] and [`LockedResult::or_end_process`] end
//!   the process after a panic. They are for everything that several clients or threads share.
//! - The methods that end in `anyway` go on. They are for state that belongs to one session, one statement or one call,
//!   whose owner is gone after the panic; for a value that is whole at every moment, because it only changes by single
//!   assignments (a flag, a counter, an option that is taken); and for the end of a value ([`Drop`]), which may be part
//!   of the unwinding of that very panic: there, only what is safe on a half changed state may be done.
//!
//! Code that may run in an urgent context takes none of these locks.

use std::io::Write;
use std::panic::Location;
use std::sync::{LockResult, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

/// Ways to lock a [`Mutex`].
pub trait Locked<T: ?Sized> {
    /// Locks state that is shared. Ends the process if a panic may have left it half changed.
    fn locked(&self) -> MutexGuard<'_, T>;

    /// Locks state that no panic leaves half changed for anybody else.
    fn locked_anyway(&self) -> MutexGuard<'_, T>;

    /// Does the same if the lock is free; returns `None` if it is held.
    fn try_locked_anyway(&self) -> Option<MutexGuard<'_, T>>;
}

/// Ways to lock a [`RwLock`].
pub trait RwLocked<T: ?Sized> {
    /// Locks shared state for reading. Ends the process if a panic may have left it half changed.
    fn read_locked(&self) -> RwLockReadGuard<'_, T>;

    /// Locks shared state for writing. Ends the process if a panic may have left it half changed.
    fn write_locked(&self) -> RwLockWriteGuard<'_, T>;

    /// Locks state for reading that no panic leaves half changed for anybody else.
    fn read_locked_anyway(&self) -> RwLockReadGuard<'_, T>;

    /// Locks state for writing that no panic leaves half changed for anybody else.
    fn write_locked_anyway(&self) -> RwLockWriteGuard<'_, T>;
}

/// Results of other methods of locks: waits of a [`Condvar`](std::sync::Condvar), `get_mut` and `into_inner`.
pub trait LockedResult {
    /// Guard or value that the method gives.
    type Given;

    /// Returns shared state. Ends the process if a panic may have left it half changed.
    fn or_end_process(self) -> Self::Given;

    /// Returns state that no panic leaves half changed for anybody else.
    fn anyway(self) -> Self::Given;
}

impl<T: ?Sized> Locked<T> for Mutex<T> {
    #[track_caller]
    fn locked(&self) -> MutexGuard<'_, T> {
        self.lock().or_end_process()
    }

    fn locked_anyway(&self) -> MutexGuard<'_, T> {
        self.lock().anyway()
    }

    fn try_locked_anyway(&self) -> Option<MutexGuard<'_, T>> {
        match self.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl<T: ?Sized> RwLocked<T> for RwLock<T> {
    #[track_caller]
    fn read_locked(&self) -> RwLockReadGuard<'_, T> {
        self.read().or_end_process()
    }

    #[track_caller]
    fn write_locked(&self) -> RwLockWriteGuard<'_, T> {
        self.write().or_end_process()
    }

    fn read_locked_anyway(&self) -> RwLockReadGuard<'_, T> {
        self.read().anyway()
    }

    fn write_locked_anyway(&self) -> RwLockWriteGuard<'_, T> {
        self.write().anyway()
    }
}

impl<G> LockedResult for LockResult<G> {
    type Given = G;

    #[track_caller]
    fn or_end_process(self) -> G {
        match self {
            Ok(given) => given,
            Err(_) => end_process(Location::caller()),
        }
    }

    fn anyway(self) -> G {
        self.unwrap_or_else(PoisonError::into_inner)
    }
}

#[cold]
fn end_process(place: &Location<'_>) -> ! {
    // The line is lost if nobody takes it any more. No panic may come of that: it would be caught like the one before.
    let _ = writeln!(std::io::stderr(), "a panic has left shared state half changed: {place}, the process ends");
    std::process::abort()
}

#[cfg(test)]
mod tests;
