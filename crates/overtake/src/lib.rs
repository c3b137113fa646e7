//! The code behind the binary `overtake`: the command line, and the server with a database of its own. Crate `daemon`
//! has the process and the commands that need no database, crate `bench` the measurements.
//!
//! The binary calls [`run_command_line`].

mod cli;
mod serve;

use bench::{calculator, live};
use clap::Parser;
use daemon::{import, shared_proxy, top};
use std::process::ExitCode;

/// Parses the arguments of this process, runs the command, and reports its outcome as the exit code.
pub fn run_command_line() -> ExitCode {
    let command = cli::Overtake::parse().command;
    daemon::run_command(|stop| match command {
        cli::Command::Demo(arguments) => live::run(&arguments, stop),
        cli::Command::Bench(bench) => bench::run(bench, stop),
        cli::Command::Mpl(question) => calculator::run(question, stop),
        cli::Command::Serve(arguments) => serve::run(&arguments, stop),
        cli::Command::Top(arguments) => top::run(&arguments, stop),
        cli::Command::Proc(command) => proc::run(&command, stop),
        cli::Command::SharedProxy(arguments) => shared_proxy::run(&arguments, stop),
        cli::Command::ImportPgbouncer(arguments) => import::run(&arguments),
    })
}
