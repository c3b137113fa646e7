//! State over all refreshes: present values, the past minutes, and the model beside the observations.
//!
//! **Invariant:** memory is bounded; points of the past follow one another, though looks overlap.

use crate::look::{ForecastRow, HistoryRow, Look};
use std::collections::{BTreeMap, VecDeque};

/// Most points of the past that are kept.
const PAST_MAX: usize = 3_600;

/// State over all refreshes.
#[derive(Clone, Debug, Default)]
pub struct GateWatch {
    /// Server whose gate is shown.
    pub target: String,
    /// Last look; `None` before the first.
    pub look: Option<Look>,
    /// Time of the last look, by the caller's clock, in seconds.
    pub looked_at: f64,
    /// Reason of the lost connection; `None` while connected.
    pub trouble: Option<String>,
    /// Last forecast of the effect of other limits.
    pub forecast: Vec<ForecastRow>,
    /// Last forecast in one sentence.
    pub verdict: Option<String>,
    past: VecDeque<(f64, HistoryRow)>,
}

/// Model and observation of one limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LimitPoint {
    /// Transactions per second and mean response time in milliseconds, by the model.
    pub model: Option<(f64, f64)>,
    /// Transactions per second and mean response time in milliseconds, as last observed.
    pub seen: Option<(f64, f64)>,
}

impl GateWatch {
    /// Creates the state for the gate of this server.
    pub fn new(target: impl Into<String>) -> GateWatch {
        GateWatch { target: target.into(), ..GateWatch::default() }
    }

    /// Takes in a look at this moment of the caller's clock, in seconds.
    pub fn see(&mut self, at: f64, look: Look) {
        for moment in &look.history {
            let then = at - moment.seconds_ago;
            if self.past.back().is_none_or(|(last, _)| last + moment.seconds / 2.0 < then) {
                self.past.push_back((then, moment.clone()));
            }
        }
        while PAST_MAX < self.past.len() {
            self.past.pop_front();
        }
        if let Some(forecast) = &look.forecast {
            self.forecast.clone_from(forecast);
        }
        if look.verdict.is_some() {
            self.verdict.clone_from(&look.verdict);
        }
        (self.look, self.looked_at, self.trouble) = (Some(look), at, None);
    }

    /// Records the loss of the connection.
    pub fn lose(&mut self, reason: impl Into<String>) {
        self.trouble = Some(reason.into());
    }

    /// Returns the last `seconds` in this many steps of equal length, the oldest first: the mean of each, or `None` for
    /// a step without points.
    pub fn past(&self, seconds: f64, steps: usize, value: impl Fn(&HistoryRow) -> Option<f64>) -> Vec<Option<f64>> {
        let mut sums = vec![(0.0, 0.0); steps];
        let Some(end) = self.past.back().map(|(at, _)| *at) else { return vec![None; steps] };
        for (at, moment) in &self.past {
            let (ago, Some(value)) = (end - at, value(moment)) else { continue };
            let step = (ago / seconds * steps as f64) as usize;
            if let Some(sum) = steps.checked_sub(step + 1).and_then(|step| sums.get_mut(step)) {
                *sum = (sum.0 + value * moment.seconds, sum.1 + moment.seconds);
            }
        }
        sums.into_iter().map(|(sum, seconds)| (0.0 < seconds).then(|| sum / seconds)).collect()
    }

    /// Returns the last point of the past.
    pub fn latest(&self) -> Option<&HistoryRow> {
        self.past.back().map(|(_, moment)| moment)
    }

    /// Returns the model beside the observations, by limit.
    pub fn limits(&self) -> BTreeMap<u32, LimitPoint> {
        let mut limits: BTreeMap<u32, LimitPoint> = BTreeMap::new();
        for expected in &self.forecast {
            limits.entry(expected.mpl).or_default().model = Some((expected.throughput, expected.response_ms));
        }
        let Some(look) = &self.look else { return limits };
        // In order of time: later moves overwrite earlier ones.
        for moved in look.moves.iter().rev() {
            limits.entry(moved.mpl).or_default().seen = Some((moved.throughput, moved.response_ms));
        }
        if let Some(mpl) = &look.mpl
            && let (Some(limit), true) = (mpl.mpl, 0.0 < mpl.throughput)
        {
            limits.entry(limit).or_default().seen = Some((mpl.throughput, mpl.response_ms));
        }
        limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::{MoveRow, MplRow};

    fn point(seconds_ago: f64, throughput: f64) -> HistoryRow {
        HistoryRow { seconds_ago, seconds: 1.0, throughput, ..HistoryRow::default() }
    }

    #[test]
    fn looks_that_overlap_are_one_past() {
        let mut watch = GateWatch::new("x");
        watch.see(100.0, Look { history: vec![point(2.0, 1.0), point(1.0, 2.0), point(0.0, 3.0)], ..Look::default() });
        watch.see(101.1, Look { history: vec![point(1.1, 3.0), point(0.1, 4.0)], ..Look::default() });
        let past = |steps| watch.past(4.0, steps, |moment| Some(moment.throughput));
        assert_eq!(past(4), [Some(1.0), Some(2.0), Some(3.0), Some(4.0)]);
        assert_eq!(past(2), [Some(1.5), Some(3.5)]);
        assert_eq!(watch.past(8.0, 4, |moment| Some(moment.throughput)), [None, None, Some(1.5), Some(3.5)]);
    }

    #[test]
    fn a_forecast_stays_until_the_next() {
        let mut watch = GateWatch::new("x");
        let expected = ForecastRow { mpl: 4, throughput: 90.0, response_ms: 5.0, ..ForecastRow::default() };
        watch.see(1.0, Look { forecast: Some(vec![expected]), ..Look::default() });
        let moved = |throughput| MoveRow { mpl: 8, throughput, response_ms: 6.0, ..MoveRow::default() };
        let mpl = MplRow { mpl: Some(4), throughput: 95.0, response_ms: 5.5, ..MplRow::default() };
        let look = Look { mpl: Some(mpl), moves: vec![moved(110.0), moved(100.0)], ..Look::default() };
        watch.see(2.0, look);
        let limits = watch.limits();
        assert_eq!(limits[&4], LimitPoint { model: Some((90.0, 5.0)), seen: Some((95.0, 5.5)) });
        assert_eq!(limits[&8], LimitPoint { model: None, seen: Some((110.0, 6.0)) });
    }
}
