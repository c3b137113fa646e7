//! How long the 22 queries take: `cargo run --release -p olap --example tpch -- SCALE_FACTOR [RUNS]`. Prints the load's time
//! and memory, then for each query the best of RUNS (5) runs and the cores they kept busy, with one partition and with two, and the time to plan it.

use engine::{Engine, EngineConfig};
use olap::{Database, QueryMemory, RunConfig, Runtime, RuntimeConfig};
use std::time::Instant;
use workloads::tpch::{Comments, LoadConfig, QUERIES_COUNT, load, query};

#[global_allocator]
static HEAP: preempt::Heap = preempt::Heap::HEAP;

fn main() {
    let arguments: Vec<f64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let Some(scale_factor) = arguments.first().copied() else {
        eprintln!("usage: tpch SCALE_FACTOR [RUNS]");
        std::process::exit(2);
    };
    let runs = arguments.get(1).map_or(5, |runs| *runs as usize);
    let engine = Engine::new(EngineConfig::in_memory());
    let began = Instant::now();
    let comments = if std::env::var_os("SHORT").is_some() { Comments::Short } else { Comments::Specified };
    let config = LoadConfig { scale_factor, comments, threads: 2 };
    let loaded = load(&engine, &config, &mut |_| {}).expect("the tables are new");
    let blocks_mib = engine.stats().block_bytes >> 20;
    println!("{loaded:?} in {:.2?}; blocks {blocks_mib} MiB; {}", began.elapsed(), resident());

    let database = Database::new(engine);
    let runtime = Runtime::new(RuntimeConfig { memory: QueryMemory::of_bytes(8 << 30), ..RuntimeConfig::new(2) })
        .expect("threads start");
    let mut logarithms = [0.0; 2];
    for number in 1..=QUERIES_COUNT {
        let prepared = database.prepare(query(number)).expect("it is a query");
        let began = Instant::now();
        prepared.explain(&database.engine().snapshot(), 1).expect("it has a plan");
        let planned = began.elapsed();
        let mut best = [0.0_f64; 2];
        let mut cores = [0.0_f64; 2];
        for (slot, partitions) in [1, 2].into_iter().enumerate() {
            let (began, cpu_ns) = (Instant::now(), preempt::os::process_cpu_ns());
            let times: Vec<f64> = (0..runs)
                .map(|_| {
                    let began = Instant::now();
                    runtime
                        .answer(&prepared, database.engine().snapshot(), RunConfig::new(partitions))
                        .expect("the query is right");
                    began.elapsed().as_secs_f64() * 1e3
                })
                .collect();
            cores[slot] = (preempt::os::process_cpu_ns() - cpu_ns) as f64 / began.elapsed().as_nanos() as f64;
            best[slot] = times.into_iter().fold(f64::INFINITY, f64::min);
            logarithms[slot] += best[slot].ln() / QUERIES_COUNT as f64;
        }
        println!(
            "q{number:02}  {:8.2} ms on {:.1} cores  {:8.2} ms on {:.1} cores  planning {planned:.2?}",
            best[0], cores[0], best[1], cores[1]
        );
    }
    println!("geometric mean  {:.2} ms  {:.2} ms; {}", logarithms[0].exp(), logarithms[1].exp(), resident());
}

fn resident() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let lines = status.lines().filter(|line| line.starts_with("VmRSS") || line.starts_with("VmHWM"));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join(", ")
}
