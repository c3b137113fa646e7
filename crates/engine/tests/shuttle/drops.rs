//! Models of dropped tables: the whole engine, small. Whoever names a table that has gone panics, and so does whoever frees
//! a version twice or meets one that was freed.

use engine::{
    Begin, Column, Engine, EngineConfig, Isolation, RowId, Session, SessionOptions, Step, Table, TableDef, Type, Value,
};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};
use stage::Class;
use std::sync::Arc;

const SCHEDULES: usize = 2_000;
const BEGIN: Begin = Begin::new(Class::Normal).isolation(Isolation::RepeatableRead);

fn check(model: impl Fn() + Send + Sync + Clone + 'static) {
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    Runner::new(RandomScheduler::new(SCHEDULES), config.clone()).run(model.clone());
    Runner::new(PctScheduler::new(3, SCHEDULES), config).run(model);
}

fn create(engine: &Engine, name: &str) -> (Arc<Table>, RowId) {
    let columns = vec![Column::required("number", Type::Int64)];
    let table = engine.create_table(TableDef { name: name.to_owned(), columns, indexes: Vec::new() }).unwrap();
    let txn = engine.begin(BEGIN);
    let row = txn.insert(&table, &[Value::Int64(0)]).unwrap();
    txn.commit().unwrap();
    (table, row)
}

fn add(engine: &Engine, table: &Table, row: RowId) {
    let txn = engine.begin(BEGIN);
    if txn.update(table, row, |row| row.set_i64(0, row.get_i64(0) + 1)).is_ok() {
        let _ = txn.commit();
    }
}

/// The table goes while a transaction that wrote to it still has to end, others work on another table with the same slots,
/// and the garbage is collected by two.
#[test]
fn a_table_goes_when_nobody_names_it() {
    check(|| {
        let engine = Engine::new(EngineConfig::in_memory());
        let (stays, kept_row) = create(&engine, "stays");
        let (goes, row) = create(&engine, "goes");
        let writer = {
            let (engine, goes) = (engine.clone(), goes.clone());
            thread::spawn(move || {
                let mut session: Session = engine.session(SessionOptions::new(Class::Normal));
                session.begin(BEGIN).unwrap();
                // The row may be another's, or changed: then it ends by a rollback, maybe out of a queue.
                let written = session.try_execute(|txn| txn.update(&goes, row, |row| row.set_i64(0, 7)));
                drop(goes);
                engine.collect_garbage(usize::MAX);
                match written {
                    Ok(Step::Done(())) => session.commit().map(|_| ()).unwrap(),
                    _ => session.rollback(),
                }
            })
        };
        let other = {
            let (engine, stays) = (engine.clone(), stays.clone());
            thread::spawn(move || {
                add(&engine, &stays, kept_row);
                engine.collect_garbage(usize::MAX);
                add(&engine, &stays, kept_row);
            })
        };
        add(&engine, &goes, row);
        engine.drop_table(&goes);
        drop(goes);
        engine.collect_garbage(usize::MAX);
        writer.join().unwrap();
        other.join().unwrap();
        for _ in 0..3 {
            engine.collect_garbage(usize::MAX);
        }
        let stats = engine.stats();
        assert_eq!((stats.versions, stats.versions_dead, stats.rows), (1, 0, 1));
    });
}
