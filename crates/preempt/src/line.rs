//! The cache line on which the senders of interrupts and one worker agree.
//!
//! **Invariant: no request is lost.** Every change of the worker's mode, and the end of every urgent context, is
//! "store the mode, then look at the request word"; every sender does "set the request word, then look at the mode"
//! (Dekker's pattern, all sequentially consistent). So either the sender sees the new mode and acts on it, or the
//! worker sees the request. `tests/shuttle.rs` explores the interleavings.
//!
//! ```text
//! request  bit 0 POLL   a safepoint shall serve
//!          bit 1 AGAIN  something was sent; an urgent context that is about to end looks once more
//! mode     what the worker runs, written by the worker alone
//! signal   1 while a signal is on its way: at most one is outstanding
//! ```

use crate::sync::{AtomicU32, Ordering::Relaxed, Ordering::SeqCst};

const POLL: u32 = 1;
const AGAIN: u32 = 2;

/// Mode: the kind of code that a worker runs now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// The worker sleeps, or is about to.
    Idle = 0,
    /// Code that may go long without a safepoint, third-party code for instance.
    Foreign = 1,
    /// Code that polls at least every 1,024 rows.
    Dense = 2,
    /// An urgent context; it looks for more work before it ends.
    Urgent = 3,
}

impl Mode {
    fn from_word(word: u32) -> Mode {
        match word {
            0 => Mode::Idle,
            1 => Mode::Foreign,
            2 => Mode::Dense,
            _ => Mode::Urgent,
        }
    }
}

/// Ways of delivery that a sender allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowedWays {
    /// True if a safepoint may serve the request.
    pub poll: bool,
    /// True if a signal may be sent to code without dense safepoints.
    pub signal: bool,
}

/// Step that a sender has to do, or did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The flag is set; a safepoint serves it.
    Flagged,
    /// A signal was sent.
    Signalled,
    /// A signal is on its way already, and its handler will see this request too.
    Outstanding,
    /// An urgent context runs on the worker and looks again before it ends.
    Running,
    /// A dedicated thread was woken.
    Woken,
}

/// Words shared by the senders and the worker. The line is their own (and so is its neighbour, which the prefetcher
/// pulls along).
#[repr(align(128))]
pub struct Line {
    request: AtomicU32,
    mode: AtomicU32,
    signal: AtomicU32,
}

impl Line {
    /// Creates the line of a worker that runs foreign code and has no request.
    #[cfg(not(feature = "shuttle"))]
    pub const fn new() -> Line {
        Line { request: AtomicU32::new(0), mode: AtomicU32::new(Mode::Foreign as u32), signal: AtomicU32::new(0) }
    }

    /// Creates the line of a worker that runs foreign code and has no request.
    #[cfg(feature = "shuttle")]
    pub fn new() -> Line {
        Line { request: AtomicU32::new(0), mode: AtomicU32::new(Mode::Foreign as u32), signal: AtomicU32::new(0) }
    }

    /// Sender: asks for service. The answer [`Sent::Signalled`] obliges the caller to send the signal now.
    pub fn request(&self, want: AllowedWays) -> Sent {
        self.request.fetch_or(if want.poll { POLL | AGAIN } else { AGAIN }, SeqCst);
        let signal = match self.mode() {
            Mode::Urgent => return Sent::Running,
            Mode::Idle => true,
            Mode::Dense => want.signal && !want.poll,
            Mode::Foreign => want.signal,
        };
        if !signal {
            Sent::Flagged
        } else if self.signal.swap(1, SeqCst) == 0 {
            Sent::Signalled
        } else {
            Sent::Outstanding
        }
    }

    /// Returns the mode of the worker now.
    pub fn mode(&self) -> Mode {
        Mode::from_word(self.mode.load(SeqCst))
    }

    /// Worker: returns true if a safepoint has to serve. One load of a line that is this worker's until a sender asks.
    #[inline]
    pub fn polled(&self) -> bool {
        self.request.load(Relaxed) & POLL != 0
    }

    /// Worker: publishes `mode`; returns true if a request must be served now because its sender may have seen the old
    /// mode.
    #[inline]
    pub fn publish(&self, mode: Mode) -> bool {
        self.mode.store(mode as u32, SeqCst);
        self.request.load(SeqCst) & POLL != 0
    }

    /// Worker: begins an urgent context. Returns the mode to restore.
    pub fn begin_urgent(&self) -> Mode {
        let before = self.mode();
        self.mode.store(Mode::Urgent as u32, SeqCst);
        before
    }

    /// Worker: takes every request made so far; a later one is new.
    pub fn take(&self) {
        self.request.store(0, SeqCst);
    }

    /// Worker: notes that the signal has arrived; a request from now on may send the next one. The caller serves, or
    /// remembers to, after this.
    pub fn arrived(&self) {
        self.signal.store(0, SeqCst);
    }

    /// Returns true if a signal is on its way.
    pub(crate) fn is_signal_due(&self) -> bool {
        self.signal.load(SeqCst) == 1
    }

    /// Worker: ends the urgent context. Returns false, and the worker is still urgent, if a request came in meanwhile.
    pub fn end_urgent(&self, before: Mode) -> bool {
        self.mode.store(before as u32, SeqCst);
        if self.request.load(SeqCst) == 0 {
            return true;
        }
        self.mode.store(Mode::Urgent as u32, SeqCst);
        false
    }

    /// Resets every word, for a new owner.
    pub(crate) fn reset(&self) {
        self.mode.store(Mode::Foreign as u32, SeqCst);
        self.arrived();
        self.take();
    }
}

impl Default for Line {
    fn default() -> Line {
        Line::new()
    }
}
