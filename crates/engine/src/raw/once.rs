//! A box that is filled once and read without a latch, and a box that changes hands.

use core::sync::atomic::{AtomicPtr, Ordering};
use std::ptr::null_mut;

/// Box that is filled at most once, then never changed until it is dropped.
pub(crate) struct OnceBox<T>(AtomicPtr<T>);

impl<T> OnceBox<T> {
    pub(crate) fn new() -> OnceBox<T> {
        OnceBox(AtomicPtr::new(null_mut()))
    }

    /// Returns the content.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: the pointer is null or came from `Box::into_raw` in `set`, is never replaced, and is freed by `drop`
        // alone. Acquire pairs with the release in `set`.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the content, for its owner alone.
    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: as in `get`; and `&mut self` proves that there is no other reference.
        unsafe { self.0.get_mut().as_mut() }
    }

    /// Fills it, or gives `value` back if it was filled before.
    pub(crate) fn set(&self, value: Box<T>) -> Result<&T, Box<T>> {
        let pointer = Box::into_raw(value);
        match self.0.compare_exchange(null_mut(), pointer, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: as in `get`.
            Ok(_) => Ok(unsafe { &*pointer }),
            // SAFETY: the pointer was made two lines above and no other thread got it.
            Err(_) => Err(unsafe { Box::from_raw(pointer) }),
        }
    }

    /// Returns the content, or the result of `make`. Two callers may both make one; one is thrown away. No caller
    /// waits.
    #[inline]
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> T) -> &T {
        match self.get() {
            Some(value) => value,
            None => {
                let _ = self.set(Box::new(make()));
                self.get().expect("it was filled, by us or by another")
            }
        }
    }
}

impl<T> Drop for OnceBox<T> {
    fn drop(&mut self) {
        let pointer = *self.0.get_mut();
        if !pointer.is_null() {
            // SAFETY: it came from `Box::into_raw`, and no reference outlives `self`.
            drop(unsafe { Box::from_raw(pointer) });
        }
    }
}

// SAFETY: it hands out `&T` to any thread that has `&OnceBox<T>` and drops `T` where it is dropped.
unsafe impl<T: Send + Sync> Sync for OnceBox<T> {}
// SAFETY: it owns its `T`.
unsafe impl<T: Send> Send for OnceBox<T> {}

/// A box whose taker owns it, until it is put back. Taking from an empty one returns none; no caller waits. On lines of
/// its own: it is written twice in each transaction.
#[repr(align(128))]
pub(crate) struct Parcel<T>(AtomicPtr<T>);

impl<T> Parcel<T> {
    pub(crate) fn new() -> Parcel<T> {
        Parcel(AtomicPtr::new(null_mut()))
    }

    /// Takes the content.
    #[inline]
    pub(crate) fn take(&self) -> Option<Box<T>> {
        let pointer = self.0.swap(null_mut(), Ordering::Acquire);
        // SAFETY: a pointer in it came from `Box::into_raw` in `put`; the swap made us its only owner.
        (!pointer.is_null()).then(|| unsafe { Box::from_raw(pointer) })
    }

    /// Puts a box in. Returns the former content.
    #[inline]
    pub(crate) fn put(&self, value: Box<T>) -> Option<Box<T>> {
        let pointer = self.0.swap(Box::into_raw(value), Ordering::AcqRel);
        // SAFETY: as in `take`.
        (!pointer.is_null()).then(|| unsafe { Box::from_raw(pointer) })
    }
}

impl<T> Drop for Parcel<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

// SAFETY: a `T` moves through it from thread to thread; `&T` never does.
unsafe impl<T: Send> Sync for Parcel<T> {}
// SAFETY: it owns its `T`.
unsafe impl<T: Send> Send for Parcel<T> {}
