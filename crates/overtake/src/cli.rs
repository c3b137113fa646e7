//! The command line. One definition feeds parsing, `--help` and the `args` of a report.

use crate::bench::{ch, delivery, history, layout, locks, preempt, snapshot, soak, tpcc, tpch, wire};
use crate::live;
use crate::mpl;
use crate::report::Output;
use crate::serve;
use crate::top;
use clap::{Args, Parser, Subcommand};
use serde::Serialize;
use std::time::Duration;

/// A database in which an urgent transaction starts at once, even when analytics hold every core.
#[derive(Parser)]
#[command(name = "overtake", version, propagate_version = true)]
pub struct Overtake {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Open the demonstration: urgent New-Orders beside a long query, under three policies, live in a browser. psql reaches it,
    /// too: it prints how.
    Demo(live::Arguments),
    /// Serve a database over PostgreSQL's wire protocol: psql and drivers connect to it. Data is in memory.
    Serve(serve::Arguments),
    /// Show what the gate of a running server does, live in the terminal, like top: the limit and its moves, classes and their times,
    /// the model beside what is seen. As text where standard output is no terminal.
    Top(top::Arguments),
    /// Measure this machine; each benchmark prints a table and can write JSON and an SVG chart.
    #[command(subcommand)]
    Bench(Bench),
    /// How many transactions to let in at once (the multiprogramming limit, MPL): what a limit costs, by the models of Schroeder
    /// et al. (ICDE 2006). It calculates, and measures nothing.
    #[command(subcommand)]
    Mpl(mpl::Question),
}

/// Which benchmark to run.
#[derive(Subcommand)]
pub enum Bench {
    /// How fast an interrupt reaches a busy worker, by each way there is, and what it costs both sides.
    Delivery(Measured<delivery::Arguments>),
    /// Random histories at each isolation level, searched for the anomalies that it forbids and those that it lets happen.
    History(Measured<history::Arguments>),
    /// Row images against columns on TPC-C's stock table: append, read whole rows, read 4 columns, scan one column.
    Layout(Measured<layout::Arguments>),
    /// One transaction keeps its snapshot while rows are updated at a rate: what memory does.
    Snapshot(Measured<snapshot::Arguments>),
    /// TPC-C with purge at a rate, analytics beside, for a long time: what memory does.
    Soak(Measured<soak::Arguments>),
    /// TPC-C in process, without analytics: New-Order, the full mix, two warehouses against one, SERIALIZABLE.
    Tpcc(Measured<tpcc::Arguments>),
    /// TPC-H's 22 queries from our frozen blocks, against DataFusion's own in-memory tables and DuckDB.
    Tpch(Measured<tpch::Arguments>),
    /// Rows that low priority holds and high priority wants, under each setting of lock_priority.
    Locks(Measured<locks::Arguments>),
    /// How many transactions to let in at once (MPL): the experiments of Schroeder et al. (ICDE 2006) on the simulator, on a
    /// real PostgreSQL and on our engine: 17 set-ups, what a limit costs in throughput and in response, what it gives to
    /// important transactions, whether the controller finds the lowest, and what the gate costs beside PgBouncer.
    Mpl(Measured<crate::bench::mpl::Arguments>),
    /// CH-benCHmark: TPC-C urgent beside 22 queries over the tables that it writes, under each policy, every answer checked.
    Ch(Measured<ch::Arguments>),
    /// When New-Orders start and end beside running queries, under each policy: the published experiment.
    Preempt(Measured<preempt::Arguments>),
    /// Over PostgreSQL's protocol, as clients do it: us and PostgreSQL 15 in the same run.
    #[command(subcommand)]
    Wire(wire::Wire),
}

/// A benchmark's own arguments, and where its report goes.
#[derive(Args)]
pub struct Measured<A: Args> {
    /// The benchmark's own arguments; they appear in the report.
    #[command(flatten)]
    pub arguments: A,
    /// Where the report goes besides standard output.
    #[command(flatten)]
    pub output: Output,
}

/// How long each measured phase lasts.
#[derive(Args, Clone, Copy, Debug, Serialize)]
pub struct PhaseDuration {
    /// Seconds per measured phase.
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = seconds)]
    duration: f64,
}

impl PhaseDuration {
    /// As a time span.
    pub fn get(self) -> Duration {
        Duration::from_secs_f64(self.duration)
    }
}

const SECONDS_MIN: f64 = 0.1;
const SECONDS_MAX: f64 = 86_400.0;

/// Parses a time.
///
/// # Errors
/// A sentence that says what is allowed.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (SECONDS_MIN..=SECONDS_MAX).contains(&seconds) => Ok(seconds),
        _ => Err(format!("a number of seconds from {SECONDS_MIN} to {SECONDS_MAX} is needed")),
    }
}

/// Parses a scale factor of TPC-H.
///
/// # Errors
/// A sentence that says what is allowed.
pub fn scale_factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if (0.01..=100.0).contains(&factor) => Ok(factor),
        _ => Err("a scale factor from 0.01 to 100 is needed".to_owned()),
    }
}

#[cfg(test)]
mod tests;
