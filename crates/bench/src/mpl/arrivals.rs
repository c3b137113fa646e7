//! `bench mpl arrivals`: mean response time against MPL when transactions arrive from outside (section 3.2), beside the
//! model of section 4.2: short ones wait outside behind long ones inside, the longer the more sizes vary.

use super::lab::Lab;
use super::percent;
use crate::report::{LineChart, Report, TextTable, number};
use gate::model::Response;
use gate::sim::{Load, Setup, Simulation};
use gate::{Estimate, GateSettings};
use host::stop::Stopped;

/// Loads: names in figures and tables, and shares of the processor's capacity.
const LOADS: [(&str, f64); 2] = [("load70", 0.7), ("load90", 0.9)];
/// Values of C², as [`Response`] takes them, and as figures name them.
const C2: [u32; 5] = [1, 2, 5, 10, 15];
const LIMITS: [u32; 10] = [1, 2, 3, 5, 7, 10, 15, 20, 30, 50];
/// Number of completions before the first check whether a mean is known well enough; it doubles for each next check.
const FIRST_LOOK: u64 = 250_000;

struct Case {
    at: usize,
    load: f64,
    c2: u32,
    mpl: u32,
}

/// Measures every load, variability and limit.
pub(super) fn measure(lab: &Lab<'_>, report: &mut Report) -> anyhow::Result<()> {
    let mut cases: Vec<Case> = Vec::new();
    for (_, load) in LOADS {
        for c2 in C2 {
            cases.extend(LIMITS.map(|mpl| Case { at: 0, load, c2, mpl }));
        }
    }
    cases.iter_mut().enumerate().for_each(|(at, case)| case.at = at);
    // The longest runs come first, so that no processor is left with one at the end.
    let effort = |case: &Case| f64::from(case.c2) / (1.0 - case.load).powi(2);
    cases.sort_by(|a, b| effort(b).total_cmp(&effort(a)));
    let seen = lab.each("arrivals", &cases, |case| Ok((case.at, simulate(lab, case)?)))?;
    let mut responses = vec![Estimate::default(); cases.len()];
    seen.into_iter().for_each(|(at, response)| responses[at] = response);
    let mut inside = 0;
    for ((name, load), responses) in LOADS.into_iter().zip(responses.chunks(C2.len() * LIMITS.len())) {
        let models = C2.map(|c2| model(load, c2));
        inside += tell(name, load, responses, &models, report);
    }
    report.figure("arrivals.model_inside", f64::from(inside) / cases.len() as f64);
    report.note(format!(
        "Arrivals: C² governs response. Where it is 1 a limit costs nothing; the larger it is, the more must be let in for the \
         short not to wait for the long. ±% is half of the interval that has the true mean 19 times of 20; the model is inside \
         {inside} of {} intervals.",
        cases.len()
    ));
    Ok(())
}

/// Simulates one processor, whose mean service time is the unit.
fn simulate(lab: &Lab<'_>, case: &Case) -> Result<Estimate, Stopped> {
    let setup = Setup::one_processor(1.0, case.c2.into());
    let (load, settings) = (Load::Open { rate: case.load }, GateSettings::of_priorities(case.mpl));
    let mut simulation = Simulation::new(&setup, load, settings, 0.0, lab.seed);
    let mut observed = FIRST_LOOK;
    let mut response = lab.observe(&mut simulation, observed)?.response;
    while lab.lengths.precision < response.half_width && observed < lab.lengths.arrivals_max {
        lab.run(&mut simulation, observed)?;
        observed *= 2;
        response = simulation.gate().observation().response;
    }
    Ok(response)
}

/// Returns the mean response under each of the limits, by the model.
fn model(load: f64, c2: u32) -> Vec<f64> {
    let model = Response::new(load, c2.into(), 1).expect("such a load has a steady state");
    let most = LIMITS[LIMITS.len() - 1] as usize;
    let curve = model.curve(most).expect("one processor keeps up whatever the limit is");
    LIMITS.map(|mpl| curve[mpl as usize - 1].response).to_vec()
}

/// Reports a load's figures, table and chart. Returns the number of intervals that the model is inside.
fn tell(name: &str, load: f64, responses: &[Estimate], models: &[Vec<f64>; 5], report: &mut Report) -> u32 {
    let labels: Vec<String> =
        C2.iter().flat_map(|c2| [format!("C² {c2}"), "±%".to_owned(), "model".to_owned()]).collect();
    let head: Vec<&str> = ["MPL"].into_iter().chain(labels.iter().map(String::as_str)).collect();
    let title = format!("Mean response with arrivals at {} % of capacity, in mean service times", percent(load));
    let mut table = TextTable::new(title.clone(), &head);
    let mut chart = LineChart::new(title, "MPL", "mean service times");
    let mut inside = 0;
    for (at, mpl) in LIMITS.into_iter().enumerate() {
        let mut row = vec![mpl.to_string()];
        for (which, model) in models.iter().enumerate() {
            let (seen, known) = (responses[which * LIMITS.len() + at], model[at]);
            row.extend([number(seen.mean), percent(seen.half_width), number(known)]);
            let prefix = format!("arrivals.{name}.c2_{}", C2[which]);
            report.figure(format!("{prefix}.response.{mpl}"), seen.mean);
            report.figure(format!("{prefix}.half_width.{mpl}"), seen.half_width);
            report.figure(format!("{prefix}.model.{mpl}"), known);
            inside += u32::from((known / seen.mean - 1.0).abs() <= seen.half_width);
        }
        table.row(row);
    }
    for (which, model) in models.iter().enumerate() {
        let points = |value: &dyn Fn(usize) -> f64| {
            LIMITS.iter().enumerate().map(|(at, mpl)| (*mpl as usize, value(at))).collect::<Vec<_>>()
        };
        chart.series(format!("C² {}", C2[which]), &points(&|at| responses[which * LIMITS.len() + at].mean));
        chart.series(format!("C² {} model", C2[which]), &points(&|at| model[at]));
    }
    report.table(table);
    report.chart(chart);
    inside
}
