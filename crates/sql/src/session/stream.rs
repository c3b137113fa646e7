//! Results that are sent while they are computed.
//!
//! **Invariant:** rows go to a sink only when the path of a query is settled and it cannot restart: the query only
//! reads, and calls no volatile function. From the first row on, an error is final.

use super::queries::rows;
use super::run::{RunNeeds, StatementRun};
use super::{Outcome, PlannedQuery, Session, Step};
use locked::Locked;
use query::bind::CopyTo;
use query::plan::ColumnInfo;
use query::plan::Plan;
use query::rows::ResultPiece;
use statement::error::SqlResult;
use statement::outcome::{CommandTag, CopyShape};
use statement::stream::Stream;
use std::fmt;
use std::sync::{Arc, Mutex};
use types::forms::Forms;

/// Capacity of a sink in bytes: enough to keep a fast client busy, and small enough for many slow ones.
pub(super) const CAPACITY: usize = 1 << 20;

/// Receiver of the result of one statement.
pub struct ResultSink {
    stream: Arc<Stream<ResultPiece>>,
    head: Mutex<Option<Arc<ResultHead>>>,
}

/// Destination of the rows of the statement that is executed next.
#[derive(Debug, Default)]
pub enum Destination {
    /// Rows are returned at the end of the statement.
    #[default]
    Whole,
    /// Rows may go to a sink, which is created when it is needed: [`Session::sink`].
    Later,
    /// Rows belong to a cursor, whose query may continue after the statement.
    Cursor {
        /// True if the query has turned out to be large.
        is_large: bool,
    },
    /// Rows may go to this sink.
    Sink {
        /// Sink.
        sink: Arc<ResultSink>,
        /// True if the thread that executes the statement may wait for the receiver.
        may_block: bool,
    },
}

/// Head of a streamed result.
#[derive(Debug)]
pub enum ResultHead {
    /// Rows.
    Rows {
        /// Columns.
        columns: Arc<[ColumnInfo]>,
        /// Formats of values as text.
        forms: Forms,
    },
    /// Data of `COPY … TO STDOUT`.
    Copy(CopyShape),
}

impl fmt::Debug for ResultSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResultSink")
    }
}

impl Default for ResultSink {
    fn default() -> ResultSink {
        ResultSink::new()
    }
}

impl ResultSink {
    /// Creates an empty sink.
    pub fn new() -> ResultSink {
        ResultSink { stream: Arc::new(Stream::new(CAPACITY)), head: Mutex::default() }
    }

    /// Returns the queue of pieces.
    pub fn stream(&self) -> &Arc<Stream<ResultPiece>> {
        &self.stream
    }

    /// Returns the head of the result, which is known as soon as its first piece has arrived.
    pub fn head(&self) -> Option<Arc<ResultHead>> {
        self.head.locked_anyway().clone()
    }

    fn set_head(&self, head: ResultHead) {
        *self.head.locked_anyway() = Some(Arc::new(head));
    }
}

impl Session {
    /// Sets the destination for the rows of the next portal. If they have gone to a sink, the outcome is
    /// [`Outcome::Streamed`].
    pub fn stream_to(&mut self, destination: Destination) {
        self.destination = destination;
    }

    /// Returns the sink of the portal that was executed last, if it has one.
    pub fn sink(&self) -> Option<&Arc<ResultSink>> {
        match &self.destination {
            Destination::Whole | Destination::Later | Destination::Cursor { .. } => None,
            Destination::Sink { sink, may_block: _ } => Some(sink),
        }
    }

    /// Returns the queue for rows of a query that starts as analytics.
    pub(super) fn stream_of(&mut self, given: StatementRun<'_>) -> Option<Arc<Stream<ResultPiece>>> {
        match &self.destination {
            Destination::Whole => return None,
            Destination::Cursor { .. } => return Some(Arc::new(Stream::new(CAPACITY))),
            Destination::Later => self.destination = Destination::Sink { sink: Arc::default(), may_block: false },
            Destination::Sink { .. } => {}
        }
        let sink = self.sink()?;
        self.begin_stream(sink, given);
        Some(Arc::clone(&sink.stream))
    }

    fn begin_stream(&self, sink: &ResultSink, given: StatementRun<'_>) {
        let columns = given.bound.columns.clone().unwrap_or_default();
        sink.set_head(ResultHead::Rows { columns, forms: self.forms().clone() });
    }

    /// Runs a query on the row path: to its end, or until its rows arrive at its cursor.
    pub(super) fn by_rows(&mut self, given: StatementRun<'_>, query: &PlannedQuery) -> SqlResult<Step> {
        match self.destination {
            _ if !self.may_run_apart(given, query) => self.by_all_rows(given, query),
            Destination::Cursor { is_large: true } => self.run_apart(given, query),
            Destination::Cursor { is_large: false }
            | Destination::Whole
            | Destination::Later
            | Destination::Sink { .. } => self.by_first_rows(given, query, |session| session.run_apart(given, query)),
        }
    }

    /// Runs a query by rows, to its end.
    pub(super) fn by_all_rows(&mut self, given: StatementRun<'_>, query: &PlannedQuery) -> SqlResult<Step> {
        match self.sink_of(given, &query.rows) {
            Some(sink) => self.stream_rows(given, query, &sink),
            None => {
                let ran = self.run(given.values, RunNeeds::of(given.bound), |run| run.collect(&query.rows))?;
                self.step_of(ran, given, |_, all| Ok(Step::Done(rows(all))))
            }
        }
    }

    /// Returns the sink for a plan of the row executor, if its result can be sent while it is computed.
    pub(super) fn sink_of(&self, given: StatementRun<'_>, plan: &Plan) -> Option<Arc<ResultSink>> {
        match &self.destination {
            Destination::Sink { sink, may_block: true } => given.bound.known.is_pure(plan).then(|| Arc::clone(sink)),
            Destination::Whole | Destination::Later | Destination::Cursor { .. } | Destination::Sink { .. } => None,
        }
    }

    /// Runs a COPY to the client to its end.
    pub(super) fn stream_copy(
        &mut self,
        given: StatementRun<'_>,
        to: &CopyTo,
        shape: CopyShape,
        sink: &ResultSink,
    ) -> SqlResult<Step> {
        sink.set_head(ResultHead::Copy(shape));
        let ran = self.run(given.values, RunNeeds::of(given.bound), |run| {
            run.copy_pieces(to, &mut |piece| {
                let bytes = piece.data.len();
                sink.stream.push(ResultPiece::Copy(piece), bytes, || run.look())
            })
        })?;
        self.step_of(ran, given, |_, rows| {
            Ok(Step::Done(Outcome::Streamed(CommandTag { words: "COPY", rows: Some(rows) })))
        })
    }

    fn stream_rows(&mut self, given: StatementRun<'_>, query: &PlannedQuery, sink: &ResultSink) -> SqlResult<Step> {
        self.begin_stream(sink, given);
        let ran = self.run(given.values, RunNeeds::of(given.bound), |run| {
            // From now on the statement has the columns of its rows.
            given.statement.settle();
            run.stream(&query.rows, &mut |rows, bytes| sink.stream.push(ResultPiece::Rows(rows), bytes, || run.look()))
        })?;
        self.step_of(ran, given, |_, count| Ok(Step::Done(streamed(count))))
    }
}

/// Returns the outcome of a query whose rows have gone to a sink.
pub(super) fn streamed(count: u64) -> Outcome {
    Outcome::Streamed(CommandTag { words: "SELECT", rows: Some(count) })
}
