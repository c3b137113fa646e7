//! Forecast of other limits, from the observation of this one: for users who want to know before they allow a change.
//!
//! **Invariant:** a forecast changes nothing.

use super::search::TriedLimit;
use super::{Controller, Curve, Goal};
use crate::gate::Observation;
use crate::model::{Response, processor_sharing};

/// Forecast of one limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitForecast {
    /// Limit.
    pub mpl: u32,
    /// Transactions per second.
    pub throughput: f64,
    /// Mean seconds from arrival to end.
    pub response: f64,
    /// Mean seconds from arrival to end of a transaction that goes before all others.
    pub first: f64,
}

/// Forecast of a range of limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// Forecasts in ascending order of limits.
    pub limits: Vec<LimitForecast>,
    /// Lowest limit that keeps the thresholds.
    pub lowest: u32,
    /// Forecast of that limit.
    pub enough: Option<LimitForecast>,
    /// Mean seconds from arrival to end now, of any transaction.
    pub now: f64,
    /// Load as a share of the database's capacity; 1 if the demand always exceeds it.
    pub load: f64,
    /// C² of demands.
    pub c2: f64,
}

/// Limits that the forecast covers.
const LIMITS: [u32; 17] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384];

/// Share of the time below which a limit binds so seldom that it says nothing of responses.
const UNLIMITED: f64 = 0.05;
/// Load beyond which no model gives an answer.
pub(super) const LOAD_MAX: f64 = 0.98;

/// Returns the load at which transactions respond `times` times later than they would alone, all of them inside.
fn load_that_responds(times: f64, processors: u32) -> f64 {
    let (mut low, mut high) = (0.01, LOAD_MAX);
    for _ in 0..30 {
        let middle = f64::midpoint(low, high);
        match processor_sharing(middle, processors) {
            Ok(response) if response < times => low = middle,
            _ => high = middle,
        }
    }
    low
}

impl Controller {
    /// Forecasts limits from the present observation and from the limits tried before; none, if too little is known.
    pub fn forecast(&self, seen: &Observation, processors: u32) -> Option<Forecast> {
        if seen.completions < super::COMPLETIONS_MIN || seen.lasted.is_zero() {
            return None;
        }
        let mut points = self.points();
        points.extend(TriedLimit::of(seen, processors).points());
        let curve = Curve::through(&self.with_guesses_of(self.model(), points))?;
        let c2 = seen.demand.c2();
        let present = (seen.throughput.mean * seen.response.mean).max(1.0);
        let (loss_max, increase_max) = match self.settings.goal {
            Goal::Lowest { loss_max, increase_max } => (loss_max, increase_max),
            Goal::BestFor(_) => (0.05, 0.05),
        };
        let limits = LIMITS.into_iter().filter(|mpl| *mpl <= self.settings.mpl_max);
        if seen.stands_for(processors).is_some() {
            let most = present.ceil() as u32;
            let at = |mpl: u32| {
                let inside = f64::from(mpl).min(present);
                let throughput = curve.throughput(inside);
                // The next transaction that leaves makes room, unless there is some.
                let wait = if f64::from(mpl) < present { 1.0 / throughput } else { 0.0 };
                LimitForecast { mpl, throughput, response: present / throughput, first: wait + inside / throughput }
            };
            let best = curve.throughput(curve.peak(most).into());
            let loss = loss_max.min(1.0 - 1.0 / (1.0 + increase_max));
            let lowest = curve.least((1.0 - loss) * best, most).unwrap_or(most);
            let (limits, enough) = (limits.map(at).collect(), Some(at(lowest)));
            return Some(Forecast { limits, lowest, enough, now: seen.response.mean, load: 1.0, c2 });
        }
        // Nothing is held back, so arrivals equal departures, whatever the limit.
        let rate = seen.throughput.mean;
        let load = if seen.saturated <= UNLIMITED {
            // No limit gives more than was observed. (Clients that are few come less often than the open model
            // assumes.)
            load_that_responds(seen.response.mean / seen.demand.mean().max(f64::MIN_POSITIVE), processors)
        } else {
            self.load_of(seen, &curve, processors)
        };
        let model = Response::new(load, c2, processors).ok()?;
        // Times of the model are in mean demands.
        let unit = seen.demand.mean();
        let at = |mpl: u32| {
            let at = model.at(mpl as usize).ok()?;
            let first =
                at.response - at.external_wait + at.waits * f64::from(processors) / f64::from(mpl.max(processors));
            Some(LimitForecast { mpl, throughput: rate, response: at.response * unit, first: first * unit })
        };
        // Larger limits take the model long, and are as good as none.
        let limits = limits.filter(|mpl| *mpl <= 64).filter_map(at).collect();
        let lowest = model.least_mpl(increase_max).ok().and_then(|mpl| u32::try_from(mpl).ok());
        let lowest = lowest.unwrap_or(self.settings.mpl_max);
        Some(Forecast { limits, lowest, enough: at(lowest), now: seen.response.mean, load, c2 })
    }
}

#[cfg(test)]
mod tests {
    use super::super::ControlSettings;
    use super::*;
    use crate::settings::GateSettings;
    use crate::sim::{Load, Setup, Simulation};

    #[test]
    fn what_is_seen_without_a_limit_tells_what_limits_would_do() {
        // Unlimited, and never more than a few inside: every lower limit is observed at once.
        let setup = Setup::one_processor(0.01, 15.0);
        let settings = GateSettings::of_priorities(10_000);
        let mut simulation = Simulation::new(&setup, Load::Open { rate: 70.0 }, settings, 0.0, 3);
        let seen = simulation.observe(300_000);
        let controller = Controller::new(ControlSettings::default());
        let forecast = controller.forecast(&seen, 1).expect("enough was seen");
        assert!((forecast.load - 0.7).abs() < 0.05 && (forecast.c2 - 15.0).abs() < 3.0, "{forecast:?}");
        // By the reference: 13 within 5 %, and 8.07 services at a limit of 4.
        assert!((11..=15).contains(&forecast.lowest), "{}", forecast.lowest);
        let at_four = forecast.limits.iter().find(|limit| limit.mpl == 4).expect("it is said");
        assert!((at_four.response - 0.0807).abs() < 0.02 && at_four.first < at_four.response, "{at_four:?}");
    }

    #[test]
    fn what_was_seen_is_what_no_limit_does() {
        // Clients that are away now and then: neither a constant number nor an open load.
        let setup = Setup::one_processor(0.01, 1.0);
        let load = Load::Closed { clients: 30, think: 0.15 };
        let mut simulation = Simulation::new(&setup, load, GateSettings::of_priorities(10_000), 0.0, 3);
        let seen = simulation.observe(100_000);
        assert_eq!(seen.stands_for(1), None);
        let forecast = Controller::new(ControlSettings::default()).forecast(&seen, 1).expect("enough was seen");
        let most = forecast.limits.last().expect("there are limits");
        assert!((most.response / seen.response.mean - 1.0).abs() < 0.15, "{most:?} {}", seen.response.mean);
        assert!(forecast.limits.iter().all(|limit| limit.throughput == seen.throughput.mean));
        assert!(forecast.enough.is_some_and(|enough| enough.first < 0.3 * forecast.now), "{:?}", forecast.enough);
    }

    #[test]
    fn a_crowd_inside_tells_what_it_would_gain() {
        let setup = &Setup::all()[14];
        let load = Load::Closed { clients: 100, think: 0.0 };
        let mut simulation = Simulation::new(setup, load, GateSettings::of_priorities(10_000), 0.0, 3);
        let seen = simulation.observe(50_000);
        let controller = Controller::new(ControlSettings::default());
        let forecast = controller.forecast(&seen, 1).expect("enough was seen");
        assert_eq!(forecast.load, 1.0);
        let enough = forecast.enough.expect("it is said");
        assert!(enough.mpl == forecast.lowest && 0.9 * seen.throughput.mean < enough.throughput, "{enough:?}");
        let [two, all] =
            [2, 128].map(|mpl| *forecast.limits.iter().find(|limit| limit.mpl == mpl).expect("it is said"));
        assert!((all.throughput / seen.throughput.mean - 1.0).abs() < 0.1, "{all:?}");
        assert!(10.0 * two.first < forecast.now, "{two:?} instead of {}", forecast.now);
    }
}
