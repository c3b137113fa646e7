//! `bench mpl figures`: throughput against MPL, as in the paper's Figures 2 to 5, beside the model of section 4.1.

use super::lab::{CLIENTS, Lab};
use super::percent;
use crate::report::{LineChart, Report, TextTable, number};
use gate::sim::Setup;

struct Figure {
    name: &'static str,
    title: &'static str,
    setups: &'static [&'static str],
}

const FIGURES: [Figure; 4] = [
    Figure { name: "fig2", title: "Figure 2: bound by processors", setups: &["s01", "s02", "s03", "s04"] },
    Figure { name: "fig3", title: "Figure 3: bound by disks", setups: &["s05", "s06", "s07", "s08"] },
    Figure { name: "fig4", title: "Figure 4: bound by processors and disks", setups: &["s11", "s12"] },
    Figure {
        name: "fig5",
        title: "Figure 5: bound by locks (s13, s15: repeatable read; s14, s16: uncommitted read)",
        setups: &["s13", "s14", "s15", "s16"],
    },
];

/// Limits of the curves, all of which the search for the best one looks at, too.
const LIMITS: [u32; 11] = [1, 2, 3, 5, 7, 10, 15, 20, 30, 50, CLIENTS];

/// Throughput curves of one set-up, relative to its best, and the model's, relative to its own best.
struct SetupCurves {
    measured: Vec<f64>,
    model: Vec<f64>,
}

/// Measures each figure's set-ups.
pub(super) fn measure(lab: &Lab<'_>, report: &mut Report) -> anyhow::Result<()> {
    let of = |figure: &Figure| {
        let setups = lab.setups.iter().filter(|setup| figure.setups.contains(&setup.name.as_str()));
        setups.collect::<Vec<&Setup>>()
    };
    let all: Vec<&Setup> = FIGURES.iter().flat_map(of).collect();
    let lines = lab.each("figures 2 to 5", &all, |setup| {
        let (_, best) = lab.best(setup)?;
        let model = setup.network().relative_throughput(CLIENTS as usize);
        let most = model[CLIENTS as usize - 1];
        let mut line = SetupCurves { measured: Vec::new(), model: Vec::new() };
        for mpl in LIMITS {
            line.measured.push(lab.throughput(setup, mpl)? / best);
            line.model.push(model[mpl as usize - 1] / most);
        }
        Ok(line)
    })?;
    let mut lines = all.into_iter().zip(lines);
    for figure in FIGURES {
        let count = of(&figure).len();
        let drawn: Vec<(&Setup, SetupCurves)> = lines.by_ref().take(count).collect();
        if !drawn.is_empty() {
            draw(&figure, &drawn, report);
        }
    }
    report.note(
        "Resources govern throughput: where nobody waits for locks, a limit costs what the network of processors and disks says, \
         whatever C² is; the more of them there are to keep busy, the more transactions it takes. Locks turn the curve down, \
         which the network does not know.",
    );
    Ok(())
}

fn draw(figure: &Figure, drawn: &[(&Setup, SetupCurves)], report: &mut Report) {
    let names: Vec<String> =
        drawn.iter().flat_map(|(setup, _)| [setup.name.clone(), format!("{} model", setup.name)]).collect();
    let head: Vec<&str> = ["MPL"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let mut table = TextTable::new(format!("{}: share of the best throughput", figure.title), &head);
    for (at, mpl) in LIMITS.into_iter().enumerate() {
        let values = drawn.iter().flat_map(|(_, line)| [line.measured[at], line.model[at]]).map(number);
        table.row([mpl.to_string()].into_iter().chain(values));
    }
    report.table(table);
    let mut chart = LineChart::new(figure.title, "MPL", "share of the best throughput");
    for (setup, line) in drawn {
        for (kind, label, values) in [("throughput", "", &line.measured), ("model", " model", &line.model)] {
            let points: Vec<(usize, f64)> =
                LIMITS.iter().map(|mpl| *mpl as usize).zip(values.iter().copied()).collect();
            for (mpl, value) in &points {
                report.figure(format!("{}.{}.{kind}.{mpl}", figure.name, setup.name), *value);
            }
            chart.series(format!("{}{label}", setup.name), &points);
        }
        if setup.workload.locks.overhead == 0.0 {
            let off =
                line.measured.iter().zip(&line.model).map(|(seen, model)| (seen - model).abs()).fold(0.0, f64::max);
            report.figure(format!("{}.{}.model_off", figure.name, setup.name), off);
            report.note(format!("{}: measurement and model differ by at most {} points.", setup.name, percent(off)));
        }
    }
    report.chart(chart);
}
