//! One client's session, from `ReadyForQuery` to its end.
//!
//! **Invariant:** after an error in the extended protocol nothing is done until `Sync`; each `Sync` and each simple query
//! is answered by one `ReadyForQuery`, whatever happens. A portal does not outlive its transaction.

use crate::backend::{Backend, Cancel, Run};
use crate::conn::{Conn, Gone};
use crate::errors;
use crate::frame::{self, Frame, Malformed};
use crate::names::Names;
use crate::reply::Formats;
use crate::wake::Bells;
use sql::session::{Outcome, Tag, TransactionStatus};
use sql::{Datum, SqlError, SqlResult};
use std::sync::Arc;
use std::vec;

/// Why a message was not answered in full.
pub(crate) enum Stop {
    /// The client is told.
    Error(SqlError),
    /// There is no one to tell.
    Gone(Gone),
}

impl From<SqlError> for Stop {
    fn from(error: SqlError) -> Stop {
        Stop::Error(error)
    }
}

impl From<Gone> for Stop {
    fn from(gone: Gone) -> Stop {
        Stop::Gone(gone)
    }
}

impl From<Malformed> for Stop {
    fn from(malformed: Malformed) -> Stop {
        Stop::Error(errors::malformed(malformed))
    }
}

/// A portal as the protocol sees it.
pub(crate) struct Held<B: Backend> {
    pub(crate) statement: B::Statement,
    pub(crate) portal: B::Portal,
    pub(crate) formats: Formats,
    pub(crate) state: State,
}

/// How far it is.
pub(crate) enum State {
    /// It has not run.
    Ready,
    /// It has run, and not all rows were sent.
    Rows(vec::IntoIter<Box<[Datum]>>, Tag),
    /// All rows were sent; asked again it has none.
    Exhausted(Tag),
    /// It has run, or failed, and cannot be run again.
    Ended,
}

pub(crate) struct Session<B: Backend> {
    pub(crate) conn: Conn,
    pub(crate) backend: B,
    pub(crate) bells: Arc<Bells>,
    pub(crate) canceller: Arc<dyn Cancel>,
    pub(crate) message_max: usize,
    pub(crate) statements: Names<B::Statement>,
    pub(crate) portals: Names<Held<B>>,
    /// Whether messages are ignored until `Sync`.
    pub(crate) skips: bool,
}

impl<B: Backend> Session<B> {
    pub(crate) fn new(conn: Conn, backend: B, bells: Arc<Bells>, message_max: usize) -> Session<B> {
        let (statements, portals) = (Names::new(), Names::new());
        let canceller = backend.canceller();
        Session { conn, backend, bells, canceller, message_max, statements, portals, skips: false }
    }

    /// Answers until the client leaves, or must.
    pub(crate) async fn serve(mut self) {
        self.ready();
        let last_words = loop {
            self.conn.idle_limit = self.backend.idle_limit();
            let frame = match self.conn.next(self.message_max).await {
                Ok(Ok(frame)) => frame,
                Ok(Err(broken)) => break Some(errors::broken(broken)),
                Err(gone) => break self.farewell(gone),
            };
            match frame.kind {
                b'X' => break None,
                // A password that nobody has asked for.
                b'p' => break Some(errors::unexpected(b'p')),
                _ => {}
            }
            if self.skips && frame.kind != b'S' {
                continue;
            }
            if let Err(gone) = self.answer(&frame).await {
                break errors::gone(gone);
            }
            if let Err(gone) = self.conn.flush_much().await {
                break errors::gone(gone);
            }
        };
        // What is open is rolled back before the client can see the end.
        drop(self.backend);
        if let Some(error) = last_words {
            self.conn.replies.error("FATAL", &error);
            self.conn.close().await;
        }
    }

    /// What is left to say to a client.
    fn farewell(&self, gone: Gone) -> Option<SqlError> {
        match gone {
            Gone::Idle => Some(errors::idle(self.backend.status() != TransactionStatus::Idle)),
            gone => errors::gone(gone),
        }
    }

    async fn answer(&mut self, frame: &Frame) -> Result<(), Gone> {
        let body = &frame.body[..];
        let answered = match frame.kind {
            b'P' => self.parse(body),
            b'B' => self.bind(body),
            b'D' => self.describe(body),
            b'E' => self.execute(body).await,
            b'C' => self.close(body),
            b'H' => {
                self.conn.is_due = true;
                Ok(())
            }
            b'S' => {
                self.sync();
                return Ok(());
            }
            b'Q' => return self.query(body).await,
            b'F' => {
                self.failed(&SqlError::unsupported("a function call message"));
                self.sync();
                return Ok(());
            }
            // PostgreSQL ignores them outside of COPY: a client whose COPY was refused has perhaps sent them already.
            b'd' | b'c' | b'f' => Ok(()),
            kind => Err(Stop::Error(errors::unexpected(kind))),
        };
        match answered {
            Ok(()) => Ok(()),
            Err(Stop::Gone(gone)) => Err(gone),
            Err(Stop::Error(error)) => {
                self.failed(&error);
                self.skips = true;
                Ok(())
            }
        }
    }

    /// Tells the client and the session of an error.
    pub(crate) fn failed(&mut self, error: &SqlError) {
        self.notices();
        self.conn.replies.error("ERROR", error);
        self.conn.is_due = true;
        self.backend.fail();
    }

    /// The end of an implicit transaction, and `ReadyForQuery`.
    fn sync(&mut self) {
        self.skips = false;
        if let Err(error) = self.backend.sync() {
            self.failed(&error);
        }
        self.ready();
    }

    async fn query(&mut self, body: &[u8]) -> Result<(), Gone> {
        let answered = match frame::query(body) {
            Ok(text) => self.simple(text).await,
            Err(malformed) => Err(malformed.into()),
        };
        match answered {
            Ok(()) => {}
            Err(Stop::Gone(gone)) => return Err(gone),
            Err(Stop::Error(error)) => self.failed(&error),
        }
        // After a success there is nothing left to end: the last statement has seen to that before its tag.
        self.sync();
        Ok(())
    }

    fn ready(&mut self) {
        let status = self.backend.status();
        if status == TransactionStatus::Idle {
            self.portals.clear();
        }
        self.notices();
        for (name, value) in self.backend.take_reports() {
            self.conn.replies.parameter_status(name, value);
        }
        self.conn.replies.ready(status);
        self.conn.is_due = true;
    }

    pub(crate) fn notices(&mut self) {
        for (severity, notice) in self.backend.take_notices() {
            self.conn.replies.notice(severity, &notice);
        }
    }

    /// Runs a portal to its end, waiting where it must.
    pub(crate) async fn run(&mut self, portal: &mut B::Portal) -> Result<Outcome, Stop> {
        loop {
            match self.backend.execute(portal)? {
                Run::Done(outcome) => {
                    self.notices();
                    return Ok(outcome);
                }
                Run::CopyIn(shape) => return self.copy_in(portal, shape).await,
                Run::CopyOut(shape) => return self.copy_out(portal, shape).await,
                Run::Parked(parked) => self.conn.wait(parked, &self.bells, &*self.canceller).await?,
            }
        }
    }

    /// Whether a statement has ended the transaction that portals of `before` belong to.
    pub(crate) fn has_ended(&self, before: TransactionStatus, outcome: &Outcome) -> bool {
        let Outcome::Done(Tag { words, .. }) = outcome else { return false };
        let is_idle = self.backend.status() == TransactionStatus::Idle;
        // `AND CHAIN` leaves a transaction open, but another one. `ROLLBACK TO` has this tag too, and ends nothing.
        *words == "COMMIT" || (before != TransactionStatus::Idle && is_idle)
    }

    /// Sends rows, `limit` at most, and says how many.
    pub(crate) async fn send(
        &mut self,
        statement: &B::Statement,
        formats: &Formats,
        rows: &mut vec::IntoIter<Box<[Datum]>>,
        limit: usize,
    ) -> Result<u64, Stop> {
        let mut sent = 0;
        for row in rows.take(limit) {
            self.row(statement, formats, &row)?;
            self.conn.flush_much().await?;
            sent += 1;
        }
        Ok(sent)
    }

    fn row(&mut self, statement: &B::Statement, formats: &Formats, row: &[Datum]) -> SqlResult<()> {
        self.conn.replies.row(&mut self.backend, statement, formats, row)
    }
}

/// The count that stands in the tag of a statement that has returned rows, of which `sent` were sent now.
pub(crate) fn tag_rows(tag: &Tag, sent: u64, was_suspended: bool) -> Option<u64> {
    match tag.rows {
        Some(rows) if !was_suspended => Some(rows),
        Some(_) => Some(sent),
        // Others that return rows, `SHOW` and `EXPLAIN`, do not count them.
        None => matches!(tag.words, "SELECT" | "FETCH").then_some(sent),
    }
}

#[cfg(test)]
mod tests;
