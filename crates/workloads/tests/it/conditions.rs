//! Tests that every consistency condition finds the damage that it is there for.

use crate::support::{commit, delete, loaded, patch};
use engine::{Engine, TableDef, Value};
use workloads::tpcc::columns::{customer, district, order_line, orders, stock, warehouse};
use workloads::tpcc::{TpccTables, check, check_loaded};

/// Committed change that breaks a condition.
type Damage = fn(&Engine, &TpccTables);

/// Damage that must break a condition, with the condition's number. The damage may break others too: they share rows.
/// Order 30 is a district's last one and new, order 1 is delivered.
const DAMAGES: [(u32, Damage); 17] = [
    (1, |engine, tables| {
        patch(engine, &tables.warehouse, &[1], |row| row.set_decimal_i64(warehouse::W_YTD, 1));
    }),
    (2, |engine, tables| {
        patch(engine, &tables.district, &[1, 1], |row| row.set_i32(district::D_NEXT_O_ID, 40));
    }),
    // A hole in the middle of the new orders.
    (3, |engine, tables| delete(engine, &tables.new_order, &[1, 1, 28])),
    (4, |engine, tables| delete(engine, &tables.order_line, &[1, 1, 1, 1])),
    (5, |engine, tables| {
        patch(engine, &tables.orders, &[1, 1, 30], |row| row.set_i32(orders::O_CARRIER_ID, 5));
    }),
    (6, |engine, tables| {
        patch(engine, &tables.orders, &[2, 1, 7], |row| row.set_i32(orders::O_OL_CNT, 99));
    }),
    (7, |engine, tables| {
        patch(engine, &tables.order_line, &[1, 2, 30, 1], |row| row.set_timestamp(order_line::OL_DELIVERY_D, 1));
    }),
    // A payment without its customer's and its district's share.
    (8, |engine, tables| pay(engine, tables, 1, 1)),
    (9, |engine, tables| {
        patch(engine, &tables.district, &[2, 2], |row| row.set_decimal_i64(district::D_YTD, 1));
    }),
    (10, |engine, tables| {
        patch(engine, &tables.customer, &[1, 1, 3], |row| row.set_decimal_i64(customer::C_BALANCE, 5));
    }),
    (11, |engine, tables| delete(engine, &tables.orders, &[1, 1, 2])),
    (12, |engine, tables| {
        patch(engine, &tables.customer, &[1, 1, 3], |row| row.set_decimal_i64(customer::C_YTD_PAYMENT, 5));
    }),
    // The state after an order line whose update of stock was lost, and the other way round.
    (13, |engine, tables| {
        patch(engine, &tables.stock, &[1, 5], |row| row.set_i32(stock::S_ORDER_CNT, 1));
    }),
    (13, |engine, tables| {
        patch(engine, &tables.stock, &[2, 6], |row| row.set_i32(stock::S_QUANTITY, 9));
    }),
    (13, |engine, tables| order_line(engine, tables, 31)),
    (14, |engine, tables| {
        patch(engine, &tables.customer, &[1, 1, 3], |row| row.set_i32(customer::C_PAYMENT_CNT, 2));
    }),
    (16, |engine, tables| delete(engine, &tables.orders, &[1, 1, 2])),
];

fn order_line(engine: &Engine, tables: &TpccTables, order: i32) {
    use Value::{Decimal, Int32, Null, Text};
    let [order, district, warehouse, number, item, quantity] = [order, 1, 1, 1, 7, 2].map(Int32);
    let row = [order, district, warehouse, number, item, warehouse, Null, quantity, Decimal(2), Text("no such order")];
    commit(engine, |txn| {
        txn.insert(&tables.order_line, &row).unwrap();
    });
}

fn pay(engine: &Engine, tables: &TpccTables, warehouse: i32, district: i32) {
    use Value::{Decimal, Int32, Text, Timestamp};
    let ids = [1, district, warehouse, district, warehouse].map(Int32);
    let row = [ids[0], ids[1], ids[2], ids[3], ids[4], Timestamp(1), Decimal(100), Text("no such payment")];
    commit(engine, |txn| {
        txn.insert(&tables.history, &row).unwrap();
    });
}

/// Goal: each check finds its violation; one that never does would be worthless. Method: a fresh database for each
/// damage, checked before and after; the violation must name the condition.
pub fn each_condition_detects_a_planted_violation() {
    for (condition, damage) in DAMAGES {
        let (engine, tables) = loaded(1);
        assert_eq!(check_loaded(&engine.snapshot(), &tables), Ok(()));
        damage(&engine, &tables);
        let violations = check_loaded(&engine.snapshot(), &tables).expect_err("the damage is found");
        let found = violations.iter().any(|violation| violation.condition == condition);
        assert!(found, "condition {condition} is not among {violations:?}");
        assert!(violations.iter().all(|violation| violation.to_string().contains("condition")));
    }
}

/// Goal: condition 15 finds duplicates, which a unique index would prevent. Method: a table of warehouses without any
/// index, with one of them twice.
pub fn rows_that_are_there_twice_are_detected() {
    let (engine, tables) = loaded(1);
    let columns = tables.warehouse.columns().to_vec();
    let def = TableDef { name: "warehouse_without_key".to_owned(), columns, indexes: vec![] };
    let warehouse = engine.create_table(def).unwrap();
    let text = Value::Text("x");
    let row = |id| [Value::Int32(id), text, text, text, text, text, text, Value::Decimal(0), Value::Decimal(60_000)];
    commit(&engine, |txn| {
        for id in [1, 2, 2] {
            txn.insert(&warehouse, &row(id)).unwrap();
        }
    });
    let tables = TpccTables { warehouse, ..tables };
    let violations = check(&engine.snapshot(), &tables).expect_err("the damage is found");
    assert_eq!(violations.iter().map(|violation| violation.condition).collect::<Vec<_>>(), [15], "{violations:?}");
}
