//! One scheduler and its workers over the loaded database.

use super::low::{LowConfig, LowLoop, LowQuery, OnEnd};
use crate::data::Data;
use olap::RuntimeConfig;
use olap::Workers;
use preempt::os;
use sched::{Scheduler, SchedulerSettings};
use std::sync::Arc;

/// Scheduler with its own workers. Dropping the value ends both.
pub struct Instance {
    /// Workers; dropped first: their threads end before the data that they work on.
    workers: Workers,
    data: Arc<Data>,
}

/// Returns the processors that workers are pinned to, one each.
pub fn worker_cpus() -> Vec<usize> {
    os::cpus()
}

impl Instance {
    /// Starts a scheduler and as many workers as `settings` says.
    ///
    /// # Errors
    /// If threads cannot be started or registered.
    pub fn start(data: &Arc<Data>, settings: SchedulerSettings) -> anyhow::Result<Instance> {
        let config = RuntimeConfig::new(settings.workers);
        let workers = Workers::start(settings, config, Arc::new(|| {}))?;
        Ok(Instance { workers, data: Arc::clone(data) })
    }

    /// Returns the instance's scheduler.
    pub fn scheduler(&self) -> &Arc<Scheduler> {
        self.workers.scheduler()
    }

    /// Returns the instance's scheduler and workers. Sessions' queries that run as low jobs run like those of loops.
    pub(crate) fn workers(&self) -> &Workers {
        &self.workers
    }

    /// Repeats `queries` in turn, `jobs` at a time, each on `partitions` workers.
    ///
    /// # Errors
    /// If the scheduler takes no more low jobs.
    pub fn run_queries(
        &self,
        queries: Vec<LowQuery>,
        jobs: usize,
        partitions: usize,
        on_end: OnEnd,
    ) -> anyhow::Result<LowLoop> {
        let config = LowConfig { queries, jobs, partitions, on_end };
        let (scheduler, runtime) = (Arc::clone(self.scheduler()), self.workers.runtime());
        Ok(LowLoop::start(scheduler, runtime, self.data.engine().clone(), self.workers.hook(), config)?)
    }
}
