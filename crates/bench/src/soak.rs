//! `overtake bench soak`: memory during a long run of TPC-C with purge at a rate, with analytics beside.
//!
//! **Invariant:** nothing is left out of the bytes: hot versions, dead ones included, frozen blocks, index nodes and row
//! maps; and the consistency conditions hold at the end, or there is no report.

mod load;
mod queries;
mod sample;

use crate::data::{Data, DataConfig};
use crate::report::{Machine, PercentileChart, Report, TextTable, number};
use clap::Args;
use host::memory;
use host::stop::Stop;
use load::SoakLoad;
use sample::{Bytes, MemorySample};
use serde::Serialize;
use std::time::{Duration, Instant};
use workloads::tpcc::Scale;
use workloads::tpch::Comments;

/// Arguments of `bench soak`.
#[derive(Args, Debug, Serialize)]
pub struct SoakArguments {
    /// Length of the run in minutes, 0.05 to 1,440.
    #[arg(long, value_name = "MINUTES", default_value_t = 10.0, value_parser = minutes)]
    minutes: f64,
    /// Transactions per second, 1 to 1,000,000.
    #[arg(long, value_name = "PER_SECOND", default_value_t = 5_000.0, value_parser = super::preempt::rate)]
    rate: f64,
    /// Number of TPC-C's warehouses, 1 to 1,000.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    warehouses: u32,
    /// Queries that run beside, in turn, separated by commas: ch1 to ch22 of CH-benCHmark, q1 to q22 of TPC-H, scan.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_values_t = ["ch1".to_owned(), "ch6".to_owned(), "ch12".to_owned()])]
    query: Vec<String>,
    /// TPC-H's scale factor, 0.01 to 100.
    #[arg(long, value_name = "FACTOR", default_value_t = 0.01, value_parser = crate::arguments::scale_factor)]
    scale_factor: f64,
    /// Number of these queries that run at a time, 0 to 128.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(..=128))]
    jobs: u32,
    /// Number of workers, pinned to a processor each [default: one for each processor].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=128))]
    workers: Option<u32>,
    /// Seed of population and inputs.
    #[arg(long, value_name = "NUMBER", default_value_t = 42)]
    seed: u64,
}

/// Parses a number of minutes.
///
/// # Errors
/// A sentence that names the allowed values.
pub fn minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(minutes) if (0.05..=1_440.0).contains(&minutes) => Ok(minutes),
        _ => Err("a number of minutes from 0.05 to 1440 is needed".to_owned()),
    }
}

/// Minimum number of samples of a run; one each minute, or as many of a shorter one.
const SAMPLES_MIN: u32 = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// Time from which on memory has to be steady: freezer, purge and reuse of row IDs have found their pace. Half of a
/// shorter run.
const STEADY: Duration = Duration::from_secs(5 * 60);
/// Memory beside the data: queries, the purge's window, and the dead versions that a query keeps.
const GROWTH_BYTES: u64 = 3 << 30;

impl SoakArguments {
    fn duration(&self) -> Duration {
        Duration::from_secs_f64(60.0 * self.minutes)
    }
}

/// Measures and reports.
///
/// # Errors
/// If memory is short, the run is stopped, a query or a transaction fails, or a consistency condition does not hold.
pub fn run(arguments: &SoakArguments, stop: &Stop) -> anyhow::Result<Report> {
    arguments.query.iter().try_for_each(|name| queries::check(name))?;
    let config = DataConfig {
        scale_factor: arguments.scale_factor,
        scale: Scale::spec(arguments.warehouses as i32),
        seed: arguments.seed,
        comments: Comments::Short,
    };
    let advice = "lower --scale-factor or --warehouses, or raise the container's limit";
    memory::require(config.memory_bytes() + GROWTH_BYTES, advice)?;
    let mut report = Report::new("soak", arguments, Machine::read())?;
    let data = Data::load_with_progress_bar(&config, stop)?;
    let duration = arguments.duration();
    let interval = MINUTE.min(duration / SAMPLES_MIN);
    let steady = STEADY.min(duration / 2);
    let mut load = SoakLoad::start(&data, arguments)?;
    // Starting takes seconds, of which a short run has few.
    let began = Instant::now();
    let mut samples: Vec<(MemorySample, load::Interval)> = Vec::new();
    let count = (duration.as_secs_f64() / interval.as_secs_f64()).round() as u32;
    for at in 1..=count {
        load.run_until(began + interval * at, stop)?;
        let taken = (MemorySample::take(&data, began.elapsed())?, load.interval());
        tracing::info!("{}", line(&taken));
        samples.push(taken);
    }
    let ended = load.end(stop)?;
    let conditions = data.check()?;
    fill(&mut report, &samples, steady, &ended);
    report.note(format!("TPC-C's consistency conditions hold afterwards: {conditions}."));
    Ok(report)
}

/// Formats a sample for the log.
fn line((sample, interval): &(MemorySample, load::Interval)) -> String {
    let Bytes { dead, index, row_map, .. } = sample.bytes;
    format!(
        "minute {:.1}: {} transactions/s, p99 {} µs; {} rows, {:.0} bytes a row, garbage {:.1} % ({}), {} versions, \
         {} dead, indexes {}, row maps {}, process {}",
        sample.at.as_secs_f64() / 60.0,
        number(interval.per_s()),
        number(interval.e2e.quantile_us(0.99)),
        number(sample.live_rows as f64),
        sample.bytes_per_live_row(),
        100.0 * sample.garbage_share(),
        memory::in_words(dead),
        number(sample.versions as f64),
        number(sample.versions_dead as f64),
        memory::in_words(index),
        memory::in_words(row_map),
        memory::in_words(sample.rss_bytes),
    )
}

fn fill(report: &mut Report, samples: &[(MemorySample, load::Interval)], steady: Duration, ended: &load::SoakTotals) {
    let header = [
        "minute",
        "done/s",
        "p99 µs",
        "queries",
        "live rows",
        "bytes/row",
        "garbage",
        "versions",
        "dead",
        "blocks MiB",
        "index nodes",
        "row map MiB",
        "RSS MiB",
    ];
    let mut table = TextTable::new("TPC-C with purge and analytics beside", &header);
    let mib = |bytes: u64| number(bytes as f64 / 1_048_576.0);
    let mut all = stage::Histogram::new();
    for (sample, interval) in samples {
        all.add(&interval.e2e);
        table.row([
            format!("{:.1}", sample.at.as_secs_f64() / 60.0),
            number(interval.per_s()),
            number(interval.e2e.quantile_us(0.99)),
            number(interval.queries as f64),
            number(sample.live_rows as f64),
            number(sample.bytes_per_live_row()),
            format!("{:.1} %", 100.0 * sample.garbage_share()),
            number(sample.versions as f64),
            number(sample.versions_dead as f64),
            mib(sample.bytes.blocks),
            number(sample.index_nodes as f64),
            mib(sample.bytes.row_map),
            mib(sample.rss_bytes),
        ]);
    }
    report.table(table);
    let mut chart = PercentileChart::new("Transactions, end to end (from the scheduled arrival)", "µs");
    chart.series("full mix", &all);
    report.chart(chart);
    let measured: Vec<&MemorySample> =
        samples.iter().map(|(sample, _)| sample).filter(|sample| steady <= sample.at).collect();
    // The last sample is always late enough.
    let first = measured[0];
    let drift = |value: fn(&MemorySample) -> f64| {
        measured.iter().map(|sample| (value(sample) / value(first) - 1.0).abs()).fold(0.0, f64::max)
    };
    let most = |value: fn(&MemorySample) -> f64| measured.iter().map(|sample| value(sample)).fold(0.0, f64::max);
    let last = measured[measured.len() - 1];
    report.figure("soak.bytes_per_live_row_drift", drift(MemorySample::bytes_per_live_row));
    report.figure("soak.garbage_share", most(MemorySample::garbage_share));
    report.figure("soak.bytes_per_live_row", last.bytes_per_live_row());
    report.figure("soak.live_rows", last.live_rows as f64);
    report.figure("soak.live_rows_drift", drift(|sample| sample.live_rows as f64));
    report.figure("soak.versions_dead_max", most(|sample| sample.versions_dead as f64));
    report.figure("soak.index_nodes_drift", drift(|sample| sample.index_nodes as f64));
    report.figure("soak.row_map_drift", drift(|sample| sample.bytes.row_map as f64));
    report.figure("soak.rss_drift", drift(|sample| sample.rss_bytes as f64));
    report.figure("soak.rss_bytes", last.rss_bytes as f64);
    let done: u64 = samples.iter().map(|(_, interval)| interval.done).sum();
    let seconds: f64 = samples.iter().map(|(_, interval)| interval.seconds).sum();
    report.figure("soak.done_per_s", done as f64 / seconds);
    report.quantiles("soak.e2e_us", &all.quantiles_us());
    report.figure("soak.queries", samples.iter().map(|(_, interval)| interval.queries).sum::<u64>() as f64);
    report.figure("soak.offered", ended.offered as f64);
    report.figure("soak.rejected", ended.rejected as f64);
    report.figure("soak.aborts", ended.outcomes.aborts as f64);
    report.figure("soak.purged_orders", ended.purged.orders as f64);
    report.note(format!(
        "After minute {:.1}: bytes per live row within {:.1} % of {}, garbage at most {:.1} % of live data.",
        first.at.as_secs_f64() / 60.0,
        100.0 * drift(MemorySample::bytes_per_live_row),
        number(first.bytes_per_live_row()),
        100.0 * most(MemorySample::garbage_share)
    ));
    report.note("Bytes: hot versions, dead ones included, frozen blocks, index nodes and row maps; rows are counted by a scan of all tables.");
    report.note(format!(
        "Offered {}, done {}, rejected {}, aborted attempts {}; the purge deleted {} orders and {} payments.",
        number(ended.offered as f64),
        number((ended.outcomes.committed + ended.outcomes.rolled_back) as f64),
        number(ended.rejected as f64),
        number(ended.outcomes.aborts as f64),
        number(ended.purged.orders as f64),
        number(ended.purged.payments as f64)
    ));
}
