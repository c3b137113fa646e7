//! Place of a session's work: the thread that read it from the network while it is short, another thread otherwise.
//!
//! **Invariant:** a portal or SQL session that is lent comes back before the session goes on. If it
//! does not, the session ends.

use super::{Session, Stop, Streaming};
use crate::lent::Lent;
use query::rows::ResultPiece;
use server::network::{Below, Lift};
use server::stats::StatementTotals;
use server::workers::Dispatch;
use sql::session::{Destination, Outcome, Parked, Portal, Step};
use stage::turn::JobTurn;
use stage::{Class, Stage};
use statement::outcome::TransactionStatus;
use statement::{SqlResult, SqlState};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use wire::wait::Gone;

/// Time that a statement that has been short so far may take on the thread that read it. Then it is undone, and runs
/// again where it delays no other session. The limit is much longer than a short statement takes, so that hardly one is
/// run twice because it lacked a processor.
const STAY: Duration = Duration::from_millis(4);

/// Place of the next run of a portal.
enum RunPlace {
    /// Thread that read the request.
    Here,
    /// Another thread, which runs below those that read the network if `is_below`.
    Elsewhere { is_below: bool },
}

/// Event of a statement that runs on another thread.
enum Next<R> {
    Done(Option<R>),
    Piece(ResultPiece),
}

impl Session {
    /// Runs a portal to its end, waiting where it must.
    pub(super) async fn run_to_end(
        &mut self,
        totals: &StatementTotals,
        portal: &mut Lent<Portal>,
        mut streaming: Option<&mut Streaming>,
    ) -> Result<Outcome, Stop> {
        let mut is_elsewhere = false;
        loop {
            let run = match self.place_of(totals, portal, is_elsewhere) {
                RunPlace::Here => self.execute_here(portal, streaming.as_deref_mut())?,
                RunPlace::Elsewhere { is_below } => {
                    Box::pin(self.execute_elsewhere(portal, streaming.as_deref_mut(), is_below)).await?
                }
            };
            if let Some(streaming) = streaming.as_deref_mut() {
                self.send_ready(streaming).await?;
            }
            match run {
                Step::Done(outcome) => return Ok(outcome),
                Step::CopyIn(shape) => return Box::pin(self.copy_in(shape)).await,
                Step::CopyOut(shape) => return Box::pin(self.copy_out(shape)).await,
                Step::Parked(Parked::Elsewhere) => is_elsewhere = true,
                Step::Parked(parked) => self.wait(&parked).await?,
            }
        }
    }

    /// Runs a job with the SQL session on a thread where it delays no other session. The thread runs below those that
    /// read the network, unless another session may come to wait for this one.
    pub(crate) async fn aside<R: Send + 'static>(
        &mut self,
        job: impl FnOnce(&mut sql::session::Session) -> R + Send + 'static,
    ) -> Result<R, Stop> {
        let is_below = self.sql.class() != Class::High && self.sql.status() == TransactionStatus::Idle;
        Ok(self.lend_sql(is_below, job).await?)
    }

    /// Does the same if the end of the open transaction, or an error in it, may take long. Otherwise the job runs here.
    pub(crate) async fn beside<R: Send + 'static>(
        &mut self,
        job: impl FnOnce(&mut sql::session::Session) -> R + Send + 'static,
    ) -> Result<R, Gone> {
        if self.sql.has_long_end() { Box::pin(self.lend_sql(false, job)).await } else { Ok(job(&mut self.sql)) }
    }

    /// Lends the SQL session to a thread where it delays no other session. `is_below` tells whether the thread runs
    /// below those that read the network.
    async fn lend_sql<R: Send + 'static>(
        &mut self,
        is_below: bool,
        job: impl FnOnce(&mut sql::session::Session) -> R + Send + 'static,
    ) -> Result<R, Gone> {
        let timeout = self.sql.time_left();
        let Some(mut sql) = self.sql.lend() else { return Err(Gone::Fault) };
        let before = self.conn.clock.position();
        let lent = self.conn.clock.lend();
        sql.clock_by(&lent.clock);
        let clock = Arc::clone(&lent.clock);
        let job = move || {
            let _turn = JobTurn::begin(clock.source().clone());
            clock.enter(Stage::Run);
            let made = job(&mut sql);
            clock.rest();
            (sql, made)
        };
        let (below, lift) = (Arc::clone(&self.below), Arc::<Lift>::default());
        let state = self.activity.set_below(is_below);
        let run = async {
            match is_below {
                true => below.run(&lift, job).await,
                false => tokio::task::spawn_blocking(job).await.ok(),
            }
        };
        let done = self.conn.beside(run, &*self.canceller, &|| lift.lift(), timeout).await;
        self.activity.restore(state);
        let (mut sql, made) = done.ok_or(Gone::Fault)?;
        self.conn.clock.take_back(&lent);
        self.conn.clock.restore(before);
        sql.clock_by(&self.conn.clock);
        self.sql.give_back(sql);
        self.drop_leavings();
        Ok(made)
    }

    /// Drops values that were made of a long text, on a thread where that delays no other session.
    pub(crate) fn drop_aside(&self, made: impl Send + 'static) {
        drop_below(Arc::clone(&self.below), made);
    }

    /// Drops the leavings of statements on a thread where that delays no other session.
    fn drop_leavings(&mut self) {
        let leavings = self.sql.take_leavings();
        if !leavings.is_empty() {
            self.drop_aside(leavings);
        }
    }

    /// Decides where the portal runs: here, unless it takes too long for this thread.
    fn place_of(&self, totals: &StatementTotals, portal: &Portal, is_elsewhere: bool) -> RunPlace {
        let is_below = self.sql.class_of(portal) != Class::High
            && (is_elsewhere || totals.is_long() || (totals.is_new() && self.sql.is_large(portal)))
            && self.sql.holds_nothing(portal);
        // A statement that fails rolls back its transaction, or everything since its last savepoint.
        let is_elsewhere = is_elsewhere || self.sql.has_long_end();
        let is_here = self.dispatch == Dispatch::Spot && totals.is_short() && !is_below && !is_elsewhere;
        if is_here && self.sql.can_move(portal) { RunPlace::Here } else { RunPlace::Elsewhere { is_below } }
    }

    /// Runs the portal on this thread.
    #[inline]
    fn execute_here(&mut self, portal: &mut Portal, streaming: Option<&mut Streaming>) -> Result<Step, Stop> {
        self.sql.stay_for(Some(STAY));
        self.sql.stream_to(streaming.as_deref().map_or(Destination::Whole, Streaming::lazily));
        let run = self.sql.execute(portal);
        self.sql.stay_for(None);
        if let Some(streaming) = streaming {
            streaming.take_sink(self.sql.sink());
        }
        self.sql.stream_to(Destination::Whole);
        self.drop_leavings();
        self.unless_ended(run)
    }

    /// Runs the portal on another thread, below those that read the network or beside them.
    async fn execute_elsewhere(
        &mut self,
        portal: &mut Lent<Portal>,
        mut streaming: Option<&mut Streaming>,
        is_below: bool,
    ) -> Result<Step, Stop> {
        let class = self.sql.class_of(portal);
        let (Some(mut sql), Some(mut own)) = (self.sql.lend(), portal.lend()) else {
            return Err(Gone::Fault.into());
        };
        let (asked, timeout) = (self.conn.time.now(), sql.time_left());
        // A pool of as many threads as needed may have one that waits for its client.
        let may_block = self.dispatch == Dispatch::Spot;
        sql.stream_to(streaming.as_deref_mut().map_or(Destination::Whole, |streaming| streaming.sink_for(may_block)));
        let lent = self.conn.clock.lend();
        sql.clock_by(&lent.clock);
        let clock = Arc::clone(&lent.clock);
        let job = move || {
            let _turn = JobTurn::begin(clock.source().clone());
            let run = sql.execute(&mut own);
            clock.rest();
            (sql, own, run)
        };
        let (workers, below, lift) = (Arc::clone(&self.workers), Arc::clone(&self.below), Arc::<Lift>::default());
        let dispatch = self.dispatch;
        let state = self.activity.set_below(is_below && dispatch == Dispatch::Spot);
        let run = async {
            match dispatch {
                Dispatch::Worker => workers.run(class, job).await,
                // Such a pool has a thread for each: a statement that may be short does not wait for a long one.
                Dispatch::Spot if is_below => below.run(&lift, job).await,
                Dispatch::Spot => tokio::task::spawn_blocking(job).await.ok(),
            }
        };
        let mut run = pin!(run);
        let until = timeout.and_then(|timeout| asked.checked_add(timeout));
        let mut failed = None;
        // Pieces are sent as they come. If that fails, the statement ends soon, and its SQL session comes back.
        let done = loop {
            let pieces = streaming.as_deref().filter(|_| failed.is_none()).and_then(Streaming::stream);
            let next = poll_fn(|context| match run.as_mut().poll(context) {
                Poll::Ready(done) => Poll::Ready(Next::Done(done)),
                Poll::Pending => pieces.map_or(Poll::Pending, |pieces| pieces.poll_next(context).map(Next::Piece)),
            });
            let left = until.map(|until| self.conn.time.left(until));
            let next = self.conn.beside(next, &*self.canceller, &|| lift.lift(), left).await;
            match (next, streaming.as_deref_mut()) {
                (Next::Done(done), _) => break done,
                (Next::Piece(piece), Some(streaming)) => {
                    if let Err(stop) = self.send_piece(streaming, piece).await {
                        streaming.close();
                        if matches!(stop, Stop::Gone(_)) {
                            self.canceller.cancel();
                        }
                        failed = Some(stop);
                    }
                }
                // Without a stream there are no pieces.
                (Next::Piece(_), None) => {}
            }
        };
        self.activity.restore(state);
        let (mut sql, own, run) = done.ok_or(Gone::Fault)?;
        self.conn.clock.take_back(&lent);
        sql.clock_by(&self.conn.clock);
        sql.stream_to(Destination::Whole);
        self.sql.give_back(sql);
        portal.give_back(own);
        self.drop_leavings();
        match failed {
            Some(stop) => Err(stop),
            None => self.unless_ended(run),
        }
    }

    /// Returns 57P01 in place of the result if the session is ending: a statement that was cancelled for that has
    /// no error of its own. Nor has a statement a result if an administrator, perhaps the statement itself, has
    /// ended the session meanwhile.
    pub(crate) fn unless_ended<R>(&self, run: SqlResult<R>) -> Result<R, Stop> {
        let is_cancelled = run.as_ref().is_err_and(|error| error.state() == SqlState::QUERY_CANCELED);
        if self.activity.end.is_ended() || (is_cancelled && self.conn.is_ending()) {
            return Err(Gone::Server.into());
        }
        Ok(run?)
    }
}

/// Drops a value on a thread where that delays no other session.
pub(super) fn drop_below(below: Arc<Below>, made: impl Send + 'static) {
    tokio::spawn(async move { below.run(&Arc::default(), move || drop(made)).await });
}
