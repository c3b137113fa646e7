//! Small database whose answers are known.

use super::load;
use crate::tpcc::{self, Inputs, Mix, Purge, PurgeConfig, Scale, attempt, columns};
use engine::{Begin, Engine, Result, Value};
use stage::Class;

const SEED: u64 = 42;
/// Number of transactions of the standard mix.
const TRANSACTIONS: usize = 3_000;

/// Substrings of an item's data that queries look for. By chance, too few items of this small number have them.
const WANTED: [&str; 4] = ["co", "PR", "xBB", "b"];
/// Interval of items that get one of the substrings: one in this many.
const WANTED_EVERY: i32 = 10;
/// Number of delivered orders of a district that a purge keeps.
const ORDERS_KEPT: i32 = 20;

/// Loads a small TPC-C of two warehouses and the three tables into `engine`, and runs some thousand transactions, one
/// after the other, with a purge in between. The rows are the same every time. Some rows are not TPC-C's, so that every
/// query finds something.
///
/// # Errors
/// Errors of the engine.
pub fn known_database(engine: &Engine) -> Result<tpcc::TpccTables> {
    let scale = Scale::small(2);
    let tables = tpcc::load(engine, scale, SEED, &mut |_| {})?;
    load(engine, SEED)?;
    rare_items(engine, &tables, scale)?;
    let mut inputs = Inputs::new(scale, SEED, SEED);
    let begin = Begin::new(Class::Normal);
    let mut purge = Purge::new(engine, &tables, scale, PurgeConfig { orders_kept: ORDERS_KEPT })?;
    for turn in 0..TRANSACTIONS {
        let warehouse = inputs.warehouse();
        attempt(engine, begin, &tables, &inputs.next(Mix::Standard, warehouse))?;
        if turn % 10 == 0 {
            purge.attempt(engine, begin, &tables)?;
        }
    }
    customers_without_orders(engine, &tables, scale)?;
    Ok(tables)
}

fn rare_items(engine: &Engine, tables: &tpcc::TpccTables, scale: Scale) -> Result<()> {
    let txn = engine.try_begin(Begin::new(Class::Normal))?;
    for (item, wanted) in (1..=scale.items).step_by(WANTED_EVERY as usize).zip(WANTED.iter().cycle()) {
        let row = txn.get(&tables.item, 0, &[Value::Int32(item)])?.map(|row| row.row_id());
        if let Some(row) = row {
            txn.update(&tables.item, row, |row| {
                row.set_text(columns::item::I_DATA, &format!("{wanted} and {wanted}"))
            })?;
        }
    }
    txn.commit().map(drop)
}

/// Adds one more customer to each district, who is rich and has not ordered yet.
fn customers_without_orders(engine: &Engine, tables: &tpcc::TpccTables, scale: Scale) -> Result<()> {
    use columns::customer::{C_BALANCE, C_ID};
    let txn = engine.try_begin(Begin::new(Class::Normal))?;
    for (warehouse, district) in (1..=scale.warehouses).flat_map(|w| (1..=scale.districts).map(move |d| (w, d))) {
        let key = [warehouse, district, 1].map(Value::Int32);
        let Some(first) = txn.get(&tables.customer, 0, &key)? else { continue };
        let mut values: Vec<Value<'_>> = (0..tables.customer.columns().len()).map(|column| first.get(column)).collect();
        values[C_ID] = Value::Int32(scale.customers + 1);
        values[C_BALANCE] = Value::Decimal(i128::from(10_000_000 + district));
        txn.insert(&tables.customer, &values)?;
    }
    txn.commit().map(drop)
}
