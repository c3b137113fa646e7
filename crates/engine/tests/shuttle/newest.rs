//! Looks at a row's present state while another transaction replaces its version: the whole engine, small.

use engine::{Begin, Column, Engine, EngineConfig, IndexDef, Isolation, RowId, Table, TableDef, Type, Value};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};
use stage::Class;
use std::sync::Arc;

const SCHEDULES: usize = 2_000;
const COMMITTED: Begin = Begin::new(Class::Normal).isolation(Isolation::ReadCommitted);

struct OneRow {
    engine: Engine,
    table: Arc<Table>,
    row: RowId,
}

impl OneRow {
    fn new() -> OneRow {
        let engine = Engine::new(EngineConfig::in_memory());
        let columns = vec![Column::required("key", Type::Int64), Column::required("number", Type::Int64)];
        let def = TableDef { name: "t".to_owned(), columns, indexes: vec![IndexDef::unique("t_pkey", &[0])] };
        let table = engine.create_table(def).unwrap();
        let txn = engine.begin(COMMITTED);
        let row = txn.insert(&table, &[Value::Int64(0), Value::Int64(0)]).unwrap();
        txn.commit().unwrap();
        OneRow { engine, table, row }
    }

    /// Changes a column that is no key, unless another transaction has the row.
    fn replace_version(&self) {
        let txn = self.engine.begin(COMMITTED);
        if txn.update(&self.table, self.row, |writer| writer.set(1, Value::Int64(1))).is_ok() {
            txn.commit().unwrap();
        }
    }
}

/// Runs `look` while another transaction changes a column of the row that is no key.
fn check(look: fn(&OneRow)) {
    let model = move || {
        let all = Arc::new(OneRow::new());
        let writer = {
            let all = all.clone();
            thread::spawn(move || (0..2).for_each(|_| all.replace_version()))
        };
        look(&all);
        writer.join().unwrap();
    };
    let mut config = Config::new();
    // The engine's frames are larger than those of a model.
    config.stack_size = 1 << 18;
    Runner::new(RandomScheduler::new(SCHEDULES), config.clone()).run(model);
    Runner::new(PctScheduler::new(3, SCHEDULES), config).run(model);
}

#[test]
fn a_key_is_not_free_while_its_row_is_updated() {
    check(|all| {
        let txn = all.engine.begin(COMMITTED);
        let inserted = txn.insert(&all.table, &[Value::Int64(0), Value::Int64(2)]);
        assert!(inserted.is_err(), "a second row has the key");
    });
}

#[test]
fn the_newest_row_of_a_key_is_found_while_it_is_updated() {
    check(|all| {
        let txn = all.engine.begin(COMMITTED);
        assert!(txn.newest(&all.table, 0, &[Value::Int64(0)]).unwrap().is_some());
        txn.commit().unwrap();
    });
}

#[test]
fn a_walk_over_the_newest_rows_finds_a_row_that_is_updated() {
    check(|all| {
        let txn = all.engine.begin(COMMITTED);
        let mut found = 0;
        let mut count = |_: &engine::Row<'_>| {
            found += 1;
            true
        };
        txn.each_newest(&all.table, None, &mut count).unwrap();
        txn.each_newest(&all.table, Some((0, &[Value::Int64(0)])), &mut count).unwrap();
        assert_eq!(found, 2);
        txn.commit().unwrap();
    });
}

#[test]
fn a_row_that_is_updated_is_not_taken_for_deleted() {
    check(|all| {
        let txn = all.engine.begin(COMMITTED);
        // Without a session a conflict is an error; `false` would mean that the row is gone.
        let updated = txn.update_if(&all.table, all.row, |writer| {
            writer.set(1, Value::Int64(5));
            true
        });
        assert!(updated != Ok(false), "a row that exists was not updated");
    });
}
