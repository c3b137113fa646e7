//! Atomics of claiming and queueing: the processor's, or shuttle's when a test explores their interleavings.

#[cfg(not(feature = "shuttle"))]
pub(crate) use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(feature = "shuttle"))]
pub(crate) use preempt::Latch;
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::atomic::{AtomicU64, Ordering};

/// A latch that shuttle's scheduler sees, so that it may switch tasks while one holds it.
#[cfg(feature = "shuttle")]
pub(crate) struct Latch<T>(shuttle::sync::Mutex<T>);

#[cfg(feature = "shuttle")]
impl<T> Latch<T> {
    pub(crate) fn new(value: T) -> Latch<T> {
        Latch(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock<'a>(&'a self, _: &'a preempt::NoPreempt) -> shuttle::sync::MutexGuard<'a, T> {
        self.0.lock().expect("no test panics while it holds a latch")
    }
}
