//! The load: transactions at a rate, queries beside, the purge and the housekeeping.
//!
//! **Invariant:** a transaction counts in the interval in which it ended, its time from its scheduled arrival; at the end
//! every one that was taken has ended.

use super::{SoakArguments, queries};
use crate::background::{self, Background};
use crate::data::{ATTEMPTS_MAX, Data, OutcomeCounts};
use crate::mixed::{Arrivals, Instance, LowLoop, RunEnd, Schedule, worker_cpus};
use anyhow::{Context, ensure};
use engine::Housekeeper;
use host::stop::Stop;
use preempt::os;
use sched::{Event, Policy, SchedulerSettings};
use stage::Histogram;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use workloads::tpcc::Purged;

/// Interval at which the workers' events are collected.
const COLLECT: Duration = Duration::from_millis(10);
/// Time after the last arrival after which a transaction that has not ended is lost.
const STRAGGLERS_MAX: Duration = Duration::from_secs(60);

/// Running load.
pub struct SoakLoad {
    data: Arc<Data>,
    // The loop stands before the instance: its end needs the workers.
    low: Option<LowLoop>,
    arrivals: Arrivals,
    purge: Background<Purged>,
    housekeeping: Housekeeper,
    instance: Instance,
    schedule: Schedule,
    outcomes_before: OutcomeCounts,
    queries: Arc<AtomicU64>,
    queries_before: u64,
    interval: Interval,
    began_ns: u64,
    ended: u64,
}

/// Transactions and queries that ended between two samples.
#[derive(Clone, Default)]
pub struct Interval {
    /// Length of the interval in seconds.
    pub seconds: f64,
    /// Number of transactions.
    pub done: u64,
    /// Times of the transactions from their scheduled arrivals to their ends.
    pub e2e: Histogram,
    /// Number of queries.
    pub queries: u64,
}

impl Interval {
    /// Returns the transactions per second.
    pub fn per_s(&self) -> f64 {
        self.done as f64 / self.seconds
    }
}

/// Results of the whole run.
pub struct SoakTotals {
    /// Number of arrivals.
    pub offered: u64,
    /// Number of arrivals that found no room.
    pub rejected: u64,
    /// Outcomes of the transactions.
    pub outcomes: OutcomeCounts,
    /// Rows that the purge deleted.
    pub purged: Purged,
}

impl SoakLoad {
    /// Starts the load.
    ///
    /// # Errors
    /// If threads cannot be started, or a query does not prepare.
    pub fn start(data: &Arc<Data>, arguments: &SoakArguments) -> anyhow::Result<SoakLoad> {
        let workers = arguments.workers.map_or_else(|| os::cpus().len(), |workers| workers as usize);
        let instance = Instance::start(
            data,
            SchedulerSettings {
                name: "soak".to_owned(),
                policy: Policy::Preempt,
                workers,
                cpus: worker_cpus(),
                attempts_max: ATTEMPTS_MAX,
                ..SchedulerSettings::default()
            },
        )?;
        let names = arguments.query.iter();
        let list = names.map(|name| queries::query(data, name)).collect::<anyhow::Result<Vec<_>>>()?;
        let queries = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&queries);
        let on_end = Arc::new(move |end: &RunEnd<'_>| {
            counted.fetch_add(u64::from(end.is_finished), SeqCst);
        });
        let jobs = arguments.jobs as usize;
        // Without jobs the transactions run alone.
        let low = if jobs == 0 { None } else { Some(instance.run_queries(list, jobs, 1, on_end)?) };
        let purge = background::purge(data)?;
        let housekeeping = Housekeeper::start(data.engine())?;
        let outcomes_before = data.outcomes();
        let make = data.steady_mix(arguments.seed);
        let arrivals = Arrivals::start(Arc::clone(instance.scheduler()), make, arguments.rate, arguments.seed)?;
        Ok(SoakLoad {
            data: Arc::clone(data),
            low,
            schedule: arrivals.schedule(),
            arrivals,
            purge,
            housekeeping,
            instance,
            outcomes_before,
            queries,
            queries_before: 0,
            interval: Interval::default(),
            began_ns: os::now_ns(),
            ended: 0,
        })
    }

    fn collect(&mut self) {
        let (interval, ended, schedule) = (&mut self.interval, &mut self.ended, &self.schedule);
        self.instance.scheduler().drain_events(&mut |event| {
            let Event::Completed(completed) = event else { return };
            *ended += 1;
            interval.done += 1;
            if let Some(end_ns) = completed.stamps.end_ns {
                interval.e2e.record_ns(end_ns.saturating_sub(schedule.at_ns(completed.id)));
            }
        });
    }

    /// Waits while the load runs.
    ///
    /// # Errors
    /// A stop, or a thread in the background that has failed.
    pub fn run_until(&mut self, until: Instant, stop: &Stop) -> anyhow::Result<()> {
        loop {
            self.collect();
            // Their errors are reported when they are stopped.
            ensure!(self.purge.is_alive() && self.housekeeping.is_alive(), "purge or housekeeping ended early");
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            stop.wait(COLLECT.min(left))?;
        }
    }

    /// Returns the transactions and queries that ended since the last call.
    pub fn interval(&mut self) -> Interval {
        let now_ns = os::now_ns();
        let queries = self.queries.load(SeqCst);
        let seconds = (now_ns - std::mem::replace(&mut self.began_ns, now_ns)) as f64 / 1e9;
        let interval = std::mem::take(&mut self.interval);
        Interval { seconds, queries: queries - std::mem::replace(&mut self.queries_before, queries), ..interval }
    }

    /// Ends the load.
    ///
    /// # Errors
    /// A stop; a query, a transaction, the purge or the housekeeping that failed; a transaction that never ended.
    pub fn end(mut self, stop: &Stop) -> anyhow::Result<SoakTotals> {
        self.arrivals.set_rate(0.0);
        let taken = |load: &SoakLoad| load.arrivals.offered() - load.arrivals.rejected();
        let until = Instant::now() + STRAGGLERS_MAX;
        // An arrival that is on its way when the rate changes still comes.
        let mut is_quiet = false;
        while !(is_quiet && self.ended == taken(&self)) {
            is_quiet = self.ended == taken(&self);
            ensure!(
                Instant::now() < until,
                "{} transactions had not ended {} s after the last arrival",
                taken(&self) - self.ended,
                STRAGGLERS_MAX.as_secs()
            );
            stop.wait(COLLECT)?;
            self.collect();
        }
        let SoakLoad { data, low, arrivals, purge, housekeeping, instance, outcomes_before, .. } = self;
        let offered = arrivals.stop();
        if let Some(low) = low {
            low.stop().context("the queries")?;
        }
        let purged = purge.stop().context("the purge")?;
        housekeeping.stop().context("the housekeeping")?;
        let counters = instance.scheduler().counters();
        let outcomes = data.outcomes().since(&outcomes_before);
        ensure!(counters.panicked + counters.exhausted == 0, "{} transactions panicked", counters.panicked);
        ensure!(counters.events_lost == 0, "{} events were lost, so times are missing", counters.events_lost);
        ensure!(outcomes.failed == 0, "{} transactions failed", outcomes.failed);
        Ok(SoakTotals { offered: offered.arrivals, rejected: offered.rejected, outcomes, purged })
    }
}
