//! `overtake bench snapshot`: memory while one transaction keeps its snapshot and rows are updated at a rate.
//!
//! **Invariant:** there is no report unless the transaction read the same rows all the time, memory grew by no more
//! than those rows (and the garbage between two turns of the housekeeping), and nothing of that is left when it has
//! ended.

mod load;

use super::soak::minutes;
use crate::report::{Machine, PercentileChart, Report, TextTable, number};
use anyhow::{Context, ensure};
use clap::Args;
use engine::{Begin, Engine, EngineConfig, Housekeeper, Isolation, SessionOptions, Stats};
use host::memory;
use host::stop::Stop;
use serde::Serialize;
use stage::Class;
use std::time::{Duration, Instant};

/// Arguments of `bench snapshot`.
#[derive(Args, Debug, Serialize)]
pub struct SnapshotArguments {
    /// Minutes that the transaction stays open, 0.05 to 1,440.
    #[arg(long, value_name = "MINUTES", default_value_t = 10.0, value_parser = minutes)]
    minutes: f64,
    /// Updates per second, each of a random row in a transaction of its own, 1 to 1,000,000.
    #[arg(long, value_name = "PER_SECOND", default_value_t = 20_000.0, value_parser = super::preempt::rate)]
    rate: f64,
    /// Number of rows of the table.
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1_000..=10_000_000))]
    rows: u32,
    /// Seed of the choice of rows that are updated.
    #[arg(long, value_name = "NUMBER", default_value_t = 42)]
    seed: u64,
}

/// Number of samples of a run.
const SAMPLES: u32 = 20;
/// Generous bound of the memory of a row, with the version that the snapshot sees.
const ROW_BYTES: u64 = 2_048;
/// Garbage between two turns of the housekeeping, as a share of the rows, and the minimum number of such versions.
const SLACK: f64 = 0.05;
const SLACK_VERSIONS: f64 = 2_000.0;
/// Garbage between two turns of the housekeeping when rows freeze meanwhile, at a low rate: the engine lets an eighth
/// of them have a third form.
const SLACK_FROZEN: f64 = 0.4;
/// Time in which the garbage must go after the transaction.
const SETTLED_WITHIN: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);

/// Returns the bytes of versions and blocks.
fn bytes(stats: &Stats) -> f64 {
    (stats.version_bytes + stats.block_bytes) as f64
}

/// Measures and reports.
///
/// # Errors
/// If memory is short, the run is stopped, or the invariant does not hold.
pub fn run(arguments: &SnapshotArguments, stop: &Stop) -> anyhow::Result<Report> {
    memory::require(u64::from(arguments.rows) * ROW_BYTES, "lower --rows, or raise the container's limit")?;
    let mut report = Report::new("snapshot", arguments, Machine::read())?;
    let engine = Engine::new(EngineConfig::in_memory());
    tracing::info!(rows = arguments.rows, "loading");
    let table = load::table(&engine, arguments.rows)?;
    let housekeeping = Housekeeper::start(&engine)?;

    let mut session =
        engine.session(SessionOptions { name: "report".to_owned(), ..SessionOptions::new(Class::Normal) });
    session.begin(Begin::new(Class::Normal).isolation(Isolation::RepeatableRead))?;
    // The first check comes before the updates: it proves that the transaction sees the rows as they were loaded.
    session.execute(|txn| load::check(txn, &table, arguments.rows))?;
    let start = engine.stats();
    let visible = bytes(&start);
    let slack = |stats: &Stats| {
        let share = if start.frozen < stats.frozen { SLACK_FROZEN } else { SLACK };
        share * visible + SLACK_VERSIONS * visible / f64::from(arguments.rows)
    };
    let updates = load::start(&engine, &table, arguments.rows, arguments.rate, arguments.seed)?;

    let header =
        ["minute", "updates", "versions", "held back", "pruned", "MiB", "grown by", "index entries", "RSS MiB"];
    let mut rows = TextTable::new("One transaction keeps its snapshot", &header);
    let mut grown = 0_f64;
    let (began, duration) = (Instant::now(), Duration::from_secs_f64(60.0 * arguments.minutes));
    for at in 1..=SAMPLES {
        let until = began + duration / SAMPLES * at;
        while let left = until.saturating_duration_since(Instant::now())
            && !left.is_zero()
        {
            stop.wait(left.min(LOOK))?;
            if !updates.is_alive() {
                updates.stop().context("the updates")?;
                anyhow::bail!("the updates ended early");
            }
            ensure!(housekeeping.is_alive(), "the housekeeping ended early");
            grown = grown.max(bytes(&engine.stats()) - bytes(&start));
        }
        session.execute(|txn| load::check(txn, &table, arguments.rows)).context("what the snapshot sees")?;
        let stats = engine.stats();
        let open = engine.transactions();
        let held =
            open.iter().find(|open| open.session.as_deref() == Some("report")).context("it is not in the view")?;
        tracing::info!(
            "minute {:.1}: {} updates, {} versions, {} held back by the transaction open for {:.0} s",
            began.elapsed().as_secs_f64() / 60.0,
            stats.commits - start.commits,
            stats.versions,
            held.holds.versions,
            held.open_for.as_secs_f64()
        );
        let mib = |bytes: f64| number(bytes / 1_048_576.0);
        rows.row([
            format!("{:.1}", began.elapsed().as_secs_f64() / 60.0),
            number((stats.commits - start.commits) as f64),
            number(stats.versions as f64),
            number(held.holds.versions as f64),
            number(stats.versions_pruned as f64),
            mib(bytes(&stats)),
            format!("{:.1} %", 100.0 * (bytes(&stats) / bytes(&start) - 1.0)),
            number(stats.index_entries as f64),
            mib(memory::own_bytes().unwrap_or(0) as f64),
        ]);
    }
    let times = updates.stop().context("the updates")?;
    let (last, seconds) = (engine.stats(), began.elapsed().as_secs_f64());
    session.rollback();
    drop(session);
    // The garbage does not go at once: the housekeeping frees it in turns.
    let settled = Instant::now() + SETTLED_WITHIN;
    let end = loop {
        let end = engine.stats();
        if end.versions_dead == 0 || settled < Instant::now() {
            break end;
        }
        stop.wait(LOOK)?;
    };
    housekeeping.stop().context("the housekeeping")?;

    report.table(rows);
    let mut chart = PercentileChart::new("Updates, end to end (from the scheduled arrival)", "µs");
    chart.series("update", &times);
    report.chart(chart);
    let left = (bytes(&end) - visible).max(0.0);
    report.figure("snapshot.growth_of_visible", grown / visible);
    report.figure("snapshot.versions_per_row", last.versions as f64 / f64::from(arguments.rows));
    report.figure("snapshot.left_of_growth", left / visible);
    report.figure("snapshot.updates", times.count() as f64);
    report.figure("snapshot.updates_per_s", times.count() as f64 / seconds);
    report.figure("snapshot.pruned", last.versions_pruned as f64);
    report.quantiles("snapshot.e2e_us", &times.quantiles_us());
    report.note(format!(
        "{} updates while the transaction saw {} rows of {}: memory grew by at most {:.3} times these, and by {:.3} times \
         after it had ended. At each sample it read all of its rows, and they were the same.",
        number(times.count() as f64),
        number(f64::from(arguments.rows)),
        memory::in_words(visible as u64),
        grown / visible,
        left / visible,
    ));
    ensure!(
        grown <= visible + slack(&last),
        "{report}\nmemory grew by {:.2} times the rows that the snapshot sees",
        grown / visible
    );
    ensure!(
        end.versions_dead == 0 && left <= slack(&end),
        "{report}\n{} dead versions and {} are left after the transaction",
        end.versions_dead,
        memory::in_words(left as u64)
    );
    Ok(report)
}
