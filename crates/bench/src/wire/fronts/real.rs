//! `bench mpl real` and `bench mpl engine`: the paper's set-ups on a real PostgreSQL 15, with the gate before it, and
//! on Overtake's engine behind the same gate.
//!
//! **Invariant:** the cost of the gate is not counted as cost of the limit: the phases without a limit run behind a
//! gate that has none. Phases with the limit that the controller has found and without one take turns, so that other
//! work of the machine meets both.

pub(super) mod load;
mod pin;
pub(super) mod setups;
pub(super) mod system;
mod throttle;

use super::super::client::Control;
use super::super::postgres::Programs;
use super::super::servers::{postgres, small_postgres};
use super::tpcb::metric;
use crate::report::{LineChart, Report, TextTable, number};
use anyhow::ensure;
use host::stop::Stop;
use load::{CLIENTS, PhaseFigures, SetupLoad};
use pin::Pinned;
use setups::Setup;
use std::time::{Duration, Instant};
use system::SystemUnderTest;
use throttle::Throttled;

/// Limits whose throughput is measured.
const LIMITS: [u32; 9] = [1, 2, 3, 4, 6, 10, 16, 32, CLIENTS];
/// The share of the best throughput that keeps both thresholds, as `bench mpl controller` has it.
const KEEP: f64 = 1.0 / 1.05;
/// Maximum time that the controller may search.
const SEARCH_MAX: Duration = Duration::from_secs(400);
/// Number of pairs of phases, with the limit and without.
const PAIRS: u32 = 20;
/// The 95 % quantile of Student's distribution with one degree of freedom less than the number of pairs.
const STUDENT: f64 = 1.729;

/// Lengths of phases, and the set-ups that are taken.
#[derive(Clone, Copy, Debug)]
pub struct Extent<'a> {
    /// Length of a phase at a fixed limit, and of each half of a pair.
    pub phase: Duration,
    /// Names of the set-ups; empty: all, or the quick ones.
    pub only: &'a [String],
    /// True for fewer set-ups.
    pub is_quick: bool,
}

/// Results of one set-up.
struct RealSetupResult {
    c2: f64,
    curve: Vec<(u32, f64)>,
    chosen: f64,
    observations: usize,
    holds: bool,
    loss: Bounded,
    increase: Bounded,
}

/// Mean of the pairs, and the bound that the true mean is below 19 times of 20.
#[derive(Clone, Copy, Debug)]
struct Bounded {
    mean: f64,
    upper: f64,
}

impl Bounded {
    fn of(values: &[f64]) -> Bounded {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        Bounded { mean, upper: mean + STUDENT * (variance / count).sqrt() }
    }
}

/// Returns the names of the set-ups that can be asked for.
pub fn names() -> impl Iterator<Item = &'static str> {
    setups::ALL.iter().map(|setup| setup.name)
}

/// Database that runs the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseKind {
    Postgres,
    /// Overtake's engine; pgbench is PostgreSQL's all the same.
    Engine,
}

impl DatabaseKind {
    /// Returns the first part of the figures' names, and the name for people.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            DatabaseKind::Postgres => ("real", "PostgreSQL"),
            DatabaseKind::Engine => ("engine", "our own engine"),
        }
    }

    fn has(self, setup: &Setup) -> bool {
        // Overtake's data is not on a disk, and its engine has all processors.
        self == DatabaseKind::Postgres || (!setup.is_on_disk && 1 < setup.processors)
    }
}

/// Measures and reports.
///
/// # Errors
/// If PostgreSQL is not available, a transaction fails, or the run is stopped.
pub fn measure(report: &mut Report, database: DatabaseKind, extent: Extent<'_>, stop: &Stop) -> anyhow::Result<()> {
    let programs = Programs::find_or_install()?;
    let (_, name) = database.names();
    let head = [
        "",
        "C²",
        "best per s",
        "80 %",
        "95 %",
        "chosen",
        "lowest",
        "observations",
        "loss %",
        "at most %",
        "slower %",
        "at most %",
    ];
    let title = format!(
        "On {name}, {CLIENTS} clients: limits that keep throughput, and what the controller's costs against none"
    );
    let mut table = TextTable::new(title, &head);
    let mut chart = LineChart::new(format!("Throughput over the best, on {name}"), "MPL", "share of the best");
    // Names given by the user take precedence over the quick choice.
    let is_wanted = |setup: &&Setup| match (extent.only, extent.is_quick) {
        ([], false) => true,
        ([], true) => setups::QUICK.contains(&setup.name),
        (only, _) => only.iter().any(|name| name == setup.name),
    };
    for setup in setups::ALL.iter().filter(is_wanted).filter(|setup| database.has(setup)) {
        let mut load = SetupLoad::new(setup, &programs, stop)?;
        let found = match database {
            DatabaseKind::Postgres => on_postgres(setup, &mut load, extent.phase)?,
            DatabaseKind::Engine => find(&SystemUnderTest::Engine, setup, &mut load, extent.phase)?,
        };
        let best = found.best();
        let points: Vec<(usize, f64)> = found.curve.iter().map(|(mpl, per_s)| (*mpl as usize, per_s / best)).collect();
        chart.series(format!("{} {}, {} CPU", setup.name, setup.description, setup.processors), &points);
        tell(setup, &found, database, report, &mut table);
    }
    report.table(table);
    report.chart(chart);
    let whose = match database {
        DatabaseKind::Postgres => {
            "the server is pinned to its processors, clients and gate share those that are left, or all"
        }
        DatabaseKind::Engine => {
            "each limit has an engine and tables of its own, clients and engine share all processors"
        }
    };
    report.note(format!(
        "Set-ups on {name}: {whose}. Losses and \
         responses of the controller's limit are against a gate without one, by {PAIRS} pairs of phases in turn; \"at most\" is the upper \
         bound at 95 %. 80 %, 95 % and lowest are of the limits {LIMITS:?}."
    ));
    Ok(())
}

impl RealSetupResult {
    fn best(&self) -> f64 {
        self.curve.iter().map(|(_, per_s)| *per_s).fold(0.0, f64::max)
    }

    /// Returns the lowest of the measured limits that keeps this share of the best throughput.
    fn least(&self, keep: f64) -> u32 {
        let wanted = keep * self.best();
        self.curve.iter().find(|(_, per_s)| wanted <= *per_s).map_or(CLIENTS, |(mpl, _)| *mpl)
    }
}

fn tell(setup: &Setup, found: &RealSetupResult, database: DatabaseKind, report: &mut Report, table: &mut TextTable) {
    let (prefix, _) = database.names();
    let lowest = found.least(KEEP);
    let percent = |share: f64| number(100.0 * share);
    table.row([
        format!("{} {}, {} CPU", setup.name, setup.description, setup.processors),
        number(found.c2),
        number(found.best()),
        found.least(0.8).to_string(),
        found.least(0.95).to_string(),
        if found.holds { number(found.chosen) } else { format!("{}, still searching", number(found.chosen)) },
        lowest.to_string(),
        found.observations.to_string(),
        percent(found.loss.mean),
        percent(found.loss.upper),
        percent(found.increase.mean),
        percent(found.increase.upper),
    ]);
    let figures = [
        ("c2", found.c2),
        ("best_per_s", found.best()),
        ("mpl80", found.least(0.8).into()),
        ("mpl95", found.least(0.95).into()),
        ("mpl_chosen", found.chosen),
        ("mpl_lowest", lowest.into()),
        ("observations", found.observations as f64),
        ("loss", found.loss.mean),
        ("loss_upper", found.loss.upper),
        ("response_increase", found.increase.mean),
        ("response_increase_upper", found.increase.upper),
    ];
    for (name, value) in figures {
        report.figure(format!("{prefix}.{}.{name}", setup.name), value);
    }
    for (mpl, per_s) in &found.curve {
        report.figure(format!("{prefix}.{}.m{mpl:03}.per_s", setup.name), *per_s);
    }
}

fn on_postgres(setup: &Setup, load: &mut SetupLoad<'_>, phase: Duration) -> anyhow::Result<RealSetupResult> {
    let start = if setup.is_on_disk { small_postgres } else { postgres };
    let direct = start(3 * CLIENTS)?;
    load.fill(&direct)?;
    Control::connect(&direct)?.batch("checkpoint")?;
    let _pinned = Pinned::new(&direct, setup.processors)?;
    let _throttled = setup.is_on_disk.then(|| Throttled::new(&direct)).transpose()?;
    find(&SystemUnderTest::Upstream(direct), setup, load, phase)
}

fn find(
    place: &SystemUnderTest,
    setup: &Setup,
    load: &mut SetupLoad<'_>,
    phase: Duration,
) -> anyhow::Result<RealSetupResult> {
    let mut curve = Vec::new();
    for mpl in LIMITS {
        let (fixed, _) = place.behind(&format!("overtake.mpl={mpl}"), load)?;
        // The first phase of all fills caches, too.
        load.phase(&fixed, if curve.is_empty() { 2 * phase } else { Duration::from_secs(1) })?;
        let seen = load.phase(&fixed, phase)?;
        tracing::info!(setup = setup.name, mpl, per_s = seen.per_s, "measured");
        curve.push((mpl, seen.per_s));
    }
    let (free, _) = place.behind("overtake.mpl=off", load)?;
    let (ours, metrics) = place.behind("overtake.mpl=auto", load)?;
    let began = Instant::now();
    let mut holds = false;
    while !holds && began.elapsed() < SEARCH_MAX {
        load.phase(&ours, 2 * phase)?;
        holds = 1.0 <= metric(&metrics, "overtake_mpl_holding")?;
        tracing::info!(setup = setup.name, mpl = metric(&metrics, "overtake_mpl")?, holds, "the gate searches");
    }
    let observations = place.view(&ours, "mpl_log")?.len();
    let (mut loss, mut increase) = (Vec::new(), Vec::new());
    for pair in 0..PAIRS {
        // The two halves take turns in being first.
        let mut halves = [&ours, &free];
        if pair % 2 == 1 {
            halves.reverse();
        }
        let mut seen =
            halves.into_iter().map(|target| load.phase(target, phase)).collect::<Result<Vec<PhaseFigures>, _>>()?;
        if pair % 2 == 1 {
            seen.reverse();
        }
        let [gated, free] = seen[..] else { continue };
        ensure!(0.0 < free.per_s, "nothing was done without a limit");
        loss.push(1.0 - gated.per_s / free.per_s);
        increase.push(gated.mean_ms / free.mean_ms - 1.0);
        tracing::info!(setup = setup.name, pair, gated = gated.per_s, free = free.per_s, "measured");
    }
    Ok(RealSetupResult {
        c2: place.c2(&ours)?,
        curve,
        chosen: metric(&metrics, "overtake_mpl")?,
        observations,
        holds,
        loss: Bounded::of(&loss),
        increase: Bounded::of(&increase),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_above_the_mean_by_what_the_values_differ() {
        let Bounded { mean, upper } = Bounded::of(&[0.0, 2.0].repeat(10));
        assert!((mean - 1.0).abs() < 1e-12);
        assert!((upper - 1.0 - 1.729 * (20.0f64 / 19.0 / 20.0).sqrt()).abs() < 1e-9, "{upper}");
        assert_eq!(Bounded::of(&[3.0; 20]).upper, 3.0);
    }
}
