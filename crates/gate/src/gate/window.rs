//! Observation of a gate since a moment: the material of the controller.
//!
//! **Invariant:** transactions that left while the window was not yet open, because the limit had just changed, are not in it.

use super::batches::{Batches, Estimate, Moments};
use crate::time::Time;
use std::time::Duration;

/// Observation of a gate under one limit.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// Limit during the observation.
    pub mpl: u32,
    /// Length of the observation.
    pub lasted: Duration,
    /// Length without pauses, in which no transaction was at the gate.
    pub worked: Duration,
    /// Transactions that were done, and left.
    pub completions: u64,
    /// Transactions that have failed.
    pub failures: u64,
    /// Transactions that have come.
    pub arrivals: u64,
    /// Completions per second of the time in which transactions were at the gate: pauses of the load do not count.
    pub throughput: Estimate,
    /// Seconds from arrival to end, the client's own time left out.
    pub response: Estimate,
    /// Share of that time in which transactions waited, so that the limit was what held them back. The time in which a
    /// load ends before a pause, or begins after one, does not count, up to a part of all.
    pub saturated: f64,
    /// Mean number of active transactions inside.
    pub active: f64,
    /// Work of a transaction in seconds of a processor, as the gate can estimate it from outside.
    pub demand: Moments,
    /// Observation of each class.
    pub classes: Vec<ClassObservation>,
    /// For each number of active transactions, from 0: the seconds with this number, and the transactions that left
    /// then.
    ///
    /// The quotient is the throughput of a closed system with this number: the flow-equivalent server of Chandy, Herzog
    /// and Woo (1975), exact for product-form networks, for all populations up to the limit at once.
    pub by_active: Vec<(f64, u64)>,
}

/// Share of the time with waiting transactions from which on throughput depends on the limit.
const SATURATED: f64 = 0.9;
/// Squared coefficient of variation of the number inside below which throughput depends on that number, though no
/// transaction waits.
const STEADY: f64 = 0.05;

impl Observation {
    /// Returns the mean and the squared coefficient of variation over time of the number of active transactions, when
    /// there were any.
    fn population(&self) -> (f64, f64) {
        let moment = |power: i32| {
            let sum: f64 = self
                .by_active
                .iter()
                .enumerate()
                .skip(1)
                .map(|(n, (seconds, _))| (n as f64).powi(power) * seconds)
                .sum();
            sum / self.by_active.iter().skip(1).map(|(seconds, _)| seconds).sum::<f64>().max(f64::MIN_POSITIVE)
        };
        let mean = moment(1);
        (mean, (moment(2) / (mean * mean).max(f64::MIN_POSITIVE) - 1.0).max(0.0))
    }

    /// Returns the mean number of active transactions when there were any.
    pub(crate) fn crowd(&self) -> f64 {
        self.population().0
    }

    /// Returns the number of transactions that the throughput stands for: the limit, if it held them back; all there
    /// were, if their number was constant and the limit admitted them all; none, if there was too little to do for
    /// either to matter.
    pub fn stands_for(&self, processors: u32) -> Option<f64> {
        if SATURATED <= self.saturated {
            return Some(self.mpl.into());
        }
        let (mean, c2) = self.population();
        (c2 <= STEADY && 2.0 * f64::from(processors) <= mean).then_some(mean)
    }
}

/// Observation of one class.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClassObservation {
    /// Seconds from arrival to end, the client's own time left out.
    pub response: Moments,
    /// Seconds outside.
    pub wait: Moments,
    /// Seconds active inside.
    pub inside: Moments,
    /// Seconds that transactions waited for the client.
    pub idle: Moments,
    /// Work, as in [`Observation::demand`].
    pub demand: Moments,
}

/// Shortest time without transactions that counts as a pause of the load, in which nothing is to be observed.
const PAUSE: Duration = Duration::from_secs(1);
/// Largest part of the time that may be next to pauses.
const EDGES_MAX: f64 = 0.25;

#[derive(Debug)]
pub(super) struct Window {
    seen: Observation,
    batches: Batches,
    /// Transactions that must leave before the window opens.
    left_out: u32,
    opened: Time,
    /// Seconds in which transactions were at the gate; and the reading of it when the last one left.
    busy_seconds: f64,
    last_seconds: f64,
    active_seconds: f64,
    saturated_seconds: f64,
    /// Sum of the pauses that are over; and time since which no transaction is at the gate, if there is none.
    paused: Duration,
    nobody_for: Duration,
    /// Seconds in which transactions were at the gate and none waited: since one last did; next to pauses; and whether
    /// the last pause was after that.
    loose_seconds: f64,
    edge_seconds: f64,
    is_after_pause: bool,
}

/// Figures of a transaction that leaves.
pub(super) struct LeaveFigures {
    pub(super) class: usize,
    pub(super) wait: Duration,
    pub(super) active: Duration,
    pub(super) idle: Duration,
    /// Nanoseconds of a processor.
    pub(super) demand_ns: f64,
    pub(super) active_count: u32,
}

impl Window {
    /// Creates a window that opens when `left_out` transactions have left.
    pub(super) fn new(now: Time, mpl: u32, classes: usize, left_out: u32) -> Window {
        let seen = Observation { mpl, classes: vec![ClassObservation::default(); classes], ..Observation::default() };
        let batches = Batches::default();
        Window {
            seen,
            batches,
            left_out,
            opened: now,
            busy_seconds: 0.0,
            last_seconds: 0.0,
            active_seconds: 0.0,
            saturated_seconds: 0.0,
            paused: Duration::ZERO,
            nobody_for: Duration::ZERO,
            loose_seconds: 0.0,
            edge_seconds: 0.0,
            is_after_pause: false,
        }
    }

    /// Lets time pass, with `active` transactions inside, some of them waiting or none.
    pub(super) fn pass(&mut self, passed: Duration, active: u32, somebody_waits: bool) {
        if 0 < self.left_out || passed.is_zero() {
            return;
        }
        let seconds = passed.as_secs_f64();
        self.active_seconds += seconds * f64::from(active);
        if 0 < active || somebody_waits {
            self.busy_seconds += seconds;
            self.end_pause();
        } else {
            self.nobody_for += passed;
        }
        if somebody_waits {
            self.saturated_seconds += seconds;
            (self.loose_seconds, self.is_after_pause) = (0.0, false);
        } else if 0 < active {
            let edge = if self.is_after_pause { &mut self.edge_seconds } else { &mut self.loose_seconds };
            *edge += seconds;
        }
        self.at(active).0 += seconds;
    }

    /// Ends a pause: a transaction is at the gate again.
    fn end_pause(&mut self) {
        let pause = self.pause();
        self.nobody_for = Duration::ZERO;
        if !pause.is_zero() {
            self.paused += pause;
            self.edge_seconds += std::mem::take(&mut self.loose_seconds);
            self.is_after_pause = true;
        }
    }

    /// Returns the seconds in which transactions could have waited: where the load is mostly edges, it is one that does
    /// not bind.
    fn full_seconds(&self) -> f64 {
        let ends = if self.pause().is_zero() { 0.0 } else { self.loose_seconds };
        self.busy_seconds - (self.edge_seconds + ends).min(EDGES_MAX * self.busy_seconds)
    }

    /// Returns the pause under way.
    fn pause(&self) -> Duration {
        if PAUSE <= self.nobody_for { self.nobody_for } else { Duration::ZERO }
    }

    fn at(&mut self, active: u32) -> &mut (f64, u64) {
        let index = active as usize;
        if self.seen.by_active.len() <= index {
            self.seen.by_active.resize(index + 1, (0.0, 0));
        }
        &mut self.seen.by_active[index]
    }

    pub(super) fn arrived(&mut self) {
        self.seen.arrivals += u64::from(self.left_out == 0);
    }

    pub(super) fn failed(&mut self) {
        self.seen.failures += u64::from(self.left_out == 0);
    }

    /// Counts a transaction that was done.
    pub(super) fn left(&mut self, now: Time, left: &LeaveFigures) {
        if 0 < self.left_out {
            self.left_out -= 1;
            self.opened = now;
            return;
        }
        let response = left.wait + left.active;
        self.batches.add(self.busy_seconds - self.last_seconds, response);
        self.last_seconds = self.busy_seconds;
        self.seen.completions += 1;
        self.at(left.active_count).1 += 1;
        let demand = left.demand_ns / 1e9;
        self.seen.demand.add(demand);
        if let Some(class) = self.seen.classes.get_mut(left.class) {
            class.response.add(response.as_secs_f64());
            class.wait.add(left.wait.as_secs_f64());
            class.inside.add(left.active.as_secs_f64());
            class.idle.add(left.idle.as_secs_f64());
            class.demand.add(demand);
        }
    }

    /// Returns the observation so far.
    pub(super) fn observation(&self, now: Time) -> Observation {
        let lasted = now.since(self.opened);
        let over = |seconds: f64| if lasted.is_zero() { 0.0 } else { seconds / lasted.as_secs_f64() };
        Observation {
            lasted,
            worked: lasted.saturating_sub(self.paused + self.pause()),
            throughput: self.batches.throughput(),
            response: self.batches.response(),
            saturated: self.saturated_seconds / self.full_seconds().max(f64::MIN_POSITIVE),
            active: over(self.active_seconds),
            ..self.seen.clone()
        }
    }

    /// Returns the completions so far, for callers that only want to know whether to look.
    pub(super) fn completions(&self) -> u64 {
        self.seen.completions
    }
}
