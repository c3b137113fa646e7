//! The analytics of `overtake serve`: for each class a queue and workers, below the threads that read the network.
//!
//! **Invariant:** a worker gives way to those threads, and the less important to the more important. `high` gives way
//! by its nice value; `normal` and `low` run in the class SCHED_IDLE, which needs no privilege, and whose threads the
//! kernel takes from the processor at once, while any other may keep it for some milliseconds before a thread that
//! wakes. So an urgent statement runs where its bytes are read while analytics hold every core; nothing but calls of
//! urgent procedures is delivered to the workers (`urgent`). Threads of SCHED_IDLE all have the same weight, so those
//! of `low` pause while `normal` or `high` have queries ([`Pausing`]). Workers are joined after the last session has
//! ended.
//!
//! Threads of SCHED_IDLE stand still while other programs keep all processors busy. [`StarvationWatch`] notices and
//! reports it; with `overtake.analytics_threads = ordinary` all workers are ordinary threads with nice values.

use super::starvation::{StarvationWatch, Watcher, WithVerdict};
use super::urgent::UrgentQueue;
use anyhow::Context;
use host::memory;
use olap::{BatchHook, Database, QueryMemory, RuntimeConfig, SqlAnalytics};
use olap::{Workers, scheduling};
use preempt::os;
use sched::{Policy, Scheduler, SchedulerSettings};
use settings::Defaults;
use stage::Class;
use stage::observe::Scheduling;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// Number of queries of one class that run at a time, for each worker, if the settings do not say. More workers than
/// queries are of use to a query that has several parts; more queries than workers share them.
const QUERIES_PER_WORKER: usize = 4;

/// Settings of the analytics.
#[derive(Clone, Copy, Debug)]
pub struct AnalyticsSettings {
    workers: usize,
    queries: usize,
    memory_bytes: usize,
    are_ordinary: bool,
    /// True if the workers make urgent calls.
    are_urgent: bool,
    /// Time after which the claimer takes a call that no worker has started.
    claim_after_ns: Option<u64>,
}

/// Queues and workers. To be dropped after all sessions, on a thread that may block.
pub struct ClassRuntimes {
    class_runtimes: Vec<(Class, Workers)>,
    analytics: Arc<SqlAnalytics>,
    urgent: Option<Arc<UrgentQueue>>,
    watch: Arc<StarvationWatch>,
    /// Thread of the watch, which ends before the workers do.
    _watcher: Watcher,
}

impl AnalyticsSettings {
    /// Reads the settings, where 0 stands for the value that suits this machine.
    pub fn from_settings(settings: &Defaults) -> AnalyticsSettings {
        let number = |name: &str| usize::try_from(settings.number(name)).unwrap_or(0);
        let or = |given: usize, otherwise: usize| if given == 0 { otherwise } else { given };
        let workers = or(number("overtake.analytics_workers"), os::cpus().len().max(1));
        let queries = or(number("overtake.analytics_queries"), workers * QUERIES_PER_WORKER);
        let memory_bytes = or(settings.bytes("overtake.analytics_memory"), memory::limit_bytes() / 4);
        let are_ordinary = settings.get("overtake.analytics_threads") == "ordinary";
        let are_urgent = settings.get("overtake.urgent_calls") == "on";
        let claim_after_us = u64::try_from(settings.number("overtake.urgent_claim_after")).unwrap_or(0);
        let claim_after_ns = (0 < claim_after_us).then_some(claim_after_us * 1_000);
        AnalyticsSettings { workers, queries, memory_bytes, are_ordinary, are_urgent, claim_after_ns }
    }

    /// Returns true if the threads of long queries are ordinary ones.
    pub fn are_ordinary(&self) -> bool {
        self.are_ordinary
    }
}

impl ClassRuntimes {
    /// Starts queues and workers over the tables of an engine.
    ///
    /// # Errors
    /// If threads cannot be started or registered.
    pub fn start(
        engine: &engine::Engine,
        wanted: AnalyticsSettings,
        watch: Arc<StarvationWatch>,
    ) -> anyhow::Result<ClassRuntimes> {
        let memory = QueryMemory::of_bytes(wanted.memory_bytes);
        let database = Database::new(engine.clone());
        let start = |class: Class| Ok((class, start(class, wanted, &memory, &watch)?));
        let class_runtimes = Class::ALL.into_iter().map(start).collect::<anyhow::Result<Vec<_>>>()?;
        let [high, normal, low] = &class_runtimes[..] else { anyhow::bail!("there are three classes") };
        let above = [high, normal].map(|(_, workers)| Arc::clone(workers.scheduler()));
        let pausing = Arc::new(Pausing { hook: low.1.hook(), above });
        let class_runtimes_of = [high.1.class_runtime(), normal.1.class_runtime(), low.1.class_runtime_with(pausing)];
        let analytics = SqlAnalytics::new(&database, class_runtimes_of);
        let analytics = analytics.context("the thread of deadlines")?;
        let schedulers =
            class_runtimes.iter().map(|(class, workers)| (*class, Arc::clone(workers.scheduler()))).collect();
        let watcher = watch.start(schedulers).context("the thread that watches for starvation")?;
        let urgent = wanted
            .are_urgent
            .then(|| UrgentQueue::new(class_runtimes.iter().map(|(class, workers)| (*class, workers))));
        Ok(ClassRuntimes { class_runtimes, analytics, urgent, watch, _watcher: watcher })
    }

    /// Returns the scheduling state, for its view.
    pub fn scheduling(&self) -> Arc<dyn Scheduling> {
        let inner = scheduling(self.class_runtimes.iter().map(|(class, workers)| (*class, workers)));
        Arc::new(WithVerdict { inner, watch: Arc::clone(&self.watch), urgent: self.urgent.clone() })
    }

    /// Returns the queue of urgent calls, if the workers make any.
    pub fn urgent(&self) -> Option<Arc<UrgentQueue>> {
        self.urgent.clone()
    }

    /// Returns the analytics, for sessions.
    pub fn analytics(&self) -> Arc<SqlAnalytics> {
        Arc::clone(&self.analytics)
    }
}

/// Starts the queue and the workers of one class.
fn start(
    class: Class,
    wanted: AnalyticsSettings,
    memory: &QueryMemory,
    watch: &Arc<StarvationWatch>,
) -> anyhow::Result<Workers> {
    let AnalyticsSettings { workers, queries, memory_bytes: _, are_ordinary, are_urgent, claim_after_ns } = wanted;
    let settings = SchedulerSettings {
        name: format!("analytics-{}", class.name()),
        // The policy concerns urgent requests.
        policy: if are_urgent { Policy::Preempt } else { Policy::Boundary },
        workers,
        low_width_max: Some(queries),
        events_per_worker: 64,
        claim_after_ns: claim_after_ns.filter(|_| are_urgent),
        raises_workers: are_urgent,
        // The claimer is an ordinary thread: native code that never ends must leave others their turn.
        realtime_priority: 0,
        ..SchedulerSettings::default()
    };
    let config = RuntimeConfig { memory: memory.clone(), ..RuntimeConfig::new(workers) };
    let watch = Arc::clone(watch);
    let begun = move || {
        put_below(class, are_ordinary);
        if are_urgent {
            procs_wasm::prepare_thread();
        }
        watch.add_current(class);
    };
    Ok(Workers::start(settings, config, Arc::new(begun))?)
}

/// Puts this thread below others.
fn put_below(class: Class, are_ordinary: bool) {
    let lowered = match (class, are_ordinary) {
        (Class::High, _) | (Class::Normal, true) => os::set_nice(10),
        (Class::Low, true) => os::set_nice(19),
        (Class::Normal | Class::Low, false) => os::set_idle(),
    };
    if let Err(error) = lowered {
        tracing::warn!(class = class.name(), %error, "a worker of analytics cannot be put below other threads");
    }
}

/// Pause of a worker of the least important class, as a multiple of its running time, while a more important class has
/// queries.
const PAUSES: u32 = 4;
/// Minimum running time between two pauses: to sleep and wake costs some ten microseconds.
const RUNS: Duration = Duration::from_millis(1);
/// Maximum length of a pause: the more important queries may have come to an end.
const PAUSE_MAX: Duration = Duration::from_millis(40);

thread_local! {
    /// Processor time of this thread when it last went on; none while it need not pause.
    static WENT_ON: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// Hook of the least important class between two batches.
struct Pausing {
    hook: Arc<dyn BatchHook>,
    above: [Arc<Scheduler>; 2],
}

impl BatchHook for Pausing {
    fn batch(&self) {
        self.hook.batch();
        if self.above.iter().all(|scheduler| scheduler.low_jobs() == 0) {
            return WENT_ON.set(None);
        }
        let ran = Duration::from_nanos(os::thread_cpu_ns());
        match WENT_ON.get() {
            None => WENT_ON.set(Some(ran)),
            Some(before) => {
                if let Some(pause) = pause_after(ran.saturating_sub(before)) {
                    std::thread::sleep(pause);
                    WENT_ON.set(Some(ran));
                }
            }
        }
    }
}

/// Returns the pause of a thread that has run for this long; none if it goes on.
fn pause_after(run: Duration) -> Option<Duration> {
    (RUNS <= run).then(|| (run * PAUSES).min(PAUSE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn pauses_follow_what_has_run() {
        assert_eq!(pause_after(MS(1) / 2), None);
        assert_eq!(pause_after(MS(2)), Some(MS(8)));
        assert_eq!(pause_after(MS(200)), Some(PAUSE_MAX));
    }
}
