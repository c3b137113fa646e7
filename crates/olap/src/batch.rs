//! Batches of an answer on their way to the client.
//!
//! **Invariant:** a piece counts the bytes of its own rows. A batch that is a small part of the arrays behind it is copied
//! before it waits for a client, so that what waits holds at most [`SHARE_MAX`] times the bytes that it counts.

use crate::values::{ArrayReader, mismatch, readers};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, MutableArrayData, RecordBatch, RecordBatchOptions, make_array,
};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;
use query::rows::{BatchReader, BatchValue, RowBatch};
use statement::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use types::SqlType;

/// Rows of one piece of a stream.
const PIECE_ROWS: usize = 1024;

/// Bytes of one piece of a stream, unless its only row has more.
const PIECE_BYTES: usize = 256 << 10;

/// Bytes of a piece and of each of its columns beside the values.
const PIECE_OVERHEAD: usize = 128;

/// Bytes that arrays may hold for each byte of the rows that they are kept for. A frozen block has eight times the rows of a
/// batch, which is read where it lies.
const SHARE_MAX: usize = 16;

/// Bytes of arrays that are worth no copy.
const SMALL_ARRAYS: usize = 64 << 10;

/// Greatest length of a text or `bytea` that stands in its view.
const IN_VIEW: usize = 12;

/// Rows of an answer, all of a batch or a slice of it.
#[derive(Debug)]
pub(crate) struct AnswerBatch {
    rows: RecordBatch,
    columns: Arc<[SqlType]>,
}

impl AnswerBatch {
    /// Creates a batch whose columns are of these types.
    ///
    /// # Errors
    /// `XX000` if they are not.
    pub(crate) fn new(rows: RecordBatch, columns: &Arc<[SqlType]>) -> SqlResult<AnswerBatch> {
        readers(&rows, columns)?;
        let share = RowSizes::new(&rows)?.sum();
        let is_small_part = share.saturating_mul(SHARE_MAX).max(SMALL_ARRAYS) < rows.get_array_memory_size();
        let rows = if is_small_part { copied(&rows)? } else { rows };
        Ok(AnswerBatch { rows, columns: Arc::clone(columns) })
    }

    /// Returns the piece that begins with a row, and its bytes; none behind the last row.
    ///
    /// # Errors
    /// `XX000` for columns of other types than were planned.
    pub(crate) fn piece(&self, from: usize) -> SqlResult<Option<(AnswerBatch, usize)>> {
        let sizes = RowSizes::new(&self.rows)?;
        let end = self.rows.num_rows().min(from + PIECE_ROWS);
        let (mut to, mut bytes) = (from, 0);
        while to < end {
            let with_next = bytes + sizes.of(to);
            if from < to && PIECE_BYTES < with_next {
                break;
            }
            (to, bytes) = (to + 1, with_next);
        }
        if from == to {
            return Ok(None);
        }
        let rows = self.rows.slice(from, to - from);
        let overhead = (1 + rows.num_columns()) * PIECE_OVERHEAD;
        Ok(Some((AnswerBatch { rows, columns: Arc::clone(&self.columns) }, bytes + overhead)))
    }
}

impl RowBatch for AnswerBatch {
    fn rows_count(&self) -> usize {
        self.rows.num_rows()
    }

    fn reader(&self) -> SqlResult<Box<dyn BatchReader + '_>> {
        Ok(Box::new(AnswerReader(readers(&self.rows, &self.columns)?)))
    }
}

/// Reader of the columns of an answer.
struct AnswerReader<'a>(Vec<ArrayReader<'a>>);

impl BatchReader for AnswerReader<'_> {
    fn columns_count(&self) -> usize {
        self.0.len()
    }

    fn value(&self, row: usize, column: usize) -> SqlResult<BatchValue<'_>> {
        self.0.get(column).ok_or_else(mismatch)?.value(row)
    }
}

/// Sizes of the rows of a batch, as its arrays hold them.
struct RowSizes<'a> {
    /// Bytes of a row, without texts that are too long for their views.
    fixed: usize,
    views: Vec<&'a [u128]>,
    rows_count: usize,
}

impl RowSizes<'_> {
    fn new(rows: &RecordBatch) -> SqlResult<RowSizes<'_>> {
        let (mut fixed, mut views) = (0, Vec::new());
        for array in rows.columns() {
            let of = array.data_type();
            if let Some(texts) = array.as_string_view_opt() {
                views.push(&**texts.views());
            } else if let Some(bytes) = array.as_binary_view_opt() {
                views.push(&**bytes.views());
            } else if let Some(width) = of.primitive_width() {
                fixed += width;
            } else if *of == DataType::Boolean {
                fixed += 1;
            } else if *of != DataType::Null {
                return Err(mismatch());
            }
        }
        fixed += views.len() * size_of::<u128>();
        Ok(RowSizes { fixed, views, rows_count: rows.num_rows() })
    }

    /// Returns the bytes of a row.
    fn of(&self, row: usize) -> usize {
        // A view begins with the length.
        let length = |views: &&[u128]| views.get(row).map_or(0, |view| *view as u32 as usize);
        self.fixed + self.views.iter().map(length).filter(|length| IN_VIEW < *length).sum::<usize>()
    }

    /// Returns the bytes of all rows.
    fn sum(&self) -> usize {
        (0..self.rows_count).map(|row| self.of(row)).sum()
    }
}

/// Returns the rows in arrays of their own.
fn copied(rows: &RecordBatch) -> SqlResult<RecordBatch> {
    let copy = |array: &ArrayRef| -> Result<ArrayRef, ArrowError> {
        if let Some(texts) = array.as_string_view_opt() {
            return Ok(Arc::new(texts.gc()));
        }
        if let Some(bytes) = array.as_binary_view_opt() {
            return Ok(Arc::new(bytes.gc()));
        }
        let data = array.to_data();
        let mut copy = MutableArrayData::new(vec![&data], false, data.len());
        copy.try_extend(0, 0, data.len())?;
        Ok(make_array(copy.freeze()))
    };
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    let columns = rows.columns().iter().map(copy).collect::<Result<_, _>>();
    let all = columns.and_then(|columns| RecordBatch::try_new_with_options(rows.schema(), columns, &options));
    all.map_err(|error| SqlError::new(SqlState::INTERNAL_ERROR, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Int64Array, StringViewArray};
    use query::rows::rows_of;
    use types::{Datum, Kind};

    fn batch(rows_count: usize, text: impl Fn(usize) -> String) -> (RecordBatch, Arc<[SqlType]>) {
        let numbers = Int64Array::from_iter((0..rows_count).map(|row| (row % 3 != 0).then_some(row as i64)));
        let texts = StringViewArray::from_iter_values((0..rows_count).map(text));
        let columns: [(&str, ArrayRef); 2] = [("n", Arc::new(numbers)), ("t", Arc::new(texts))];
        (RecordBatch::try_from_iter(columns).unwrap(), [Kind::Int8, Kind::Text].map(SqlType::from).into())
    }

    /// Returns the rows and the bytes of each piece.
    fn pieces(batch: &AnswerBatch) -> Vec<(usize, usize)> {
        let (mut from, mut all) = (0, Vec::new());
        while let Some((piece, bytes)) = batch.piece(from).unwrap() {
            let expected: Vec<_> = rows_of(batch).unwrap()[from..][..piece.rows_count()].to_vec();
            assert_eq!(rows_of(&piece).unwrap(), expected);
            from += piece.rows_count();
            all.push((piece.rows_count(), bytes - 3 * PIECE_OVERHEAD));
        }
        assert_eq!(from, batch.rows_count());
        all
    }

    /// Goal: pieces are bounded, and each counts its own rows. Method: short texts, long ones, and one that is too long.
    #[test]
    fn pieces_count_their_share() {
        let (rows, columns) = batch(2500, |row| format!("{row}"));
        let short = AnswerBatch::new(rows, &columns).unwrap();
        assert_eq!(pieces(&short), [(1024, 1024 * 24), (1024, 1024 * 24), (452, 452 * 24)]);
        let (rows, columns) = batch(5, |_| "x".repeat(100_000));
        let long = AnswerBatch::new(rows, &columns).unwrap();
        assert_eq!(pieces(&long), [(2, 200_048), (2, 200_048), (1, 100_024)]);
        let (rows, columns) = batch(3, |row| "x".repeat(1_000_000 * (row % 2)));
        let longest = AnswerBatch::new(rows, &columns).unwrap();
        assert_eq!(pieces(&longest), [(1, 24), (1, 1_000_024), (1, 24)]);
        assert_eq!(pieces(&AnswerBatch::new(batch(0, |_| String::new()).0, &columns).unwrap()), []);
    }

    /// Goal: few rows do not keep many in memory. Method: slices of a batch, a fifth and a thousandth.
    #[test]
    fn a_small_part_of_large_arrays_is_copied() {
        let (rows, columns) = batch(10_000, |row| format!("text number {row} of a hundred bytes, {}", "x".repeat(70)));
        let whole = rows.get_array_memory_size();
        for (from, count, is_copied) in [(5000, 2000, false), (7001, 10, true)] {
            let part = AnswerBatch::new(rows.slice(from, count), &columns).unwrap();
            let held = part.rows.get_array_memory_size();
            assert_eq!(held < whole / 10, is_copied, "{held} of {whole}");
            let all = rows_of(&AnswerBatch { rows: rows.clone(), columns: Arc::clone(&columns) }).unwrap();
            assert_eq!(rows_of(&part).unwrap(), all[from..from + count]);
            assert_eq!(all[from][0], if from % 3 == 0 { Datum::Null } else { Datum::Int8(from as i64) });
        }
    }
}
