//! An instance of the demonstration: its inputs, and the work under way.

use crate::data::{Data, TICKET};
use crate::mixed::{Arrivals, Instance, LowLoop, LowQuery, RunEnd, Schedule};
use demo::facts::Policy;
use host::stop::Stop;
use locked::Locked;
use olap::Workers;
use preempt::os;
use sched::{Placement, SchedulerSettings};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Number of runs whose time is measured.
const TIMED_RUNS: usize = 2;
/// Interval at which a timed run is checked for its end.
const CHECK: Duration = Duration::from_millis(1);

/// Run of the query that has ended, on its way to the history.
#[derive(Clone)]
pub struct EndedRun {
    /// Query's name.
    pub query: String,
    /// Start of the run, in nanoseconds.
    pub started_ns: u64,
    /// End of the run, in nanoseconds.
    pub ended_ns: u64,
    /// True if the run went to completion.
    pub is_finished: bool,
    /// Worker on which the run ended, if it was one of the instance's.
    pub worker: Option<usize>,
}

/// Instance and its loads.
pub struct DemoInstance {
    /// Policy of the instance.
    pub policy: Policy,
    /// Processors of the workers, one each, used in turn. A thread that is kept off them does not see them any more.
    pub cpus: Vec<usize>,
    instance: Instance,
    low: Option<(String, LowLoop)>,
    arrivals: Option<Arrivals>,
    /// Number of arrivals of generators that have stopped.
    offered_before: u64,
    issued: u64,
    /// Number of ended New-Orders, counted by the collector.
    pub ended: Arc<AtomicU64>,
    /// Ended runs, filled by workers in base context, emptied by the collector.
    pub ended_runs: Arc<Mutex<Vec<EndedRun>>>,
    /// Approximate start of each worker's present query, in nanoseconds: the end of the last one.
    pub query_since_ns: Arc<[AtomicU64]>,
    rate: f64,
}

/// Returns the number of workers where none is given: one for each processor but one, which is left to the browser and
/// to the page's server. They would take turns with the queries on a worker's processor, so that the picture stood still
/// and the latencies were theirs.
pub fn workers_by_default(cpus: usize) -> usize {
    cpus.saturating_sub(1).max(1)
}

/// Returns the processors of this many workers: the last ones, because the first one has the most interrupts to serve.
fn worker_cpus(cpus: &[usize], workers: usize) -> &[usize] {
    &cpus[cpus.len().saturating_sub(workers)..]
}

/// Returns a processor that no worker is pinned to, if there is one.
fn free_cpu(cpus: &[usize], workers: usize) -> Option<usize> {
    (workers < cpus.len()).then(|| cpus[0])
}

/// Keeps this thread, and those that it starts, off the workers' processors, if there is another one.
pub fn keep_off_workers(workers: usize) {
    if let Some(cpu) = free_cpu(&os::cpus(), workers)
        && let Err(error) = os::pin_to_cpu(cpu)
    {
        tracing::warn!(%error, "a thread cannot be kept off the workers' processors");
    }
}

/// Returns the scheduler's policy for a policy of the page.
pub fn sched_policy(policy: Policy) -> sched::Policy {
    match policy {
        Policy::Wait => sched::Policy::Wait,
        Policy::Yield => sched::Policy::Yield,
        Policy::Preempt => sched::Policy::Preempt,
    }
}

impl DemoInstance {
    /// Starts the instance; it sleeps until there is work.
    pub fn open(data: &Arc<Data>, policy: Policy, workers: usize, yield_interval: u32) -> anyhow::Result<DemoInstance> {
        let cpus = worker_cpus(&os::cpus(), workers).to_vec();
        let settings = SchedulerSettings {
            name: policy.name().to_owned(),
            policy: sched_policy(policy),
            workers,
            cpus: cpus.clone(),
            yield_interval,
            placement: Placement::RoundRobin,
            attempts_max: crate::data::ATTEMPTS_MAX,
            track_run_delay: true,
            ..SchedulerSettings::default()
        };
        Ok(DemoInstance {
            policy,
            cpus,
            instance: Instance::start(data, settings)?,
            low: None,
            arrivals: None,
            offered_before: 0,
            issued: 0,
            ended: Arc::default(),
            ended_runs: Arc::default(),
            query_since_ns: (0..workers).map(|_| AtomicU64::new(0)).collect(),
            rate: 0.0,
        })
    }

    /// Returns the instance's scheduler.
    pub fn scheduler(&self) -> &Arc<sched::Scheduler> {
        self.instance.scheduler()
    }

    /// Returns the instance's scheduler and workers.
    pub fn workers(&self) -> &Workers {
        self.instance.workers()
    }

    /// Returns the name of the query that is repeated.
    pub fn query(&self) -> Option<&str> {
        self.low.as_ref().map(|(name, _)| name.as_str())
    }

    /// Returns the rate of New-Orders, per second.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Returns the scheduled times of the arrivals at the present rate.
    pub fn schedule(&self) -> Option<Schedule> {
        self.arrivals.as_ref().map(Arrivals::schedule)
    }

    /// Returns the number of New-Orders that have arrived and not ended.
    pub fn waiting_count(&self) -> u64 {
        let running = self.arrivals.as_ref().map_or(0, |arrivals| arrivals.offered() - arrivals.rejected());
        (self.offered_before + running + self.issued).saturating_sub(self.ended.load(Relaxed))
    }

    /// Repeats `query` on every worker.
    pub fn start_query(&mut self, query: LowQuery, workers: usize) -> anyhow::Result<()> {
        self.stop_query()?;
        let now_ns = os::now_ns();
        self.query_since_ns.iter().for_each(|since| since.store(now_ns, Relaxed));
        let name = query.name().to_owned();
        let (runs, since) = (Arc::clone(&self.ended_runs), Arc::clone(&self.query_since_ns));
        let scheduler = Arc::downgrade(self.instance.scheduler());
        let on_end = Arc::new(move |end: &RunEnd<'_>| {
            let me = preempt::Worker::current();
            let worker = scheduler.upgrade().and_then(|scheduler| {
                (0..scheduler.workers()).find(|&at| match (scheduler.worker(at), me) {
                    (Some(worker), Some(me)) => std::ptr::eq(worker, me),
                    _ => false,
                })
            });
            if let Some(worker) = worker {
                since[worker].store(end.ended_ns, Relaxed);
            }
            runs.locked().push(EndedRun {
                query: end.query.name().to_owned(),
                started_ns: end.started_ns,
                ended_ns: end.ended_ns,
                is_finished: end.is_finished,
                worker,
            });
        });
        let low = self.instance.run_queries(vec![query], workers, 1, on_end)?;
        self.low = Some((name, low));
        Ok(())
    }

    /// Runs `query` alone on one worker and returns the processor time of a run. The first run is not counted, because it
    /// finds the caches cold; nor is the time in which others had the processor.
    ///
    /// # Errors
    /// A failed query, or a stop.
    pub fn time(&mut self, query: LowQuery, stop: &Stop) -> anyhow::Result<Duration> {
        self.start_query(query, 1)?;
        self.wait_for_runs(1, stop)?;
        let before_ns = os::process_cpu_ns();
        self.wait_for_runs(1 + TIMED_RUNS, stop)?;
        let used_ns = os::process_cpu_ns().saturating_sub(before_ns);
        self.stop_query()?;
        self.ended_runs.locked().clear();
        Ok(Duration::from_nanos(used_ns / TIMED_RUNS as u64))
    }

    fn wait_for_runs(&self, count: usize, stop: &Stop) -> anyhow::Result<()> {
        while self.ended_runs.locked().len() < count {
            if let Some((_, low)) = &self.low {
                low.check()?;
            }
            stop.wait(CHECK)?;
        }
        Ok(())
    }

    /// Cancels the query; returns when it has ended.
    pub fn stop_query(&mut self) -> anyhow::Result<()> {
        let stopped = self.low.take().map_or(Ok(()), |(_, low)| low.stop());
        self.query_since_ns.iter().for_each(|since| since.store(0, Relaxed));
        stopped
    }

    /// Sends New-Orders at this rate; 0 stops.
    pub fn set_rate(&mut self, data: &Data, rate: f64, seed: u64) -> anyhow::Result<()> {
        self.rate = rate;
        match &self.arrivals {
            Some(arrivals) => arrivals.set_rate(rate),
            None if 0.0 < rate => {
                let scheduler = Arc::clone(self.scheduler());
                self.arrivals = Some(Arrivals::start(scheduler, data.new_orders(seed), rate, seed)?);
            }
            None => {}
        }
        Ok(())
    }

    /// Ends the arrivals.
    pub fn stop_arrivals(&mut self) {
        self.rate = 0.0;
        if let Some(arrivals) = self.arrivals.take() {
            let offered = arrivals.stop();
            self.offered_before += offered.arrivals - offered.rejected;
        }
    }

    /// Sends one New-Order, made by `make`.
    pub fn issue(&mut self, ticket: u64, make: &mut crate::mixed::MakeRequest) -> Result<(), sched::Rejected> {
        self.scheduler().submit(make(TICKET | ticket))?;
        self.issued += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{free_cpu, worker_cpus, workers_by_default};

    /// Goal: the browser and the page's server keep a processor, where there are two. Method: machines of several sizes.
    #[test]
    fn a_processor_is_left_to_the_browser() {
        assert_eq!([1, 2, 3, 8].map(workers_by_default), [1, 1, 2, 7]);
        let cpus = [0, 1, 4, 5];
        assert_eq!((worker_cpus(&cpus, 3), free_cpu(&cpus, 3)), (&[1, 4, 5][..], Some(0)));
        // Whoever asks for as many workers as there are processors, or for more, has none to spare.
        assert_eq!((worker_cpus(&cpus, 4), free_cpu(&cpus, 4)), (&cpus[..], None));
        assert_eq!((worker_cpus(&cpus, 9), free_cpu(&cpus, 9)), (&cpus[..], None));
        assert_eq!(free_cpu(&[3], 1), None);
    }
}
