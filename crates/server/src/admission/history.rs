//! History of the gate: a point for each second of the last hour, and for each minute of the last day.
//!
//! **Invariant:** its memory is bounded, whatever happens; points follow one another without gaps or overlaps.

use super::{Admission, AdmissionShared};
use gate::Totals;
use locked::Locked;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// Duration of a fine point.
const PERIOD: Duration = Duration::from_secs(1);
/// Number of fine points: an hour of them.
const FINE_MAX: usize = 3_600;
/// Number of fine points in a coarse one.
const FINE_IN_COARSE: usize = 60;
/// Number of coarse points: a day of them.
const COARSE_MAX: usize = 1_440;

/// Activity of the gate between two looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GateSample {
    /// End of the interval, in seconds since the gate was created.
    pub at: f64,
    /// Duration of the interval, in seconds.
    pub seconds: f64,
    /// Limit at its end.
    pub mpl: u32,
    /// Number of active transactions inside, on average.
    pub active: f64,
    /// Number of waiting transactions, on average.
    pub waiting: f64,
    /// Transactions per second that have completed.
    pub throughput: f64,
    /// Mean time of these transactions in seconds from arrival to end, without the client's own time; `None` if there were none.
    pub response: Option<f64>,
}

/// History of the gate, by second and by minute.
#[derive(Debug, Default)]
pub(super) struct GateHistory {
    fine: VecDeque<GateSample>,
    coarse: VecDeque<GateSample>,
    last: Totals,
    /// Totals at the end of the last coarse point, and the number of fine points since then.
    last_coarse: Totals,
    since_coarse: usize,
}

fn between(before: &Totals, after: &Totals, mpl: u32) -> Option<GateSample> {
    let seconds = after.seconds - before.seconds;
    let done = (after.done - before.done) as f64;
    (0.0 < seconds).then(|| GateSample {
        at: after.seconds,
        seconds,
        mpl,
        active: (after.active_seconds - before.active_seconds) / seconds,
        waiting: (after.waiting_seconds - before.waiting_seconds) / seconds,
        throughput: done / seconds,
        response: (0.0 < done).then(|| (after.response_seconds - before.response_seconds) / done),
    })
}

fn push(ring: &mut VecDeque<GateSample>, most: usize, moment: GateSample) {
    if ring.len() == most {
        ring.pop_front();
    }
    ring.push_back(moment);
}

impl GateHistory {
    pub(super) fn look(&mut self, totals: Totals, mpl: u32) {
        let Some(fine) = between(&self.last, &totals, mpl) else { return };
        push(&mut self.fine, FINE_MAX, fine);
        self.last = totals;
        self.since_coarse += 1;
        if self.since_coarse == FINE_IN_COARSE
            && let Some(coarse) = between(&self.last_coarse, &totals, mpl)
        {
            push(&mut self.coarse, COARSE_MAX, coarse);
            (self.last_coarse, self.since_coarse) = (totals, 0);
        }
    }

    /// Returns the points after this moment, the oldest first, each as fine as it is known.
    pub(super) fn since(&self, at: f64) -> Vec<GateSample> {
        // Times that are covered by fine points are not repeated by coarse ones.
        let begin = self.fine.front().map_or(0.0, |first| first.at - first.seconds);
        let coarse = self.coarse.iter().filter(|moment| moment.at <= begin + PERIOD.as_secs_f64() / 2.0);
        let end = coarse.clone().next_back().map_or(0.0, |last| last.at);
        let fine = self.fine.iter().filter(|moment| end < moment.at - moment.seconds / 2.0);
        coarse.chain(fine).filter(|moment| at < moment.at).copied().collect()
    }
}

impl Admission {
    /// Seconds since the gate was created, if there is one: the clock of [`GateSample::at`].
    pub fn seconds(&self) -> Option<f64> {
        self.gate().map(|shared| shared.time.since(shared.began).as_secs_f64())
    }

    /// Activity of the gate in the last seconds, the oldest first: each second of the last hour, each minute of the
    /// last day. Empty if there is no gate.
    pub fn history(&self, seconds: f64) -> Vec<GateSample> {
        let Some(shared) = self.gate() else { return Vec::new() };
        let at = shared.time.since(shared.began).as_secs_f64() - seconds;
        shared.history.locked().since(at)
    }
}

impl AdmissionShared {
    /// Adds a point once in a while, for ever.
    pub(super) async fn keep_history(&self) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let (totals, mpl) = {
                let now = self.at(self.time.now());
                let mut state = self.lock();
                (state.gate.totals(now), state.gate.mpl())
            };
            self.history.locked().look(totals, mpl);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Totals after this many seconds, of a gate with 100 transactions a second of 10 ms each, two active ones and
    /// three waiting.
    fn steady(seconds: f64) -> Totals {
        let done = (seconds * 100.0).round() as u64;
        let response_seconds = done as f64 * 0.01;
        Totals { seconds, done, response_seconds, active_seconds: 2.0 * seconds, waiting_seconds: 3.0 * seconds }
    }

    #[test]
    fn a_point_says_what_was_between() {
        let mut history = GateHistory::default();
        history.look(Totals::default(), 4);
        assert!(history.since(0.0).is_empty(), "no time has passed");
        history.look(steady(1.0), 4);
        history.look(Totals { seconds: 3.0, ..steady(1.0) }, 5);
        let [one, two] = history.since(0.0)[..] else { panic!("two were made") };
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(close(one.throughput, 100.0) && close(one.active, 2.0) && close(one.waiting, 3.0), "{one:?}");
        assert!(one.response.is_some_and(|response| close(response, 0.01)) && one.mpl == 4, "{one:?}");
        assert_eq!((two.throughput, two.response, two.mpl, two.seconds), (0.0, None, 5, 2.0));
        assert_eq!(history.since(1.0).len(), 1);
    }

    #[test]
    fn two_days_are_bounded_and_without_gaps() {
        let mut history = GateHistory::default();
        for second in 1..=172_800 {
            history.look(steady(second.into()), 1);
        }
        let all = history.since(0.0);
        assert!(all.len() <= FINE_MAX + COARSE_MAX && FINE_MAX <= all.len(), "{}", all.len());
        for pair in all.windows(2) {
            assert!((pair[1].at - pair[1].seconds - pair[0].at).abs() < 1e-6, "{pair:?}");
        }
        assert_eq!(all.last().map(|last| last.at), Some(172_800.0));
        assert!((all[0].at - 172_800.0 + 86_400.0).abs() < 120.0, "{:?}", all[0]);
        assert!(all.iter().all(|moment| (moment.throughput - 100.0).abs() < 1e-6));
    }
}
