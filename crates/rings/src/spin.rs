//! Waits in which a side polls before it sleeps: all where that was worth it, and few where it was not.
//!
//! **Invariant:** waits that polling does not shorten cost almost nothing: after a failure, polling is left out of more
//! and more waits.
//!
//! **Why two sides that answer at once come to poll:** while one of them sleeps, the other one waits for a wake-up
//! (20 to 50 us) and for the answer. Its polling must outlast both, or it fails as long as the other side sleeps, and
//! both sleep again and again. So it lasts `TIME`. Once one side polls, the other one waits for the answer alone.
//!
//! **Why a stream polls longer beside busy ones:** it waits for the turns of all others, and its thread does not sleep
//! meanwhile. With 64 streams that is longer than `TIME`, and they slept or polled by chance.

use crate::system;
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Greatest time of polling within a wait, while no stream of the thread finds anything.
const TIME: Duration = Duration::from_micros(100);
/// Greatest time of polling within a wait, while other streams of the thread find something.
const TIME_BESIDE: Duration = Duration::from_millis(1);
/// Least number of looks before a sleep. On a busy thread, one look takes as long as the turns of all others.
const LOOKS_MIN: u32 = 4;
/// Least and greatest number of waits without polling after one that was in vain.
const PAUSE: (u32, u32) = (8, 512);

thread_local! {
    /// Time at which a stream of this thread last found something.
    static FOUND: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Looks at rings that had nothing new, in this process.
static EMPTY_LOOKS: AtomicU64 = AtomicU64::new(0);
/// Sleeps until the other side sends a byte.
static SLEEPS: AtomicU64 = AtomicU64::new(0);
/// Bytes that were sent to wake other sides.
static WAKES: AtomicU64 = AtomicU64::new(0);

/// Counters of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingCounts {
    /// Looks at rings that had nothing new.
    pub empty_looks: u64,
    /// Sleeps until the other side sends a byte.
    pub sleeps: u64,
    /// Bytes that were sent to wake other sides.
    pub wakes: u64,
}

/// Returns the counters of this process.
pub fn counts() -> RingCounts {
    let [empty_looks, sleeps, wakes] = [&EMPTY_LOOKS, &SLEEPS, &WAKES].map(|count| count.load(Relaxed));
    RingCounts { empty_looks, sleeps, wakes }
}

pub(crate) fn count_wake() {
    WAKES.fetch_add(1, Relaxed);
}

/// Polling of one stream.
#[derive(Debug)]
pub(crate) struct Spin {
    /// Waits without polling that are left, and their number after the next failure.
    pause: (u32, u32),
    /// Present wait.
    wait: Wait,
}

#[derive(Clone, Copy, Debug)]
enum Wait {
    None,
    Polling { since: Instant, looks: u32 },
    Sleeping,
}

/// True if another thread can run while this one polls.
fn is_useful() -> bool {
    static IS_USEFUL: OnceLock<bool> = OnceLock::new();
    // Of the machine, not of this process: the other side may have a processor that this one may not use.
    *IS_USEFUL.get_or_init(|| 1 < system::processors())
}

impl Spin {
    pub(crate) fn new() -> Spin {
        Spin { pause: (0, PAUSE.0), wait: Wait::None }
    }

    /// Takes note of a look that has found nothing. Returns true if the caller should look again soon, and false if it
    /// should sleep.
    pub(crate) fn looks_again(&mut self) -> bool {
        match self.wait {
            Wait::None if !is_useful() => false,
            Wait::None if 0 < self.pause.0 => {
                self.pause.0 -= 1;
                self.wait = Wait::Sleeping;
                false
            }
            Wait::None => {
                self.wait = Wait::Polling { since: Instant::now(), looks: 1 };
                true
            }
            Wait::Polling { since, looks } => {
                let now = Instant::now();
                let found = FOUND.get().map(|found| now.saturating_duration_since(found));
                if goes_on(looks, now.saturating_duration_since(since), found) {
                    self.wait = Wait::Polling { since, looks: looks + 1 };
                    return true;
                }
                self.pause = (self.pause.1, (2 * self.pause.1).min(PAUSE.1));
                EMPTY_LOOKS.fetch_add(looks.into(), Relaxed);
                self.wait = Wait::Sleeping;
                false
            }
            Wait::Sleeping => false,
        }
    }

    /// Counts a sleep.
    pub(crate) fn sleeps(&mut self) {
        SLEEPS.fetch_add(1, Relaxed);
    }

    /// Takes note of the end of a wait.
    pub(crate) fn is_over(&mut self) {
        if let Wait::Polling { looks, .. } = self.wait {
            self.pause = (0, PAUSE.0);
            EMPTY_LOOKS.fetch_add(looks.into(), Relaxed);
        }
        self.wait = Wait::None;
        FOUND.set(Some(Instant::now()));
    }
}

/// Returns true if polling goes on after this number of looks and this time. `found` is the time since a stream of the
/// thread found something.
fn goes_on(looks: u32, polled: Duration, found: Option<Duration>) -> bool {
    let is_beside = found.is_some_and(|found| found < TIME);
    looks < LOOKS_MIN || polled < if is_beside { TIME_BESIDE } else { TIME }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_streams_of_the_thread_let_one_poll_longer() {
        let us = Duration::from_micros;
        for (looks, polled, found, goes) in [
            (LOOKS_MIN - 1, us(5_000), None, true),
            (LOOKS_MIN, us(99), None, true),
            (LOOKS_MIN, us(100), None, false),
            (LOOKS_MIN, us(100), Some(us(99)), true),
            (LOOKS_MIN, us(100), Some(us(100)), false),
            (LOOKS_MIN, us(1_000), Some(us(0)), false),
        ] {
            assert_eq!(goes_on(looks, polled, found), goes, "{looks} {polled:?} {found:?}");
        }
    }

    #[test]
    fn what_was_in_vain_is_left_out_more_and_more() {
        if !is_useful() {
            return;
        }
        let mut spin = Spin::new();
        let mut polled = Vec::new();
        for wait in 0..1000 {
            if spin.looks_again() {
                polled.push(wait);
                while spin.looks_again() {}
            }
            spin.is_over();
        }
        assert_eq!(polled, [0, 9, 26, 59, 124, 253, 510]);
        while !spin.looks_again() {
            spin.is_over();
        }
        // A success ends that.
        spin.is_over();
        assert!(spin.looks_again());
    }
}
