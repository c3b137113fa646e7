//! A row as a transaction sees it: borrowed from the version, or from the frozen block, that holds it.

pub(crate) mod condition;
pub(crate) mod key;
pub(crate) mod layout;
pub(crate) mod types;
pub(crate) mod value;
pub(crate) mod writer;

use crate::frozen::block::Block;
use crate::row::layout::Image;
use crate::row::value::Value;
use crate::schema::table::Table;

/// Identifier of a row of a table, for as long as the row lives, and as long as any snapshot sees it. After that
/// another row may have it. Rows that one transaction inserts have growing ids, until it meets ids that come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(pub u64);

/// A row, borrowed for as long as the transaction that read it. Typed getters panic when the column has another type;
/// of a null they return 0 or the empty text.
#[derive(Clone, Copy)]
pub struct Row<'t> {
    pub(crate) id: RowId,
    pub(crate) table: &'t Table,
    pub(crate) place: RowPlace<'t>,
}

#[derive(Clone, Copy)]
pub(crate) enum RowPlace<'t> {
    Hot(&'t [u8]),
    Frozen(&'t Block, usize),
}

macro_rules! getter {
    ($(#[$doc:meta])* $name:ident, $method:ident, $type:ty) => {
        $(#[$doc])*
        #[inline]
        pub fn $name(&self, column: usize) -> $type {
            match self.place {
                RowPlace::Hot(bytes) => Image { layout: &self.table.layout, bytes }.$method(column),
                RowPlace::Frozen(block, index) => block.$method(column, index),
            }
        }
    };
}

impl<'t> Row<'t> {
    /// Returns the row's id, for updates and deletes.
    #[inline]
    pub fn row_id(&self) -> RowId {
        self.id
    }

    /// Returns true if both are one version of one row. Both must come from one look if it is committed and not
    /// claimed: it may be frozen at any time, and then has another place.
    pub fn is_same_version(&self, other: &Row<'_>) -> bool {
        match (self.place, other.place) {
            (RowPlace::Hot(one), RowPlace::Hot(other)) => std::ptr::eq(one, other),
            (RowPlace::Frozen(one, at), RowPlace::Frozen(other, other_at)) => {
                std::ptr::eq(one, other) && at == other_at
            }
            _ => false,
        }
    }

    getter!(
        /// Returns true if the column is null.
        is_null, is_null, bool);
    getter!(
        /// Returns a 32-bit integer.
        get_i32, i32, i32);
    getter!(
        /// Returns a 64-bit integer.
        get_i64, i64, i64);
    getter!(
        /// Returns the unscaled integer of a decimal with at most 18 digits.
        get_decimal_i64, decimal_i64, i64);
    getter!(
        /// Returns the unscaled integer of a decimal.
        get_decimal, decimal, i128);
    getter!(
        /// Returns the days since 1970-01-01.
        get_date, i32, i32);
    getter!(
        /// Returns the microseconds since 1970-01-01 00:00.
        get_timestamp, i64, i64);
    getter!(
        /// Returns a text.
        get_text, text, &'t str);
    getter!(
        /// Returns a boolean.
        get_bool, bool, bool);
    getter!(
        /// Returns a 16-bit integer.
        get_i16, i16, i16);
    getter!(
        /// Returns a floating point number.
        get_f64, f64, f64);
    getter!(
        /// Returns bytes.
        get_bytes, byte_string, &'t [u8]);
    getter!(
        /// Returns the column as a value.
        get, value, Value<'t>);
}

impl std::fmt::Debug for Row<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.table.columns().iter().enumerate();
        f.debug_map().entries(columns.map(|(index, column)| (&column.name, self.get(index)))).finish()
    }
}
