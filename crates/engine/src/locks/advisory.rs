//! Advisory locks that a session holds beyond its transactions.

use super::key::Advisory;
use super::mode::Mode;
use crate::sync::Latch;
use preempt::Region;
use std::collections::BTreeMap;

/// Advisory locks of a session that outlive its transactions, with the number of times that it holds each.
///
/// The map is a tree: an application may lock millions of numbers, and no step under the latch is to grow with them.
pub(crate) struct Advisories(Latch<BTreeMap<(Advisory, Mode), u32>>);

impl Default for Advisories {
    fn default() -> Advisories {
        Advisories(Latch::new(BTreeMap::new()))
    }
}

impl Advisories {
    pub(crate) fn add(&self, lock: Advisory, mode: Mode) {
        let region = Region::enter();
        *self.0.lock(&region).entry((lock, mode)).or_default() += 1;
    }

    /// Counts one down. Returns none if it is not held; else whether that was the last.
    pub(crate) fn take(&self, lock: Advisory, mode: Mode) -> Option<bool> {
        let region = Region::enter();
        let mut all = self.0.lock(&region);
        let count = all.get_mut(&(lock, mode))?;
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            all.remove(&(lock, mode));
        }
        Some(is_last)
    }

    pub(crate) fn take_all(&self) -> BTreeMap<(Advisory, Mode), u32> {
        let region = Region::enter();
        core::mem::take(&mut *self.0.lock(&region))
    }
}
