//! `overtake bench wire …`: Overtake and PostgreSQL 15 in the same run, over PostgreSQL's protocol, as a client sees
//! them.
//!
//! **Invariant:** all servers are processes of their own, accessed over TCP by the same client code with the same load,
//! in turn; processor time is that of the server's processes alone. A figure's name has the server's key in it
//! (`overtake`, `postgres`, `postgres_unlogged`, `url`); ratios (`postgres_times`, `vs_postgres`) are Overtake's to
//! PostgreSQL's.

mod client;
mod connections;
pub mod fronts;
mod load;
mod mixed;
mod numbers;
mod pgbench;
mod postgres;
mod processes;
mod reports;
mod servers;
mod tpcb;
mod tpcc;
mod tpch;
mod values;

use crate::arguments::Measured;
use crate::report::Report;
use clap::{Args, Subcommand};
use host::stop::Stop;

/// Benchmark to run over the wire.
#[derive(Subcommand)]
pub enum Wire {
    /// Rate, latency and the server's processor time of pgbench's TPC-B (`pgbench -M prepared`) at each number of
    /// clients.
    Tpcb(Measured<tpcb::Arguments>),
    /// Rate, latency and the server's processor time of pgbench's look-up by key (`pgbench -S -M prepared`).
    Select(Measured<tpcb::Arguments>),
    /// TPC-C, interactive, by an ordinary driver with prepared statements: the standard's mix without keying and think times.
    Tpcc(Measured<tpcc::Arguments>),
    /// TPC-H's 22 queries, one after the other; answers compared. Also against DuckDB in a process of its own.
    Tpch(Measured<tpch::Arguments>),
    /// Urgent transactions at a rate beside sessions that run TPC-H's queries back to back: latencies against an idle server.
    Mixed(Measured<mixed::Arguments>),
    /// SERIALIZABLE reports that read, think and write elsewhere, beside updates of the rows that they have read: how
    /// many commit.
    Reports(Measured<reports::Arguments>),
    /// Many idle connections and some active ones: memory of each, and errors.
    Connections(Measured<connections::Arguments>),
}

/// Runs one of the benchmarks.
///
/// # Errors
/// A [`host::refusal::Refusal`] before it starts, [`host::stop::Stopped`], or the error that made the run fail.
pub fn run(wire: Wire, stop: &Stop) -> anyhow::Result<()> {
    match wire {
        Wire::Tpcb(measured) => publish(&measured, |arguments| tpcb::run(arguments, tpcb::Script::Tpcb, stop)),
        Wire::Select(measured) => publish(&measured, |arguments| tpcb::run(arguments, tpcb::Script::Select, stop)),
        Wire::Tpcc(measured) => publish(&measured, |arguments| tpcc::run(arguments, stop)),
        Wire::Tpch(measured) => publish(&measured, |arguments| tpch::run(arguments, stop)),
        Wire::Mixed(measured) => publish(&measured, |arguments| mixed::run(arguments, stop)),
        Wire::Reports(measured) => publish(&measured, |arguments| reports::run(arguments, stop)),
        Wire::Connections(measured) => publish(&measured, |arguments| connections::run(arguments, stop)),
    }
}

fn publish<A: Args>(measured: &Measured<A>, run: impl FnOnce(&A) -> anyhow::Result<Report>) -> anyhow::Result<()> {
    let output = measured.output.open()?;
    run(&measured.arguments)?.publish(output)
}
