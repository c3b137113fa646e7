//! `overtake bench wire tpcb` and `select`: pgbench's own scripts, prepared, at several numbers of clients.
//!
//! **Invariant:** servers take turns at each number of clients, round by round; a rate is the median of the rounds, latencies
//! are of all of them.

use super::client::Control;
use super::pgbench::{self, PgbenchRounds};
use super::postgres::Programs;
use super::servers::{MeasuredServer, ServerChoice};
use crate::arguments::PhaseDuration;
use crate::report::{BarChart, Machine, Report, TextTable, number};
use clap::Args;
use host::stop::Stop;
use serde::Serialize;
use std::time::Duration;

/// Arguments of `bench wire tpcb` and `select`.
#[derive(Args, Debug, Serialize)]
pub struct TpcbArguments {
    /// Length of one round, in whole seconds.
    #[command(flatten)]
    #[serde(flatten)]
    duration: PhaseDuration,
    /// Numbers of clients, separated by commas, 1 to 1,000 each.
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_values_t = [1, 8, 64], value_parser = clap::value_parser!(u32).range(1..=1_000))]
    clients: Vec<u32>,
    /// Scale of pgbench, 100,000 accounts each; 1 to 1,000.
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    scale: u32,
    /// Number of rounds at each number of clients, 1 to 100.
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Servers to measure.
    #[command(flatten)]
    #[serde(flatten)]
    which: ServerChoice,
}

/// Script of pgbench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TpcbScript {
    /// Three updates, a look-up and an insert in a transaction.
    Tpcb,
    /// A look-up by key.
    Select,
}

impl TpcbScript {
    fn pgbench_name(self) -> &'static str {
        match self {
            TpcbScript::Tpcb => "tpcb-like",
            TpcbScript::Select => "select-only",
        }
    }

    fn bench(self) -> &'static str {
        match self {
            TpcbScript::Tpcb => "wire tpcb",
            TpcbScript::Select => "wire select",
        }
    }

    fn figures(self) -> &'static str {
        match self {
            TpcbScript::Tpcb => "wire.tpcb",
            TpcbScript::Select => "wire.select",
        }
    }
}

/// Measures and reports.
///
/// # Errors
/// If PostgreSQL is not available, a server refuses something, a transaction fails, or the run is stopped.
pub fn run(arguments: &TpcbArguments, script: TpcbScript, stop: &Stop) -> anyhow::Result<Report> {
    let mut report = Report::new(script.bench(), arguments, Machine::read())?;
    let programs = Programs::find_or_install()?;
    let most = arguments.clients.iter().copied().max().unwrap_or(1);
    let targets = arguments.which.start(script == TpcbScript::Tpcb, most + 20)?;
    for target in &targets {
        tracing::info!(server = target.title, scale = arguments.scale, "loading");
        pgbench::initialise(&programs, target, arguments.scale, stop)?;
        if target.is_postgres() {
            // Pages that the load left to be written are not charged to the transactions.
            Control::connect(target)?.batch("checkpoint")?;
        }
    }
    let header =
        ["", "per s", "p50 µs", "p99 µs", "p99.9 µs", "max µs", "server CPU µs", "ours / this", "CPU ours / this"];
    let title = format!("pgbench {}, prepared, scale {}", script.pgbench_name(), arguments.scale);
    let mut table = TextTable::new(title, &header);
    let mut chart =
        BarChart::new("Transactions a second", "1/s", &targets.iter().map(|target| target.title).collect::<Vec<_>>());
    for &clients in &arguments.clients {
        let measured = measure(arguments, script, &programs, &targets, clients, stop)?;
        chart.group(format!("{clients} clients"), &measured.iter().map(PgbenchRounds::per_s).collect::<Vec<_>>());
        fill(&mut report, &mut table, script, clients, &targets, &measured);
    }
    report.table(table);
    report.chart(chart);
    report.note(format!("Medians of {} rounds in turn; latencies of all rounds, as pgbench logs them. pgbench runs on the same machine; its own processor time is not the server's.", arguments.rounds));
    report.note("Overtake has no log yet: its data is in memory. PostgreSQL runs with synchronous_commit off, shared_buffers a quarter of memory, max_wal_size 32 GB, jit off.");
    Ok(report)
}

fn measure(
    arguments: &TpcbArguments,
    script: TpcbScript,
    programs: &Programs,
    targets: &[MeasuredServer],
    clients: u32,
    stop: &Stop,
) -> anyhow::Result<Vec<PgbenchRounds>> {
    // A warm-up is no longer than a round.
    let warm_up = arguments.duration.get().min(Duration::from_secs(2));
    let run = |target: &MeasuredServer, duration| {
        let protocol = pgbench::Protocol::Prepared;
        let script = pgbench::PgbenchScript::BuiltIn(script.pgbench_name());
        pgbench::run(programs, target, script, protocol, clients, duration, stop)
    };
    let mut measured: Vec<PgbenchRounds> = targets.iter().map(|_| PgbenchRounds::default()).collect();
    for target in targets {
        run(target, warm_up)?;
    }
    for round in 1..=arguments.rounds {
        for (target, rounds) in targets.iter().zip(&mut measured) {
            let done = run(target, arguments.duration.get())?;
            tracing::info!(clients, round, server = target.title, per_s = done.per_s, "measured");
            rounds.add(&done);
        }
    }
    Ok(measured)
}

fn fill(
    report: &mut Report,
    table: &mut TextTable,
    script: TpcbScript,
    clients: u32,
    targets: &[MeasuredServer],
    measured: &[PgbenchRounds],
) {
    let prefix = format!("{}.c{clients}", script.figures());
    let ours = targets.iter().zip(measured).find(|(target, _)| target.is_overtake()).map(|(_, rounds)| rounds);
    for (target, rounds) in targets.iter().zip(measured) {
        let latency = rounds.latency.quantiles_us();
        // Ratios say how this server compares with Overtake, so Overtake's own row has none, nor has any row of a run
        // without it.
        let others = ours.filter(|_| !target.is_overtake());
        let times = others.map(|ours| ours.per_s() / rounds.per_s());
        let processor = others.and_then(|ours| Some(ours.processor_us()? / rounds.processor_us()?));
        let cell = |value: Option<f64>| value.map_or_else(String::new, number);
        table.row([
            format!("{clients} clients, {}", target.title),
            number(rounds.per_s()),
            number(latency.p50),
            number(latency.p99),
            number(latency.p999),
            number(latency.max),
            cell(rounds.processor_us()),
            cell(times),
            cell(processor),
        ]);
        report.figure(format!("{prefix}.{}.per_s", target.key), rounds.per_s());
        report.quantiles(&format!("{prefix}.{}.us", target.key), &latency);
        if let Some(us) = rounds.processor_us() {
            report.figure(format!("{prefix}.{}.cpu_us", target.key), us);
        }
        if let Some(times) = times {
            report.figure(format!("{prefix}.{}_times", target.key), times);
        }
        if let Some(ratio) = processor {
            report.figure(format!("{prefix}.cpu_vs_{}", target.key), ratio);
        }
    }
}
