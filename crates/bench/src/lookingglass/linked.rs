//! New-Order in linked code, by a stored function and as `bench tpcc` drives it: what the way through a function costs.
//!
//! **Invariant:** one thread runs both over the same tables, in turn in short blocks, with inputs of one stream, so
//! that what the machine does meanwhile is in both. Nothing is on a wire.

use super::calls::execute;
use crate::report::median;
use crate::report::{Report, TextTable, number};
use anyhow::Context;
use engine::{Begin, Engine, EngineConfig, SessionOptions};
use host::stop::Stop;
use preempt::os;
use procs::native::NativeRuntime;
use procs::{NativeModule, Runtime, Runtimes};
use settings::Connect;
use sql::session::{Database, Session, Statement};
use stage::Class;
use statement::error::SqlState;
use std::sync::Arc;
use std::time::{Duration, Instant};
use types::Datum;
use workloads::tpcc::{self, Input, Inputs, NewOrderInput, Scale, TpccModule, TransactionKind};

/// Blocks of each way.
const BLOCKS: usize = 60;
/// Orders of a block.
const ORDERS: usize = 300;

/// Measures both ways, on this processor.
///
/// # Errors
/// A stop; errors of the engine and of the database.
pub fn measure(report: &mut Report, scale: Scale, seed: u64, processor: usize, stop: &Stop) -> anyhow::Result<()> {
    let scale = Scale { warehouses: 1, ..scale };
    os::pin_to_cpu(processor).context("pinning the orders")?;
    let engine = Engine::new(EngineConfig::in_memory());
    let tables = tpcc::load(&engine, scale, seed, &mut |_| ())?;
    let module = TpccModule::default();
    let manifest = module.manifest().replace(" tpcc_", " tpcc.");
    let native: Arc<dyn Runtime> = Arc::new(NativeRuntime::new(vec![Arc::new(module)]));
    let database = Database::new(engine.clone()).with_runtimes(Arc::new(Runtimes::new(vec![native])));
    database.adopt(&engine.tables())?;
    let wishes = Connect { user: "postgres".into(), database: "postgres".into(), ..Connect::default() };
    let mut session = database.connect(wishes)?;
    for statement in [
        format!("create module tpcc manifest $${manifest}$$ artifact native 'tpcc'"),
        "create function new_order(int, int, int, timestamp, int[], int[], int[]) returns numeric language native \
         as 'tpcc'"
            .to_owned(),
    ] {
        let statement = session.prepare(&statement, &[])?;
        execute(&mut session, &statement, Vec::new())?;
    }
    let call = session.prepare("select new_order($1, $2, $3, $4, $5, $6, $7)", &[])?;
    let mut own = engine.session(SessionOptions::new(Class::Normal));
    let mut inputs = Inputs::new(scale, seed, 1);
    let (mut driven, mut stored) = (Vec::new(), Vec::new());
    for block in 0..=BLOCKS {
        stop.wait(Duration::ZERO)?;
        let mut draw = || -> Vec<Input> { (0..ORDERS).map(|_| inputs.entry(TransactionKind::NewOrder, 1)).collect() };
        let (first, second) = (draw(), draw());
        let driven_us = timed(&first, |input| {
            tpcc::run(&mut own, Begin::new(Class::Normal), &tables, input)?;
            Ok(())
        })?;
        let stored_us = timed(&second, |input| stored_order(&mut session, &call, input))?;
        // The first block makes the plans.
        if 0 < block {
            driven.push(driven_us);
            stored.push(stored_us);
        }
    }
    let (driven, stored) = (median(&driven), median(&stored));
    let mut table = TextTable::new("New-Order in linked code, in process, one warehouse", &["", "us an order"]);
    table.row(["as bench tpcc drives it".to_owned(), number(driven)]);
    table.row(["by a stored function".to_owned(), number(stored)]);
    report.table(table);
    report.figure("glass.new_order.driven_us".to_owned(), driven);
    report.figure("glass.new_order.native_in_process_us".to_owned(), stored);
    report.figure("glass.new_order.native_of_tpcc".to_owned(), driven / stored);
    Ok(())
}

/// Returns the mean time of an order, in microseconds.
fn timed(orders: &[Input], mut run: impl FnMut(&Input) -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let begun = Instant::now();
    orders.iter().try_for_each(&mut run)?;
    Ok(begun.elapsed().as_secs_f64() * 1e6 / orders.len() as f64)
}

/// Enters an order by the function. One whose last item does not exist leaves nothing.
fn stored_order(session: &mut Session, call: &Arc<Statement>, input: &Input) -> anyhow::Result<()> {
    let Input::NewOrder(order) = input else { anyhow::bail!("a New-Order is expected") };
    match execute(session, call, values(order)) {
        Err(error) if error.state() == SqlState::NOT_NULL_VIOLATION => Ok(()),
        other => Ok(other?),
    }
}

fn values(order: &NewOrderInput) -> Vec<Datum> {
    let column = |of: &dyn Fn(&tpcc::NewOrderLine) -> i32| -> Datum {
        Datum::Array(order.lines().iter().map(|line| Datum::Int4(of(line))).collect())
    };
    vec![
        Datum::Int4(order.warehouse),
        Datum::Int4(order.district),
        Datum::Int4(order.customer),
        Datum::Timestamp(order.entered_us),
        column(&|line| line.item),
        column(&|line| line.supply_warehouse),
        column(&|line| line.quantity),
    ]
}
