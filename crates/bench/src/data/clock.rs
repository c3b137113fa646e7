//! The clock of waits: patience with less important holders, lock timeouts, statement timeouts.
//!
//! **Invariant:** no worker looks at the time for those who are parked; this thread does, and sleeps until the next
//! deadline, but no longer than a wait that begins meanwhile may need.

use engine::Engine;
use preempt::os;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Maximum delay after which a wait that begins while this thread sleeps is noticed: half of the default patience.
const LOOK: Duration = Duration::from_micros(500);

/// Thread that calls [`Engine::expire_waits`]. Dropping the value ends it.
pub struct LockClock {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl LockClock {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(engine: Engine) -> io::Result<LockClock> {
        let is_over = Arc::new(AtomicBool::new(false));
        let there = Arc::clone(&is_over);
        let body = move || {
            while !there.load(SeqCst) {
                let now_ns = os::now_ns();
                let next = engine.expire_waits(now_ns);
                let left = next.map_or(LOOK, |next_ns| Duration::from_nanos(next_ns.saturating_sub(now_ns)));
                thread::park_timeout(left.min(LOOK));
            }
        };
        let thread = thread::Builder::new().name("lock-clock".to_owned()).spawn(body)?;
        Ok(LockClock { is_over, thread: Some(thread) })
    }
}

impl Drop for LockClock {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            thread.join().expect("the clock does not panic");
        }
    }
}
