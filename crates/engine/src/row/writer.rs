//! Patching of a row, for the closure of an update.
//!
//! **Invariant:** when the closure has returned, `image` is a complete image again, without dead variable bytes, and
//! `touched` names every column that may differ from the image it started from. A value that does not fit leaves its
//! column alone and fails the update.

use crate::error::InvalidValue;
use crate::row::layout::{BITMAP_START, IMAGE_BYTES_MAX, Image, Layout, Unfit, put_bytes_slot, put_fixed};
use crate::row::types::{Raw, Storage};
use crate::row::value::Value;

/// A set of columns; those from 63 on share one bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Touched(pub(crate) u64);

impl Touched {
    /// Bit that stands for column 63 and all behind it.
    const REST: u32 = 63;

    #[inline]
    pub(crate) fn add(&mut self, column: usize) {
        self.0 |= 1 << (column as u32).min(Touched::REST);
    }

    #[inline]
    pub(crate) fn meets(self, other: Touched) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns true if each column can be named by its own bit.
    pub(crate) fn is_exact(self) -> bool {
        self.0 & (1 << Touched::REST) == 0
    }

    pub(crate) fn columns(self) -> impl Iterator<Item = usize> {
        (0..Touched::REST as usize).filter(move |column| self.0 & (1 << column) != 0)
    }
}

/// Reads and patches the copy of a row that an update will publish.
pub struct RowWriter<'a> {
    layout: &'a Layout,
    image: &'a mut Vec<u8>,
    touched: Touched,
    /// Variable bytes that no slot points at any more.
    dead_bytes: usize,
    unfit: Option<Unfit>,
    is_newer: bool,
}

impl<'a> RowWriter<'a> {
    pub(crate) fn new(layout: &'a Layout, image: &'a mut Vec<u8>, is_newer: bool) -> RowWriter<'a> {
        RowWriter { layout, image, touched: Touched::default(), dead_bytes: 0, unfit: None, is_newer }
    }

    /// Returns true if the row was changed after the snapshot: it is not the one that the transaction reads.
    #[inline]
    pub fn is_newer(&self) -> bool {
        self.is_newer
    }

    #[inline]
    fn read(&self) -> Image<'_> {
        Image { layout: self.layout, bytes: self.image }
    }

    /// Returns true if the column is null.
    #[inline]
    pub fn is_null(&self, column: usize) -> bool {
        self.read().is_null(column)
    }

    /// Returns the column as it is now, 0 if null.
    ///
    /// # Panics
    /// If the column has another type, as in all typed getters. (A setter of another type makes the update fail.) If
    /// there is no such column, as in all methods.
    #[inline]
    pub fn get_i32(&self, column: usize) -> i32 {
        self.read().i32(column)
    }

    /// Returns the column as it is now, 0 if null.
    #[inline]
    pub fn get_i64(&self, column: usize) -> i64 {
        self.read().i64(column)
    }

    /// Returns the unscaled decimal of at most 18 digits, 0 if null.
    #[inline]
    pub fn get_decimal_i64(&self, column: usize) -> i64 {
        self.read().decimal_i64(column)
    }

    /// Returns the unscaled decimal, 0 if null.
    #[inline]
    pub fn get_decimal(&self, column: usize) -> i128 {
        self.read().decimal(column)
    }

    /// Returns the column as it is now, false if null.
    #[inline]
    pub fn get_bool(&self, column: usize) -> bool {
        self.read().bool(column)
    }

    /// Returns the column as it is now, 0 if null.
    #[inline]
    pub fn get_i16(&self, column: usize) -> i16 {
        self.read().i16(column)
    }

    /// Returns the column as it is now, 0 if null.
    #[inline]
    pub fn get_f64(&self, column: usize) -> f64 {
        self.read().f64(column)
    }

    /// Returns the bytes, empty if null.
    #[inline]
    pub fn get_bytes(&self, column: usize) -> &[u8] {
        self.read().byte_string(column)
    }

    /// Returns the text, empty if null.
    #[inline]
    pub fn get_text(&self, column: usize) -> &str {
        self.read().text(column)
    }

    /// Returns the days since 1970-01-01, 0 if null.
    #[inline]
    pub fn get_date(&self, column: usize) -> i32 {
        self.read().i32(column)
    }

    /// Returns the microseconds since 1970-01-01 00:00, 0 if null.
    #[inline]
    pub fn get_timestamp(&self, column: usize) -> i64 {
        self.read().i64(column)
    }

    /// Returns the column as a value.
    pub fn get(&self, column: usize) -> Value<'_> {
        self.read().value(column)
    }

    /// Sets a 32-bit integer.
    #[inline]
    pub fn set_i32(&mut self, column: usize, value: i32) {
        self.set(column, Value::Int32(value));
    }

    /// Sets a 64-bit integer.
    #[inline]
    pub fn set_i64(&mut self, column: usize, value: i64) {
        self.set(column, Value::Int64(value));
    }

    /// Sets a decimal from its unscaled integer.
    #[inline]
    pub fn set_decimal_i64(&mut self, column: usize, unscaled: i64) {
        self.set(column, Value::Decimal(i128::from(unscaled)));
    }

    /// Sets a decimal from its unscaled integer.
    #[inline]
    pub fn set_decimal(&mut self, column: usize, unscaled: i128) {
        self.set(column, Value::Decimal(unscaled));
    }

    /// Sets a boolean.
    #[inline]
    pub fn set_bool(&mut self, column: usize, value: bool) {
        self.set(column, Value::Bool(value));
    }

    /// Sets a 16-bit integer.
    #[inline]
    pub fn set_i16(&mut self, column: usize, value: i16) {
        self.set(column, Value::Int16(value));
    }

    /// Sets a floating point number.
    #[inline]
    pub fn set_f64(&mut self, column: usize, value: f64) {
        self.set(column, Value::Float64(value));
    }

    /// Sets bytes.
    #[inline]
    pub fn set_bytes(&mut self, column: usize, value: &[u8]) {
        self.set(column, Value::Bytes(value));
    }

    /// Sets a text.
    #[inline]
    pub fn set_text(&mut self, column: usize, value: &str) {
        self.set(column, Value::Text(value));
    }

    /// Sets a date, in days since 1970-01-01.
    #[inline]
    pub fn set_date(&mut self, column: usize, days: i32) {
        self.set(column, Value::Date(days));
    }

    /// Sets a timestamp, in microseconds since 1970-01-01 00:00.
    #[inline]
    pub fn set_timestamp(&mut self, column: usize, micros: i64) {
        self.set(column, Value::Timestamp(micros));
    }

    /// Sets the column to null.
    #[inline]
    pub fn set_null(&mut self, column: usize) {
        self.set(column, Value::Null);
    }

    /// Sets any column. A value that the column cannot hold makes the update fail.
    #[inline]
    pub fn set(&mut self, column: usize, value: Value<'_>) {
        let slot = self.layout.slots[column];
        let raw = match slot.raw(value) {
            Ok(raw) => raw,
            Err(why) => {
                self.unfit = self.unfit.take().or(Some(Unfit { column, why }));
                return;
            }
        };
        self.touched.add(column);
        let at = slot.offset as usize;
        if slot.storage == Storage::Bytes {
            return self.replace_bytes(column, at, raw);
        }
        let null_bit = 1 << (column % 8);
        self.image[BITMAP_START + column / 8] &= !null_bit;
        match raw {
            Raw::Null => {
                self.image[BITMAP_START + column / 8] |= null_bit;
                self.image[at..at + slot.storage.slot_bytes()].fill(0);
            }
            fixed => put_fixed(self.image, at, fixed),
        }
    }

    fn replace_bytes(&mut self, column: usize, at: usize, raw: Raw<'_>) {
        let before = self.read().any_bytes(column).len();
        let null_bit = 1 << (column % 8);
        match raw {
            Raw::Bytes(bytes) => {
                self.image[BITMAP_START + column / 8] &= !null_bit;
                if bytes.len() == before {
                    let slot: [u8; 4] = self.image[at..at + 4].try_into().expect("4 bytes");
                    let start = u32::from_le_bytes(slot) as usize;
                    self.image[start..start + before].copy_from_slice(bytes);
                    return;
                }
                if self.image.len() + bytes.len() > 2 * IMAGE_BYTES_MAX {
                    self.unfit = Some(Unfit { column, why: InvalidValue::RowTooWide });
                    return;
                }
                let start = self.image.len() as u32;
                self.image.extend_from_slice(bytes);
                put_bytes_slot(self.image, at, start, bytes.len() as u32);
            }
            _ => {
                self.image[BITMAP_START + column / 8] |= null_bit;
                put_bytes_slot(self.image, at, 0, 0);
            }
        }
        self.dead_bytes += before;
    }

    /// Ends the patching: compacts the variable bytes if some of it died.
    pub(crate) fn finish(mut self) -> Result<Touched, Unfit> {
        if 0 < self.dead_bytes {
            self.compact();
        }
        match self.unfit.take() {
            Some(unfit) => Err(unfit),
            None if self.image.len() > IMAGE_BYTES_MAX => Err(Unfit { column: 0, why: InvalidValue::RowTooWide }),
            None => Ok(self.touched),
        }
    }

    fn compact(&mut self) {
        let mut tail = Vec::with_capacity(self.image.len() - self.layout.fixed_end);
        for (column, slot) in self.layout.slots.iter().enumerate() {
            if slot.storage != Storage::Bytes || self.read().is_null(column) {
                continue;
            }
            let start = self.layout.fixed_end + tail.len();
            let live = self.read().any_bytes(column);
            let bytes = live.len() as u32;
            tail.extend_from_slice(live);
            put_bytes_slot(self.image, slot.offset as usize, start as u32, bytes);
        }
        self.image.truncate(self.layout.fixed_end);
        self.image.extend_from_slice(&tail);
    }
}

#[cfg(test)]
mod tests;
