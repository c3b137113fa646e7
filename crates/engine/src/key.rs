//! Index keys: bytes that compare as the columns do.
//!
//! **Invariant:** for rows of one index, `memcmp` of two keys orders them as their columns, first column first, nulls last;
//! and no key is a proper prefix of another.
//!
//! ```text
//! column of a nullable column   01 value | 02 (null)
//! int32, date                   4 bytes big endian, sign bit flipped
//! int64, timestamp, decimal(18) 8 bytes, the same
//! decimal(19+)                  16 bytes, the same
//! text                          its bytes, 00 written as 00 FF; then 00 01
//! ```

use crate::block::Block;
use crate::error::{Error, Result};
use crate::layout::{Image, Slot};
use crate::table::{Index, Table};
use crate::value::{Type, Value};

/// The most columns of one index.
pub(crate) const COLUMNS_MAX: usize = 32;

const NOT_NULL: u8 = 1;
const NULL: u8 = 2;

#[inline]
fn put_i32(key: &mut Vec<u8>, v: i32) {
    key.extend_from_slice(&((v as u32) ^ (1 << 31)).to_be_bytes());
}

#[inline]
fn put_i64(key: &mut Vec<u8>, v: i64) {
    key.extend_from_slice(&((v as u64) ^ (1 << 63)).to_be_bytes());
}

fn put_text(key: &mut Vec<u8>, text: &[u8]) {
    if text.contains(&0) {
        for byte in text {
            key.push(*byte);
            if *byte == 0 {
                key.push(0xff);
            }
        }
    } else {
        key.extend_from_slice(text);
    }
    key.extend_from_slice(&[0, 1]);
}

/// Appends one value of a column described by `slot`, which has been checked to hold it.
#[inline]
fn put(key: &mut Vec<u8>, slot: &Slot, value: Value<'_>) {
    if slot.nullable {
        key.push(if value == Value::Null { NULL } else { NOT_NULL });
    }
    match value {
        Value::Null => {}
        Value::Int32(v) | Value::Date(v) => put_i32(key, v),
        Value::Int64(v) | Value::Timestamp(v) => put_i64(key, v),
        Value::Decimal(v) if slot.kind.slot_bytes() == 8 => put_i64(key, v as i64),
        Value::Decimal(v) => key.extend_from_slice(&((v as u128) ^ (1 << 127)).to_be_bytes()),
        Value::Text(text) => put_text(key, text.as_bytes()),
    }
}

/// Writes the key made of `values`, which may be fewer than the index has columns, to `key`.
///
/// # Errors
/// [`Error::InvalidValue`] when a value has not its column's type, or there are too many.
#[inline]
pub(crate) fn of_values(table: &Table, index: &Index, values: &[Value<'_>], key: &mut Vec<u8>) -> Result<()> {
    key.clear();
    if index.def.columns.len() < values.len() {
        return Err(misfit(table, index, "more values than the index has columns"));
    }
    for (column, value) in index.def.columns.iter().zip(values) {
        let slot = &table.layout.slots[*column];
        match slot.check(*value) {
            Ok(()) => put(key, slot, *value),
            Err(why) => return Err(misfit(table, index, why)),
        }
    }
    Ok(())
}

/// As [`of_values`], for a whole key.
///
/// # Errors
/// As [`of_values`], and when there are fewer values than the index has columns.
#[inline]
pub(crate) fn of_all_values(table: &Table, index: &Index, values: &[Value<'_>], key: &mut Vec<u8>) -> Result<()> {
    if values.len() < index.def.columns.len() {
        return Err(misfit(table, index, "fewer values than the index has columns"));
    }
    of_values(table, index, values, key)
}

/// Writes the key of a row image to `key`. Says whether a column of it is null.
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
        match slot.kind {
            Type::Int32 | Type::Date => put_i32(key, image.i32(*column)),
            Type::Int64 | Type::Timestamp => put_i64(key, image.i64(*column)),
            Type::Text => put_text(key, image.text_bytes(*column)),
            Type::Decimal { .. } if slot.kind.slot_bytes() == 8 => put_i64(key, image.decimal_i64(*column)),
            Type::Decimal { .. } => {
                key.extend_from_slice(&((image.decimal(*column) as u128) ^ (1 << 127)).to_be_bytes());
            }
        }
    }
    has_null
}

/// Writes the key of a frozen row to `key`. Says whether a column of it is null.
pub(crate) fn of_block(table: &Table, index: &Index, block: &Block, at: usize, key: &mut Vec<u8>) -> bool {
    key.clear();
    let mut has_null = false;
    for column in &index.def.columns {
        let value = block.value(*column, at);
        has_null |= value == Value::Null;
        put(key, &table.layout.slots[*column], value);
    }
    has_null
}

/// Turns a prefix into the smallest key above all keys that begin with it. `false`: there is none.
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
fn misfit(table: &Table, index: &Index, why: &str) -> Error {
    Error::InvalidValue { place: format!("{}.{}", table.name(), index.def.name), why: why.to_owned() }
}

#[cfg(test)]
mod tests;
