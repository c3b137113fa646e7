//! One phase: one load under one setting.

use super::clients::Clients;
use super::load::Load;
use super::terminal::Terminal;
use super::workers::Workers;
use crate::mixed::worker_cpus;
use anyhow::ensure;
use engine::{Engine, LockConfig, LockPriority, LockStats, Taking};
use host::stop::Stop;
use preempt::BoundedQueue;
use sched::{CapSettings, Policy, Settings};
use stage::{Class, Histogram};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use workloads::tpcc::Random;

/// What to run.
pub struct Phase {
    /// The setting.
    pub priority: LockPriority,
    /// See [`super::Arguments`], as the next three.
    pub sessions: usize,
    /// Transactions of class high in a hundred.
    pub high_percent: u8,
    /// Between two statements.
    pub client_time: Duration,
    /// Threads.
    pub workers: usize,
    /// Before the window.
    pub warm_up: Duration,
    /// The measured window.
    pub duration: Duration,
    /// Makes classes and inputs.
    pub seed: u64,
}

/// What one class experienced.
#[derive(Clone, Default)]
pub struct ClassTally {
    /// From the client's wish to begin to the end of the commit.
    pub response: Histogram,
    /// What the statements of committed attempts ran.
    pub run_ns: u64,
    /// What the statements of aborted attempts ran.
    pub wasted_ns: u64,
    /// Aborted attempts, by SQLSTATE.
    pub aborts: BTreeMap<&'static str, u64>,
    /// Time parked.
    pub lock_wait_ns: u64,
    /// Times parked.
    pub parks: u64,
}

impl ClassTally {
    /// Adds another phase's.
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

    /// Aborted attempts.
    pub fn aborts(&self) -> u64 {
        self.aborts.values().sum()
    }

    /// The part of the time run that was in vain.
    pub fn wasted_share(&self) -> f64 {
        self.wasted_ns as f64 / (self.wasted_ns + self.run_ns).max(1) as f64
    }
}

/// What a phase found.
#[derive(Clone, Default)]
pub struct PhaseResult {
    /// Seconds of the measured window.
    pub seconds: f64,
    /// Class high.
    pub high: ClassTally,
    /// Class low.
    pub low: ClassTally,
    /// How late clients submitted.
    pub late: Histogram,
    /// Who was aborted by whom and why, over the whole phase.
    pub takings: BTreeMap<String, u64>,
    /// Victims of deadlocks, over the whole phase.
    pub deadlocks: u64,
    /// Transactions that had the class of whoever took from their session before.
    pub promotions: u64,
}

impl PhaseResult {
    /// The tally of a class.
    pub fn of(&mut self, class: Class) -> &mut ClassTally {
        if class == Class::High { &mut self.high } else { &mut self.low }
    }

    /// Both classes together.
    pub fn overall(&self) -> ClassTally {
        let mut all = self.high.clone();
        all.add(&self.low);
        all
    }

    /// Adds another round.
    pub fn add(&mut self, other: &PhaseResult) {
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

    /// Fills in what the engine counted between two readings.
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

impl Phase {
    /// Runs it.
    ///
    /// # Errors
    /// A transaction that failed or was lost, a stop.
    pub fn run(&self, engine: &Engine, load: &mut dyn Load, stop: &Stop) -> anyhow::Result<PhaseResult> {
        engine.set_lock_config(LockConfig { priority: self.priority, ..LockConfig::default() });
        let workers = Workers::start(Settings {
            name: "locks".to_owned(),
            policy: Policy::Boundary,
            workers: self.workers,
            cpus: worker_cpus(),
            cap: CapSettings::OFF,
            ..Settings::default()
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
        // On a thread of its own, because that one may be of the real-time class, which threads hand down.
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
