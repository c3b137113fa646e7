//! Inserting several rows at once.
//!
//! **Invariant:** for every observer it is one statement: all of the rows, or after an error none of them. It saves the
//! way down each index: keys that follow one another, as those of an order's lines do, go into a leaf together.

use crate::error::Result;
use crate::raw::btree::RUN_MAX;
use crate::row::key;
use crate::row::value::Value;
use crate::schema::entries::NewKey;
use crate::schema::table::Table;
use crate::txn::Txn;
use crate::txn::scratch::Scratch;
use preempt::Region;
use stage::split::RunPart;

impl Txn<'_> {
    /// Inserts rows, as [`Txn::insert`] does one. It is fastest when the rows come in the order of their keys.
    ///
    /// # Errors
    /// Those of [`Txn::insert`]; none of the rows is inserted then.
    pub fn insert_many<'v, R: AsRef<[Value<'v>]>>(&self, table: &Table, rows: &[R]) -> Result<()> {
        self.inner.assert_own(table);
        let _call = self.call();
        let command = self.write_command()?;
        self.announce_change(table)?;
        let mut scratch = self.scratch();
        let before = scratch.writes.len();
        let result = rows.chunks(RUN_MAX).try_for_each(|rows| {
            self.inner.check_room(scratch.writes.len() as u64)?;
            self.insert_run(table, rows, command, &mut scratch)
        });
        if result.is_err() {
            let reads = scratch.reads.mark();
            while before < scratch.writes.len() {
                self.inner.undo_last(self.held(), &mut scratch, self.counters());
            }
            scratch.reads.unbind(&reads);
        }
        result
    }

    fn insert_run<'v, R: AsRef<[Value<'v>]>>(
        &self,
        table: &Table,
        rows: &[R],
        command: u32,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let first = scratch.writes.len();
        for values in rows {
            self.make_row(table, values.as_ref(), command, scratch)?;
        }
        self.counters().writes.set(scratch.writes.len() as u64);
        (0..table.indexes.len()).try_for_each(|position| self.add_keys(table, position, first, scratch))
    }

    /// Adds the entries that the changes from `first` on need in one index.
    fn add_keys(&self, table: &Table, position: usize, first: usize, scratch: &mut Scratch) -> Result<()> {
        let _part = self.part(RunPart::Index);
        let index = &table.indexes[position];
        let Scratch { writes, key, many, other_key, .. } = &mut *scratch;
        let writes = &mut writes[first..];
        many.clear();
        let mut ends = [0; RUN_MAX];
        let mut rows = [0; RUN_MAX];
        let mut nulls = 0_u32;
        for (at, write) in writes.iter().enumerate() {
            let version = write.change.published(self.held().pin()).expect("an insert has published its version");
            nulls |= u32::from(key::of_image(index, table.image(version), key)) << at;
            many.extend_from_slice(key);
            ends[at] = many.len();
            rows[at] = write.row;
        }
        let start = |at: usize| if at == 0 { 0 } else { ends[at - 1] };
        let keys: [&[u8]; RUN_MAX] = core::array::from_fn(|at| many.get(start(at)..ends[at]).unwrap_or(&[]));
        let keys = &keys[..writes.len()];
        let is_run = index.def.unique && nulls == 0 && keys.is_sorted();
        let mut done = 0;
        while done < keys.len() {
            if is_run {
                // A holder of the key, as far as the index says, is examined by the way of a single entry below.
                let inserted = index.tree.insert_unique_run(
                    &keys[done..],
                    &rows[done..keys.len()],
                    &Region::enter(),
                    &mut |_, _| true,
                );
                let added = inserted.map_or_else(|occupied| occupied.at, |()| keys.len() - done);
                writes[done..done + added].iter_mut().for_each(|write| write.keys_added |= 1 << position);
                done += added;
                if done == keys.len() {
                    break;
                }
            }
            let has_null = nulls & (1 << done) != 0;
            let new = NewKey { table, position, key: keys[done], has_null, row: rows[done] };
            match self.add_entry(&new, other_key) {
                Ok(is_new) => writes[done].keys_added |= u64::from(is_new) << position,
                Err(error) => {
                    let key = keys[done].to_vec();
                    return Err(self.note_refusal(error, table, position, &key, scratch));
                }
            }
            done += 1;
        }
        Ok(())
    }
}
