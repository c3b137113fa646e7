//! The table and its updates.
//!
//! **Invariant:** a row's value is [`first_value`] until it is updated, and only grows then.

use crate::background::Background;
use engine::{Begin, Column, Direction, Engine, Error, IndexDef, Result, Table, TableDef, Txn, Type, Value};
use preempt::os;
use stage::{Class, Histogram};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;
use workloads::tpcc::Random;

const VALUE: usize = 1;
const NOTE_LETTERS: usize = 100;
const ROWS_PER_TRANSACTION: u32 = 10_000;

fn first_value(id: i32) -> i64 {
    7 * i64::from(id)
}

/// Creates and fills the table.
///
/// # Errors
/// Errors of the engine.
pub fn table(engine: &Engine, rows: u32) -> Result<Arc<Table>> {
    let columns = vec![
        Column::required("id", Type::Int32),
        Column::required("value", Type::Int64),
        Column::nullable("note", Type::Text),
    ];
    let indexes = vec![IndexDef::unique("counters_pkey", &[0])];
    let table = engine.create_table(TableDef { name: "counters".to_owned(), columns, indexes })?;
    let note = "n".repeat(NOTE_LETTERS);
    let ids: Vec<i32> = (0..rows as i32).collect();
    for ids in ids.chunks(ROWS_PER_TRANSACTION as usize) {
        let txn = engine.try_begin(Begin::new(Class::Normal))?;
        for id in ids {
            txn.insert(&table, &[Value::Int32(*id), Value::Int64(first_value(*id)), Value::Text(&note)])?;
        }
        txn.commit()?;
    }
    Ok(table)
}

/// Reads all rows, and compares them with the rows loaded.
///
/// # Errors
/// [`Error::RolledBack`] if a row differs from its first value; errors of the engine.
pub fn check(txn: &Txn<'_>, table: &Table, rows: u32) -> Result<()> {
    let mut next = 0;
    for row in txn.range(table, 0, &[], Direction::Forward)? {
        let (id, value) = (row.get_i32(0), row.get_i64(VALUE));
        if id != next || value != first_value(id) {
            tracing::error!(id, value, expected = first_value(next), "the snapshot has changed");
            return Err(Error::RolledBack);
        }
        next += 1;
    }
    if next == rows as i32 { Ok(()) } else { Err(Error::RolledBack) }
}

/// Starts updates of random rows at a rate, each in a transaction of its own. When stopped, returns their times from
/// their scheduled arrivals.
///
/// # Errors
/// If the thread cannot be started.
pub fn start(
    engine: &Engine,
    table: &Arc<Table>,
    rows: u32,
    rate: f64,
    seed: u64,
) -> anyhow::Result<Background<Histogram>> {
    let (engine, table) = (engine.clone(), Arc::clone(table));
    let body = move |is_over: &AtomicBool| {
        let mut random = Random::new(seed);
        let mut times = Histogram::new();
        let began_ns = os::now_ns();
        for at in 0_u64.. {
            let due_ns = began_ns + (at as f64 * 1e9 / rate) as u64;
            let now_ns = os::now_ns();
            if now_ns < due_ns {
                // A sleep is exact to some 50 us, several updates at the default rate; a late thread catches up.
                thread::park_timeout(Duration::from_nanos(due_ns - now_ns));
            }
            if is_over.load(SeqCst) {
                break;
            }
            let id = random.uniform(0, rows as i32 - 1);
            let (result, _) = engine.run(Begin::new(Class::Normal), |txn| {
                let row = txn.get(&table, 0, &[Value::Int32(id)])?.ok_or(Error::RolledBack)?.row_id();
                txn.update(&table, row, |row| row.set_i64(VALUE, row.get_i64(VALUE) + 1))
            });
            result?;
            times.record_ns(os::now_ns().saturating_sub(due_ns));
        }
        Ok(times)
    };
    Ok(Background::start("updates", body)?)
}
