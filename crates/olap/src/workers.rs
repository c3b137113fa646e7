//! Scheduler of analytics, with its worker threads.
//!
//! **Invariant:** the threads detach before their scheduler is dropped.

use crate::{Admission, BatchHook, ClassRuntime, Job, QuerySlot, Runtime, RuntimeConfig, WorkerHooks};
use sched::{Finish, Scheduler, SchedulerSettings};
use stage::Class;
use stage::observe::{SchedulerRow, Scheduling, UrgentRow};
use std::sync::{Arc, Weak};

/// Failure to start [`Workers`].
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The scheduler refused its settings.
    #[error("the scheduler cannot be started")]
    Scheduler(#[source] std::io::Error),
    /// The operating system refused threads.
    #[error("the workers cannot be started")]
    Threads(#[source] crate::Error),
    /// The worker could not be registered with the scheduler.
    #[error("worker {0} could not be registered; the log says why")]
    Unregistered(usize),
}

/// Function that each worker calls first.
pub type WorkerStart = Arc<dyn Fn() + Send + Sync>;

/// Scheduler with its threads. Dropping it stops both, and joins the threads.
pub struct Workers {
    scheduler: Arc<Scheduler>,
    /// `None` only in the drop.
    runtime: Option<Arc<Runtime>>,
}

impl Workers {
    /// Starts a scheduler, and as many workers as `settings` says; each calls `begun` first. The name, the number of
    /// workers and the hooks in `config` are replaced by those of the scheduler.
    ///
    /// # Errors
    /// If threads cannot be started or registered.
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

    /// Returns the scheduler.
    pub fn scheduler(&self) -> &Arc<Scheduler> {
        &self.scheduler
    }

    /// Returns the threads.
    pub fn runtime(&self) -> &Arc<Runtime> {
        self.runtime.as_ref().expect("only drop takes it")
    }

    /// Returns the class_runtime by which sessions run queries here, as low-priority jobs of the scheduler.
    pub fn class_runtime(&self) -> ClassRuntime {
        self.class_runtime_with(self.hook())
    }

    /// Returns the class_runtime with this hook after each batch, which has to call that of [`hook`](Workers::hook).
    pub fn class_runtime_with(&self, hook: Arc<dyn BatchHook>) -> ClassRuntime {
        let admission = Arc::new(LowQueue(Arc::clone(&self.scheduler)));
        ClassRuntime { runtime: Arc::downgrade(self.runtime()), admission, hook }
    }

    /// Returns the hook that queries call after each batch here.
    pub fn hook(&self) -> Arc<dyn BatchHook> {
        Arc::new(BatchSafepoint(Arc::clone(&self.scheduler)))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.scheduler.shutdown();
        // This is the last handle, since every run has ended. Its drop joins the workers, which detach.
        drop(self.runtime.take());
    }
}

/// The scheduler's queue of low-priority jobs, for sessions.
struct LowQueue(Arc<Scheduler>);

impl Admission for LowQueue {
    fn enter(&self, job: Job) -> Option<u64> {
        let work = move |finish: Finish| job(Box::new(finish) as Box<dyn QuerySlot>);
        self.0.submit_low(Box::new(work), 1).ok()
    }

    fn take_back(&self, number: u64) {
        self.0.cancel_low(number);
    }
}

impl QuerySlot for Finish {
    fn pause(&mut self) {
        Finish::pause(self);
    }

    fn resume(&mut self) {
        Finish::resume(self);
    }
}

/// Hook between two batches: a safepoint, and under the policy `yield` a point to yield at.
struct BatchSafepoint(Arc<Scheduler>);

impl BatchHook for BatchSafepoint {
    #[inline]
    fn batch(&self) {
        preempt::safepoint();
        self.0.yield_point();
    }
}

/// Adapter that passes the runtime's thread events to the scheduler.
struct SchedulerHooks {
    scheduler: Arc<Scheduler>,
    begun: WorkerStart,
}

impl WorkerHooks for SchedulerHooks {
    fn started(&self, index: usize) {
        (self.begun)();
        if let Err(error) = self.scheduler.attach(index) {
            // Other workers run its requests; without any, submitting a request fails.
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

/// Returns the rows of the view `overtake.scheduler`: those of each scheduler, with the class whose queries run there.
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
                urgent: UrgentRow::default(),
            }
        };
        self.0.iter().map(row).collect()
    }
}
