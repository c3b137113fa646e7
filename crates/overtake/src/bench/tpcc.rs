//! `overtake bench tpcc`: New-Order and Payment in process, without analytics, in a closed loop.

use crate::cli::PhaseDuration;
use crate::data::DataConfig;
use crate::memory;
use crate::report::{Machine, Report, Table, number};
use crate::stop::Stop;
use clap::Args;
use engine::{Begin, Engine, EngineConfig};
use preempt::os;
use serde::Serialize;
use stage::Class;
use std::time::Duration;
use workloads::tpcc::{self, DriveConfig, DriveReport, Mix, Scale};

/// Arguments of `bench tpcc`.
#[derive(Args, Debug, Serialize)]
pub struct Arguments {
    /// New-Order alone is one phase, New-Order and Payment another.
    #[command(flatten)]
    #[serde(flatten)]
    duration: PhaseDuration,
    /// TPC-C's warehouses.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    warehouses: u32,
    /// Threads; each belongs to one warehouse.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=128))]
    workers: u32,
    /// Makes population and inputs.
    #[arg(long, value_name = "NUMBER", default_value_t = 42)]
    seed: u64,
}

/// Bytes that a processor's transactions add to the database in a second: two thousand an order, at 75,000 orders.
const GROWTH_BYTES_PER_S: u64 = 150_000_000;
const PHASES: [(&str, Mix); 2] = [("New-Order", Mix::NewOrder), ("New-Order and Payment", Mix::NewOrderPayment)];

impl Arguments {
    /// What all phases together add to the database.
    fn growth_bytes(&self) -> u64 {
        let processors = u64::from(self.workers).min(os::cpus().len() as u64);
        let seconds = self.duration.get().as_secs() + 1;
        PHASES.len() as u64 * processors * seconds * GROWTH_BYTES_PER_S
    }
}

/// Measures and reports.
///
/// # Errors
/// When memory is short, the run is stopped, or a consistency condition does not hold.
pub fn run(arguments: &Arguments, stop: &Stop) -> anyhow::Result<Report> {
    let scale = Scale::spec(arguments.warehouses as i32);
    let config =
        DataConfig { scale_factor: 0.0, scale, seed: arguments.seed, comments: workloads::tpch::Comments::Short };
    let growth_bytes = arguments.growth_bytes();
    let advice = "lower --duration or --warehouses, or raise the container's limit";
    memory::require(config.memory_bytes() + growth_bytes, advice)?;
    let mut report = Report::new("tpcc", arguments, Machine::read())?;
    let engine = Engine::new(EngineConfig::in_memory());
    tracing::info!(size = memory::in_words(growth_bytes), "touching memory");
    memory::warm(growth_bytes, stop)?;
    tracing::info!(warehouses = scale.warehouses, "loading");
    let tables = tpcc::load(&engine, scale, arguments.seed, &mut |_| {})?;
    let header = ["", "New-Order/CPU s", "all/CPU s", "all/s", "p50 µs", "p99 µs", "p99.9 µs", "max µs", "retries"];
    let mut table = Table::new("TPC-C in process, one closed loop a worker", &header);
    for (name, mix) in PHASES {
        stop.wait(Duration::ZERO)?;
        tracing::info!(mix = name, seconds = arguments.duration.get().as_secs_f64(), "measuring");
        let workers = arguments.workers as usize;
        let drive = DriveConfig {
            scale,
            workers,
            mix,
            duration: arguments.duration.get(),
            seed: arguments.seed,
            begin: Begin::new(Class::Normal),
            purge: None,
        };
        let driven = tpcc::drive(&engine, &tables, &drive)?;
        table.row(row(name, &driven));
        figures(&mut report, mix, &driven);
    }
    report.table(table);
    let violations = tpcc::check(&engine.snapshot(), &tables).err().unwrap_or_default();
    anyhow::ensure!(
        violations.is_empty(),
        "{}",
        violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    );
    let stats = engine.stats();
    report.figure("tpcc.versions_dead", stats.versions_dead as f64);
    report.note("Per CPU s: committed transactions over the processor time of the whole process; making inputs, garbage collection and redo records are inside. Rolled back New-Orders (1 %) do not count.");
    report.note(format!("The {} that both phases may add were touched before: the first use of a page belongs to the machine's memory manager and hypervisor, not to the transactions.", memory::in_words(growth_bytes)));
    report.note("TPC-C's consistency conditions 1 to 12, and 3 of our own, hold afterwards.");
    report.note(format!("{} dead versions waited for reclamation at the end.", stats.versions_dead));
    Ok(report)
}

fn row(name: &str, driven: &DriveReport) -> [String; 9] {
    let time = driven.time().quantiles_us();
    [
        name.to_owned(),
        number(driven.new_order_per_cpu_s()),
        number(driven.committed_per_cpu_s()),
        number(driven.committed_per_s()),
        number(time.p50),
        number(time.p99),
        number(time.p999),
        number(time.max),
        number(driven.retries() as f64),
    ]
}

fn figures(report: &mut Report, mix: Mix, driven: &DriveReport) {
    match mix {
        Mix::NewOrder => {
            report.figure("tpcc.new_order_per_cpu_s", driven.new_order_per_cpu_s());
            report.figure("tpcc.new_order_per_s", driven.committed_per_s());
            report.quantiles("tpcc.new_order_us", &driven.time().quantiles_us());
            report.figure("tpcc.new_order_retries", driven.retries() as f64);
            report.figure("tpcc.new_order_rolled_back", driven.rolled_back() as f64);
        }
        Mix::NewOrderPayment | Mix::Standard => {
            report.figure("tpcc.new_order_payment_per_cpu_s", driven.committed_per_cpu_s());
            report.figure("tpcc.new_order_payment_per_s", driven.committed_per_s());
            report.quantiles("tpcc.new_order_payment_us", &driven.time().quantiles_us());
            report.figure("tpcc.new_order_payment_retries", driven.retries() as f64);
        }
    }
}
