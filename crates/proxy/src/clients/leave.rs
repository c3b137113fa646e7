//! Return of a connection from its client.
//!
//! **Invariant:** a connection that goes back to the pool is idle: no transaction, nothing outstanding, nothing of the
//! session except what the connection is known to have, and no cancel on its way to it. A connection that cannot be
//! brought to this state in a bounded time is closed.

use crate::clients::expect::{ExpectedReply, ReplyKind, ReplyMeaning};
use crate::clients::link::{ConnectionTie, Link};
use crate::servers::pool::Pool;
use crate::servers::server_conn::QuestionFailed;
use crate::statements::message;
use bytes::Buf;
use statement::{SqlError, SqlState};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Time for which the requests of a client that has gone may run before they are cancelled.
const LAST_TIME: Duration = Duration::from_millis(500);
/// Time after that in which a connection has to become idle.
const DRAIN_TIME: Duration = Duration::from_secs(10);
/// Number of bytes of answers that are read meanwhile, at most.
const DRAIN_MAX: usize = 64 << 20;

/// Returns a settled connection to the pool.
pub(crate) fn put_back(link: Box<Link>, pool: &Arc<Pool>) {
    let Link { mut taken, turn, has_failed, expects, .. } = *link;
    taken.server.expects = expects;
    let leave = move |now| match turn {
        Some(turn) if !has_failed => turn.done(now),
        turn => drop(turn),
    };
    // The next transaction that is admitted finds it there.
    if taken.server.line.is_clear() {
        let now = pool.nodes.time().now();
        pool.put(taken, now);
        return leave(now);
    }
    // A cancel is on its way to the connection. Until it has been delivered, the connection is not used again.
    let pool = Arc::clone(pool);
    tokio::spawn(async move {
        taken.server.line.cleared().await;
        let now = pool.nodes.time().now();
        pool.put(taken, now);
        leave(now);
    });
}

/// Brings a connection whose client has gone to rest, and returns it to the pool, or closes it.
pub(crate) async fn clean(mut link: Box<Link>, pool: &Arc<Pool>) {
    let line = Arc::clone(&link.taken.server.line);
    let rested = {
        let mut rest = std::pin::pin!(link.come_to_rest());
        match tokio::time::timeout(LAST_TIME, rest.as_mut()).await {
            Ok(rested) => Ok(rested),
            Err(_) => {
                // Nobody needs its statement any more, and it delays others.
                line.cancel().deliver().await;
                tracing::info!(pid = line.pid(), "a statement of a client that has gone was cancelled");
                tokio::time::timeout(DRAIN_TIME, rest).await
            }
        }
    };
    match rested {
        Ok(Ok(())) => {
            // Its transaction did not end as intended.
            link.has_failed = true;
            put_back(link, pool);
        }
        Ok(Err(failed)) => tracing::debug!(?failed, "the connection of a client that has gone was closed"),
        Err(_) => tracing::info!(
            pid = line.pid(),
            "the connection of a client that has gone was closed: it does not come to rest"
        ),
    }
}

impl Link {
    async fn come_to_rest(&mut self) -> Result<(), QuestionFailed> {
        if 0 < self.client_rest || self.hold == ConnectionTie::Bound {
            return Err(io::Error::other("it cannot be brought to rest").into());
        }
        if self.expects.copies_in {
            message::put(&mut self.taken.server.out, b'f', |out| out.extend_from_slice(b"the client has gone\0"));
            self.expects.copies_in = false;
            self.is_open_batch |= matches!(self.expects.front(), Some(ExpectedReply::Execute(_)));
        }
        if self.is_open_batch || self.expects.has_begin() {
            // A lone `Sync` would commit what the client has not committed.
            self.provoke();
            message::put(&mut self.taken.server.out, b'S', |_| {});
            self.expects.push(ExpectedReply::Sync);
        }
        let was_checked = self.check.take().is_some();
        self.taken.server.flush().await?;
        self.drain().await?;
        let is_known = self.has_settings && !self.is_unexplained();
        let is_touched = self.is_touched || !is_known || was_checked || self.hold != ConnectionTie::Free;
        let server = &mut self.taken.server;
        if self.status != b'I' {
            server.ask("ROLLBACK").await?;
        }
        if is_touched {
            server.ask("DISCARD ALL").await?;
            server.prepared.clear();
            server.settings = Arc::default();
        }
        Ok(())
    }

    /// Reads up to the last answer.
    async fn drain(&mut self) -> Result<(), QuestionFailed> {
        let mut left = DRAIN_MAX;
        while 0 < self.server_rest {
            let inbox = &mut self.taken.server.inbox;
            let count = self.server_rest.min(inbox.len());
            inbox.advance(count);
            self.server_rest -= count;
            if 0 < self.server_rest {
                let count = self.taken.server.read().await?;
                left = left.checked_sub(count).ok_or_else(|| io::Error::other("there is too much to read"))?;
            }
        }
        while !self.expects.is_empty() {
            // Answers of the proxy's own have no recipient any more.
            if self.expects.take_own().is_some() {
                continue;
            }
            let server = &mut self.taken.server;
            let (kind, body) = server.next().await?;
            left = left.checked_sub(body.len()).ok_or_else(|| io::Error::other("there is too much to read"))?;
            let reply = ReplyKind::of(kind);
            if reply == ReplyKind::Parameter {
                server.note(&body);
            }
            if reply == ReplyKind::Ready {
                self.status = body.first().copied().unwrap_or(b'E');
            }
            let prepared = &mut server.prepared;
            let mut dropped = |expect| match expect {
                ExpectedReply::Parse { statement, .. } => prepared.has_failed(statement),
                ExpectedReply::Evicted(statement) => prepared.stays(statement),
                _ => {}
            };
            let means = self
                .expects
                .answered(reply, &mut dropped)
                .map_err(|_| io::Error::other("the server does not speak the protocol"))?;
            if let ReplyMeaning::Evicted(statement) = means {
                prepared.is_gone(statement);
            }
            self.expects.put_barrier(&mut server.out);
            if !server.out.is_empty() {
                server.flush().await?;
            }
            if reply == ReplyKind::CopyIn {
                // A COPY has begun after all, and there are no data for it.
                message::put(&mut server.out, b'f', |out| out.extend_from_slice(b"the client has gone\0"));
                self.expects.copies_in = false;
                if matches!(self.expects.front(), Some(ExpectedReply::Execute(_))) {
                    // The `Sync` that was sent was read as part of the COPY.
                    message::put(&mut server.out, b'S', |_| {});
                    self.expects.push(ExpectedReply::Sync);
                }
                server.flush().await?;
            }
        }
        // The owner of its unnamed statement is not known any more.
        self.taken.server.unnamed = (0, 0);
        Ok(())
    }

    /// Returns the error that the client gets when the server has gone.
    pub(crate) fn last_words(&self) -> Option<SqlError> {
        if self.is_told {
            return None;
        }
        let lost = |state| SqlError::new(state, "the connection to the server was lost");
        Some(self.outcome.unknown().unwrap_or_else(|| {
            if self.expects.is_empty() && self.status == b'I' {
                lost(SqlState::ADMIN_SHUTDOWN).detail("What the session had on its connection is gone.")
            } else {
                lost(SqlState::CONNECTION_FAILURE).detail("The open transaction has been rolled back.")
            }
        }))
    }
}
