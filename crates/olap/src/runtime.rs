//! Threads that run queries.
//!
//! **Invariant: the hooks see exactly the workers.** Tokio calls its thread hooks for blocking threads too, but it starts
//! the workers first, one job a thread, and nothing can ask for a blocking thread before [`Runtime::new`] returns, which
//! waits until all workers have started. So the first N threads that start are the workers. (`block_in_place` would move a
//! worker to another thread; nothing here calls it.)
//!
//! The runtime has neither timers nor sockets: its threads park on a condition variable, and nowhere else.

use crate::database::{self, PreparedQuery};
use crate::error::{Error, Result};
use crate::run;
use crate::run::{BatchHook, Finish, RunConfig, RunContext, RunEnd, RunLimits, Running};
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

/// Receiver of the worker threads' events, for a scheduler. Called on the thread itself, in its base context.
pub trait WorkerHooks: Send + Sync {
    /// Worker `index`, from 0, has started. No query runs before this has returned on all workers.
    fn started(&self, index: usize);
    /// The thread has nothing to do and is about to sleep. If the hook starts a query, it does not sleep.
    fn parked(&self);
    /// The thread is awake again.
    fn unparked(&self);
    /// The thread ends.
    fn stopping(&self);
}

/// Hooks of a runtime without a scheduler.
pub struct NoHooks;

impl WorkerHooks for NoHooks {
    fn started(&self, _index: usize) {}
    fn parked(&self) {}
    fn unparked(&self) {}
    fn stopping(&self) {}
}

/// Memory for hash tables, sorts and aggregates of all queries. Nothing is spilled to disk. Runtimes may share one.
#[derive(Clone)]
pub struct QueryMemory(Arc<dyn MemoryPool>);

impl QueryMemory {
    /// Returns a memory pool of this size.
    pub fn of_bytes(bytes_max: usize) -> QueryMemory {
        QueryMemory(Arc::new(QueryPool { inner: GreedyMemoryPool::new(bytes_max), bytes_max }))
    }
}

/// Memory pool of queries, which also keeps to the limit of the process.
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
        // Operators reserve what they keep, and hold it twice while they merge, sort or hash it.
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

/// Configuration of a [`Runtime`].
pub struct RuntimeConfig {
    /// Name of the threads, as the operating system shows it.
    pub name: String,
    /// Number of workers.
    pub workers: usize,
    /// Memory of all running queries together.
    pub memory: QueryMemory,
    /// Maximum number of rows of a result.
    pub answer_rows_max: usize,
    /// Receiver of the workers' events.
    pub hooks: Arc<dyn WorkerHooks>,
}

impl RuntimeConfig {
    /// Returns a configuration with `workers` threads, 1 GiB for queries, results of at most 10 million rows, and no
    /// scheduler.
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

/// Threads that run queries, at most one runtime for each scheduler. Dropping it stops them: queries end with
/// [`Error::Stopped`] at their next batch.
pub struct Runtime {
    /// `None` only in the drop, which consumes it.
    tokio: Option<tokio::runtime::Runtime>,
    workers: usize,
    limits: RunLimits,
}

/// Stack size of a worker: the planner descends expressions by recursion. Untouched pages cost nothing.
const STACK_BYTES: usize = 16 << 20;

thread_local! {
    /// True on a worker. Constant from its first use on and without a destructor, because urgent contexts may read it.
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

impl Runtime {
    /// Starts the workers, and returns once each has called its hook.
    ///
    /// # Errors
    /// [`Error::NoThread`] if the operating system refuses a thread.
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

    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Returns the bytes that running queries hold of the configured memory.
    pub fn memory_bytes(&self) -> usize {
        self.limits.environment.memory_pool.reserved()
    }

    /// Starts a run of `prepared` over `snapshot`. Callable from any thread, in its base context. `finish` is called
    /// on the worker that ends the run, when nothing of the query is left.
    pub fn run(
        &self,
        prepared: &Arc<PreparedQuery>,
        snapshot: Arc<Snapshot>,
        config: RunConfig,
        finish: Finish,
    ) -> Running {
        assert!(1 <= config.partitions, "a query has at least one partition");
        let (prepared, limits) = (Arc::clone(prepared), self.limits.clone());
        let work = |run| database::answer(prepared, config.partitions, limits, run);
        self.run_work(snapshot, config.hook, None, finish, work)
    }

    /// Like [`Runtime::run`], for any work over a snapshot, perhaps of a session.
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
        // A task that is dropped before its end, or even before its start, has called `finish`.
        drop(self.tokio().spawn(task));
        running
    }

    /// Returns the environment with the memory for queries.
    pub(crate) fn environment(&self) -> &Arc<RuntimeEnv> {
        &self.limits.environment
    }

    /// Runs `job` on a worker, in its base context: a scan that is not SQL. It occupies the worker until it returns.
    pub fn run_job(&self, job: Box<dyn FnOnce() + Send>) {
        drop(self.tokio().spawn(async move { job() }));
    }

    /// Runs `prepared` and waits for its result. For ordinary threads only, never for workers.
    ///
    /// # Errors
    /// Those of the query.
    ///
    /// # Panics
    /// If called on a worker, which would wait for itself.
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
        // Tokio's own drop joins the workers; a worker that drops the last handle cannot join itself.
        if let Some(tokio) = self.tokio.take_if(|_| IS_WORKER.get()) {
            tokio.shutdown_background();
        }
    }
}

/// Count of the workers that have started.
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
