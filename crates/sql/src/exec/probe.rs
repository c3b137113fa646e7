//! Counters of a run's operators, for `EXPLAIN ANALYZE`.
//!
//! **Invariant:** a run without a probe pays one comparison for each operator. Operators are identified by their
//! addresses, so a probe belongs to one binding of a statement.

use locked::Locked;
use query::change::Modify;
use query::explain::ActualCounts;
use query::plan::{JoinStep, Plan};
use statement::time::TimeSource;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Counters of a run's operators.
#[derive(Debug, Default)]
pub(crate) struct Probe {
    /// Clock by which operators are timed, if they are.
    timing: Option<TimeSource>,
    counts: Mutex<HashMap<usize, ActualCounts>>,
}

/// Rows of one operator on their way to the next.
pub(super) struct OperatorWatch<'p> {
    rows: Cell<u64>,
    /// Time spent in the operators above.
    above: Cell<Duration>,
    first: Cell<Option<Duration>>,
    /// Clock and begin, if the operator is timed.
    timing: Option<(&'p TimeSource, Instant)>,
}

impl OperatorWatch<'_> {
    /// Passes a row on.
    pub(super) fn row<R>(&self, pass: impl FnOnce() -> R) -> R {
        self.rows.set(self.rows.get() + 1);
        let Some((time, begun)) = self.timing else { return pass() };
        let now = time.now();
        if self.first.get().is_none() {
            self.first.set(Some((now - begun).saturating_sub(self.above.get())));
        }
        let result = pass();
        self.above.set(self.above.get() + time.since(now));
        result
    }
}

impl Probe {
    pub(crate) fn new(timing: Option<TimeSource>) -> Probe {
        Probe { timing, counts: Mutex::default() }
    }

    /// Resets all counters.
    pub(crate) fn reset(&self) {
        self.counts().clear();
    }

    /// Locks the counters. A session moves between threads, and only one uses the probe at a time.
    fn counts(&self) -> MutexGuard<'_, HashMap<usize, ActualCounts>> {
        self.counts.locked_anyway()
    }

    fn add(&self, key: usize, of: ActualCounts) {
        let mut counts = self.counts();
        let all = counts.entry(key).or_default();
        all.rows += of.rows;
        all.loops += of.loops;
        all.times = match (all.times, of.times) {
            (Some((first, total)), Some((more_first, more_total))) => Some((first + more_first, total + more_total)),
            (times, None) | (None, times) => times,
        };
    }

    /// Measures one operator from its beginning to its end.
    pub(super) fn watch<R>(&self, key: usize, run: impl FnOnce(&OperatorWatch<'_>) -> R) -> R {
        let timing = self.timing.as_ref().map(|time| (time, time.now()));
        let watch = OperatorWatch { rows: Cell::new(0), above: Cell::default(), first: Cell::default(), timing };
        let result = run(&watch);
        let times = timing.map(|(time, begun)| {
            let total = time.since(begun).saturating_sub(watch.above.get());
            let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            (ns(watch.first.get().unwrap_or(total)), ns(total))
        });
        self.add(key, ActualCounts { rows: watch.rows.get(), loops: 1, times });
        result
    }

    /// Counts a row of a join.
    pub(super) fn joined(&self, step: &JoinStep) {
        self.add(joined_key(step), ActualCounts { rows: 1, loops: 0, times: None });
    }

    fn of(&self, key: usize) -> ActualCounts {
        self.counts().get(&key).copied().unwrap_or_default()
    }

    pub(crate) fn of_plan(&self, plan: &Plan) -> ActualCounts {
        self.of(plan_key(plan))
    }

    /// Returns the counts of a change.
    pub(crate) fn of_modify(&self, modify: &Modify) -> ActualCounts {
        self.of(modify_key(modify))
    }

    /// Returns the counts of a step's source.
    pub(crate) fn of_step(&self, step: &JoinStep) -> ActualCounts {
        self.of(step_key(step))
    }

    /// Returns the number of rows that a step has joined.
    pub(crate) fn of_join(&self, step: &JoinStep) -> u64 {
        self.of(joined_key(step)).rows
    }
}

pub(super) fn modify_key(modify: &Modify) -> usize {
    &raw const *modify as usize
}

pub(super) fn plan_key(plan: &Plan) -> usize {
    &raw const *plan as usize
}

pub(super) fn step_key(step: &JoinStep) -> usize {
    &raw const *step as usize
}

/// Returns an address inside the step that no other operator has.
fn joined_key(step: &JoinStep) -> usize {
    &raw const step.width as usize
}
