//! Everything behind the binary `overtake`: the command line, the server, `top`; crate `bench` has the rest.
//!
//! [`run_command_line`] is what the binary calls.
//!
//! Exit codes: 0 it worked; 1 a run failed; 2 the arguments or this machine do not allow the run; 130 Ctrl-C ended a run
//! that had not finished.

mod cli;
mod serve;
mod top;

use bench::{calculator, live};
use clap::Parser;
use host::refusal::{self, Refusal};
use host::say;
use host::stop::Stop;
use std::env::VarError;
use std::process::ExitCode;

/// Parses the arguments of this process, does what they say, and tells how it went.
pub fn run_command_line() -> ExitCode {
    let command = cli::Overtake::parse().command;
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::complain(format_args!("overtake: {error:#}\n"));
            refusal::exit_code(&error)
        }
    }
}

fn run(command: cli::Command) -> anyhow::Result<()> {
    preempt::self_test()?;
    // Freed memory is kept: giving it back would take milliseconds inside the allocator, where nothing can interrupt.
    preempt::prepare_heap();
    init_tracing()?;
    let stop = Stop::install()?;
    match command {
        cli::Command::Demo(arguments) => live::run(&arguments, &stop),
        cli::Command::Bench(bench) => bench::run(bench, &stop),
        cli::Command::Mpl(question) => calculator::run(question, &stop),
        cli::Command::Serve(arguments) => serve::run(&arguments, &stop),
        cli::Command::Top(arguments) => top::run(&arguments, &stop),
    }
}

/// Messages go to standard error, so that a report on standard output stays clean. `OVERTAKE_LOG` filters them.
fn init_tracing() -> anyhow::Result<()> {
    let filter = match std::env::var("OVERTAKE_LOG") {
        Ok(filter) => filter.parse().map_err(|error| Refusal::new(format!("OVERTAKE_LOG: {error}")))?,
        Err(VarError::NotPresent) => tracing_subscriber::EnvFilter::new("info"),
        Err(error) => return Err(Refusal::new(format!("OVERTAKE_LOG: {error}")).into()),
    };
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_writer(std::io::stderr);
    // A log that cannot be written must not end the server: the subscriber would panic with its complaint.
    log.log_internal_errors(false).init();
    Ok(())
}
