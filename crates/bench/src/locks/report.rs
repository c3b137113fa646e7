//! Tables, figures and charts of the phases: the waits under each setting, and its cost.

use super::phase::{ClassTally, LockPhaseResult};
use super::{LoadResults, Setting};
use crate::report::{BarChart, PercentileChart, Report, TextTable, number};
use engine::LockPriority;

/// Minimum of low priority's throughput, as a share of that under `none`: a setting below it costs too much.
const LOW_SHARE_MIN: f64 = 0.8;

/// Fills `report`.
pub fn fill(report: &mut Report, results: &[LoadResults]) {
    let mut best = Vec::new();
    for load in results {
        figures(report, load);
        means(report, load);
        quantiles(report, load);
        aborts(report, load);
        takings(report, load);
        charts(report, load);
        best.push(verdict(report, load));
    }
    let late = results.iter().flat_map(|load| &load.settings).fold(stage::Histogram::new(), |mut sum, setting| {
        sum.add(&setting.result.late);
        sum
    });
    report.quantiles("locks.client_late_us", &late.quantiles_us());
    report.note(format!(
        "Clients sent their statements {} µs late at p50, {} at p99; this is inside the response times.",
        number(late.quantile_us(0.5)),
        number(late.quantile_us(0.99))
    ));
    report.note("Response: from the client's wish to begin to the end of the commit, with aborted attempts and the client's time between statements. Wasted: the part of the time that statements ran in attempts that were aborted.");
    let names: Vec<&str> = best.iter().map(|priority| priority.name()).collect();
    report.note(if names.windows(2).all(|pair| pair[0] == pair[1]) {
        format!("These tables support the default lock_priority = {}.", names[0])
    } else {
        format!("Each load has another best setting: {}.", names.join(", "))
    });
}

/// Returns a setting's name in figures.
fn in_figures(priority: LockPriority) -> String {
    priority.name().replace('-', "_")
}

/// Returns the classes, and both together, with their names in figures.
fn classes(result: &LockPhaseResult) -> [(&'static str, ClassTally); 3] {
    [("high", result.high.clone()), ("low", result.low.clone()), ("overall", result.overall())]
}

fn figures(report: &mut Report, load: &LoadResults) {
    for Setting { priority, result } in &load.settings {
        for (class, tally) in classes(result) {
            let name = |what: &str| format!("{}.{}.{class}_{what}", load.prefix, in_figures(*priority));
            report.figure(name("mean_us"), tally.response.mean_us());
            report.quantiles(&name("us"), &tally.response.quantiles_us());
            report.figure(name("per_s"), tally.response.count() as f64 / result.seconds);
            report.figure(name("aborts"), tally.aborts() as f64);
            report.figure(name("wasted_share"), tally.wasted_share());
            report.figure(name("lock_wait_mean_us"), lock_wait_mean_us(&tally));
        }
    }
}

/// Returns the time parked per committed transaction, in microseconds.
fn lock_wait_mean_us(tally: &ClassTally) -> f64 {
    tally.lock_wait_ns as f64 / 1e3 / tally.response.count().max(1) as f64
}

fn means(report: &mut Report, load: &LoadResults) {
    let header = ["lock_priority", "high µs", "low µs", "all µs", "high/s", "low/s", "of none", "aborts/s", "wasted"];
    let mut table = TextTable::new(format!("{}: mean response", load.title), &header);
    let none = &load.settings[0].result;
    let low_under_none = none.low.response.count() as f64 / none.seconds;
    for Setting { priority, result } in &load.settings {
        let all = result.overall();
        let per_s = |count: u64| count as f64 / result.seconds;
        table.row([
            priority.name().to_owned(),
            number(result.high.response.mean_us()),
            number(result.low.response.mean_us()),
            number(all.response.mean_us()),
            number(per_s(result.high.response.count())),
            number(per_s(result.low.response.count())),
            number(per_s(result.low.response.count()) / low_under_none),
            number(per_s(all.aborts())),
            format!("{:.1} %", 100.0 * all.wasted_share()),
        ]);
    }
    report.table(table);
}

fn quantiles(report: &mut Report, load: &LoadResults) {
    let header = ["", "p50", "p90", "p99", "p99.9", "max", "mean lock wait"];
    let mut table = TextTable::new(format!("{}: response, µs", load.title), &header);
    for Setting { priority, result } in &load.settings {
        for (class, tally) in &classes(result)[..2] {
            let name = format!("{} {class}", priority.name());
            let numbers = tally.response.quantiles_us().named().map(|(_, value)| number(value));
            table.row([name].into_iter().chain(numbers).chain([number(lock_wait_mean_us(tally))]));
        }
    }
    report.table(table);
}

fn aborts(report: &mut Report, load: &LoadResults) {
    let mut states: Vec<&str> = Vec::new();
    for Setting { result, .. } in &load.settings {
        states.extend(result.overall().aborts.keys());
    }
    states.sort_unstable();
    states.dedup();
    if states.is_empty() {
        return report.note(format!("{}: no transaction was aborted under any setting.", load.title));
    }
    let header: Vec<&str> = [""].into_iter().chain(states.iter().copied()).chain(["wasted", "parked"]).collect();
    let mut table = TextTable::new(format!("{}: aborted attempts by SQLSTATE", load.title), &header);
    for Setting { priority, result } in &load.settings {
        for (class, tally) in &classes(result)[..2] {
            let counts = states.iter().map(|state| number(tally.aborts.get(state).copied().unwrap_or(0) as f64));
            let name = format!("{} {class}", priority.name());
            let wasted = format!("{:.1} %", 100.0 * tally.wasted_share());
            table.row([name].into_iter().chain(counts).chain([wasted, number(tally.parks as f64)]));
        }
    }
    report.table(table);
}

fn charts(report: &mut Report, load: &LoadResults) {
    let mut bars = BarChart::new(format!("{}: mean response", load.title), "µs", &["high", "low", "overall"]);
    for Setting { priority, result } in &load.settings {
        bars.group(priority.name(), &classes(result).map(|(_, tally)| tally.response.mean_us()));
    }
    report.chart(bars);
    let mut lines = PercentileChart::new(format!("{}: response of class high", load.title), "µs");
    for Setting { priority, result } in &load.settings {
        lines.series(priority.name(), &result.high.response);
    }
    report.chart(lines);
}

/// Compares the settings with `none`, and returns the best one: the shortest response of high among those that leave
/// low its share.
fn verdict(report: &mut Report, load: &LoadResults) -> LockPriority {
    let none = &load.settings[0].result;
    let low_per_s = |result: &LockPhaseResult| result.low.response.count() as f64 / result.seconds;
    let low_share = |result: &LockPhaseResult| low_per_s(result) / low_per_s(none);
    let high_us = |result: &LockPhaseResult| result.high.response.mean_us();
    let affordable = load.settings.iter().filter(|setting| LOW_SHARE_MIN <= low_share(&setting.result));
    let Setting { priority, result: best } = affordable
        .min_by(|one, other| high_us(&one.result).total_cmp(&high_us(&other.result)))
        .expect("none leaves low all it has");
    let times = high_us(none) / high_us(best);
    report.figure(format!("{}.high_times", load.prefix), times);
    report.figure(format!("{}.low_share", load.prefix), low_share(best));
    report.note(format!(
        "{}: under {} high's mean response is {} times shorter than under none, and low does {} of its transactions.",
        load.title,
        priority.name(),
        number(times),
        number(low_share(best))
    ));
    *priority
}

/// Reports the aborts by victim and winner.
fn takings(report: &mut Report, load: &LoadResults) {
    for Setting { priority, result } in &load.settings {
        let words: Vec<String> =
            result.takings.iter().map(|(taking, count)| format!("{taking} {}", number(*count as f64))).collect();
        if !words.is_empty() || 0 < result.deadlocks {
            report.note(format!(
                "{}, {}: rows taken: {}; {} deadlocks, {} promotions.",
                load.title,
                priority.name(),
                if words.is_empty() { "none".to_owned() } else { words.join(", ") },
                number(result.deadlocks as f64),
                number(result.promotions as f64)
            ));
        }
    }
}
