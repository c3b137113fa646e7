//! From a transaction's end to the session that waits for it.
//!
//! A wait may end in any context, urgent ones that interrupted this very runtime included, where tokio must not be touched.
//! So a wake-up stores a flag and writes one byte to a socket pair; a task reads it and tells the sessions.
//!
//! **Invariant:** [`Waiter::wake`](engine::Wake::wake) takes no lock, allocates nothing and never blocks. A flag that is
//! set is seen: it is set before the byte is asked for, and the task takes the byte before it looks at the flags.

use std::io::{self, Write};
use std::os::unix::net::UnixStream as StdStream;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::sync::Notify;

/// All that wait, and the socket on which wake-ups arrive.
pub(crate) struct Bells {
    ring: StdStream,
    /// Whether there is a byte on its way.
    is_rung: AtomicBool,
    waiting: Mutex<Vec<Weak<Waiter>>>,
}

/// One wait.
pub(crate) struct Waiter {
    bells: Arc<Bells>,
    is_ready: AtomicBool,
    told: Notify,
}

impl Bells {
    /// Also returns where the bytes arrive, for [`Bells::listen`].
    pub(crate) fn new() -> io::Result<(Arc<Bells>, StdStream)> {
        let (ring, heard) = StdStream::pair()?;
        ring.set_nonblocking(true)?;
        heard.set_nonblocking(true)?;
        let bells = Bells { ring, is_rung: AtomicBool::new(false), waiting: Mutex::default() };
        Ok((Arc::new(bells), heard))
    }

    /// A new wait.
    pub(crate) fn waiter(self: &Arc<Bells>) -> Arc<Waiter> {
        let waiter =
            Arc::new(Waiter { bells: Arc::clone(self), is_ready: AtomicBool::new(false), told: Notify::new() });
        // Only tasks of the runtime come here: no wake-up can find the lock taken below it.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&waiter));
        waiter
    }

    /// Tells sessions, for ever.
    pub(crate) async fn listen(self: Arc<Bells>, mut heard: UnixStream) {
        let mut bytes = [0; 64];
        while heard.read(&mut bytes).await.is_ok_and(|count| 0 < count) {
            self.is_rung.store(false, SeqCst);
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.retain(|waiter| match waiter.upgrade() {
                Some(waiter) if waiter.is_ready.load(SeqCst) => {
                    waiter.told.notify_one();
                    false
                }
                Some(_) => true,
                // Its session has gone.
                None => false,
            });
        }
    }
}

impl Waiter {
    /// Waits for the wake-up.
    pub(crate) async fn told(&self) {
        self.told.notified().await;
    }
}

impl engine::Wake for Waiter {
    fn wake(&self) {
        self.is_ready.store(true, SeqCst);
        if !self.bells.is_rung.swap(true, SeqCst) {
            // One byte at most is on its way, so there is room.
            let _ = (&self.bells.ring).write(&[0]);
        }
    }
}
