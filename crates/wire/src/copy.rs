//! Messages of COPY: incoming data, piece by piece, and outgoing rows.
//!
//! **Invariant:** of an incoming message, no more is held than was read at once.

use crate::conn::Conn;
use crate::frame::{self, Broken};
use crate::wait::Gone;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::time::Duration;

/// Time of silence after which a client that has sent data may be waiting for an answer.
const PAUSE: Duration = Duration::from_millis(20);

/// Message of a client while its data come in.
pub enum Piece {
    /// Part of the data.
    Data(Bytes),
    /// End of the data.
    Done,
    /// Failure of the client, with its reason.
    Fail(Bytes),
    /// Nothing more for now. The client may wait for an error about the data that it has sent.
    Pause,
    /// `Flush` and `Sync`, from clients that do not know that this is a COPY.
    Nothing,
    /// Any other message, by its kind.
    Other(u8),
}

/// Writer of messages to a client, one for each row.
pub struct CopyRows<'a>(pub &'a mut BytesMut);

impl CopyRows<'_> {
    /// Appends one message: a row with its line end, as clients expect it.
    pub fn row(&mut self, bytes: &[u8]) {
        // A row longer than a message can be does not occur: values are bounded far below that.
        let Ok(length) = i32::try_from(bytes.len() + 4) else { return };
        self.0.put_u8(b'd');
        self.0.put_i32(length);
        self.0.put_slice(bytes);
    }

    /// Number of bytes that wait to be written. A part is about this much more than a buffer's worth.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if nothing waits to be written.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Approximate size in bytes of the pieces that are handed to another thread, if so much has come.
const HANDED: usize = 64 << 10;

impl Conn {
    /// Returns data that have come already and belong to the next piece.
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

    /// Adds data that have come already.
    pub fn gather(&mut self, first: Bytes) -> Bytes {
        let mut all = BytesMut::from(first);
        while all.len() < HANDED
            && let Some(more) = self.data_here()
        {
            all.extend_from_slice(&more);
        }
        all.freeze()
    }

    /// Returns the next piece of the incoming data. `fed` tells that data have come since the last pause.
    pub async fn piece(&mut self, fed: bool) -> Result<Piece, Gone> {
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
                    // An error has to come before the `Sync` that ends the messages skipped behind it.
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
            let before = self.clock.position();
            if !fed {
                self.fill().await?;
            } else if let Ok(filled) = tokio::time::timeout(PAUSE, self.fill()).await {
                filled?;
            } else {
                self.clock.restore(before);
                return Ok(Piece::Pause);
            }
        }
    }
}
