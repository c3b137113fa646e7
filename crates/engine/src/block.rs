//! A frozen block: sealed Arrow columns with one *visible since* word for all of their rows.
//!
//! **Invariant:** the columns never change, so an `Arc` of the block owns everything that a scan hands out, and a scan
//! copies nothing. `since` is a begin word like any version's: uncommitted while the load runs, then a commit timestamp.
//! The map of ends, which a delete or an update of a frozen row will need, does not exist yet, and neither do such writes.

use crate::sync::AtomicU64;
use crate::value::{Type, Value};
use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal128Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef};

/// The most rows of one block.
pub(crate) const BLOCK_ROWS_MAX: usize = 65_536;

/// Sealed columns of consecutive row ids.
pub struct Block {
    /// The row id of the first row.
    pub(crate) first_row: u64,
    pub(crate) rows_count: usize,
    /// Begin word of all rows.
    pub(crate) since: AtomicU64,
    pub(crate) kinds: Vec<Type>,
    pub(crate) columns: Vec<ArrayRef>,
}

impl Block {
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
