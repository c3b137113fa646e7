//! Run of a query.
//!
//! **Invariant: `finish` is called exactly once**, whatever happens: an answer, an error, a panic, a runtime that stops.
//! It is called when the last operator of the query is gone, on the thread that dropped it, and not before: after an error
//! or a `limit`, other tasks of the query may still be in the middle of a batch on other workers. This is why every
//! operator's stream holds the run, and the run's last field calls `finish`.
//!
//! A cancelled run ends at its next batch: each scan and each gap between operators looks at the flag.

use crate::error::{Error, Result};
use crate::values;
use arrow_array::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::execution::runtime_env::RuntimeEnv;
use engine::{ScanPart, Snapshot, memory};
use futures::FutureExt;
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

/// Hook between any two operators, after each batch, where a scheduler may run urgent work.
pub trait BatchHook: Send + Sync {
    /// Called after a batch, on a worker, in its base context, inside the query's task.
    fn batch(&self);
}

/// Hook of runs without a scheduler.
pub struct NoHook;

impl BatchHook for NoHook {
    fn batch(&self) {}
}

/// Receiver of a run's result, called on the worker that ended it. It must not panic, as it may run while operators
/// are dropped.
pub type Finish = Box<dyn FnOnce(Result<Answer>) + Send>;

/// Configuration of a run.
pub struct RunConfig {
    /// Degree of parallelism; 1 means one task, which is on one worker at a time.
    pub partitions: usize,
    /// Hook after each batch of each operator.
    pub hook: Arc<dyn BatchHook>,
}

impl RunConfig {
    /// Returns a configuration with this parallelism and no hook.
    pub fn new(partitions: usize) -> RunConfig {
        RunConfig { partitions, hook: Arc::new(NoHook) }
    }
}

/// Result of a query, in batches. Rows are made on demand.
#[derive(Debug, Clone)]
pub struct Answer {
    columns: Arc<[SqlType]>,
    /// In the order of the query. All batches have these types.
    batches: Vec<RecordBatch>,
}

impl Answer {
    /// Returns the number of rows.
    pub fn rows_count(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Returns an answer without rows.
    pub(crate) fn of(columns: Arc<[SqlType]>) -> Answer {
        Answer { columns, batches: Vec::new() }
    }

    /// Adds a batch.
    pub(crate) fn add(&mut self, batch: RecordBatch) -> Result<()> {
        values::readers(&batch, &self.columns).map_err(|error| Error::Execution(error.to_string()))?;
        self.batches.push(batch);
        Ok(())
    }

    /// Returns the rows as text, as a session would show them; `None` for null.
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

/// Handle of a started query. Dropping it lets the query go on.
#[derive(Clone)]
pub struct Running {
    id: u64,
    control: Arc<RunControl>,
}

/// State that a [`Running`] shares with its run without keeping the run alive.
#[derive(Default)]
struct RunControl {
    /// Only a hint to end soon. It publishes nothing, so it is relaxed.
    cancelled: AtomicBool,
    batches_count: AtomicU64,
}

impl Running {
    /// Returns a number that is unique among the runs of this process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Cancels the run: it ends with [`Error::Cancelled`] at its next batch, unless it has ended.
    pub fn cancel(&self) {
        self.control.cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns the number of batches passed between operators so far, as a sign of progress.
    pub fn batches_count(&self) -> u64 {
        self.control.batches_count.load(Ordering::Relaxed)
    }
}

/// State that the operators of a run share. They find it in DataFusion's session configuration.
pub(crate) struct RunContext {
    pub(crate) snapshot: Arc<Snapshot>,
    /// Rows read by its scans.
    pub(crate) read: RowsRead,
    hook: Arc<dyn BatchHook>,
    control: Arc<RunControl>,
    /// Like `cancelled`, for all runs of a runtime that stops.
    stopping: Arc<AtomicBool>,
    /// The parts of each scan of the plan, by the scan's number, split once so that the partitions agree on where one
    /// ends and the next begins. An urgent context never comes here, so an ordinary lock will do.
    parts: Mutex<HashMap<u64, Vec<Option<ScanPart>>>>,
    holdings: RunMemory,
    /// Dropped last: everything else of the run is gone when its end is reported.
    _ending: EndGuard,
}

thread_local! {
    /// `Some` during a call of [`RunContext::counted`], with the bytes counted by calls within it.
    static COUNTED: Cell<Option<i64>> = const { Cell::new(None) };
}

/// Memory of a run, as part of its session's.
struct RunMemory {
    session: Option<Arc<SessionHoldings>>,
    bytes: [AtomicI64; MemoryUse::ALL.len()],
}

impl Drop for RunMemory {
    /// The rest are rows of the result.
    fn drop(&mut self) {
        let Some(session) = &self.session else { return };
        for (of, bytes) in MemoryUse::ALL.into_iter().zip(&mut self.bytes) {
            session.add(of, -*bytes.get_mut());
            session.add(MemoryUse::Results, *bytes.get_mut());
        }
    }
}

/// Number of rows read by scans.
#[derive(Default)]
pub(crate) struct RowsRead {
    /// Rows of frozen blocks.
    pub(crate) frozen: AtomicU64,
    /// Hot rows.
    pub(crate) hot: AtomicU64,
}

impl RunContext {
    /// Notes a batch between operators. Not all operators that keep batches reserve memory for them.
    pub(crate) fn batch(&self) -> Result<(), DataFusionError> {
        self.control.batches_count.fetch_add(1, Ordering::Relaxed);
        self.hook.batch();
        self.check()?;
        pulse::room().map_err(|full| DataFusionError::External(Box::new(full)))
    }

    /// Calls `f`, and counts the memory it takes for this use, or else for that of the enclosing call. Memory counted
    /// by calls within it is left to these.
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

    /// Fails if the run is canceled or its runtime stops.
    pub(crate) fn check(&self) -> Result<(), DataFusionError> {
        self.why_end().map_or(Ok(()), |why| Err(DataFusionError::External(Box::new(why))))
    }

    /// Returns the reason to end early, if there is one.
    pub(crate) fn why_end(&self) -> Option<Error> {
        if self.control.cancelled.load(Ordering::Relaxed) {
            return Some(Error::Cancelled);
        }
        self.stopping.load(Ordering::Relaxed).then_some(Error::Stopped)
    }

    /// Takes part `partition` of scan `number`, which the first caller divides with `split`; `None` if there are fewer
    /// parts.
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

/// Runs work of a run outside its operators: planning, and processing of rows.
pub(crate) async fn watched<F: Future>(run: Arc<RunContext>, work: F) -> F::Output {
    let mut work = std::pin::pin!(work);
    std::future::poll_fn(|context| {
        let watch: Arc<dyn Watch> = Arc::clone(&run) as _;
        run.counted(Some(MemoryUse::Results), || pulse::during(watch, || work.as_mut().poll(context)))
    })
    .await
}

/// Limits that a runtime sets to each of its runs.
#[derive(Clone)]
pub(crate) struct RunLimits {
    pub(crate) environment: Arc<RuntimeEnv>,
    pub(crate) answer_rows_max: usize,
    pub(crate) stopping: Arc<AtomicBool>,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Result of a run, and its receiver. A run that ends without a result was stopped.
pub(crate) trait RunEnd: Send + 'static {
    /// Type of the result.
    type Result: Send + 'static;

    /// Returns the result of a task that panicked, or was dropped by its runtime.
    fn failed(error: Error) -> Self::Result;

    /// Reports the result. Called once, when nothing of the run is left.
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

/// Returns a run that does `work`, and its task.
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
        // Kept until the result is known.
        let _run = run;
        let failed = |payload: Box<dyn Any + Send>| E::failed(Error::panicked(payload.as_ref()));
        let found = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(failed);
        *result.locked_anyway() = found;
    };
    (running, Box::pin(task))
}

/// Guard that reports the end of a run when it is dropped.
struct EndGuard(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        if let Some(end) = self.0.get_mut().anyway().take() {
            end();
        }
    }
}
