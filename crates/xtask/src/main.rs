//! The repository's own automation, in Rust rather than in scripts: `cargo xtask --help` lists it.
//!
//! A check that can be an ordinary test is one: see `tidy`.
//!
//! # Layers
//!
//! Bottom up; a module uses its own layer and those above it in this list.
//!
//! - checks of the source: `tidy`, `plants`
//! - clients and servers: `wire`, `server`
//! - comparisons with PostgreSQL: `differential`, `isolation`, `grammar`
//! - commands that run others: `ci`, `dist`

mod ci;
mod differential;
mod dist;
mod grammar;
mod isolation;
mod plants;
mod server;
mod tidy;
mod wire;

use clap::Parser;

/// The repository's own automation.
#[derive(Parser)]
#[command(name = "xtask", version, propagate_version = true)]
enum Xtask {
    /// Run the checks before a merge.
    Ci(ci::Ci),
    /// Build with each deliberate bug in turn and check that its test turns red.
    Plants,
    /// Run random queries on both paths and on PostgreSQL 15, and report every difference.
    Differential(differential::Differential),
    /// Parse random texts here and on PostgreSQL 15, and report every difference.
    Grammar(grammar::Grammar),
    /// Run PostgreSQL's isolation suite and check which of its specs are equal.
    Isolation(isolation::Isolation),
    /// Make packages of the binaries, or install packages in empty places and try each.
    Dist(dist::Dist),
    /// Print figures of the source: sizes, layers, comments, names.
    Tidy,
}

fn main() -> anyhow::Result<()> {
    match Xtask::parse() {
        Xtask::Ci(options) => {
            ci::run(&options);
            Ok(())
        }
        Xtask::Plants => plants::run(),
        Xtask::Differential(options) => differential::run(&options),
        Xtask::Grammar(options) => grammar::run(&options),
        Xtask::Isolation(options) => isolation::run(&options),
        Xtask::Dist(options) => dist::run(&options),
        Xtask::Tidy => {
            tidy::run();
            Ok(())
        }
    }
}
