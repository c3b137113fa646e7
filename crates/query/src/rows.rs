//! Rows of a result, and the memory of rows that a statement keeps.

use engine::memory::block_bytes;
use statement::error::{SqlError, SqlState};
use types::datum::Datum;

/// Rows of a result.
pub type Rows = Vec<Box<[Datum]>>;

/// Piece of a result on the way to the client.
#[derive(Debug)]
pub enum ResultPiece {
    /// Rows.
    Rows(Rows),
    /// Messages of `COPY … TO STDOUT`.
    Copy(CopyPiece),
}

/// Messages of `COPY … TO STDOUT`, one behind the other.
#[derive(Debug, Default)]
pub struct CopyPiece {
    /// Their data.
    pub data: Vec<u8>,
    /// Ends of the messages in the data.
    ends: Vec<usize>,
}

impl CopyPiece {
    /// Ends a message: all data that were added since the last end.
    pub fn end_message(&mut self) {
        self.ends.push(self.data.len());
    }

    /// Returns the messages: a row each, or what stands before the first or behind the last.
    pub fn messages(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).filter_map(|(start, end)| self.data.get(start..*end))
    }
}

/// Bytes that a statement may keep: its result, what it sorts, what it groups.
pub const BYTES_MAX: usize = 1 << 30;

/// What a row takes, as the allocator counts it.
pub fn bytes_of(row: &[Datum]) -> usize {
    let beside = |value: &Datum| match value {
        Datum::Text(text) => block_bytes(text.len()),
        Datum::Bytes(bytes) => block_bytes(bytes.len()),
        Datum::Array(items) => bytes_of(items),
        Datum::Numeric(number) => number.bytes_beside(),
        Datum::Null
        | Datum::Bool(_)
        | Datum::Int2(_)
        | Datum::Int4(_)
        | Datum::Int8(_)
        | Datum::Oid(_)
        | Datum::Float4(_)
        | Datum::Float8(_)
        | Datum::Date(_)
        | Datum::Time(_)
        | Datum::Timestamp(_)
        | Datum::Interval(_)
        | Datum::Uuid(_) => 0,
    };
    block_bytes(size_of_val(row)) + row.iter().map(beside).sum::<usize>()
}

/// A statement keeps more than [`BYTES_MAX`].
pub fn too_much() -> SqlError {
    SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
        .detail("The rows that the statement returns, sorts or groups take more than 1 GiB.")
        .hint("Use LIMIT, or a narrower condition.")
}
