//! Waits in which a side polls before it sleeps: all where that was worth it, and few where it was not.
//!
//! [`Polling`] decides that; this module has its times.
//!
//! **Why two sides that answer at once come to poll:** while one of them sleeps, the other one waits for a wake-up
//! (20 to 50 us) and for the answer. Its polling must outlast both, or it fails as long as the other side sleeps, and
//! both sleep again and again. So it lasts `TIME`. Once one side polls, the other one waits for the answer alone.
//!
//! **Why a stream polls longer beside busy ones:** it waits for the turns of all others, and its thread does not sleep
//! meanwhile. With 64 streams that is longer than `TIME`, and they slept or polled by chance.

use crate::polling::{Polling, Step};
use crate::system;
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Greatest time of polling within a wait, while no stream of the thread finds anything.
const TIME: Duration = Duration::from_micros(100);
/// Greatest time of polling within a wait, while other streams of the thread find something.
const TIME_BESIDE: Duration = Duration::from_millis(1);

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
pub(crate) struct Spin(Polling);

/// True if another thread can run while this one polls.
fn is_useful() -> bool {
    static IS_USEFUL: OnceLock<bool> = OnceLock::new();
    // Of the machine, not of this process: the other side may have a processor that this one may not use.
    *IS_USEFUL.get_or_init(|| 1 < system::processors())
}

impl Spin {
    pub(crate) fn new() -> Spin {
        Spin(Polling::new(is_useful()))
    }

    /// Takes note of a look that has found nothing. Returns true if the caller should look again soon, and false if it
    /// should sleep.
    pub(crate) fn looks_again(&mut self) -> bool {
        let since_found = |now: Instant| FOUND.get().map(|found| now.saturating_duration_since(found));
        match self.0.next(Instant::now, |now| longest(since_found(now))) {
            Step::Look => true,
            Step::FallAsleep(looks) => {
                EMPTY_LOOKS.fetch_add(looks.into(), Relaxed);
                false
            }
            Step::Sleep => false,
        }
    }

    /// Counts a sleep.
    pub(crate) fn sleeps(&mut self) {
        SLEEPS.fetch_add(1, Relaxed);
    }

    /// Takes note of the end of a wait.
    pub(crate) fn is_over(&mut self) {
        let looks = self.0.is_over();
        if looks != 0 {
            EMPTY_LOOKS.fetch_add(looks.into(), Relaxed);
        }
        FOUND.set(Some(Instant::now()));
    }
}

/// Returns the greatest time of polling within a wait, if a stream of the thread found something this long ago.
fn longest(found: Option<Duration>) -> Duration {
    if found.is_some_and(|found| found < TIME) { TIME_BESIDE } else { TIME }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_streams_of_the_thread_let_one_poll_longer() {
        let us = Duration::from_micros;
        assert_eq!([None, Some(us(0)), Some(us(99)), Some(us(100))].map(longest), [100, 1_000, 1_000, 100].map(us));
    }
}
