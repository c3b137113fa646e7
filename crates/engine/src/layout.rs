//! The row image: one contiguous run of bytes for a whole row.
//!
//! **Invariant:** an image, once part of a version, never changes. Every image of a table starts with the number of the
//! schema that laid it out, so that a later schema can read it.
//!
//! ```text
//! byte 0        4                 fixed_start          fixed_end               image end
//!      | schema | null bitmap | 0 | slots              | text bytes ...        |
//!      | u32 LE | 1 bit/column|pad| 16-, 8-, 4-byte    | in any order          |
//!
//! slot of int32, date                 4 bytes, little endian
//!         int64, timestamp            8
//!         decimal, up to 18 digits    8, unscaled
//!         decimal, more digits       16, unscaled
//!         text                        offset from byte 0 (u32), length (u32)
//! ```
//!
//! Slots stand in falling size from a multiple of 8, so each is aligned to 4 or 8 inside the image. A null column has
//! its bit set and its slot zero.

use crate::error::{Error, Result};
use crate::table::Column;
use crate::value::{DIGITS_IN_I64, Type, Value, fits_precision};

/// Where the null bitmap begins: behind the schema number.
pub(crate) const BITMAP_START: usize = size_of::<u32>();
/// The longest image that a row may have.
pub(crate) const IMAGE_BYTES_MAX: usize = 16 << 20;
/// The most columns a table may have.
pub(crate) const COLUMNS_MAX: usize = 1600;

const _: () = assert!(BITMAP_START == 4);
const _: () = assert!(Type::Text.slot_bytes() == 2 * size_of::<u32>());
const _: () = assert!(Type::Decimal { precision: 18, scale: 2 }.slot_bytes() == size_of::<i64>());
const _: () = assert!(Type::Decimal { precision: 19, scale: 2 }.slot_bytes() == size_of::<i128>());
const _: () = assert!(IMAGE_BYTES_MAX <= u32::MAX as usize);

/// Where one column lives in an image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) offset: u32,
    pub(crate) kind: Type,
    pub(crate) nullable: bool,
}

/// How the images of one schema version are laid out.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) schema_version: u32,
    pub(crate) slots: Vec<Slot>,
    pub(crate) fixed_end: usize,
}

impl Layout {
    pub(crate) fn new(schema_version: u32, columns: &[Column]) -> Layout {
        let bitmap_bytes = columns.len().div_ceil(8);
        let mut offset = (BITMAP_START + bitmap_bytes).next_multiple_of(8);
        let mut slots: Vec<Slot> =
            columns.iter().map(|column| Slot { offset: 0, kind: column.kind, nullable: column.nullable }).collect();
        for bytes in [16, 8, 4] {
            for slot in slots.iter_mut().filter(|slot| slot.kind.slot_bytes() == bytes) {
                slot.offset = offset as u32;
                offset += bytes;
            }
        }
        Layout { schema_version, slots, fixed_end: offset }
    }

    /// Writes the image of `values` to `image`, replacing what is there.
    pub(crate) fn encode(&self, values: &[Value<'_>], image: &mut Vec<u8>) -> Result<(), Unfit> {
        if values.len() != self.slots.len() {
            return Err(Unfit { column: values.len().min(self.slots.len()), why: "wrong number of values" });
        }
        image.clear();
        image.resize(self.fixed_end, 0);
        image[..BITMAP_START].copy_from_slice(&self.schema_version.to_le_bytes());
        for (column, value) in values.iter().enumerate() {
            let slot = &self.slots[column];
            match slot.check(*value) {
                Ok(()) => {}
                Err(why) => return Err(Unfit { column, why }),
            }
            let at = slot.offset as usize;
            match *value {
                Value::Null => image[BITMAP_START + column / 8] |= 1 << (column % 8),
                Value::Int32(v) | Value::Date(v) => image[at..at + 4].copy_from_slice(&v.to_le_bytes()),
                Value::Int64(v) | Value::Timestamp(v) => image[at..at + 8].copy_from_slice(&v.to_le_bytes()),
                Value::Decimal(v) if slot.kind.slot_bytes() == 8 => {
                    image[at..at + 8].copy_from_slice(&(v as i64).to_le_bytes());
                }
                Value::Decimal(v) => image[at..at + 16].copy_from_slice(&v.to_le_bytes()),
                Value::Text(text) => {
                    let start = image.len() as u32;
                    image.extend_from_slice(text.as_bytes());
                    put_text_slot(image, at, start, text.len() as u32);
                }
            }
        }
        if image.len() > IMAGE_BYTES_MAX { Err(Unfit { column: 0, why: "row too wide" }) } else { Ok(()) }
    }
}

impl Slot {
    /// Whether the column can hold `value`; if not, why.
    #[inline]
    pub(crate) fn check(&self, value: Value<'_>) -> Result<(), &'static str> {
        match (value, self.kind) {
            (Value::Null, _) if self.nullable => Ok(()),
            (Value::Null, _) => Err("null in a column that is not nullable"),
            (Value::Int32(_), Type::Int32)
            | (Value::Int64(_), Type::Int64)
            | (Value::Date(_), Type::Date)
            | (Value::Text(_), Type::Text)
            | (Value::Timestamp(_), Type::Timestamp) => Ok(()),
            (Value::Decimal(v), Type::Decimal { precision, .. }) => {
                if fits_precision(v, precision) {
                    Ok(())
                } else {
                    Err("numeric value out of range")
                }
            }
            _ => Err("value of another type"),
        }
    }
}

/// A value that its column cannot hold.
#[derive(Debug)]
pub(crate) struct Unfit {
    pub(crate) column: usize,
    pub(crate) why: &'static str,
}

impl Unfit {
    pub(crate) fn at(self, table: &str, columns: &[Column]) -> Error {
        let column = columns.get(self.column).map_or("?", |column| column.name.as_str());
        Error::InvalidValue { place: format!("{table}.{column}"), why: self.why.to_owned() }
    }
}

pub(crate) fn put_text_slot(image: &mut [u8], at: usize, start: u32, bytes: u32) {
    image[at..at + 4].copy_from_slice(&start.to_le_bytes());
    image[at + 4..at + 8].copy_from_slice(&bytes.to_le_bytes());
}

/// Reads the columns of one image.
#[derive(Clone, Copy)]
pub(crate) struct Image<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Image<'a> {
    #[inline]
    fn fixed<const N: usize>(&self, column: usize) -> [u8; N] {
        let at = self.layout.slots[column].offset as usize;
        self.bytes[at..at + N].try_into().expect("a slice of N bytes")
    }

    #[inline]
    fn kind(&self, column: usize) -> Type {
        self.layout.slots[column].kind
    }

    #[inline]
    pub(crate) fn is_null(&self, column: usize) -> bool {
        self.bytes[BITMAP_START + column / 8] & (1 << (column % 8)) != 0
    }

    #[inline]
    pub(crate) fn i32(&self, column: usize) -> i32 {
        assert!(matches!(self.kind(column), Type::Int32 | Type::Date), "column {column} is not 4 bytes");
        i32::from_le_bytes(self.fixed(column))
    }

    #[inline]
    pub(crate) fn i64(&self, column: usize) -> i64 {
        assert!(matches!(self.kind(column), Type::Int64 | Type::Timestamp), "column {column} is not int64");
        i64::from_le_bytes(self.fixed(column))
    }

    #[inline]
    pub(crate) fn decimal_i64(&self, column: usize) -> i64 {
        match self.kind(column) {
            Type::Decimal { precision, .. } if precision <= DIGITS_IN_I64 => i64::from_le_bytes(self.fixed(column)),
            _ => panic!("column {column} is not a decimal of at most {DIGITS_IN_I64} digits"),
        }
    }

    #[inline]
    pub(crate) fn decimal(&self, column: usize) -> i128 {
        match self.kind(column) {
            Type::Decimal { precision, .. } if precision <= DIGITS_IN_I64 => {
                i128::from(i64::from_le_bytes(self.fixed(column)))
            }
            Type::Decimal { .. } => i128::from_le_bytes(self.fixed(column)),
            _ => panic!("column {column} is not a decimal"),
        }
    }

    #[inline]
    pub(crate) fn text_bytes(&self, column: usize) -> &'a [u8] {
        assert!(self.kind(column) == Type::Text, "column {column} is not text");
        let slot: [u8; 8] = self.fixed(column);
        let word = u64::from_le_bytes(slot);
        let (start, bytes) = ((word & 0xffff_ffff) as usize, (word >> 32) as usize);
        &self.bytes[start..start + bytes]
    }

    #[inline]
    pub(crate) fn text(&self, column: usize) -> &'a str {
        crate::raw::text::trusted(self.text_bytes(column))
    }

    /// The bytes of the column's slot.
    pub(crate) fn slot_bytes(&self, column: usize) -> &'a [u8] {
        let at = self.layout.slots[column].offset as usize;
        &self.bytes[at..at + self.kind(column).slot_bytes()]
    }

    /// The column as a value, if the image, which somebody else wrote, holds one.
    pub(crate) fn try_value(&self, column: usize) -> Option<Value<'a>> {
        if self.kind(column) != Type::Text || self.is_null(column) {
            return Some(self.value(column));
        }
        let slot = u64::from_le_bytes(self.fixed(column));
        let start = (slot & 0xffff_ffff) as usize;
        let text = self.bytes.get(start..start.checked_add((slot >> 32) as usize)?)?;
        std::str::from_utf8(text).ok().map(Value::Text)
    }

    /// The column as a value.
    pub(crate) fn value(&self, column: usize) -> Value<'a> {
        if self.is_null(column) {
            return Value::Null;
        }
        match self.kind(column) {
            Type::Int32 => Value::Int32(self.i32(column)),
            Type::Date => Value::Date(self.i32(column)),
            Type::Int64 => Value::Int64(self.i64(column)),
            Type::Timestamp => Value::Timestamp(self.i64(column)),
            Type::Decimal { .. } => Value::Decimal(self.decimal(column)),
            Type::Text => Value::Text(self.text(column)),
        }
    }
}
