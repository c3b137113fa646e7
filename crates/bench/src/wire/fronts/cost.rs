//! The cost of a proxy: pgbench's look-up and TPC-B, extended protocol, directly, through the gate, through a gate that
//! prepares statements that come again and again, and through PgBouncer.
//!
//! **Invariant:** the ways take turns, round by round, on one cluster with one set of tables; the gate lets in as many
//! at a time as PgBouncer's pool has connections, so that only the proxies' overhead is compared.

use super::super::pgbench::{self, PgbenchRounds, PgbenchScript, Protocol};
use super::super::postgres::Programs;
use super::super::servers::{MeasuredServer, postgres};
use super::{gate, pgbouncer};
use crate::report::{BarChart, Report, TextTable, number};
use ::gate::{Arrival, Ending, Gate, GateSettings, Time};
use host::stop::Stop;
use std::time::{Duration, Instant};

/// Numbers of clients.
const CLIENTS: [u32; 4] = [1, 16, 64, 200];
/// Size of PgBouncer's default pool.
const POOL: u32 = 20;
/// Number of clients at which processor time is reported as one figure.
const HEADLINE: u32 = 16;

/// Scripts of pgbench, and the number of statements of a transaction of each.
const SCRIPTS: [(&str, &str, f64); 2] = [("select", "select-only", 1.0), ("tpcb", "tpcb-like", 7.0)];

/// Measures and reports.
///
/// # Errors
/// If PostgreSQL or PgBouncer is not available, a transaction fails, or the run is stopped.
pub fn measure(report: &mut Report, duration: Duration, rounds: u32, stop: &Stop) -> anyhow::Result<()> {
    let decision_us = decision_us();
    report.figure("gate.decision_us", decision_us);
    let programs = Programs::find_or_install()?;
    // Each proxy keeps the connections of its pool.
    let direct = postgres(CLIENTS.into_iter().max().unwrap_or(1) + 4 * POOL)?;
    pgbench::initialise(&programs, &direct, 10, stop)?;
    let mpl = format!("overtake.mpl={POOL}");
    let (ours, _) = gate(&direct, &[&mpl])?;
    let (preparing, _) = gate(&direct, &[&mpl, "overtake.upstream_prepare=on"])?;
    let preparing = MeasuredServer { key: "prepared", title: "gate, upstream_prepare", ..preparing };
    let (bouncer, version) = pgbouncer(&direct)?;
    let targets = [direct, ours, preparing, bouncer];
    let header = ["", "per s", "p50 µs", "p99 µs", "front's CPU µs / statement", "added p50 µs"];
    let mut table = TextTable::new(format!("pgbench -M extended: direct, gate, {version}"), &header);
    let titles: Vec<&str> = targets.iter().map(|target| target.title).collect();
    let mut chart = BarChart::new("Processor time of the front for a statement", "µs", &titles[1..]);
    for (name, script, statements) in SCRIPTS {
        for clients in CLIENTS {
            let mut measured: Vec<PgbenchRounds> = targets.iter().map(|_| PgbenchRounds::default()).collect();
            for round in 0..=rounds {
                for (target, rounds) in targets.iter().zip(&mut measured) {
                    // The first round warms up.
                    let length = if round == 0 { Duration::from_secs(1) } else { duration };
                    let run = {
                        let script = PgbenchScript::BuiltIn(script);
                        pgbench::run(&programs, target, script, Protocol::Extended, clients, length, stop)?
                    };
                    tracing::info!(name, clients, round, server = target.title, per_s = run.per_s, "measured");
                    if 0 < round {
                        rounds.add(&run);
                    }
                }
            }
            let p50 = |at: usize| measured[at].latency.quantile_us(0.5);
            let cpu_us = |rounds: &PgbenchRounds| rounds.processor_us().unwrap_or(0.0) / statements;
            for (at, (target, rounds)) in targets.iter().zip(&measured).enumerate() {
                let is_front = 0 < at;
                let (cpu, added) = (cpu_us(rounds), p50(at) - p50(0));
                let cell = |value: f64| if is_front { number(value) } else { String::new() };
                table.row([
                    format!("{name}, {clients} clients, {}", target.title),
                    number(rounds.per_s()),
                    number(p50(at)),
                    number(rounds.latency.quantile_us(0.99)),
                    cell(cpu),
                    cell(added),
                ]);
                let prefix = format!("cost.{name}.c{clients}.{}", target.key);
                report.figure(format!("{prefix}.per_s"), rounds.per_s());
                report.quantiles(&format!("{prefix}.us"), &rounds.latency.quantiles_us());
                if is_front {
                    report.figure(format!("{prefix}.cpu_us"), cpu);
                    report.figure(format!("{prefix}.added_us"), added);
                    if name == "select" && clients == HEADLINE {
                        report.figure(format!("{}.cpu_us", target.key), cpu);
                    }
                    if name == "select" && clients == 1 {
                        report.figure(format!("{}.latency_us", target.key), added);
                    }
                }
            }
            chart.group(format!("{name}, {clients} clients"), &measured[1..].iter().map(cpu_us).collect::<Vec<_>>());
        }
    }
    report.table(table);
    report.chart(chart);
    report.note(format!(
        "The gate's decisions for a transaction, its arrival and its departure, take {} µs of a processor, with 300 waiting in 3 classes.",
        number(decision_us)
    ));
    report.note(
        "pgbench, the front and PostgreSQL share this machine's processors. Rates are medians of rounds in turn.",
    );
    Ok(())
}

/// Returns the microseconds of processor time of the gate's decisions for a transaction: one leaves, another is let in,
/// one arrives.
fn decision_us() -> f64 {
    const TRANSACTIONS: u32 = 1_000_000;
    let mut gate = Gate::new(GateSettings::of_priorities(8)).expect("the settings of priorities make a gate");
    let classes = ["high", "normal", "low"].map(|name| gate.settings().class(name).expect("it is there"));
    let mut now = 0;
    let mut inside = std::collections::VecDeque::new();
    let began = Instant::now();
    for at in 0..TRANSACTIONS {
        now += 1_000;
        let (ticket, entrance) =
            gate.arrive(Time::from_ns(now), Arrival::new(classes[at as usize % 3])).expect("nobody is turned away");
        if entrance == ::gate::Entrance::In {
            inside.push_back(ticket);
        }
        while let Some(event) = gate.next_event() {
            if let ::gate::Event::Admitted(ticket) = event {
                inside.push_back(ticket);
            }
        }
        // The intended number of transactions waits.
        if 308 <= at
            && let Some(ticket) = inside.pop_front()
        {
            gate.leave(Time::from_ns(now), ticket, Ending::Done);
        }
    }
    began.elapsed().as_secs_f64() * 1e6 / f64::from(TRANSACTIONS)
}
