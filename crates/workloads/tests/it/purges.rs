//! Tests that a purge removes what it says, keeps what it must, and that its sums stand for the rows removed.

use crate::support::{SCALE, commit, delete, loaded, patch};
use engine::{Begin, Engine, EngineConfig, Value};
use stage::Class;
use workloads::tpcc::columns::{
    order_line, orders, purged_customer as pc, purged_district as pd, purged_supply as ps, stock,
};
use workloads::tpcc::{
    Inputs, Mix, Purge, PurgeConfig, Purged, Scale, TpccTables, TransactionKind, attempt, check, load, order_status,
    stock_level,
};

const BEGIN: Begin = Begin::new(Class::Normal);
const CONFIG: PurgeConfig = PurgeConfig { orders_kept: 20 };

fn purge_all(engine: &Engine, tables: &TpccTables, purge: &mut Purge) -> Purged {
    let mut all = Purged::default();
    // Two sweeps over all payments at least: the first one only estimates.
    let rounds = 4 + 2 * tables.history.rows_bound() as usize / (32 * purge.steps_per_round());
    for _ in 0..rounds * purge.steps_per_round() {
        all.add(purge.attempt(engine, BEGIN, tables).unwrap());
    }
    all
}

fn run(engine: &Engine, tables: &TpccTables, inputs: &mut Inputs, count: i32) {
    for turn in 0..count {
        let input = inputs.next(Mix::Standard, turn % SCALE.warehouses + 1);
        attempt(engine, BEGIN, tables, &input).unwrap();
        // As many orders as are entered: the standard's mix delivers ten at a time, of districts of which we have two.
        for _ in 0..4 {
            if turn % 25 == 0 {
                attempt(engine, BEGIN, tables, &inputs.entry(TransactionKind::Delivery, turn % SCALE.warehouses + 1))
                    .unwrap();
            }
        }
    }
}

fn rows(engine: &Engine, table: &std::sync::Arc<engine::Table>) -> u64 {
    let scan = engine.snapshot().scan(table, &[0], 1_024);
    scan.split(1).into_iter().flatten().map(|batch| batch.num_rows() as u64).sum()
}

/// Returns a database that has run and was purged.
fn purged() -> (Engine, TpccTables) {
    let (engine, tables) = loaded(1);
    let mut inputs = Inputs::new(SCALE, 2, 0);
    let mut purge = Purge::new(&engine, &tables, SCALE, CONFIG).unwrap();
    for _ in 0..4 {
        run(&engine, &tables, &mut inputs, 400);
        purge_all(&engine, &tables, &mut purge);
    }
    (engine, tables)
}

/// Goal: the tables stay bounded for ever and the conditions go on holding. Method: rounds of transactions with purges in
/// between: the counts at the end of a round must stop growing, what is gone plus what is there must be what was entered,
/// and every condition must hold each time; a second purge object goes on where the first one stopped.
pub fn tables_stop_growing_and_the_conditions_hold() {
    let (engine, tables) = loaded(1);
    let mut inputs = Inputs::new(SCALE, 2, 0);
    let mut sizes = Vec::new();
    let mut all = Purged::default();
    let before = [&tables.orders, &tables.history].map(|table| rows(&engine, table));
    for _ in 0..6 {
        let mut purge = Purge::new(&engine, &tables, SCALE, CONFIG).unwrap();
        run(&engine, &tables, &mut inputs, 400);
        all.add(purge_all(&engine, &tables, &mut purge));
        assert_eq!(check(&engine.snapshot(), &tables), Ok(()));
        sizes.push([&tables.orders, &tables.order_line, &tables.history].map(|table| rows(&engine, table)));
    }
    let [early, late] = [sizes[2], sizes[5]];
    assert!(early.iter().zip(late).all(|(early, late)| late < early + early / 3), "{sizes:?}");
    // Most of the 45 orders and 43 payments in a hundred.
    let most = 6 * 400 * 43 / 100 * 3 / 4;
    assert!(most < all.orders && most < all.payments && 8 * all.orders < all.lines, "{all:?}");
    assert!(before[0] < all.orders && before[1] < all.payments, "{all:?} must be more than the load had: {before:?}");
    // The window, the new orders, and one order per customer stay.
    let most = 4 * (20 + 40 + SCALE.customers as u64);
    assert!(late[0] <= most, "{sizes:?}");
}

/// Goal: transactions and purge go on when old rows have become columns. Method: as above, freezing what rests after each
/// round.
pub fn frozen_rows_are_delivered_and_purged_as_hot_ones() {
    // Only whole chunks of row ids freeze, so there must be many lines.
    let scale = Scale::small(2);
    let engine = Engine::new(EngineConfig::in_memory());
    let tables = load(&engine, scale, 1, &mut |_| {}).unwrap();
    let mut inputs = Inputs::new(scale, 2, 0);
    let mut purge = Purge::new(&engine, &tables, scale, CONFIG).unwrap();
    let mut all = Purged::default();
    for _ in 0..3 {
        (0..4).for_each(|_| {
            engine.freeze(u64::MAX);
        });
        run(&engine, &tables, &mut inputs, 400);
        all.add(purge_all(&engine, &tables, &mut purge));
        assert_eq!(check(&engine.snapshot(), &tables), Ok(()));
    }
    let stats = engine.stats();
    assert!(0 < stats.frozen && 0 < stats.thawed, "{stats:?}");
    assert!(0 < all.orders && 0 < all.payments);
}

/// Goal: a purge takes nothing that a terminal asks for. Method: after a purge every customer has a last order with all
/// its lines, and Stock-Level counts as before.
pub fn order_status_and_stock_level_do_not_notice_a_purge() {
    let (engine, tables) = loaded(1);
    let mut inputs = Inputs::new(SCALE, 2, 0);
    run(&engine, &tables, &mut inputs, 800);
    let questions: Vec<_> = (0..200).map(|_| (inputs.order_status(1), inputs.stock_level(2))).collect();
    let answers = || {
        let txn = engine.begin(BEGIN);
        let answer =
            |(order, level)| (order_status(&txn, &tables, order).unwrap(), stock_level(&txn, &tables, level).unwrap());
        questions.iter().map(|(order, level)| answer((order, level))).collect::<Vec<_>>()
    };
    let before = answers();
    let mut purge = Purge::new(&engine, &tables, SCALE, CONFIG).unwrap();
    assert!(0 < purge_all(&engine, &tables, &mut purge).orders);
    assert_eq!(answers(), before);
}

/// Goal: the sums of a purge are checked too. Method: damage of each of them, and damage that only they can reveal; the
/// violation must name the condition.
pub fn damage_after_a_purge_is_found() {
    type Damage = fn(&Engine, &TpccTables);
    let damages: [(u32, Damage); 8] = [
        (9, |engine, tables| {
            patch(engine, &tables.purged.district, &[1, 1], |row| row.set_decimal_i64(pd::PD_PAID, 7));
        }),
        (8, |engine, tables| {
            patch(engine, &tables.purged.district, &[2, 1], |row| row.set_decimal_i64(pd::PD_PAID, 7));
        }),
        (10, |engine, tables| {
            patch(engine, &tables.purged.customer, &[1, 1, 3], |row| row.set_decimal_i64(pc::PC_PAID, 7));
        }),
        (12, |engine, tables| {
            patch(engine, &tables.purged.customer, &[1, 1, 3], |row| row.set_decimal_i64(pc::PC_DELIVERED, 7));
        }),
        (14, |engine, tables| {
            patch(engine, &tables.purged.customer, &[1, 1, 3], |row| row.set_i64(pc::PC_PAYMENTS, 77));
        }),
        (13, |engine, tables| {
            patch(engine, &tables.purged.supply, &[1], |row| row.set_i64(ps::PS_LINES, row.get_i64(ps::PS_LINES) - 1));
        }),
        // The same number of lines and of pieces, but of another item.
        (13, |engine, tables| {
            for (item, more) in [(5, 1), (6, -1)] {
                patch(engine, &tables.stock, &[1, item], |row| {
                    row.set_i32(stock::S_ORDER_CNT, row.get_i32(stock::S_ORDER_CNT) + more);
                });
            }
        }),
        // An order that goes with its lines and without a trace in the sums.
        (16, |engine, tables| {
            let order = engine
                .begin(BEGIN)
                .range(&tables.orders, 0, &[Value::Int32(1), Value::Int32(1)], engine::Direction::Forward)
                .unwrap()
                .next()
                .map(|row| (row.get_i32(orders::O_ID), row.get_i32(orders::O_OL_CNT)))
                .unwrap();
            (1..=order.1).for_each(|line| delete(engine, &tables.order_line, &[1, 1, order.0, line]));
            delete(engine, &tables.orders, &[1, 1, order.0]);
        }),
    ];
    for (condition, damage) in damages {
        let (engine, tables) = purged();
        assert_eq!(check(&engine.snapshot(), &tables), Ok(()));
        damage(&engine, &tables);
        let violations = check(&engine.snapshot(), &tables).expect_err("the damage is found");
        let found = violations.iter().any(|violation| violation.condition == condition);
        assert!(found, "condition {condition} is not among {violations:?}");
    }
}

/// Goal: an aborted step of a purge has done nothing and may be repeated. Method: one is dropped before its commit; another
/// one meets a district whose progress somebody else holds.
pub fn a_step_that_aborts_is_repeated() {
    let (engine, tables) = loaded(1);
    let mut inputs = Inputs::new(SCALE, 2, 0);
    run(&engine, &tables, &mut inputs, 400);
    let mut purge = Purge::new(&engine, &tables, SCALE, CONFIG).unwrap();
    let txn = engine.begin(BEGIN);
    let dropped = purge.step(&txn, &tables).unwrap();
    assert!(0 < dropped.purged.orders);
    assert!(purge.attempt(&engine, BEGIN, &tables).unwrap_err().is_retryable());
    txn.abort();
    assert_eq!(check(&engine.snapshot(), &tables), Ok(()));
    assert_eq!(purge.attempt(&engine, BEGIN, &tables).unwrap(), dropped.purged);
    assert_eq!(check(&engine.snapshot(), &tables), Ok(()));
    commit(&engine, |txn| {
        let row = txn.get(&tables.order_line, 0, &[1, 1, 1, 1].map(Value::Int32)).unwrap();
        assert!(row.is_none_or(|row| row.get_i32(order_line::OL_O_ID) == 1));
    });
}
