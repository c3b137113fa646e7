//! Rows of a cursor: all of them, or those that have come so far of a query that runs elsewhere: as analytics, or by rows
//! ([`super::cursor_run`]).
//!
//! **Invariant:** a running query reads the snapshot of its `DECLARE`, and began in a transaction without changes of its own. So
//! it returns the same rows whatever the transaction does later, and going back to a savepoint takes nothing from it. It ends
//! with its cursor.

use super::analysis::Analysis;
use super::names::{bytes_of_row, bytes_of_rows};
use query::rows::{BYTES_MAX, ResultPiece, Rows, rows_of, too_much};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::stream::Stream;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use types::datum::Datum;

/// Number of pieces of a result that are taken without a look at the time.
const PIECES_AT_ONCE: usize = 64;

/// Row of a result.
pub(super) type ResultRow = Box<[Datum]>;

/// Rows of a cursor.
#[derive(Debug)]
pub(super) enum CursorRows {
    /// The query has not run.
    None,
    /// All rows.
    Whole(Rows),
    /// Rows that come while the cursor goes forward.
    Arriving(ArrivingRows),
}

/// Rows of a query that runs, or has run, elsewhere, in a window that only goes forward.
#[derive(Debug)]
pub(super) struct ArrivingRows {
    /// Run of the query. None after it has ended well.
    analysis: Option<Arc<Analysis>>,
    stream: Arc<Stream<ResultPiece>>,
    /// Rows that have come and were not fetched.
    ready: VecDeque<ResultRow>,
    /// Bytes of these rows.
    bytes: usize,
    /// Number of rows that were fetched or passed over.
    passed: usize,
    /// End of the query, once no more rows come.
    end: Option<SqlResult<()>>,
}

impl CursorRows {
    /// Number of rows from the first one on, as far as they are known.
    pub(super) fn known(&self) -> usize {
        match self {
            CursorRows::None => 0,
            CursorRows::Whole(rows) => rows.len(),
            CursorRows::Arriving(rows) => rows.passed + rows.ready.len(),
        }
    }

    /// Takes the rows of a range. Those of a cursor that does not come back to them are gone.
    pub(super) fn take(&mut self, range: Range<usize>, is_back: bool, is_scrollable: bool) -> Rows {
        let rows = match self {
            CursorRows::None => return Rows::new(),
            CursorRows::Whole(rows) => rows,
            CursorRows::Arriving(rows) => return rows.take(range),
        };
        let Some(rows) = rows.get_mut(range) else { return Rows::new() };
        if !is_scrollable {
            return rows.iter_mut().map(std::mem::take).collect();
        }
        if is_back { rows.iter().rev().cloned().collect() } else { rows.to_vec() }
    }
}

impl ArrivingRows {
    /// Rows of a query whose first rows have come. `analysis` is none if it has ended.
    pub(super) fn new(analysis: Option<Arc<Analysis>>, stream: Arc<Stream<ResultPiece>>) -> ArrivingRows {
        ArrivingRows { analysis, stream, ready: VecDeque::new(), bytes: 0, passed: 0, end: None }
    }

    /// Sees to it that the rows of a range are there, as far as there are any; those before it are dropped. Returns the run to
    /// wait for while some are to come, or after a while: the thread has other sessions to serve.
    ///
    /// # Errors
    /// Errors of the query, if the rows before it do not suffice; `53200` for more rows than a statement may keep.
    pub(super) fn poll(&mut self, range: &Range<usize>) -> SqlResult<Option<Arc<Analysis>>> {
        let mut taken = 0;
        // What has ended has few pieces left.
        while self.analysis.is_none() || taken < PIECES_AT_ONCE {
            self.drop_before(range.start);
            if range.end <= self.passed + self.ready.len() {
                return Ok(None);
            }
            if let Some(end) = &self.end {
                return end.clone().map(|()| None);
            }
            // The end is looked at first: a run that has ended puts nothing more into its queue.
            let has_ended = self.analysis.as_ref().is_none_or(|analysis| analysis.is_ready());
            let rows = match self.stream.next_now() {
                Some(ResultPiece::Rows(rows)) => rows,
                Some(ResultPiece::Batch(batch)) => rows_of(&*batch)?,
                Some(ResultPiece::Copy(_)) => {
                    return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a cursor over data of COPY"));
                }
                None if has_ended => {
                    let answer = self.analysis.take().and_then(|analysis| analysis.take());
                    self.end = Some(answer.map_or(Ok(()), |answer| answer.map(drop)));
                    continue;
                }
                None => break,
            };
            taken += 1;
            self.bytes += bytes_of_rows(&rows);
            SqlError::check_room(0)?;
            if BYTES_MAX < self.bytes {
                return Err(too_much());
            }
            self.ready.extend(rows);
        }
        Ok(self.analysis.clone())
    }

    /// Takes the rows of a range, and drops those before it.
    fn take(&mut self, range: Range<usize>) -> Rows {
        self.drop_before(range.start);
        let count = range.len().min(self.ready.len());
        let rows: Rows = self.ready.drain(..count).collect();
        self.passed += count;
        self.bytes -= bytes_of_rows(&rows);
        rows
    }

    /// Drops the rows before this one that have come.
    fn drop_before(&mut self, row: usize) {
        let count = row.saturating_sub(self.passed).min(self.ready.len());
        self.bytes -= self.ready.drain(..count).map(|row| bytes_of_row(&row)).sum::<usize>();
        self.passed += count;
    }
}

impl Drop for ArrivingRows {
    fn drop(&mut self) {
        self.stream.close();
        if let Some(analysis) = &self.analysis {
            analysis.cancel();
        }
    }
}
