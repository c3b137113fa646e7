//! Rows of a result, and the memory of rows that a statement keeps.

use engine::memory::block_bytes;
use statement::error::{SqlError, SqlResult, SqlState};
use std::fmt;
use types::datum::Datum;

/// Rows of a result.
pub type Rows = Vec<Box<[Datum]>>;

/// Piece of a result on the way to the client.
#[derive(Debug)]
pub enum ResultPiece {
    /// Rows.
    Rows(Rows),
    /// Rows of an analytics query, as columns.
    Batch(Box<dyn RowBatch>),
    /// Messages of `COPY … TO STDOUT`.
    Copy(CopyPiece),
}

/// Rows of a result in columnar form, as analytics has computed them. They are converted when they are written.
pub trait RowBatch: fmt::Debug + Send + Sync {
    /// Returns the number of rows.
    fn rows_count(&self) -> usize;

    /// Returns a reader of the values.
    ///
    /// # Errors
    /// Fails with `XX000` if the columns do not have the planned types.
    fn reader(&self) -> SqlResult<Box<dyn BatchReader + '_>>;
}

/// Reader of the values of a [`RowBatch`].
pub trait BatchReader: Send + Sync {
    /// Returns the number of columns.
    fn columns_count(&self) -> usize;

    /// Returns the value of a row in a column.
    ///
    /// # Errors
    /// Fails with `XX000` for bytes that are not a value of the column's type.
    fn value(&self, row: usize, column: usize) -> SqlResult<BatchValue<'_>>;
}

/// Value of a [`RowBatch`], which borrows its texts and bytes.
#[derive(Debug)]
pub enum BatchValue<'b> {
    /// Text. A `char(n)` is followed by blanks.
    Text {
        /// Text without these blanks.
        text: &'b str,
        /// Number of blanks.
        blanks: usize,
    },
    /// `bytea`.
    Bytes(&'b [u8]),
    /// Value of another type, or NULL. Values of fixed size do not allocate.
    Datum(Datum),
}

impl BatchValue<'_> {
    /// Returns the value for a row that outlives the batch.
    pub fn into_datum(self) -> Datum {
        match self {
            BatchValue::Text { text, blanks: 0 } => Datum::text(text),
            BatchValue::Text { text, blanks } => {
                let mut all = String::with_capacity(text.len() + blanks);
                all.push_str(text);
                all.extend(std::iter::repeat_n(' ', blanks));
                Datum::text(all)
            }
            BatchValue::Bytes(bytes) => Datum::Bytes(bytes.into()),
            BatchValue::Datum(datum) => datum,
        }
    }
}

/// Copies the rows of a batch, for callers that keep them.
///
/// # Errors
/// Fails as the reader does.
pub fn rows_of(batch: &dyn RowBatch) -> SqlResult<Rows> {
    let reader = batch.reader()?;
    let value = |row, column| reader.value(row, column).map(BatchValue::into_datum);
    let row = |row| (0..reader.columns_count()).map(|column| value(row, column)).collect();
    (0..batch.rows_count()).map(row).collect()
}

/// Consecutive messages of `COPY … TO STDOUT`.
#[derive(Debug, Default)]
pub struct CopyPiece {
    /// Data of the messages.
    pub data: Vec<u8>,
    /// Ends of the messages in the data.
    ends: Vec<usize>,
}

impl CopyPiece {
    /// Ends a message, which consists of all data since the previous end.
    pub fn end_message(&mut self) {
        self.ends.push(self.data.len());
    }

    /// Returns the messages: the rows, and the header and trailer of the format.
    pub fn messages(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).filter_map(|(start, end)| self.data.get(start..*end))
    }
}

/// Maximal number of bytes that a statement may keep: its result, and rows that it sorts or groups.
pub const BYTES_MAX: usize = 1 << 30;

/// Returns the bytes of a row, as the allocator counts them.
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

/// Returns the error for a statement that keeps more than [`BYTES_MAX`].
pub fn too_much() -> SqlError {
    SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
        .detail("The rows that the statement returns, sorts or groups take more than 1 GiB.")
        .hint("Use LIMIT, or a narrower condition.")
}
