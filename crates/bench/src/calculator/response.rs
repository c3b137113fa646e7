//! `overtake mpl response`: the time that a limit makes transactions wait outside.

use super::curves::{Curve, Subject, check_count};
use super::limits::MplRange;
use super::refuse;
use crate::progress;
use crate::report::{Report, TextTable, number};
use gate::model::{AtMpl, ModelError, Response, pollaczek_khinchine};
use host::refusal::Refusal;
use host::stop::Stop;
use serde::Serialize;
use std::time::Duration;

/// Maximum of the limits: above this, a curve takes minutes.
const MPL_MAX: usize = 200;

/// Arguments of `mpl response`.
#[derive(clap::Args, Debug, Serialize)]
pub struct ResponseArguments {
    /// Share of the database's capacity that arrivals need, above 0 and below 1.
    #[arg(long, value_name = "SHARE")]
    load: f64,
    /// Squared coefficient of variation of the transactions' sizes; below 1 counts as 1. Several, separated by commas, are a
    /// curve each. Commercial workloads have 2 to 15.
    #[arg(long, value_name = "C2,...", value_delimiter = ',', required = true)]
    c2: Vec<f64>,
    /// Number of processors, of which a transaction uses one at a time.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    servers: u32,
    /// Limits, N or A..B, up to 200.
    #[arg(long, value_name = "N|A..B", default_value = "1..100", value_parser = MplRange::parse::<MPL_MAX>)]
    mpl: MplRange,
}

const SUBJECT: Subject = Subject {
    figure: "response",
    title: "Mean response time with at most so many transactions inside, in mean service times",
    unit: "mean service times",
    least: "The least MPL whose mean response time is within this much of that without a limit",
    thresholds: [("within_2", "2 %"), ("within_5", "5 %"), ("within_10", "10 %"), ("within_20", "20 %")],
};
/// Increases of the response time: the thresholds of [`SUBJECT`].
const INCREASES: [f64; 4] = [0.02, 0.05, 0.1, 0.2];

/// Calculates and reports.
///
/// # Errors
/// A [`Refusal`] if the arguments make no model or no limit can do the work, [`host::stop::Stopped`].
pub fn run(arguments: &ResponseArguments, stop: &Stop) -> anyhow::Result<Report> {
    let variabilities = &arguments.c2;
    check_count(variabilities.len())?;
    if (1..variabilities.len()).any(|at| variabilities[..at].contains(&variabilities[at])) {
        return Err(Refusal::new("--c2 has a value twice").into());
    }
    let model = |c2: &f64| Response::new(arguments.load, *c2, arguments.servers).map_err(refuse);
    let models = variabilities.iter().map(model).collect::<Result<Vec<Response>, Refusal>>()?;
    let mut report = Report::calculated("mpl response", arguments)?;
    let mut curves = Vec::new();
    for (c2, model) in variabilities.iter().zip(&models) {
        let mut found = curve(model, arguments.mpl.last, stop)?;
        let least = least(model, &found, stop)?;
        found.retain(|at| arguments.mpl.first <= at.mpl);
        if models.len() == 1 {
            report.table(values(&found, arguments.mpl));
        }
        curves.push(Curve {
            name: format!("c2_{c2}").replace('.', "_"),
            label: format!("C² {c2}"),
            points: found.iter().map(|at| (at.mpl, at.response)).collect(),
            least,
        });
    }
    SUBJECT.report(&curves, arguments.mpl, &mut report);
    explain(arguments, &models[0], &mut report)?;
    Ok(report)
}

/// Calculates the response under each limit, the least first. Where sizes vary much and loads are high this takes most
/// of a minute.
fn curve(model: &Response, last: usize, stop: &Stop) -> anyhow::Result<Vec<AtMpl>> {
    // The time for a limit grows with its third power.
    let work = |mpl: usize| (mpl as u64).pow(3);
    let bar = progress::bar((1..=last).map(work).sum()).with_message("curve");
    let mut found = Vec::new();
    for at in model.each(last).map_err(refuse)? {
        bar.inc(work(at.mpl));
        found.push(at);
        stop.wait(Duration::ZERO)?;
    }
    bar.finish_and_clear();
    Ok(found)
}

/// Returns the least limit for each increase, from the largest increase on, because a limit that is out of reach for
/// that one is out of reach for all. Limits are searched for only beyond the end of the curve.
fn least(model: &Response, curve: &[AtMpl], stop: &Stop) -> anyhow::Result<Vec<Result<usize, ModelError>>> {
    let bar = progress::bar(INCREASES.len() as u64).with_message("least limits");
    let mut least = Vec::new();
    for increase in INCREASES.iter().rev() {
        let enough = curve.iter().find(|at| at.keeps(*increase));
        least.push(match (least.last(), enough) {
            (Some(Err(error)), _) => Err(*error),
            (_, Some(at)) => Ok(at.mpl),
            _ => model.least_mpl(*increase),
        });
        bar.inc(1);
        stop.wait(Duration::ZERO)?;
    }
    bar.finish_and_clear();
    least.reverse();
    Ok(least)
}

fn values(found: &[AtMpl], limits: MplRange) -> TextTable {
    let head = ["MPL", "mean response", "of it outside", "wait outside %", "times no limit's"];
    let mut table = TextTable::new(SUBJECT.title, &head);
    for at in found.iter().filter(|at| limits.shows(at.mpl)) {
        let numbers = [at.response, at.external_wait, 100.0 * at.waits, at.ratio_to_ps].map(number);
        table.row([at.mpl.to_string()].into_iter().chain(numbers));
    }
    table
}

fn explain(arguments: &ResponseArguments, model: &Response, report: &mut Report) -> anyhow::Result<()> {
    let without = number(model.processor_sharing());
    report.note(format!("Without a limit (processor sharing) it is {without} mean service times, whatever C² is."));
    if let ([c2], 1) = (&arguments.c2[..], arguments.servers) {
        let fifo = pollaczek_khinchine(arguments.load, c2.max(1.0)).map_err(refuse)?;
        report.note(format!("One at a time (first come first served) it is {}.", number(fifo)));
    }
    let work = arguments.load * f64::from(arguments.servers);
    if arguments.mpl.first as f64 <= work {
        report.note(format!("Below MPL {:.0} work arrives faster than it can be done.", work.floor() + 1.0));
    }
    Ok(())
}
