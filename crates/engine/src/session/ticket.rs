//! Ticket: the handle of the caller of a parked statement.

use crate::engine::Engine;
use crate::locks::{Waiter, Wake};
use preempt::os;
use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::Duration;

/// A statement that waits. When the ticket is ready, submit the statement again: it goes on, or fails with the reason.
pub struct Ticket {
    engine: Engine,
    waiter: Arc<Waiter>,
    number: u64,
}

impl Ticket {
    pub(crate) fn new(engine: Engine, waiter: Arc<Waiter>, number: u64) -> Ticket {
        Ticket { engine, waiter, number }
    }

    /// Returns true if the wait is over.
    pub fn is_ready(&self) -> bool {
        self.waiter.is_ready(self.number)
    }

    /// Registers `wake`, called when the wait is over: at once if it is. The last one registered counts.
    pub fn on_ready(&self, wake: Arc<dyn Wake>) {
        if let Some(wake) = self.waiter.on_ready(self.number, wake) {
            wake.wake();
        }
    }

    /// Blocks this thread until the wait is over, and checks patience and timeouts meanwhile. For ordinary threads,
    /// never for workers.
    pub fn wait(&self) {
        self.on_ready(Arc::new(Unpark(thread::current())));
        while !self.is_ready() {
            let now_ns = os::now_ns();
            match self.engine.expire_waits(now_ns) {
                Some(next_ns) => thread::park_timeout(Duration::from_nanos(next_ns.saturating_sub(now_ns))),
                None if self.is_ready() => {}
                None => thread::park(),
            }
        }
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").field("session", &self.waiter.name).field("is_ready", &self.is_ready()).finish()
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(&self) {
        self.0.unpark();
    }
}
