//! Directory of tables by their ids, for code that has only the id: write sets, garbage queues, locks.
//!
//! **Invariant:** the lists of tables ([`crate::tables`]) own the tables in here. A table is taken out before it is
//! freed: when nothing but the lock table can name its id any more ([`crate::drops`]); and it is freed when all walks
//! are over that began before it was taken out (see [`super::horizon`]).
//!
//! ```text
//! bucket k holds the ids from 64 * (2^k - 1) on, 64 << k of them; made when the first of them is     (never moved)
//! ```

use super::once::OnceBox;
use super::slots::SnapshotPin;
use crate::schema::table::Table;
use crate::sync::{Acquire, AtomicPtr, SeqCst};
use std::ptr::null_mut;
use std::sync::Arc;

const FIRST_BUCKET: u64 = 64;
/// Number of buckets: enough for all ids of 32 bits.
const BUCKETS: usize = 27;

/// Tables by their ids. Eight bytes for each table that there ever was.
pub(crate) struct Directory([OnceBox<Box<[AtomicPtr<Table>]>>; BUCKETS]);

fn place_of(id: u32) -> (usize, usize) {
    let position = u64::from(id) + FIRST_BUCKET;
    let bucket = position.ilog2() - FIRST_BUCKET.ilog2();
    (bucket as usize, (position - (FIRST_BUCKET << bucket)) as usize)
}

impl Directory {
    pub(crate) fn new() -> Directory {
        Directory(std::array::from_fn(|_| OnceBox::new()))
    }

    /// Puts a table in its place. Its owner takes it out before it goes.
    pub(crate) fn put(&self, id: u32, table: &Arc<Table>) {
        let (bucket, index) = place_of(id);
        let make = || (0..FIRST_BUCKET << bucket).map(|_| AtomicPtr::new(null_mut())).collect();
        self.0[bucket].get_or_make(make)[index].store(Arc::as_ptr(table).cast_mut(), SeqCst);
    }

    /// Takes a table out. The caller ticks the clock for unlinked objects, and keeps the table until the walks have
    /// reached that tick.
    pub(crate) fn take_out(&self, id: u32) {
        let (bucket, index) = place_of(id);
        if let Some(place) = self.0[bucket].get().map(|tables| &tables[index]) {
            place.store(null_mut(), SeqCst);
        }
    }

    /// Returns the table with this id, if it is here. For a caller that walks, as the owner of `_pin` must, or names it
    /// in its write set or its garbage queue, and for as long.
    #[inline]
    pub(crate) fn get<'a>(&'a self, id: u32, _pin: &'a SnapshotPin) -> Option<&'a Table> {
        let (bucket, index) = place_of(id);
        let table = self.0[bucket].get()?[index].load(Acquire);
        // SAFETY: null or of an `Arc` that the engine's lists own; acquire pairs with the store that put it here. It is
        // freed after it was taken out, and then only when every walk is over that began before that: the pin's owner
        // walks, or is why it was not taken out. `&mut` of a table is made by who frees it alone.
        unsafe { table.as_ref() }
    }
}
