//! One phase: one policy, one low load, one rate.

use super::variant::Variant;
use crate::data::{Data, OutcomeCounts};
use crate::mixed::{Arrivals, Instance, LowLoop, LowQuery, MakeRequest, Offered, RunEnd, Schedule, Tally, worker_cpus};
use anyhow::{Context, bail, ensure};
use host::stop::Stop;
use locked::Locked;
use preempt::os;
use sched::{CapSettings, Counters, Event, Scheduler, SchedulerSettings};
use stage::Histogram;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time that loads run before the measured window begins.
pub const WARM_UP: Duration = Duration::from_millis(500);
/// Interval at which the workers' events are collected.
const COLLECT: Duration = Duration::from_millis(10);
/// Maximum number of dead versions that one turn of the housekeeping frees.
const GARBAGE_VERSIONS: usize = 1_000;
/// Time after the last arrival after which a New-Order that has not ended is lost.
const STRAGGLERS_MAX: Duration = Duration::from_secs(60);

/// Function that makes the requests of a phase, from a seed.
pub type MakeRequests = fn(&Data, u64) -> MakeRequest;

/// Observer of a phase that wants to know more than its result says.
pub trait Observe: Send + Sync {
    /// Receives the end of a query. Called on its worker, in base context.
    fn run_ended(&self, end: &RunEnd<'_>);
    /// Called a hundred times a second while the phase runs.
    fn sample(&self);
    /// Returns true if the phase may end; until then it goes on beyond its window.
    fn has_enough(&self) -> bool;
}

/// Parameters of a phase.
pub struct PhaseConfig {
    /// Policy and rungs.
    pub variant: Variant,
    /// Low load, repeated on each worker; empty for none.
    pub queries: Vec<LowQuery>,
    /// Requests per second; none for low alone.
    pub rate: Option<f64>,
    /// Function that makes the requests.
    pub requests: MakeRequests,
    /// Number of workers, and of low jobs at a time.
    pub workers: usize,
    /// Measured window.
    pub duration: Duration,
    /// Time after which late requests are claimed: see [`SchedulerSettings::claim_after_ns`].
    pub claim_after_ns: Option<u64>,
    /// True if threads may use the real-time class.
    pub realtime: bool,
    /// Interval of yields: see [`SchedulerSettings::yield_interval`].
    pub yield_interval: u32,
    /// Percentage that the starvation cap keeps for queries.
    pub low_share: u8,
    /// Seed of arrivals and inputs.
    pub seed: u64,
    /// Observer of each query, in place of a comparison of the answers.
    pub observe: Option<Arc<dyn Observe>>,
}

/// Results of a phase.
pub struct PhaseResult {
    /// Seconds of the measured window.
    pub seconds: f64,
    /// Moments at which the measured window began, and at which the arrivals were stopped, in nanoseconds.
    pub loaded_ns: (u64, u64),
    /// Requests that were due in the window.
    pub tally: Tally,
    /// Requests that were offered over the whole phase.
    pub offered: Option<Offered>,
    /// Outcomes of the requests of the whole phase.
    pub outcomes: OutcomeCounts,
    /// Number of runs of the low load that ended in the window.
    pub low_runs: u64,
    /// Times of these runs.
    pub low_time: Histogram,
    /// Scheduler's counts over the whole phase.
    pub counters: Counters,
    /// Workers' interrupts over the whole phase.
    pub interrupts: preempt::InterruptCounters,
    /// Maximum number of dead versions in memory, in the first and in the second half of the window.
    pub versions_dead_max: [u64; 2],
    /// Digests of the answers of each query; more than one when the answers differed.
    answers: BTreeMap<String, Vec<u64>>,
}

/// Tally of the workers' reports of their queries.
#[derive(Default)]
struct LowTally {
    window_ns: Option<(u64, u64)>,
    runs: u64,
    time: Histogram,
    answers: BTreeMap<String, Vec<u64>>,
}

impl LowTally {
    fn add(&mut self, end: &RunEnd<'_>) {
        if !end.is_finished {
            return;
        }
        if let Some(answer) = end.answer {
            let digest = crate::data::answer_digest(answer);
            let digests = self.answers.entry(end.query.name().to_owned()).or_default();
            if !digests.contains(&digest) {
                digests.push(digest);
            }
        }
        if self.window_ns.is_some_and(|(from, to)| from <= end.ended_ns && end.ended_ns < to) {
            self.runs += 1;
            self.time.record_ns(end.ended_ns - end.started_ns);
        }
    }
}

impl PhaseConfig {
    /// Runs the phase.
    ///
    /// # Errors
    /// An error for a failed query or a lost New-Order; a stop.
    pub fn run(&self, data: &Arc<Data>, stop: &Stop) -> anyhow::Result<PhaseResult> {
        let interrupts_before = preempt::totals();
        let outcomes_before = data.outcomes();
        let instance = Instance::start(data, self.settings())?;
        let scheduler = Arc::clone(instance.scheduler());
        let low = Arc::new(Mutex::new(LowTally::default()));
        let low_loop = if self.queries.is_empty() {
            None
        } else {
            let (low, observe) = (Arc::clone(&low), self.observe.clone());
            let on_end = Arc::new(move |end: &RunEnd<'_>| match &observe {
                Some(observe) => observe.run_ended(end),
                None => low.locked().add(end),
            });
            Some(instance.run_queries(self.queries.clone(), self.workers, 1, on_end)?)
        };
        let arrivals = match self.rate {
            None => None,
            Some(rate) => {
                let make = (self.requests)(data, self.seed);
                Some(Arrivals::start(Arc::clone(&scheduler), make, rate, self.seed)?)
            }
        };
        let mut collector = Collector::new(arrivals.as_ref().map(Arrivals::schedule));
        // The events of the warm-up are drained without being counted: the window is not set yet.
        collector.collect_until(&scheduler, os::now_ns() + WARM_UP.as_nanos() as u64, stop)?;
        let from_ns = os::now_ns();
        let to_ns = from_ns + self.duration.as_nanos() as u64;
        low.locked().window_ns = Some((from_ns, to_ns));
        collector.window_ns = Some((from_ns, to_ns));
        let mut versions_dead_max = [0; 2];
        for (half, until_ns) in [(0, from_ns + (to_ns - from_ns) / 2), (1, to_ns)] {
            while os::now_ns() < until_ns {
                self.turn(data, &mut collector, &scheduler, until_ns, stop)?;
                versions_dead_max[half] = versions_dead_max[half].max(data.engine().stats().versions_dead);
            }
        }
        while self.observe.as_ref().is_some_and(|observe| !observe.has_enough()) {
            self.turn(data, &mut collector, &scheduler, u64::MAX, stop)?;
            low_loop.as_ref().map_or(Ok(()), LowLoop::check).context("the low-priority load")?;
        }
        let loaded_ns = (from_ns, os::now_ns());
        let offered = arrivals.map(Arrivals::stop);
        // Every request that was due in the window counts, however late it ends, so the phase waits for the last one.
        if let Some(offered) = &offered {
            collector.wait_for(&scheduler, offered.arrivals - offered.rejected, stop)?;
        }
        if let Some(low_loop) = low_loop {
            low_loop.stop().context("the low-priority load")?;
        }
        let counters = scheduler.counters();
        ensure!(counters.panicked == 0, "{} New-Orders panicked", counters.panicked);
        ensure!(counters.events_lost == 0, "{} events were lost, so times are missing", counters.events_lost);
        drop(instance);
        let LowTally { runs, time, answers, .. } = std::mem::take(&mut *low.locked());
        Ok(PhaseResult {
            seconds: (to_ns - from_ns) as f64 / 1e9,
            loaded_ns,
            tally: collector.tally,
            offered,
            outcomes: data.outcomes().since(&outcomes_before),
            low_runs: runs,
            low_time: time,
            counters,
            interrupts: since(preempt::totals(), interrupts_before),
            versions_dead_max,
            answers,
        })
    }

    /// Collects the ended requests for a while, and does the engine's housekeeping.
    fn turn(
        &self,
        data: &Data,
        collector: &mut Collector,
        scheduler: &Scheduler,
        until_ns: u64,
        stop: &Stop,
    ) -> anyhow::Result<()> {
        let pause_ns = if self.observe.is_some() { 10_000_000 } else { 100_000_000 };
        collector.collect_until(scheduler, until_ns.min(os::now_ns() + pause_ns), stop)?;
        // This frees the garbage of slots that are no longer used; transactions free the rest in passing.
        data.engine().collect_garbage(GARBAGE_VERSIONS);
        if let Some(observe) = &self.observe {
            observe.sample();
        }
        Ok(())
    }

    fn settings(&self) -> SchedulerSettings {
        SchedulerSettings {
            name: self.variant.name().to_owned(),
            policy: self.variant.policy,
            rungs: self.variant.rungs,
            workers: self.workers,
            cpus: worker_cpus(),
            yield_interval: self.yield_interval,
            cap: CapSettings { low_share_percent: self.low_share, ..CapSettings::default() },
            attempts_max: crate::data::ATTEMPTS_MAX,
            track_run_delay: true,
            claim_after_ns: self.claim_after_ns,
            realtime_priority: if self.realtime { SchedulerSettings::default().realtime_priority } else { 0 },
            ..SchedulerSettings::default()
        }
    }
}

impl PhaseResult {
    /// Returns the runs of the low load per second.
    pub fn low_per_s(&self) -> f64 {
        self.low_runs as f64 / self.seconds
    }

    /// Returns the New-Orders per second that were due in the window.
    pub fn high_per_s(&self) -> f64 {
        self.tally.done as f64 / self.seconds
    }

    /// Adds the results of a later phase of the same kind.
    pub fn merge(&mut self, other: PhaseResult) {
        self.seconds += other.seconds;
        self.tally.merge(&other.tally);
        if let (Some(mine), Some(other)) = (&mut self.offered, &other.offered) {
            mine.arrivals += other.arrivals;
            mine.rejected += other.rejected;
            mine.late.add(&other.late);
        }
        self.outcomes = self.outcomes.plus(&other.outcomes);
        self.low_runs += other.low_runs;
        self.low_time.add(&other.low_time);
        self.counters = self.counters.plus(&other.counters);
        self.interrupts = self.interrupts.plus(&other.interrupts);
        for (mine, other) in self.versions_dead_max.iter_mut().zip(other.versions_dead_max) {
            *mine = (*mine).max(other);
        }
        for (query, digests) in other.answers {
            let mine = self.answers.entry(query).or_default();
            mine.extend(digests);
            mine.sort_unstable();
            mine.dedup();
        }
    }

    /// Compares the answers of `other` with these.
    ///
    /// # Errors
    /// If an answer differs, in either phase.
    pub fn compare_answers(&self, other: &PhaseResult) -> anyhow::Result<()> {
        for (query, digests) in self.answers.iter().chain(&other.answers) {
            if let [_, _, ..] = digests[..] {
                bail!("{query} gave different answers over tables that nobody writes");
            }
        }
        for (query, digests) in &other.answers {
            if let Some(expected) = self.answers.get(query)
                && expected != digests
            {
                bail!("{query} gave another answer under New-Orders than alone, over tables that nobody writes");
            }
        }
        Ok(())
    }

    /// Returns the number of answers that were compared, by query.
    pub fn answers_count(&self) -> usize {
        self.answers.len()
    }
}

/// Returns the interrupts since `before`.
fn since(now: preempt::InterruptCounters, before: preempt::InterruptCounters) -> preempt::InterruptCounters {
    preempt::InterruptCounters {
        polled: now.polled - before.polled,
        signalled: now.signalled - before.signalled,
        deferred: now.deferred - before.deferred,
        signals: now.signals - before.signals,
        landed_in_region: now.landed_in_region - before.landed_in_region,
        deferred_ns_max: now.deferred_ns_max,
        deferred_ns_sum: now.deferred_ns_sum - before.deferred_ns_sum,
    }
}

/// Collector of the workers' events.
struct Collector {
    schedule: Option<Schedule>,
    window_ns: Option<(u64, u64)>,
    tally: Tally,
    ended: u64,
}

impl Collector {
    fn new(schedule: Option<Schedule>) -> Collector {
        Collector { schedule, window_ns: None, tally: Tally::default(), ended: 0 }
    }

    fn collect(&mut self, scheduler: &Scheduler) {
        scheduler.drain_events(&mut |event| {
            let Event::Completed(completed) = event else { return };
            self.ended += 1;
            let Some(schedule) = &self.schedule else { return };
            let due_ns = schedule.at_ns(completed.id);
            if self.window_ns.is_some_and(|(from, to)| from <= due_ns && due_ns < to) {
                self.tally.add(&completed, due_ns);
            }
        });
    }

    fn collect_until(&mut self, scheduler: &Scheduler, until_ns: u64, stop: &Stop) -> anyhow::Result<()> {
        loop {
            self.collect(scheduler);
            let left_ns = until_ns.saturating_sub(os::now_ns());
            if left_ns == 0 {
                return Ok(());
            }
            stop.wait(COLLECT.min(Duration::from_nanos(left_ns)))?;
        }
    }

    /// Collects until `count` requests have ended.
    fn wait_for(&mut self, scheduler: &Scheduler, count: u64, stop: &Stop) -> anyhow::Result<()> {
        let until_ns = os::now_ns() + STRAGGLERS_MAX.as_nanos() as u64;
        loop {
            self.collect(scheduler);
            if self.ended == count {
                return Ok(());
            }
            ensure!(
                os::now_ns() < until_ns,
                "{} of {count} New-Orders had not ended {} s after the last arrival",
                count - self.ended,
                STRAGGLERS_MAX.as_secs()
            );
            stop.wait(COLLECT)?;
        }
    }
}
