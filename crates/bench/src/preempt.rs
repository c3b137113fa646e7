//! `overtake bench preempt`: the published experiment, first form.
//!
//! Low: one query of one partition on each worker, again and again. High: New-Orders in an open loop. Each policy runs
//! the same in turn, over one loaded database, with a new scheduler and new workers; beside them low alone, high alone,
//! and the signal rung alone, which is the best that the machine could do.
//!
//! **Invariant:** a New-Order counts if it was *due* inside the measured window, however late it ended; the phase waits
//! for the last one. Retries are included in the times.

pub mod phase;
mod report;
pub mod variant;

use crate::arguments::PhaseDuration;
use crate::data::{Data, DataConfig};
use crate::delivery;
use crate::mixed::LowQuery;
use crate::pool::LoadArguments;
use crate::report::{Machine, Report};
use clap::Args;
use host::memory;
use host::refusal::Refusal;
use host::stop::Stop;
use phase::{PhaseConfig, PhaseResult};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use variant::Variant;

/// Arguments of `bench preempt`.
#[derive(Args, Debug, Serialize)]
pub struct PreemptArguments {
    /// Length of each phase: one per policy; low alone and high alone take at most 30 seconds.
    #[command(flatten)]
    #[serde(flatten)]
    duration: PhaseDuration,
    /// Rate of New-Orders per second, 1 to 1,000,000.
    #[arg(long, value_name = "PER_SECOND", default_value_t = 1_000.0, value_parser = rate)]
    rate: f64,
    /// Low-priority queries, separated by commas, each measured in turn: q1 to q22, scan (hand-written, with dense
    /// safepoints), or all (the 22 queries of TPC-H in turn, every answer compared with the undisturbed one).
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_values_t = ["q2".to_owned(), "scan".to_owned()])]
    query: Vec<String>,
    /// Policies to compare, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_values_t = Variant::ALL)]
    policies: Vec<Variant>,
    /// TPC-H's scale factor, 0.01 to 100; 1 takes 2.4 GB of memory, and up to 4.5 GB with the heaviest query.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = crate::arguments::scale_factor)]
    scale_factor: f64,
    #[command(flatten)]
    #[serde(flatten)]
    pool: LoadArguments,
    /// `preempt`: microseconds after which an urgent thread claims a New-Order that no worker has started; 0 for never.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 100)]
    claim_after: u32,
    /// Rounds in which the policies are measured in turn, 1 to 100. Tables show all rounds together.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Keeps arrivals, claimer and dedicated threads in the ordinary scheduling class, as without the privilege.
    #[arg(long)]
    ordinary: bool,
    /// Seed of the arrivals and the New-Orders.
    #[arg(long, value_name = "NUMBER", default_value_t = 42)]
    seed: u64,
}

/// Parses a number of arrivals per second.
///
/// # Errors
/// A sentence that names the allowed values.
pub fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (1.0..=1e6).contains(&rate) => Ok(rate),
        _ => Err("a rate from 1 to 1,000,000 a second is needed".to_owned()),
    }
}

/// Bytes that a New-Order adds to the database: about 1,900, indexes included.
const ORDER_BYTES: f64 = 2_000.0;

impl PreemptArguments {
    /// Returns the bytes that the New-Orders of all phases add to the database.
    fn growth_bytes(&self) -> u64 {
        let phases = 1 + self.query.len() * self.policies.len() * self.rounds as usize;
        let seconds = self.duration.get().as_secs_f64() + phase::WARM_UP.as_secs_f64();
        (self.rate * seconds * phases as f64 * ORDER_BYTES) as u64
    }
}

/// Maximum length of low alone and high alone, which are references: a long run does not need long ones.
const ALONE_MAX: Duration = Duration::from_secs(30);
/// Length of the measurement of the signal rung alone.
const SIGNAL_ALONE: Duration = Duration::from_secs(2);

/// Results of all phases with one low load.
struct LowResults {
    name: String,
    alone: PhaseResult,
    policies: Vec<(Variant, PhaseResult)>,
    /// In each round, the start delays and the end-to-end times at p99.9 under each policy, in microseconds.
    tails: Vec<Vec<(Variant, [f64; 2])>>,
}

/// Measures and reports.
///
/// # Errors
/// A [`Refusal`] for an argument or a machine that does not allow it; a wrong answer, a violated condition, a failed
/// query or a lost request fails the run.
pub fn run(arguments: &PreemptArguments, stop: &Stop) -> anyhow::Result<Report> {
    let names: Vec<&str> = arguments.query.iter().map(String::as_str).collect();
    names.iter().try_for_each(|name| check_query_name(name))?;
    let config = DataConfig {
        scale_factor: arguments.scale_factor,
        scale: arguments.pool.scale(),
        seed: arguments.seed,
        comments: workloads::tpch::Comments::Specified,
    };
    let growth_bytes = arguments.growth_bytes();
    let advice = "lower --scale-factor, --warehouses, --rate or --duration, or raise the container's limit";
    memory::require(config.memory_bytes() + growth_bytes, advice)?;
    let machine = Machine::read();
    let mut report = Report::new("preempt", arguments, machine.clone())?;
    // The first use of a page would count in the times of New-Orders.
    tracing::info!(size = memory::in_words(growth_bytes), "touching memory for the new orders");
    memory::warm(growth_bytes, stop)?;
    let data = Data::load_with_progress_bar(&config, stop)?;
    let new_phase = |variant, queries: &[LowQuery], with_high: bool, duration: Duration| PhaseConfig {
        variant,
        queries: queries.to_vec(),
        rate: with_high.then_some(arguments.rate),
        requests: Data::new_orders,
        workers: arguments.pool.workers(),
        duration,
        claim_after_ns: claim_after_ns(variant, arguments.claim_after),
        realtime: !arguments.ordinary,
        yield_interval: arguments.pool.yield_interval,
        low_share: arguments.pool.low_share,
        seed: arguments.seed,
        observe: None,
    };
    let duration = arguments.duration.get();
    let alone_duration = duration.min(ALONE_MAX);
    tracing::info!("measuring the signal rung alone");
    let signal = delivery::signal_alone(SIGNAL_ALONE, stop)?;
    tracing::info!("measuring New-Orders alone");
    let high_alone = new_phase(Variant::PREEMPT, &[], true, alone_duration).run(&data, stop)?;
    let mut results = Vec::new();
    for name in names {
        let queries = low_queries(&data, name)?;
        tracing::info!(query = name, "measuring it alone");
        // The answers of the undisturbed queries are those that all policies must give.
        let alone = new_phase(Variant::PREEMPT, &queries, false, alone_duration).run(&data, stop)?;
        let mut policies: Vec<(Variant, PhaseResult)> = Vec::new();
        let mut tails = Vec::new();
        for round in 1..=arguments.rounds {
            let mut tails_of_round = Vec::new();
            for &variant in &arguments.policies {
                tracing::info!(query = name, policy = variant.name(), round, "measuring");
                let result = new_phase(variant, &queries, true, duration).run(&data, stop)?;
                alone.compare_answers(&result)?;
                let tally = &result.tally;
                tails_of_round.push((variant, [&tally.start, &tally.e2e].map(|times| times.raw.quantile_us(0.999))));
                match policies.iter_mut().find(|(of, _)| *of == variant) {
                    Some((_, all)) => all.merge(result),
                    None => policies.push((variant, result)),
                }
            }
            tails.push(tails_of_round);
        }
        results.push(LowResults { name: name.to_owned(), alone, policies, tails });
    }
    let conditions = data.check()?;
    report::fill(&mut report, signal.as_ref(), &high_alone, &results);
    report.note(format!("TPC-C's consistency conditions hold after all phases: {conditions}."));
    Ok(report)
}

/// Returns the time after which requests are claimed: of the whole policy, not of one rung alone.
fn claim_after_ns(variant: Variant, after_us: u32) -> Option<u64> {
    (variant == Variant::PREEMPT && 0 < after_us).then(|| u64::from(after_us) * 1_000)
}

fn check_query_name(name: &str) -> Result<(), Refusal> {
    let is_known = name == "all" || name == "scan" || number_of(name).is_some();
    is_known.then_some(()).ok_or_else(|| Refusal::new(format!("unknown query \"{name}\": use q1 to q22, scan or all")))
}

fn number_of(name: &str) -> Option<usize> {
    let number = name.strip_prefix('q')?.parse().ok()?;
    (1..=workloads::tpch::QUERIES_COUNT).contains(&number).then_some(number)
}

fn low_queries(data: &Arc<Data>, name: &str) -> anyhow::Result<Vec<LowQuery>> {
    match (name, number_of(name)) {
        ("scan", _) => Ok(vec![data.dense_scan()]),
        (_, Some(number)) => Ok(vec![data.tpch_query(number)?]),
        _ => (1..=workloads::tpch::QUERIES_COUNT).map(|number| data.tpch_query(number)).collect(),
    }
}
