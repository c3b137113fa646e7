//! A frozen block: sealed Arrow columns with one *visible since* word for all of their rows.
//!
//! **Invariant:** the columns never change, so an `Arc` of the block owns everything that a scan hands out, and a scan
//! copies nothing. `since` is a begin word like any version's: uncommitted while the load runs, then a commit timestamp.
//! What a block says of a row counts only as long as the row's cell in the row map is empty. A row that is deleted becomes
//! hot first, and *gone* here before its cell is emptied again.

use crate::raw::once::OnceBox;
use crate::raw::rows::CHUNK_ROWS;
use crate::sync::{Acquire, AtomicU64, Release};
use crate::value::{Type, Value};
use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal128Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef};
use core::ops::Range;

/// The most rows of one block.
pub(crate) const BLOCK_ROWS_MAX: usize = 65_536;

/// Sealed columns of consecutive row ids.
pub struct Block {
    /// The row id of the first row.
    pub(crate) first_row: u64,
    pub(crate) rows_count: usize,
    /// Rows that were deleted since, before every snapshot: a bit each. Made when the first of them is.
    gone: OnceBox<Box<[AtomicU64]>>,
    /// Begin word of all rows.
    pub(crate) since: AtomicU64,
    pub(crate) kinds: Vec<Type>,
    pub(crate) columns: Vec<ArrayRef>,
}

impl Block {
    /// A block of columns with one row for each id from `first_row` on.
    pub(crate) fn new(
        first_row: u64,
        since: u64,
        kinds: Vec<Type>,
        columns: Vec<ArrayRef>,
        rows_count: usize,
    ) -> Block {
        Block { first_row, rows_count, gone: OnceBox::new(), since: AtomicU64::new(since), kinds, columns }
    }

    /// One past its last row's id.
    pub(crate) fn end(&self) -> u64 {
        self.first_row + self.rows_count as u64
    }

    /// The chunks that it has a share of.
    pub(crate) fn chunks(&self) -> Range<u64> {
        self.first_row / CHUNK_ROWS..self.end().div_ceil(CHUNK_ROWS)
    }

    /// Where the row is in the columns; nothing if it is not here, or gone.
    #[inline]
    pub(crate) fn position(&self, row: u64) -> Option<usize> {
        let at = row.checked_sub(self.first_row)? as usize;
        (at < self.rows_count && !self.is_gone(at)).then_some(at)
    }

    /// Whether the row at this position was deleted before every snapshot.
    #[inline]
    pub(crate) fn is_gone(&self, at: usize) -> bool {
        self.gone.get().is_some_and(|gone| gone[at / 64].load(Acquire) & (1 << (at % 64)) != 0)
    }

    /// Whether any row is gone.
    pub(crate) fn has_gone(&self) -> bool {
        self.gone.get().is_some()
    }

    /// Remembers that the row was deleted before every snapshot.
    pub(crate) fn set_gone(&self, row: u64) {
        let Some(at) = self.position(row) else { return };
        let gone = self.gone.get_or_make(|| (0..self.rows_count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect());
        gone[at / 64].fetch_or(1 << (at % 64), Release);
    }

    /// Bytes held by the columns.
    pub(crate) fn bytes(&self) -> usize {
        self.columns.iter().map(|column| column.get_array_memory_size()).sum()
    }

    pub(crate) fn is_null(&self, column: usize, index: usize) -> bool {
        self.columns[column].is_null(index)
    }

    pub(crate) fn i32(&self, column: usize, index: usize) -> i32 {
        match self.kinds[column] {
            _ if self.is_null(column, index) => 0,
            Type::Date => self.columns[column].as_primitive::<Date32Type>().value(index),
            _ => self.columns[column].as_primitive::<Int32Type>().value(index),
        }
    }

    pub(crate) fn i64(&self, column: usize, index: usize) -> i64 {
        match self.kinds[column] {
            _ if self.is_null(column, index) => 0,
            Type::Timestamp => self.columns[column].as_primitive::<TimestampMicrosecondType>().value(index),
            _ => self.columns[column].as_primitive::<Int64Type>().value(index),
        }
    }

    pub(crate) fn decimal_i64(&self, column: usize, index: usize) -> i64 {
        i64::try_from(self.decimal(column, index)).expect("get_decimal_i64 is for decimals of at most 18 digits")
    }

    pub(crate) fn decimal(&self, column: usize, index: usize) -> i128 {
        if self.is_null(column, index) {
            return 0;
        }
        self.columns[column].as_primitive::<Decimal128Type>().value(index)
    }

    pub(crate) fn text(&self, column: usize, index: usize) -> &str {
        if self.is_null(column, index) { "" } else { self.columns[column].as_string_view().value(index) }
    }

    pub(crate) fn value(&self, column: usize, index: usize) -> Value<'_> {
        if self.is_null(column, index) {
            return Value::Null;
        }
        match self.kinds[column] {
            Type::Int32 => Value::Int32(self.i32(column, index)),
            Type::Date => Value::Date(self.i32(column, index)),
            Type::Int64 => Value::Int64(self.i64(column, index)),
            Type::Timestamp => Value::Timestamp(self.i64(column, index)),
            Type::Decimal { .. } => Value::Decimal(self.decimal(column, index)),
            Type::Text => Value::Text(self.text(column, index)),
        }
    }
}
