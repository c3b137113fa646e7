//! Turns of a thread: the time between two waits for events, and the processor time that it had meanwhile.
//!
//! A stretch of work that took long by the clock is compared with the processor time of the thread. What is missing is
//! the time in which the thread had no processor. The processor time costs a system call, so it is read only at the
//! end of long stretches, and at the begin of a turn when the last reading has become old.
//!
//! **Invariant:** the time in which a thread waits for events is in no turn, so no more time is said to be lost than
//! was. It may be less: the kernel counts the wait itself, some microseconds for each turn since the last reading.

use crate::ticks::TickSource;
use std::cell::Cell;

/// Shortest stretch of work in nanoseconds that is compared with the processor time of its thread. The comparison costs
/// a quarter of a microsecond, and whoever loses a processor loses it for longer than this.
pub(crate) const LONG_NS: u64 = 50_000;
/// Time in turns, in nanoseconds, after which the processor time is read again.
const OLD_NS: u64 = 200_000;

struct Turn {
    /// True within a turn.
    is_on: Cell<bool>,
    /// Tick of its begin, or of the last reading in it.
    since: Cell<u64>,
    /// Ticks of earlier turns since the last reading.
    busy: Cell<u64>,
    /// Processor time in nanoseconds at the last reading, if there was one.
    cpu_ns: Cell<Option<u64>>,
    stamps: Cell<u32>,
    readings: Cell<u32>,
}

thread_local! {
    // Constant, without a destructor, and not touched in urgent contexts.
    static TURN: Turn = const {
        Turn {
            is_on: Cell::new(false),
            since: Cell::new(0),
            busy: Cell::new(0),
            cpu_ns: Cell::new(None),
            stamps: Cell::new(0),
            readings: Cell::new(0),
        }
    };
}

impl Turn {
    /// Reads the processor time. Returns how much has been used since the last reading.
    fn read(&self, source: &TickSource) -> u64 {
        let now_ns = source.cpu_ns();
        let before_ns = self.cpu_ns.replace(Some(now_ns)).unwrap_or(now_ns);
        self.readings.set(self.readings.get().saturating_add(1));
        self.busy.set(0);
        now_ns.saturating_sub(before_ns)
    }
}

/// Begins a turn of this thread: it has been woken.
pub fn begin(source: &TickSource) {
    if source.is_off() {
        return;
    }
    TURN.with(|turn| {
        if turn.cpu_ns.get().is_none() || source.ticks(OLD_NS) <= turn.busy.get() {
            turn.read(source);
        }
        turn.since.set(source.now());
        turn.stamps.set(turn.stamps.get().saturating_add(1));
        turn.is_on.set(true);
    });
}

/// Ends the turn: the thread is about to wait.
pub fn end(source: &TickSource) {
    TURN.with(|turn| {
        if turn.is_on.replace(false) {
            turn.busy.set(turn.busy.get() + source.now().saturating_sub(turn.since.get()));
            turn.stamps.set(turn.stamps.get().saturating_add(1));
        }
    });
}

/// Turn of a job on a thread that waits for no events. It ends with this value.
#[derive(Debug)]
pub struct JobTurn(TickSource);

impl JobTurn {
    /// Begins the turn.
    pub fn begin(source: TickSource) -> JobTurn {
        TURN.with(|turn| turn.cpu_ns.set(None));
        begin(&source);
        JobTurn(source)
    }
}

impl Drop for JobTurn {
    fn drop(&mut self) {
        end(&self.0);
    }
}

/// Runs a wait of this thread for other threads, which is part of no turn.
pub fn outside<R>(wait: impl FnOnce() -> R) -> R {
    outside_by(&TickSource::system(), wait)
}

/// Runs a wait that is part of no turn by this source.
pub(crate) fn outside_by<R>(source: &TickSource, wait: impl FnOnce() -> R) -> R {
    if !TURN.with(|turn| turn.is_on.get()) {
        return wait();
    }
    end(source);
    let waited = wait();
    begin(source);
    waited
}

/// Returns how many ticks of a stretch of work that ends now the thread was without a processor. Outside of turns that
/// is unknown, and 0.
pub(crate) fn lost(source: &TickSource, now: u64, stretch: u64) -> u64 {
    TURN.with(|turn| {
        if !turn.is_on.get() {
            return 0;
        }
        let busy = turn.busy.get() + now.saturating_sub(turn.since.replace(now));
        let used = source.ticks(turn.read(source));
        busy.saturating_sub(used).min(stretch)
    })
}

/// Takes the numbers of stamps and of readings of the processor time since the last call.
pub(crate) fn take_counts() -> (u32, u32) {
    TURN.with(|turn| (turn.stamps.take(), turn.readings.take()))
}
