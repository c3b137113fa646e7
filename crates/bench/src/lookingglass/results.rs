//! Tables, figures and charts of the rungs.

use super::drive::{Driven, Work};
use super::key_value::CALLS;
use super::rungs::{POINTS, RUNGS, Rung};
use crate::report::median;
use crate::report::{Report, StackChart, TextTable, number};
use crate::wire::servers::MeasuredServer;
use std::collections::BTreeMap;

/// Rung of one server, in all rounds.
pub struct Row<'a> {
    /// Server.
    pub target: &'a MeasuredServer,
    /// Rung.
    pub rung: &'static Rung,
    /// Work.
    pub work: Work,
    /// Rates of the rounds.
    per_s: Vec<f64>,
    /// Sum of the rounds.
    sum: Driven,
}

/// Stages of the server that are work, in the order in which a statement passes them.
const STAGES: [&str; 10] = [
    "network_read",
    "decode",
    "parse",
    "plan",
    "plan_cached",
    "run",
    "crossing",
    "encode",
    "network_write",
    "unattributed",
];

/// Parts of a bar. Neighbours of little time are one part, and PostgreSQL's processor time is whole.
const PARTS: [&str; 8] =
    ["network", "decode, encode", "parse, plan", "run", "crossing", "workers", "unattributed", "PostgreSQL"];

impl<'a> Row<'a> {
    /// Creates a row without rounds.
    pub fn new(target: &'a MeasuredServer, rung: &'static Rung, work: Work) -> Row<'a> {
        Row { target, rung, work, per_s: Vec::new(), sum: Driven::default() }
    }

    /// Adds a round.
    pub fn add(&mut self, driven: &Driven) {
        self.per_s.push(driven.per_s());
        self.sum.add(driven);
    }

    /// Returns the key in figures' names: those of PostgreSQL have a prefix.
    pub fn key(&self) -> String {
        let prefix = if self.target.is_overtake() { "" } else { "postgres_" };
        format!("{prefix}{}", self.rung.key)
    }

    /// Returns the committed transactions per second: the median of the rounds.
    pub fn per_s(&self) -> f64 {
        median(&self.per_s)
    }

    /// Returns the server's processor time for each transaction, in microseconds.
    pub fn cpu_us(&self) -> f64 {
        self.sum.us_each(self.sum.used.server.all_s)
    }

    fn stage_us(&self, stage: &str) -> f64 {
        self.sum.us_each(self.sum.used.stage_s(stage))
    }

    fn outside_us(&self) -> f64 {
        self.sum.us_each(self.sum.used.outside_s())
    }

    fn workers_us(&self) -> f64 {
        self.sum.us_each(self.sum.used.workers.all_s)
    }

    fn verdict(&self) -> &'static str {
        self.sum.used.verdict()
    }

    fn title(&self) -> String {
        format!("{}, {}", self.target.title, self.rung.title)
    }
}

/// Reports the rows of one work: `key` begins the figures' names, `title` says what a transaction is.
pub fn fill(report: &mut Report, key: &str, title: &str, rows: &[Row<'_>]) {
    figures(report, key, rows);
    report.table(costs(title, rows));
    report.table(stages(title, rows));
}

/// Returns the part of a stage's time that is the server's own. A worker on the server's processor runs within the call
/// that wakes it, which is part of the stage `crossing`; so all stages together exceed the processor time, and the time
/// outside of them is negative.
pub fn own_us(stage: &str, us: f64, outside_us: f64) -> f64 {
    match stage {
        "crossing" => us + outside_us.min(0.0),
        "outside" => us.max(0.0),
        _ => us,
    }
}

/// Adds the bars of all works of which there are figures.
pub fn charts(report: &mut Report) {
    let key_value = CALLS.map(|calls| {
        (
            format!("glass.kv.{calls}"),
            format!("Key-value mix, {calls} calls").replace(" 1 calls", " 1 call"),
            &RUNGS[..],
        )
    });
    let works = [("glass.new_order".to_owned(), "New-Order".to_owned(), &RUNGS[..])]
        .into_iter()
        .chain(key_value)
        .chain([("glass.point".to_owned(), "Look-ups by key".to_owned(), &POINTS[..])]);
    for (key, title, rungs) in works {
        let mut chart = StackChart::new(format!("{title}: server processor time"), "µs per transaction", &PARTS);
        let mut has_bars = false;
        for (prefix, server) in [("", "Overtake"), ("postgres_", "PostgreSQL")] {
            for rung in rungs {
                if let Some(parts) = parts(report.figures(), &format!("{key}.{prefix}{}", rung.key)) {
                    chart.bar(format!("{server}, {}", rung.title.replace("stored, ", "")), &parts);
                    has_bars = true;
                }
            }
        }
        if has_bars {
            report.chart(chart);
        }
    }
}

/// Returns the parts of the bar of one rung; `None` without figures.
fn parts(figures: &BTreeMap<String, f64>, rung: &str) -> Option<[f64; PARTS.len()]> {
    let of = |what: &str| figures.get(&format!("{rung}.{what}")).copied();
    let all = of("cpu_us")?;
    let Some(outside_us) = of("stage.outside_us") else {
        return Some([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, all]);
    };
    let own = |stage: &&str| own_us(stage, of(&format!("stage.{stage}_us")).unwrap_or(0.0), outside_us);
    let sum = |stages: &[&str]| stages.iter().map(own).sum::<f64>();
    let attributed = [
        sum(&["network_read", "network_write"]),
        sum(&["decode", "encode"]),
        sum(&["parse", "plan", "plan_cached"]),
        sum(&["run"]),
        sum(&["crossing"]),
        of("worker_us").unwrap_or(0.0),
    ];
    let [network, codec, plan, run, crossing, workers] = attributed;
    let rest = (all - attributed.iter().sum::<f64>()).max(0.0);
    Some([network, codec, plan, run, crossing, workers, rest, 0.0])
}

fn figures(report: &mut Report, key: &str, rows: &[Row<'_>]) {
    for row in rows {
        let name = |what: &str| format!("{key}.{}.{what}", row.key());
        let used = &row.sum.used;
        report.figure(name("per_s"), row.per_s());
        report.figure(name("cpu_us"), row.cpu_us());
        report.figure(name("kernel_us"), row.sum.us_each(used.server.kernel_s));
        report.figure(name("worker_us"), row.workers_us());
        report.figure(name("p50_us"), row.sum.latency.quantile_us(0.5));
        report.figure(name("client_cpu_us"), row.sum.us_each(used.client.all_s));
        report.figure(name("client_kernel_us"), row.sum.us_each(used.client.kernel_s));
        report.figure(name("server_busy"), used.server_busy());
        report.figure(name("client_busy"), used.client_busy());
        report.figure(name("saturated"), f64::from(used.is_saturated()));
        if row.target.is_overtake() {
            for stage in STAGES {
                report.figure(name(&format!("stage.{stage}_us")), row.stage_us(stage));
            }
            report.figure(name("stage.outside_us"), row.outside_us());
        }
    }
}

fn costs(title: &str, rows: &[Row<'_>]) -> TextTable {
    let header = [
        "",
        "per s",
        "p50 ms",
        "server µs",
        "kernel",
        "workers",
        "client µs",
        "kernel",
        "server %",
        "client %",
        "rolled back",
        "retries",
        "",
    ];
    let mut table = TextTable::new(format!("{title}: processor time per transaction"), &header);
    for row in rows {
        let used = &row.sum.used;
        let us = |seconds: f64| number(row.sum.us_each(seconds));
        table.row([
            row.title(),
            number(row.per_s()),
            number(row.sum.latency.quantile_us(0.5) / 1e3),
            us(used.server.all_s),
            us(used.server.kernel_s),
            us(used.workers.all_s),
            us(used.client.all_s),
            us(used.client.kernel_s),
            number(100.0 * used.server_busy()),
            number(100.0 * used.client_busy()),
            row.sum.rolled_back.to_string(),
            row.sum.retries.to_string(),
            row.verdict().to_owned(),
        ]);
    }
    table
}

/// Returns the table of Overtake's stages; PostgreSQL has no such clock.
fn stages(title: &str, rows: &[Row<'_>]) -> TextTable {
    let header = [
        "",
        "network read",
        "decode",
        "parse",
        "plan",
        "plan cached",
        "run",
        "crossing",
        "encode",
        "network write",
        "unattributed",
        "outside",
        "workers",
        "sum",
    ];
    let mut table = TextTable::new(format!("{title}: Overtake's stages, µs per transaction"), &header);
    for row in rows.iter().filter(|row| row.target.is_overtake()) {
        let stages = STAGES.map(|stage| number(own_us(stage, row.stage_us(stage), row.outside_us())));
        let ends = [row.outside_us().max(0.0), row.workers_us(), row.cpu_us()].map(number);
        table.row([row.rung.title.to_owned()].into_iter().chain(stages).chain(ends));
    }
    table
}
