//! Rows on their way to the client while others are made.
//!
//! **Invariant:** a client that does not read holds at most one queue of rows, whose maker waits for it. When the client has
//! gone, or a row cannot be written, the queue closes, and its maker ends.

use super::{Session, Stop};
use crate::codec::{self, Scratch};
use query::plan::ColumnInfo;
use query::rows::{CopyPiece, ResultPiece, RowBatch, Rows};
use sql::session::{Destination, ResultHead, ResultSink};
use stage::Stage;
use statement::stream::Stream;
use statement::{SqlError, SqlState};
use std::sync::Arc;
use types::forms::Forms;
use wire::copy::CopyRows;
use wire::errors;
use wire::reply::Formats;

/// Rows of one statement that are sent as they come.
pub(crate) struct Streaming {
    /// Sink, as soon as there is one: a short statement has none.
    sink: Option<Arc<ResultSink>>,
    formats: Formats,
    /// True if the columns are described with the first row, as in the simple protocol.
    describes: bool,
    head: Option<Arc<ResultHead>>,
    sent: u64,
}

impl Streaming {
    /// Creates the stream of a statement that has not run yet.
    pub(crate) fn new(formats: Formats, describes: bool) -> Streaming {
        Streaming { sink: None, formats, describes, head: None, sent: 0 }
    }

    /// Returns the destination of rows on a thread that must not wait.
    pub(super) fn lazily(&self) -> Destination {
        match &self.sink {
            Some(sink) => Destination::Sink { sink: Arc::clone(sink), may_block: false },
            None => Destination::Later,
        }
    }

    /// Returns the destination of rows on another thread, which may wait or not.
    pub(super) fn sink_for(&mut self, may_block: bool) -> Destination {
        Destination::Sink { sink: Arc::clone(self.sink.get_or_insert_default()), may_block }
    }

    /// Takes over the sink that a statement has made.
    pub(super) fn take_sink(&mut self, sink: Option<&Arc<ResultSink>>) {
        if sink.is_some() {
            self.sink = sink.cloned();
        }
    }

    /// Returns the queue of rows, if there is one.
    pub(super) fn stream(&self) -> Option<&Arc<Stream<ResultPiece>>> {
        self.sink.as_ref().map(|sink| sink.stream())
    }

    /// Returns true if rows were sent, or are about to be: the statement cannot run again.
    pub(crate) fn has_begun(&self) -> bool {
        self.stream().is_some_and(|stream| stream.has_begun())
    }

    /// Closes the queue: whoever makes rows for it ends.
    pub(super) fn close(&self) {
        if let Some(stream) = self.stream() {
            stream.close();
        }
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        self.close();
    }
}

impl Session {
    /// Sends the pieces that are there.
    pub(super) async fn send_ready(&mut self, streaming: &mut Streaming) -> Result<(), Stop> {
        while let Some(piece) = streaming.stream().and_then(|stream| stream.next_now()) {
            self.send_piece(streaming, piece).await?;
        }
        Ok(())
    }

    /// Sends a piece of a result, and before the first one its head, if that is due.
    pub(super) async fn send_piece(&mut self, streaming: &mut Streaming, piece: ResultPiece) -> Result<(), Stop> {
        let before = self.conn.clock.enter(Stage::Encode);
        let sent = self.send_piece_now(streaming, piece).await;
        self.conn.clock.restore(before);
        sent
    }

    async fn send_piece_now(&mut self, streaming: &mut Streaming, piece: ResultPiece) -> Result<(), Stop> {
        if streaming.head.is_none() {
            let head = streaming.sink.as_ref().and_then(|sink| sink.head()).ok_or_else(lost_columns)?;
            self.send_head(streaming, &head)?;
            streaming.head = Some(head);
        }
        match (piece, streaming.head.clone().as_deref()) {
            (ResultPiece::Rows(rows), Some(ResultHead::Rows { columns, forms })) => {
                self.send_rows(streaming, rows, columns, forms).await?;
            }
            (ResultPiece::Batch(batch), Some(ResultHead::Rows { columns, forms })) => {
                self.send_batch(streaming, &*batch, columns, forms).await?;
            }
            (ResultPiece::Copy(piece), Some(ResultHead::Copy(_))) => self.send_copy(&piece).await?,
            _ => return Err(lost_columns().into()),
        }
        // What is there does not wait for what comes later.
        self.flush_all().await?;
        Ok(())
    }

    async fn send_rows(
        &mut self,
        streaming: &mut Streaming,
        rows: Rows,
        columns: &[ColumnInfo],
        forms: &Forms,
    ) -> Result<(), Stop> {
        let mut scratch = Scratch::default();
        for row in rows {
            let write = |at, format, value: &_, out: &mut _| {
                codec::write((columns, forms), &mut scratch, at, format, value, out);
            };
            self.conn.replies.row(&streaming.formats, &row, write)?;
            streaming.sent += 1;
            self.row_written(streaming.sent).await?;
        }
        Ok(())
    }

    async fn send_batch(
        &mut self,
        streaming: &mut Streaming,
        batch: &dyn RowBatch,
        columns: &[ColumnInfo],
        forms: &Forms,
    ) -> Result<(), Stop> {
        let (reader, mut scratch) = (batch.reader()?, Scratch::default());
        for row in 0..batch.rows_count() {
            let write = |at, format, out: &mut _| {
                let value = reader.value(row, at)?;
                codec::write_lent((columns, forms), &mut scratch, at, format, &value, out)
            };
            self.conn.replies.row_of(&streaming.formats, reader.columns_count(), write)?;
            streaming.sent += 1;
            self.row_written(streaming.sent).await?;
        }
        Ok(())
    }

    async fn send_copy(&mut self, piece: &CopyPiece) -> Result<(), Stop> {
        let mut messages = CopyRows(&mut self.conn.replies.out);
        piece.messages().for_each(|message| messages.row(message));
        self.conn.take_turns().await?;
        Ok(())
    }

    fn send_head(&mut self, streaming: &Streaming, head: &ResultHead) -> Result<(), Stop> {
        let columns = match head {
            ResultHead::Copy(shape) => {
                self.conn.replies.copy_out(*shape);
                return Ok(());
            }
            ResultHead::Rows { columns, forms: _ } => columns,
        };
        errors::check_formats(&streaming.formats, columns.len())?;
        if streaming.describes {
            self.conn.replies.columns(Some(codec::columns(columns)), &streaming.formats);
        } else if let Some((_, formats)) = self.described.take() {
            self.conn.replies.columns(Some(codec::columns(columns)), &formats);
        }
        Ok(())
    }

    /// Ends a result that was streamed: with its head, if it had no piece.
    pub(crate) fn end_stream(&mut self, streaming: &Streaming) -> Result<(), Stop> {
        let head = streaming.sink.as_ref().and_then(|sink| sink.head()).ok_or_else(lost_columns)?;
        if streaming.head.is_none() {
            self.send_head(streaming, &head)?;
        }
        if matches!(*head, ResultHead::Copy(_)) {
            self.conn.replies.copy_done();
        }
        Ok(())
    }
}

fn lost_columns() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "a piece of a result came before its head")
}
