//! `bench mpl soak`: the cost of the controller on a host with other load, by phases with its limit and without one, in
//! turn.
//!
//! Both proxies are gates before the same PostgreSQL; one finds its limit, the other lets all clients in. So only the
//! limit differs. The gate learns in its own phases only, and keeps its knowledge in the others.
//!
//! **Invariant:** a pair of phases takes 60 s unless phases are longer: as many seconds with the limit as without, in
//! slices in the order A B B A, so that other load meets both. Other load follows from the seed alone.

mod other_load;
mod pairs;
mod sampler;

use super::super::pgbench::{self, PgbenchScript, Protocol};
use super::super::postgres::Programs;
use super::super::servers::{MeasuredServer, elsewhere, postgres};
use super::gate;
use super::real::system::view;
use crate::background::Background;
use crate::report::{LineChart, Report, TextTable, number};
use anyhow::ensure;
use clap::Args;
use host::stop::Stop;
use other_load::OtherLoad;
use pairs::{Pair, PairTotals};
use preempt::os;
use sampler::LimitSampler;
use serde::Serialize;
use std::time::{Duration, Instant};

const HEADING: &str = "Options of the part soak";

/// Options of the part `soak`.
#[derive(Args, Clone, Debug, Serialize)]
pub struct SoakOptions {
    /// Length in minutes, 1 to 1,440; the last pair is finished.
    #[arg(long, help_heading = HEADING, value_name = "MINUTES", default_value_t = 60.0, value_parser = minutes)]
    minutes: f64,
    /// pgbench's scale factor, 1 to 1,000.
    #[arg(long, help_heading = HEADING, value_name = "FACTOR", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    scale: u32,
    /// Number of clients, 2 to 1,000.
    #[arg(long, help_heading = HEADING, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=1_000))]
    clients: u32,
    /// Seconds of a phase, 1 to 600: the same clients through one gate.
    #[arg(long, help_heading = HEADING, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    phase: u64,
    /// Number of threads of other load, which burn processor time and pause by a schedule that follows from --seed; 0:
    /// a quiet host [default: two for each processor].
    #[arg(long, help_heading = HEADING, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(..=256))]
    hogs: Option<u32>,
    /// Other load writes to a disk, too: a file beside the temporary ones.
    #[arg(long, help_heading = HEADING)]
    writes: bool,
    /// PostgreSQL to put the gates before, instead of one of the benchmark's own; pgbench drops and makes its tables
    /// there.
    #[arg(long, help_heading = HEADING, value_name = "URL")]
    #[serde(skip)]
    url: Option<String>,
}

fn minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(minutes) if (1.0..=1_440.0).contains(&minutes) => Ok(minutes),
        _ => Err("a number of minutes from 1 to 1440 is needed".to_owned()),
    }
}

/// Length of a pair, both gates together.
const PAIR: Duration = Duration::from_secs(60);

impl SoakOptions {
    fn hogs(&self) -> u32 {
        self.hogs.unwrap_or_else(|| 2 * u32::try_from(os::cpus().len()).unwrap_or(1))
    }

    /// Returns the number of phases of each gate in a pair.
    fn slices(&self) -> u64 {
        (PAIR.as_secs() / (2 * self.phase)).max(1)
    }
}

/// Gate of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Front {
    Gated,
    Ungated,
}

impl Front {
    /// Returns the gate of this phase: A B B A, and again.
    fn of(phase: u64) -> Front {
        if matches!(phase % 4, 0 | 3) { Front::Gated } else { Front::Ungated }
    }
}

/// Measures and reports.
///
/// # Errors
/// If PostgreSQL is not available, a transaction fails, or the run is stopped.
pub fn measure(report: &mut Report, options: &SoakOptions, seed: u64, stop: &Stop) -> anyhow::Result<()> {
    let programs = Programs::find_or_install()?;
    let server = match &options.url {
        Some(url) => elsewhere(url)?,
        None => postgres(2 * options.clients + 40)?,
    };
    pgbench::initialise(&programs, &server, options.scale, stop)?;
    let (gated, _) = gate(&server, &["overtake.mpl=auto"])?;
    let (ungated, _) = gate(&server, &[&format!("overtake.mpl={}", options.clients)])?;
    let (slices, length) = (options.slices(), Duration::from_secs_f64(60.0 * options.minutes));
    // The last pair ends later, as clients connect in each phase and end the transactions that they have begun.
    let load = OtherLoad::start(options.hogs(), options.writes, seed, length.mul_f64(1.25) + 2 * PAIR)?;
    let course = LimitSampler::start(&gated)?;
    let began = Instant::now();
    let mut pairs: Vec<Pair> = Vec::new();
    while pairs.is_empty() || began.elapsed() < length {
        let mut pair = Pair::begin(began.elapsed());
        for slice in 0..2 * slices {
            let front = Front::of(slice);
            let target = if front == Front::Gated { &gated } else { &ungated };
            course.is_gated(front == Front::Gated);
            pair.add(front, phase(&programs, target, options, stop)?);
            course.is_gated(false);
        }
        pair.end(began.elapsed(), &load);
        ensure!(course.is_alive(), "the gate does not answer");
        let (mpl, holds) = course.last();
        tracing::info!(
            pair = pairs.len() + 1,
            minutes = began.elapsed().as_secs_f64() / 60.0,
            of = options.minutes,
            gated = pair.per_s(Front::Gated),
            ungated = pair.per_s(Front::Ungated),
            ratio = pair.ratio(),
            mpl,
            holds,
            hogs = pair.hogs(),
            "measured"
        );
        pairs.push(pair);
    }
    let moves = view(&gated, "mpl_log")?.len();
    load.stop()?;
    fill(report, options, &pairs, &course.stop()?, moves);
    Ok(())
}

/// Runs all clients through one gate.
fn phase(programs: &Programs, target: &MeasuredServer, options: &SoakOptions, stop: &Stop) -> anyhow::Result<f64> {
    let (script, length) = (PgbenchScript::BuiltIn("tpcb-like"), Duration::from_secs(options.phase));
    let run = pgbench::run(programs, target, script, Protocol::Extended, options.clients, length, stop)?;
    Ok(run.per_s)
}

fn fill(report: &mut Report, options: &SoakOptions, pairs: &[Pair], course: &sampler::LimitSamples, moves: usize) {
    let totals = PairTotals::of(pairs);
    let header = ["minute", "gated per s", "ungated per s", "ratio", "MPL", "± %", "holds %", "hogs"];
    let title =
        format!("TPC-B at scale {}, {} clients, with a limit and without, in turn", options.scale, options.clients);
    let mut table = TextTable::new(title, &header);
    let (mut ratios, mut limits, mut load) = (Vec::new(), Vec::new(), Vec::new());
    for (at, pair) in pairs.iter().enumerate() {
        // The limit is that of the time of the pair, not of all of the run.
        let during = course.during(pair.time());
        table.row([
            format!("{:.1}", pair.time().end.as_secs_f64() / 60.0),
            number(pair.per_s(Front::Gated)),
            number(pair.per_s(Front::Ungated)),
            number(pair.ratio()),
            number(during.mpl),
            during.off.map(|off| number(100.0 * off)).unwrap_or_default(),
            number(100.0 * during.holds),
            number(pair.hogs()),
        ]);
        ratios.push((at + 1, pair.ratio()));
        load.push((at + 1, pair.hogs()));
    }
    for (second, mpl) in course.limits() {
        limits.push((second, mpl));
    }
    report.table(table);
    let mut chart =
        LineChart::new("Throughput with the controller's limit over that without one", "pair of 60 s", "ratio");
    chart.series("ratio", &ratios);
    chart.series("0.97", &ratios.iter().map(|(at, _)| (*at, 0.97)).collect::<Vec<_>>());
    chart.series("0.85", &ratios.iter().map(|(at, _)| (*at, 0.85)).collect::<Vec<_>>());
    report.chart(chart);
    let mut chart = LineChart::new("The controller's limit", "seconds", "MPL");
    chart.series("MPL", &limits);
    report.chart(chart);
    let mut chart = LineChart::new("Other load", "pair of 60 s", "threads that run");
    chart.series("hogs", &load);
    report.chart(chart);
    report.figure("soak.gated_per_s", totals.gated_per_s);
    report.figure("soak.ungated_per_s", totals.ungated_per_s);
    report.figure("soak.ratio", totals.ratio);
    report.figure("soak.worst_ratio", totals.worst);
    report.figure("soak.least_ratio", totals.least);
    report.figure("soak.noise_worst_ratio", totals.noise_worst);
    report.figure("soak.pairs", pairs.len() as f64);
    report.figure("soak.moves", moves as f64);
    report.figure("soak.mpl", course.last_mpl());
    report.figure("soak.held_share", course.held_share());
    report.figure("soak.hogs", totals.hogs);
    if let Some(after) = course.held_after() {
        report.figure("soak.held_after_s", after.as_secs_f64());
    }
    report.note(format!(
        "In all {} of ungated; the worst 5 % of {} pairs {} on average, the least {}. The same measure of the ungated phases alone, every \
         other one against the rest, is {}: so much is the host's.",
        number(totals.ratio),
        pairs.len(),
        number(totals.worst),
        number(totals.least),
        number(totals.noise_worst),
    ));
    report.note(match course.held_after() {
        Some(after) => format!("The gate held a limit after {} s of its own phases.", number(after.as_secs_f64())),
        None => "The gate did not come to hold a limit.".to_owned(),
    });
    report.note(format!(
        "Phases of {} s, {} with the limit and {} without in each pair; the ungated front is the same gate with a limit of {}. Other load: \
         {} threads at most{}, seeded.",
        options.phase,
        options.slices(),
        options.slices(),
        options.clients,
        options.hogs(),
        if options.writes { " and a writer" } else { "" },
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fronts_take_turns_so_that_a_drift_favours_neither() {
        let order: Vec<Front> = (0..8).map(Front::of).collect();
        let places = |front| order.iter().enumerate().filter(|(_, of)| **of == front).map(|(at, _)| at).sum::<usize>();
        assert_eq!(places(Front::Gated), places(Front::Ungated));
    }

    #[test]
    fn a_pair_takes_a_minute_unless_phases_are_longer() {
        let options =
            |phase| SoakOptions { minutes: 60.0, scale: 1, clients: 100, phase, hogs: None, writes: false, url: None };
        for (phase, slices) in [(5, 6), (30, 1), (60, 1), (7, 4)] {
            assert_eq!(options(phase).slices(), slices, "{phase}");
        }
    }
}
