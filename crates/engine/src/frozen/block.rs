//! A frozen block: sealed Arrow columns with one *visible since* word for all of their rows.
//!
//! **Invariant:** the columns never change, so an `Arc` of the block owns everything that a scan returns, and a scan
//! copies nothing. `since` is a begin word like any version's: uncommitted while the load runs, then a commit
//! timestamp. A block's content for a row counts only as long as the row's cell in the row map is empty. A row that is
//! deleted becomes hot first, and *gone* here before its cell is emptied again.

use crate::frozen::arrow;
use crate::frozen::bounds::Bounds;
use crate::frozen::present::Present;
use crate::raw::once::OnceBox;
use crate::raw::rows::CHUNK_ROWS;
use crate::row::condition::Condition;
use crate::row::types::Raw;
use crate::row::value::{Type, Value};
use crate::sync::{Acquire, AtomicU64, Relaxed, Release};
use arrow_array::{Array, ArrayRef};
use core::ops::Range;
use std::sync::Arc;

/// Largest number of rows of one block.
pub(crate) const BLOCK_ROWS_MAX: usize = 65_536;

/// Sealed columns of rows with neighbouring ids.
pub struct Block {
    /// First of the ids that the block covers.
    pub(crate) first_row: u64,
    /// Number of ids that the block covers.
    ids_count: usize,
    /// Number of ids that the block has: the length of its columns.
    pub(crate) rows_count: usize,
    /// Ids that the block has; none if it has all.
    present: Option<Present>,
    /// Rows that were deleted since, before every snapshot: a bit for each position. Created when the first of them is
    /// deleted.
    gone: OnceBox<Box<[AtomicU64]>>,
    /// Begin word of all rows.
    pub(crate) since: AtomicU64,
    pub(crate) kinds: Vec<Type>,
    pub(crate) columns: Vec<ArrayRef>,
    bounds: Vec<Bounds>,
    bytes: u64,
    /// Totals of the engine and of the table.
    totals: [Arc<Totals>; 2],
}

/// Totals of the blocks of an engine or a table that are in memory, including replaced ones that still have readers.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) blocks: SharedCounter,
    pub(crate) bytes: SharedCounter,
    /// Blocks that scans have looked into, and blocks that conditions ruled out.
    pub(crate) scanned: SharedCounter,
    pub(crate) skipped: SharedCounter,
}

/// A number that many threads add to.
#[derive(Debug, Default)]
pub(crate) struct SharedCounter(core::sync::atomic::AtomicU64);

impl SharedCounter {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    fn subtract(&self, less: u64) {
        self.0.fetch_sub(less, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        for totals in &self.totals {
            totals.blocks.subtract(1);
            totals.bytes.subtract(self.bytes);
        }
    }
}

impl Block {
    /// Creates a block of these columns. `present` tells for each of `ids_count` ids from `first_row` on whether they
    /// have it; without it they have all.
    pub(crate) fn new(
        first_row: u64,
        ids_count: usize,
        present: Option<Present>,
        since: u64,
        kinds: Vec<Type>,
        columns: Vec<ArrayRef>,
        totals: [&Arc<Totals>; 2],
    ) -> Block {
        let rows_count = present.as_ref().map_or(ids_count, |present| present.count_before(ids_count));
        debug_assert!(columns.iter().all(|column| column.len() == rows_count));
        let bounds = kinds.iter().zip(&columns).map(|(kind, column)| arrow::bounds(*kind, column)).collect();
        let columns_bytes: usize = columns.iter().map(|column| arrow::bytes_held(column)).sum();
        let bytes = (columns_bytes + present.as_ref().map_or(0, Present::bytes)) as u64;
        for totals in totals {
            totals.blocks.add(1);
            totals.bytes.add(bytes);
        }
        let (gone, since, totals) = (OnceBox::new(), AtomicU64::new(since), totals.map(Arc::clone));
        Block { first_row, ids_count, rows_count, present, gone, since, kinds, columns, bounds, bytes, totals }
    }

    /// Returns one past the last of the ids that the block covers.
    pub(crate) fn end(&self) -> u64 {
        self.first_row + self.ids_count as u64
    }

    /// Returns the chunks that the block has a share of.
    pub(crate) fn chunks(&self) -> Range<u64> {
        self.first_row / CHUNK_ROWS..self.end().div_ceil(CHUNK_ROWS)
    }

    /// Returns the position of the row in the columns; none if it is not here.
    #[inline]
    pub(crate) fn place(&self, row: u64) -> Option<usize> {
        let at = row.checked_sub(self.first_row)? as usize;
        match &self.present {
            None => (at < self.ids_count).then_some(at),
            Some(present) => present.position(at),
        }
    }

    /// Returns the position of the row in the columns; none if it is not here, or gone.
    #[inline]
    pub(crate) fn position(&self, row: u64) -> Option<usize> {
        self.place(row).filter(|at| !self.is_gone(*at))
    }

    /// Returns the position in the columns at which the rows from this id on begin, gone or not.
    pub(crate) fn position_from(&self, row: u64) -> usize {
        let at = (row.min(self.end()) - self.first_row) as usize;
        self.present.as_ref().map_or(at, |present| present.count_before(at))
    }

    /// Returns an id behind `row`, at most `limit`, up to which at most `count` rows are in the columns.
    pub(crate) fn end_of(&self, row: u64, count: usize, limit: u64) -> u64 {
        match &self.present {
            None => limit.min(row + count as u64),
            Some(_) if self.position_from(limit) - self.position_from(row) <= count => limit,
            Some(present) => {
                let end = self.first_row + present.end_of(self.position_from(row) + count) as u64;
                if row < end { end } else { limit.min(row + count as u64) }
            }
        }
    }

    /// Returns true if the row at this position was deleted before every snapshot.
    #[inline]
    pub(crate) fn is_gone(&self, at: usize) -> bool {
        self.gone.get().is_some_and(|gone| gone[at / 64].load(Acquire) & (1 << (at % 64)) != 0)
    }

    /// Returns true if any row is gone.
    pub(crate) fn has_gone(&self) -> bool {
        self.gone.get().is_some()
    }

    /// Returns the number of rows between two positions that are gone.
    pub(crate) fn gone_count(&self, from: usize, to: usize) -> usize {
        if self.has_gone() { (from..to).filter(|at| self.is_gone(*at)).count() } else { 0 }
    }

    /// Returns true if the block has all ids from `from` on, before `to`, and none is gone.
    pub(crate) fn is_full(&self, from: u64, to: u64) -> bool {
        let (first, end) = (self.position_from(from), self.position_from(to));
        (end - first) as u64 == to - from && self.gone_count(first, end) == 0
    }

    /// Records that the row was deleted before every snapshot.
    pub(crate) fn set_gone(&self, row: u64) {
        let Some(at) = self.place(row) else { return };
        let gone = self.gone.get_or_make(|| (0..self.rows_count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect());
        gone[at / 64].fetch_or(1 << (at % 64), Release);
    }

    /// Returns true if any row may satisfy all the conditions.
    pub(crate) fn may_hold(&self, conditions: &[Condition]) -> bool {
        conditions.iter().all(|condition| self.bounds[condition.column].may_hold(condition))
    }

    pub(crate) fn is_null(&self, column: usize, index: usize) -> bool {
        self.columns[column].is_null(index)
    }

    /// Returns the value that a row would store in the column.
    #[inline]
    pub(crate) fn raw(&self, column: usize, index: usize) -> Raw<'_> {
        arrow::raw(self.kinds[column], &*self.columns[column], index)
    }

    pub(crate) fn value(&self, column: usize, index: usize) -> Value<'_> {
        self.kinds[column].value(self.raw(column, index)).expect("a block has only values of its columns' types")
    }
}

macro_rules! getter {
    ($name:ident, $type:ty, $zero:expr, $($value:pat => $get:expr),+) => {
        pub(crate) fn $name(&self, column: usize, index: usize) -> $type {
            match self.value(column, index) {
                Value::Null => $zero,
                $($value => $get,)+
                _ => panic!("column {column} is not {}", stringify!($name)),
            }
        }
    };
}

/// Values like those of a row image: zero or empty if null.
impl Block {
    getter!(bool, bool, false, Value::Bool(v) => v);
    getter!(i16, i16, 0, Value::Int16(v) => v);
    getter!(i32, i32, 0, Value::Int32(v) | Value::Date(v) => v);
    getter!(i64, i64, 0, Value::Int64(v) | Value::Timestamp(v) => v);
    getter!(f64, f64, 0.0, Value::Float64(v) => v);
    getter!(decimal, i128, 0, Value::Decimal(v) => v);
    getter!(decimal_i64, i64, 0, Value::Decimal(v) => {
        i64::try_from(v).expect("get_decimal_i64 is for decimals of at most 18 digits")
    });
    getter!(text, &str, "", Value::Text(v) => v);
    getter!(byte_string, &[u8], &[], Value::Bytes(v) | Value::Keyed(v) => v);
}
