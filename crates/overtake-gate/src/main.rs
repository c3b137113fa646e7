//! The binary `overtake-gate`: the gate before any PostgreSQL, without a database of its own.
//!
//! **Invariant:** every allocation of this process goes through [`preempt::Heap`], as in the binary `overtake`: limits of memory are
//! counted there.

use clap::{Parser, Subcommand};
use daemon::{ServeArguments, VERSION, gate, import, shared_proxy, top};
use std::process::ExitCode;

#[global_allocator]
static HEAP: preempt::Heap = preempt::Heap::HEAP;

/// Priority queues and a limit of transactions before any PostgreSQL.
#[derive(Parser)]
#[command(name = "overtake-gate", version = VERSION, propagate_version = true)]
struct Gate {
    /// Command to run.
    #[command(subcommand)]
    command: Command,
}

/// Commands of the binary.
#[derive(Subcommand)]
enum Command {
    /// Serve clients of the servers that --upstream names.
    #[command(mut_arg("upstream", |argument| argument.required(true)))]
    Serve(ServeArguments),
    /// Show what the gate of a running server does, live in the terminal, like top.
    Top(top::TopArguments),
    /// Let clients that know TCP and unix sockets only use a server over shared memory, on its machine.
    SharedProxy(shared_proxy::SharedProxyArguments),
    /// Print the settings of a `pgbouncer.ini` as a configuration of `serve`.
    ImportPgbouncer(import::ImportArguments),
}

fn main() -> ExitCode {
    let command = Gate::parse().command;
    daemon::run_command(|stop| match command {
        Command::Serve(arguments) => gate::run(&arguments, stop),
        Command::Top(arguments) => top::run(&arguments, stop),
        Command::SharedProxy(arguments) => shared_proxy::run(&arguments, stop),
        Command::ImportPgbouncer(arguments) => import::run(&arguments),
    })
}

#[cfg(test)]
mod tests {
    use super::Gate;
    use clap::{CommandFactory, Parser};

    #[test]
    fn the_definition_is_consistent() {
        Gate::command().debug_assert();
    }

    /// There is no database here that could be served.
    #[test]
    fn a_server_must_be_named() {
        assert!(Gate::try_parse_from(["overtake-gate", "serve"]).is_err());
        let url = "postgres://postgres@127.0.0.1:5432/postgres";
        assert!(Gate::try_parse_from(["overtake-gate", "serve", "--upstream", url]).is_ok());
    }
}
