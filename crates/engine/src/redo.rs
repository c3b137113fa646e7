//! Redo records: the changes of a commit, as bytes for the log.
//!
//! **Invariant:** applying the changes of all records in the order of their timestamps, and those of one record in order,
//! to the tables as they were gives the tables as they are. Updates carry only the columns that they touched.
//!
//! ```text
//! record   u32 bytes of all | u32 changes | u64 commit timestamp | changes ...           (little endian throughout)
//! change   u8 kind | u32 table | u64 row | ...
//!   1 insert          u32 bytes | row image
//!   2 update          u64 columns touched, a bit each | a value for each, lowest column first
//!   3 update, whole   u32 bytes | row image         (a touched column beyond the 63rd)
//!   4 delete
//! value    u8 0 (null) | u8 1, 1 to 16 bytes | u8 1, u32 count, so many bytes
//! ```

use crate::engine::{Engine, Inner};
use crate::error::{Error, Result};
use crate::raw::slots::SnapshotPin;
use crate::row::RowId;
use crate::row::layout::Image;
use crate::row::types::{Raw, Storage};
use crate::row::value::Value;
use crate::row::writer::Touched;
use crate::schema::table::Table;
use crate::txn::scratch::{Kind, Scratch};

const HEADER_BYTES: usize = 16;
const INSERT: u8 = 1;
const UPDATE: u8 = 2;
const UPDATE_WHOLE: u8 = 3;
const DELETE: u8 = 4;

/// Writes the record of the write set to `scratch.redo`; [`seal`] completes it.
pub(crate) fn encode(inner: &Inner, pin: &SnapshotPin, scratch: &mut Scratch) {
    let Scratch { writes, redo, .. } = scratch;
    redo.clear();
    redo.extend_from_slice(&[0; HEADER_BYTES]);
    for write in writes.iter() {
        let kind = match write.kind {
            Kind::Insert => INSERT,
            Kind::Update if write.touched.is_exact() => UPDATE,
            Kind::Update => UPDATE_WHOLE,
            Kind::Delete => DELETE,
        };
        redo.push(kind);
        redo.extend_from_slice(&write.table.to_le_bytes());
        redo.extend_from_slice(&write.row.to_le_bytes());
        let Some(new) = write.change.published(pin) else { continue };
        if kind == UPDATE {
            let layout = &inner.table(write.table, pin).layout;
            redo.extend_from_slice(&write.touched.0.to_le_bytes());
            let image = Image { layout, bytes: new.image() };
            write.touched.columns().for_each(|column| encode_column(image, column, redo));
        } else {
            redo.extend_from_slice(&(new.image().len() as u32).to_le_bytes());
            redo.extend_from_slice(new.image());
        }
    }
    let changes = writes.len() as u32;
    redo[4..8].copy_from_slice(&changes.to_le_bytes());
    // A record of 4 GiB or more would need 250 images of the largest size; the length saturates and decoding refuses it.
    let bytes = u32::try_from(redo.len()).unwrap_or(u32::MAX);
    redo[0..4].copy_from_slice(&bytes.to_le_bytes());
}

fn encode_column(image: Image<'_>, column: usize, redo: &mut Vec<u8>) {
    if image.is_null(column) {
        return redo.push(0);
    }
    redo.push(1);
    match image.stored(column) {
        Raw::Null => unreachable!("it was looked at above"),
        Raw::One(v) => redo.push(v),
        Raw::Two(v) => redo.extend_from_slice(&v.to_le_bytes()),
        Raw::Four(v) => redo.extend_from_slice(&v.to_le_bytes()),
        Raw::Eight(v) => redo.extend_from_slice(&v.to_le_bytes()),
        Raw::Sixteen(v) => redo.extend_from_slice(&v.to_le_bytes()),
        Raw::Bytes(bytes) => {
            redo.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            redo.extend_from_slice(bytes);
        }
    }
}

/// Completes a record with the commit's timestamp.
#[inline]
pub(crate) fn seal(redo: &mut [u8], timestamp: u64) {
    redo[8..16].copy_from_slice(&timestamp.to_le_bytes());
}

/// A change in a redo record.
#[derive(Debug, Clone, PartialEq)]
pub struct Redo<'a> {
    /// Number of the table: [`Table::number`].
    pub table: u32,
    /// Row that was changed.
    pub row: RowId,
    /// Kind of the change, with its values.
    pub what: RedoWhat<'a>,
}

/// Kind of a change of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum RedoWhat<'a> {
    /// The row was inserted with these values.
    Insert(Vec<Value<'a>>),
    /// Columns of the row got these values.
    Update(Vec<(usize, Value<'a>)>),
    /// The row was deleted.
    Delete,
}

impl Engine {
    /// Decodes a redo record of this engine's tables: the commit's timestamp, and its changes in order.
    ///
    /// # Errors
    /// [`Error::CorruptRedo`] if the bytes are no such record.
    pub fn decode_redo<'a>(&'a self, record: &'a [u8]) -> Result<(u64, Vec<Redo<'a>>)> {
        let mut bytes = Bytes(record);
        let (length, changes, timestamp) = (bytes.u32()?, bytes.u32()?, bytes.u64()?);
        if length as usize != record.len() {
            return Err(Error::CorruptRedo("wrong length"));
        }
        let mut redo = Vec::new();
        for _ in 0..changes {
            redo.push(self.decode_change(&mut bytes)?);
        }
        if bytes.0.is_empty() { Ok((timestamp, redo)) } else { Err(Error::CorruptRedo("bytes behind the last change")) }
    }

    fn decode_change<'a>(&'a self, bytes: &mut Bytes<'a>) -> Result<Redo<'a>> {
        let kind = bytes.u8()?;
        let (id, row) = (bytes.u32()?, RowId(bytes.u64()?));
        let table = &*self.inner.tables.find(id).ok_or(Error::CorruptRedo("unknown table"))?;
        let what = match kind {
            INSERT => RedoWhat::Insert(decode_image(table, bytes)?),
            UPDATE_WHOLE => RedoWhat::Update(decode_image(table, bytes)?.into_iter().enumerate().collect()),
            UPDATE => {
                let touched = Touched(bytes.u64()?);
                let columns: Result<Vec<_>> =
                    touched.columns().map(|column| Ok((column, decode_column(table, column, bytes)?))).collect();
                RedoWhat::Update(columns?)
            }
            DELETE => RedoWhat::Delete,
            _ => return Err(Error::CorruptRedo("unknown kind of change")),
        };
        Ok(Redo { table: id, row, what })
    }
}

fn decode_image<'a>(table: &Table, bytes: &mut Bytes<'a>) -> Result<Vec<Value<'a>>> {
    let length = bytes.u32()? as usize;
    let image = bytes.take(length)?;
    if image.len() < table.layout.fixed_end {
        return Err(Error::CorruptRedo("short row image"));
    }
    (0..table.columns().len())
        .map(|column| table.layout.try_value(image, column).ok_or(Error::CorruptRedo("text outside of the row image")))
        .collect()
}

fn decode_column<'a>(table: &Table, column: usize, bytes: &mut Bytes<'a>) -> Result<Value<'a>> {
    let slot = table.layout.slots.get(column).ok_or(Error::CorruptRedo("unknown column"))?;
    if bytes.u8()? == 0 {
        return Ok(Value::Null);
    }
    let raw = match slot.storage {
        Storage::One => Raw::One(bytes.u8()?),
        Storage::Two => Raw::Two(u16::from_le_bytes(bytes.array()?)),
        Storage::Four => Raw::Four(bytes.u32()?),
        Storage::Eight => Raw::Eight(bytes.u64()?),
        Storage::Sixteen => Raw::Sixteen(u128::from_le_bytes(bytes.array()?)),
        Storage::Bytes => {
            let length = bytes.u32()? as usize;
            Raw::Bytes(bytes.take(length)?)
        }
    };
    slot.kind.value(raw).ok_or(Error::CorruptRedo("a value that its column cannot have"))
}

/// Bytes that are left to decode.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Error::CorruptRedo("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("take gives as many bytes as asked"))
    }

    fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }
}
