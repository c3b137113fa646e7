//! `overtake bench wire reports`: SERIALIZABLE reports that read a table, think, and write one row elsewhere, beside
//! updates of the rows that they have read: how many of them commit.
//!
//! **Invariant:** all servers get the same load in the same run, in turn. A report that is refused (40001) is tried
//! again at once, and each try counts towards the requested number.

use super::client::{Control, connect, explain, is_retryable, runtime};
use super::servers::{MeasuredServer, ServerChoice};
use crate::report::{Machine, Report, TextTable, number};
use clap::Args;
use host::stop::Stop;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio_postgres::Client;

/// Arguments of `bench wire reports`.
#[derive(Args, Debug, Serialize)]
pub struct ReportsArguments {
    /// Number of tries of reports, of each kind.
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    transactions: u32,
    /// Milliseconds that a report thinks, separated by commas.
    #[arg(long, value_name = "MS", value_delimiter = ',', default_values_t = [10, 50, 200, 1_000])]
    think_ms: Vec<u64>,
    /// Number of sessions that make reports.
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    sessions: u32,
    /// Updates per second, each of one of 100 rows.
    #[arg(long, value_name = "PER_SECOND", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: u32,
    /// Servers to measure.
    #[command(flatten)]
    #[serde(flatten)]
    which: ServerChoice,
}

/// Transactions that run beside the reports.
#[derive(Clone, Copy)]
struct Beside {
    key: &'static str,
    title: &'static str,
    /// Isolation level of the updates.
    level: &'static str,
    /// Time that a declared READ ONLY transaction stays open. One follows the other.
    reader_open: Option<Duration>,
}

const BESIDE: [Beside; 4] = [
    Beside { key: "plain", title: "updates at READ COMMITTED", level: "read committed", reader_open: None },
    Beside { key: "serializable", title: "updates at SERIALIZABLE", level: "serializable", reader_open: None },
    Beside {
        key: "readers",
        title: "the same, and a READ ONLY transaction every 10 ms",
        level: "serializable",
        reader_open: Some(Duration::ZERO),
    },
    Beside {
        key: "open_readers",
        title: "the same, and always an open READ ONLY transaction, for 50 ms each",
        level: "serializable",
        reader_open: Some(Duration::from_millis(50)),
    },
];

/// Outcome of the reports.
#[derive(Default)]
struct Counts {
    tries: AtomicU64,
    committed: AtomicU64,
    refused: AtomicU64,
    /// Maximum number of consecutive refusals of one report.
    in_a_row: AtomicU64,
    updates_refused: AtomicU64,
    readers: AtomicU64,
    readers_refused: AtomicU64,
}

/// Measures and reports.
///
/// # Errors
/// If PostgreSQL is not available, a server refuses something other than with 40001, or the run is stopped.
pub fn run(arguments: &ReportsArguments, stop: &Stop) -> anyhow::Result<Report> {
    let mut report = Report::new("wire reports", arguments, Machine::read())?;
    let targets = arguments.which.start(false, arguments.sessions + 20)?;
    for target in &targets {
        Control::connect(target)?.batch(
            "drop table if exists report_rows, report_journal;
             create table report_rows (id integer primary key, v bigint not null);
             create table report_journal (id bigint generated always as identity primary key, total bigint not null);
             insert into report_rows select id, 0 from generate_series(1, 100) as id",
        )?;
    }
    let header =
        ["", "tried", "committed", "refused", "refusals in a row", "updates refused", "readers", "readers refused"];
    for beside in BESIDE {
        let mut table = TextTable::new(
            format!("SERIALIZABLE reports beside {} updates/s: {}", arguments.rate, beside.title),
            &header,
        );
        for think_ms in &arguments.think_ms {
            let mut committed_there = None;
            // The order is backwards: Overtake is compared with PostgreSQL.
            let mut rows = Vec::new();
            for target in targets.iter().rev() {
                stop.wait(Duration::ZERO)?;
                let counts = measure(arguments, target, beside, Duration::from_millis(*think_ms))?;
                let get = |count: &AtomicU64| count.load(Relaxed) as f64;
                let committed = get(&counts.committed);
                tracing::info!(server = target.title, beside = beside.key, think_ms, committed, "measured");
                let name = format!("wire.reports.{}.think_{think_ms}.{}", beside.key, target.key);
                report.figure(format!("{name}.committed"), committed);
                report.figure(format!("{name}.refused"), get(&counts.refused));
                report.figure(format!("{name}.refused_in_a_row"), get(&counts.in_a_row));
                if target.is_overtake() {
                    if let Some(theirs) = committed_there {
                        report.figure(
                            format!("wire.reports.{}.think_{think_ms}.postgres_times", beside.key),
                            committed / theirs,
                        );
                    }
                } else {
                    committed_there = Some(committed);
                }
                let all = [&counts.tries, &counts.committed, &counts.refused, &counts.in_a_row];
                let others = [&counts.updates_refused, &counts.readers, &counts.readers_refused];
                let cells = all.into_iter().chain(others).map(|count| number(get(count)));
                rows.push(std::iter::once(format!("{think_ms} ms, {}", target.title)).chain(cells).collect::<Vec<_>>());
            }
            rows.into_iter().rev().for_each(|row| table.row(row));
        }
        report.table(table);
    }
    report.note("A report is `select sum(v)` of 100 rows, a time to think, and one row inserted into another table. Refused: 40001, at whichever statement.");
    Ok(report)
}

fn measure(
    arguments: &ReportsArguments,
    target: &MeasuredServer,
    beside: Beside,
    think: Duration,
) -> anyhow::Result<Counts> {
    let counts = Counts::default();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let updates = scope.spawn(|| runtime()?.block_on(update(arguments, target, beside, &counts, &done)));
        let (counts_of, is_done) = (&counts, &done);
        let read = move |open| runtime()?.block_on(read(target, open, counts_of, is_done));
        let readers = beside.reader_open.map(|open| scope.spawn(move || read(open)));
        let report = || runtime()?.block_on(make_reports(arguments, target, think, &counts));
        let sessions: Vec<_> = (0..arguments.sessions).map(|_| scope.spawn(report)).collect();
        let results: Vec<anyhow::Result<()>> = sessions.into_iter().map(join).collect();
        done.store(true, Relaxed);
        let others = [Some(updates), readers].into_iter().flatten().map(join).collect::<Vec<_>>();
        results.into_iter().chain(others).collect::<anyhow::Result<()>>()
    })?;
    Ok(counts)
}

fn join(thread: std::thread::ScopedJoinHandle<'_, anyhow::Result<()>>) -> anyhow::Result<()> {
    thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a client's thread panicked")))
}

/// Runs statements. Returns false if they were refused with 40001 and rolled back.
async fn passes(client: &Client, text: &str) -> anyhow::Result<bool> {
    match client.batch_execute(text).await {
        Ok(()) => Ok(true),
        Err(error) if is_retryable(&error) => {
            client.batch_execute("rollback").await.map_err(|error| explain(&error))?;
            Ok(false)
        }
        Err(error) => Err(explain(&error).context(text.to_owned())),
    }
}

async fn make_reports(
    arguments: &ReportsArguments,
    target: &MeasuredServer,
    think: Duration,
    counts: &Counts,
) -> anyhow::Result<()> {
    let client = connect(&target.url).await?;
    let mut in_a_row = 0;
    while counts.tries.fetch_add(1, Relaxed) < u64::from(arguments.transactions) {
        let begins = passes(&client, "begin isolation level serializable; select sum(v) from report_rows").await?;
        tokio::time::sleep(think).await;
        let writes = begins && passes(&client, "insert into report_journal (total) values (1)").await?;
        if writes && passes(&client, "commit").await? {
            counts.committed.fetch_add(1, Relaxed);
            in_a_row = 0;
        } else {
            counts.refused.fetch_add(1, Relaxed);
            in_a_row += 1;
            counts.in_a_row.fetch_max(in_a_row, Relaxed);
        }
    }
    // The last try was not made.
    counts.tries.fetch_sub(1, Relaxed);
    Ok(())
}

async fn update(
    arguments: &ReportsArguments,
    target: &MeasuredServer,
    beside: Beside,
    counts: &Counts,
    done: &AtomicBool,
) -> anyhow::Result<()> {
    let client = connect(&target.url).await?;
    let level = format!("set default_transaction_isolation = '{}'", beside.level);
    client.batch_execute(&level).await.map_err(|error| explain(&error))?;
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / arguments.rate);
    let mut id = 0;
    while !done.load(Relaxed) {
        ticks.tick().await;
        id = id % 100 + 1;
        let text = format!("update report_rows set v = v + 1 where id = {id}");
        if !passes(&client, &text).await? {
            counts.updates_refused.fetch_add(1, Relaxed);
        }
    }
    Ok(())
}

async fn read(target: &MeasuredServer, open: Duration, counts: &Counts, done: &AtomicBool) -> anyhow::Result<()> {
    const PAUSE: Duration = Duration::from_millis(10);
    let client = connect(&target.url).await?;
    while !done.load(Relaxed) {
        let text = "begin isolation level serializable, read only; select sum(v) from report_rows";
        let mut passes_all = passes(&client, text).await?;
        tokio::time::sleep(open).await;
        passes_all = passes_all && passes(&client, "commit").await?;
        counts.readers.fetch_add(1, Relaxed);
        counts.readers_refused.fetch_add(u64::from(!passes_all), Relaxed);
        if open.is_zero() {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}
