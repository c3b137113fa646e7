//! Cost of the stage clock: one server under the same load, with the clock and without.
//!
//! **Invariant:** both sides of a pair are of one process, and so are the luck of its memory and of its addresses. They
//! take turns in the order with, without, without, with, so that a steady drift of the machine adds the same to both,
//! and every other pair begins without. Each pair has a fresh server: what a process had in all its rounds would
//! otherwise be in all pairs, and not in the interval.

use super::drive::{Round, Work, drive};
use super::key_value;
use super::rungs::{POINTS, Rung};
use crate::report::{Report, TextTable, number};
use crate::wire::client::Control;
use crate::wire::postgres::Folder;
use crate::wire::servers::{MeasuredServer, overtake_with_config};
use anyhow::{Context, ensure};
use host::stop::Stop;
use preempt::os;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Longest time that a server takes to read its configuration again.
const RELOAD_LIMIT: Duration = Duration::from_secs(30);
/// Pause between two looks whether it has.
const LOOK: Duration = Duration::from_millis(1);

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
        let seed = round.seed + u64::from(pair);
        let is_with_first = pair % 2 == 0;
        let server = SwitchedServer::start(processors, round)?;
        for (rung, differences) in POINTS.iter().zip(&mut all) {
            let before = calibration(&server.target)?;
            // Of each: processor time in seconds, and requests.
            let (mut with, mut without) = ((0.0, 0), (0.0, 0));
            for (turn, is_first) in [true, false, false, true].into_iter().enumerate() {
                let is_with = is_first == is_with_first;
                server.switch(is_with, stop)?;
                let round = Round { seed: seed + 1_000 * turn as u64, duration: round.duration / 2, ..round };
                let driven = drive(&server.target, (rung, Work::Points), round, stop)?;
                let side = if is_with { &mut with } else { &mut without };
                side.0 += driven.used.threads_s.context("the server's threads have no times")?;
                side.1 += driven.committed;
            }
            server.switch(true, stop)?;
            let after = calibration(&server.target)?;
            differences.calibrated.0 += after.0 - before.0;
            differences.calibrated.1 += after.1 - before.1;
            let us_each = |(seconds, requests): (f64, u64)| 1e6 * seconds / requests.max(1) as f64;
            let (with, without) = (us_each(with), us_each(without));
            tracing::info!(rung = rung.key, pair, with, without, "measured");
            differences.percents.push(100.0 * (with / without - 1.0));
        }
    }
    fill(report, count, &all)
}

/// Server whose stage clock is switched while it runs.
struct SwitchedServer {
    target: MeasuredServer,
    config: PathBuf,
    _folder: Folder,
}

impl SwitchedServer {
    /// Starts a fresh server on its processor, and fills the table.
    fn start(processors: Processors, round: Round) -> anyhow::Result<SwitchedServer> {
        let folder = Folder::new("overtake-clock")?;
        let config = folder.path().join("overtake.conf");
        fs::write(&config, "").context("the configuration")?;
        os::pin_to_cpu(processors.server).context("pinning the server")?;
        let started = overtake_with_config(round.clients + 20, &config);
        os::pin_to_cpu(processors.client).context("pinning the clients")?;
        let target = started?;
        key_value::load(&target)?;
        Ok(SwitchedServer { target, config, _folder: folder })
    }

    /// Switches the clock on or off. Waits until it is.
    fn switch(&self, is_on: bool, stop: &Stop) -> anyhow::Result<()> {
        let value = if is_on { "on" } else { "off" };
        fs::write(&self.config, format!("overtake.stage_clock = {value}\n")).context("the configuration")?;
        self.target.reload()?;
        let control = Control::connect(&self.target)?;
        let begun = Instant::now();
        loop {
            let rows = control.rows("select source <> 'off' from overtake.stage_clock")?;
            let shown = rows.first().and_then(|row| row.first()).and_then(Option::as_deref);
            if shown == Some(if is_on { "t" } else { "f" }) {
                return Ok(());
            }
            ensure!(begun.elapsed() < RELOAD_LIMIT, "the stage clock is not {value}: {shown:?}");
            stop.wait(LOOK)?;
        }
    }
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
        "Pairs: a fresh server each time, whose stage clock is switched off for half of the time. Look-ups by key cost \
         least of all statements, and least of all with several on the way: the clock's share is highest there.",
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
