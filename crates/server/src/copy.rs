//! COPY: data of a table, in and out.
//!
//! **Invariant:** no more than a buffer of it is held here: of a message that comes in, pieces are handed on as they arrive;
//! what goes out is asked for part by part, and written before the next part. After an error the rest of what comes in is
//! swallowed.

use crate::backend::{Backend, CopyPart, CopyShape};
use crate::conn::{Conn, Gone};
use crate::errors;
use crate::frame::{self, Broken, Fields};
use crate::lent::Lent;
use crate::session::{Session, Stop};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use sql::session::{Outcome, Tag};
use std::time::Duration;

/// A client that has sent data, and then nothing for so long, may wait for an answer.
const PAUSE: Duration = Duration::from_millis(20);

/// What a client may say while its data come in.
enum Piece {
    /// Some of its data.
    Data(Bytes),
    /// That was all.
    Done,
    /// It gives up, and says why.
    Fail(Bytes),
    /// Nothing more for now: the client may wait to be told what is wrong with what it has sent.
    Pause,
    /// `Flush` and `Sync`, from clients that do not know that this is a COPY.
    Nothing,
    /// Anything else.
    Other(u8),
}

/// Takes messages to a client, one for each row.
pub struct CopyRows<'a>(pub(crate) &'a mut BytesMut);

impl CopyRows<'_> {
    /// Appends one message: a row with its end, as clients expect it.
    pub fn row(&mut self, bytes: &[u8]) {
        // Longer than a message can be: values are bounded far below that.
        let Ok(length) = i32::try_from(bytes.len() + 4) else { return };
        self.0.put_u8(b'd');
        self.0.put_i32(length);
        self.0.put_slice(bytes);
    }

    /// How many bytes wait to be written: about this much more than a buffer's worth is a part.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Pieces that are handed to another thread are about this long, if so much has come.
const HANDED: usize = 64 << 10;

impl Conn {
    /// Data that have come already and belong to the next piece.
    fn data_here(&mut self) -> Option<Bytes> {
        if self.copy_left == 0
            && let Ok(Some((b'd', length @ 1..))) = frame::head(&self.input)
        {
            self.input.advance(frame::HEAD);
            self.copy_left = length;
        }
        let here = self.copy_left.min(self.input.len());
        self.copy_left -= here;
        (0 < here).then(|| self.input.split_to(here).freeze())
    }

    /// Adds what has come already.
    fn gather(&mut self, first: Bytes) -> Bytes {
        let mut all = BytesMut::from(first);
        while all.len() < HANDED
            && let Some(more) = self.data_here()
        {
            all.extend_from_slice(&more);
        }
        all.freeze()
    }

    /// The next piece of what comes in. `fed` says that data have come since the last pause.
    async fn piece(&mut self, fed: bool) -> Result<Piece, Gone> {
        loop {
            if let Some(data) = self.data_here() {
                return Ok(Piece::Data(data));
            }
            if self.copy_left == 0 {
                match frame::head(&self.input) {
                    Ok(None) => {}
                    Ok(Some((b'd', _))) => {
                        self.input.advance(frame::HEAD);
                        return Ok(Piece::Nothing);
                    }
                    // An error comes before the `Sync` that ends the messages which are skipped behind it.
                    Ok(Some((b'H' | b'S', _))) if fed => return Ok(Piece::Pause),
                    Ok(Some((kind @ (b'c' | b'f' | b'H' | b'S'), _))) => {
                        match frame::whole(&self.input, frame::SMALL_MAX) {
                            Ok(Some((_, length))) => {
                                let body = self.split(length);
                                return Ok(match kind {
                                    b'c' => Piece::Done,
                                    b'f' => Piece::Fail(body),
                                    _ => Piece::Nothing,
                                });
                            }
                            Ok(None) => {}
                            Err(_) => return Ok(Piece::Other(kind)),
                        }
                    }
                    Ok(Some((kind, _))) | Err(Broken::Kind(kind)) => return Ok(Piece::Other(kind)),
                    Err(Broken::Length(_) | Broken::TooLong(_)) => return Ok(Piece::Other(b'd')),
                }
            }
            if !fed {
                self.fill().await?;
            } else if let Ok(filled) = tokio::time::timeout(PAUSE, self.fill()).await {
                filled?;
            } else {
                return Ok(Piece::Pause);
            }
        }
    }
}

impl<B: Backend> Session<B> {
    /// Data come in until the client says that that was all.
    pub(crate) async fn copy_in(&mut self, portal: &mut Lent<B::Portal>, shape: CopyShape) -> Result<Outcome, Stop> {
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
                    let data = if self.backend.has_long_end() { self.conn.gather(data) } else { data };
                    self.copy_piece(portal, data).await?;
                }
                Piece::Pause => self.copy_piece(portal, Bytes::new()).await?,
                Piece::Done => break,
                Piece::Fail(body) => {
                    let mut fields = Fields::of(&body);
                    let why = fields.text()?;
                    return Err(errors::copy_failed(why).into());
                }
                Piece::Nothing => {}
                Piece::Other(kind) => {
                    // What is wrong with the data comes first, and then the client is understood as after any error.
                    self.copy_end(portal).await?;
                    self.failed(&errors::unexpected_in_copy(kind)).await?;
                    return Err(Gone::Confused.into());
                }
            }
        }
        self.copy_end(portal).await
    }

    async fn copy_piece(&mut self, portal: &mut Lent<B::Portal>, data: Bytes) -> Result<(), Stop> {
        let taken = self.beside_portal(portal, move |backend, own| backend.copy_data(own, &data)).await?;
        let mut parked = self.unless_ended(taken)?;
        while let Some(wait) = parked {
            self.wait(wait).await?;
            let taken = self.beside_portal(portal, |backend, own| backend.copy_data(own, &[])).await?;
            parked = self.unless_ended(taken)?;
        }
        Ok(())
    }

    async fn copy_end(&mut self, portal: &mut Lent<B::Portal>) -> Result<Outcome, Stop> {
        loop {
            let part = self.beside_portal(portal, B::copy_done).await?;
            match self.unless_ended(part)? {
                CopyPart::Last(tag) => {
                    self.notices();
                    return Ok(Outcome::Done(tag));
                }
                CopyPart::More => tokio::task::yield_now().await,
                CopyPart::Parked(wait) => self.wait(wait).await?,
            }
        }
    }

    /// Data go out, part by part, each written before the next is made.
    pub(crate) async fn copy_out(&mut self, portal: &mut Lent<B::Portal>, shape: CopyShape) -> Result<Outcome, Stop> {
        self.notices();
        self.conn.replies.copy_out(shape);
        let tag: Tag = loop {
            let mut out = std::mem::take(&mut self.conn.replies.out);
            let next = move |backend: &mut B, own: &mut B::Portal| {
                let part = backend.copy_next(own, &mut CopyRows(&mut out));
                (out, part)
            };
            let (out, part) = self.beside_portal(portal, next).await?;
            self.conn.replies.out = out;
            match self.unless_ended(part)? {
                CopyPart::Last(tag) => break tag,
                CopyPart::More => {
                    // Others have their turn even if this client takes all at once.
                    tokio::task::consume_budget().await;
                    self.flush_much().await?;
                }
                CopyPart::Parked(wait) => self.wait(wait).await?,
            }
        };
        self.conn.replies.copy_done();
        self.notices();
        Ok(Outcome::Done(tag))
    }
}
