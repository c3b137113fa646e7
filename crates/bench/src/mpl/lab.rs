//! Simulation runs: on all processors, until they are stopped, and the same run never twice.
//!
//! **Invariant:** a closed set-up under a limit has one throughput in a run of the program, whichever part asks first;
//! all limits of a set-up see the same transactions, so that they differ by the effect of the limit and not by the
//! random draw.

use crate::progress;
use gate::sim::{Load, Setup, Simulation};
use gate::{GateSettings, Observation};
use host::stop::{Stop, Stopped};
use locked::{Locked, LockedResult};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Number of clients, each with one transaction at a time: as many as the paper has, and equivalent to no limit.
pub(super) const CLIENTS: u32 = 100;

/// Limits at which every throughput is known; those of the tables are among them.
const GRID: [u32; 15] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 30, 50, CLIENTS];

/// Lengths of runs, in completions.
pub(super) struct Lengths {
    /// Length of the warm-up, which is left out: with a C² of 15, and all clients inside, a long transaction takes some
    /// 1,500 others' time.
    pub(super) warm_up: u64,
    /// Length of a run for a throughput.
    pub(super) throughput: u64,
    /// Length of a run for response times by class.
    pub(super) classes: u64,
    /// Maximum length of a run for response times of arrivals.
    pub(super) arrivals_max: u64,
    /// Precision at which such a run may end earlier.
    pub(super) precision: f64,
    /// Limits that the controller begins with.
    pub(super) starts: &'static [u32],
}

impl Lengths {
    pub(super) const FULL: Lengths = Lengths {
        warm_up: 20_000,
        throughput: 200_000,
        classes: 400_000,
        arrivals_max: 16_000_000,
        precision: 0.05,
        starts: &[1, 5, 20, 100],
    };
    pub(super) const QUICK: Lengths = Lengths {
        warm_up: 5_000,
        throughput: 50_000,
        classes: 100_000,
        arrivals_max: 1_000_000,
        precision: 0.1,
        starts: &[5, 100],
    };
}

/// Number of completions between two checks for a stop.
const STRIDE: u64 = 10_000;

/// Runner of simulations.
pub(super) struct Lab<'a> {
    /// Set-ups that were asked for.
    pub(super) setups: Vec<Setup>,
    pub(super) lengths: Lengths,
    pub(super) seed: u64,
    stop: &'a Stop,
    throughputs: Mutex<HashMap<(String, u32), f64>>,
}

impl<'a> Lab<'a> {
    pub(super) fn new(setups: Vec<Setup>, lengths: Lengths, seed: u64, stop: &'a Stop) -> Lab<'a> {
        Lab { setups, lengths, seed, stop, throughputs: Mutex::default() }
    }

    /// Calls the function for each item, on all processors; returns the results in the items' order.
    pub(super) fn each<T: Sync, R: Send>(
        &self,
        message: &'static str,
        items: &[T],
        work: impl Fn(&T) -> Result<R, Stopped> + Sync,
    ) -> Result<Vec<R>, Stopped> {
        tracing::info!(runs = items.len(), "simulating: {message}");
        let (bar, next) = (progress::bar(items.len() as u64).with_message(message), AtomicUsize::new(0));
        let results: Mutex<Vec<(usize, Result<R, Stopped>)>> = Mutex::default();
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(items.len());
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    // Relaxed is enough: only the number counts, and the mutex publishes the results.
                    while let Some((at, item)) =
                        Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| items.get(at).map(|item| (at, item)))
                    {
                        let result = work(item);
                        results.locked().push((at, result));
                        bar.inc(1);
                    }
                });
            }
        });
        bar.finish_and_clear();
        let mut results = results.into_inner().or_end_process();
        results.sort_by_key(|(at, _)| *at);
        results.into_iter().map(|(_, result)| result).collect()
    }

    /// Runs until this many more transactions have ended.
    pub(super) fn run(&self, simulation: &mut Simulation, completions: u64) -> Result<(), Stopped> {
        let mut left = completions;
        while 0 < left {
            self.stop.wait(Duration::ZERO)?;
            simulation.run(left.min(STRIDE));
            left -= left.min(STRIDE);
        }
        Ok(())
    }

    /// Observes this many completions, after the warm-up.
    pub(super) fn observe(&self, simulation: &mut Simulation, completions: u64) -> Result<Observation, Stopped> {
        self.run(simulation, self.lengths.warm_up)?;
        let now = simulation.now();
        simulation.gate_mut().observe_anew(now, 0);
        self.run(simulation, completions)?;
        Ok(simulation.gate().observation())
    }

    /// Returns the simulation of a set-up whose clients do not think.
    pub(super) fn closed(&self, setup: &Setup, mpl: u32, seed: u64) -> Simulation {
        let load = Load::Closed { clients: CLIENTS, think: 0.0 };
        Simulation::new(setup, load, GateSettings::of_priorities(mpl), 0.0, seed)
    }

    /// Returns the transactions per second under a fixed limit.
    pub(super) fn throughput(&self, setup: &Setup, mpl: u32) -> Result<f64, Stopped> {
        let known = || self.throughputs.locked();
        let key = (setup.name.clone(), mpl);
        if let Some(throughput) = known().get(&key) {
            return Ok(*throughput);
        }
        let mut simulation = self.closed(setup, mpl, self.seed);
        let throughput = self.observe(&mut simulation, self.lengths.throughput)?.throughput.mean;
        known().insert(key, throughput);
        Ok(throughput)
    }

    /// Returns the best limit, and its throughput.
    pub(super) fn best(&self, setup: &Setup) -> Result<(u32, f64), Stopped> {
        let mut best = (0, 0.0);
        for mpl in GRID {
            let throughput = self.throughput(setup, mpl)?;
            if best.1 < throughput {
                best = (mpl, throughput);
            }
        }
        Ok(best)
    }

    /// Returns the least limit that keeps this share of the best throughput: the curve rises up to its peak.
    pub(super) fn least(&self, setup: &Setup, keep: f64) -> Result<u32, Stopped> {
        let (best_at, best) = self.best(setup)?;
        let keeps = |mpl| Ok::<bool, Stopped>(keep * best <= self.throughput(setup, mpl)?);
        let (mut low, mut high) = (0, best_at);
        for mpl in GRID.into_iter().filter(|mpl| *mpl < best_at) {
            if keeps(mpl)? {
                high = mpl;
                break;
            }
            low = mpl;
        }
        while low + 1 < high {
            let middle = low.midpoint(high);
            if keeps(middle)? { high = middle } else { low = middle }
        }
        Ok(high)
    }
}
