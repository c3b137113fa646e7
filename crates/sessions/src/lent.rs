//! A value temporarily moved to another thread.
//!
//! **Invariant:** the value is here whenever it is accessed. The lender waits until it is back, and a session whose
//! SQL session did not come back, because it panicked, ends without accessing it.

use std::ops::{Deref, DerefMut};

/// A value that is either here or lent.
pub(crate) struct Lent<T>(Option<T>);

impl<T> Lent<T> {
    pub(crate) fn new(value: T) -> Lent<T> {
        Lent(Some(value))
    }

    pub(crate) fn lend(&mut self) -> Option<T> {
        self.0.take()
    }

    /// Takes the value, to be kept in another place.
    pub(crate) fn take(&mut self) -> Lent<T> {
        Lent(self.0.take())
    }

    pub(crate) fn give_back(&mut self, value: T) {
        self.0 = Some(value);
    }
}

impl<T> Deref for Lent<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("what is lent is not looked at")
    }
}

impl<T> DerefMut for Lent<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("what is lent is not looked at")
    }
}
