//! Wake-ups from a transaction's end to the session that waits for it.
//!
//! A wait may end in any context, including urgent ones that have interrupted a worker's runtime, where tokio must not
//! be touched. There a wake-up stores a flag and writes one byte to a socket pair; a task reads it and notifies the
//! sessions. On any other thread nothing can be interrupted, and the session is notified at once: without a system
//! call, if it belongs to the same thread.
//!
//! **Invariant:** on a worker, [`Waiter::wake`](engine::Wake::wake) takes no lock, allocates nothing and never blocks.
//! A flag that is set is seen: it is set before the byte is written, and the task takes the byte before it looks at the
//! flags.

use locked::Locked;
use preempt::Worker;
use std::collections::HashMap;
use std::io::{self, Write};
use std::os::unix::net::UnixStream as StdStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::sync::Notify;

/// Registry of all waiters, with the socket on which wake-ups arrive.
pub struct Bells {
    ring: StdStream,
    /// True if a byte is on its way.
    is_rung: AtomicBool,
    /// Waiters by their numbers.
    waiting: Mutex<HashMap<u64, Arc<Waiter>>>,
    next: AtomicU64,
}

/// Waiter of a session, for one wait after the other. A wake-up of an earlier wait is harmless, because the statement
/// checks again.
pub struct Waiter {
    bells: Arc<Bells>,
    number: u64,
    is_ready: AtomicBool,
    told: Notify,
}

/// Wait in progress.
pub struct Waiting<'w>(&'w Waiter);

impl Bells {
    /// Creates the registry. The stream is the end where the bytes arrive, for [`Bells::listen`].
    pub fn new() -> io::Result<(Arc<Bells>, StdStream)> {
        let (ring, heard) = StdStream::pair()?;
        ring.set_nonblocking(true)?;
        heard.set_nonblocking(true)?;
        let bells = Bells { ring, is_rung: AtomicBool::new(false), waiting: Mutex::default(), next: AtomicU64::new(0) };
        Ok((Arc::new(bells), heard))
    }

    /// Creates a waiter for a session.
    pub fn waiter(self: &Arc<Bells>) -> Arc<Waiter> {
        let number = self.next.fetch_add(1, Relaxed);
        Arc::new(Waiter { bells: Arc::clone(self), number, is_ready: AtomicBool::new(false), told: Notify::new() })
    }

    /// Locks the waiters. Only tasks get here, so no wake-up can find the lock held below it.
    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, Arc<Waiter>>> {
        self.waiting.locked()
    }

    /// Notifies sessions, for ever.
    pub async fn listen(self: Arc<Bells>, mut heard: UnixStream) {
        let mut bytes = [0; 64];
        while heard.read(&mut bytes).await.is_ok_and(|count| 0 < count) {
            self.is_rung.store(false, SeqCst);
            self.waiting()
                .values()
                .filter(|waiter| waiter.is_ready.swap(false, SeqCst))
                .for_each(|waiter| waiter.tell());
        }
    }
}

impl Waiter {
    /// Begins a wait, which may be ended from now on.
    pub fn begin(self: &Arc<Waiter>) -> Waiting<'_> {
        self.bells.waiting().insert(self.number, Arc::clone(self));
        Waiting(self)
    }

    fn tell(&self) {
        self.told.notify_one();
    }
}

impl Waiting<'_> {
    /// Waits for the wake-up.
    pub async fn told(&self) {
        self.0.told.notified().await;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // The drop may be part of the unwinding of a panic under this lock.
        self.0.bells.waiting.locked_anyway().remove(&self.0.number);
    }
}

impl engine::Wake for Waiter {
    fn wake(&self) {
        if Worker::current().is_none() {
            return self.tell();
        }
        self.is_ready.store(true, SeqCst);
        if !self.bells.is_rung.swap(true, SeqCst) {
            // At most one byte is on its way, so there is room.
            let _ = (&self.bells.ring).write(&[0]);
        }
    }
}
