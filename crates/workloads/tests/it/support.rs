//! A small loaded database, and changes made to it in one transaction.

use engine::{Begin, Engine, EngineConfig, RowWriter, Table, Txn, Value};
use stage::Class;
use workloads::tpcc::{Scale, TpccTables, load};

/// Scale of the smallest database with more than one warehouse; it loads in a fraction of a second in a debug build.
pub const SCALE: Scale =
    Scale { warehouses: 2, districts: 2, customers: 30, items: 100, customer_skew: 15, item_skew: 63 };

/// Loads the database of this seed.
pub fn loaded(seed: u64) -> (Engine, TpccTables) {
    let engine = Engine::new(EngineConfig::in_memory());
    let tables = load(&engine, SCALE, seed, &mut |_| {}).unwrap();
    (engine, tables)
}

/// Runs `change` as one committed transaction.
pub fn commit(engine: &Engine, change: impl FnOnce(&Txn<'_>)) {
    let txn = engine.begin(Begin::new(Class::Normal));
    change(&txn);
    txn.commit().unwrap();
}

/// Patches the row with this primary key.
pub fn patch(engine: &Engine, table: &Table, key: &[i32], change: impl FnOnce(&mut RowWriter<'_>)) {
    commit(engine, |txn| {
        let row = txn.get(table, 0, &ids(key)).unwrap().unwrap().row_id();
        txn.update(table, row, change).unwrap();
    });
}

/// Deletes the row with this primary key.
pub fn delete(engine: &Engine, table: &Table, key: &[i32]) {
    commit(engine, |txn| {
        let row = txn.get(table, 0, &ids(key)).unwrap().unwrap().row_id();
        txn.delete(table, row).unwrap();
    });
}

fn ids(key: &[i32]) -> Vec<Value<'static>> {
    key.iter().map(|id| Value::Int32(*id)).collect()
}
