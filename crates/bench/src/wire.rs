//! `overtake bench wire …`: Overtake and PostgreSQL 15 in the same run, over PostgreSQL's protocol, as a client sees
//! them.
//!
//! **Invariant:** all servers are processes of their own, accessed over TCP by the same client code with the same load,
//! in turn; processor time is that of the server's processes alone. A figure's name has the server's key in it
//! (`overtake`, `postgres`, `postgres_unlogged`, `url`); ratios (`postgres_times`, `vs_postgres`) are Overtake's to
//! PostgreSQL's.

pub(crate) mod client;
mod connections;
pub mod fronts;
pub(crate) mod links;
mod load;
pub(crate) mod mixed;
mod pgbench;
pub(crate) mod postgres;
pub(crate) mod processes;
mod reports;
pub(crate) mod servers;
mod tpcb;
pub(crate) mod tpcc;
pub(crate) mod tpch;
pub(crate) mod values;

use crate::arguments::WithOutput;
use crate::report::Report;
use clap::{Args, Subcommand};
use host::stop::Stop;

/// Benchmark to run over the wire.
#[derive(Subcommand)]
pub enum WireBenchmark {
    /// Rate, latency and the server's processor time of pgbench's TPC-B (`pgbench -M prepared`) at each number of
    /// clients.
    Tpcb(WithOutput<tpcb::TpcbArguments>),
    /// Rate, latency and the server's processor time of pgbench's look-up by key (`pgbench -S -M prepared`).
    Select(WithOutput<tpcb::TpcbArguments>),
    /// TPC-C, interactive, by an ordinary driver with prepared statements: the standard's mix without keying and think times.
    Tpcc(WithOutput<tpcc::WireTpccArguments>),
    /// TPC-H's 22 queries, one after the other; answers compared. Also against DuckDB in a process of its own.
    Tpch(WithOutput<tpch::WireTpchArguments>),
    /// Urgent transactions at a rate beside sessions that run TPC-H's queries back to back: latencies against an idle server.
    Mixed(WithOutput<mixed::MixedArguments>),
    /// SERIALIZABLE reports that read, think and write elsewhere, beside updates of the rows that they have read: how
    /// many commit.
    Reports(WithOutput<reports::ReportsArguments>),
    /// Many idle connections and some active ones: memory of each, and errors.
    Connections(WithOutput<connections::ConnectionsArguments>),
}

/// Runs one of the benchmarks.
///
/// # Errors
/// A [`host::refusal::Refusal`] before it starts, [`host::stop::Stopped`], or the error that made the run fail.
pub fn run(wire: WireBenchmark, stop: &Stop) -> anyhow::Result<()> {
    match wire {
        WireBenchmark::Tpcb(measured) => {
            publish(&measured, |arguments| tpcb::run(arguments, tpcb::TpcbScript::Tpcb, stop))
        }
        WireBenchmark::Select(measured) => {
            publish(&measured, |arguments| tpcb::run(arguments, tpcb::TpcbScript::Select, stop))
        }
        WireBenchmark::Tpcc(measured) => publish(&measured, |arguments| tpcc::run(arguments, stop)),
        WireBenchmark::Tpch(measured) => publish(&measured, |arguments| tpch::run(arguments, stop)),
        WireBenchmark::Mixed(measured) => publish(&measured, |arguments| mixed::run(arguments, stop)),
        WireBenchmark::Reports(measured) => publish(&measured, |arguments| reports::run(arguments, stop)),
        WireBenchmark::Connections(measured) => publish(&measured, |arguments| connections::run(arguments, stop)),
    }
}

fn publish<A: Args>(measured: &WithOutput<A>, run: impl FnOnce(&A) -> anyhow::Result<Report>) -> anyhow::Result<()> {
    let output = measured.output.open()?;
    run(&measured.arguments)?.publish(output)
}
