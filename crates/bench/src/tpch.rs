//! `overtake bench tpch`: TPC-H's 22 queries from Overtake's frozen blocks, compared with DataFusion's own in-memory
//! tables and DuckDB.
//!
//! **Invariant:** all three have the same rows, types and number of threads, and take turns query by query in one run,
//! so other work of the machine meets all of them alike. A time is from the query's text to its whole answer, and the
//! answers of all three are compared. Each orders its joins in its own way: Overtake by samples of its tables,
//! DataFusion as the query names them; so the ratio to DataFusion's tables is of storage and plans together.

pub mod duck;

use crate::report::{Machine, Report, TextTable, number};
use anyhow::Context;
use clap::Args;
use duck::Duck;
use engine::{Engine, EngineConfig, Snapshot};
use host::memory;
use host::stop::Stop;
use olap::{Answer, Database, QueryMemory, RunConfig, Runtime, RuntimeConfig};
use preempt::os;
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};
use workloads::tpch::{self, ANSWERS_SCALE_FACTOR, Comments, LoadConfig, QUERIES_COUNT};

/// Arguments of `bench tpch`.
#[derive(Args, Debug, Serialize)]
pub struct TpchArguments {
    /// TPC-H's scale factor, 0.01 to 100; 1 takes 7 GB of memory, DuckDB's included.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = crate::arguments::scale_factor)]
    scale_factor: f64,
    /// Number of measured runs of each query by each side, 1 to 1,000; the median counts. One more, before, is not
    /// measured.
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Number of partitions of a query, and of threads of each side [default: one for each processor].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=128))]
    partitions: Option<u32>,
    /// Compare with DataFusion's in-memory tables alone: DuckDB is neither looked for nor installed.
    #[arg(long)]
    without_duckdb: bool,
}

impl TpchArguments {
    fn memory_bytes(&self) -> u64 {
        // Q18 with its hash tables peaks at 4.2 GB per unit of scale; DuckDB holds 1 GB and works with as much.
        let a_unit = if self.without_duckdb { 4.2e9 } else { 6.5e9 };
        (0.5e9 + a_unit * self.scale_factor) as u64
    }

    fn partitions(&self) -> usize {
        self.partitions.map_or_else(|| os::cpus().len(), |partitions| partitions as usize)
    }
}

/// Number of sides, in the order of their turns.
const SIDES: usize = 3;
const OURS: usize = 0;
const MEMORY: usize = 1;
const DUCK: usize = 2;

/// Seconds of each run of one query, by side.
type QuerySeconds = [Vec<f64>; SIDES];

/// Engines that run queries.
struct Sides {
    snapshot: Arc<Snapshot>,
    ours: Database,
    memory: Database,
    runtime: Runtime,
    partitions: usize,
    duck: Option<Duck>,
}

impl Sides {
    /// Runs one query from its text, by DataFusion; returns the seconds and the answer.
    fn answer(&self, database: &Database, text: &str) -> anyhow::Result<(f64, Answer)> {
        let began = Instant::now();
        let prepared = database.prepare(text)?;
        let answer = self.runtime.answer(&prepared, Arc::clone(&self.snapshot), RunConfig::new(self.partitions))?;
        Ok((began.elapsed().as_secs_f64(), answer))
    }

    /// Runs a query by one side, which must exist; returns the seconds.
    fn run(&mut self, side: usize, text: &str) -> anyhow::Result<f64> {
        match (side, &mut self.duck) {
            (DUCK, Some(duck)) => Ok(duck.query(text, false)?.seconds),
            (MEMORY, _) => Ok(self.answer(&self.memory, text)?.0),
            _ => Ok(self.answer(&self.ours, text)?.0),
        }
    }

    fn has(&self, side: usize) -> bool {
        side != DUCK || self.duck.is_some()
    }

    /// Runs query `number` once on every side, unmeasured, and compares the answers with each other and with the known ones.
    fn compare(&mut self, number: usize, is_known: bool) -> anyhow::Result<()> {
        let text = tpch::query(number);
        let ours = self.answer(&self.ours, text)?.1;
        let memory = self.answer(&self.memory, text)?.1;
        let sorted = |answer: &Answer| {
            // Rows that tie may be shown in any order.
            let mut rows = answer.texts();
            rows.sort_unstable();
            rows
        };
        anyhow::ensure!(
            sorted(&ours) == sorted(&memory),
            "query {number}: our answer is not that of DataFusion's own tables"
        );
        if is_known {
            tpch::check_answer(number, &ours.texts())?;
        }
        if let Some(duck) = &mut self.duck {
            let theirs = duck.query(text, true)?.answer.context("DuckDB sent no answer")?;
            tpch::compare_answer(number, &theirs, &ours.texts()).context("compared with DuckDB")?;
        }
        Ok(())
    }
}

/// Measures and reports.
///
/// # Errors
/// If memory is short, DuckDB is not available, the run is stopped, or an answer is wrong.
pub fn run(arguments: &TpchArguments, stop: &Stop) -> anyhow::Result<Report> {
    let partitions = arguments.partitions();
    memory::require(arguments.memory_bytes(), "lower --scale-factor, or raise the container's limit")?;
    let mut report = Report::new("tpch", arguments, Machine::read())?;
    let duck = if arguments.without_duckdb { None } else { Some(Duck::start(partitions)?) };
    let mut sides = load(arguments, partitions, duck, stop)?;
    let is_known = arguments.scale_factor == ANSWERS_SCALE_FACTOR;
    tracing::info!("comparing answers");
    for number in 1..=QUERIES_COUNT {
        stop.wait(Duration::ZERO)?;
        sides.compare(number, is_known).with_context(|| format!("query {number}"))?;
    }
    tracing::info!(rounds = arguments.rounds, "measuring");
    let mut times: Vec<QuerySeconds> = (0..QUERIES_COUNT).map(|_| QuerySeconds::default()).collect();
    for round in 0..arguments.rounds as usize {
        for (at, times) in times.iter_mut().enumerate() {
            // The first side finds the processors' caches as another query has left them, so the first place rotates.
            for side in
                (0..SIDES).map(|turn| (turn + round) % SIDES).filter(|side| sides.has(*side)).collect::<Vec<_>>()
            {
                stop.wait(Duration::ZERO)?;
                times[side].push(sides.run(side, tpch::query(at + 1)).with_context(|| format!("query {}", at + 1))?);
            }
        }
    }
    fill(&mut report, &times, sides.duck.as_ref().map(Duck::version));
    report.note(format!("{partitions} partitions, {partitions} threads on each side; medians of {} runs, in turn; from the query's text to the whole answer.", arguments.rounds));
    report.note(format!(
        "All answers are equal: ours to those of DataFusion's own tables{}{}.",
        if sides.duck.is_some() { ", to DuckDB's" } else { "" },
        if is_known { ", and to the committed ones" } else { "" },
    ));
    Ok(report)
}

fn load(arguments: &TpchArguments, partitions: usize, mut duck: Option<Duck>, stop: &Stop) -> anyhow::Result<Sides> {
    let scale_factor = arguments.scale_factor;
    let engine = Engine::new(EngineConfig::in_memory());
    tracing::info!(scale_factor, "loading");
    let config = LoadConfig { scale_factor, comments: Comments::Specified, threads: os::cpus().len() };
    tpch::load(&engine, &config, &mut |_| {})?;
    if let Some(duck) = &mut duck {
        tracing::info!(scale_factor, version = duck.version(), "loading DuckDB");
        duck.load(scale_factor, config.comments, stop)?;
    }
    let snapshot = engine.snapshot();
    let memory_bytes_max = (4u64 << 30).max((4.0e9 * scale_factor) as u64) as usize;
    Ok(Sides {
        memory: Database::of_memory_tables(engine.clone(), &snapshot, partitions)?,
        ours: Database::new(engine),
        snapshot,
        runtime: Runtime::new(RuntimeConfig {
            memory: QueryMemory::of_bytes(memory_bytes_max),
            ..RuntimeConfig::new(partitions)
        })?,
        partitions,
        duck,
    })
}

fn median_ms(times: &[f64]) -> Option<f64> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len().checked_sub(1)? / 2;
    Some((sorted[middle] + sorted[sorted.len() / 2]) / 2.0 * 1e3)
}

fn fill(report: &mut Report, times: &[QuerySeconds], duck: Option<&str>) {
    let duck_title = duck.map_or_else(|| "DuckDB".to_owned(), |version| format!("DuckDB {version}"));
    let header = ["", "ours ms", "MemTable ms", "ours / MemTable", &format!("{duck_title} ms"), "ours / DuckDB"];
    let mut table = TextTable::new("TPC-H, median time of each query", &header);
    let mut logarithms = [0.0; SIDES];
    let cell = |value: Option<f64>| value.map_or_else(String::new, number);
    // Sums of logarithms, for the geometric means.
    for (at, times) in times.iter().enumerate() {
        let ms: Vec<Option<f64>> = times.iter().map(|times| median_ms(times)).collect();
        let over = |side: usize| Some(ms[OURS]? / ms[side]?);
        table.row([
            format!("Q{}", at + 1),
            cell(ms[OURS]),
            cell(ms[MEMORY]),
            cell(over(MEMORY)),
            cell(ms[DUCK]),
            cell(over(DUCK)),
        ]);
        for (side, name) in [(OURS, "ours"), (MEMORY, "memtable"), (DUCK, "duckdb")] {
            if let Some(ms) = ms[side] {
                report.figure(format!("tpch.q{:02}.{name}_ms", at + 1), ms);
                logarithms[side] += ms.ln() / QUERIES_COUNT as f64;
            }
        }
    }
    let mean = logarithms.map(f64::exp);
    let if_duck = |value: f64| duck.map(|_| value);
    let (vs_memory, vs_duck) = (mean[OURS] / mean[MEMORY], mean[OURS] / mean[DUCK]);
    table.row([
        "geometric mean".to_owned(),
        number(mean[OURS]),
        number(mean[MEMORY]),
        number(vs_memory),
        cell(if_duck(mean[DUCK])),
        cell(if_duck(vs_duck)),
    ]);
    report.table(table);
    report.figure("tpch.ours_ms", mean[OURS]);
    report.figure("tpch.memtable_ms", mean[MEMORY]);
    report.figure("tpch.vs_memtable", vs_memory);
    if duck.is_some() {
        report.figure("tpch.duckdb_ms", mean[DUCK]);
        report.figure("tpch.vs_duckdb", vs_duck);
    }
}
