//! `overtake bench ch`: CH-benCHmark. Urgent TPC-C at a rate, with analytic queries over its tables beside, under each
//! policy.
//!
//! **Invariant: no answer goes unchecked.** Every run of a query, at rest or under load, is repeated in another engine,
//! into which the redo records up to the number of the run's snapshot were replayed, and must have found the same rows.
//!
//! The tables grow while TPC-C writes them. So the queries run at rest before and after each policy, and a run under
//! load is compared with the time at rest interpolated between these two at the moment of the run.

mod report;
mod verify;
mod watch;

use crate::arguments::PhaseDuration;
use crate::data::{Data, DataConfig};
use crate::mixed::LowQuery;
use crate::pool::LoadArguments;
use crate::preempt::phase::{Observe, PhaseConfig, PhaseResult, WARM_UP};
use crate::preempt::variant::Variant;
use crate::report::{Machine, Report};
use anyhow::Context;
use clap::Args;
use engine::{Engine, EngineConfig, Housekeeper};
use host::memory;
use host::stop::Stop;
use preempt::os;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use verify::Verifier;
use watch::{PhaseObserver, QueryRun};
use workloads::ch::QUERIES_COUNT;
use workloads::replay::Records;

/// Arguments of `bench ch`.
#[derive(Args, Debug, Serialize)]
pub struct ChArguments {
    /// Length of each phase, one per policy. A phase goes on until each query has ended once.
    #[command(flatten)]
    #[serde(flatten)]
    duration: PhaseDuration,
    /// TPC-C's transactions a second, 1 to 1,000,000, in the standard's mix.
    #[arg(long, value_name = "PER_SECOND", default_value_t = 5_000.0, value_parser = super::preempt::rate)]
    rate: f64,
    /// Policies to compare, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_values_t = Variant::ALL)]
    policies: Vec<Variant>,
    #[command(flatten)]
    #[serde(flatten)]
    pool: LoadArguments,
    /// Seed of the population, the arrivals and the transactions.
    #[arg(long, value_name = "NUMBER", default_value_t = 42)]
    seed: u64,
}

/// Minimum number of runs of each query at rest.
const RUNS_AT_REST: usize = 2;
/// Window of a phase at rest.
const AT_REST: Duration = Duration::from_millis(100);
/// Number of passes of the freezer until rows that nobody writes any more are frozen, and their versions gone.
const FREEZER_PASSES: u32 = 4;
/// Number of row IDs that the freezer looks at between two checks for a stop.
const FREEZER_ROWS: u64 = 65_536;
/// Maximum length of the phase with TPC-C alone, which is a reference: a long run does not need a long one.
const ALONE_MAX: Duration = Duration::from_secs(5);
/// Bytes that a transaction adds to the tables, and to the redo records: half of the transactions are New-Orders.
const GROWTH_BYTES: f64 = 1_200.0;
const REDO_BYTES: f64 = 1_800.0;
/// Bytes that loading a warehouse adds to the redo records.
const LOAD_REDO_BYTES: f64 = 130e6;
/// Seconds that a phase may need beyond its length until each query has ended.
const SECONDS_MORE: f64 = 3.0;

impl ChArguments {
    /// Returns the number of transactions of all phases.
    fn transactions(&self) -> f64 {
        let seconds = self.duration.get().as_secs_f64() + WARM_UP.as_secs_f64() + SECONDS_MORE;
        self.rate * seconds * (1 + self.policies.len()) as f64
    }

    fn redo_bytes(&self) -> u64 {
        (self.transactions() * REDO_BYTES + f64::from(self.pool.scale().warehouses) * LOAD_REDO_BYTES) as u64
    }
}

/// Results of one policy.
struct PolicyResult {
    variant: Variant,
    phase: PhaseResult,
    /// Runs before, during and after the load.
    runs: [Vec<QueryRun>; 3],
    chain_max: u64,
}

/// Measures, verifies and reports.
///
/// # Errors
/// A [`host::refusal::Refusal`] if memory is short; a wrong answer, a violated condition, a failed query or a lost
/// request fails the run.
pub fn run(arguments: &ChArguments, stop: &Stop) -> anyhow::Result<Report> {
    let config = DataConfig {
        scale_factor: 0.0,
        scale: arguments.pool.scale(),
        seed: arguments.seed,
        comments: workloads::tpch::Comments::Short,
    };
    let growth_bytes = (arguments.transactions() * GROWTH_BYTES) as u64;
    // Memory holds the tables twice: once more for the replay.
    let needed_bytes = 2 * (config.memory_bytes() + growth_bytes) + arguments.redo_bytes();
    memory::require(needed_bytes, "lower --warehouses, --rate or --duration, or raise the container's limit")?;
    let mut report = Report::new("ch", arguments, Machine::read())?;
    tracing::info!(size = memory::in_words(growth_bytes + arguments.redo_bytes()), "touching memory");
    memory::warm(growth_bytes, stop)?;
    let records = Arc::new(Records::with_room(arguments.redo_bytes() as usize));
    let engine = Engine::new(EngineConfig { log: records.clone(), ..EngineConfig::in_memory() });
    let data = Data::load_into_with_progress_bar(engine, &config, stop)?;
    let queries: Vec<LowQuery> = (1..=QUERIES_COUNT).map(|number| data.ch_query(number)).collect::<Result<_, _>>()?;
    let bench = ChBench { arguments, data: &data, queries, stop };

    tracing::info!("freezing what was loaded");
    freeze_all(data.engine(), stop)?;
    let housekeeping = Housekeeper::start(data.engine())?;
    tracing::info!("measuring queries at rest");
    // The first runs find cold caches: they are verified, and count for nothing else.
    let cold = bench.at_rest()?;
    let mut before = bench.at_rest()?;
    tracing::info!("measuring TPC-C alone");
    let alone = bench.alone()?;
    let mut policies = Vec::new();
    for &variant in &arguments.policies {
        tracing::info!(policy = variant.name(), "measuring");
        let watch = Arc::new(PhaseObserver::new(&data, 1));
        let phase = bench.phase(variant, Some(arguments.rate), arguments.duration.get(), watch.clone());
        let phase = phase.run(&data, stop)?;
        let outcomes = phase.outcomes;
        anyhow::ensure!(outcomes.failed == 0, "{} transactions failed", outcomes.failed);
        let after = bench.at_rest()?;
        let runs = [before, watch.take_runs(), after.clone()];
        policies.push(PolicyResult { variant, phase, runs, chain_max: watch.chain_max() });
        before = after;
    }
    housekeeping.stop().context("the housekeeping")?;
    let conditions = data.check()?;
    let mut verifier = Verifier::new(&records, &data, arguments.pool.workers())?;
    let runs = policies.iter().flat_map(|policy| policy.runs.iter().flatten()).chain(&cold);
    let verified = verifier.verify(runs, stop)?;
    report::fill(&mut report, &alone, &policies, &verified);
    report.note(format!("TPC-C's consistency conditions hold after all phases: {conditions}."));
    Ok(report)
}

/// Lets the freezer come to rest, as it would be long after a load.
fn freeze_all(engine: &Engine, stop: &Stop) -> anyhow::Result<()> {
    for _ in 0..FREEZER_PASSES {
        while !engine.freeze(FREEZER_ROWS).ended {
            stop.wait(Duration::ZERO)?;
        }
        engine.collect_garbage(usize::MAX);
    }
    Ok(())
}

/// Results of TPC-C without queries.
struct TpccAlone {
    phase: PhaseResult,
    /// Share of all workers' processors that transactions took, from the first instruction of each to its end.
    share: f64,
    /// Share of the processors that this whole process took: terminals, scheduling and housekeeping, too.
    process_share: f64,
}

/// State that all phases share.
struct ChBench<'a> {
    arguments: &'a ChArguments,
    data: &'a Arc<Data>,
    queries: Vec<LowQuery>,
    stop: &'a Stop,
}

impl ChBench<'_> {
    fn phase(&self, variant: Variant, rate: Option<f64>, duration: Duration, observe: Arc<dyn Observe>) -> PhaseConfig {
        PhaseConfig {
            variant,
            queries: self.queries.clone(),
            rate,
            requests: Data::full_mix,
            workers: self.arguments.pool.workers(),
            duration,
            claim_after_ns: (variant == Variant::PREEMPT).then_some(sched::CLAIM_AFTER_NS),
            realtime: true,
            yield_interval: self.arguments.pool.yield_interval,
            low_share: self.arguments.pool.low_share,
            seed: self.arguments.seed,
            observe: Some(observe),
        }
    }

    fn alone(&self) -> anyhow::Result<TpccAlone> {
        let duration = self.arguments.duration.get().min(ALONE_MAX);
        let watch = Arc::new(PhaseObserver::new(self.data, 0));
        let phase = self.phase(Variant::PREEMPT, Some(self.arguments.rate), duration, watch);
        let (wall_ns, cpu_ns) = (os::now_ns(), os::process_cpu_ns());
        let phase = PhaseConfig { queries: Vec::new(), ..phase }.run(self.data, self.stop)?;
        let (wall_ns, cpu_ns) = (os::now_ns() - wall_ns, os::process_cpu_ns() - cpu_ns);
        // The time of a transaction that was never kept from its processor is that of the transaction alone.
        let run = &phase.tally.run;
        let run_us = if 0 < run.on_cpu.count() { run.on_cpu.mean_us() } else { run.raw.quantile_us(0.5) };
        let workers = self.arguments.pool.workers() as f64;
        Ok(TpccAlone {
            share: self.arguments.rate * run_us / 1e6 / workers,
            process_share: cpu_ns as f64 / wall_ns as f64 / workers,
            phase,
        })
    }

    fn at_rest(&self) -> anyhow::Result<Vec<QueryRun>> {
        let watch = Arc::new(PhaseObserver::new(self.data, RUNS_AT_REST));
        self.phase(Variant::PREEMPT, None, AT_REST, watch.clone()).run(self.data, self.stop)?;
        Ok(watch.take_runs())
    }
}
