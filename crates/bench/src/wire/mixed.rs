//! `overtake bench wire mixed`: what urgent transactions wait for when sessions run TPC-H's queries back to back.
//!
//! **Invariant:** latencies are the client's, from the intended arrival (open loop); the same client, rate and inputs meet
//! the idle server and the busy one, and a ratio is of one server to itself. The client stands for another machine, so its
//! threads run in the real-time class where that is allowed; its lateness is printed, and so is what an ordinary client saw.
//! Runs follow one another, and in each the servers take turns; what is told is the median of the runs. Beside each phase bare
//! sleepers and the kernel's counters show what was the host's.

mod analytics;
mod host;
mod open_loop;
mod phases;
mod report;
mod urgent;

use super::client::Control;
use super::servers::{Target, Which};
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
pub struct Arguments {
    /// Of one phase: one kind of transaction, one number of analytics sessions.
    #[command(flatten)]
    #[serde(flatten)]
    duration: PhaseDuration,
    /// Runs of all phases, one after the other, 1 to 99; what is told is the median.
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: u32,
    /// The urgent transactions, separated by commas.
    #[arg(long, value_name = "KINDS", value_delimiter = ',', default_values = ["update", "new-order"])]
    kinds: Vec<urgent::Kind>,
    /// Urgent transactions a second, 1 to 100,000.
    #[arg(long, value_name = "PER_SECOND", default_value_t = 500.0, value_parser = rate)]
    rate: f64,
    /// Numbers of analytics sessions, separated by commas, 1 to 128 each.
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_values_t = [2, 4], value_parser = clap::value_parser!(u32).range(1..=128))]
    analytics: Vec<u32>,
    /// TPC-H's queries that they run in turn, separated by commas, 1 to 22 [default: all].
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=22))]
    query: Vec<u32>,
    /// Rows of a table that the first session makes and drops before each query, so that the server gives memory back all the
    /// time; 0 for none.
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100_000_000))]
    dropped_rows: u32,
    /// TPC-H's scale factor, 0.01 to 100; 1 takes 9 GB of memory, both servers together.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = crate::arguments::scale_factor)]
    scale_factor: f64,
    /// TPC-C's warehouses, 1 to 100.
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    warehouses: u32,
    /// A population of TPC-C fifty times smaller than the standard's, for a quick look.
    #[arg(long)]
    small: bool,
    /// Connections of the urgent client, 1 to 1,000.
    #[arg(long, value_name = "COUNT", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    clients: u32,
    /// Makes population, inputs and arrivals.
    #[arg(long, value_name = "NUMBER", default_value_t = 42)]
    seed: u64,
    /// Which servers.
    #[command(flatten)]
    #[serde(flatten)]
    which: Which,
}

/// Parses a rate.
///
/// # Errors
/// A sentence that says what is allowed.
pub fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (1.0..=100_000.0).contains(&rate) => Ok(rate),
        _ => Err("a rate from 1 to 100000 a second is needed".to_owned()),
    }
}

impl Arguments {
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
/// When memory is short, PostgreSQL is not to be had, a server refuses something, or the run is stopped.
pub fn run(arguments: &Arguments, stop: &Stop) -> anyhow::Result<Report> {
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

/// The table of the one-statement update.
fn accounts(target: &Target) -> anyhow::Result<()> {
    let control = Control::connect(target)?;
    if !target.is_overtake() {
        control.batch("drop table if exists wire_accounts")?;
    }
    control.batch("create table wire_accounts (id integer primary key, balance bigint not null)")?;
    let most = urgent::ACCOUNTS_COUNT;
    control.batch(&format!("insert into wire_accounts select id, 0 from generate_series(1, {most}) as id"))?;
    if target.is_overtake() { Ok(()) } else { control.batch("vacuum analyze wire_accounts") }
}
