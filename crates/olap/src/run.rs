//! One run of a query.
//!
//! **Invariant: `finish` is called exactly once**, whatever happens: an answer, an error, a panic, a runtime that stops.
//! It is called when the last operator of the query is gone, on the thread that dropped it, and not before: after an error
//! or a `limit`, other tasks of the query may still be in the middle of a batch on other workers. This is why every
//! operator's stream holds the run, and the run's last field calls `finish`.
//!
//! A cancelled run ends at its next batch: each scan and each gap between operators looks at the flag.

use crate::database::PreparedQuery;
use crate::error::{Error, Result};
use crate::values;
use arrow_array::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::execute_stream;
use engine::{ScanPart, Snapshot, memory};
use futures::{FutureExt, StreamExt};
use locked::{Locked, LockedResult};
use statement::SqlResult;
use statement::holdings::{MemoryUse, SessionHoldings};
use statement::pulse::{self, Watch};
use std::any::Any;
use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use types::{Datum, SqlType};
use types::{forms::Forms, text};

/// Called between any two operators, after each batch: where a scheduler may run something urgent.
pub trait BatchHook: Send + Sync {
    /// A batch has passed. Runs on a worker, in its base context, inside the query's task.
    fn batch(&self);
}

/// For runs that nobody schedules.
pub struct NoHook;

impl BatchHook for NoHook {
    fn batch(&self) {}
}

/// Told how a run ended, on the worker that ended it. It must not panic: it may run while operators are dropped.
pub type Finish = Box<dyn FnOnce(Result<Answer>) + Send>;

/// How to run.
pub struct RunConfig {
    /// The degree of parallelism; 1 means one task, which stays on one worker at a time.
    pub partitions: usize,
    /// Called after each batch of each operator.
    pub hook: Arc<dyn BatchHook>,
}

impl RunConfig {
    /// `partitions` and no hook.
    pub fn new(partitions: usize) -> RunConfig {
        RunConfig { partitions, hook: Arc::new(NoHook) }
    }
}

/// What a query found, as it was found: whoever wants to look at the rows has them made.
#[derive(Debug, Clone)]
pub struct Answer {
    columns: Arc<[SqlType]>,
    /// In the order that the query asks for. All are of these types.
    batches: Vec<RecordBatch>,
}

impl Answer {
    /// How many rows.
    pub fn rows_count(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// With these rows, too.
    fn add(&mut self, batch: RecordBatch) -> Result<()> {
        values::readers(&batch, &self.columns).map_err(|error| Error::Execution(error.to_string()))?;
        self.batches.push(batch);
        Ok(())
    }

    /// Its rows as a session would show them in text; nothing stands for null.
    pub fn texts(&self) -> Vec<Vec<Option<String>>> {
        let rows = values::rows(&self.batches, &self.columns).expect("their types were looked at when they came");
        let shown = |row: &[Datum]| {
            let cells = row.iter().zip(&*self.columns);
            cells
                .map(|(value, kind)| (!value.is_null()).then(|| text::to_string(value, *kind, &Forms::DEFAULT)))
                .collect()
        };
        rows.iter().map(|row| shown(row)).collect()
    }
}

/// A query that has been started. Dropping this lets it run on.
#[derive(Clone)]
pub struct Running {
    id: u64,
    control: Arc<RunControl>,
}

/// What a [`Running`] shares with its run, without keeping it from ending.
#[derive(Default)]
struct RunControl {
    /// Only a hint to end soon: nothing is published by it, so relaxed.
    cancelled: AtomicBool,
    batches_count: AtomicU64,
}

impl Running {
    /// Tells it from all other runs of this process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Makes it end as [`Error::Cancelled`] at its next batch, unless it ends before.
    pub fn cancel(&self) {
        self.control.cancelled.store(true, Ordering::Relaxed);
    }

    /// Batches that have passed between operators so far: whether it makes progress.
    pub fn batches_count(&self) -> u64 {
        self.control.batches_count.load(Ordering::Relaxed)
    }
}

/// What the operators of a run share; they find it in DataFusion's session configuration.
pub(crate) struct RunContext {
    pub(crate) snapshot: Arc<Snapshot>,
    /// What its scans have read.
    pub(crate) read: RowsRead,
    hook: Arc<dyn BatchHook>,
    control: Arc<RunControl>,
    /// Like `cancelled`, for all runs of a runtime that stops.
    stopping: Arc<AtomicBool>,
    /// The parts of each scan of the plan, by the scan's number, split once so that the partitions agree on where one
    /// ends and the next begins. An urgent context never comes here, so an ordinary lock will do.
    parts: Mutex<HashMap<u64, Vec<Option<ScanPart>>>>,
    holdings: RunMemory,
    /// Dropped last: all else of the run is gone when it is reported.
    _ending: EndGuard,
}

thread_local! {
    /// Whether a call of [`RunContext::counted`] is under way, and what others within it have counted.
    static COUNTED: Cell<Option<i64>> = const { Cell::new(None) };
}

/// What a run holds of what its session holds.
struct RunMemory {
    session: Option<Arc<SessionHoldings>>,
    bytes: [AtomicI64; MemoryUse::ALL.len()],
}

impl Drop for RunMemory {
    /// What is left are rows that were found.
    fn drop(&mut self) {
        let Some(session) = &self.session else { return };
        for (of, bytes) in MemoryUse::ALL.into_iter().zip(&mut self.bytes) {
            session.add(of, -*bytes.get_mut());
            session.add(MemoryUse::Results, *bytes.get_mut());
        }
    }
}

/// Rows that scans have read.
#[derive(Default)]
pub(crate) struct RowsRead {
    /// Where blocks have them.
    pub(crate) frozen: AtomicU64,
    /// By gathering them.
    pub(crate) hot: AtomicU64,
}

impl RunContext {
    /// A batch passes from one operator to the next. Operators that keep batches do not all reserve memory for them.
    pub(crate) fn batch(&self) -> Result<(), DataFusionError> {
        self.control.batches_count.fetch_add(1, Ordering::Relaxed);
        self.hook.batch();
        self.check()?;
        pulse::room().map_err(|full| DataFusionError::External(Box::new(full)))
    }

    /// Calls `f`, and counts what it takes of memory for this use; for that of the call around it if there is none. What calls
    /// within it count is theirs.
    pub(crate) fn counted<R>(&self, of: Option<MemoryUse>, f: impl FnOnce() -> R) -> R {
        let around = COUNTED.get();
        let (Some(session), true) = (&self.holdings.session, of.is_some() || around.is_none()) else { return f() };
        let of = of.unwrap_or(MemoryUse::Results);
        let before = memory::thread_bytes();
        COUNTED.set(Some(0));
        let result = f();
        let all = (memory::thread_bytes() - before) as i64;
        let own = all - COUNTED.get().unwrap_or(0);
        COUNTED.set(around.map(|counted| counted + all));
        self.holdings.bytes[of as usize].fetch_add(own, Ordering::Relaxed);
        session.add(of, own);
        result
    }

    /// Fails if the run is cancelled or its runtime stops.
    pub(crate) fn check(&self) -> Result<(), DataFusionError> {
        self.why_end().map_or(Ok(()), |why| Err(DataFusionError::External(Box::new(why))))
    }

    /// Why it should end before its end.
    pub(crate) fn why_end(&self) -> Option<Error> {
        if self.control.cancelled.load(Ordering::Relaxed) {
            return Some(Error::Cancelled);
        }
        self.stopping.load(Ordering::Relaxed).then_some(Error::Stopped)
    }

    /// Part `partition` of scan `number`, which `split` divides if nobody has; `None` if there are fewer parts.
    pub(crate) fn take_part(
        &self,
        number: u64,
        partition: usize,
        split: impl FnOnce() -> engine::Result<Vec<ScanPart>>,
    ) -> engine::Result<Option<ScanPart>> {
        let mut parts = self.parts.locked_anyway();
        let parts = match parts.entry(number) {
            Entry::Occupied(parts) => parts.into_mut(),
            Entry::Vacant(place) => place.insert(split()?.into_iter().map(Some).collect()),
        };
        Ok(parts.get_mut(partition).and_then(Option::take))
    }
}

impl Watch for RunContext {
    fn look(&self) -> SqlResult<()> {
        self.why_end().map_or(Ok(()), |why| Err(crate::error::sql_error_of(why)))
    }
}

/// Work of a run between the operators: planning, and what is done with the rows.
pub(crate) async fn watched<F: Future>(run: Arc<RunContext>, work: F) -> F::Output {
    let mut work = std::pin::pin!(work);
    std::future::poll_fn(|context| {
        let watch: Arc<dyn Watch> = Arc::clone(&run) as _;
        run.counted(Some(MemoryUse::Results), || pulse::during(watch, || work.as_mut().poll(context)))
    })
    .await
}

/// What a runtime grants to each of its runs.
#[derive(Clone)]
pub(crate) struct RunLimits {
    pub(crate) environment: Arc<RuntimeEnv>,
    pub(crate) answer_rows_max: usize,
    pub(crate) stopping: Arc<AtomicBool>,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// What a run comes to, and who is told. A run that ends before it has come to anything was stopped.
pub(crate) trait RunEnd: Send + 'static {
    /// What it finds.
    type Result: Send + 'static;

    /// What a task's end with a panic, or the runtime's before the task's, comes to.
    fn failed(error: Error) -> Self::Result;

    /// To be called once, when nothing of the run is left.
    fn finish(self, result: Self::Result);
}

impl RunEnd for Finish {
    type Result = Result<Answer>;

    fn failed(error: Error) -> Result<Answer> {
        Err(error)
    }

    fn finish(self, result: Result<Answer>) {
        self(result);
    }
}

/// A run of what `work` does, and the task that does it.
pub(crate) fn start<E: RunEnd, F: Future<Output = E::Result> + Send + 'static>(
    snapshot: Arc<Snapshot>,
    hook: Arc<dyn BatchHook>,
    stopping: Arc<AtomicBool>,
    session: Option<Arc<SessionHoldings>>,
    ends: E,
    work: impl FnOnce(Arc<RunContext>) -> F,
) -> (Running, Pin<Box<dyn Future<Output = ()> + Send>>) {
    let control = Arc::new(RunControl::default());
    let running = Running { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), control: Arc::clone(&control) };
    let result = Arc::new(Mutex::new(E::failed(Error::Stopped)));
    let found = Arc::clone(&result);
    let run = Arc::new(RunContext {
        snapshot,
        read: RowsRead::default(),
        hook,
        control,
        stopping,
        parts: Mutex::default(),
        holdings: RunMemory { session, bytes: Default::default() },
        _ending: EndGuard(Mutex::new(Some(Box::new(move || {
            let mut found = found.locked_anyway();
            ends.finish(std::mem::replace(&mut *found, E::failed(Error::Stopped)));
        })))),
    });
    let work = work(Arc::clone(&run));
    let task = async move {
        // Until after the result is known.
        let _run = run;
        let failed = |payload: Box<dyn Any + Send>| E::failed(Error::panicked(payload.as_ref()));
        let found = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(failed);
        *result.locked_anyway() = found;
    };
    (running, Box::pin(task))
}

/// What a run of a prepared query finds.
pub(crate) async fn answer(
    prepared: Arc<PreparedQuery>,
    partitions: usize,
    limits: RunLimits,
    run: Arc<RunContext>,
) -> Result<Answer> {
    match watched(Arc::clone(&run), collect(prepared, partitions, limits, Arc::clone(&run))).await {
        // Operators wrap errors in their own ways; the flag says what the first cause was.
        Err(Error::Execution(error)) => Err(run.why_end().unwrap_or(Error::Execution(error))),
        other => other,
    }
}

async fn collect(
    prepared: Arc<PreparedQuery>,
    partitions: usize,
    limits: RunLimits,
    run: Arc<RunContext>,
) -> Result<Answer> {
    run.check().map_err(Error::execution)?;
    let columns = Arc::clone(prepared.columns());
    let (plan, context) = prepared.plan(partitions, limits.environment, run).await.map_err(Error::execution)?;
    let mut stream = execute_stream(plan, context).map_err(Error::execution)?;
    let mut answer = Answer { columns, batches: Vec::new() };
    let mut rows_count = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(Error::execution)?;
        rows_count += batch.num_rows();
        if limits.answer_rows_max < rows_count {
            return Err(Error::OutOfMemory(format!("the answer has more than {} rows", limits.answer_rows_max)));
        }
        answer.add(batch)?;
    }
    Ok(answer)
}

/// Tells of a run's end when it is dropped.
struct EndGuard(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        if let Some(end) = self.0.get_mut().anyway().take() {
            end();
        }
    }
}
