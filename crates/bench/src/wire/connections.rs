//! `overtake bench wire connections`: many idle connections, and active ones beside them: memory per connection, and
//! errors.
//!
//! **Invariant:** no error is passed over: a connection that is refused or breaks, and a statement that fails, are counted;
//! memory is that of the server's processes as the kernel counts it, shared pages in parts.

use super::client::{Control, connect, runtime};
use super::servers::{MeasuredServer, ServerChoice};
use crate::arguments::PhaseDuration;
use crate::report::{Machine, Report, TextTable, number};
use anyhow::Context;
use clap::Args;
use host::stop::Stop;
use serde::Serialize;
use stage::Histogram;
use std::time::{Duration, Instant};
use tokio_postgres::Client;
use workloads::tpcc::Random;

/// Arguments of `bench wire connections`.
#[derive(Args, Debug, Serialize)]
pub struct ConnectionsArguments {
    /// Time that the active connections work.
    #[command(flatten)]
    #[serde(flatten)]
    duration: PhaseDuration,
    /// Number of idle connections, 1 to 10,000.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    idle: u32,
    /// Number of active connections, each with a prepared look-up by key under way, 1 to 10,000.
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    active: u32,
    /// Servers to measure.
    #[command(flatten)]
    #[serde(flatten)]
    which: ServerChoice,
}

/// Results of one server.
struct ConnectionCosts {
    /// Bytes for each idle connection.
    idle_bytes: Option<f64>,
    /// Bytes for each active connection.
    active_bytes: Option<f64>,
    connect: Histogram,
    latency: Histogram,
    per_s: f64,
    errors: u64,
    first_error: Option<String>,
}

const ROWS_COUNT: i32 = 10_000;
const LOOK_UP: &str = "select value from wire_rows where id = $1";

/// Measures and reports.
///
/// # Errors
/// If PostgreSQL is not available, a server does not answer at all, or the run is stopped.
pub fn run(arguments: &ConnectionsArguments, stop: &Stop) -> anyhow::Result<Report> {
    let mut report = Report::new("wire connections", arguments, Machine::read())?;
    let targets = arguments.which.start(false, arguments.idle + arguments.active + 20)?;
    let header = ["", "idle, each", "active, each", "connect p99 µs", "look-ups/s", "p50 µs", "p99 µs", "errors"];
    let title = format!("{} idle and {} active connections", arguments.idle, arguments.active);
    let mut table = TextTable::new(title, &header);
    for target in &targets {
        let seen = measure(target, arguments, stop).context(target.title)?;
        let latency = seen.latency.quantiles_us();
        let bytes =
            |bytes: Option<f64>| bytes.map_or_else(String::new, |bytes| format!("{} KiB", number(bytes / 1024.0)));
        table.row([
            target.title.to_owned(),
            bytes(seen.idle_bytes),
            bytes(seen.active_bytes),
            number(seen.connect.quantile_us(0.99)),
            number(seen.per_s),
            number(latency.p50),
            number(latency.p99),
            number(seen.errors as f64),
        ]);
        let prefix = format!("wire.connections.{}", target.key);
        for (name, bytes) in [("idle_bytes", seen.idle_bytes), ("active_bytes", seen.active_bytes)] {
            if let Some(bytes) = bytes {
                report.figure(format!("{prefix}.{name}"), bytes);
            }
        }
        report.quantiles(&format!("{prefix}.connect_us"), &seen.connect.quantiles_us());
        report.quantiles(&format!("{prefix}.us"), &latency);
        report.figure(format!("{prefix}.per_s"), seen.per_s);
        report.figure(format!("{prefix}.errors"), seen.errors as f64);
        if let Some(error) = seen.first_error {
            report.note(format!("{}: the first error was: {error}", target.title));
        }
    }
    report.table(table);
    report.note("Bytes: what the server's processes hold more than before (Pss), divided by the connections; an idle one has run one statement.");
    Ok(report)
}

fn measure(target: &MeasuredServer, arguments: &ConnectionsArguments, stop: &Stop) -> anyhow::Result<ConnectionCosts> {
    let control = Control::connect(target)?;
    if target.processes().is_none() {
        control.batch("drop table if exists wire_rows")?;
    }
    control.batch("create table wire_rows (id integer primary key, value integer not null)")?;
    control.batch(&format!("insert into wire_rows select id, id from generate_series(1, {ROWS_COUNT}) as id"))?;
    let runtime = runtime()?;
    let mut seen = ConnectionCosts {
        idle_bytes: None,
        active_bytes: None,
        connect: Histogram::new(),
        latency: Histogram::new(),
        per_s: 0.0,
        errors: 0,
        first_error: None,
    };
    let bytes = || target.processes().map(|processes| processes.memory_bytes()).transpose();
    let before = bytes()?;
    let idle = runtime.block_on(open(target, arguments.idle, &mut seen, stop))?;
    let with_idle = bytes()?;
    let active = runtime.block_on(open(target, arguments.active, &mut seen, stop))?;
    let each = |from: Option<u64>, to: Option<u64>, count: u32| {
        from.zip(to).map(|(from, to)| (to as f64 - from as f64) / f64::from(count))
    };
    seen.idle_bytes = each(before, with_idle, arguments.idle);
    let began = Instant::now();
    let until = began + arguments.duration.get();
    let loops = active.iter().enumerate().map(|(at, client)| look_ups(client, at as u64, until, stop));
    for done in runtime.block_on(futures::future::join_all(loops)) {
        match done {
            Ok(latency) => seen.latency.add(&latency),
            Err(error) => seen.error(&error),
        }
    }
    stop.wait(Duration::ZERO)?;
    seen.per_s = seen.latency.count() as f64 / began.elapsed().as_secs_f64();
    seen.active_bytes = each(with_idle, bytes()?, arguments.active);
    // The idle connections still answer.
    for client in &idle {
        if let Err(error) = runtime.block_on(client.batch_execute("select 1")) {
            seen.error(&error.into());
        }
    }
    Ok(seen)
}

impl ConnectionCosts {
    fn error(&mut self, error: &anyhow::Error) {
        self.errors += 1;
        self.first_error.get_or_insert_with(|| format!("{error:#}"));
    }
}

/// Opens connections, one after the other; each runs a statement.
async fn open(
    target: &MeasuredServer,
    count: u32,
    seen: &mut ConnectionCosts,
    stop: &Stop,
) -> anyhow::Result<Vec<Client>> {
    let mut clients = Vec::new();
    for _ in 0..count {
        stop.wait(Duration::ZERO)?;
        let began = Instant::now();
        let opened = async {
            let client = connect(&target.url).await?;
            client.batch_execute("select 1").await?;
            anyhow::Ok(client)
        };
        match opened.await {
            Ok(client) => {
                seen.connect.record_ns(began.elapsed().as_nanos() as u64);
                clients.push(client);
            }
            Err(error) => seen.error(&error),
        }
    }
    Ok(clients)
}

async fn look_ups(client: &Client, seed: u64, until: Instant, stop: &Stop) -> anyhow::Result<Histogram> {
    let mut random = Random::new(seed);
    let mut latency = Histogram::new();
    let statement = client.prepare(LOOK_UP).await?;
    while Instant::now() < until && stop.wait(Duration::ZERO).is_ok() {
        let began = Instant::now();
        let id = random.uniform(1, ROWS_COUNT);
        let value: i32 = client.query_one(&statement, &[&id]).await?.try_get(0)?;
        anyhow::ensure!(value == id, "row {id} has the value {value}");
        latency.record_ns(began.elapsed().as_nanos() as u64);
    }
    Ok(latency)
}
