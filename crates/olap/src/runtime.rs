//! The threads that run queries.
//!
//! **Invariant: the hooks see exactly the workers.** Tokio calls its thread hooks for blocking threads too, but it starts
//! the workers first, one job a thread, and nothing can ask for a blocking thread before [`Runtime::new`] returns, which
//! waits until all workers have started. So the first N threads that start are the workers. (`block_in_place` would move a
//! worker to another thread; nothing here calls it.)
//!
//! The runtime has neither timers nor sockets: its threads park on a condition variable, and nowhere else.

use crate::error::{Error, Result};
use crate::run::{BatchHook, Finish, RunConfig, RunContext, RunEnd, RunLimits, Running};
use crate::{PreparedQuery, run};
use datafusion::error::DataFusionError;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use engine::{Snapshot, memory};
use locked::{Locked, LockedResult};
use statement::holdings::SessionHoldings;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// What a scheduler wants to know of the worker threads. Called on the thread itself, in its base context.
pub trait WorkerHooks: Send + Sync {
    /// The thread has started; it is worker `index`, counting from 0. No query runs before all workers have returned.
    fn started(&self, index: usize);
    /// The thread has nothing to do and is about to sleep. It may still start queries here; then it will not sleep.
    fn parked(&self);
    /// The thread is awake again.
    fn unparked(&self);
    /// The thread ends.
    fn stopping(&self);
}

/// For a runtime without a scheduler.
pub struct NoHooks;

impl WorkerHooks for NoHooks {
    fn started(&self, _index: usize) {}
    fn parked(&self) {}
    fn unparked(&self) {}
    fn stopping(&self) {}
}

/// What queries may hold together: hash tables, sorts, aggregates. Nothing is spilled to disk. Runtimes may share one.
#[derive(Clone)]
pub struct QueryMemory(Arc<dyn MemoryPool>);

impl QueryMemory {
    /// So many bytes at most.
    pub fn of_bytes(bytes_max: usize) -> QueryMemory {
        QueryMemory(Arc::new(QueryPool { inner: GreedyMemoryPool::new(bytes_max), bytes_max }))
    }
}

/// Memory of queries, which have it only while the process has room.
#[derive(Debug)]
struct QueryPool {
    inner: GreedyMemoryPool,
    bytes_max: usize,
}

impl std::fmt::Display for QueryPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

impl MemoryPool for QueryPool {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.inner.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.inner.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> datafusion::error::Result<()> {
        // Operators reserve what they keep. What they merge, sort or hash of it they hold twice for a while.
        let more = additional.saturating_add(self.inner.reserved());
        if memory::SMALL_BYTES < reservation.size().saturating_add(additional) && !memory::has_room(more) {
            return Err(DataFusionError::ResourcesExhausted(memory::in_words()));
        }
        self.inner.try_grow(reservation, additional).map_err(|_| {
            let (reserved, most) = (self.inner.reserved() >> 20, self.bytes_max >> 20);
            let words = memory::in_words();
            let more = additional.div_ceil(1 << 10);
            DataFusionError::ResourcesExhausted(format!(
                "Running analytics have reserved {reserved} MB of {most} MB and need {more} kB more. {words}"
            ))
        })
    }

    fn reserved(&self) -> usize {
        self.inner.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.inner.memory_limit()
    }
}

/// How to make a [`Runtime`].
pub struct RuntimeConfig {
    /// The threads' name, as the operating system shows it.
    pub name: String,
    /// How many workers.
    pub workers: usize,
    /// What all running queries together may hold.
    pub memory: QueryMemory,
    /// The most rows of one answer.
    pub answer_rows_max: usize,
    /// What the workers tell their scheduler.
    pub hooks: Arc<dyn WorkerHooks>,
}

impl RuntimeConfig {
    /// `workers` threads, 1 GiB for queries, answers of at most 10 million rows, no scheduler.
    pub fn new(workers: usize) -> RuntimeConfig {
        RuntimeConfig {
            name: "overtake-worker".to_owned(),
            workers,
            memory: QueryMemory::of_bytes(1 << 30),
            answer_rows_max: 10_000_000,
            hooks: Arc::new(NoHooks),
        }
    }
}

/// Threads that run queries, at most one runtime for each scheduler. Dropping it stops them: queries end as
/// [`Error::Stopped`] at their next batch.
pub struct Runtime {
    /// Always there, but for [`Runtime::drop`], which consumes it.
    tokio: Option<tokio::runtime::Runtime>,
    workers: usize,
    limits: RunLimits,
}

/// Of a worker: the planner goes down an expression by recursion. Pages that nobody touches cost nothing.
const STACK_BYTES: usize = 16 << 20;

thread_local! {
    /// Whether this thread is a worker. Constant at first use and without a destructor, for urgent contexts' sake.
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

impl Runtime {
    /// Starts the workers, and returns when each has been told that it is one.
    ///
    /// # Errors
    /// [`Error::NoThread`] if the operating system refuses.
    pub fn new(config: RuntimeConfig) -> Result<Runtime> {
        assert!(1 <= config.workers, "somebody must run the queries");
        let workers = config.workers;
        let threads_started = AtomicUsize::new(0);
        let ready = Arc::new(StartedWorkers::default());
        let on_start = {
            let (hooks, ready) = (Arc::clone(&config.hooks), Arc::clone(&ready));
            move || {
                // Tokio calls this on its blocking threads as well, which start later: no query has run yet.
                let index = threads_started.fetch_add(1, Ordering::Relaxed);
                if index < workers {
                    IS_WORKER.set(true);
                    hooks.started(index);
                    ready.arrive(workers);
                }
            }
        };
        let hook = |call: fn(&dyn WorkerHooks)| {
            let hooks = Arc::clone(&config.hooks);
            move || {
                if IS_WORKER.get() {
                    call(hooks.as_ref());
                }
            }
        };
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .thread_name(config.name)
            .worker_threads(workers)
            .thread_stack_size(STACK_BYTES)
            .max_blocking_threads(1)
            .on_thread_start(on_start)
            .on_thread_park(hook(|hooks| hooks.parked()))
            .on_thread_unpark(hook(|hooks| hooks.unparked()))
            .on_thread_stop(hook(|hooks| hooks.stopping()))
            .build()
            .map_err(|error| Error::NoThread(error.to_string()))?;
        ready.wait(workers);
        // A query that outgrows the memory pool fails; it does not spill to disk.
        let no_disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
        let environment = RuntimeEnvBuilder::new()
            .with_memory_pool(config.memory.0)
            .with_disk_manager_builder(no_disk)
            .build_arc()
            .map_err(Error::statement)?;
        let limits = RunLimits { environment, answer_rows_max: config.answer_rows_max, stopping: Arc::default() };
        Ok(Runtime { tokio: Some(tokio), workers, limits })
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Bytes that running queries hold now, of the memory in the configuration.
    pub fn memory_bytes(&self) -> usize {
        self.limits.environment.memory_pool.reserved()
    }

    /// Starts a run of `prepared` over `snapshot`. From any thread, but from the base context only. `finish` is called on
    /// the worker that ends it, when nothing of the query is left: that is its boundary.
    pub fn run(
        &self,
        prepared: &Arc<PreparedQuery>,
        snapshot: Arc<Snapshot>,
        config: RunConfig,
        finish: Finish,
    ) -> Running {
        assert!(1 <= config.partitions, "a query has at least one partition");
        let (prepared, limits) = (Arc::clone(prepared), self.limits.clone());
        let work = |run| run::answer(prepared, config.partitions, limits, run);
        self.run_work(snapshot, config.hook, None, finish, work)
    }

    /// As [`Runtime::run`], for whatever finds something in a snapshot, perhaps for a session.
    pub(crate) fn run_work<E: RunEnd, F: Future<Output = E::Result> + Send + 'static>(
        &self,
        snapshot: Arc<Snapshot>,
        hook: Arc<dyn BatchHook>,
        session: Option<Arc<SessionHoldings>>,
        ends: E,
        work: impl FnOnce(Arc<RunContext>) -> F,
    ) -> Running {
        let stopping = Arc::clone(&self.limits.stopping);
        let (running, task) = run::start(snapshot, hook, stopping, session, ends, work);
        // A task that is dropped before its end, even before its start, has called `finish`.
        drop(self.tokio().spawn(task));
        running
    }

    /// The memory for queries, and who counts it.
    pub(crate) fn environment(&self) -> &Arc<RuntimeEnv> {
        &self.limits.environment
    }

    /// Runs `job` on a worker, in its base context: a scan that is not SQL. It holds that worker until it returns.
    pub fn run_job(&self, job: Box<dyn FnOnce() + Send>) {
        drop(self.tokio().spawn(async move { job() }));
    }

    /// Runs `prepared` and waits for its answer; for an ordinary thread, never for a worker.
    ///
    /// # Errors
    /// Those of the query.
    ///
    /// # Panics
    /// Called on a worker, which would wait for itself.
    pub fn answer(
        &self,
        prepared: &Arc<PreparedQuery>,
        snapshot: Arc<Snapshot>,
        config: RunConfig,
    ) -> Result<run::Answer> {
        assert!(!IS_WORKER.get(), "a worker would wait for itself");
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let finish = Box::new(move |answer| drop(sender.send(answer)));
        let _running = self.run(prepared, snapshot, config, finish);
        receiver.recv().unwrap_or(Err(Error::Stopped))
    }

    fn tokio(&self) -> &tokio::runtime::Runtime {
        self.tokio.as_ref().expect("only drop takes it")
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.limits.stopping.store(true, Ordering::Relaxed);
        // Tokio's own drop stops the workers and joins them, but a worker, if it dropped the last handle, cannot join itself.
        if let Some(tokio) = self.tokio.take_if(|_| IS_WORKER.get()) {
            tokio.shutdown_background();
        }
    }
}

/// Counts the workers that have started.
#[derive(Default)]
struct StartedWorkers {
    started: Mutex<usize>,
    all: Condvar,
}

impl StartedWorkers {
    fn arrive(&self, workers: usize) {
        let mut started = self.started.locked_anyway();
        *started += 1;
        if *started == workers {
            self.all.notify_all();
        }
    }

    fn wait(&self, workers: usize) {
        let started = self.started.locked_anyway();
        let all = self.all.wait_while(started, |started| *started < workers);
        drop(all.anyway());
    }
}
