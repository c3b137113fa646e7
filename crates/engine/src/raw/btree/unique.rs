//! Inserting under the uniqueness rule, one entry or a run of them.
//!
//! **Invariant:** the inserter of a key holds the lock of the leaf where the key with row 0 belongs, while `check`
//! looks at the rows that have it and until the entry is in. So of two at the same time the second sees the first's
//! row.
//!
//! A run is inserted leaf by leaf: one way down the tree and one lock serve all of its keys that belong to the same leaf,
//! as those of an order's lines do.

use super::epoch::{self, EpochPin};
use super::key::Probe;
use super::key::ROW_END;
use super::version::Restart;
use super::{BTree, Backoff, Inserted, LockedLeaf};
use preempt::NoPreempt;

/// Largest number of entries that are inserted under one lock: the region stays short.
pub(crate) const RUN_MAX: usize = 16;

/// Error: a key of a run is held by another row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Occupied {
    /// Index of the key. Those before it were inserted.
    pub(crate) at: usize,
    /// Row that has the key.
    pub(crate) row: u64,
}

/// Entries to insert, and the progress.
struct InsertRun<'a> {
    keys: &'a [&'a [u8]],
    rows: &'a [u64],
    done: usize,
    check: &'a mut dyn FnMut(usize, u64) -> bool,
}

impl BTree {
    /// Adds an entry unless a row with the same key counts as present by `check`; then that row is the error.
    ///
    /// `check` is asked, in order, for each row that has the key; it must be short, must not use the tree, and runs under
    /// the latch that every other `insert_unique` of this key needs. (Plain `insert`s of the same key are not kept away.)
    #[inline]
    pub(crate) fn insert_unique(
        &self,
        key: &[u8],
        row: u64,
        no_preempt: &NoPreempt,
        check: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), u64> {
        let inserted = self.insert_unique_run(&[key], &[row], no_preempt, &mut |_, other| check(other));
        inserted.map_err(|occupied| occupied.row)
    }

    /// Adds several entries as [`insert_unique`](Self::insert_unique) does, for keys in ascending order, each with its
    /// row, at most [`RUN_MAX`]. `check` also gets the index of the key it is asked for.
    pub(crate) fn insert_unique_run(
        &self,
        keys: &[&[u8]],
        rows: &[u64],
        no_preempt: &NoPreempt,
        check: &mut dyn FnMut(usize, u64) -> bool,
    ) -> Result<(), Occupied> {
        assert!(keys.len() == rows.len() && keys.len() <= RUN_MAX);
        debug_assert!(keys.is_sorted() && rows.iter().all(|row| *row < ROW_END));
        let pin = epoch::pin();
        let mut backoff = Backoff::new();
        let mut run = InsertRun { keys, rows, done: 0, check };
        while run.done < keys.len() {
            match self.try_insert_unique(&mut run, &pin, no_preempt) {
                Ok(result) => result?,
                Err(Restart) => backoff.wait(),
            }
        }
        Ok(())
    }

    /// Inserts the entries of the run that belong to one leaf.
    ///
    /// If a key's rows reach into leaves further right, this is the one place that waits for a lock while it holds one.
    /// No other does, and here the leaf waited for is always right of the leaf held, so no cycle can close.
    fn try_insert_unique(
        &self,
        run: &mut InsertRun<'_>,
        pin: &EpochPin,
        no_preempt: &NoPreempt,
    ) -> Result<Result<(), Occupied>, Restart> {
        let mut start = Probe::new(run.keys[run.done], 0);
        let (leaf, version, fence) = self.descend_fenced(&start, pin)?;
        leaf.lock.upgrade(version)?;
        let mut held = LockedLeaf::new(leaf);
        loop {
            let probe = start.with_row(run.rows[run.done]);
            let mut at = leaf.rank(&start);
            while at < leaf.count() && leaf.has_key(at, &probe) {
                let row = leaf.row(at);
                if (run.check)(run.done, row) {
                    return Ok(Err(Occupied { at: run.done, row }));
                }
                at += 1;
            }
            // SAFETY: the fence was loaded under this pin.
            if let Some(fence) = fence.filter(|fence| unsafe { fence.compare_key(&probe) }.is_eq()) {
                // The key's rows from `fence.row` on are in the leaves to the right, and cannot become more while we hold
                // this one.
                let key = run.keys[run.done];
                let mut further = self.rows_from(key, fence.row);
                while let Some((_, row)) = further.next() {
                    if (run.check)(run.done, row) {
                        return Ok(Err(Occupied { at: run.done, row }));
                    }
                }
                if fence.row <= probe.row {
                    self.insert(key, probe.row, no_preempt);
                    run.done += 1;
                    return Ok(Ok(()));
                }
            }
            match self.insert_locked(leaf, &probe, pin) {
                Inserted::Added => held.changed = true,
                Inserted::Present => {}
                Inserted::Full => {
                    drop(held);
                    self.make_room(&probe, pin, no_preempt)?;
                    return Ok(Ok(())); // The run goes on where it was.
                }
            }
            run.done += 1;
            let Some(key) = run.keys.get(run.done) else { return Ok(Ok(())) };
            start = Probe::new(key, 0);
            // SAFETY: the fence was loaded under this pin.
            if fence.is_some_and(|fence| unsafe { fence.compare(&start) }.is_le()) {
                return Ok(Ok(())); // It belongs further right.
            }
        }
    }
}
