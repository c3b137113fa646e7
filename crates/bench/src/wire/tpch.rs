//! `overtake bench wire tpch`: TPC-H's 22 queries from a client, against PostgreSQL over the same wire and DuckDB
//! beside.
//!
//! **Invariant:** a time is from the query's text to its last row at the client; DuckDB's is measured by its own
//! process. Sides take turns query by query. Before, each query has run once everywhere and the servers' answers were
//! compared.

mod answers;
mod cancel;
mod data;

pub use data::load;

use super::client::{Control, TextRows};
use super::servers::{MeasuredServer, ServerChoice};
use crate::report::{Machine, Report, TextTable, number};
use crate::report::{geometric_mean, median};
use crate::tpch::duck::Duck;
use anyhow::Context;
use clap::Args;
use host::memory;
use host::stop::Stop;
use preempt::os;
use serde::Serialize;
use std::time::{Duration, Instant};
use workloads::tpch::{self, Comments, QUERIES_COUNT};

/// Arguments of `bench wire tpch`.
#[derive(Args, Debug, Serialize)]
pub struct WireTpchArguments {
    /// TPC-H's scale factor, 0.01 to 100; 1 takes 9 GB of memory, all servers' together.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = crate::arguments::scale_factor)]
    scale_factor: f64,
    /// Number of measured runs of each query by each side, 1 to 1,000; the median counts. One more, before, is not
    /// measured.
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Number of times that each query is cancelled, 0 to 1,000, at moments spread over the time that it takes.
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    cancels: u32,
    /// Skip DuckDB, which is then neither looked for nor installed.
    #[arg(long)]
    without_duckdb: bool,
    /// Servers to measure.
    #[command(flatten)]
    #[serde(flatten)]
    which: ServerChoice,
}

/// Times of one side: seconds of each run, by query.
struct Side {
    key: &'static str,
    title: String,
    seconds: Vec<Vec<f64>>,
    /// Processor time of the server, over all measured runs.
    processor_s: Option<f64>,
}

impl Side {
    fn new(key: &'static str, title: String) -> Side {
        Side { key, title, seconds: vec![Vec::new(); QUERIES_COUNT], processor_s: None }
    }

    fn medians_ms(&self) -> Vec<f64> {
        self.seconds.iter().map(|seconds| median(seconds) * 1e3).collect()
    }
}

/// Measures and reports.
///
/// # Errors
/// If memory is short, PostgreSQL or DuckDB are not available, the run is stopped, a query is refused, or answers
/// differ.
pub fn run(arguments: &WireTpchArguments, stop: &Stop) -> anyhow::Result<Report> {
    let needed = (1.0e9 + 8.0e9 * arguments.scale_factor) as u64;
    memory::require(needed, "lower --scale-factor, or raise the container's limit")?;
    let mut report = Report::new("wire tpch", arguments, Machine::read())?;
    let with_duck = !arguments.without_duckdb;
    let mut duck = with_duck.then(|| Duck::start(os::cpus().len())).transpose()?;
    let targets = arguments.which.start(false, 20)?;
    for refused in load(&targets, arguments.scale_factor, stop)? {
        report.note(refused);
    }
    if let Some(duck) = &mut duck {
        tracing::info!(version = duck.version(), "loading DuckDB");
        duck.load(arguments.scale_factor, Comments::Specified, stop)?;
    }
    let controls = targets.iter().map(Control::connect).collect::<anyhow::Result<Vec<Control>>>()?;
    tracing::info!("comparing answers");
    for number in 1..=QUERIES_COUNT {
        let reordered = compare(number, &targets, &controls, stop)?;
        if let Some(duck) = &mut duck {
            duck.query(tpch::query(number), false)?;
        }
        if reordered {
            report.note(format!("Q{number}: the answers have the same rows in another order."));
        }
    }
    let mut sides: Vec<Side> = targets.iter().map(|target| Side::new(target.key, target.title.to_owned())).collect();
    if let Some(duck) = &duck {
        sides.push(Side::new("duckdb", format!("DuckDB {}", duck.version())));
    }
    for round in 0..arguments.rounds as usize {
        tracing::info!(round = round + 1, "measuring");
        for query in 0..QUERIES_COUNT {
            // The first side finds the processors' caches as another query has left them, so the first place rotates.
            for turn in 0..sides.len() {
                stop.wait(Duration::ZERO)?;
                let at = (turn + round) % sides.len();
                let text = tpch::query(query + 1);
                let seconds = match (targets.get(at).zip(controls.get(at)), &mut duck) {
                    (Some((target, control)), _) => {
                        let before = target.processor_s()?;
                        let began = Instant::now();
                        control.rows(text).with_context(|| format!("{}: query {}", target.title, query + 1))?;
                        let seconds = began.elapsed().as_secs_f64();
                        let spent = before.zip(target.processor_s()?).map(|(before, after)| after - before);
                        sides[at].processor_s = spent.map(|spent| spent + sides[at].processor_s.unwrap_or(0.0));
                        seconds
                    }
                    (None, Some(duck)) => duck.query(text, false)?.seconds,
                    (None, None) => continue,
                };
                sides[at].seconds[query].push(seconds);
            }
        }
    }
    fill(&mut report, arguments, &sides);
    if 0 < arguments.cancels {
        tracing::info!(each = arguments.cancels, "cancelling");
        let mut cancels = Vec::new();
        for (target, side) in targets.iter().zip(&sides) {
            cancels.push((target, cancel::measure(target, &side.medians_ms(), arguments.cancels, stop)?));
        }
        fill_cancels(&mut report, &cancels);
    }
    Ok(report)
}

/// Runs a query everywhere once and compares the answers with the first server's; returns true if an order of rows
/// differs.
fn compare(number: usize, targets: &[MeasuredServer], controls: &[Control], stop: &Stop) -> anyhow::Result<bool> {
    let text = tpch::query(number);
    let mut first: Option<TextRows> = None;
    let mut reordered = false;
    for (target, control) in targets.iter().zip(controls) {
        stop.wait(Duration::ZERO)?;
        let began = Instant::now();
        let answer = || {
            let rows = control.rows(text)?;
            anyhow::Ok((rows, control.floating_columns(text)?))
        };
        let (rows, floating) = answer().with_context(|| format!("{}: query {number}", target.title))?;
        tracing::info!(query = number, server = target.title, seconds = began.elapsed().as_secs_f64(), "answered");
        match &first {
            None => first = Some(rows),
            Some(first) => {
                reordered |= answers::compare(first, &rows, &floating).map_err(|what| {
                    anyhow::anyhow!(
                        "query {number}: answers of {} and {} differ: {what}",
                        targets[0].title,
                        target.title
                    )
                })?;
            }
        }
    }
    Ok(reordered)
}

fn fill_cancels(report: &mut Report, cancels: &[(&MeasuredServer, cancel::Cancels)]) {
    let header = ["", "cancels", "p50 ms", "p99 ms", "max ms", "answered after all"];
    let mut table = TextTable::new("Queries cancelled: from the request to the end at the client", &header);
    for (target, cancel::Cancels { times, answered }) in cancels {
        let found = times.quantiles_us();
        let ms = |us: f64| number(us / 1e3);
        let (count, answered) = (times.count().to_string(), answered.to_string());
        table.row([target.title.to_owned(), count, ms(found.p50), ms(found.p99), ms(found.max), answered]);
        report.quantiles(&format!("wire.tpch.{}.cancel_us", target.key), &found);
    }
    report.table(table);
}

fn fill(report: &mut Report, arguments: &WireTpchArguments, sides: &[Side]) {
    let ours = sides.iter().find(|side| side.key == "overtake");
    let others: Vec<&Side> = sides.iter().filter(|side| side.key != "overtake").collect();
    let mut header: Vec<String> = vec![String::new()];
    header.extend(ours.map(|side| format!("{} ms", side.title)));
    for other in &others {
        header.push(format!("{} ms", other.title));
        header.extend(ours.map(|_| "ours / it".to_owned()));
    }
    let title = format!("TPC-H over the wire, scale factor {}, median time of each query", arguments.scale_factor);
    let mut table = TextTable::new(title, &header.iter().map(String::as_str).collect::<Vec<_>>());
    let medians: Vec<Vec<f64>> = sides.iter().map(Side::medians_ms).collect();
    let means: Vec<f64> = medians.iter().map(|medians| geometric_mean(medians)).collect();
    // `None` in the place of a query stands for the geometric mean of all.
    let of = |side: &Side, query: Option<usize>| {
        let at = sides.iter().position(|other| other.key == side.key)?;
        query.map_or_else(|| means.get(at).copied(), |query| medians[at].get(query).copied())
    };
    for query in (0..QUERIES_COUNT).map(Some).chain([None]) {
        let mut row = vec![query.map_or_else(|| "geometric mean".to_owned(), |query| format!("Q{}", query + 1))];
        let our_ms = ours.and_then(|ours| of(ours, query));
        row.extend(our_ms.map(number));
        for other in &others {
            let ms = of(other, query).unwrap_or(f64::NAN);
            row.push(number(ms));
            row.extend(our_ms.map(|ours| number(ours / ms)));
        }
        table.row(row);
    }
    report.table(table);
    for (side, (medians, mean)) in sides.iter().zip(medians.iter().zip(&means)) {
        for (query, ms) in medians.iter().enumerate() {
            report.figure(format!("wire.tpch.q{:02}.{}_ms", query + 1, side.key), *ms);
        }
        report.figure(format!("wire.tpch.{}_ms", side.key), *mean);
        if let Some(seconds) = side.processor_s {
            let a_round = seconds / f64::from(arguments.rounds);
            report.figure(format!("wire.tpch.{}_cpu_s", side.key), a_round);
            report.note(format!("{}: {} s of processor time for the 22 queries.", side.title, number(a_round)));
        }
    }
    if let Some(our_mean) = ours.and_then(|ours| of(ours, None)) {
        for other in others {
            report.figure(format!("wire.tpch.vs_{}", other.key), our_mean / of(other, None).unwrap_or(f64::NAN));
        }
    }
    report.note(format!("Medians of {} runs in turn, from the query's text to its last row at the client; the servers' answers are equal. PostgreSQL has primary keys and indexes on the foreign keys, is analysed, jit off, {} processors for parallel workers.", arguments.rounds, os::cpus().len()));
}
