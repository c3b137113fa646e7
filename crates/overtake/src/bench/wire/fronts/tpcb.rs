//! TPC-B by a hundred clients: without a limit, behind PgBouncer's default pool, and behind the gate, which finds its own.
//!
//! **Invariant:** the three take turns, round by round, on one cluster with one set of tables. The gate has found its limit before
//! anything counts.

use super::super::pgbench::{self, Protocol, Rounds, Script};
use super::super::postgres::Programs;
use super::super::servers::{Target, postgres};
use super::{gate, pgbouncer};
use crate::report::{BarChart, Report, Table, number};
use crate::stop::Stop;
use anyhow::Context;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const CLIENTS: u32 = 100;
/// pgbench's scales: at 1 all transactions meet at one row.
const SCALES: [u32; 2] = [1, 10];
/// So long the gate may search.
const SEARCH_MAX: Duration = Duration::from_secs(600);

/// Measures and reports.
///
/// # Errors
/// PostgreSQL or PgBouncer is not to be had, a transaction fails, or the run is stopped.
pub fn measure(report: &mut Report, duration: Duration, rounds: u32, stop: &Stop) -> anyhow::Result<()> {
    let programs = Programs::find_or_install()?;
    let header = ["", "per s", "p50 ms", "p99 ms", "max ms", "gate / this", "MPL"];
    let mut table = Table::new("TPC-B, 100 clients, pgbench -M extended", &header);
    let mut chart = BarChart::new("Transactions a second", "1/s", &["no limit", "PgBouncer", "gate"]);
    let mut version = String::new();
    for scale in SCALES {
        let direct = postgres(2 * CLIENTS + 40)?;
        pgbench::initialise(&programs, &direct, scale, stop)?;
        let (bouncer, said) = pgbouncer(&direct)?;
        version = said;
        let (ours, metrics) = gate(&direct, &["overtake.mpl=auto"])?;
        let targets = [direct, bouncer, ours];
        let run = |target: &Target, length: Duration| {
            let script = Script::BuiltIn("tpcb-like");
            pgbench::run(&programs, target, script, Protocol::Extended, CLIENTS, length, stop)
        };
        let began = Instant::now();
        while metric(&metrics, "overtake_mpl_holding")? < 1.0 && began.elapsed() < SEARCH_MAX {
            run(&targets[2], Duration::from_secs(10))?;
            tracing::info!(scale, mpl = metric(&metrics, "overtake_mpl")?, "the gate searches");
        }
        let mut measured: Vec<Rounds> = targets.iter().map(|_| Rounds::default()).collect();
        for round in 1..=rounds {
            for (target, rounds) in targets.iter().zip(&mut measured) {
                let done = run(target, duration)?;
                tracing::info!(scale, round, server = target.title, per_s = done.per_s, "measured");
                rounds.add(&done);
            }
        }
        let mpl = metric(&metrics, "overtake_mpl")?;
        let per_s: Vec<f64> = measured.iter().map(Rounds::per_s).collect();
        for (at, ((target, rounds), name)) in
            targets.iter().zip(&measured).zip(["ungated", "pgbouncer", "gate"]).enumerate()
        {
            let times = per_s[2] / per_s[at];
            let latency = rounds.latency.quantiles_us();
            let is_gate = at == 2;
            table.row([
                format!("scale {scale}, {}", target.title),
                number(per_s[at]),
                number(latency.p50 / 1e3),
                number(latency.p99 / 1e3),
                number(latency.max / 1e3),
                if is_gate { String::new() } else { number(times) },
                if is_gate { number(mpl) } else { String::new() },
            ]);
            report.figure(format!("tpcb_s{scale}.{name}.per_s"), per_s[at]);
            report.quantiles(&format!("tpcb_s{scale}.{name}.us"), &latency);
            if !is_gate {
                report.figure(format!("tpcb_s{scale}.{name}_times"), times);
            }
        }
        report.figure(format!("tpcb_s{scale}.mpl"), mpl);
        chart.group(format!("scale {scale}"), &per_s);
    }
    report.table(table);
    report.chart(chart);
    report.note(format!("{version}, transaction mode, its default pool of 20. pgbench, the fronts and PostgreSQL share this machine's processors."));
    Ok(())
}

/// One of the gate's metrics.
pub(super) fn metric(address: &str, name: &str) -> anyhow::Result<f64> {
    let mut stream = TcpStream::connect(address).context("the gate's metrics")?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: gate\r\n\r\n").context("the gate's metrics")?;
    let mut text = String::new();
    stream.read_to_string(&mut text).context("the gate's metrics")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.trim().parse().ok()).with_context(|| format!("the gate does not show {name}"))
}
