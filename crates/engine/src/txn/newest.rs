//! Operations beyond a statement's snapshot: reads that do not see the statement's own changes, and the row that has a
//! key now.
//!
//! **Invariant:** above READ COMMITTED nothing here returns a row that the snapshot does not see: a caller that asks
//! for the newest rows looks at them while the call lasts.

use crate::error::Result;
use crate::locks::{RowLock, Wait};
use crate::raw::chain::View;
use crate::raw::slots::{COMMANDS_MAX, LATEST};
use crate::row::key;
use crate::row::value::Value;
use crate::row::{Row, RowId};
use crate::schema::table::Table;
use crate::txn::Txn;
use crate::txn::read::{Direction, note_key};
use crate::txn::scratch::Scratch;

/// Rows between two checks whether the transaction is still wanted.
const ROWS_PER_LOOK: u64 = 1024;

/// Guard that ends the view of the newest rows, also when the caller's closure panics.
struct NewestGuard<'t, 'e>(&'t Txn<'e>);

impl Drop for NewestGuard<'_, '_> {
    fn drop(&mut self) {
        let NewestGuard(txn) = self;
        txn.sees_newest.set(false);
        if txn.held().logs_reads()
            && let Ok(mut scratch) = txn.try_scratch()
        {
            scratch.reads.beyond_until(txn.inner.registry.now());
        }
    }
}

impl Txn<'_> {
    /// Announces that the transaction writes to the table, as each write does: a holder of a lock against writers is
    /// waited for, and from now on waits. Costs next to nothing while no transaction locks tables.
    ///
    /// # Errors
    /// [`crate::Error::MustWait`], [`crate::Error::WriteConflict`] without a session; [`crate::Error::ReadOnly`].
    #[inline]
    pub fn announce(&self, table: &Table) -> Result<()> {
        self.inner.assert_own(table);
        let _call = self.call();
        self.check_active()?;
        self.check_writable()?;
        self.announce_write(table)
    }

    /// Fixes the view of all reads from now on: they see the work of the commands before, and nothing that is written
    /// from now on. Until [`Txn::release_command`], or the end of the statement.
    ///
    /// # Errors
    /// [`crate::Error::Taken`], [`crate::Error::Cancelled`], [`crate::Error::Limit`].
    #[inline]
    pub fn hold_command(&self) -> Result<()> {
        self.view()?;
        self.command_held.set(true);
        Ok(())
    }

    /// Ends [`Txn::hold_command`]: the next read sees the writes since then.
    #[inline]
    pub fn release_command(&self) {
        self.command_held.set(false);
    }

    /// Returns the row that has this key in an index, all columns given, as it is now: at READ COMMITTED the newest
    /// committed state, whatever the snapshot sees; all of the transaction's own changes included. Uncommitted changes
    /// of other transactions do not count.
    ///
    /// # Errors
    /// [`crate::Error::InvalidValue`] if the key does not fit the index; above READ COMMITTED
    /// [`crate::Error::WriteConflict`] if the snapshot does not see the row.
    ///
    /// # Panics
    /// As [`Txn::get`].
    pub fn newest<'t>(&'t self, table: &'t Table, index: usize, values: &[Value<'_>]) -> Result<Option<Row<'t>>> {
        self.inner.assert_own(table);
        let _call = self.call();
        self.view()?;
        let held = self.held();
        let own = View { snapshot: held.snapshot(), owner: held.word(0), command: COMMANDS_MAX + 1 };
        let (found, seen) = {
            let position = index;
            let index = &table.indexes[position];
            let mut scratch = self.scratch();
            let scratch = &mut *scratch;
            key::of_all_values(table, index, values, &mut scratch.key)?;
            let Scratch { key, other_key, reads, .. } = scratch;
            let first = index.tree.first(key);
            let mut see = |view| self.first_visible(table, index, first?, key, other_key, view);
            let mut seen = None;
            let found = if first.is_some() {
                self.goes_beyond();
                see(View { snapshot: LATEST, ..own })
            } else {
                None
            };
            if found.is_none() && !self.reads_latest() {
                seen = see(own);
            }
            if held.logs_reads() {
                note_key(reads, table, position, values, key, found);
            }
            (found, seen)
        };
        match found {
            Some(row) if !self.reads_latest() => match self.now_and_seen(table, row.row_id().0, own) {
                (Some(now), Some(seen)) if seen.is_same_version(&now) => Ok(Some(now)),
                _ => Err(self.row_conflict(table, row.row_id(), false)),
            },
            None => match seen {
                // The row was deleted after the snapshot.
                Some(seen) => Err(self.row_conflict(table, seen.row_id(), false)),
                None => Ok(None),
            },
            found => Ok(found),
        }
    }

    /// Calls `each`, until it has enough, with the rows whose key in an index begins with these values, or else with
    /// all rows, as they are now: the newest committed state, whatever the snapshot sees, and the work of earlier
    /// commands of this transaction. It must not write.
    ///
    /// # Errors
    /// Those of [`Txn::range`].
    pub fn each_newest(
        &self,
        table: &Table,
        by: Option<(usize, &[Value<'_>])>,
        each: &mut dyn FnMut(&Row<'_>) -> bool,
    ) -> Result<()> {
        // The walk lasts as long as the rows are looked at.
        let _call = self.call();
        // The writes of the commands before are to be seen.
        self.view()?;
        if self.held().logs_reads() {
            self.note_beyond(table, by)?;
        }
        self.sees_newest.set(true);
        let _newest = NewestGuard(self);
        match by {
            Some((index, prefix)) => {
                for row in self.range(table, index, prefix, Direction::Forward)? {
                    if !each(&row) {
                        break;
                    }
                }
                Ok(())
            }
            None => {
                let mut goes_on = true;
                self.scan(table, &[], |row| goes_on = goes_on && each(&row))
            }
        }
    }

    /// Returns true if the snapshot sees all rows of the table as they are now: no other transaction has committed a
    /// change of one since. For a transaction that has locked the table against writers.
    ///
    /// # Errors
    /// [`crate::Error::Taken`], [`crate::Error::Cancelled`].
    pub fn is_unchanged(&self, table: &Table) -> Result<bool> {
        self.inner.assert_own(table);
        let _call = self.call();
        let view = self.view()?;
        for row in 0..table.rows_bound() {
            if row.is_multiple_of(ROWS_PER_LOOK) {
                preempt::safepoint();
                self.check_active()?;
            }
            let is_same = match self.now_and_seen(table, row, view) {
                (Some(now), Some(seen)) => seen.is_same_version(&now),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
            if !is_same {
                self.note_row(table, RowId(row));
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Locks a row, and returns true if it is there and `is_wanted` accepts it as it is now: the newest committed
    /// state, or this transaction's own, whatever the snapshot sees. So it is no conflict that the snapshot does not
    /// see it.
    ///
    /// # Errors
    /// Those of [`Txn::lock_row`].
    pub fn lock_newest(
        &self,
        table: &Table,
        row: RowId,
        mode: RowLock,
        is_wanted: &mut dyn FnMut(&Row<'_>) -> bool,
    ) -> Result<bool> {
        let _call = self.call();
        let before = self.lock_place(table, row, mode, Wait::Block)?;
        let newest = self.newest_row(table, row.0);
        if self.held().logs_reads() {
            self.scratch().reads.newest_row(table.id, row.0, self.inner.registry.now());
        }
        match (newest, before) {
            (Some(newest), _) => Ok(is_wanted(&newest)),
            (None, None) => Ok(false),
            (None, Some(before)) => {
                // There is nothing to lock.
                self.locks_undone(&mut self.scratch(), before, self.tables.get());
                Ok(false)
            }
        }
    }

    /// Records a read of the newest rows: a change of one of them after the snapshot may have been seen.
    #[cold]
    fn note_beyond(&self, table: &Table, by: Option<(usize, &[Value<'_>])>) -> Result<()> {
        let mut scratch = self.scratch();
        let Scratch { key, other_key, reads, .. } = &mut *scratch;
        match by {
            None => reads.newest_rows(table.id),
            Some((index, prefix)) => {
                key::of_values(table, &table.indexes[index], prefix, key)?;
                other_key.clone_from(key);
                let high = key::pass_prefix(other_key).then_some(&other_key[..]);
                reads.newest_range(table.id, index, key, high);
            }
        }
        Ok(())
    }
}
