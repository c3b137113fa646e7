//! The rungs of delivery: the ways in which a sender gets a worker's attention.
//!
//! The worker publishes its mode; the sender decides at once. Every rung wakes an idle worker by the signal, and the
//! worker runs the work right there. A rung for user interrupts (UINTR) would be one more implementation of
//! [`Delivery`]; [`crate::os::uintr`] tells whether a machine has them.

use crate::line::{AllowedWays, Sent};
use crate::signal;
use crate::worker::Worker;

/// A rung of the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// A flag in the worker's own cache line, seen at its next safepoint.
    Poll,
    /// A signal, which interrupts code without safepoints.
    Signal,
    /// The flag where safepoints are dense, the signal elsewhere.
    Ladder,
    /// A thread that the kernel prefers is woken.
    Thread,
}

/// A way to get a worker's attention.
pub trait Delivery: Send + Sync {
    /// Returns the rung of this delivery.
    fn rung(&self) -> Rung;
    /// Asks `to` to serve its queues. The work must be queued before.
    fn send(&self, to: &Worker) -> Sent;
}

/// Sets the flag only. A worker in foreign code serves it when that code reaches a safepoint.
pub struct Poll;

/// Sends a signal, whatever the worker runs.
pub struct Signal;

/// Sets the flag, and sends a signal to code without dense safepoints.
pub struct Ladder;

/// Wakes a dedicated thread; the kernel's scheduler does the preempting.
///
/// The thread itself parks by [`std::thread::park`] when its queues are empty.
pub struct Thread(pub std::thread::Thread);

impl Delivery for Poll {
    fn rung(&self) -> Rung {
        Rung::Poll
    }
    fn send(&self, to: &Worker) -> Sent {
        request(to, AllowedWays { poll: true, signal: false })
    }
}

impl Delivery for Signal {
    fn rung(&self) -> Rung {
        Rung::Signal
    }
    fn send(&self, to: &Worker) -> Sent {
        request(to, AllowedWays { poll: false, signal: true })
    }
}

impl Delivery for Ladder {
    fn rung(&self) -> Rung {
        Rung::Ladder
    }
    fn send(&self, to: &Worker) -> Sent {
        request(to, AllowedWays { poll: true, signal: true })
    }
}

impl Delivery for Thread {
    fn rung(&self) -> Rung {
        Rung::Thread
    }
    fn send(&self, _to: &Worker) -> Sent {
        self.0.unpark();
        Sent::Woken
    }
}

/// Wakes `to` if it is idle, and does nothing to a busy worker: policies without preemption use this.
pub fn wake_idle(to: &Worker) -> Sent {
    request(to, AllowedWays { poll: false, signal: false })
}

fn request(to: &Worker, want: AllowedWays) -> Sent {
    let sent = to.line().request(want);
    if sent == Sent::Signalled {
        signal::send(to.id(), to.tid());
    }
    sent
}
