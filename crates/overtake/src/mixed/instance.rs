//! One scheduler and its workers over the loaded database.

use super::low::{LowConfig, LowLoop, LowQuery, OnEnd};
use crate::data::Data;
use anyhow::Context;
use olap::{BatchHook, Runtime, RuntimeConfig, WorkerHooks};
use preempt::os;
use sched::{Scheduler, Settings};
use std::sync::Arc;

/// A scheduler with its own workers. Dropping it ends both.
pub struct Instance {
    data: Arc<Data>,
    scheduler: Arc<Scheduler>,
    runtime: Option<Arc<Runtime>>,
}

/// Tells the scheduler what the runtime's threads do.
struct Hooks(Arc<Scheduler>);

impl WorkerHooks for Hooks {
    fn started(&self, index: usize) {
        if let Err(error) = self.0.attach(index) {
            // Its requests are run by the other workers; with none left, submitting fails.
            tracing::error!(worker = index, %error, "the thread cannot be a worker");
        }
    }
    fn parked(&self) {
        self.0.thread_parks();
    }
    fn unparked(&self) {
        self.0.thread_unparks();
    }
    fn stopping(&self) {
        self.0.detach();
    }
}

/// Between two batches: a safepoint, and under `yield` a point to yield at.
struct AtBatch(Arc<Scheduler>);

impl BatchHook for AtBatch {
    #[inline]
    fn batch(&self) {
        preempt::safepoint();
        self.0.yield_point();
    }
}

/// The processors that workers are pinned to, one each.
pub fn worker_cpus() -> Vec<usize> {
    os::cpus()
}

impl Instance {
    /// Starts a scheduler and as many workers as `settings` says.
    ///
    /// # Errors
    /// When threads cannot be started or registered.
    pub fn start(data: &Arc<Data>, settings: Settings) -> anyhow::Result<Instance> {
        let name = settings.name.clone();
        let workers = settings.workers;
        let scheduler = Arc::new(Scheduler::new(settings).context("the scheduler cannot be started")?);
        let mut config = RuntimeConfig::new(workers);
        config.name = name;
        config.hooks = Arc::new(Hooks(Arc::clone(&scheduler)));
        let runtime = Runtime::new(config).context("the workers cannot be started")?;
        for index in 0..workers {
            anyhow::ensure!(
                scheduler.worker(index).is_some(),
                "worker {index} could not be registered; the log says why"
            );
        }
        Ok(Instance { data: Arc::clone(data), scheduler, runtime: Some(Arc::new(runtime)) })
    }

    /// Its scheduler.
    pub fn scheduler(&self) -> &Arc<Scheduler> {
        &self.scheduler
    }

    /// Repeats `queries` in turn, `jobs` at a time, each on `partitions` workers.
    ///
    /// # Errors
    /// When the scheduler takes no more low jobs.
    pub fn run_queries(
        &self,
        queries: Vec<LowQuery>,
        jobs: usize,
        partitions: usize,
        on_end: OnEnd,
    ) -> anyhow::Result<LowLoop> {
        let runtime = self.runtime.as_ref().expect("only drop takes it");
        let hook = Arc::new(AtBatch(Arc::clone(&self.scheduler)));
        let config = LowConfig { queries, jobs, partitions, on_end };
        Ok(LowLoop::start(Arc::clone(&self.scheduler), runtime, self.data.engine().clone(), hook, config)?)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.scheduler.shutdown();
        // The last handle, because every loop has ended: its drop joins the workers, which detach.
        drop(self.runtime.take());
    }
}
