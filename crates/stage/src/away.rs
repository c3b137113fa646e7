//! Time that passes in stored code on other threads than that of a clock.

use crate::ticks::TickSource;
use locked::Locked;
use std::sync::Mutex;

/// Time in which at least one of several threads is in stored code, for [`StageClock::take_out_of_run`]. Time in which
/// all of these sleep is apart.
///
/// [`StageClock::take_out_of_run`]: crate::StageClock::take_out_of_run
#[derive(Debug)]
pub struct AwayTime {
    source: TickSource,
    passed: Mutex<PassedTicks>,
}

#[derive(Debug, Default)]
struct PassedTicks {
    /// Threads that are in code, and those of them that sleep.
    threads: usize,
    asleep: usize,
    /// Tick of the last change.
    since: u64,
    /// Ticks in which a thread was at work, and in which all slept.
    worked: u64,
    slept: u64,
}

impl AwayTime {
    /// Creates the time in code for a clock of this source.
    pub fn new(source: TickSource) -> AwayTime {
        AwayTime { source, passed: Mutex::default() }
    }

    fn change(&self, change: impl FnOnce(&mut PassedTicks)) {
        let mut time = self.passed.locked_anyway();
        let now = self.source.now();
        let passed = now.saturating_sub(time.since);
        if time.asleep < time.threads {
            time.worked += passed;
        } else if 0 < time.threads {
            time.slept += passed;
        }
        time.since = now;
        change(&mut time);
    }

    /// Begins code on this thread.
    pub fn begin(&self) {
        self.change(|time| time.threads += 1);
    }

    /// Ends code that was begun.
    pub fn end(&self) {
        self.change(|time| time.threads = time.threads.saturating_sub(1));
    }

    /// Runs a wait in which this thread, which is in code, sleeps.
    pub fn asleep<R>(&self, wait: impl FnOnce() -> R) -> R {
        self.change(|time| time.asleep += 1);
        let waited = wait();
        self.change(|time| time.asleep -= 1);
        waited
    }

    /// Returns the ticks up to the last change: those of work, and those of sleep.
    pub(crate) fn ticks(&self) -> (u64, u64) {
        let time = self.passed.locked_anyway();
        (time.worked, time.slept)
    }
}
