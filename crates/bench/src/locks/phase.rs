//! One phase: one load under one setting.

use super::clients::Clients;
use super::load::LockLoad;
use super::terminal::Terminal;
use super::workers::Workers;
use crate::mixed::worker_cpus;
use anyhow::ensure;
use engine::{Engine, LockConfig, LockPriority, LockStats, Taking};
use host::stop::Stop;
use preempt::BoundedQueue;
use sched::{CapSettings, Policy, SchedulerSettings};
use stage::{Class, Histogram};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use workloads::tpcc::Random;

/// Parameters of a phase.
pub struct LockPhaseConfig {
    /// Setting of `lock_priority`.
    pub priority: LockPriority,
    /// Number of sessions, as in [`super::LocksArguments`], like the next three.
    pub sessions: usize,
    /// Percentage of transactions of class high.
    pub high_percent: u8,
    /// Time of a client between two statements.
    pub client_time: Duration,
    /// Number of worker threads.
    pub workers: usize,
    /// Time before the window.
    pub warm_up: Duration,
    /// Measured window.
    pub duration: Duration,
    /// Seed of classes and inputs.
    pub seed: u64,
}

/// Figures of one class.
#[derive(Clone, Default)]
pub struct ClassTally {
    /// Time from the client's wish to begin to the end of the commit.
    pub response: Histogram,
    /// Time that the statements of committed attempts ran.
    pub run_ns: u64,
    /// Time that the statements of aborted attempts ran.
    pub wasted_ns: u64,
    /// Number of aborted attempts, by SQLSTATE.
    pub aborts: BTreeMap<&'static str, u64>,
    /// Time parked.
    pub lock_wait_ns: u64,
    /// Number of times parked.
    pub parks: u64,
}

impl ClassTally {
    /// Adds the figures of another phase.
    pub fn add(&mut self, other: &ClassTally) {
        self.response.add(&other.response);
        self.run_ns += other.run_ns;
        self.wasted_ns += other.wasted_ns;
        for (state, count) in &other.aborts {
            *self.aborts.entry(state).or_default() += count;
        }
        self.lock_wait_ns += other.lock_wait_ns;
        self.parks += other.parks;
    }

    /// Returns the number of aborted attempts.
    pub fn aborts(&self) -> u64 {
        self.aborts.values().sum()
    }

    /// Returns the share of the time run that was in vain.
    pub fn wasted_share(&self) -> f64 {
        self.wasted_ns as f64 / (self.wasted_ns + self.run_ns).max(1) as f64
    }
}

/// Results of a phase.
#[derive(Clone, Default)]
pub struct LockPhaseResult {
    /// Seconds of the measured window.
    pub seconds: f64,
    /// Figures of class high.
    pub high: ClassTally,
    /// Figures of class low.
    pub low: ClassTally,
    /// Lateness of the clients' submissions.
    pub late: Histogram,
    /// Numbers of aborts over the whole phase, by the class of victim and winner and the reason.
    pub takings: BTreeMap<String, u64>,
    /// Number of victims of deadlocks, over the whole phase.
    pub deadlocks: u64,
    /// Number of transactions that ran with the class of the transaction that had taken from their session before.
    pub promotions: u64,
}

impl LockPhaseResult {
    /// Returns the tally of a class.
    pub fn of(&mut self, class: Class) -> &mut ClassTally {
        if class == Class::High { &mut self.high } else { &mut self.low }
    }

    /// Returns the sum of both classes.
    pub fn overall(&self) -> ClassTally {
        let mut all = self.high.clone();
        all.add(&self.low);
        all
    }

    /// Adds another round.
    pub fn add(&mut self, other: &LockPhaseResult) {
        self.seconds += other.seconds;
        self.high.add(&other.high);
        self.low.add(&other.low);
        self.late.add(&other.late);
        for (taking, count) in &other.takings {
            *self.takings.entry(taking.clone()).or_default() += count;
        }
        self.deadlocks += other.deadlocks;
        self.promotions += other.promotions;
    }

    /// Fills in the engine's counts between two readings.
    fn count(&mut self, before: &LockStats, after: &LockStats) {
        self.takings = takings(after);
        for (taking, count) in takings(before) {
            *self.takings.entry(taking).or_default() -= count;
        }
        self.takings.retain(|_, count| 0 < *count);
        self.deadlocks = after.deadlocks - before.deadlocks;
        self.promotions = after.promotions - before.promotions;
    }
}

fn takings(stats: &LockStats) -> BTreeMap<String, u64> {
    let words = |taking: &Taking| format!("{} from {}: {}", taking.taker, taking.victim, taking.why.name());
    stats.takings.iter().map(|taking| (words(taking), taking.count)).collect()
}

impl LockPhaseConfig {
    /// Runs the phase.
    ///
    /// # Errors
    /// An error for a transaction that failed or was lost; a stop.
    pub fn run(&self, engine: &Engine, load: &mut dyn LockLoad, stop: &Stop) -> anyhow::Result<LockPhaseResult> {
        engine.set_lock_config(LockConfig { priority: self.priority, ..LockConfig::default() });
        let workers = Workers::start(SchedulerSettings {
            name: "locks".to_owned(),
            policy: Policy::Boundary,
            workers: self.workers,
            cpus: worker_cpus(),
            cap: CapSettings::OFF,
            ..SchedulerSettings::default()
        })?;
        load.restart(self.seed);
        let messages = Arc::new(BoundedQueue::new(self.sessions));
        let terminals =
            (0..self.sessions).map(|at| Arc::new(Terminal::new(at, engine, &messages, load.script()))).collect();
        let mut clients = Clients {
            scheduler: workers.scheduler(),
            engine,
            load,
            random: Random::new(self.seed),
            high_percent: self.high_percent.into(),
            client_time_ns: self.client_time.as_nanos() as u64,
            terminals,
            messages,
        };
        let stats_before = engine.lock_stats();
        // The clients get a thread of their own, because it may be of the real-time class, which threads hand down.
        let mut result = std::thread::scope(|scope| {
            let running = scope.spawn(|| clients.run(self.warm_up, self.duration, stop));
            running.join().unwrap_or_else(|_| anyhow::bail!("the clients panicked"))
        })?;
        drop(clients);
        result.count(&stats_before, &engine.lock_stats());
        let counters = workers.scheduler().counters();
        ensure!(counters.panicked == 0, "{} statements panicked", counters.panicked);
        ensure!(
            counters.parks == counters.resubmits,
            "{} statements were never woken",
            counters.parks - counters.resubmits
        );
        Ok(result)
    }
}
