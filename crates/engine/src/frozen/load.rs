//! Bulk load: Arrow columns become frozen blocks.
//!
//! **Invariant:** all rows of one load appear at once. Its blocks carry a transaction's word until its status decides,
//! like any version; a load that no one else can see yet ([`Engine::load_unseen`]) is stamped at its end without one. A
//! load that fails leaves blocks that no transaction will ever see, and no index entries. (No redo record is written:
//! blocks will reach the disk by a checkpoint of their own, not through the log.)

use crate::engine::{Engine, Inner};
use crate::error::{Error, InvalidValue, Limit, Result};
use crate::frozen::arrow;
use crate::frozen::block::{BLOCK_ROWS_MAX, Block};

use crate::raw::live::Role;
use crate::raw::slots::{HeldSlot, NEVER};
use crate::row::key;
use crate::row::layout::IMAGE_BYTES_MAX;
use crate::row::value::Type;
use crate::schema::entries::{self, Added, NewKey};
use crate::schema::table::Table;
use crate::sync::Release;
use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use arrow_array::{Array, ArrayRef, RecordBatch, StringViewArray};
use arrow_schema::DataType;
use preempt::Region;
use stage::Class;
use std::sync::Arc;

impl Engine {
    /// Loads `batches` as frozen rows, all visible at once. Columns have the types of [`Table::schema`]; `Utf8` is
    /// taken for `Utf8View`. Returns the number of rows.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if a column has another type, nulls where none may be, or a decimal of too many digits,
    /// or a row that is too wide; [`Error::UniqueViolation`]; [`Error::Limit`] of memory; [`Error::WriteConflict`] if a
    /// key depends on a transaction that is undecided, or another has locked the table against writers;
    /// [`Error::Taken`] if a more important transaction wanted one of the keys and would not wait. None of the rows is
    /// loaded then.
    pub fn bulk_load(&self, table: &Table, batches: impl IntoIterator<Item = RecordBatch>) -> Result<u64> {
        let mut load = self.begin_load(table)?;
        load.announce()?;
        load.rest();
        batches.into_iter().try_for_each(|batch| load.add(&batch))?;
        load.commit()?;
        Ok(load.rows_count)
    }

    /// Loads rows that were always there, otherwise as [`Engine::bulk_load`]: every snapshot sees them, older ones too,
    /// and so does a transaction at REPEATABLE READ or SERIALIZABLE that began before the load. This is for a caller
    /// that rebuilds a table, as ALTER TABLE may have to.
    ///
    /// Only the caller may have used the table, or can use it before this returns: it was just created, and is known to
    /// no other session. So the load asks for no lock and minds none, is checked against no reads of others, and waits
    /// for no transaction. If that is not so, a reader of the table finds rows in a snapshot that were not there
    /// before.
    ///
    /// # Errors
    /// Those of [`Engine::bulk_load`] but for locks and [`Error::Taken`]. None of the rows is loaded then.
    pub fn load_unseen(&self, table: &Table, batches: impl IntoIterator<Item = RecordBatch>) -> Result<u64> {
        let mut load = self.begin_load(table)?;
        load.rest();
        batches.into_iter().try_for_each(|batch| load.add(&batch))?;
        load.settle();
        Ok(load.rows_count)
    }

    fn begin_load<'a>(&'a self, table: &'a Table) -> Result<Load<'a>> {
        self.inner.assert_own(table);
        let held = self.inner.registry.begin(Class::Low, None, Role::None).ok_or(Error::Limit(Limit::Transactions))?;
        Ok(Load { inner: &self.inner, table, held: Some(held), blocks: Vec::new(), rows_count: 0 })
    }
}

/// Timestamp of rows that every snapshot sees: the clock begins above it.
const ALWAYS: u64 = 0;

/// A load that is under way. Dropped before its commit, by an error or by a panic of the batches' source, it leaves
/// nothing.
struct Load<'a> {
    inner: &'a Inner,
    table: &'a Table,
    /// Transaction slot, given up by the end of the load.
    held: Option<HeldSlot<'a>>,
    blocks: Vec<Arc<Block>>,
    rows_count: u64,
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        let Some(held) = self.held.take() else { return };
        held.abort();
        self.blocks.iter().for_each(|block| forget(self.table, block));
        self.stamp(NEVER);
        held.walk();
        self.inner.load_released(&held);
        held.release();
    }
}

impl Load<'_> {
    fn announce(&self) -> Result<()> {
        self.held.as_ref().map_or(Ok(()), |held| self.inner.announce_load(held, self.table))
    }

    /// Lets others go first: the source of the batches may take long.
    fn rest(&self) {
        if let Some(held) = &self.held {
            held.end_walk();
        }
    }

    /// Commits the load. Fails if a transaction that wants one of its keys has taken it; dropping the load then leaves
    /// nothing.
    fn commit(&mut self) -> Result<()> {
        let Some(held) = &self.held else { return Ok(()) };
        let timestamp = held.commit().ok_or(Error::Taken)?;
        let Some(held) = self.held.take() else { return Ok(()) };
        self.stamp(timestamp);
        self.inner.counters[held.index()].rows_made.add(self.rows_count);
        held.walk();
        self.inner.load_released(&held);
        held.release();
        Ok(())
    }

    /// Ends a load whose rows were always there. No word of it is left, so it needs no decision.
    fn settle(&mut self) {
        let Some(held) = self.held.take() else { return };
        self.stamp(ALWAYS);
        self.inner.counters[held.index()].rows_made.add(self.rows_count);
        held.abort();
        held.release();
    }

    fn stamp(&self, since: u64) {
        self.blocks.iter().for_each(|block| block.since.store(since, Release));
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let Some(held) = &self.held else { return Ok(()) };
        let columns = fit(self.table, batch)?;
        for start in (0..batch.num_rows()).step_by(BLOCK_ROWS_MAX) {
            self.inner.check_room_again(u64::MAX)?;
            if !held.is_active() {
                return Err(Error::Taken);
            }
            let rows_count = BLOCK_ROWS_MAX.min(batch.num_rows() - start);
            let first_row = self.table.rows.allocate_chunks(rows_count);
            let kinds = self.table.columns().iter().map(|column| column.kind).collect();
            let columns = columns.iter().map(|column| column.slice(start, rows_count)).collect();
            let totals = [&self.inner.blocks, &self.table.blocks];
            let block = Arc::new(Block::new(first_row, rows_count, None, held.word(0), kinds, columns, totals));
            self.table.rows.install(&block);
            self.blocks.push(block.clone());
            self.rows_count += rows_count as u64;
            held.walk();
            let added = self.add_keys(&block, held);
            held.end_walk();
            added?;
        }
        Ok(())
    }

    fn add_keys(&self, block: &Block, held: &HeldSlot<'_>) -> Result<()> {
        let counters = &self.inner.counters[held.index()];
        let (mut key, mut buffer) = (Vec::new(), Vec::new());
        for (position, index) in self.table.indexes.iter().enumerate() {
            for at in 0..block.rows_count {
                let has_null = key::of_block(self.table, index, block, at, &mut key);
                let row = block.first_row + at as u64;
                let new = NewKey { table: self.table, position, key: &key, has_null, row };
                let name = || self.table.name().to_owned();
                match entries::add(&new, held, &mut buffer) {
                    Added::New | Added::Present => {}
                    Added::Taken => {
                        counters.unique_violations.add(1);
                        return Err(Error::UniqueViolation { table: name(), index: index.def.name.clone() });
                    }
                    Added::Undecided(_) => {
                        counters.conflicts.add(1);
                        return Err(Error::WriteConflict { table: name(), is_deleted: false });
                    }
                }
            }
        }
        Ok(())
    }
}

/// Removes every entry of the rows of a failed load.
fn forget(table: &Table, block: &Block) {
    let mut key = Vec::new();
    for index in &table.indexes {
        for at in 0..block.rows_count {
            key::of_block(table, index, block, at, &mut key);
            index.tree.remove(&key, block.first_row + at as u64, &Region::enter());
        }
    }
}

/// Returns the columns of the batch in the table's types.
fn fit(table: &Table, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
    let bad =
        |column: &str, why: InvalidValue| Error::InvalidValue { place: format!("{}.{column}", table.name()), why };
    if batch.num_columns() != table.columns().len() {
        return Err(bad("*", InvalidValue::WrongCount));
    }
    let fit_one = |(column, array): (&crate::Column, &ArrayRef)| {
        let wanted = column.kind.arrow();
        let array: ArrayRef = match array.data_type() {
            found if *found == wanted => array.clone(),
            DataType::Utf8 if wanted == DataType::Utf8View => Arc::new(StringViewArray::from(array.as_string::<i32>())),
            _ => return Err(bad(&column.name, InvalidValue::OtherType)),
        };
        if !column.nullable && 0 < array.null_count() {
            return Err(bad(&column.name, InvalidValue::Null));
        }
        if let Type::Decimal { precision, .. } = column.kind {
            // Arrow does not check this: a value out of range would become another key.
            let decimals = array.as_primitive::<Decimal128Type>();
            decimals.validate_decimal_precision(precision).map_err(|_| bad(&column.name, InvalidValue::OutOfRange))?;
        }
        Ok(array)
    };
    let columns = table.columns().iter().zip(batch.columns()).map(fit_one).collect::<Result<Vec<_>>>()?;
    if fits_images(table, &columns) { Ok(columns) } else { Err(bad("*", InvalidValue::RowTooWide)) }
}

/// Returns true if each row could be hot: one that could not would take no update, and no delete.
fn fits_images(table: &Table, columns: &[ArrayRef]) -> bool {
    let fixed_bytes = table.layout.fixed_end;
    let widest = |column: &ArrayRef| arrow::byte_lengths(column).max().unwrap_or(0);
    if fixed_bytes + columns.iter().map(widest).sum::<usize>() <= IMAGE_BYTES_MAX {
        return true;
    }
    let mut widths = vec![fixed_bytes; columns.first().map_or(0, |column| column.len())];
    for column in columns {
        widths.iter_mut().zip(arrow::byte_lengths(column)).for_each(|(width, bytes)| *width += bytes);
    }
    widths.iter().all(|width| *width <= IMAGE_BYTES_MAX)
}
