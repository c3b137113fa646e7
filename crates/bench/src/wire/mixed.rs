//! `overtake bench wire mixed`: latencies of urgent transactions when sessions run TPC-H's queries back to back.
//!
//! **Invariant:** latencies are the client's, from the intended arrival (open loop); the same client, rate and inputs
//! meet the idle server and the busy one, and a ratio is of one server to itself. The client stands for another
//! machine, so its threads run in the real-time class where that is allowed; its lateness is printed, and so are the
//! latencies of an ordinary client. Runs follow one another, and in each the servers take turns; the reported value is
//! the median of the runs. Beside each phase bare sleepers and the kernel's counters show the share of the host.

pub(crate) mod analytics;
pub(crate) mod host;
mod open_loop;
mod phases;
mod report;
mod urgent;

use super::client::Control;
use super::servers::{MeasuredServer, ServerChoice};
use super::{tpcc, tpch};
use crate::arguments::PhaseDuration;
use crate::report::{Machine, Report};
use ::host::memory;
use ::host::stop::Stop;
use clap::Args;
use phases::Phases;
use serde::Serialize;
use workloads::tpcc::Scale;

/// Arguments of `bench wire mixed`.
#[derive(Args, Debug, Serialize)]
pub struct MixedArguments {
    /// Length of one phase: one kind of transaction, one number of analytics sessions.
    #[command(flatten)]
    #[serde(flatten)]
    duration: PhaseDuration,
    /// Number of runs of all phases, one after the other, 1 to 99; the median is reported.
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: u32,
    /// Urgent transactions, separated by commas.
    #[arg(long, value_name = "KINDS", value_delimiter = ',', default_values = ["update", "new-order"])]
    kinds: Vec<urgent::UrgentKind>,
    /// Urgent transactions per second, 1 to 100,000.
    #[arg(long, value_name = "PER_SECOND", default_value_t = 500.0, value_parser = rate)]
    rate: f64,
    /// Numbers of analytics sessions, separated by commas, 1 to 128 each.
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_values_t = [2, 4], value_parser = clap::value_parser!(u32).range(1..=128))]
    analytics: Vec<u32>,
    /// TPC-H's queries that they run in turn, separated by commas, 1 to 22 [default: all].
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=22))]
    query: Vec<u32>,
    /// Number of rows of a table that the first session makes and drops before each query, so that the server gives
    /// memory back all the time; 0 for none.
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100_000_000))]
    dropped_rows: u32,
    /// TPC-H's scale factor, 0.01 to 100; 1 takes 9 GB of memory, both servers together.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = crate::arguments::scale_factor)]
    scale_factor: f64,
    /// Number of TPC-C's warehouses, 1 to 100.
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    warehouses: u32,
    /// Use a population of TPC-C fifty times smaller than the standard's, for a quick look.
    #[arg(long)]
    small: bool,
    /// Number of connections of the urgent client, 1 to 1,000.
    #[arg(long, value_name = "COUNT", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    clients: u32,
    /// Seed of population, inputs and arrivals.
    #[arg(long, value_name = "NUMBER", default_value_t = 42)]
    seed: u64,
    /// Servers to measure.
    #[command(flatten)]
    #[serde(flatten)]
    which: ServerChoice,
}

/// Parses a rate.
///
/// # Errors
/// A sentence that names the allowed values.
pub fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (1.0..=100_000.0).contains(&rate) => Ok(rate),
        _ => Err("a rate from 1 to 100000 a second is needed".to_owned()),
    }
}

impl MixedArguments {
    fn scale(&self) -> Scale {
        let warehouses = self.warehouses as i32;
        if self.small { Scale::small(warehouses) } else { Scale::spec(warehouses) }
    }

    fn queries(&self) -> Vec<usize> {
        if self.query.is_empty() {
            (1..=22).collect()
        } else {
            self.query.iter().map(|query| *query as usize).collect()
        }
    }
}

/// Measures and reports.
///
/// # Errors
/// If memory is short, PostgreSQL is not available, a server refuses something, or the run is stopped.
pub fn run(arguments: &MixedArguments, stop: &Stop) -> anyhow::Result<Report> {
    let needed = (1.0e9 + 9.0e9 * arguments.scale_factor) as u64 + ((u64::from(arguments.warehouses) * 600) << 20);
    let advice = "lower --scale-factor or --warehouses, or raise the container's limit";
    memory::require(if arguments.small { 1 << 30 } else { needed }, advice)?;
    let machine = Machine::read();
    let realtime_allowed = machine.realtime_allowed;
    let mut report = Report::new("wire mixed", arguments, machine)?;
    let most = arguments.analytics.iter().copied().max().unwrap_or(0);
    let targets = arguments.which.start(false, arguments.clients + most + 20)?;
    for refused in tpcc::load(&targets, arguments.scale(), arguments.seed, stop)? {
        report.note(refused);
    }
    for refused in tpch::load(&targets, arguments.scale_factor, stop)? {
        report.note(refused);
    }
    targets.iter().try_for_each(accounts)?;
    let phases = Phases { arguments, realtime_allowed, stop };
    report::fill(&mut report, arguments, realtime_allowed, &phases.measure(&targets)?);
    Ok(report)
}

/// Creates the table of the one-statement update.
fn accounts(target: &MeasuredServer) -> anyhow::Result<()> {
    let control = Control::connect(target)?;
    if !target.is_overtake() {
        control.batch("drop table if exists wire_accounts")?;
    }
    control.batch("create table wire_accounts (id integer primary key, balance bigint not null)")?;
    let most = urgent::ACCOUNTS_COUNT;
    control.batch(&format!("insert into wire_accounts select id, 0 from generate_series(1, {most}) as id"))?;
    if target.is_overtake() { Ok(()) } else { control.batch("vacuum analyze wire_accounts") }
}
