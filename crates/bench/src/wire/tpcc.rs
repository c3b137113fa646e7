//! `overtake bench wire tpcc`: TPC-C as a client of the database runs it, statement by statement.
//!
//! **Invariant:** every server has the same rows and gets the same inputs by the same driver; each transaction is the
//! standard's, in a transaction block under READ COMMITTED; and the consistency conditions hold afterwards, asked in SQL,
//! or there is no report.

mod check;
mod data;
mod drive;
mod pipelined;
mod statements;
mod transactions;

pub use check::check;
pub use data::{load, settle};
pub use drive::drive;
pub use pipelined::new_order as pipelined_new_order;
pub use statements::Statements;
pub use transactions::{Failure, TpccOutcome, attempt, retried, retrying};

use super::servers::{MeasuredServer, ServerChoice};
use crate::arguments::PhaseDuration;
use crate::report::median;
use crate::report::{BarChart, Machine, Report, TextTable, number};
use clap::Args;
use drive::Driven;
use host::memory;
use host::stop::Stop;
use serde::Serialize;
use workloads::tpcc::{Mix, Scale, TransactionKind};

/// Arguments of `bench wire tpcc`.
#[derive(Args, Debug, Serialize)]
pub struct WireTpccArguments {
    /// Length of one round.
    #[command(flatten)]
    #[serde(flatten)]
    duration: PhaseDuration,
    /// Number of clients, each with a home warehouse, 1 to 1,000.
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    clients: u32,
    /// Number of TPC-C's warehouses, 1 to 100.
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    warehouses: u32,
    /// Use a population fifty times smaller than the standard's, for a quick look.
    #[arg(long)]
    small: bool,
    /// Number of rounds of each server, in turn, 1 to 100.
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seed of population and inputs.
    #[arg(long, value_name = "NUMBER", default_value_t = 42)]
    seed: u64,
    /// Servers to measure.
    #[command(flatten)]
    #[serde(flatten)]
    which: ServerChoice,
}

/// Results of one server in all rounds.
#[derive(Default)]
struct TpccRounds {
    per_s: Vec<f64>,
    sum: Driven,
}

impl TpccRounds {
    fn per_s(&self) -> f64 {
        median(&self.per_s)
    }

    fn processor_us(&self) -> Option<f64> {
        Some(self.sum.processor_s? * 1e6 / self.sum.committed().max(1) as f64)
    }
}

/// Measures and reports.
///
/// # Errors
/// If PostgreSQL is not available, memory is short, a server refuses something, a condition does not hold, or the run
/// is stopped.
pub fn run(arguments: &WireTpccArguments, stop: &Stop) -> anyhow::Result<Report> {
    // A warehouse takes 110 MB here while it is made, as much in each server, and the growth of a run.
    let needed = (500 + 600 * u64::from(arguments.warehouses)) << 20;
    memory::require(
        if arguments.small { 500 << 20 } else { needed },
        "lower --warehouses, or raise the container's limit",
    )?;
    let mut report = Report::new("wire tpcc", arguments, Machine::read())?;
    let warehouses = arguments.warehouses as i32;
    let scale = if arguments.small { Scale::small(warehouses) } else { Scale::spec(warehouses) };
    let targets = arguments.which.start(true, arguments.clients + 20)?;
    for refused in load(&targets, scale, arguments.seed, stop)? {
        report.note(refused);
    }
    let mut measured: Vec<TpccRounds> = targets.iter().map(|_| TpccRounds::default()).collect();
    for round in 1..=arguments.rounds {
        for (target, rounds) in targets.iter().zip(&mut measured) {
            let seed = arguments.seed + u64::from(round);
            let driven = drive(target, scale, arguments.clients, seed, arguments.duration.get(), stop)?;
            tracing::info!(round, server = target.title, per_s = driven.committed_per_s(), "measured");
            rounds.per_s.push(driven.committed_per_s());
            rounds.sum.add(&driven);
        }
    }
    for target in &targets {
        tracing::info!(server = target.title, "checking the consistency conditions");
        report.note(check::check(target, stop)?);
    }
    fill(&mut report, arguments, &targets, &measured);
    report.note(format!("Medians of {} rounds in turn, READ COMMITTED, no keying and think times. Per second and server CPU: committed transactions; rolled back New-Orders (1 %) do not count. Latencies from the first statement to the end, retries inside.", arguments.rounds));
    report.note("Overtake has no log yet: its data is in memory. PostgreSQL runs with synchronous_commit off.");
    Ok(report)
}

fn fill(report: &mut Report, arguments: &WireTpccArguments, targets: &[MeasuredServer], measured: &[TpccRounds]) {
    let header = [
        "",
        "per s",
        "New-Order p50 ms",
        "p99 ms",
        "p99.9 ms",
        "max ms",
        "retries in 1,000",
        "server CPU µs",
        "ours / this",
        "CPU ours / this",
    ];
    let title = format!(
        "TPC-C over the wire, {} warehouses, {} clients, {}",
        arguments.warehouses,
        arguments.clients,
        mix_in_words()
    );
    let mut table = TextTable::new(title, &header);
    let mut chart = BarChart::new(
        "TPC-C: committed transactions a second",
        "1/s",
        &targets.iter().map(|target| target.title).collect::<Vec<_>>(),
    );
    chart.group("all five", &measured.iter().map(TpccRounds::per_s).collect::<Vec<_>>());
    report.chart(chart);
    // Ratios exist only if Overtake is among the servers.
    let ours = targets.iter().zip(measured).find(|(target, _)| target.is_overtake()).map(|(_, rounds)| rounds);
    for (target, rounds) in targets.iter().zip(measured) {
        let key = target.key;
        let new_order = rounds.sum.latency(TransactionKind::NewOrder).quantiles_us();
        let others = ours.filter(|_| !target.is_overtake());
        let times = others.map(|ours| ours.per_s() / rounds.per_s());
        let processor = others.and_then(|ours| Some(ours.processor_us()? / rounds.processor_us()?));
        let retries = 1e3 * rounds.sum.retries as f64 / rounds.sum.committed().max(1) as f64;
        let cell = |value: Option<f64>| value.map_or_else(String::new, number);
        table.row([
            target.title.to_owned(),
            number(rounds.per_s()),
            number(new_order.p50 / 1e3),
            number(new_order.p99 / 1e3),
            number(new_order.p999 / 1e3),
            number(new_order.max / 1e3),
            number(retries),
            cell(rounds.processor_us()),
            cell(times),
            cell(processor),
        ]);
        report.figure(format!("wire.tpcc.{key}.per_s"), rounds.per_s());
        report.figure(format!("wire.tpcc.{key}.retries"), rounds.sum.retries as f64);
        for kind in TransactionKind::ALL {
            let name = kind.name().replace('-', "_").to_lowercase();
            report.quantiles(&format!("wire.tpcc.{key}.{name}_us"), &rounds.sum.latency(kind).quantiles_us());
        }
        if let Some(us) = rounds.processor_us() {
            report.figure(format!("wire.tpcc.{key}.cpu_us"), us);
        }
        if let Some(times) = times {
            report.figure(format!("wire.tpcc.{key}_times"), times);
        }
        if let Some(ratio) = processor {
            report.figure(format!("wire.tpcc.cpu_vs_{key}"), ratio);
        }
    }
    report.table(table);
}

fn mix_in_words() -> String {
    let shares = TransactionKind::ALL.map(|kind| format!("{} % {}", Mix::Standard.percent(kind), kind.name()));
    shares.join(", ")
}
