//! How long CH-benCHmark's 22 queries take at rest: `cargo run --release -p olap --example ch -- WAREHOUSES [QUERY]`. Prints
//! each query's rows and time with one partition and with two; with a query's number, its plan as well.

use engine::{Engine, EngineConfig};
use olap::{Database, RunConfig, Runtime, RuntimeConfig};
use std::time::Instant;
use workloads::ch::{self, QUERIES_COUNT, query};
use workloads::tpcc::{self, Scale};

#[global_allocator]
static HEAP: preempt::Heap = preempt::Heap::HEAP;

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|text| text.parse().ok());
    let Some(warehouses) = arguments.next() else {
        eprintln!("usage: ch WAREHOUSES [QUERY]");
        std::process::exit(2);
    };
    let only: Option<i32> = arguments.next();
    let engine = Engine::new(EngineConfig::in_memory());
    tpcc::load(&engine, Scale::spec(warehouses), 42, &mut |_| {}).expect("the tables are new");
    ch::load(&engine, 42).expect("the tables are new");
    let database = Database::new(engine);
    let runtime = Runtime::new(RuntimeConfig::new(2)).expect("threads start");
    for number in 1..=QUERIES_COUNT {
        if only.is_some_and(|only| only as usize != number) {
            continue;
        }
        let prepared = database.prepare(query(number)).expect("it is a query");
        if only.is_some() {
            println!("{}", prepared.explain(&database.engine().snapshot(), 1).expect("it has a plan"));
        }
        let times = [1, 2].map(|partitions| {
            let began = Instant::now();
            let answer = runtime.answer(&prepared, database.engine().snapshot(), RunConfig::new(partitions));
            (answer.expect("the query is right").rows_count(), began.elapsed())
        });
        println!("q{number:02}  {} rows  {:.1?}  {:.1?}", times[0].0, times[0].1, times[1].1);
    }
}
