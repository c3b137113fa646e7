//! Analytics path of sessions: bound plans, lowered and run on the workers of their class.
//!
//! **Invariant:** a session is told once how its run has ended, at its deadline at the latest, whatever its operators do;
//! nothing of it stays behind in a queue. What a run has read of an open transaction counts only if that is still open when
//! the last row is there.

use crate::batch::AnswerBatch;
use crate::database::{Database, operators, session_of};
use crate::deadline::{DeadlineTarget, Deadlines};
use crate::error::{Error, sql_error, sql_error_of, sql_error_of_run};
use crate::lower::{asks_for_one_row, lower, plan_can_raise, refused};
use crate::run::{BatchHook, RunContext, RunEnd, Running, watched};
use crate::runtime::Runtime;
use crate::scan::TableOrigin;
use crate::{explain, values};
use datafusion::error::DataFusionError;
use datafusion::execution::{SessionState, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;
use locked::Locked;
use query::analytics::{
    Analytics, AnalyticsAnswer, AnalyticsFinish, AnalyticsPlan, AnalyticsQuery, AnalyticsReport, AnalyticsRun,
    AnalyticsStart, StoredCode,
};
use query::explain::ExplainNode;
use query::plan::Plan;
use query::rows::{ResultPiece, RowBatch};
use stage::Class;
use statement::error::Cancellation;
use statement::stream::Stream;
use statement::{SqlError, SqlResult, SqlState};
use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};
use types::{Datum, SqlType};

/// Admission of runs, limited in number.
pub trait Admission: Send + Sync {
    /// Calls `job` with a slot once one is free, perhaps before this returns. The slot is free again when the job
    /// drops it. Returns the number under which the job waits; `None` if too many wait.
    fn enter(&self, job: Job) -> Option<u64>;

    /// Drops the job of this number, if it still waits.
    fn take_back(&self, number: u64);
}

/// Job that waits at a [`Admission`].
pub type Job = Box<dyn FnOnce(Box<dyn QuerySlot>) + Send>;

/// Slot of a run.
pub trait QuerySlot: Send {
    /// Frees the slot while the run waits for its client.
    fn pause(&mut self);

    /// Takes the slot again, even if others have been admitted meanwhile.
    fn resume(&mut self);
}

/// Destination for the runs of a class.
pub struct ClassRuntime {
    /// Workers. Their owner keeps them until all sessions have ended.
    pub runtime: Weak<Runtime>,
    /// Admission queue.
    pub admission: Arc<dyn Admission>,
    /// Hook after each batch of each operator.
    pub hook: Arc<dyn BatchHook>,
}

/// Analytics path of sessions.
pub struct SqlAnalytics(Arc<AnalyticsState>);

struct AnalyticsState {
    session: SessionState,
    /// ClassRuntimes by class.
    class_runtimes: [ClassRuntime; 3],
    deadlines: Deadlines,
}

impl SqlAnalytics {
    /// Creates the analytics of one engine's tables. `class_runtimes` are in the order of [`Class::ALL`].
    ///
    /// # Errors
    /// If the thread for deadlines cannot be started, or DataFusion refuses its configuration, which would be a bug.
    pub fn new(database: &Database, class_runtimes: [ClassRuntime; 3]) -> io::Result<Arc<SqlAnalytics>> {
        let (session, deadlines) = (database.session().clone(), Deadlines::new()?);
        Ok(Arc::new(SqlAnalytics(Arc::new(AnalyticsState { session, class_runtimes, deadlines }))))
    }
}

impl AnalyticsState {
    fn class_runtime(&self, class: Class) -> &ClassRuntime {
        let at = Class::ALL.iter().position(|one| *one == class);
        &self.class_runtimes[at.expect("all classes are there")]
    }

    /// Returns the operators of a run, and the task context that leads them to it.
    async fn operators(
        &self,
        plan: &Plan,
        columns: &[SqlType],
        start: &AnalyticsStart,
        runtime: &RuntimeGrant,
    ) -> SqlResult<RunOperators> {
        let (context, code) = (&start.context, start.code.as_ref());
        // The types of the parameters are those of their values.
        let query = AnalyticsQuery { plan, parameters: &[], columns, context, code };
        let logical = lower(&query, &start.parameters, &TableOrigin::OfEngine)?;
        let (can_fail, asks_for_one_row) = (plan_can_raise(&logical), asks_for_one_row(&logical));
        let session = session_of(&self.session, runtime.partitions);
        let operators = operators(logical, &session, &start.snapshot).await.map_err(planning)?;
        Ok(RunOperators { operators, session, can_fail, asks_for_one_row })
    }
}

/// Operators of one run.
struct RunOperators {
    operators: Arc<dyn ExecutionPlan>,
    session: SessionState,
    /// True if a row may make the run fail.
    can_fail: bool,
    /// True if it has a scalar subquery that may have several rows.
    asks_for_one_row: bool,
}

/// Converts an error of planning. Constants keep the errors of their own.
fn planning(error: DataFusionError) -> SqlError {
    let unplanned = refused(DataFusionError::Plan(error.strip_backtrace()));
    Some(sql_error(error)).filter(|own| own.state() != SqlState::INTERNAL_ERROR).unwrap_or(unplanned)
}

/// Limits and memory that a runtime grants to a run.
struct RuntimeGrant {
    partitions: usize,
    environment: Arc<datafusion::execution::runtime_env::RuntimeEnv>,
}

impl RuntimeGrant {
    fn of(runtime: &Runtime) -> RuntimeGrant {
        RuntimeGrant { partitions: runtime.workers(), environment: Arc::clone(runtime.environment()) }
    }
}

impl Analytics for SqlAnalytics {
    fn prepare(&self, query: &AnalyticsQuery<'_>) -> SqlResult<Arc<dyn AnalyticsPlan>> {
        // A refusal does not depend on the parameters.
        let nulls = vec![Datum::Null; query.parameters.len()];
        lower(query, &nulls, &TableOrigin::OfEngine)?;
        let (plan, columns) = (Arc::new(query.plan.clone()), query.columns.into());
        Ok(Arc::new(ReadyPlan { inner: Arc::clone(&self.0), plan, columns }))
    }
}

/// Plan that was lowered successfully before.
struct ReadyPlan {
    inner: Arc<AnalyticsState>,
    plan: Arc<Plan>,
    columns: Arc<[SqlType]>,
}

impl AnalyticsPlan for ReadyPlan {
    fn start(&self, start: AnalyticsStart, finish: AnalyticsFinish) -> SqlResult<Arc<dyn AnalyticsRun>> {
        let class_runtime = self.inner.class_runtime(start.class);
        let run = Arc::new(RunHandle {
            finish: Mutex::new(Some(finish)),
            is_over: AtomicBool::new(false),
            running: OnceLock::new(),
            place: OnceLock::new(),
            admission: Arc::clone(&class_runtime.admission),
            stream: start.stream.clone(),
            code: start.code.clone(),
        });
        if let Some(deadline) = start.deadline {
            let run = Arc::downgrade(&run);
            self.inner.deadlines.add(deadline, run);
        }
        let work = RunWork {
            inner: Arc::clone(&self.inner),
            plan: Arc::clone(&self.plan),
            columns: Arc::clone(&self.columns),
            start,
            asked: Instant::now(),
        };
        let begun = Arc::clone(&run);
        let Some(place) = class_runtime.admission.enter(Box::new(move |room| begun.begin(work, room))) else {
            run.take_finish();
            return Err(SqlError::new(
                SqlState::INSUFFICIENT_RESOURCES,
                "too many queries wait to be run as analytics",
            ));
        };
        // This is the only place that sets it.
        let _ = run.place.set(place);
        if run.is_over.load(SeqCst) {
            // A cancel that came earlier may not have found the number.
            run.admission.take_back(place);
        }
        Ok(run)
    }

    fn explain(&self, start: &AnalyticsStart) -> SqlResult<ExplainNode> {
        let runtime =
            self.inner.class_runtime(start.class).runtime.upgrade().ok_or_else(|| sql_error_of(Error::Stopped))?;
        let grant = RuntimeGrant::of(&runtime);
        // This does not wait: the planner does no I/O.
        let operators = self.inner.operators(&self.plan, &self.columns, start, &grant);
        let operators = futures::executor::block_on(operators)?;
        Ok(explain::node(&*operators.operators, false))
    }
}

/// Work of a run.
struct RunWork {
    inner: Arc<AnalyticsState>,
    plan: Arc<Plan>,
    columns: Arc<[SqlType]>,
    start: AnalyticsStart,
    asked: Instant,
}

/// Handle of a run, for those who wait for it or end it.
struct RunHandle {
    finish: Mutex<Option<AnalyticsFinish>>,
    is_over: AtomicBool,
    running: OnceLock<Running>,
    /// Number in the admission queue.
    place: OnceLock<u64>,
    admission: Arc<dyn Admission>,
    /// Queue of its rows. A run that waits for room there ends when the queue is closed.
    stream: Option<Arc<Stream<ResultPiece>>>,
    /// Stored code that it calls.
    code: Option<Arc<dyn StoredCode>>,
}

impl RunHandle {
    fn take_finish(&self) -> Option<AnalyticsFinish> {
        self.finish.locked_anyway().take()
    }

    /// Ends the run. Returns false if it had ended before.
    fn end(&self, result: SqlResult<AnalyticsAnswer>) -> bool {
        let finish = self.take_finish();
        finish.map(|finish| finish(result)).is_some()
    }

    /// Ends the run at once; its threads stop at their next check.
    fn stop(&self, error: SqlError) {
        self.is_over.store(true, SeqCst);
        // Rows of a run that has ended by itself belong to its client.
        if self.end(Err(error))
            && let Some(stream) = &self.stream
        {
            stream.close();
        }
        if let Some(running) = self.running.get() {
            running.cancel();
        }
        self.end_code();
        if let Some(place) = self.place.get() {
            self.admission.take_back(*place);
        }
    }

    /// Ends the code that operators call: those that divide rows among partitions do so without a look at the run.
    fn end_code(&self) {
        if let Some(code) = &self.code {
            code.end();
        }
    }

    /// Starts the run in its slot.
    fn begin(self: Arc<RunHandle>, work: RunWork, room: Box<dyn QuerySlot>) {
        let room = Arc::new(Mutex::new(room));
        if self.is_over.load(SeqCst) {
            return;
        }
        let class_runtime = work.inner.class_runtime(work.start.class);
        let Some(runtime) = class_runtime.runtime.upgrade() else {
            self.end(Err(sql_error_of(Error::Stopped)));
            return;
        };
        let (grant, hook) = (RuntimeGrant::of(&runtime), Arc::clone(&class_runtime.hook));
        let (snapshot, ends) =
            (Arc::clone(&work.start.snapshot), FinishGuard { run: Arc::clone(&self), _room: Arc::clone(&room) });
        let session = Some(Arc::clone(&work.start.holdings));
        let running = runtime.run_work(snapshot, hook, session, ends, |context| answer(work, grant, room, context));
        let running = self.running.get_or_init(|| running);
        if self.is_over.load(SeqCst) {
            running.cancel();
        }
    }
}

impl AnalyticsRun for RunHandle {
    fn cancel(&self) {
        self.stop(sql_error_of(Error::Cancelled));
    }
}

impl DeadlineTarget for RunHandle {
    fn is_late(&self) {
        self.stop(SqlError::cancelled(Cancellation::StatementTimeout));
    }
}

/// Slot of a run, shared by its end and by the sender of its rows.
type SharedSlot = Arc<Mutex<Box<dyn QuerySlot>>>;

/// Guard that reports to the session, and then frees the slot.
struct FinishGuard {
    run: Arc<RunHandle>,
    _room: SharedSlot,
}

impl RunEnd for FinishGuard {
    type Result = SqlResult<AnalyticsAnswer>;

    fn failed(error: Error) -> SqlResult<AnalyticsAnswer> {
        Err(sql_error_of(error))
    }

    fn finish(self, result: SqlResult<AnalyticsAnswer>) {
        // Of a run that has failed, other partitions may still call code.
        self.run.end_code();
        self.run.end(result);
    }
}

async fn answer(
    work: RunWork,
    grant: RuntimeGrant,
    room: SharedSlot,
    run: Arc<RunContext>,
) -> SqlResult<AnalyticsAnswer> {
    let found = watched(Arc::clone(&run), collect(&work, grant, &room, &run)).await;
    // Operators wrap errors in various ways; the flag tells the first cause.
    match run.why_end() {
        Some(why) if found.is_err() => Err(sql_error_of(why)),
        _ => found,
    }
}

async fn collect(
    work: &RunWork,
    grant: RuntimeGrant,
    room: &SharedSlot,
    run: &Arc<RunContext>,
) -> SqlResult<AnalyticsAnswer> {
    let RunWork { inner, plan, columns, start, asked } = work;
    let begun = Instant::now();
    run.check().map_err(sql_error)?;
    let RunOperators { operators, session, can_fail, asks_for_one_row } =
        inner.operators(plan, columns, start, &grant).await?;
    let failed = |error| sql_error_of_run(error, asks_for_one_row);
    // A query that fails here may be repeated on the row path, unless rows were sent.
    let sink = start.stream.as_ref().filter(|_| !can_fail);
    let planned = Instant::now();
    let config = session.config().clone().with_extension(Arc::clone(run));
    let context = TaskContext::from(&session).with_session_config(config).with_runtime(grant.environment);
    let mut stream = execute_stream(Arc::clone(&operators), Arc::new(context)).map_err(failed)?;
    let mut answer = AnalyticsAnswer::default();
    let mut converting = Duration::ZERO;
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(failed)?;
        let converted = Instant::now();
        match sink {
            Some(sink) => {
                answer.streamed += batch.num_rows() as u64;
                send(sink, AnswerBatch::new(batch, columns)?, room).await?;
            }
            None => answer.add(values::rows(&[batch], columns)?)?,
        }
        converting += converted.elapsed();
    }
    drop(stream);
    if !run.snapshot.is_intact() {
        // The transaction was aborted, probably by a more important one.
        return Err(engine::Error::Taken.into());
    }
    if start.analyze {
        answer.report = Some(AnalyticsReport {
            plan: explain::node(&*operators, true),
            rows_in_place: run.read.frozen.load(Relaxed),
            rows_copied: run.read.hot.load(Relaxed),
            stages: vec![
                ("Queue", begun - *asked),
                ("Lowering", planned - begun),
                ("Run", planned.elapsed().saturating_sub(converting)),
                ("Rows", converting),
            ],
        });
    }
    Ok(answer)
}

/// Puts a batch into a queue in pieces, as it has room. The run waits meanwhile, and no thread does.
async fn send(sink: &Stream<ResultPiece>, batch: AnswerBatch, room: &SharedSlot) -> SqlResult<()> {
    let mut from = 0;
    while let Some((piece, bytes)) = batch.piece(from)? {
        from += piece.rows_count();
        let mut piece = Some(ResultPiece::Batch(Box::new(piece)));
        poll_fn(|context| {
            let pushed = sink.poll_push(context, &mut piece, bytes);
            // A client that does not read, or a cursor that is not moved, keeps no other query from running.
            match pushed {
                Poll::Pending => room.locked().pause(),
                Poll::Ready(_) => room.locked().resume(),
            }
            pushed
        })
        .await?;
    }
    Ok(())
}
