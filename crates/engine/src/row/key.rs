//! Index keys: bytes that compare as the columns do.
//!
//! **Invariant:** for rows of one index, `memcmp` of two keys orders them as their columns, first column first, nulls last;
//! and no key is a proper prefix of another.
//!
//! ```text
//! column of a nullable column    01 value | 02 (null)
//! 1, 2, 4, 8 or 16 bytes         big endian; signed: sign bit flipped; float: as `float_order` says
//! any number of bytes            they, of keyed bytes the key, 00 written as 00 FF; then 00 01
//! ```

use crate::error::InvalidValue;
use crate::error::{Error, Result};
use crate::frozen::block::Block;
use crate::row::layout::{ColumnSlot, Image};
use crate::row::types::{Raw, ValueOrder, float_order, key_part};
use crate::row::value::Value;
use crate::schema::table::{Index, Table};

/// Largest number of columns of one index.
pub(crate) const COLUMNS_MAX: usize = 32;

const NOT_NULL: u8 = 1;
const NULL: u8 = 2;

fn put_bytes(key: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.contains(&0) {
        for byte in bytes {
            key.push(*byte);
            if *byte == 0 {
                key.push(0xff);
            }
        }
    } else {
        key.extend_from_slice(bytes);
    }
    key.extend_from_slice(&[0, 1]);
}

/// Appends one value that is not null of a column described by `slot`.
#[inline]
fn put_stored(key: &mut Vec<u8>, slot: &ColumnSlot, raw: Raw<'_>) {
    let order = slot.kind.order();
    let flip = order == ValueOrder::Signed;
    match raw {
        Raw::Null => {}
        Raw::One(v) => key.push(v ^ (u8::from(flip) << 7)),
        Raw::Two(v) => key.extend_from_slice(&(v ^ (u16::from(flip) << 15)).to_be_bytes()),
        Raw::Four(v) => key.extend_from_slice(&(v ^ (u32::from(flip) << 31)).to_be_bytes()),
        Raw::Eight(v) if order == ValueOrder::Float => {
            key.extend_from_slice(&float_order(f64::from_bits(v)).to_be_bytes());
        }
        Raw::Eight(v) => key.extend_from_slice(&(v ^ (u64::from(flip) << 63)).to_be_bytes()),
        Raw::Sixteen(v) => key.extend_from_slice(&(v ^ (u128::from(flip) << 127)).to_be_bytes()),
        Raw::Bytes(bytes) if order == ValueOrder::Keyed => put_bytes(key, key_part(bytes)),
        Raw::Bytes(bytes) => put_bytes(key, bytes),
    }
}

/// Appends one value of a column described by `slot`.
#[inline]
fn put(key: &mut Vec<u8>, slot: &ColumnSlot, raw: Raw<'_>) {
    if slot.nullable {
        key.push(if raw == Raw::Null { NULL } else { NOT_NULL });
    }
    put_stored(key, slot, raw);
}

/// Writes the key made of `values`, which may be fewer than the index has columns, to `key`.
///
/// # Errors
/// [`Error::InvalidValue`] if a value has not its column's type, or there are too many.
#[inline]
pub(crate) fn of_values(table: &Table, index: &Index, values: &[Value<'_>], key: &mut Vec<u8>) -> Result<()> {
    key.clear();
    if index.def.columns.len() < values.len() {
        return Err(misfit(table, index, InvalidValue::WrongCount));
    }
    for (column, value) in index.def.columns.iter().zip(values) {
        let slot = &table.layout.slots[*column];
        match slot.raw(*value) {
            Ok(raw) => put(key, slot, raw),
            Err(why) => return Err(misfit(table, index, why)),
        }
    }
    Ok(())
}

/// Writes a whole key as [`of_values`] does.
///
/// # Errors
/// As [`of_values`], and if there are fewer values than the index has columns.
#[inline]
pub(crate) fn of_all_values(table: &Table, index: &Index, values: &[Value<'_>], key: &mut Vec<u8>) -> Result<()> {
    if values.len() < index.def.columns.len() {
        return Err(misfit(table, index, InvalidValue::WrongCount));
    }
    of_values(table, index, values, key)
}

/// Writes the key of a row image to `key`. Returns true if a column of it is null.
#[inline]
pub(crate) fn of_image(index: &Index, image: Image<'_>, key: &mut Vec<u8>) -> bool {
    key.clear();
    let mut has_null = false;
    for column in &index.def.columns {
        let slot = &image.layout.slots[*column];
        if slot.nullable && image.is_null(*column) {
            key.push(NULL);
            has_null = true;
            continue;
        }
        if slot.nullable {
            key.push(NOT_NULL);
        }
        put_stored(key, slot, image.stored(*column));
    }
    has_null
}

/// Writes the key of a frozen row to `key`. Returns true if a column of it is null.
pub(crate) fn of_block(table: &Table, index: &Index, block: &Block, at: usize, key: &mut Vec<u8>) -> bool {
    key.clear();
    let mut has_null = false;
    for column in &index.def.columns {
        let raw = block.raw(*column, at);
        has_null |= raw == Raw::Null;
        put(key, &table.layout.slots[*column], raw);
    }
    has_null
}

/// Turns a prefix into the smallest key above all keys that begin with it. Returns `false` if there is none.
pub(crate) fn pass_prefix(prefix: &mut Vec<u8>) -> bool {
    while let Some(last) = prefix.pop() {
        if last < u8::MAX {
            prefix.push(last + 1);
            return true;
        }
    }
    false
}

#[cold]
fn misfit(table: &Table, index: &Index, why: InvalidValue) -> Error {
    Error::InvalidValue { place: format!("{}.{}", table.name(), index.def.name), why }
}

#[cfg(test)]
mod tests;
