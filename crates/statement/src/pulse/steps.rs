//! Measurement of the steps of a statement, from one look to the next.

use preempt::os::thread_cpu_ns;
use std::cell::Cell;
use std::time::Duration;

/// Processor time of the last look, and of the longest step so far, in nanoseconds.
#[derive(Clone, Copy)]
struct Measured {
    last_ns: u64,
    longest_ns: u64,
}

thread_local! {
    static MEASURED: Cell<Option<Measured>> = const { Cell::new(None) };
}

/// Calls `f`, and returns the longest processor time in which it did not look whether its statement is still wanted. A
/// cancel waits for so long at most.
pub fn longest<R>(f: impl FnOnce() -> R) -> (R, Duration) {
    MEASURED.set(Some(Measured { last_ns: thread_cpu_ns(), longest_ns: 0 }));
    let made = f();
    look();
    let longest_ns = MEASURED.take().map_or(0, |measured| measured.longest_ns);
    (made, Duration::from_nanos(longest_ns))
}

/// Records a look.
pub(super) fn look() {
    if let Some(Measured { last_ns, longest_ns }) = MEASURED.get() {
        let now_ns = thread_cpu_ns();
        let longest_ns = longest_ns.max(now_ns.saturating_sub(last_ns));
        MEASURED.set(Some(Measured { last_ns: now_ns, longest_ns }));
    }
}
