//! Place of a session's work: the thread that read it from the network while it is short, another thread otherwise.
//!
//! **Invariant:** a portal or backend that is lent comes back before the session goes on. If it
//! does not, the session ends.

use super::{Session, Stop, Streaming};
use crate::backend::{Backend, Run};
use crate::lent::Lent;
use query::rows::ResultPiece;
use server::network::{Below, Lift};
use server::stats::StatementTotals;
use server::workers::Dispatch;
use sql::session::{Destination, Outcome};
use stage::Class;
use statement::outcome::TransactionStatus;
use statement::{SqlResult, SqlState};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use wire::wait::Gone;

/// Time that a statement that has been short so far may take on the thread that read it. Then it is undone, and runs
/// again where it delays no other session. The limit is much longer than a short statement takes, so that hardly one is
/// run twice because it lacked a processor.
const STAY: Duration = Duration::from_millis(4);

/// Event of a statement that runs on another thread.
enum Next<R> {
    Done(Option<R>),
    Piece(ResultPiece),
}

impl<B: Backend> Session<B> {
    pub(super) async fn run_portal(
        &mut self,
        totals: &StatementTotals,
        portal: &mut Lent<B::Portal>,
        streaming: Option<&mut Streaming>,
    ) -> Result<Outcome, Stop> {
        let outcome = self.run_to_end(totals, portal, streaming).await?;
        self.notices();
        Ok(outcome)
    }

    pub(super) async fn run_to_end(
        &mut self,
        totals: &StatementTotals,
        portal: &mut Lent<B::Portal>,
        mut streaming: Option<&mut Streaming>,
    ) -> Result<Outcome, Stop> {
        let mut is_elsewhere = false;
        loop {
            let run = self.execute_portal(totals, portal, streaming.as_deref_mut(), is_elsewhere).await?;
            if let Some(streaming) = streaming.as_deref_mut() {
                self.send_ready(streaming).await?;
            }
            match run {
                Run::Done(outcome) => return Ok(outcome),
                Run::CopyIn(shape) => return self.copy_in(portal, shape).await,
                Run::CopyOut(shape) => return self.copy_out(portal, shape).await,
                Run::Parked(parked) if parked.is_elsewhere() => is_elsewhere = true,
                Run::Parked(parked) => {
                    let parked = match &streaming {
                        Some(streaming) if parked.is_analysis() => streaming.waiting(parked),
                        Some(_) | None => parked,
                    };
                    self.wait(parked).await?;
                }
            }
        }
    }

    /// Runs a job with the backend on a thread where it delays no other session. The thread runs below those that read
    /// the network, unless another session may come to wait for this one.
    pub(crate) async fn aside<R: Send + 'static>(
        &mut self,
        job: impl FnOnce(&mut B) -> R + Send + 'static,
    ) -> Result<R, Stop> {
        let is_below = self.backend.class() != Class::High && self.backend.status() == TransactionStatus::Idle;
        Ok(self.lend_backend(is_below, job).await?)
    }

    /// Does the same with the backend and a portal if an error may undo much. Otherwise the job runs here.
    pub(crate) async fn beside_portal<R: Send + 'static>(
        &mut self,
        portal: &mut Lent<B::Portal>,
        job: impl FnOnce(&mut B, &mut B::Portal) -> R + Send + 'static,
    ) -> Result<R, Stop> {
        if !self.backend.has_long_end() {
            return Ok(job(&mut self.backend, portal));
        }
        let Some(mut own) = portal.lend() else { return Err(Gone::Fault.into()) };
        let job = move |backend: &mut B| {
            let made = job(backend, &mut own);
            (own, made)
        };
        let (own, made) = Box::pin(self.lend_backend(false, job)).await?;
        portal.give_back(own);
        Ok(made)
    }

    /// Lends the backend to a thread where it delays no other session. `is_below` tells whether the thread runs below
    /// those that read the network.
    pub(super) async fn lend_backend<R: Send + 'static>(
        &mut self,
        is_below: bool,
        job: impl FnOnce(&mut B) -> R + Send + 'static,
    ) -> Result<R, Gone> {
        let timeout = self.backend.time_left();
        let Some(mut backend) = self.backend.lend() else { return Err(Gone::Fault) };
        let job = move || {
            let made = job(&mut backend);
            (backend, made)
        };
        let (below, lift) = (Arc::clone(&self.below), Arc::<Lift>::default());
        let state = self.seen.set_below(is_below);
        let run = async {
            match is_below {
                true => below.run(&lift, job).await,
                false => tokio::task::spawn_blocking(job).await.ok(),
            }
        };
        let done = self.conn.beside(run, &*self.canceller, &|| lift.lift(), timeout).await;
        self.seen.restore(state);
        let (backend, made) = done.ok_or(Gone::Fault)?;
        self.backend.give_back(backend);
        self.drop_leavings();
        Ok(made)
    }

    /// Drops values that were made of a long text, on a thread where that delays no other session.
    pub(crate) fn drop_aside(&self, made: impl Send + 'static) {
        drop_below(Arc::clone(&self.below), made);
    }

    /// Drops the leavings of statements on a thread where that delays no other session.
    fn drop_leavings(&mut self) {
        if let Some(leavings) = self.backend.take_leavings() {
            self.drop_aside(leavings);
        }
    }

    /// Runs the portal here or on another thread: there if it takes too long for this one.
    async fn execute_portal(
        &mut self,
        totals: &StatementTotals,
        portal: &mut Lent<B::Portal>,
        mut streaming: Option<&mut Streaming>,
        is_elsewhere: bool,
    ) -> Result<Run, Stop> {
        let class = self.backend.class_of(portal);
        let is_below = class != Class::High
            && (is_elsewhere || totals.is_long() || (totals.is_new() && self.backend.is_large(portal)))
            && self.backend.holds_nothing(portal);
        // A statement that fails rolls back its transaction, or everything since its last savepoint.
        let is_elsewhere = is_elsewhere || self.backend.has_long_end();
        let is_here = self.dispatch == Dispatch::Spot && totals.is_short() && !is_below && !is_elsewhere;
        if is_here && self.backend.can_move(portal) {
            self.backend.stay_for(Some(STAY));
            self.backend.stream_to(streaming.as_deref().map_or(Destination::Whole, Streaming::lazily));
            let run = self.backend.execute(portal);
            self.backend.stay_for(None);
            if let Some(streaming) = streaming {
                streaming.take_sink(self.backend.sink());
            }
            self.backend.stream_to(Destination::Whole);
            self.drop_leavings();
            return self.unless_ended(run);
        }
        let (Some(mut backend), Some(mut own)) = (self.backend.lend(), portal.lend()) else {
            return Err(Gone::Fault.into());
        };
        let (asked, timeout) = (Instant::now(), backend.time_left());
        // Of the threads that are as many as needed one may wait for its client.
        let may_block = self.dispatch == Dispatch::Spot;
        backend
            .stream_to(streaming.as_deref_mut().map_or(Destination::Whole, |streaming| streaming.sink_for(may_block)));
        let job = move || {
            let queued = asked.elapsed();
            let run = backend.execute(&mut own);
            (backend, own, run, queued)
        };
        let (workers, below, lift) = (Arc::clone(&self.workers), Arc::clone(&self.below), Arc::<Lift>::default());
        let dispatch = self.dispatch;
        let state = self.seen.set_below(is_below && dispatch == Dispatch::Spot);
        let run = async {
            match dispatch {
                Dispatch::Worker => workers.run(class, job).await,
                // There are as many threads as needed: a statement that may be short does not wait for a long one.
                Dispatch::Spot if is_below => below.run(&lift, job).await,
                Dispatch::Spot => tokio::task::spawn_blocking(job).await.ok(),
            }
        };
        let mut run = pin!(run);
        let until = timeout.and_then(|timeout| asked.checked_add(timeout));
        let mut failed = None;
        // Pieces are sent as they come. If that fails, the statement ends soon, and its backend comes back.
        let done = loop {
            let pieces = streaming.as_deref().filter(|_| failed.is_none()).and_then(Streaming::stream);
            let next = poll_fn(|context| match run.as_mut().poll(context) {
                Poll::Ready(done) => Poll::Ready(Next::Done(done)),
                Poll::Pending => pieces.map_or(Poll::Pending, |pieces| pieces.poll_next(context).map(Next::Piece)),
            });
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
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
        self.seen.restore(state);
        let (mut backend, own, run, queued) = done.ok_or(Gone::Fault)?;
        backend.stream_to(Destination::Whole);
        self.spent.wait += queued;
        self.backend.give_back(backend);
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
        if self.seen.end.is_ended() || (is_cancelled && self.conn.is_ending()) {
            return Err(Gone::Server.into());
        }
        Ok(run?)
    }
}

/// Drops a value on a thread where that delays no other session.
pub(super) fn drop_below(below: Arc<Below>, made: impl Send + 'static) {
    tokio::spawn(async move { below.run(&Arc::default(), move || drop(made)).await });
}
