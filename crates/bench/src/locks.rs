//! `overtake bench locks`: rows that low priority holds and high priority wants, under each setting of `lock_priority`.
//!
//! Closed sessions send transactions statement by statement; each statement is a request of its own to the scheduler,
//! and the client takes its time between two of them, as over a network. So most locks are held by sessions that wait
//! for their clients, which is where the settings differ (Schroeder et al., ICDE 2006, section 5.2, Figures 12 and 13).
//!
//! **Invariant:** the settings are measured in turn, round after round, over the same tables, with the same sessions
//! and the same inputs; response times count from the moment at which the client wanted to begin, repetitions included.

mod clients;
mod hot;
mod load;
mod phase;
mod report;
mod terminal;
mod tpcc;
mod workers;

use crate::arguments::PhaseDuration;
use crate::report::{Machine, Report};
use clap::Args;
use engine::{Engine, EngineConfig, LockPriority};
use host::memory;
use host::stop::Stop;
use load::LockLoad;
use phase::{LockPhaseConfig, LockPhaseResult};
use serde::Serialize;
use std::time::Duration;

/// Arguments of `bench locks`.
#[derive(Args, Debug, Serialize)]
pub struct LocksArguments {
    /// Length of the measurement of each setting for each load, in rounds that are interleaved.
    #[command(flatten)]
    #[serde(flatten)]
    duration: PhaseDuration,
    /// Number of sessions, 2 to 1,000; each sends one statement after the other.
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=1_000))]
    sessions: u32,
    /// Percentage of transactions that are of class high, chosen at random, 1 to 99.
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=99))]
    high_percent: u8,
    /// Microseconds that a client takes between two statements, 0 to 100,000.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 200, value_parser = clap::value_parser!(u32).range(..=100_000))]
    client_time: u32,
    /// Number of rows that the hot-row load fights for, 1 to 1,000.
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    hot_rows: u32,
    /// Workers, pinned to a processor each [default: one for each processor].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=128))]
    workers: Option<u32>,
    /// Seed of population, classes and inputs.
    #[arg(long, value_name = "NUMBER", default_value_t = 42)]
    seed: u64,
}

/// Number of rounds in which the settings take turns.
const ROUNDS: u32 = 2;
/// Time before each measured window.
const WARM_UP: Duration = Duration::from_millis(300);
/// Memory for one warehouse, the hot and cold rows, and the growth of all phases, with a margin.
const MEMORY_BYTES: u64 = 1 << 30;

/// Results of all rounds of a load, by setting.
pub(crate) struct LoadResults {
    /// Title of the load: "Payment and New-Order on one warehouse".
    title: String,
    /// Prefix of the setting's name in figures.
    prefix: &'static str,
    settings: Vec<Setting>,
}

/// Results of one setting.
pub(crate) struct Setting {
    priority: LockPriority,
    result: LockPhaseResult,
}

/// Measures and reports.
///
/// # Errors
/// If memory is short, the run is stopped, a session fails, or the tables are wrong afterwards.
pub fn run(arguments: &LocksArguments, stop: &Stop) -> anyhow::Result<Report> {
    memory::require(MEMORY_BYTES, "free some, or raise the container's limit")?;
    let mut report = Report::new("locks", arguments, Machine::read())?;
    let engine = Engine::new(EngineConfig::in_memory());
    tracing::info!("loading");
    let loads: [Box<dyn LockLoad>; 2] = [
        Box::new(tpcc::Warehouse::load(&engine, arguments.seed)?),
        Box::new(hot::HotRows::load(&engine, arguments.hot_rows as i32, arguments.seed)?),
    ];
    let mut results = Vec::new();
    for mut load in loads {
        results.push(measure(arguments, &engine, &mut *load, stop)?);
        load.check(&engine)?;
    }
    report::fill(&mut report, &results);
    Ok(report)
}

fn measure(
    arguments: &LocksArguments,
    engine: &Engine,
    load: &mut dyn LockLoad,
    stop: &Stop,
) -> anyhow::Result<LoadResults> {
    let mut settings: Vec<Setting> = LockPriority::ALL
        .into_iter()
        .map(|priority| Setting { priority, result: LockPhaseResult::default() })
        .collect();
    let duration = arguments.duration.get() / ROUNDS;
    for round in 0..ROUNDS {
        for Setting { priority, result } in &mut settings {
            tracing::info!(
                load = load.title(),
                setting = priority.name(),
                round,
                seconds = duration.as_secs_f64(),
                "measuring"
            );
            let phase = LockPhaseConfig {
                priority: *priority,
                sessions: arguments.sessions as usize,
                high_percent: arguments.high_percent,
                client_time: Duration::from_micros(arguments.client_time.into()),
                workers: arguments.workers.map_or(preempt::os::cpus().len(), |workers| workers as usize),
                warm_up: WARM_UP,
                duration,
                seed: arguments.seed + u64::from(round),
            };
            result.add(&phase.run(engine, load, stop)?);
        }
    }
    Ok(LoadResults { title: load.title(), prefix: load.prefix(), settings })
}
