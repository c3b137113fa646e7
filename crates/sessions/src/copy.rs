//! COPY: data of a table, in and out.
//!
//! **Invariant:** no more than a buffer of the data is held here. Pieces of an incoming message are passed on as they
//! arrive. Outgoing data are requested part by part, and each part is written before the next. After an error the rest
//! of the incoming data is discarded.

use crate::session::Session;
use bytes::Bytes;
use sql::session::{CopyPart, Outcome};
use statement::outcome::CommandTag;
use statement::outcome::CopyShape;
use wire::Stop;
use wire::copy::{CopyRows, Piece};
use wire::errors;
use wire::frame::Fields;
use wire::wait::Gone;

impl Session {
    /// Receives data until the client says that they are complete.
    pub(crate) async fn copy_in(&mut self, shape: CopyShape) -> Result<Outcome, Stop> {
        self.notices();
        self.conn.replies.copy_in(shape);
        self.conn.is_due = true;
        self.conn.idle_limit = None;
        let mut fed = false;
        loop {
            if self.conn.is_due {
                self.flush_all().await?;
            }
            let piece = self.conn.piece(fed).await?;
            fed = matches!(piece, Piece::Data(_));
            match piece {
                Piece::Data(data) => {
                    let data = if self.sql.has_long_end() { self.conn.gather(data) } else { data };
                    self.copy_piece(data).await?;
                }
                Piece::Pause => self.copy_piece(Bytes::new()).await?,
                Piece::Done => break,
                Piece::Fail(body) => {
                    let mut fields = Fields::of(&body);
                    let why = fields.text()?;
                    return Err(errors::copy_failed(why).into());
                }
                Piece::Nothing => {}
                Piece::Other(kind) => {
                    // Errors in the data come first. Then the client is treated as after any error.
                    self.copy_end().await?;
                    self.failed(&errors::unexpected_in_copy(kind)).await?;
                    return Err(Gone::Confused.into());
                }
            }
        }
        self.copy_end().await
    }

    async fn copy_piece(&mut self, data: Bytes) -> Result<(), Stop> {
        let taken = self.beside(move |sql| sql.copy_data(&data)).await?;
        let mut parked = self.unless_ended(taken)?;
        while let Some(wait) = parked {
            self.wait(&wait).await?;
            let taken = self.beside(|sql| sql.copy_data(&[])).await?;
            parked = self.unless_ended(taken)?;
        }
        Ok(())
    }

    async fn copy_end(&mut self) -> Result<Outcome, Stop> {
        loop {
            let part = self.beside(sql::session::Session::copy_done).await?;
            match self.unless_ended(part)? {
                CopyPart::Last(tag) => {
                    self.notices();
                    return Ok(Outcome::Done(tag));
                }
                CopyPart::More => self.conn.give_way().await,
                CopyPart::Parked(wait) => self.wait(&wait).await?,
            }
        }
    }

    /// Sends data part by part. Each part is written before the next is made.
    pub(crate) async fn copy_out(&mut self, shape: CopyShape) -> Result<Outcome, Stop> {
        self.notices();
        self.conn.replies.copy_out(shape);
        let tag: CommandTag = loop {
            let mut out = std::mem::take(&mut self.conn.replies.out);
            let next = move |sql: &mut sql::session::Session| {
                let mut rows = CopyRows(&mut out);
                let part = sql.copy_next(&mut |row| rows.row(row));
                (out, part)
            };
            let (out, part) = self.beside(next).await?;
            self.conn.replies.out = out;
            match self.unless_ended(part)? {
                CopyPart::Last(tag) => break tag,
                CopyPart::More => {
                    // Other sessions have their turn even if this client reads everything at once.
                    tokio::task::consume_budget().await;
                    self.flush_much().await?;
                }
                CopyPart::Parked(wait) => self.wait(&wait).await?,
            }
        };
        self.conn.replies.copy_done();
        self.notices();
        Ok(Outcome::Done(tag))
    }
}
