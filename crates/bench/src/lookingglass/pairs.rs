//! Cost of the stage clock: two servers, one without the clock, under the same load in turn.
//!
//! **Invariant:** a pair is two rounds directly after each other, and each server comes first in half of the pairs; the
//! interval is of the paired differences, so a drift of the machine is in both sides.

use super::drive::{Round, Work, drive};
use super::key_value;
use super::rungs::RUNGS;
use crate::report::{Report, TextTable, number};
use crate::wire::client::Control;
use crate::wire::servers::MeasuredServer;
use anyhow::Context;
use host::stop::Stop;

/// Requests on the way at once: with this many, a statement is at its cheapest, and so the clock at its dearest.
pub const DEPTH: usize = 16;

/// Measures pairs and reports them.
///
/// # Errors
/// A stop; errors of a server.
pub fn measure(
    report: &mut Report,
    [on, off]: [&MeasuredServer; 2],
    count: u32,
    round: Round,
    stop: &Stop,
) -> anyhow::Result<()> {
    key_value::load(off)?;
    let [first, ..] = &RUNGS;
    let cost = |target: &MeasuredServer, pair: u32| {
        let round = Round { seed: round.seed + u64::from(pair), ..round };
        let driven = drive(target, (first, Work::Points(DEPTH)), round, stop)?;
        anyhow::Ok(driven.us_each(driven.used.threads_s.context("the server's threads have no times")?))
    };
    let mut percents = Vec::new();
    for pair in 0..count {
        let (with, without) = match pair % 2 {
            0 => {
                let with = cost(on, pair)?;
                (with, cost(off, pair)?)
            }
            _ => {
                let without = cost(off, pair)?;
                (cost(on, pair)?, without)
            }
        };
        tracing::info!(pair, with, without, "measured");
        percents.push(100.0 * (with / without - 1.0));
    }
    let interval = Interval::of(&percents).context("an interval needs two pairs")?;
    let calibrated = 100.0 * calibrated(on)?;
    report.figure("glass.clock.overhead_percent", interval.mean);
    report.figure("glass.clock.overhead_low_percent", interval.low);
    report.figure("glass.clock.overhead_high_percent", interval.high);
    report.figure("glass.clock.calibrated_percent", calibrated);
    let title = format!("Cost of the stage clock, % of the server's processor time, {count} pairs");
    let mut table = TextTable::new(title, &["", "mean", "95 % from", "95 % to"]);
    table.row([
        "with the clock and without, in turn".to_owned(),
        number(interval.mean),
        number(interval.low),
        number(interval.high),
    ]);
    table.row(["stamps times their calibrated cost".to_owned(), number(calibrated), String::new(), String::new()]);
    report.table(table);
    report.note(format!(
        "Pairs: look-ups by key, {DEPTH} on the way at once on each connection, where a statement costs least. The \
         calibrated cost is of all statements of the server with the clock."
    ));
    Ok(())
}

/// Returns the share of the server's work that its clock takes, by its own calibration.
fn calibrated(target: &MeasuredServer) -> anyhow::Result<f64> {
    let rows = Control::connect(target)?.rows("select overhead from overtake.stage_clock")?;
    let cell = rows.into_iter().flatten().flatten().next();
    cell.context("the clock's overhead")?.parse().context("the clock's overhead")
}

/// Mean of some values, and the interval in which the true mean is with 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Interval {
    mean: f64,
    low: f64,
    high: f64,
}

impl Interval {
    /// Returns the interval by Student's distribution; none of fewer than two values.
    fn of(values: &[f64]) -> Option<Interval> {
        let freedom = values.len().checked_sub(1).filter(|freedom| 0 < *freedom)?;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let error = (squares / freedom as f64 / values.len() as f64).sqrt();
        let reach = student(freedom) * error;
        Some(Interval { mean, low: mean - reach, high: mean + reach })
    }
}

/// Returns the quantile 0.975 of Student's distribution: exact to 3 decimals for few degrees of freedom, by the
/// expansion of Cornish and Fisher for more.
fn student(freedom: usize) -> f64 {
    const FEW: [f64; 9] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];
    let normal: f64 = 1.959_964;
    FEW.get(freedom - 1).copied().unwrap_or_else(|| {
        let freedom = freedom as f64;
        let second = (5.0 * normal.powi(5) + 16.0 * normal.powi(3) + 3.0 * normal) / 96.0;
        normal + (normal.powi(3) + normal) / (4.0 * freedom) + second / freedom.powi(2)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, wanted) in [(1, 12.706), (4, 2.776), (10, 2.228), (19, 2.093), (29, 2.045), (100, 1.984)] {
            assert!((student(freedom) - wanted).abs() < 0.002, "{freedom}: {}", student(freedom));
        }
    }

    #[test]
    fn an_interval_is_around_the_mean() {
        let interval = Interval::of(&[1.0, 2.0, 3.0]).expect("three values");
        // The standard error is 1 / sqrt(3).
        assert!((interval.mean - 2.0).abs() < 1e-12);
        assert!((interval.high - (2.0 + 4.303 / 3.0_f64.sqrt())).abs() < 1e-9, "{interval:?}");
        assert!((interval.low + interval.high - 4.0).abs() < 1e-9, "{interval:?}");
        assert_eq!((Interval::of(&[1.0]), Interval::of(&[])), (None, None));
    }
}
