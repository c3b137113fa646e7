//! The command line. One definition feeds parsing, `--help` and the `args` of a report.

use bench::{Benchmark, calculator, live};
use clap::{Parser, Subcommand};
use daemon::{VERSION, import, shared_proxy, top};

/// A database in which an urgent transaction starts at once, even when analytics hold every core.
#[derive(Parser)]
#[command(name = "overtake", version = VERSION, propagate_version = true)]
pub struct Overtake {
    /// Command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// Command of the binary.
#[derive(Subcommand)]
pub enum Command {
    /// Open the demonstration: urgent New-Orders beside a long query, under three policies, live in a browser. psql reaches it,
    /// too: it prints how.
    Demo(live::DemoArguments),
    /// Serve a database over PostgreSQL's wire protocol: psql and drivers connect to it. Data is in memory.
    Serve(daemon::ServeArguments),
    /// Show the gate of a running server, live in the terminal, like top: the limit and its moves, classes and their
    /// times, the model beside the measurements. As text where standard output is no terminal.
    Top(top::TopArguments),
    /// Write, build, test and deploy stored procedures in Rust, AssemblyScript, TypeScript, C, Python and Java.
    #[command(subcommand)]
    Proc(proc::ProcCommand),
    /// Let clients that know TCP and unix sockets only use a server over shared memory, on its machine.
    SharedProxy(shared_proxy::SharedProxyArguments),
    /// Print the settings of a `pgbouncer.ini` as a configuration of `overtake serve`.
    ImportPgbouncer(import::ImportArguments),
    /// Measure this machine; each benchmark prints a table and can write JSON and an SVG chart.
    #[command(subcommand)]
    Bench(Benchmark),
    /// Calculate how many transactions to let in at once (the multiprogramming limit, MPL): the cost of a limit, by the
    /// models of Schroeder et al. (ICDE 2006). It calculates, and measures nothing.
    #[command(subcommand)]
    Mpl(calculator::Question),
}

#[cfg(test)]
mod tests;
