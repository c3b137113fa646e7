//! Calls of a transaction, as far as the garbage is concerned: the times at which it may stand on a version that it
//! does not see.
//!
//! **Invariant:** while a call is under way the transaction *walks* (see `raw::horizon`). Between two calls it holds
//! references only to versions that its snapshot sees, to those that it has made, and to those that it has claimed. Its
//! snapshot keeps the first, no other thread frees the second, and the third began at or before the snapshot and did
//! not end before it: then the snapshot keeps them too, whichever transaction takes the row. At READ COMMITTED a row
//! may be claimed, or read, whose newest version began *after* the snapshot; the transaction is *beyond* it then, and
//! walks on until its snapshot has been taken anew.
//!
//! A transaction that runs as a whole walks from its beginning to its end, which costs nothing; one whose caller holds
//! it, and may take any time, rests between its calls.

use crate::raw::version::Version;
use crate::txn::Txn;
use core::cell::Cell;

/// Calls that count as one walk, with the time between them, in a transaction that runs as a whole.
const CALLS_MAX: u32 = 1024;

/// Counters of the calls so far.
pub(crate) struct Calls {
    /// Number of calls that are under way: the reads of an update's closure nest.
    open: Cell<u32>,
    /// Number of calls that may still be made as one walk.
    left: Cell<u32>,
    /// True if it may refer to a version that began after its snapshot.
    beyond: Cell<bool>,
}

impl Calls {
    pub(crate) fn new() -> Calls {
        Calls { open: Cell::new(0), left: Cell::new(CALLS_MAX), beyond: Cell::new(false) }
    }
}

/// A call that is under way.
pub(crate) struct Call<'t, 'e>(&'t Txn<'e>);

impl Drop for Call<'_, '_> {
    #[inline]
    fn drop(&mut self) {
        let calls = &self.0.calls;
        calls.open.set(calls.open.get() - 1);
        if calls.open.get() != 0 {
            return;
        }
        let left = calls.left.get().saturating_sub(1);
        calls.left.set(left);
        if left == 0 && !calls.beyond.get() {
            self.0.held().end_walk();
        }
    }
}

impl<'e> Txn<'e> {
    /// Begins a call that follows rows' chains of versions.
    #[inline]
    pub(crate) fn call(&self) -> Call<'_, 'e> {
        let calls = &self.calls;
        if calls.open.get() == 0 && calls.left.get() == 0 {
            self.held().walk();
        }
        calls.open.set(calls.open.get() + 1);
        Call(self)
    }

    /// Makes the transaction rest between its calls from now on.
    pub(crate) fn rest_between_calls(&self) {
        self.inner.orphans.leave(&mut self.scratch().graveyard);
        self.calls.left.set(0);
        self.held().end_walk();
    }

    /// Makes the end of the transaction a call.
    #[inline]
    pub(crate) fn walk_to_the_end(&self) {
        if self.calls.left.get() == 0 {
            self.held().walk();
        }
    }

    /// Notes that it may refer to a version that its snapshot does not see. Only at READ COMMITTED: the other levels
    /// keep their snapshot, and to them such a version is a conflict, which they do not stay with.
    #[inline]
    pub(crate) fn goes_beyond(&self) {
        if self.reads_latest() {
            self.calls.beyond.set(true);
        }
    }

    /// Notes that it may refer to a version that its snapshot does not see, if the version that it has claimed began
    /// after its snapshot.
    #[inline]
    pub(crate) fn claims(&self, base: &Version) {
        if self.reads_latest() && self.held().is_before(base) {
            self.goes_beyond();
        }
    }

    /// Notes that the statement was undone, and will be submitted again with its snapshot: it refers to nothing beyond
    /// that.
    pub(crate) fn goes_back(&self) {
        self.calls.beyond.set(false);
    }

    /// Ends the calls of a statement: there are no references but those of the write set. If one of those is beyond the
    /// snapshot, the snapshot is taken anew. (The next statement does that anyway.) If another has taken the
    /// transaction, it walks on until it has undone its work.
    pub(crate) fn end_calls(&mut self) {
        self.inner.orphans.leave(&mut self.scratch().graveyard);
        let is_kept = !self.calls.beyond.get() || self.held().refresh(false);
        if is_kept {
            self.held().end_walk();
        }
    }
}
