//! The benchmarks: each measures, then publishes one report.

pub(crate) mod background;
pub mod ch;
pub mod delivery;
pub mod history;
pub mod layout;
pub mod locks;
pub mod mpl;
mod pool;
pub mod preempt;
pub mod snapshot;
pub mod soak;
pub mod tpcc;
pub mod tpch;
pub mod wire;

use crate::cli::{Bench, Measured};
use crate::report::Report;
use crate::stop::Stop;
use clap::Args;

/// Runs one benchmark.
///
/// # Errors
/// A [`crate::refusal::Refusal`] before it starts, [`crate::stop::Stopped`], or whatever made the run fail.
pub fn run(bench: Bench, stop: &Stop) -> anyhow::Result<()> {
    match bench {
        Bench::Delivery(measured) => publish(&measured, |arguments| delivery::run(arguments, stop)),
        Bench::History(measured) => publish(&measured, |arguments| history::run(arguments, stop)),
        Bench::Layout(measured) => publish(&measured, |arguments| layout::run(arguments, stop)),
        Bench::Snapshot(measured) => publish(&measured, |arguments| snapshot::run(arguments, stop)),
        Bench::Soak(measured) => publish(&measured, |arguments| soak::run(arguments, stop)),
        Bench::Tpcc(measured) => publish(&measured, |arguments| tpcc::run(arguments, stop)),
        Bench::Tpch(measured) => publish(&measured, |arguments| tpch::run(arguments, stop)),
        Bench::Locks(measured) => publish(&measured, |arguments| locks::run(arguments, stop)),
        Bench::Mpl(measured) => publish(&measured, |arguments| mpl::run(arguments, stop)),
        Bench::Ch(measured) => publish(&measured, |arguments| ch::run(arguments, stop)),
        Bench::Wire(wire) => wire::run(wire, stop),
        Bench::Preempt(measured) => publish(&measured, |arguments| preempt::run(arguments, stop)),
    }
}

/// Makes sure that the report can be written, measures, and publishes.
pub(crate) fn publish<A: Args>(
    measured: &Measured<A>,
    run: impl FnOnce(&A) -> anyhow::Result<Report>,
) -> anyhow::Result<()> {
    let output = measured.output.open()?;
    run(&measured.arguments)?.publish(output)
}
