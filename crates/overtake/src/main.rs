//! The only binary of Overtake: `overtake demo` and the benchmarks.
//!
//! **Invariant:** every allocation of this process goes through [`preempt::Heap`], which is checked before anything
//! else happens; without it the first interrupt inside the allocator would corrupt memory.
//!
//! Exit codes: 0 it worked; 1 a run failed; 2 the arguments or this machine do not allow the run ([`refusal`]);
//! 130 Ctrl-C ended a run that had not finished.

mod bench;
mod cli;
mod data;
mod memory;
mod mixed;
mod refusal;
mod report;
mod stop;

use clap::Parser;
use std::process::ExitCode;

#[global_allocator]
static HEAP: preempt::Heap = preempt::Heap::HEAP;

fn main() -> ExitCode {
    let command = cli::Overtake::parse().command;
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("overtake: {error:#}");
            refusal::exit_code(&error)
        }
    }
}

fn run(command: cli::Command) -> anyhow::Result<()> {
    preempt::self_test()?;
    init_tracing();
    let stop = stop::Stop::install()?;
    match command {
        cli::Command::Bench(bench) => bench::run(bench, &stop),
    }
}

/// Messages go to standard error, so that a report on standard output stays clean. `OVERTAKE_LOG` filters them.
fn init_tracing() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("OVERTAKE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_writer(std::io::stderr).init();
}
