//! Time that passes in work on other threads than that of a clock.

use crate::ticks::TickSource;
use locked::Locked;
use std::sync::Mutex;

/// Time in which at least one of several threads has done some work, for [`StageClock::take_out_of_run`].
///
/// [`StageClock::take_out_of_run`]: crate::StageClock::take_out_of_run
#[derive(Debug)]
pub struct AwayTime {
    source: TickSource,
    passed: Mutex<PassedTicks>,
}

#[derive(Debug, Default)]
struct PassedTicks {
    /// Threads that are at work.
    threads: usize,
    /// Tick at which the first of them began.
    since: u64,
    passed: u64,
}

impl AwayTime {
    /// Creates the time of work for a clock of this source.
    pub fn new(source: TickSource) -> AwayTime {
        AwayTime { source, passed: Mutex::default() }
    }

    /// Begins work on this thread.
    pub fn begin(&self) {
        let mut time = self.passed.locked_anyway();
        if time.threads == 0 {
            time.since = self.source.now();
        }
        time.threads += 1;
    }

    /// Ends work that was begun.
    pub fn end(&self) {
        let mut time = self.passed.locked_anyway();
        time.threads = time.threads.saturating_sub(1);
        if time.threads == 0 {
            time.passed += self.source.now().saturating_sub(time.since);
        }
    }

    /// Returns the ticks of work that has ended.
    pub(crate) fn ticks(&self) -> u64 {
        self.passed.locked_anyway().passed
    }
}
