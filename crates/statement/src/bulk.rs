//! Large collections of rows and values, which take a while to drop.
//!
//! **Invariant:** a statement that must end does not drop them on its way. They are left over, and the caller drops
//! them after it has answered ([`DeferredDrops`]). Other statements drop what they no longer need at once, so that they
//! hold no more than they must.

use crate::pulse;
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// Number of values that are dropped at once, whatever the state of the statement.
const FEW: usize = 1 << 12;
/// Units of work to drop one value.
const DROPPED: usize = 16;

thread_local! {
    static LEAVINGS: RefCell<Vec<Box<dyn Send>>> = const { RefCell::new(Vec::new()) };
}

/// A vector of many values.
#[derive(Debug)]
pub struct Bulk<T: Send + 'static>(Vec<T>);

/// Rest of a [`Bulk`] whose first values were taken.
pub struct BulkIter<T: Send + 'static>(std::vec::IntoIter<T>);

/// A value of many parts, such as a syntax tree.
#[derive(Debug)]
pub struct LargeValue<T: Send + 'static>(Option<T>);

/// Values that statements have left over. Dropping them may take a while.
#[derive(Default)]
pub struct DeferredDrops(Vec<Box<dyn Send>>);

impl std::fmt::Debug for DeferredDrops {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Leavings({})", self.0.len())
    }
}

impl DeferredDrops {
    /// Takes the leavings of the statements that this thread has run so far.
    pub fn take() -> DeferredDrops {
        DeferredDrops(LEAVINGS.take())
    }

    /// Adds the leavings of others.
    pub fn add(&mut self, mut others: DeferredDrops) {
        self.0.append(&mut others.0);
    }

    /// Returns true if nothing was left over.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Drops the values, or leaves them over if the statement must end and they are many. That may become known on the way.
fn leave<T: Send + 'static>(mut all: Vec<T>) {
    while FEW < all.len() {
        let _ = pulse::walk(FEW * DROPPED);
        if pulse::has_ended() {
            LEAVINGS.with_borrow_mut(|leavings| leavings.push(Box::new(all)));
            return;
        }
        all.truncate(all.len() - FEW);
    }
}

impl<T: Send + 'static> Default for Bulk<T> {
    fn default() -> Bulk<T> {
        Bulk::new()
    }
}

impl<T: Send + 'static> Bulk<T> {
    /// Creates an empty vector.
    pub const fn new() -> Bulk<T> {
        Bulk(Vec::new())
    }

    /// Returns the vector itself, whose owner drops it.
    pub fn into_inner(mut self) -> Vec<T> {
        std::mem::take(&mut self.0)
    }
}

impl<T: Send + 'static> LargeValue<T> {
    /// Takes a value that is dropped later.
    pub fn new(value: T) -> LargeValue<T> {
        LargeValue(Some(value))
    }

    /// Returns the value itself, whose owner drops it.
    pub fn into_inner(mut self) -> Option<T> {
        self.0.take()
    }
}

impl<T: Send + 'static> Deref for LargeValue<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl<T: Send + 'static> Drop for LargeValue<T> {
    fn drop(&mut self) {
        if let Some(value) = self.0.take()
            && pulse::has_ended()
        {
            LEAVINGS.with_borrow_mut(|leavings| leavings.push(Box::new(value)));
        }
    }
}

impl<T: Send + 'static> From<Vec<T>> for Bulk<T> {
    fn from(all: Vec<T>) -> Bulk<T> {
        Bulk(all)
    }
}

impl<T: Send + 'static> Deref for Bulk<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T: Send + 'static> DerefMut for Bulk<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.0
    }
}

impl<T: Send + 'static> Drop for Bulk<T> {
    fn drop(&mut self) {
        leave(std::mem::take(&mut self.0));
    }
}

impl<T: Send + 'static> IntoIterator for Bulk<T> {
    type Item = T;
    type IntoIter = BulkIter<T>;

    fn into_iter(self) -> BulkIter<T> {
        BulkIter(self.into_inner().into_iter())
    }
}

impl<T: Send + 'static> Iterator for BulkIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.next()
    }
}

impl<T: Send + 'static> Drop for BulkIter<T> {
    fn drop(&mut self) {
        leave(std::mem::replace(&mut self.0, Vec::new().into_iter()).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Cancellation;
    use crate::error::{SqlError, SqlResult};
    use std::sync::Arc;

    struct Never;

    impl pulse::Watch for Never {
        fn look(&self) -> SqlResult<()> {
            Err(SqlError::cancelled(Cancellation::UserRequest))
        }
    }

    #[test]
    fn what_must_end_leaves_its_rows_over() {
        let one = Arc::new(());
        let many = || Bulk::from(vec![Arc::clone(&one); 2 * FEW]);
        pulse::restart();
        drop(many());
        assert_eq!((DeferredDrops::take().is_empty(), Arc::strong_count(&one)), (true, 1));
        pulse::during(Arc::new(Never), || {
            assert!(pulse::look().is_err());
            drop(many());
            let mut rest = many().into_iter();
            drop(rest.next());
            drop(rest);
            drop(Bulk::from(vec![Arc::clone(&one)]));
        });
        assert_eq!(Arc::strong_count(&one), 4 * FEW);
        let leavings = DeferredDrops::take();
        assert!(!leavings.is_empty() && DeferredDrops::take().is_empty());
        drop(leavings);
        assert_eq!(Arc::strong_count(&one), 1);
        pulse::restart();
        drop(many());
        assert!(DeferredDrops::take().is_empty());
    }
}
