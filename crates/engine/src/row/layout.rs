//! The row image: one contiguous run of bytes for a whole row.
//!
//! **Invariant:** an image, once part of a version, never changes. Every image of a table starts with the number of the
//! schema that laid it out, so that a later schema can read it.
//!
//! ```text
//! byte 0        4                 fixed_start          fixed_end               image end
//!      | schema | null bitmap | 0 | slots              | variable bytes ...    |
//!      | u32 LE | 1 bit/column|pad| 16- to 1-byte      | in any order          |
//!
//! slot of a value of 1, 2, 4, 8 or 16 bytes     the value, little endian
//!         one of any number of bytes            offset from byte 0 (u32), length (u32)
//! ```
//!
//! Slots stand in falling size from a multiple of 8, so each is aligned, to 8 at most, inside the image. A null column
//! has its bit set and its slot zero. The storage class of each type is in `types.rs`.

use crate::error::{Error, InvalidValue, Result};
use crate::row::types::{DIGITS_IN_I64, Raw, Storage};
use crate::row::value::{Type, Value};
use crate::schema::table::Column;

/// Offset of the null bitmap: behind the schema number.
pub(crate) const BITMAP_START: usize = size_of::<u32>();
/// Largest number of bytes of a row's image.
pub(crate) const IMAGE_BYTES_MAX: usize = 16 << 20;
/// Largest number of columns of a table.
pub(crate) const COLUMNS_MAX: usize = 1600;

const _: () = assert!(BITMAP_START == 4);
const _: () = assert!(Storage::Bytes.slot_bytes() == 2 * size_of::<u32>());
const _: () = assert!(IMAGE_BYTES_MAX <= u32::MAX as usize);

/// Place of one column in an image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ColumnSlot {
    pub(crate) offset: u32,
    pub(crate) kind: Type,
    /// Storage of the column's type.
    pub(crate) storage: Storage,
    pub(crate) nullable: bool,
}

/// Layout of the images of one schema version.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) schema_version: u32,
    pub(crate) slots: Vec<ColumnSlot>,
    pub(crate) fixed_end: usize,
}

impl Layout {
    pub(crate) fn new(schema_version: u32, columns: &[Column]) -> Layout {
        let bitmap_bytes = columns.len().div_ceil(8);
        let mut offset = (BITMAP_START + bitmap_bytes).next_multiple_of(8);
        let slot = |column: &Column| {
            let Column { kind, nullable, .. } = *column;
            ColumnSlot { offset: 0, kind, storage: kind.storage(), nullable }
        };
        let mut slots: Vec<ColumnSlot> = columns.iter().map(slot).collect();
        for bytes in [16, 8, 4, 2, 1] {
            for slot in slots.iter_mut().filter(|slot| slot.storage.slot_bytes() == bytes) {
                slot.offset = offset as u32;
                offset += bytes;
            }
        }
        Layout { schema_version, slots, fixed_end: offset }
    }

    /// Writes the image of `values` to `image`, replacing what is there.
    pub(crate) fn encode(&self, values: &[Value<'_>], image: &mut Vec<u8>) -> Result<(), Unfit> {
        if values.len() != self.slots.len() {
            return Err(Unfit { column: values.len().min(self.slots.len()), why: InvalidValue::WrongCount });
        }
        image.clear();
        image.resize(self.fixed_end, 0);
        image[..BITMAP_START].copy_from_slice(&self.schema_version.to_le_bytes());
        for (column, value) in values.iter().enumerate() {
            let slot = &self.slots[column];
            let raw = match slot.raw(*value) {
                Ok(raw) => raw,
                Err(why) => return Err(Unfit { column, why }),
            };
            let at = slot.offset as usize;
            match raw {
                Raw::Null => image[BITMAP_START + column / 8] |= 1 << (column % 8),
                Raw::Bytes(bytes) => {
                    let start = image.len() as u32;
                    image.extend_from_slice(bytes);
                    put_bytes_slot(image, at, start, bytes.len() as u32);
                }
                fixed @ (Raw::One(_) | Raw::Two(_) | Raw::Four(_) | Raw::Eight(_) | Raw::Sixteen(_)) => {
                    put_fixed(image, at, fixed);
                }
            }
        }
        if image.len() > IMAGE_BYTES_MAX { Err(Unfit { column: 0, why: InvalidValue::RowTooWide }) } else { Ok(()) }
    }
}

impl ColumnSlot {
    /// Returns the value as the column stores it; if it cannot hold it, the reason.
    #[inline]
    pub(crate) fn raw<'v>(&self, value: Value<'v>) -> Result<Raw<'v>, InvalidValue> {
        match self.kind.raw(value) {
            Ok(Raw::Null) if !self.nullable => Err(InvalidValue::Null),
            raw => raw,
        }
    }
}

/// Error: a value that its column cannot hold.
#[derive(Debug)]
pub(crate) struct Unfit {
    pub(crate) column: usize,
    pub(crate) why: InvalidValue,
}

impl Unfit {
    pub(crate) fn at(self, table: &str, columns: &[Column]) -> Error {
        let column = columns.get(self.column).map_or("?", |column| column.name.as_str());
        Error::InvalidValue { place: format!("{table}.{column}"), why: self.why }
    }
}

/// Writes a value of fixed length to its slot.
#[inline]
pub(crate) fn put_fixed(image: &mut [u8], at: usize, raw: Raw<'_>) {
    match raw {
        Raw::One(v) => image[at] = v,
        Raw::Two(v) => image[at..at + 2].copy_from_slice(&v.to_le_bytes()),
        Raw::Four(v) => image[at..at + 4].copy_from_slice(&v.to_le_bytes()),
        Raw::Eight(v) => image[at..at + 8].copy_from_slice(&v.to_le_bytes()),
        Raw::Sixteen(v) => image[at..at + 16].copy_from_slice(&v.to_le_bytes()),
        Raw::Null | Raw::Bytes(_) => unreachable!("not of fixed length"),
    }
}

pub(crate) fn put_bytes_slot(image: &mut [u8], at: usize, start: u32, bytes: u32) {
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
    pub(crate) fn bool(&self, column: usize) -> bool {
        assert!(self.kind(column) == Type::Bool, "column {column} is not bool");
        self.fixed(column) == [1]
    }

    #[inline]
    pub(crate) fn i16(&self, column: usize) -> i16 {
        assert!(self.kind(column) == Type::Int16, "column {column} is not int16");
        i16::from_le_bytes(self.fixed(column))
    }

    #[inline]
    pub(crate) fn f64(&self, column: usize) -> f64 {
        assert!(self.kind(column) == Type::Float64, "column {column} is not float64");
        f64::from_le_bytes(self.fixed(column))
    }

    /// Returns the bytes of a column that has any number of them; empty if it is null.
    #[inline]
    pub(crate) fn any_bytes(&self, column: usize) -> &'a [u8] {
        let (start, bytes) = self.bytes_slot(column);
        &self.bytes[start..start + bytes]
    }

    #[inline]
    fn bytes_slot(&self, column: usize) -> (usize, usize) {
        assert!(self.layout.slots[column].storage == Storage::Bytes, "column {column} has no bytes");
        let word = u64::from_le_bytes(self.fixed(column));
        ((word & 0xffff_ffff) as usize, (word >> 32) as usize)
    }

    #[inline]
    pub(crate) fn text(&self, column: usize) -> &'a str {
        assert!(self.kind(column) == Type::Text, "column {column} is not text");
        crate::raw::text::trusted(self.any_bytes(column))
    }

    #[inline]
    pub(crate) fn byte_string(&self, column: usize) -> &'a [u8] {
        assert!(matches!(self.kind(column), Type::Bytes | Type::Keyed), "column {column} is not bytes");
        self.any_bytes(column)
    }

    /// Returns the stored value of the column; zero or empty if it is null.
    #[inline]
    pub(crate) fn stored(&self, column: usize) -> Raw<'a> {
        match self.layout.slots[column].storage {
            Storage::One => Raw::One(u8::from_le_bytes(self.fixed(column))),
            Storage::Two => Raw::Two(u16::from_le_bytes(self.fixed(column))),
            Storage::Four => Raw::Four(u32::from_le_bytes(self.fixed(column))),
            Storage::Eight => Raw::Eight(u64::from_le_bytes(self.fixed(column))),
            Storage::Sixteen => Raw::Sixteen(u128::from_le_bytes(self.fixed(column))),
            Storage::Bytes => Raw::Bytes(self.any_bytes(column)),
        }
    }

    /// Returns the stored value of the column.
    #[inline]
    pub(crate) fn raw(&self, column: usize) -> Raw<'a> {
        if self.is_null(column) { Raw::Null } else { self.stored(column) }
    }

    /// Returns the column as a value.
    pub(crate) fn value(&self, column: usize) -> Value<'a> {
        if self.kind(column) == Type::Text && !self.is_null(column) {
            return Value::Text(self.text(column));
        }
        self.kind(column).value(self.raw(column)).expect("only values of its type are ever written to a column")
    }
}

impl Layout {
    /// Returns a column of an image that comes from elsewhere, if it holds a valid one.
    pub(crate) fn try_value<'b>(&self, bytes: &'b [u8], column: usize) -> Option<Value<'b>> {
        let image = Image { layout: self, bytes };
        if image.is_null(column) {
            return Some(Value::Null);
        }
        let slot = &self.slots[column];
        let raw = match slot.storage {
            Storage::Bytes => {
                let (start, length) = image.bytes_slot(column);
                Raw::Bytes(bytes.get(start..start.checked_add(length)?)?)
            }
            Storage::One | Storage::Two | Storage::Four | Storage::Eight | Storage::Sixteen => {
                image.stored(column).fixed()?
            }
        };
        slot.kind.value(raw)
    }
}
