//! Drives TPC-C for a profiler: `tpcc_profile SECONDS [payments]`.

use engine::{Engine, EngineConfig};
use std::time::Duration;
use workloads::tpcc::{DriveConfig, Mix, Scale, check, drive, load};

#[global_allocator]
static HEAP: preempt::Heap = preempt::Heap::HEAP;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let seconds = arguments.get(1).and_then(|text| text.parse().ok()).unwrap_or(3);
    let mix = if arguments.len() < 3 { Mix::NewOrder } else { Mix::NewOrderPayment };
    let engine = Engine::new(EngineConfig::in_memory());
    let scale = Scale::spec(1);
    let tables = load(&engine, scale, 1, &mut |_| {}).expect("the tables are new");
    let config = DriveConfig { scale, workers: 1, mix, duration: Duration::from_secs(seconds), seed: 2 };
    let report = drive(&engine, &tables, &config).expect("nothing refuses");
    println!(
        "{:.0} New-Order, {:.0} transactions per processor-second; {} retries; {:?}",
        report.new_order_per_cpu_s(),
        report.committed_per_cpu_s(),
        report.retries,
        report.time.quantiles_us()
    );
    println!("{:?}\n{:?}", engine.stats(), check(&engine.snapshot(), &tables));
}
