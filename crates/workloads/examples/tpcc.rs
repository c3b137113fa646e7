//! Drives TPC-C and prints the cost of each kind of transaction: `tpcc [SECONDS] [--mix
//! standard|steady|new-order|payment] [--kind delivery] [--workers N] [--warehouses N] [--isolation
//! serializable|repeatable-read] [--purge]`.

use engine::{Begin, Engine, EngineConfig, Isolation};
use preempt::os;
use stage::Class;
use std::time::Duration;
use workloads::tpcc::{
    DriveConfig, Inputs, Mix, PurgeConfig, Scale, TpccTables, TransactionKind, attempt, check, drive, load,
};

#[global_allocator]
static HEAP: preempt::Heap = preempt::Heap::HEAP;

fn main() {
    preempt::prepare_heap();
    let arguments: Vec<String> = std::env::args().collect();
    let option = |name: &str| arguments.iter().position(|word| word == name).map(|at| arguments[at + 1].clone());
    let number = |name: &str| option(name).map_or(1, |text| text.parse().expect("a number"));
    let seconds: u64 = arguments.get(1).and_then(|text| text.parse().ok()).unwrap_or(3);
    let mix = match option("--mix").as_deref() {
        Some("new-order") => Mix::NewOrder,
        Some("payment") => Mix::NewOrderPayment,
        Some("steady") => Mix::Steady,
        _ => Mix::Standard,
    };
    let isolation = match option("--isolation").as_deref() {
        Some("serializable") => Isolation::Serializable,
        Some("repeatable-read") => Isolation::RepeatableRead,
        _ => Isolation::ReadCommitted,
    };
    let begin = Begin::new(Class::Normal).isolation(isolation);
    touch(seconds * 250 * number("--workers"));
    let engine = Engine::new(EngineConfig::in_memory());
    let scale = Scale::spec(number("--warehouses") as i32);
    let tables = load(&engine, scale, 1, &mut |_| {}).expect("the tables are new");
    if let Some(name) = option("--kind") {
        let kind =
            TransactionKind::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(&name)).expect("a kind");
        return alone(&engine, &tables, scale, begin, kind);
    }
    let purge = arguments.iter().any(|word| word == "--purge").then(PurgeConfig::default);
    let workers = number("--workers") as usize;
    let config = DriveConfig { scale, workers, mix, duration: Duration::from_secs(seconds), seed: 2, begin, purge };
    let report = drive(&engine, &tables, &config).expect("nothing refuses");
    println!(
        "{:.0} New-Order, {:.0} transactions per processor-second, {:.0} per second; {} purged, {} aborts of the purge",
        report.new_order_per_cpu_s(),
        report.committed_per_cpu_s(),
        report.committed_per_s(),
        report.purged.orders,
        report.purge_aborts
    );
    for kind in TransactionKind::ALL {
        let of = report.of(kind);
        let (name, p50, mean, waits) = (kind.name(), of.time.quantile_us(0.5), of.time.mean_us(), of.waits);
        println!(
            "{name:12} {:9} {:6} mean {mean:6.2} us p50 {p50:6.2} us, {waits} waits {:?}",
            of.committed, of.rolled_back, of.aborts
        );
    }
    let began = std::time::Instant::now();
    println!("{:?}\n{:?} in {:?}", engine.stats(), check(&engine.snapshot(), &tables), began.elapsed());
    // The process's end gives the memory back.
    std::process::exit(0);
}

/// Touches memory ahead of the run: the cost of the first use of a page belongs to the machine, not to the
/// transactions.
fn touch(mebibytes: u64) {
    let blocks: Vec<Vec<u8>> = (0..mebibytes).map(|_| vec![1; 1 << 20]).collect();
    drop(std::hint::black_box(blocks));
}

/// Measures the cost of one kind alone, without making its inputs. New-Orders feed the deliveries.
fn alone(engine: &Engine, tables: &TpccTables, scale: Scale, begin: Begin, kind: TransactionKind) {
    const COUNT: u64 = 20_000;
    let mut inputs = Inputs::new(scale, 2, 0);
    if kind == TransactionKind::Delivery {
        for _ in 0..COUNT * 10 {
            let input = inputs.entry(TransactionKind::NewOrder, 1);
            attempt(engine, begin, tables, &input).expect("nobody else is there");
        }
    }
    let made: Vec<_> = (0..COUNT).map(|_| inputs.entry(kind, 1)).collect();
    let began_ns = os::thread_cpu_ns();
    for input in &made {
        attempt(engine, begin, tables, input).expect("nobody else is there");
    }
    println!("{}: {} ns", kind.name(), (os::thread_cpu_ns() - began_ns) / COUNT);
    std::process::exit(0);
}
