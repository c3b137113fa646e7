//! Scheduler of analytics with the threads that it schedules.
//!
//! **Invariant:** the threads detach before their scheduler goes.

use crate::{BatchHook, Door, Job, Lane, Room, Runtime, RuntimeConfig, WorkerHooks};
use sched::{Finish, Scheduler, SchedulerSettings};
use stage::Class;
use stage::observe::{SchedulerRow, Scheduling};
use std::sync::{Arc, Weak};

/// Failure to start [`Workers`].
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The scheduler refuses its settings.
    #[error("the scheduler cannot be started")]
    Scheduler(#[source] std::io::Error),
    /// The system refuses threads.
    #[error("the workers cannot be started")]
    Threads(#[source] crate::Error),
    /// This worker could not be registered with the scheduler.
    #[error("worker {0} could not be registered; the log says why")]
    Unregistered(usize),
}

/// What a worker does first.
pub type WorkerStart = Arc<dyn Fn() + Send + Sync>;

/// Scheduler and its threads. Dropping it ends both, and joins the threads.
pub struct Workers {
    scheduler: Arc<Scheduler>,
    /// Always there, but for the drop.
    runtime: Option<Arc<Runtime>>,
}

impl Workers {
    /// Starts a scheduler, and as many workers as `settings` says; each does `begun` first. Of `config` the name, the number
    /// of workers and the hooks are those of the scheduler.
    ///
    /// # Errors
    /// When threads cannot be started or registered.
    pub fn start(
        settings: SchedulerSettings,
        config: RuntimeConfig,
        begun: WorkerStart,
    ) -> Result<Workers, StartError> {
        let (name, workers) = (settings.name.clone(), settings.workers);
        let scheduler = Arc::new(Scheduler::new(settings).map_err(StartError::Scheduler)?);
        let hooks = Arc::new(SchedulerHooks { scheduler: Arc::clone(&scheduler), begun });
        let runtime = Runtime::new(RuntimeConfig { name, workers, hooks, ..config }).map_err(StartError::Threads)?;
        if let Some(index) = (0..workers).find(|index| scheduler.worker(*index).is_none()) {
            return Err(StartError::Unregistered(index));
        }
        Ok(Workers { scheduler, runtime: Some(Arc::new(runtime)) })
    }

    /// The scheduler.
    pub fn scheduler(&self) -> &Arc<Scheduler> {
        &self.scheduler
    }

    /// The threads.
    pub fn runtime(&self) -> &Arc<Runtime> {
        self.runtime.as_ref().expect("only drop takes it")
    }

    /// The way for sessions' queries to run here, as the scheduler's low jobs.
    pub fn lane(&self) -> Lane {
        self.lane_with(self.hook())
    }

    /// The same, with this called after each batch; it calls [`hook`](Workers::hook)'s.
    pub fn lane_with(&self, hook: Arc<dyn BatchHook>) -> Lane {
        let door = Arc::new(LowQueue(Arc::clone(&self.scheduler)));
        Lane { runtime: Arc::downgrade(self.runtime()), door, hook }
    }

    /// What queries call after each batch here.
    pub fn hook(&self) -> Arc<dyn BatchHook> {
        Arc::new(BatchSafepoint(Arc::clone(&self.scheduler)))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.scheduler.shutdown();
        // The last handle, because every run has ended: its drop joins the workers, which detach.
        drop(self.runtime.take());
    }
}

/// The scheduler's queue of low jobs, as sessions see it.
struct LowQueue(Arc<Scheduler>);

impl Door for LowQueue {
    fn enter(&self, job: Job) -> Option<u64> {
        let work = move |finish: Finish| job(Box::new(finish) as Box<dyn Room>);
        self.0.submit_low(Box::new(work), 1).ok()
    }

    fn take_back(&self, number: u64) {
        self.0.cancel_low(number);
    }
}

impl Room for Finish {
    fn pause(&mut self) {
        Finish::pause(self);
    }

    fn resume(&mut self) {
        Finish::resume(self);
    }
}

/// Between two batches: a safepoint, and under `yield` a point to yield at.
struct BatchSafepoint(Arc<Scheduler>);

impl BatchHook for BatchSafepoint {
    #[inline]
    fn batch(&self) {
        preempt::safepoint();
        self.0.yield_point();
    }
}

/// Tells the scheduler what the runtime's threads do.
struct SchedulerHooks {
    scheduler: Arc<Scheduler>,
    begun: WorkerStart,
}

impl WorkerHooks for SchedulerHooks {
    fn started(&self, index: usize) {
        (self.begun)();
        if let Err(error) = self.scheduler.attach(index) {
            // Its requests are run by the other workers; with none left, submitting fails.
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

/// For the view `overtake.scheduler`: these, each with the class whose queries run there.
pub fn scheduling<'w>(all: impl IntoIterator<Item = (Class, &'w Workers)>) -> Arc<dyn Scheduling> {
    let one = |(class, workers): (Class, &Workers)| WatchedRuntime {
        class,
        scheduler: Arc::clone(&workers.scheduler),
        runtime: Arc::downgrade(workers.runtime()),
    };
    Arc::new(WatchedRuntimes(all.into_iter().map(one).collect()))
}

struct WatchedRuntime {
    class: Class,
    scheduler: Arc<Scheduler>,
    runtime: Weak<Runtime>,
}

struct WatchedRuntimes(Vec<WatchedRuntime>);

impl Scheduling for WatchedRuntimes {
    fn scheduler(&self) -> Vec<SchedulerRow> {
        let row = |WatchedRuntime { class, scheduler, runtime }: &WatchedRuntime| {
            let (alive, waiting) = (scheduler.low_jobs(), scheduler.queued_low_jobs());
            let memory_bytes = runtime.upgrade().map_or(0, |runtime| runtime.memory_bytes());
            let running = alive.saturating_sub(waiting);
            SchedulerRow {
                class: *class,
                workers: scheduler.workers(),
                running,
                waiting,
                memory_bytes,
                is_starved: false,
            }
        };
        self.0.iter().map(row).collect()
    }
}
