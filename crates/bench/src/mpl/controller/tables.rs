//! Tables and figures of the controller's runs.

use super::super::{percent, place};
use super::{ControllerResult, KEEP, OBSERVATIONS_MAX, THRESHOLD};
use crate::report::{LineChart, Report, TextTable, number};
use gate::control::Move;
use gate::sim::Setup;

/// Maximum number of logs of missed runs that are printed.
const LOGS_MAX: usize = 8;

/// Reports the runs from each start, by set-up, each with the lowest limit that keeps the thresholds.
pub(super) fn starts(by_setup: &[(&Setup, u32, &[ControllerResult])], report: &mut Report) {
    let head = ["", "lowest", "chosen, by start", "observations", "loss %", "response +%", "to no limit −%", "kept"];
    let title = format!(
        "The controller, thresholds {} %: the lowest limit that keeps them, what it chose from each start, the worst of each",
        percent(THRESHOLD)
    );
    let mut table = TextTable::new(title, &head);
    let (mut known, mut highest) = (Vec::new(), Vec::new());
    let (mut kept, mut runs, mut missed) = (0, 0, Vec::new());
    for (setup, lowest, found) in by_setup {
        let name = &setup.name;
        // The table shows the worst over all starts.
        let worst =
            |value: &dyn Fn(&ControllerResult) -> f64| found.iter().map(value).fold(f64::NEG_INFINITY, f64::max);
        let [chosen, observations, loss, increase, unlimited] = [
            worst(&|found| found.chosen.into()),
            worst(&|found| found.observations as f64),
            worst(&|found| found.loss),
            worst(&|found| found.increase),
            worst(&|found| found.loss_vs_unlimited),
        ];
        let good = found.iter().filter(|found| found.is_kept(*lowest)).count();
        (kept, runs) = (kept + good, runs + found.len());
        missed.extend(found.iter().filter(|found| !found.is_kept(*lowest)).map(|found| (*setup, found)));
        let list = |value: &dyn Fn(&ControllerResult) -> u64| {
            found.iter().map(|found| value(found).to_string()).collect::<Vec<_>>().join(" ")
        };
        table.row([
            format!("{name} {}", setup.description),
            lowest.to_string(),
            list(&|found| found.chosen.into()),
            list(&|found| found.observations),
            percent(loss),
            percent(increase),
            percent(unlimited),
            format!("{good} of {}", found.len()),
        ]);
        report.figure(format!("{name}.mpl_lowest"), (*lowest).into());
        report.figure(format!("{name}.mpl_chosen"), chosen);
        report.figure(format!("{name}.observations"), observations);
        report.figure(format!("{name}.loss"), loss);
        report.figure(format!("{name}.response_increase"), increase);
        report.figure(format!("{name}.loss_vs_unlimited"), unlimited);
        known.push((place(setup), f64::from(*lowest)));
        highest.push((place(setup), chosen));
    }
    report.figure("controller.kept", kept as f64 / runs.max(1) as f64);
    report.table(table);
    if let Some((setup, _, [found, ..])) = by_setup.first() {
        report.table(log(format!("What it did on {} from {}", setup.name, found.start), &found.moves));
    }
    for (setup, found) in missed.into_iter().take(LOGS_MAX) {
        report.table(log(format!("Missed: {} from {}", setup.name, found.start), &found.moves));
    }
    let mut chart = LineChart::new("The lowest limit that keeps the thresholds", "set-up", "MPL");
    chart.series("known", &known);
    chart.series("highest chosen", &highest);
    report.chart(chart);
    report.note(format!(
        "The controller: kept is a loss and an increase of at most {} %, in at most {OBSERVATIONS_MAX} observations, with a limit of \
         at most a quarter or 2 above the lowest; {kept} of {runs} runs did. The lowest keeps {} % of the best throughput.",
        percent(THRESHOLD),
        percent(KEEP)
    ));
}

/// Reports a run in the middle of which the load changed, with the lowest limit of the load after it.
pub(super) fn switch(found: &ControllerResult, lowest: u32, report: &mut Report) {
    report.figure("controller.switch.observations", found.observations as f64);
    report.figure("controller.switch.mpl", found.chosen.into());
    report.figure("controller.switch.lowest", lowest.into());
    report.figure("controller.switch.loss", found.loss);
    report.table(log("s01 becomes a load that needs its disk as much, with a C² of 15".to_owned(), &found.moves));
    report.note(format!(
        "The switch: from the other load's first transaction until it held again {} observations; it chose {}, the lowest is \
         {lowest}, at a loss of {} %.",
        found.observations,
        found.chosen,
        percent(found.loss)
    ));
}

fn log(title: String, moves: &[Move]) -> TextTable {
    let mut table = TextTable::new(title, &["after s", "from", "to", "completions", "per s", "±%", "C²", "why"]);
    for Move { at, from, to, reason, seen } in moves {
        table.row([
            number(at.ns() as f64 / 1e9),
            from.to_string(),
            to.to_string(),
            number(seen.completions as f64),
            number(seen.throughput.mean),
            percent(seen.throughput.half_width),
            number(seen.c2),
            reason.to_string(),
        ]);
    }
    table
}
