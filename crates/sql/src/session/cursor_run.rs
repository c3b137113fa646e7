//! Query of a cursor that the row executor runs on a thread of its own, while the cursor moves forward.
//!
//! **Invariant:** a run shares nothing with its session that a later statement changes. It reads the snapshot, the catalog and
//! the settings of its statement, and ends with its cursor. A query that is small, or fails before it is large, ends on the
//! thread of its session; a larger one only reads, so it begins again.

use super::action::Action;
use super::analysis::Analysis;
use super::names::SessionNames;
use super::queries::{BUDGET_ROWS, rows};
use super::run::{RunNeeds, StatementRun};
use super::stream::{CAPACITY, Destination};
use super::{BoundStatement, Database, Parked, PlannedQuery, Session, Step};
use crate::context::Env;
use crate::exec::{AdvisoryState, FirstRows, Run, RunUsage, SessionSequences};
use catalog::CatalogSnapshot;
use engine::{Isolation, Snapshot};
use query::analytics::{AnalyticsAnswer, AnalyticsRun};
use query::rows::ResultPiece;
use stage::Class;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse::{self, Watch};
use statement::stack;
use statement::stream::Stream;
use std::cell::{LazyCell, OnceCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::thread;
use types::datum::Datum;

/// Greatest number of threads of cursors in a server. The rows of further cursors are made as a whole.
const THREADS_MAX: usize = 128;

/// Number of threads that run queries of cursors, or procedures that end transactions.
#[derive(Debug, Default)]
pub(super) struct SessionThreads(AtomicUsize);

/// Place of one of these threads.
pub(super) struct ThreadPlace(Arc<SessionThreads>);

impl SessionThreads {
    /// Returns a place for a thread, if there are fewer than `most`.
    pub(super) fn enter(self: &Arc<SessionThreads>, most: usize) -> Option<ThreadPlace> {
        let more = |count| (count < most).then_some(count + 1);
        self.0.fetch_update(SeqCst, SeqCst, more).ok().map(|_| ThreadPlace(Arc::clone(self)))
    }
}

impl SessionThreads {
    /// Returns the number of threads.
    pub(super) fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

impl Drop for ThreadPlace {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, SeqCst);
    }
}

impl Database {
    /// Returns the number of threads that run queries of cursors.
    pub fn cursor_threads(&self) -> usize {
        self.cursor_threads.count()
    }
}

/// Flag that ends a run.
#[derive(Default)]
struct RunFlag(AtomicBool);

impl AnalyticsRun for RunFlag {
    fn cancel(&self) {
        self.0.store(true, Relaxed);
    }
}

impl Watch for RunFlag {
    fn look(&self) -> SqlResult<()> {
        if self.0.load(Relaxed) { Err(engine::Error::Cancelled.into()) } else { Ok(()) }
    }
}

/// Run of a cursor's query.
struct CursorRun {
    bound: Arc<BoundStatement>,
    values: Vec<Datum>,
    env: Env,
    seen: Arc<CatalogSnapshot>,
    snapshot: Arc<Snapshot>,
    advised: AdvisoryState,
    class: Class,
    /// Number of the session in the engine.
    session: u64,
    stream: Arc<Stream<ResultPiece>>,
    flag: Arc<RunFlag>,
}

/// Reports the end of a run, even if its thread panics.
struct RunEnd(Arc<Analysis>, Option<ThreadPlace>);

impl RunEnd {
    fn end(&mut self, result: SqlResult<AnalyticsAnswer>) {
        // Whoever learns of the end finds the place free.
        self.1 = None;
        self.0.end(result, false);
    }
}

impl Drop for RunEnd {
    fn drop(&mut self) {
        self.end(Err(SqlError::new(SqlState::INTERNAL_ERROR, "the query of a cursor has ended without a result")));
    }
}

impl CursorRun {
    /// Puts the rows into the queue, and counts them in the answer.
    fn run(self) -> SqlResult<AnalyticsAnswer> {
        let CursorRun { bound, values, env, seen, snapshot, advised, class, session, stream, flag } = &self;
        let Action::Query(query) = &*bound.action else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a cursor over something other than a query"));
        };
        let numbers = SessionSequences::default();
        let mut answer = AnalyticsAnswer::default();
        answer.streamed = snapshot.read(*class, *session, |txn| {
            let run = Run {
                txn,
                parameters: values,
                env,
                catalog: &seen.state,
                path: &seen.path,
                definitions: None,
                numbers: &numbers,
                advised,
                spent: RunUsage::default(),
                changes: OnceCell::new(),
                memo: LazyCell::new(Box::default),
                locals: Default::default(),
                ready: Default::default(),
                probe: None,
            };
            let push = &mut |rows, bytes| stream.push_until_closed(ResultPiece::Rows(rows), bytes);
            pulse::during(Arc::clone(flag) as _, || run.stream(&query.rows, push))
        })??;
        Ok(answer)
    }
}

impl Session {
    /// Returns true if the rows of a query that is run by rows may arrive while its cursor moves forward: the query only reads,
    /// and what it reads does not change with the transaction.
    pub(super) fn may_run_apart(&self, given: StatementRun<'_>, query: &PlannedQuery) -> bool {
        matches!(self.destination, Destination::Cursor { .. })
            && self.settings.isolation() != Isolation::Serializable
            && self.work.is_none()
            && self.roles.is_none()
            && given.bound.uses.is_empty()
            && given.bound.known.is_pure(&query.rows)
    }

    /// Runs the query of a cursor by rows while it is small. `go_on` runs a larger one.
    pub(super) fn by_first_rows(
        &mut self,
        given: StatementRun<'_>,
        query: &PlannedQuery,
        go_on: impl FnOnce(&mut Session) -> SqlResult<Step>,
    ) -> SqlResult<Step> {
        let spent = || RunUsage::within(BUDGET_ROWS);
        let ran = self
            .run_within(given.values, RunNeeds::of(given.bound), spent, |run| run.first_rows(&query.rows, CAPACITY))?;
        self.step_of(ran, given, |session, first| match first {
            FirstRows::All(all) => Ok(Step::Done(rows(all))),
            FirstRows::Until(all, bytes, error) => {
                let (analysis, stream) = Analysis::of_rows(Arc::<RunFlag>::default());
                stream.push_until_closed(ResultPiece::Rows(all), bytes)?;
                analysis.end(Err(error), false);
                Ok(Step::Parked(Parked::Analysis(analysis)))
            }
            FirstRows::TooMany => {
                session.destination = Destination::Cursor { is_large: true };
                go_on(session)
            }
        })
    }

    /// Starts the query of a cursor by rows on a thread of its own; runs it here if there is no thread.
    pub(super) fn run_apart(&mut self, given: StatementRun<'_>, query: &PlannedQuery) -> SqlResult<Step> {
        let Some(place) = self.database.cursor_threads.enter(THREADS_MAX) else {
            return self.by_all_rows(given, query);
        };
        let seen = self.see_now();
        let reads = given.bound.known.reads(&query.rows);
        let snapshot = match seen.state.version() == given.bound.catalog {
            true => self.snapshot(given.bound, reads)?,
            false => None,
        };
        let Some(snapshot) = snapshot else { return self.again(given) };
        let statement_us = self.time.unix_us();
        let flag = Arc::<RunFlag>::default();
        let (analysis, stream) = Analysis::of_rows(Arc::clone(&flag) as _);
        let run = CursorRun {
            bound: Arc::clone(given.bound),
            values: given.values.to_vec(),
            env: self.env_at(statement_us).apart(SessionNames::default().listed()),
            seen,
            snapshot,
            advised: AdvisoryState::new(self.engine.advisory_locks()),
            class: self.class(),
            session: self.engine.number(),
            stream,
            flag,
        };
        let mut end = RunEnd(Arc::clone(&analysis), Some(place));
        let work = move || {
            // As deep as the statement may be, it fits. An untouched page costs nothing.
            end.end(stack::on_large(|| run.run()));
        };
        match thread::Builder::new().name("cursor".to_owned()).spawn(work) {
            Ok(_) => Ok(Step::Parked(Parked::Analysis(analysis))),
            Err(_) => self.by_all_rows(given, query),
        }
    }
}
