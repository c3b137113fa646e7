//! `overtake bench tpcc`: TPC-C in process, without analytics, in closed loops, on its own threads.
//!
//! Without `--mix` four parts, each over tables of its own: New-Order alone, the full mix, two warehouses on two
//! workers against one on one, and SERIALIZABLE against READ COMMITTED.
//!
//! **Invariant:** the sides of a comparison take turns, slice by slice, over tables that both leave in the same state;
//! and after each part the consistency conditions hold, or there is no report.

mod compare;
mod part;

use crate::arguments::PhaseDuration;
use crate::report::{Machine, Report};
use clap::{Args, ValueEnum};
use host::memory;
use host::stop::Stop;
use part::{TpccConfig, TpccEngine};
use preempt::os;
use serde::Serialize;
use std::time::Duration;
use workloads::tpcc::Mix;

/// Arguments of `bench tpcc`.
#[derive(Args, Debug, Serialize)]
pub struct TpccArguments {
    /// Length of each phase: New-Order alone is one, the full mix another; comparisons take turns in slices of a third
    /// of it.
    #[command(flatten)]
    #[serde(flatten)]
    duration: PhaseDuration,
    /// Number of TPC-C's warehouses, 1 to 1,000. Comparisons of one with two take these numbers.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    warehouses: u32,
    /// Number of threads, 1 to 128; each belongs to one warehouse. Comparisons of one with two take these numbers.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=128))]
    workers: u32,
    /// Mix to measure alone [default: New-Order, the full mix, and both comparisons].
    #[arg(long, value_name = "MIX")]
    mix: Option<MixArgument>,
    /// Isolation level of the transactions, except in the comparison of levels.
    #[arg(long, value_name = "LEVEL", default_value = "read-committed")]
    isolation: IsolationArgument,
    /// Delete delivered orders behind a window of the newest, so that, with `--mix steady`, the tables stop growing.
    #[arg(long)]
    purge: bool,
    /// Seed of population and inputs.
    #[arg(long, value_name = "NUMBER", default_value_t = 42)]
    seed: u64,
}

/// Mix of `--mix`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MixArgument {
    /// New-Order alone.
    NewOrder,
    /// New-Order and Payment, half and half.
    NewOrderPayment,
    /// The five transactions: 45 % New-Order, 43 % Payment, 4 % of each other.
    Full,
    /// The five transactions: 43, 43, 5 % Delivery and Stock-Level, 4 % Order-Status. Orders are delivered as fast as
    /// they are entered.
    Steady,
}

/// Isolation level of `--isolation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IsolationArgument {
    /// Each statement reads the rows committed when it begins.
    ReadCommitted,
    /// The transaction reads one snapshot.
    RepeatableRead,
    /// Transactions behave as if they ran one after the other.
    Serializable,
}

impl MixArgument {
    fn get(self) -> Mix {
        match self {
            MixArgument::NewOrder => Mix::NewOrder,
            MixArgument::NewOrderPayment => Mix::NewOrderPayment,
            MixArgument::Full => Mix::Standard,
            MixArgument::Steady => Mix::Steady,
        }
    }
}

impl IsolationArgument {
    fn get(self) -> engine::Isolation {
        match self {
            IsolationArgument::ReadCommitted => engine::Isolation::ReadCommitted,
            IsolationArgument::RepeatableRead => engine::Isolation::RepeatableRead,
            IsolationArgument::Serializable => engine::Isolation::Serializable,
        }
    }
}

/// Bytes per second that a processor's transactions add to the database: two thousand per order, at 75,000 orders.
const GROWTH_BYTES_PER_S: u64 = 150_000_000;
/// Bytes per second in the full mix, which enters 45 orders in a hundred.
const GROWTH_BYTES_PER_S_FULL: u64 = GROWTH_BYTES_PER_S / 2;
/// Bytes of a warehouse.
const WAREHOUSE_BYTES: u64 = 150 << 20;

impl TpccArguments {
    /// Returns the mixes that are measured on their own.
    fn mixes(&self) -> Vec<Mix> {
        match self.mix {
            Some(mix) => vec![mix.get()],
            None => vec![Mix::NewOrder, Mix::Standard],
        }
    }

    /// Returns the length of one turn of a comparison.
    fn slice(&self) -> Duration {
        (self.duration.get() / 3).max(Duration::from_millis(100))
    }

    /// Returns the bytes that all parts together add to the database.
    fn growth_bytes(&self) -> u64 {
        let processors = |workers: u64| workers.min(os::cpus().len() as u64) as f64;
        let bytes = |mix, workers, seconds: Duration| {
            let per_s = if mix == Mix::NewOrder { GROWTH_BYTES_PER_S } else { GROWTH_BYTES_PER_S_FULL };
            per_s as f64 * processors(workers) * (seconds.as_secs_f64() + 0.5)
        };
        let own: f64 =
            self.mixes().into_iter().map(|mix| bytes(mix, u64::from(self.workers), self.duration.get())).sum();
        let compared = compare::processor_seconds(self.slice());
        let compared = if self.mix.is_none() { compared * GROWTH_BYTES_PER_S_FULL as f64 } else { 0.0 };
        (own + compared) as u64
    }

    /// Returns the bytes of the tables of all parts.
    fn tables_bytes(&self) -> u64 {
        let warehouses = match self.mix {
            Some(_) => u64::from(self.warehouses),
            None => u64::from(self.warehouses) * 2 + compare::WAREHOUSES,
        };
        warehouses * WAREHOUSE_BYTES
    }
}

/// Measures and reports.
///
/// # Errors
/// If memory is short, the run is stopped, or a consistency condition does not hold.
pub fn run(arguments: &TpccArguments, stop: &Stop) -> anyhow::Result<Report> {
    let growth_bytes = arguments.growth_bytes();
    let advice = "lower --duration or --warehouses, or raise the container's limit";
    memory::require((400 << 20) + arguments.tables_bytes() + growth_bytes, advice)?;
    let mut report = Report::new("tpcc", arguments, Machine::read())?;
    tracing::info!(size = memory::in_words(growth_bytes), "touching memory");
    memory::warm(growth_bytes, stop)?;
    let bench = TpccConfig { isolation: arguments.isolation.get(), purge: arguments.purge, seed: arguments.seed, stop };
    let mut table = part::table();
    for mix in arguments.mixes() {
        let tables = TpccEngine::load(&bench, arguments.warehouses)?;
        let driven = tables.drive(&bench, mix, arguments.workers, arguments.duration.get())?;
        part::rows(mix, &driven).into_iter().for_each(|row| table.row(row));
        part::figures(&mut report, mix, &driven);
        tables.check(&bench)?;
    }
    report.table(table);
    if arguments.mix.is_none() {
        compare::scaling(&mut report, &bench, arguments.slice())?;
        compare::isolation(&mut report, &bench, arguments.slice())?;
    }
    report.note("Per CPU s: committed transactions over the processor time of the whole process; making inputs, garbage collection and the lock table are inside. Rolled back New-Orders (1 %) do not count. No log.");
    report.note(format!("The {} that all parts may add were touched before: the first use of a page belongs to the machine's memory manager and hypervisor, not to the transactions.", memory::in_words(growth_bytes)));
    report.note("TPC-C's consistency conditions, and ours, hold after each part.");
    Ok(report)
}
