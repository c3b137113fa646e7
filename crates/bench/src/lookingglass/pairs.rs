//! Cost of the stage clock: two servers, one without the clock, under the same load in turn.
//!
//! **Invariant:** a pair is two rounds directly after each other, and each server comes first in half of the pairs; the
//! interval is of the paired differences, so a drift of the machine is in both sides. Each pair has fresh servers: the
//! luck of a process with its memory would otherwise be in all pairs, and not in the interval.

use super::drive::{Round, Work, drive};
use super::key_value;
use super::rungs::{POINTS, Rung};
use crate::report::{Report, TextTable, number};
use crate::wire::client::Control;
use crate::wire::servers::{MeasuredServer, overtake, overtake_without_clock};
use anyhow::Context;
use host::stop::Stop;
use preempt::os;

/// Processors of the two sides.
#[derive(Clone, Copy)]
pub struct Processors {
    /// Processor of the servers.
    pub server: usize,
    /// Processor of the clients.
    pub client: usize,
}

/// Differences of one rung.
#[derive(Default)]
struct Differences {
    percents: Vec<f64>,
    /// Cost of the clock by its own calibration, and the work of the stages, in milliseconds.
    calibrated: (f64, f64),
}

/// Measures pairs and reports them.
///
/// # Errors
/// A stop; errors of a server.
pub fn measure(
    report: &mut Report,
    processors: Processors,
    count: u32,
    round: Round,
    stop: &Stop,
) -> anyhow::Result<()> {
    let mut all = POINTS.each_ref().map(|_| Differences::default());
    for pair in 0..count {
        let round = Round { seed: round.seed + u64::from(pair), ..round };
        let is_with_first = pair % 2 == 0;
        let [one, other] = [start(processors, is_with_first, round)?, start(processors, !is_with_first, round)?];
        for (rung, differences) in POINTS.iter().zip(&mut all) {
            let with = if is_with_first { &one } else { &other };
            let before = calibration(with)?;
            let (first, second) = (cost(&one, rung, round, stop)?, cost(&other, rung, round, stop)?);
            let after = calibration(with)?;
            differences.calibrated.0 += after.0 - before.0;
            differences.calibrated.1 += after.1 - before.1;
            let (with, without) = if is_with_first { (first, second) } else { (second, first) };
            tracing::info!(rung = rung.key, pair, with, without, "measured");
            differences.percents.push(100.0 * (with / without - 1.0));
        }
    }
    fill(report, count, &all)
}

/// Starts a fresh server with or without its stage clock, and fills the table.
fn start(processors: Processors, with_clock: bool, round: Round) -> anyhow::Result<MeasuredServer> {
    os::pin_to_cpu(processors.server).context("pinning the servers")?;
    let connections_max = round.clients + 20;
    let started = match with_clock {
        true => overtake(connections_max),
        false => overtake_without_clock(connections_max),
    };
    os::pin_to_cpu(processors.client).context("pinning the clients")?;
    let target = started?;
    key_value::load(&target)?;
    Ok(target)
}

/// Returns the server's processor time for each request, in microseconds.
fn cost(target: &MeasuredServer, rung: &Rung, round: Round, stop: &Stop) -> anyhow::Result<f64> {
    let driven = drive(target, (rung, Work::Points), round, stop)?;
    Ok(driven.us_each(driven.used.threads_s.context("the server's threads have no times")?))
}

fn fill(report: &mut Report, count: u32, all: &[Differences]) -> anyhow::Result<()> {
    let header = ["", "mean", "95 % from", "95 % to", "stamps × their cost"];
    let title = format!("Cost of the stage clock, % of the server's processor time for look-ups by key, {count} pairs");
    let mut table = TextTable::new(title, &header);
    for (at, (rung, differences)) in POINTS.iter().zip(all).enumerate() {
        let interval = Interval::of(&differences.percents).context("an interval needs two pairs")?;
        let calibrated = 100.0 * differences.calibrated.0 / differences.calibrated.1;
        let named = [
            ("overhead", interval.mean),
            ("overhead_low", interval.low),
            ("overhead_high", interval.high),
            ("calibrated", calibrated),
        ];
        for (name, value) in named {
            report.figure(format!("glass.clock.{}.{name}_percent", rung.key), value);
            // Those of single requests are the benchmark's answer.
            if at == 0 {
                report.figure(format!("glass.clock.{name}_percent"), value);
            }
        }
        table.row([rung.title.to_owned()].into_iter().chain(named.map(|(_, value)| number(value))));
    }
    report.table(table);
    report.note(
        "Pairs: two fresh servers each time, one without its stage clock. Look-ups by key cost least of all statements, \
         and least of all with several on the way: the clock's share is highest there.",
    );
    Ok(())
}

/// Returns what the clock has cost so far by its own calibration, and the work of the server's stages, in
/// milliseconds.
fn calibration(target: &MeasuredServer) -> anyhow::Result<(f64, f64)> {
    let rows = Control::connect(target)?.rows("select overhead * work_ms, work_ms from overtake.stage_clock")?;
    let cells = rows.into_iter().flatten().flatten().map(|cell| cell.parse().context("a number"));
    match *cells.collect::<anyhow::Result<Vec<f64>>>()? {
        [cost, work] => Ok((cost, work)),
        _ => anyhow::bail!("the stage clock has another number of columns"),
    }
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
        let third = (3.0 * normal.powi(7) + 19.0 * normal.powi(5) + 17.0 * normal.powi(3) - 15.0 * normal) / 384.0;
        normal + (normal.powi(3) + normal) / (4.0 * freedom) + second / freedom.powi(2) + third / freedom.powi(3)
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
