//! Moments of one request of the scheduler.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use preempt::os::now_ns;

/// Moment in the life of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Moment {
    /// The transaction was handed to the scheduler.
    Submit = 0,
    /// A worker took the transaction from its queue.
    Dispatch = 1,
    /// The first instruction of the transaction ran (that of the last attempt, if it was retried).
    Run = 2,
    /// The transaction ended.
    End = 3,
}

const MOMENTS: usize = 4;
const ABSENT: u64 = 0;

/// Stamps of one transaction, written by the thread that has the transaction in hand.
///
/// The words are relaxed: the hand-over of the transaction itself (a queue, a claim) orders them.
#[derive(Debug, Default)]
pub struct Clock {
    stamps: [AtomicU64; MOMENTS],
    lock_wait_ns: AtomicU64,
}

impl Clock {
    /// Creates a clock without stamps.
    pub const fn new() -> Clock {
        Clock { stamps: [const { AtomicU64::new(ABSENT) }; MOMENTS], lock_wait_ns: AtomicU64::new(0) }
    }

    /// Stamps `moment` with the time now and returns it.
    #[inline]
    pub fn stamp(&self, moment: Moment) -> u64 {
        let now = now_ns();
        self.set(moment, now);
        now
    }

    /// Stamps `moment` with a time that was read before.
    #[inline]
    pub fn set(&self, moment: Moment, at_ns: u64) {
        self.stamps[moment as usize].store(at_ns, Relaxed);
    }

    /// Adds `ns` to the time of waits for locks. There may be several: it is a sum, not a moment.
    #[inline]
    pub fn add_lock_wait(&self, ns: u64) {
        self.lock_wait_ns.fetch_add(ns, Relaxed);
    }

    /// Returns the time at which `moment` was reached, if it was.
    #[inline]
    pub fn at(&self, moment: Moment) -> Option<u64> {
        match self.stamps[moment as usize].load(Relaxed) {
            ABSENT => None,
            at_ns => Some(at_ns),
        }
    }

    /// Returns a copy of the stamps.
    pub fn stamps(&self) -> Stamps {
        Stamps {
            submit_ns: self.at(Moment::Submit),
            dispatch_ns: self.at(Moment::Dispatch),
            run_ns: self.at(Moment::Run),
            end_ns: self.at(Moment::End),
            lock_wait_ns: self.lock_wait_ns.load(Relaxed),
        }
    }
}

/// Stamps of one transaction, copied out of its [`Clock`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// Time of [`Moment::Submit`].
    pub submit_ns: Option<u64>,
    /// Time of [`Moment::Dispatch`].
    pub dispatch_ns: Option<u64>,
    /// Time of [`Moment::Run`].
    pub run_ns: Option<u64>,
    /// Time of [`Moment::End`].
    pub end_ns: Option<u64>,
    /// Time that the transaction was parked, summed over all its waits; see [`Clock::add_lock_wait`].
    pub lock_wait_ns: u64,
}

impl Stamps {
    /// Returns the nanoseconds from submission to the first instruction.
    pub fn start_delay_ns(&self) -> Option<u64> {
        Some(self.run_ns?.saturating_sub(self.submit_ns?))
    }

    /// Returns the nanoseconds from the first instruction to the end.
    pub fn run_time_ns(&self) -> Option<u64> {
        Some(self.end_ns?.saturating_sub(self.run_ns?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_that_was_not_reached_is_absent() {
        let clock = Clock::new();
        assert_eq!(clock.stamps(), Stamps::default());
        clock.stamp(Moment::Submit);
        assert!(clock.at(Moment::Submit).is_some());
        assert_eq!(clock.stamps().start_delay_ns(), None);
    }

    #[test]
    fn delays_are_differences_of_stamps() {
        let clock = Clock::new();
        clock.set(Moment::Submit, 100);
        clock.set(Moment::Run, 130);
        clock.set(Moment::End, 200);
        clock.add_lock_wait(20);
        clock.add_lock_wait(15);
        assert_eq!(clock.stamps().lock_wait_ns, 35);
        assert_eq!(clock.stamps().start_delay_ns(), Some(30));
        assert_eq!(clock.stamps().run_time_ns(), Some(70));
    }
}
