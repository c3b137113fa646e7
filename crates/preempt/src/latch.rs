//! A latch: short mutual exclusion between threads, held only inside a region.
//!
//! **Invariant:** the holder's context cannot be paused by an urgent context of its own thread, because the guard
//! borrows the [`NoPreempt`] witness; so no context ever waits for one that waits for it. Another *thread* may be
//! descheduled while it holds the latch, and a real-time thread that span for it would keep it so: after a bounded spin
//! a waiter sleeps in the kernel.

use crate::os::now_ns;
use crate::region::{LOCAL, NoPreempt};
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering::*};

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and a waiter may sleep.
const AWAITED: u32 = 2;
const SPINS_MAX: u32 = 200;

/// A value under a latch.
pub struct Latch<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the word admits one holder at a time, so sharing the latch only moves `T` between threads.
unsafe impl<T: Send> Sync for Latch<T> {}

impl<T> Latch<T> {
    /// Creates a free latch.
    pub const fn new(value: T) -> Latch<T> {
        Latch { word: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Acquires the latch, and waits for it if it is held.
    #[inline]
    pub fn lock<'a>(&'a self, no_preempt: &'a NoPreempt) -> LatchGuard<'a, T> {
        if self.word.compare_exchange(FREE, HELD, Acquire, Relaxed).is_err() {
            self.lock_slow();
        }
        LatchGuard { latch: self, _no_preempt: no_preempt }
    }

    /// Acquires the latch if it is free.
    #[inline]
    pub fn try_lock<'a>(&'a self, no_preempt: &'a NoPreempt) -> Option<LatchGuard<'a, T>> {
        let taken = self.word.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok();
        taken.then(|| LatchGuard { latch: self, _no_preempt: no_preempt })
    }

    /// Returns the value without the latch: the exclusive borrow proves that there is no holder.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Consumes the latch and returns its value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    #[cold]
    fn lock_slow(&self) {
        latching(|| self.wait());
    }

    fn wait(&self) {
        for _ in 0..SPINS_MAX {
            core::hint::spin_loop();
            if self.word.load(Relaxed) == FREE && self.word.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok() {
                return;
            }
        }
        // "Three-state mutex" of Drepper, "Futexes Are Tricky" (2011), section 6.
        while self.word.swap(AWAITED, Acquire) != FREE {
            // SAFETY: the word outlives the call; the kernel compares it with AWAITED before sleeping.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    self.word.as_ptr(),
                    libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                    AWAITED,
                    core::ptr::null::<libc::timespec>(),
                )
            };
        }
    }
}

/// Returns the nanoseconds that this thread has waited for latches.
#[inline]
pub fn latched_ns() -> u64 {
    LOCAL.with(|local| local.latched_ns.load(Relaxed))
}

/// Counts the time of a wait for a latch, of this kind or any other.
#[cold]
pub fn latching(wait: impl FnOnce()) {
    let begun_ns = now_ns();
    wait();
    let waited_ns = now_ns().saturating_sub(begun_ns);
    LOCAL.with(|local| local.latched_ns.store(local.latched_ns.load(Relaxed) + waited_ns, Relaxed));
}

/// Guard that holds a latch until it is dropped.
pub struct LatchGuard<'a, T> {
    latch: &'a Latch<T>,
    _no_preempt: &'a NoPreempt,
}

impl<T> Deref for LatchGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard's existence proves that this context holds the latch.
        unsafe { &*self.latch.value.get() }
    }
}

impl<T> DerefMut for LatchGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed exclusively.
        unsafe { &mut *self.latch.value.get() }
    }
}

impl<T> Drop for LatchGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.latch.word.swap(FREE, Release) == AWAITED {
            // SAFETY: wakes one waiter of a word that outlives the call.
            unsafe {
                libc::syscall(libc::SYS_futex, self.latch.word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1)
            };
        }
    }
}
