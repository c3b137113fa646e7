//! One scheduler and its workers over the loaded database.

use super::low::{LowConfig, LowLoop, LowQuery, OnEnd};
use crate::data::Data;
use olap::RuntimeConfig;
use olap::Workers;
use preempt::os;
use sched::{Scheduler, Settings};
use std::sync::Arc;

/// A scheduler with its own workers. Dropping it ends both.
pub struct Instance {
    /// Goes first: its threads end before what they work on.
    workers: Workers,
    data: Arc<Data>,
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
        let config = RuntimeConfig::new(settings.workers);
        let workers = Workers::start(settings, config, Arc::new(|| {}))?;
        Ok(Instance { workers, data: Arc::clone(data) })
    }

    /// Its scheduler.
    pub fn scheduler(&self) -> &Arc<Scheduler> {
        self.workers.scheduler()
    }

    /// Its scheduler and workers. Sessions' queries that go their lane run like those of loops.
    pub(crate) fn workers(&self) -> &Workers {
        &self.workers
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
        let config = LowConfig { queries, jobs, partitions, on_end };
        let (scheduler, runtime) = (Arc::clone(self.scheduler()), self.workers.runtime());
        Ok(LowLoop::start(scheduler, runtime, self.data.engine().clone(), self.workers.hook(), config)?)
    }
}
