//! A latch whose waiting is visible to shuttle.

use preempt::NoPreempt;

/// Latch with the interface of `preempt::Latch`.
pub(crate) struct Latch<T>(shuttle::sync::Mutex<T>);

impl<T> Latch<T> {
    pub(crate) fn new(value: T) -> Latch<T> {
        Latch(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().expect("no holder panics")
    }

    pub(crate) fn lock<'a>(&'a self, _no_preempt: &'a NoPreempt) -> shuttle::sync::MutexGuard<'a, T> {
        self.0.lock().expect("no holder panics")
    }

    pub(crate) fn try_lock<'a>(&'a self, _no_preempt: &'a NoPreempt) -> Option<shuttle::sync::MutexGuard<'a, T>> {
        self.0.try_lock().ok()
    }
}
