//! A runtime whose workers are interruptible, and a table to fill.

use engine::{Begin, Column, Engine, EngineConfig, IndexDef, Table, TableDef, Type, Value};
use olap::{Answer, Database, Result, RunConfig, Runtime, RuntimeConfig, WorkerHooks};
use preempt::{Arrival, Registration, Serve, Worker};
use stage::Class;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    static REGISTRATION: RefCell<Option<Registration>> = const { RefCell::new(None) };
}

/// Registers each worker, so that the storm interrupts it in the middle of DataFusion.
pub struct Interruptible;

struct UseTheHeap;

impl Serve for UseTheHeap {
    fn serve(&self, _worker: &'static Worker, _arrival: Arrival) {
        std::hint::black_box(vec![1_u8; 300]);
    }
}

impl WorkerHooks for Interruptible {
    fn started(&self, index: usize) {
        let registration = preempt::register(&format!("worker {index}"), Arc::new(UseTheHeap));
        REGISTRATION.set(Some(registration.expect("a tokio thread can be a worker")));
    }

    fn parked(&self) {}

    fn unparked(&self) {}

    fn stopping(&self) {
        drop(REGISTRATION.take());
    }
}

pub fn runtime(workers: usize) -> Runtime {
    let config = RuntimeConfig { hooks: Arc::new(Interruptible), ..RuntimeConfig::new(workers) };
    Runtime::new(config).expect("threads start")
}

pub fn database() -> Database {
    Database::new(Engine::new(EngineConfig::in_memory()))
}

/// The answer of one query over what is committed now.
pub fn ask(runtime: &Runtime, database: &Database, text: &str, partitions: usize) -> Result<Answer> {
    let prepared = database.prepare(text)?;
    runtime.answer(&prepared, database.engine().snapshot(), RunConfig::new(partitions))
}

/// The answer's rows as text, `|` between cells.
pub fn rows(answer: &Answer) -> Vec<String> {
    let shown = |row: Vec<Option<String>>| row.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>().join("|");
    answer.texts().into_iter().map(shown).collect()
}

/// A table `numbers(id, amount, note)` with the ids 0 to `rows_count - 1`; the amount is a cent for each id.
pub fn numbers(engine: &Engine, rows_count: i64) -> Arc<Table> {
    let columns = vec![
        Column::required("id", Type::Int64),
        Column::required("amount", Type::Decimal { precision: 15, scale: 2 }),
        Column::nullable("note", Type::Text),
    ];
    let indexes = vec![IndexDef::unique("numbers_key", &[0])];
    let table = engine
        .create_table(TableDef { name: "numbers".to_owned(), columns, indexes })
        .expect("the definition is right");
    for chunk in (0..rows_count).collect::<Vec<_>>().chunks(1_000) {
        let txn = engine.begin(Begin::new(Class::Normal));
        for id in chunk {
            let note = format!("note {id}");
            let note = if id % 7 == 0 { Value::Null } else { Value::Text(&note) };
            txn.insert(&table, &[Value::Int64(*id), Value::Decimal((*id).into()), note]).expect("the key is new");
        }
        txn.commit().expect("nobody else writes");
    }
    table
}
