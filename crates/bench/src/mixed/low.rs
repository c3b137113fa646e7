//! The analytics of an instance: a closed loop of low jobs.
//!
//! **Invariant:** while the loop runs, exactly as many jobs as it was started with are submitted or running; each one's
//! end submits the next *before* the end is reported to the scheduler, so the next query stands in the queue behind the
//! requests that already wait. [`LowLoop::stop`] returns when the last job has ended.

use super::dense;
use engine::{Engine, Snapshot, Table};
use locked::{Locked, LockedResult};
use olap::{Answer, BatchHook, PreparedQuery, RunConfig, Running, Runtime};
use preempt::os;
use sched::{Finish, LowWork, Scheduler};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, Weak};

/// Query that a loop repeats.
#[derive(Clone)]
pub enum LowQuery {
    /// SQL query, run by DataFusion.
    Sql {
        /// Name: "q2".
        name: String,
        /// Prepared statement.
        prepared: Arc<PreparedQuery>,
    },
    /// Hand-written scan with dense safepoints, over this table ([`dense::revenue`]).
    Dense(Arc<Table>),
}

impl LowQuery {
    /// Returns the query's name in figures.
    pub fn name(&self) -> &str {
        match self {
            LowQuery::Sql { name, .. } => name,
            LowQuery::Dense(_) => "scan",
        }
    }
}

/// Run of a query that has ended.
pub struct RunEnd<'a> {
    /// Query that ran.
    pub query: &'a LowQuery,
    /// Number of the snapshot that the query read.
    pub snapshot: u64,
    /// Start of the run, in nanoseconds.
    pub started_ns: u64,
    /// End of the run, in nanoseconds.
    pub ended_ns: u64,
    /// Answer; none if the run was cancelled. The dense scan has no rows to show.
    pub answer: Option<&'a Answer>,
    /// True if the run went to completion.
    pub is_finished: bool,
}

/// Callback for each end, called on the worker, in base context.
pub type OnEnd = Arc<dyn Fn(&RunEnd<'_>) + Send + Sync>;

/// Loop of queries on one instance.
pub struct LowLoop {
    inner: Arc<LowLoopInner>,
}

struct LowLoopInner {
    scheduler: Arc<Scheduler>,
    /// Runtime of the queries. The handle is weak: the last strong one must not go away on a worker.
    runtime: Weak<Runtime>,
    engine: Engine,
    hook: Arc<dyn BatchHook>,
    queries: Vec<LowQuery>,
    partitions: usize,
    on_end: OnEnd,
    next_query: AtomicU64,
    stopping: Arc<AtomicBool>,
    state: Mutex<LowLoopState>,
    ended: Condvar,
}

#[derive(Default)]
struct LowLoopState {
    jobs: usize,
    next_token: u64,
    running: Vec<(u64, Arc<OnceLock<Running>>)>,
    error: Option<String>,
}

/// Parameters of a loop.
pub struct LowConfig {
    /// Queries, repeated in turn.
    pub queries: Vec<LowQuery>,
    /// Number of queries at a time.
    pub jobs: usize,
    /// Number of workers that one query takes.
    pub partitions: usize,
    /// Callback for each end.
    pub on_end: OnEnd,
}

impl LowLoop {
    /// Starts `config.jobs` queries, and again whenever one ends.
    ///
    /// # Errors
    /// If the scheduler takes no more low jobs.
    pub fn start(
        scheduler: Arc<Scheduler>,
        runtime: &Arc<Runtime>,
        engine: Engine,
        hook: Arc<dyn BatchHook>,
        config: LowConfig,
    ) -> Result<LowLoop, sched::Rejected> {
        assert!(!config.queries.is_empty(), "a loop repeats something");
        let inner = Arc::new(LowLoopInner {
            scheduler,
            runtime: Arc::downgrade(runtime),
            engine,
            hook,
            queries: config.queries,
            partitions: config.partitions,
            on_end: config.on_end,
            next_query: AtomicU64::new(0),
            stopping: Arc::new(AtomicBool::new(false)),
            state: Mutex::default(),
            ended: Condvar::new(),
        });
        let this = LowLoop { inner };
        for _ in 0..config.jobs {
            this.inner.state().jobs += 1;
            if let Err(rejected) = this.inner.submit() {
                this.inner.job_is_over();
                return Err(rejected);
            }
        }
        Ok(this)
    }

    /// Cancels the running queries and waits for the last end.
    ///
    /// # Errors
    /// The first error of a query, if one failed; that query has stopped its part of the loop.
    pub fn stop(&self) -> anyhow::Result<()> {
        let inner = &self.inner;
        inner.stopping.store(true, SeqCst);
        let running: Vec<_> = inner.state().running.iter().map(|(_, running)| Arc::clone(running)).collect();
        for running in running.iter().filter_map(|running| running.get()) {
            running.cancel();
        }
        let state = inner.ended.wait_while(inner.state(), |state| 0 < state.jobs);
        let state = state.or_end_process();
        match &state.error {
            None => Ok(()),
            Some(error) => anyhow::bail!("a query failed: {error}"),
        }
    }
}

impl LowLoop {
    /// Checks that no query has failed so far.
    ///
    /// # Errors
    /// The first error of a query.
    pub fn check(&self) -> anyhow::Result<()> {
        match &self.inner.state().error {
            None => Ok(()),
            Some(error) => anyhow::bail!("a query failed: {error}"),
        }
    }
}

impl Drop for LowLoop {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            tracing::error!(%error, "the loop of queries had ended early");
        }
    }
}

impl LowLoopInner {
    fn state(&self) -> MutexGuard<'_, LowLoopState> {
        self.state.locked()
    }

    fn submit(self: &Arc<Self>) -> Result<(), sched::Rejected> {
        let turn = self.next_query.fetch_add(1, SeqCst) as usize;
        let job = LowLoopJob { of: Arc::clone(self), query: turn % self.queries.len() };
        self.scheduler.submit_low(Box::new(job), self.partitions).map(drop)
    }

    fn job_is_over(&self) {
        self.state().jobs -= 1;
        self.ended.notify_all();
    }

    fn fail(&self, error: String) {
        self.state().error.get_or_insert(error);
    }

    /// Handles the end of a run: reports it, starts the next one if it finished, and tells the scheduler last.
    fn run_ended(self: &Arc<Self>, end: &RunEnd<'_>, finish: Finish) {
        (self.on_end)(end);
        let goes_on = end.is_finished && !self.stopping.load(SeqCst);
        let submitted = goes_on.then(|| self.submit());
        drop(finish);
        match submitted {
            Some(Ok(())) => {}
            Some(Err(rejected)) => {
                self.fail(rejected.to_string());
                self.job_is_over();
            }
            None => self.job_is_over(),
        }
    }
}

struct LowLoopJob {
    of: Arc<LowLoopInner>,
    query: usize,
}

impl LowWork for LowLoopJob {
    fn start(self: Box<Self>, finish: Finish) {
        let LowLoopJob { of, query } = *self;
        let refuse = |why: String, finish: Finish| {
            of.fail(why);
            drop(finish);
            of.job_is_over();
        };
        let Some(runtime) = of.runtime.upgrade() else {
            return refuse("the workers have ended".to_owned(), finish);
        };
        let snapshot = match of.engine.try_snapshot() {
            Ok(snapshot) => snapshot,
            Err(error) => return refuse(error.to_string(), finish),
        };
        match of.queries[query].clone() {
            LowQuery::Sql { prepared, .. } => start_sql(of, &runtime, query, &prepared, snapshot, finish),
            LowQuery::Dense(table) => start_dense(of, &runtime, query, table, snapshot, finish),
        }
    }
}

fn start_sql(
    of: Arc<LowLoopInner>,
    runtime: &Runtime,
    query: usize,
    prepared: &Arc<PreparedQuery>,
    snapshot: Arc<Snapshot>,
    finish: Finish,
) {
    let running = Arc::new(OnceLock::new());
    let token = {
        let mut state = of.state();
        state.next_token += 1;
        let token = state.next_token;
        state.running.push((token, Arc::clone(&running)));
        token
    };
    let config = RunConfig { partitions: of.partitions, hook: Arc::clone(&of.hook) };
    let number = snapshot.number();
    let started_ns = os::now_ns();
    let for_end = Arc::clone(&of);
    let started = runtime.run(
        prepared,
        snapshot,
        config,
        Box::new(move |result| {
            for_end.state().running.retain(|(other, _)| *other != token);
            match &result {
                Ok(_) | Err(olap::Error::Cancelled | olap::Error::Stopped) => {}
                Err(error) => for_end.fail(error.to_string()),
            }
            let end = RunEnd {
                query: &for_end.queries[query],
                snapshot: number,
                started_ns,
                ended_ns: os::now_ns(),
                answer: result.as_ref().ok(),
                is_finished: result.is_ok(),
            };
            for_end.run_ended(&end, finish);
        }),
    );
    let started = running.get_or_init(|| started);
    // The thread that stops the loop cancels the runs that it finds; a run that it does not find yet sees the flag
    // here.
    if of.stopping.load(SeqCst) {
        started.cancel();
    }
}

fn start_dense(
    of: Arc<LowLoopInner>,
    runtime: &Runtime,
    query: usize,
    table: Arc<Table>,
    snapshot: Arc<Snapshot>,
    finish: Finish,
) {
    let started_ns = os::now_ns();
    runtime.run_job(Box::new(move || {
        let sum = dense::revenue(&snapshot, &table, &of.stopping, &mut || of.hook.batch());
        let number = snapshot.number();
        drop(snapshot);
        let end = RunEnd {
            query: &of.queries[query],
            snapshot: number,
            started_ns,
            ended_ns: os::now_ns(),
            answer: None,
            is_finished: sum.is_some(),
        };
        of.run_ended(&end, finish);
    }));
}
