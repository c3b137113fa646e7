//! The laboratory of Overtake: benchmarks, the demonstration, the calculator of limits, and their reports.
//!
//! **Invariant:** nothing that serves a database imports this crate; only the command line of the binary names it.
//!
//! A benchmark measures, then publishes one report. This is a library so that tests can drive instances directly.
//!
//! # Layers
//!
//! Bottom up; a module uses its own layer and those above it in this list.
//!
//! - reports: `report`, `progress`, `arguments`
//! - threads: `pool`
//! - loads: `mixed::arrivals`, `mixed::dense`, `mixed::low`, `mixed::tally`
//! - data: `data`
//! - instances: `mixed`
//! - housekeeping: `background`
//! - benchmarks in process: `calculator`, `delivery`, `history`, `layout`, `locks`, `tpcc`, `tpch`, `preempt`
//! - over the protocol: `wire`
//! - that use other benchmarks: `ch`, `live`, `lookingglass`, `mpl`, `soak`, `snapshot`

pub mod arguments;
mod background;
pub mod calculator;
mod ch;
pub mod data;
mod delivery;
mod history;
mod layout;
pub mod live;
mod locks;
mod lookingglass;
pub mod mixed;
mod mpl;
mod pool;
mod preempt;
mod progress;
pub mod report;
mod snapshot;
mod soak;
mod tpcc;
mod tpch;
mod wire;

use arguments::WithOutput;
use clap::{Args, Subcommand};
use host::stop::Stop;
use report::Report;

/// Benchmark to run.
#[derive(Subcommand)]
pub enum Benchmark {
    /// Delay with which an interrupt reaches a busy worker, by each way there is, and its cost on both sides.
    Delivery(WithOutput<delivery::DeliveryArguments>),
    /// Random histories at each isolation level, searched for the anomalies that it forbids and those that it allows.
    History(WithOutput<history::HistoryArguments>),
    /// Row images compared with columns on TPC-C's stock table: append, read whole rows, read 4 columns, scan one
    /// column.
    Layout(WithOutput<layout::LayoutArguments>),
    /// Memory while one transaction keeps its snapshot and rows are updated at a rate.
    Snapshot(WithOutput<snapshot::SnapshotArguments>),
    /// Memory during a long run of TPC-C with purge at a rate, with analytics beside.
    Soak(WithOutput<soak::SoakArguments>),
    /// TPC-C in process, without analytics: New-Order, the full mix, two warehouses against one, SERIALIZABLE.
    Tpcc(WithOutput<tpcc::TpccArguments>),
    /// TPC-H's 22 queries from Overtake's frozen blocks, compared with DataFusion's own in-memory tables and DuckDB.
    Tpch(WithOutput<tpch::TpchArguments>),
    /// Rows that low priority holds and high priority wants, under each setting of lock_priority.
    Locks(WithOutput<locks::LocksArguments>),
    /// Number of transactions to let in at once (MPL): the experiments of Schroeder et al. (ICDE 2006) on the
    /// simulator, on a real PostgreSQL and on Overtake's engine: 17 set-ups, the cost of a limit in throughput and in
    /// response, its gain for important transactions, whether the controller finds the lowest, and the cost of the gate
    /// beside PgBouncer.
    Mpl(WithOutput<mpl::MplArguments>),
    /// CH-benCHmark: urgent TPC-C beside 22 queries over the tables that it writes, under each policy, every answer
    /// checked.
    Ch(WithOutput<ch::ChArguments>),
    /// Starts and ends of New-Orders beside running queries, under each policy: the published experiment.
    Preempt(WithOutput<preempt::PreemptArguments>),
    /// Processor time of a transaction, by stage. The transactions are TPC-C's New-Order and a key-value
    /// mix, stored and interactive. PostgreSQL 15 runs the same ones. The cost of the stage clock is measured, too. The
    /// experiment is that of "OLTP Through the Looking Glass 16 Years Later" (CIDR 2025).
    Lookingglass(WithOutput<lookingglass::GlassArguments>),
    /// Benchmarks over PostgreSQL's protocol, as clients do it: Overtake and PostgreSQL 15 in the same run.
    #[command(subcommand)]
    Wire(wire::WireBenchmark),
}

/// Runs one benchmark.
///
/// # Errors
/// A [`host::refusal::Refusal`] before it starts, [`host::stop::Stopped`], or the error that made the run fail.
pub fn run(bench: Benchmark, stop: &Stop) -> anyhow::Result<()> {
    match bench {
        Benchmark::Delivery(measured) => publish(&measured, |arguments| delivery::run(arguments, stop)),
        Benchmark::History(measured) => publish(&measured, |arguments| history::run(arguments, stop)),
        Benchmark::Layout(measured) => publish(&measured, |arguments| layout::run(arguments, stop)),
        Benchmark::Snapshot(measured) => publish(&measured, |arguments| snapshot::run(arguments, stop)),
        Benchmark::Soak(measured) => publish(&measured, |arguments| soak::run(arguments, stop)),
        Benchmark::Tpcc(measured) => publish(&measured, |arguments| tpcc::run(arguments, stop)),
        Benchmark::Tpch(measured) => publish(&measured, |arguments| tpch::run(arguments, stop)),
        Benchmark::Locks(measured) => publish(&measured, |arguments| locks::run(arguments, stop)),
        Benchmark::Mpl(measured) => publish(&measured, |arguments| mpl::run(arguments, stop)),
        Benchmark::Ch(measured) => publish(&measured, |arguments| ch::run(arguments, stop)),
        Benchmark::Lookingglass(measured) => publish(&measured, |arguments| lookingglass::run(arguments, stop)),
        Benchmark::Wire(wire) => wire::run(wire, stop),
        Benchmark::Preempt(measured) => publish(&measured, |arguments| preempt::run(arguments, stop)),
    }
}

/// Makes sure that the report can be written, measures, and publishes.
pub(crate) fn publish<A: Args>(
    measured: &WithOutput<A>,
    run: impl FnOnce(&A) -> anyhow::Result<Report>,
) -> anyhow::Result<()> {
    let output = measured.output.open()?;
    run(&measured.arguments)?.publish(output)
}
