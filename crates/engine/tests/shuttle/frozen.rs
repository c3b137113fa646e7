//! Rows that freeze and thaw under a transaction that compares them with its snapshot: the whole engine, small.

use engine::{Begin, Column, Engine, EngineConfig, IndexDef, Isolation, RowId, RowLock, TableDef, Type, Value, Wait};
use shuttle::scheduler::RandomScheduler;
use shuttle::{Config, Runner, thread};
use stage::Class;
use std::sync::Arc;

const SCHEDULES: usize = 2_000;
const REPEATABLE: Begin = Begin::new(Class::Normal).isolation(Isolation::RepeatableRead);

fn freeze(engine: &Engine) {
    while !engine.freeze(u64::MAX).ended {}
}

/// Goal: no transaction changes the rows. So they are what the snapshot sees, wherever they are, and no look at them
/// finds a conflict.
#[test]
fn a_row_that_freezes_is_no_conflict() {
    let mut config = Config::new();
    // The engine's frames are larger than those of a model.
    config.stack_size = 1 << 18;
    let model = || {
        let engine = Engine::new(EngineConfig::in_memory());
        let columns = vec![Column::required("number", Type::Int64)];
        let def = TableDef { name: "t".to_owned(), columns, indexes: vec![IndexDef::unique("key", &[0])] };
        let table = engine.create_table(def).unwrap();
        let txn = engine.begin(REPEATABLE);
        let rows: Vec<RowId> = (0..2).map(|number| txn.insert(&table, &[Value::Int64(number)]).unwrap()).collect();
        txn.commit().unwrap();
        // They have rested now.
        (0..2).for_each(|_| freeze(&engine));
        let all = Arc::new((engine, table));
        let freezer = {
            let all = all.clone();
            thread::spawn(move || (0..2).for_each(|_| freeze(&all.0)))
        };
        let (engine, table) = &*all;
        let txn = engine.begin(REPEATABLE);
        for number in 0..2 {
            let row = txn.newest(table, 0, &[Value::Int64(number)]).unwrap();
            assert_eq!(row.unwrap().row_id(), rows[number as usize]);
        }
        assert!(txn.is_unchanged(table).unwrap());
        for row in &rows {
            assert!(txn.lock_row(table, *row, RowLock::Update, Wait::Block).unwrap().is_some());
        }
        txn.commit().unwrap();
        freezer.join().unwrap();
    };
    Runner::new(RandomScheduler::new(SCHEDULES), config).run(model);
}
