//! `bench mpl internal`: priorities outside the server and inside it, side by side (section 5.2, Figures 12 and 13).
//!
//! Outside: a limit, and important transactions first in the queue. Inside: no limit, and the server's processes that
//! run unimportant transactions have a lower processor priority meanwhile. One transaction in ten is important, at
//! random, by a hint in its text.
//!
//! **Invariant:** all ways take turns, round by round, on one cluster with one set of tables.

use super::super::pgbench::{self, PgbenchScript, Protocol};
use super::super::postgres::Programs;
use super::super::servers::{MeasuredServer, postgres};
use super::gate;
use super::real::load::CLIENTS;
use super::real::setups::{self, SetupWork};
use crate::report::median;
use crate::report::{BarChart, Report, TextTable, number};
use anyhow::Context;
use host::stop::Stop;
use std::time::Duration;

/// Set-ups of `bench mpl real`, and limits that cost some 5 and 20 % of the throughput there.
const SETUPS: [(&str, &str, u32, u32); 2] = [("s15", "locks", 4, 3), ("s04", "processor", 6, 2)];

/// Returns the ways with their names in figures, their titles and their settings.
fn ways(mpl5: u32, mpl20: u32) -> [(&'static str, String, Vec<String>); 5] {
    let [off, inside] = ["overtake.mpl=off", "overtake.internal_priorities=on"].map(str::to_owned);
    let limit = |mpl: u32| format!("overtake.mpl={mpl}");
    [
        ("none", "no priorities, no limit".to_owned(), vec![off.clone()]),
        ("external5", format!("outside, MPL {mpl5}"), vec![limit(mpl5)]),
        ("external20", format!("outside, MPL {mpl20}"), vec![limit(mpl20)]),
        ("internal", "inside, no limit".to_owned(), vec![off, inside.clone()]),
        ("both5", format!("both, MPL {mpl5}"), vec![limit(mpl5), inside]),
    ]
}

/// Results of the rounds of one way.
#[derive(Default)]
struct RoundFigures {
    per_s: Vec<f64>,
    high_ms: Vec<f64>,
    low_ms: Vec<f64>,
    all_ms: Vec<f64>,
}

/// Measures and reports.
///
/// # Errors
/// If PostgreSQL is not available, a transaction fails, or the run is stopped.
pub fn measure(report: &mut Report, duration: Duration, rounds: u32, stop: &Stop) -> anyhow::Result<()> {
    let programs = Programs::find_or_install()?;
    let head = ["", "per s", "high ms", "low ms", "all ms", "high times", "low +%", "all +%"];
    let mut table =
        TextTable::new(format!("One transaction in ten important, {CLIENTS} clients, PostgreSQL 15"), &head);
    let mut chart = BarChart::new("Mean response", "ms", &["high", "low"]);
    for (name, bound_by, mpl5, mpl20) in SETUPS {
        let setup = setups::ALL.iter().find(|setup| setup.name == name).context("a set-up of bench mpl real")?;
        let SetupWork::Scripts { tables, scripts } = setup.work else { continue };
        let (important, others) = (hinted(scripts, "high", 1), hinted(scripts, "low", 9));
        let high_count = important.len();
        let all: Vec<(String, u32)> = important.into_iter().chain(others).collect();
        let all: Vec<(&str, u32)> = all.iter().map(|(text, weight)| (text.as_str(), *weight)).collect();
        let direct = postgres(3 * CLIENTS)?;
        setups::fill(&direct, tables)?;
        let files = setups::write(&all)?;
        let ways = ways(mpl5, mpl20);
        let fronts: Vec<MeasuredServer> = ways
            .iter()
            .map(|(_, _, settings)| {
                let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
                Ok(gate(&direct, &settings)?.0)
            })
            .collect::<anyhow::Result<_>>()?;
        let mut seen: Vec<RoundFigures> = ways.iter().map(|_| RoundFigures::default()).collect();
        for round in 0..=rounds {
            for ((front, seen), (way, ..)) in fronts.iter().zip(&mut seen).zip(&ways) {
                // The first round warms up.
                let length = if round == 0 { Duration::from_secs(1) } else { duration };
                let script = PgbenchScript::Files(&files.all);
                let run = pgbench::run(&programs, front, script, Protocol::Extended, CLIENTS, length, stop)?;
                tracing::info!(name, way, round, per_s = run.per_s, "measured");
                if 0 < round {
                    seen.per_s.push(run.per_s);
                    seen.all_ms.push(run.latency.mean_us() / 1e3);
                    let (high, low) = run.by_script.split_at(high_count);
                    for (of, ms) in [(high, &mut seen.high_ms), (low, &mut seen.low_ms)] {
                        let mut sum = stage::Histogram::new();
                        of.iter().for_each(|one| sum.add(one));
                        ms.push(sum.mean_us() / 1e3);
                    }
                }
            }
        }
        let none_ms = median(&seen[0].all_ms);
        for ((key, words, _), seen) in ways.iter().zip(&seen) {
            let [high, low, all] = [&seen.high_ms, &seen.low_ms, &seen.all_ms].map(|ms| median(ms));
            let (times, low_more, all_more) = (low / high, low / none_ms - 1.0, all / none_ms - 1.0);
            let label = format!("{bound_by}: {words}");
            chart.group(label.clone(), &[high, low]);
            let cells = [median(&seen.per_s), high, low, all, times, 100.0 * low_more, 100.0 * all_more].map(number);
            table.row([label].into_iter().chain(cells));
            let figures = [
                ("per_s", median(&seen.per_s)),
                ("high_ms", high),
                ("low_ms", low),
                ("all_ms", all),
                ("high_times", times),
                ("low_increase", low_more),
                ("all_increase", all_more),
            ];
            for (figure, value) in figures {
                report.figure(format!("internal.{name}.{key}.{figure}"), value);
            }
        }
    }
    report.table(table);
    report.chart(chart);
    report.note("Inside: the server's process that runs a transaction that is not important has a lower processor priority meanwhile (overtake.internal_priorities). +% is against no priorities and no limit. Medians of rounds in turn.");
    Ok(())
}

/// Returns the scripts with a hint in their first statement, and with their weights multiplied by `times`.
fn hinted(scripts: &[(&str, u32)], class: &str, times: u32) -> Vec<(String, u32)> {
    let hint = |text: &str| {
        let meta: usize = text.lines().take_while(|line| line.starts_with('\\')).map(|line| line.len() + 1).sum();
        format!("{}/*+ priority={class} */ {}", &text[..meta], &text[meta..])
    };
    scripts.iter().map(|(text, weight)| (hint(text), weight * times)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_stands_before_the_first_statement() {
        let hinted = hinted(&[("\\set a 1\n\\set b 2\nbegin;\nend;\n", 3)], "high", 9);
        assert_eq!(hinted, [("\\set a 1\n\\set b 2\n/*+ priority=high */ begin;\nend;\n".to_owned(), 27)]);
    }
}
