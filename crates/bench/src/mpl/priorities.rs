//! `bench mpl priorities`: how much sooner important transactions respond when a limit makes a queue that they can
//! bypass (Figure 11), and the cost to the others.
//!
//! A client that does not think sends the next transaction at the very moment at which one leaves, so that the last
//! arrival, if it is important, would always find a free slot: an artefact. Here clients think for a while, so that
//! some [`THINKING`] of the [`CLIENTS`] are outside the system at the best throughput, and slots are free at moments of
//! their own.

use super::lab::{CLIENTS, Lab};
use super::{percent, place};
use crate::report::{LineChart, Report, TextTable, number};
use gate::sim::{Load, Setup, Simulation};
use gate::{ClassObservation, GateSettings, Observation};
use host::stop::Stopped;

/// Number of clients who think.
const THINKING: f64 = 10.0;
/// Share of important transactions, chosen at random.
const HIGH: f64 = 0.1;
/// Shares of the best throughput that limits may cost, with their names in figures. Less than half of a hundredth is
/// nothing: the runs could not tell, and the curve comes near its end so slowly that no limit would cost nothing at
/// all.
const LOSSES: [(&str, &str, f64); 3] = [("l0", "nothing", 0.005), ("l5", "5 %", 0.05), ("l20", "20 %", 0.2)];

/// Results of one set-up behind one limit, and without a limit and without classes.
struct PriorityResult {
    mpl: u32,
    /// Mean response in seconds with all transactions inside.
    unlimited: f64,
    high: f64,
    /// Part of `high` that was spent inside.
    high_inside: f64,
    low: f64,
    all: f64,
}

/// Names of the ratios of [`PriorityResult::ratios`] in figures.
const RATIOS: [&str; 3] = ["high_times", "low_increase", "all_increase"];

impl PriorityResult {
    /// Returns how many times sooner important transactions respond than others, and how much longer those and all take
    /// than without a limit.
    fn ratios(&self) -> [f64; 3] {
        [self.low / self.high, self.low / self.unlimited - 1.0, self.all / self.unlimited - 1.0]
    }
}

fn in_words([times, low, all]: [f64; 3]) -> [String; 3] {
    [number(times), percent(low), percent(all)]
}

/// Returns the mean over these set-ups; none if there are none.
fn mean<'a>(of: impl Iterator<Item = &'a (&'a Setup, [f64; 3])> + Clone) -> Option<[f64; 3]> {
    let count = of.clone().count();
    let sum = |at: usize| of.clone().map(|(_, ratios)| ratios[at]).sum::<f64>();
    (0 < count).then(|| [0, 1, 2].map(|at| sum(at) / count as f64))
}

/// Measures each set-up behind each limit.
pub(super) fn measure(lab: &Lab<'_>, report: &mut Report) -> anyhow::Result<()> {
    let found = lab.each("priorities", &lab.setups, |setup| find(lab, setup))?;
    let title = "How many times sooner important transactions respond than others";
    let mut chart = LineChart::new(title, "set-up", "low's mean response over high's");
    for (at, (name, words, _)) in LOSSES.into_iter().enumerate() {
        let of_level: Vec<(&Setup, &PriorityResult)> =
            lab.setups.iter().zip(found.iter().map(|found| &found[at])).collect();
        tell(name, words, &of_level, report);
        let points: Vec<(usize, f64)> =
            of_level.iter().map(|(setup, found)| (place(setup), found.ratios()[0])).collect();
        chart.series(format!("costs {words}"), &points);
    }
    report.chart(chart);
    report.note(format!(
        "Priorities: of {CLIENTS} clients some {THINKING:.0} think at a time, so that who comes does not do so at the very moment at \
         which another one leaves; +% is against the mean response with all inside and no classes, which a limit betters \
         where locks bind; \"nothing\" is less than half of 1 %."
    ));
    Ok(())
}

/// Reports the figures and the table of one level.
fn tell(name: &str, words: &str, found: &[(&Setup, &PriorityResult)], report: &mut Report) {
    let head = ["", "MPL", "no limit ms", "high ms", "inside", "low ms", "all ms", "high times", "low +%", "all +%"];
    let mut table = TextTable::new(format!("One in ten important, behind the lowest limit that costs {words}"), &head);
    for (setup, found) in found {
        let label = format!("{} {}", setup.name, setup.description);
        let ms = [found.unlimited, found.high, found.high_inside, found.low, found.all].map(|s| number(1e3 * s));
        let cells = [label, found.mpl.to_string()].into_iter().chain(ms);
        table.row(cells.chain(in_words(found.ratios())));
        for (figure, value) in RATIOS.into_iter().zip(found.ratios()) {
            report.figure(format!("{}.prio.{name}.{figure}", setup.name), value);
        }
        report.figure(format!("{}.prio.{name}.mpl", setup.name), found.mpl.into());
    }
    let all: Vec<(&Setup, [f64; 3])> = found.iter().map(|(setup, found)| (*setup, found.ratios())).collect();
    let unlocked = all.iter().filter(|(setup, _)| setup.workload.locks.overhead == 0.0);
    let means = [
        ("mean", format!("prio.{name}"), mean(all.iter())),
        ("mean of those that locks do not slow down", format!("prio.{name}.unlocked"), mean(unlocked)),
    ];
    for (label, prefix, mean) in means {
        let Some(ratios) = mean else { continue };
        let nothing = (0..6).map(|_| String::new());
        table.row([label.to_owned()].into_iter().chain(nothing).chain(in_words(ratios)));
        for (figure, value) in RATIOS.into_iter().zip(ratios) {
            report.figure(format!("{prefix}.{figure}"), value);
        }
    }
    report.table(table);
}

fn find(lab: &Lab<'_>, setup: &Setup) -> Result<Vec<PriorityResult>, Stopped> {
    let (_, best) = lab.best(setup)?;
    let load = Load::Closed { clients: CLIENTS, think: THINKING / best };
    let observe = |mpl, high| -> Result<Observation, Stopped> {
        let mut simulation = Simulation::new(setup, load, GateSettings::of_priorities(mpl), high, lab.seed);
        lab.observe(&mut simulation, lab.lengths.classes)
    };
    let unlimited = observe(CLIENTS, 0.0)?.response.mean;
    let behind = |(_, _, loss): (&str, &str, f64)| {
        let mpl = lab.least(setup, 1.0 - loss)?;
        let seen = observe(mpl, HIGH)?;
        let class = |name| -> ClassObservation {
            let class = GateSettings::of_priorities(mpl).class(name).expect("the classes of priorities are there");
            seen.classes[class.index()]
        };
        let (high, low) = (class("high"), class("low"));
        Ok(PriorityResult {
            mpl,
            unlimited,
            high: high.response.mean(),
            high_inside: high.inside.mean(),
            low: low.response.mean(),
            all: seen.response.mean,
        })
    };
    LOSSES.into_iter().map(behind).collect()
}
