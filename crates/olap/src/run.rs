//! One run of a prepared query.
//!
//! **Invariant: `finish` is called exactly once**, whatever happens: an answer, an error, a panic, a runtime that stops.
//! It is called when the last operator of the query is gone, on the thread that dropped it, and not before: after an error
//! or a `limit`, other tasks of the query may still be in the middle of a batch on other workers. This is why every
//! operator's stream holds the run, and the run's last field calls `finish`.
//!
//! A cancelled run ends at its next batch: each scan and each gap between operators looks at the flag.

use crate::database::Prepared;
use crate::error::{Error, Result};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::error::DataFusionError;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::execute_stream;
use engine::{ScanPart, Snapshot};
use futures::{FutureExt, StreamExt};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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

/// What a query found.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its columns.
    pub schema: SchemaRef,
    /// Its rows, in the order that the query asks for.
    pub batches: Vec<RecordBatch>,
}

impl Answer {
    /// How many rows.
    pub fn rows_count(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

/// A query that has been started. Dropping this lets it run on.
#[derive(Clone)]
pub struct Running {
    id: u64,
    control: Arc<Control>,
}

/// What a [`Running`] shares with its run, without keeping it from ending.
#[derive(Default)]
struct Control {
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
    hook: Arc<dyn BatchHook>,
    control: Arc<Control>,
    /// Like `cancelled`, for all runs of a runtime that stops.
    stopping: Arc<AtomicBool>,
    /// The parts of each scan of the plan, by the scan's number, split once so that the partitions agree on where one
    /// ends and the next begins. An urgent context never comes here, so an ordinary lock will do.
    parts: Mutex<HashMap<u64, Vec<Option<ScanPart>>>>,
    /// Dropped last: all else of the run is gone when it is reported.
    ending: Ending,
}

impl RunContext {
    /// A batch passes from one operator to the next.
    pub(crate) fn batch(&self) -> Result<(), DataFusionError> {
        self.control.batches_count.fetch_add(1, Ordering::Relaxed);
        self.hook.batch();
        self.check()
    }

    /// Fails if the run is cancelled or its runtime stops.
    pub(crate) fn check(&self) -> Result<(), DataFusionError> {
        self.why_end().map_or(Ok(()), |why| Err(DataFusionError::External(Box::new(why))))
    }

    fn why_end(&self) -> Option<Error> {
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
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = match parts.entry(number) {
            Entry::Occupied(parts) => parts.into_mut(),
            Entry::Vacant(place) => place.insert(split()?.into_iter().map(Some).collect()),
        };
        Ok(parts.get_mut(partition).and_then(Option::take))
    }
}

/// What a runtime grants to each of its runs.
#[derive(Clone)]
pub(crate) struct Limits {
    pub(crate) environment: Arc<RuntimeEnv>,
    pub(crate) answer_rows_max: usize,
    pub(crate) stopping: Arc<AtomicBool>,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A run and the task that does it.
pub(crate) fn start(
    prepared: Arc<Prepared>,
    snapshot: Arc<Snapshot>,
    config: RunConfig,
    limits: Limits,
    finish: Finish,
) -> (Running, impl Future<Output = ()> + Send + 'static) {
    assert!(1 <= config.partitions, "a query has at least one partition");
    let control = Arc::new(Control::default());
    let running = Running { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), control: Arc::clone(&control) };
    let run = Arc::new(RunContext {
        snapshot,
        hook: config.hook,
        control,
        stopping: limits.stopping,
        parts: Mutex::default(),
        ending: Ending(Mutex::new(Some(End { finish, result: Err(Error::Stopped) }))),
    });
    let task = async move {
        let answer = collect(prepared, config.partitions, limits.environment, Arc::clone(&run), limits.answer_rows_max);
        let result = AssertUnwindSafe(answer).catch_unwind().await;
        let result = result.unwrap_or_else(|payload| Err(Error::panicked(payload.as_ref())));
        run.ending.set(match result {
            // Operators wrap errors in their own ways; the flag says what the first cause was.
            Err(Error::Execution(error)) => Err(run.why_end().unwrap_or(Error::Execution(error))),
            other => other,
        });
    };
    (running, task)
}

async fn collect(
    prepared: Arc<Prepared>,
    partitions: usize,
    environment: Arc<RuntimeEnv>,
    run: Arc<RunContext>,
    answer_rows_max: usize,
) -> Result<Answer> {
    run.check().map_err(Error::execution)?;
    let (plan, context) = prepared.plan(partitions, environment, Arc::clone(&run)).await.map_err(Error::execution)?;
    let mut stream = execute_stream(plan, context).map_err(Error::execution)?;
    let mut answer = Answer { schema: stream.schema(), batches: Vec::new() };
    let mut rows_count = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(Error::execution)?;
        rows_count += batch.num_rows();
        if answer_rows_max < rows_count {
            return Err(Error::OutOfMemory(format!("the answer has more than {answer_rows_max} rows")));
        }
        answer.batches.push(batch);
    }
    Ok(answer)
}

/// Calls `finish` when it is dropped, with what was set last; [`Error::Stopped`] if the task was dropped before its end.
struct Ending(Mutex<Option<End>>);

struct End {
    finish: Finish,
    result: Result<Answer>,
}

impl Ending {
    fn set(&self, result: Result<Answer>) {
        if let Some(end) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            end.result = result;
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(End { finish, result }) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            finish(result);
        }
    }
}
