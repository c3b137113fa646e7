//! TPC-B by a hundred clients: without a limit, behind PgBouncer's default pool, and behind the gate, which finds its
//! own limit; and behind a gate that prepares statements that come again and again, too.
//!
//! **Invariant:** the ways take turns, round by round, on one cluster with one set of tables. The gates have found
//! their limits before anything counts.

use super::super::pgbench::{self, PgbenchRounds, PgbenchScript, Protocol};
use super::super::postgres::Programs;
use super::super::servers::{MeasuredServer, postgres};
use super::{gate, pgbouncer};
use crate::report::{BarChart, Report, TextTable, number};
use anyhow::Context;
use host::stop::Stop;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const CLIENTS: u32 = 100;
/// Scales of pgbench: at 1 all transactions meet at one row.
const SCALES: [u32; 2] = [1, 10];
/// Maximum time that the gate may search.
const SEARCH_MAX: Duration = Duration::from_secs(600);

/// Measures and reports.
///
/// # Errors
/// If PostgreSQL or PgBouncer is not available, a transaction fails, or the run is stopped.
pub fn measure(report: &mut Report, duration: Duration, rounds: u32, stop: &Stop) -> anyhow::Result<()> {
    let programs = Programs::find_or_install()?;
    let header = ["", "per s", "p50 ms", "p99 ms", "max ms", "/ no limit", "/ PgBouncer", "MPL"];
    let mut table = TextTable::new("TPC-B, 100 clients, pgbench -M extended", &header);
    let mut chart =
        BarChart::new("Transactions a second", "1/s", &["no limit", "PgBouncer", "gate", "gate that prepares"]);
    let mut version = String::new();
    for scale in SCALES {
        let direct = postgres(2 * CLIENTS + 40)?;
        pgbench::initialise(&programs, &direct, scale, stop)?;
        let (bouncer, said) = pgbouncer(&direct)?;
        version = said;
        let (ours, metrics) = gate(&direct, &["overtake.mpl=auto"])?;
        let (preparing, its_metrics) = gate(&direct, &["overtake.mpl=auto", "overtake.upstream_prepare=on"])?;
        let ways = [
            ("ungated", direct.title.to_owned(), direct, None),
            ("pgbouncer", bouncer.title.to_owned(), bouncer, None),
            ("gate", ours.title.to_owned(), ours, Some(metrics)),
            ("prepared", format!("{}, upstream_prepare", preparing.title), preparing, Some(its_metrics)),
        ];
        let run = |target: &MeasuredServer, length: Duration| {
            let script = PgbenchScript::BuiltIn("tpcb-like");
            pgbench::run(&programs, target, script, Protocol::Extended, CLIENTS, length, stop)
        };
        for (name, _, target, metrics) in &ways {
            let Some(metrics) = metrics else { continue };
            let began = Instant::now();
            while metric(metrics, "overtake_mpl_holding")? < 1.0 && began.elapsed() < SEARCH_MAX {
                run(target, Duration::from_secs(10))?;
                tracing::info!(scale, name, mpl = metric(metrics, "overtake_mpl")?, "the gate searches");
            }
        }
        let mut measured: Vec<PgbenchRounds> = ways.iter().map(|_| PgbenchRounds::default()).collect();
        for round in 1..=rounds {
            for ((name, _, target, _), rounds) in ways.iter().zip(&mut measured) {
                let done = run(target, duration)?;
                tracing::info!(scale, round, name, per_s = done.per_s, "measured");
                rounds.add(&done);
            }
        }
        let per_s: Vec<f64> = measured.iter().map(PgbenchRounds::per_s).collect();
        for (at, ((name, title, _, metrics), rounds)) in ways.iter().zip(&measured).enumerate() {
            let (ungated, bouncer) = (per_s[at] / per_s[0], per_s[at] / per_s[1]);
            let latency = rounds.latency.quantiles_us();
            let mpl = metrics.as_ref().map(|metrics| metric(metrics, "overtake_mpl")).transpose()?;
            table.row([
                format!("scale {scale}, {title}"),
                number(per_s[at]),
                number(latency.p50 / 1e3),
                number(latency.p99 / 1e3),
                number(latency.max / 1e3),
                number(ungated),
                number(bouncer),
                mpl.map(number).unwrap_or_default(),
            ]);
            report.figure(format!("tpcb_s{scale}.{name}.per_s"), per_s[at]);
            report.quantiles(&format!("tpcb_s{scale}.{name}.us"), &latency);
            let Some(mpl) = mpl else { continue };
            // The figures of the gate with its defaults have no name of their own.
            let prefix = if *name == "gate" { String::new() } else { format!("{name}.") };
            report.figure(format!("tpcb_s{scale}.{prefix}ungated_times"), ungated);
            report.figure(format!("tpcb_s{scale}.{prefix}pgbouncer_times"), bouncer);
            report.figure(format!("tpcb_s{scale}.{prefix}mpl"), mpl);
        }
        chart.group(format!("scale {scale}"), &per_s);
    }
    report.table(table);
    report.chart(chart);
    report.note(format!("{version}, transaction mode, its default pool of 20. pgbench, the fronts and PostgreSQL share this machine's processors."));
    Ok(())
}

/// Returns one of the gate's metrics.
pub(super) fn metric(address: &str, name: &str) -> anyhow::Result<f64> {
    let mut stream = TcpStream::connect(address).context("the gate's metrics")?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: gate\r\n\r\n").context("the gate's metrics")?;
    let mut text = String::new();
    stream.read_to_string(&mut text).context("the gate's metrics")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.trim().parse().ok()).with_context(|| format!("the gate does not show {name}"))
}
