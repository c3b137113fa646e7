//! The analytics of `overtake serve`: for each class a queue and workers, below the threads that read the network.
//!
//! **Invariant:** a worker gives way to those threads, and the less important to the more important: by nice values, and the
//! least by the class SCHED_IDLE, which needs no privilege. So an urgent statement runs where its bytes are read while
//! analytics hold every core; nothing is delivered to the workers. Workers are joined after the last session has ended.

use anyhow::Context;
use olap::{BatchHook, Database, Door, Job, Lane, Memory, Room, Runtime, RuntimeConfig, SqlAnalytics, WorkerHooks};
use preempt::os;
use sched::{Finish, Policy, Scheduler, Settings};
use sql::observe::{SchedulerRow, Scheduling};
use sql::session::Defaults;
use stage::Class;
use std::fs;
use std::sync::{Arc, Weak};

/// Queries of one class that run at a time, for each worker, if the settings do not say. More workers than queries are of use
/// to a query that has several parts; more queries than workers share them.
const QUERIES_PER_WORKER: usize = 4;

/// What the settings say.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    workers: usize,
    queries: usize,
    memory_bytes: usize,
}

/// Queues and workers. To be dropped after all sessions, on a thread that may block.
pub struct Lanes {
    lanes: Vec<Workers>,
    analytics: Arc<SqlAnalytics>,
}

/// Those of one class.
struct Workers {
    class: Class,
    scheduler: Arc<Scheduler>,
    runtime: Option<Arc<Runtime>>,
}

impl Wanted {
    /// Out of the settings, where 0 stands for what suits this machine.
    pub fn from_settings(settings: &Defaults) -> Wanted {
        let number = |name: &str| usize::try_from(settings.number(name)).unwrap_or(0);
        let or = |given: usize, otherwise: usize| if given == 0 { otherwise } else { given };
        let workers = or(number("overtake.analytics_workers"), os::cpus().len().max(1));
        let queries = or(number("overtake.analytics_queries"), workers * QUERIES_PER_WORKER);
        let memory_bytes = or(settings.bytes("overtake.analytics_memory"), memory_bytes() / 4);
        Wanted { workers, queries, memory_bytes }
    }
}

/// The machine's memory.
fn memory_bytes() -> usize {
    let known = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kb = known.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok());
    kb.unwrap_or(4 << 20) * 1_024_usize
}

impl Lanes {
    /// Starts them over the tables of an engine.
    ///
    /// # Errors
    /// When threads cannot be started or registered.
    pub fn start(engine: &engine::Engine, wanted: Wanted) -> anyhow::Result<Lanes> {
        let memory = Memory::of_bytes(wanted.memory_bytes);
        let database = Database::new(engine.clone()).context("the planner")?;
        let start = |class| Workers::start(class, wanted, &memory);
        let lanes = Class::ALL.into_iter().map(start).collect::<anyhow::Result<Vec<_>>>()?;
        let [high, normal, low] = &lanes[..] else { anyhow::bail!("there are three classes") };
        let analytics = SqlAnalytics::new(&database, [high.lane(), normal.lane(), low.lane()]);
        let analytics = analytics.context("the thread of deadlines")?;
        Ok(Lanes { lanes, analytics })
    }

    /// For the view of them.
    pub fn scheduling(&self) -> Arc<dyn Scheduling> {
        let one = |workers: &Workers| (workers.class, Arc::clone(&workers.scheduler), workers.runtime());
        Arc::new(Seen(self.lanes.iter().map(one).collect()))
    }

    /// For sessions.
    pub fn analytics(&self) -> Arc<SqlAnalytics> {
        Arc::clone(&self.analytics)
    }
}

impl Workers {
    fn start(class: Class, wanted: Wanted, memory: &Memory) -> anyhow::Result<Workers> {
        let Wanted { workers, queries, memory_bytes: _ } = wanted;
        let name = format!("analytics-{}", class.name());
        let settings = Settings {
            name: name.clone(),
            // Of urgent requests, of which there are none.
            policy: Policy::Boundary,
            workers,
            low_width_max: Some(queries),
            events_per_worker: 64,
            ..Settings::default()
        };
        let scheduler = Arc::new(Scheduler::new(settings).context("a scheduler cannot be started")?);
        let hooks = Arc::new(Hooks { class, scheduler: Arc::clone(&scheduler) });
        let config = RuntimeConfig { name, hooks, memory: memory.clone(), ..RuntimeConfig::new(workers) };
        let runtime = Runtime::new(config).context("the workers cannot be started")?;
        for index in 0..workers {
            anyhow::ensure!(
                scheduler.worker(index).is_some(),
                "worker {index} could not be registered; the log says why"
            );
        }
        Ok(Workers { class, scheduler, runtime: Some(Arc::new(runtime)) })
    }

    fn runtime(&self) -> Weak<Runtime> {
        self.runtime.as_ref().map(Arc::downgrade).unwrap_or_default()
    }

    fn lane(&self) -> Lane {
        let door = Arc::new(Queue(Arc::clone(&self.scheduler)));
        Lane { runtime: self.runtime(), door, hook: Arc::new(AtBatch) }
    }
}

/// For the view `overtake.scheduler`.
struct Seen(Vec<(Class, Arc<Scheduler>, Weak<Runtime>)>);

impl Scheduling for Seen {
    fn scheduler(&self) -> Vec<SchedulerRow> {
        let row = |(class, scheduler, runtime): &(Class, Arc<Scheduler>, Weak<Runtime>)| {
            let (alive, waiting) = (scheduler.low_jobs(), scheduler.queued_low_jobs());
            let memory_bytes = runtime.upgrade().map_or(0, |runtime| runtime.memory_bytes());
            let running = alive.saturating_sub(waiting);
            SchedulerRow { class: *class, workers: scheduler.workers(), running, waiting, memory_bytes }
        };
        self.0.iter().map(row).collect()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.scheduler.shutdown();
        // Its drop joins the workers, which detach.
        drop(self.runtime.take());
    }
}

/// The queue of a class, as its sessions see it.
struct Queue(Arc<Scheduler>);

impl Door for Queue {
    fn enter(&self, job: Job) -> Option<u64> {
        let work = move |finish: Finish| job(Box::new(finish) as Room);
        self.0.submit_low(Box::new(work), 1).ok()
    }

    fn take_back(&self, number: u64) {
        self.0.cancel_low(number);
    }
}

/// Tells the scheduler what the runtime's threads do, and puts them below others.
struct Hooks {
    class: Class,
    scheduler: Arc<Scheduler>,
}

impl WorkerHooks for Hooks {
    fn started(&self, index: usize) {
        let lowered = match self.class {
            Class::High => os::set_nice(10),
            Class::Normal => os::set_nice(19),
            Class::Low => os::set_idle(),
        };
        if let Err(error) = lowered {
            tracing::warn!(class = self.class.name(), %error, "a worker of analytics cannot be put below other threads");
        }
        if let Err(error) = self.scheduler.attach(index) {
            tracing::error!(worker = index, %error, "the thread cannot be a worker");
        }
    }
    fn parked(&self) {
        self.scheduler.thread_parks();
    }
    fn unparked(&self) {
        self.scheduler.thread_unparks();
    }
    fn stopping(&self) {
        self.scheduler.detach();
    }
}

/// Between two batches: a safepoint.
struct AtBatch;

impl BatchHook for AtBatch {
    #[inline]
    fn batch(&self) {
        preempt::safepoint();
    }
}
