//! Batches of look-ups whose waits for memory overlap.
//!
//! **Invariant:** each look-up has the result that it would have alone. They go through the same places together: all
//! of them one level down the indexes before any goes two, then all row map entries, then all versions, each asked for
//! before it is needed. On TPC-C's tables a look-up alone waits six to ten times, one wait after the other, and 30
//! together wait hardly longer.

use crate::error::Result;
use crate::raw::btree::{MANY, first_many};
use crate::raw::chain::View;
use crate::raw::version::RowCell;
use crate::row::Row;
use crate::row::key;
use crate::row::value::Value;
use crate::schema::table::Table;
use crate::txn::Txn;
use crate::txn::read::note_key;
use crate::txn::scratch::Scratch;
use stage::split::RunPart;

/// A look-up of [`Txn::get_each`]: the row with this key in a unique index, all columns given.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'t, 'k> {
    /// Table to look in.
    pub table: &'t Table,
    /// Position of the index among the table's.
    pub index: usize,
    /// Key: a value for each column of the index.
    pub key: &'k [Value<'k>],
}

impl Txn<'_> {
    /// Looks up each row as [`Txn::get`] does, in order, into `rows`, which is cleared first, and empty after an error.
    /// The look-ups share their waiting for memory: where rows are spread over more of it than the caches hold, this
    /// takes a fraction of the time.
    ///
    /// # Errors
    /// As [`Txn::get`].
    ///
    /// # Panics
    /// As [`Txn::get`].
    pub fn get_each<'t>(&'t self, lookups: &[Lookup<'t, '_>], rows: &mut Vec<Option<Row<'t>>>) -> Result<()> {
        lookups.iter().for_each(|lookup| self.inner.assert_own(lookup.table));
        let view = self.view()?;
        let mut scratch = self.scratch();
        rows.clear();
        let result = lookups.chunks(MANY).try_for_each(|lookups| self.get_together(lookups, view, &mut scratch, rows));
        result.inspect_err(|_| rows.clear())
    }

    /// Looks up several keys of one index as [`Txn::get_each`] does.
    ///
    /// # Errors
    /// As [`Txn::get`].
    ///
    /// # Panics
    /// As [`Txn::get`].
    pub fn get_many<'t, const N: usize>(
        &'t self,
        table: &'t Table,
        index: usize,
        keys: &[[Value<'_>; N]],
        rows: &mut Vec<Option<Row<'t>>>,
    ) -> Result<()> {
        self.inner.assert_own(table);
        let view = self.view()?;
        let mut scratch = self.scratch();
        rows.clear();
        let result = keys.chunks(MANY).try_for_each(|keys| {
            let mut lookups = [Lookup { table, index, key: &[] }; MANY];
            keys.iter().zip(&mut lookups).for_each(|(key, lookup)| lookup.key = key);
            self.get_together(&lookups[..keys.len()], view, &mut scratch, rows)
        });
        result.inspect_err(|_| rows.clear())
    }

    /// Asks for the memory that look-ups of these keys will need, so that those that follow wait less. Nothing is read:
    /// a row that is looked up afterwards may be another one.
    ///
    /// # Errors
    /// [`crate::Error::InvalidValue`] if a key does not fit its index, [`crate::Error::Taken`].
    ///
    /// # Panics
    /// As [`Txn::get`].
    pub fn prefetch<'t>(&'t self, lookups: &[Lookup<'t, '_>]) -> Result<()> {
        lookups.iter().for_each(|lookup| self.inner.assert_own(lookup.table));
        self.check_active()?;
        let mut scratch = self.scratch();
        let Scratch { key: one, many: all, .. } = &mut *scratch;
        let (mut ends, mut firsts) = ([0; MANY], [None; MANY]);
        lookups.chunks(MANY).try_for_each(|lookups| self.locate(lookups, (one, all), &mut ends, &mut firsts))
    }

    /// Finds the rows that the indexes name first for the keys of one round, at most [`MANY`], and asks for the memory
    /// of their newest versions. Puts the keys into `all`, one behind the other, and their ends into `ends`.
    #[inline]
    fn locate<'t>(
        &'t self,
        lookups: &[Lookup<'t, '_>],
        (one, all): (&mut Vec<u8>, &mut Vec<u8>),
        ends: &mut [usize; MANY],
        firsts: &mut [Option<u64>; MANY],
    ) -> Result<()> {
        all.clear();
        for (lookup, end) in lookups.iter().zip(&mut *ends) {
            key::of_all_values(lookup.table, &lookup.table.indexes[lookup.index], lookup.key, one)?;
            all.extend_from_slice(one);
            *end = all.len();
        }
        let Some(first) = lookups.first() else { return Ok(()) };
        let mut searches = [(&first.table.indexes[first.index].tree, &[][..]); MANY];
        for (at, (lookup, search)) in lookups.iter().zip(&mut searches).enumerate() {
            *search = (&lookup.table.indexes[lookup.index].tree, key_of(all, ends, at));
        }
        let firsts = &mut firsts[..lookups.len()];
        let part = self.part(RunPart::Index);
        first_many(&searches[..lookups.len()], firsts);
        drop(part);
        let cells = || {
            let hot = |(lookup, row): (&Lookup<'t, '_>, &Option<u64>)| {
                Some((lookup.table, lookup.table.rows.hot_cell((*row)?, self.held().pin())?))
            };
            lookups.iter().zip(&*firsts).filter_map(hot)
        };
        // Each round asks for the memory of all rows before the next one needs it.
        cells().for_each(|(_, cell)| RowCell::prefetch(cell));
        cells().for_each(|(table, cell)| cell.prefetch_newest(table.image_bytes()));
        Ok(())
    }

    /// Does the look-ups of one round, at most [`MANY`].
    fn get_together<'t>(
        &'t self,
        lookups: &[Lookup<'t, '_>],
        view: View,
        scratch: &mut Scratch,
        rows: &mut Vec<Option<Row<'t>>>,
    ) -> Result<()> {
        let Scratch { key: one, many: all, other_key: buffer, reads, .. } = scratch;
        let (mut ends, mut firsts) = ([0; MANY], [None; MANY]);
        self.locate(lookups, (one, all), &mut ends, &mut firsts)?;
        let is_serial = self.held().logs_reads();
        for (at, (lookup, first)) in lookups.iter().zip(firsts).enumerate() {
            let Lookup { table, index: position, key: values } = *lookup;
            let (index, key) = (&table.indexes[position], key_of(all, &ends, at));
            let found = first.and_then(|first| self.first_visible(table, index, first, key, buffer, view));
            if is_serial {
                note_key(reads, table, position, values, key, found);
            }
            rows.push(found);
        }
        Ok(())
    }
}

/// Returns the key of a look-up, of those that lie one behind the other.
fn key_of<'k>(all: &'k [u8], ends: &[usize; MANY], at: usize) -> &'k [u8] {
    &all[if at == 0 { 0 } else { ends[at - 1] }..ends[at]]
}
