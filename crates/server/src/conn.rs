//! One connection: bytes in, bytes out.
//!
//! **Invariant:** one read asks for as much as there is, one write sends all that was answered. Of input no more is kept
//! than one message may have and one read brings.

use crate::backend::{Cancel, Parked};
use crate::frame::{self, Broken, Frame};
use crate::reply::Replies;
use crate::stats::End;
use crate::wake::Bells;
use bytes::{Buf, BytesMut};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// A stream of any kind.
pub(crate) trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// Ready when the server ends.
pub(crate) type Ending = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Why there is nobody to answer any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// The client closed the connection, or it broke.
    Client,
    /// The server ends.
    Server,
    /// The client said nothing for too long; whether in a transaction is for the session to know.
    Idle,
    /// A statement ended by a fault of this program, and the session with it.
    Fault,
    /// It is not known where the client's next message begins.
    Confused,
}

/// Room for one read.
const READ: usize = 8 << 10;
/// An empty buffer larger than this is given back: most sessions are idle.
const KEEP: usize = 16 << 10;
/// While a statement waits, this much is read ahead.
const AHEAD: usize = 64 << 10;
/// After the last words so much is read, and for so long.
const DRAIN: usize = 128 << 20;
const DRAIN_TIME: Duration = Duration::from_millis(500);
/// Answers that are written though the input is not exhausted.
const WRITE: usize = 64 << 10;

pub(crate) struct Conn {
    pub(crate) io: Box<dyn Io>,
    pub(crate) input: BytesMut,
    pub(crate) replies: Replies,
    /// Whether the client expects to see what was answered.
    pub(crate) is_due: bool,
    /// How long the client may say nothing.
    pub(crate) idle_limit: Option<Duration>,
    /// What is still to come of a `CopyData` that is read piece by piece.
    pub(crate) copy_left: usize,
    /// What writing has taken.
    pub(crate) flushing: Duration,
    ending: Ending,
}

impl Conn {
    pub(crate) fn new(io: Box<dyn Io>, ending: Ending) -> Conn {
        let (input, replies) = (BytesMut::new(), Replies::default());
        Conn { io, input, replies, is_due: false, idle_limit: None, copy_left: 0, flushing: Duration::ZERO, ending }
    }

    /// Somebody may end this session, beside the server.
    pub(crate) fn end_by(&mut self, end: Arc<End>) {
        let server: Ending = std::mem::replace(&mut self.ending, Box::pin(std::future::pending()));
        self.ending = Box::pin(async move {
            tokio::select! {
                () = server => {}
                () = end.ended() => {}
            }
        });
    }

    /// Reads more.
    pub(crate) async fn fill(&mut self) -> Result<(), Gone> {
        if self.input.is_empty() && KEEP < self.input.capacity() {
            self.input = BytesMut::new();
        }
        self.input.reserve(READ);
        let read = async {
            tokio::select! {
                biased;
                () = &mut self.ending => Err(Gone::Server),
                read = self.io.read_buf(&mut self.input) => match read {
                    Ok(0) | Err(_) => Err(Gone::Client),
                    Ok(_) => Ok(()),
                },
            }
        };
        match self.idle_limit {
            Some(limit) => tokio::time::timeout(limit, read).await.unwrap_or(Err(Gone::Idle)),
            None => read.await,
        }
    }

    /// The next message. What was answered is written before it is waited for.
    pub(crate) async fn next(&mut self, message_max: usize) -> Result<Result<Frame, Broken>, Gone> {
        loop {
            // The rest of a message whose COPY has failed.
            let skipped = self.copy_left.min(self.input.len());
            self.input.advance(skipped);
            self.copy_left -= skipped;
            if self.copy_left == 0 {
                match frame::next(&mut self.input, message_max) {
                    Ok(Some(frame)) => return Ok(Ok(frame)),
                    Err(broken) => return Ok(Err(broken)),
                    Ok(None) => {}
                }
            }
            if self.is_due {
                self.flush().await?;
            }
            self.fill().await?;
        }
    }

    /// Writes what was answered.
    pub(crate) async fn flush(&mut self) -> Result<(), Gone> {
        self.is_due = false;
        let out = &mut self.replies.out;
        if !out.is_empty() {
            let begun = Instant::now();
            self.io.write_all(out).await.map_err(|_| Gone::Client)?;
            // Encrypted streams keep the last record back until then; to others it is nothing.
            self.io.flush().await.map_err(|_| Gone::Client)?;
            self.flushing += begun.elapsed();
            if KEEP < out.capacity() {
                *out = BytesMut::new();
            } else {
                out.clear();
            }
        }
        Ok(())
    }

    /// Writes what was answered if it has become much, so that a large result is not held as a whole.
    pub(crate) async fn flush_much(&mut self) -> Result<(), Gone> {
        if WRITE <= self.replies.out.len() { self.flush().await } else { Ok(()) }
    }

    /// Waits until a parked statement can go on, or nobody wants it any more; it is cancelled then.
    pub(crate) async fn wait(
        &mut self,
        parked: Box<dyn Parked>,
        bells: &Arc<Bells>,
        cancel: &dyn Cancel,
    ) -> Result<(), Gone> {
        if self.is_due {
            // Answers to earlier queries of a pipeline do not wait with this one.
            self.flush().await?;
        }
        let waiter = bells.waiter();
        parked.on_ready(Arc::clone(&waiter) as Arc<dyn engine::Wake>);
        loop {
            // A client may send more meanwhile; past this much, its end is not noticed until the wait is over.
            let listens = self.input.len() < AHEAD;
            if listens {
                self.input.reserve(READ);
            }
            let gone = tokio::select! {
                biased;
                () = waiter.told() => return Ok(()),
                () = &mut self.ending => Gone::Server,
                read = self.io.read_buf(&mut self.input), if listens => match read {
                    Ok(0) | Err(_) => Gone::Client,
                    Ok(_) => continue,
                },
            };
            cancel.cancel();
            return Err(gone);
        }
    }

    /// The last words: written as far as the client takes them, then the connection is closed. What the client has sent
    /// meanwhile is read for a while: a system that closes with bytes unread makes the client's lose what was written.
    pub(crate) async fn close(mut self) {
        if self.flush().await.is_err() || self.io.shutdown().await.is_err() {
            return;
        }
        let drained = async {
            let mut bytes = vec![0; READ];
            let mut left = DRAIN;
            while let Ok(count) = self.io.read(&mut bytes).await
                && 0 < count
            {
                let Some(rest) = left.checked_sub(count) else { break };
                left = rest;
            }
        };
        let _ = tokio::time::timeout(DRAIN_TIME, drained).await;
    }
}
