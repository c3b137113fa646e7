//! The workers of a mixed load, and the warehouses that their urgent transactions belong to.

use clap::Args;
use preempt::os;
use serde::Serialize;
use workloads::tpcc::Scale;

/// Arguments of the benchmarks that run queries on every worker and TPC-C above them.
#[derive(Args, Debug, Serialize)]
pub struct LoadArguments {
    /// TPC-C's warehouses, 1 to 1,000 [default: one for each worker].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    warehouses: Option<u32>,
    /// Workers, 1 to 128, pinned to a processor each; as many queries run at a time [default: one for each processor].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=128))]
    workers: Option<u32>,
    /// `yield`: batch boundaries between two points at which a query yields.
    #[arg(long, value_name = "BATCHES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub yield_interval: u32,
    /// Percent of each worker's time that is kept for queries (starvation cap); 0 switches it off.
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u8).range(0..=90))]
    pub low_share: u8,
}

impl LoadArguments {
    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.workers.map_or_else(|| os::cpus().len(), |workers| workers as usize)
    }

    /// Returns TPC-C's scale.
    pub fn scale(&self) -> Scale {
        Scale::spec(self.warehouses.map_or(self.workers() as i32, |warehouses| warehouses as i32))
    }
}
