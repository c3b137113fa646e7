//! Tests that concurrent terminals keep the conditions, and that a rollback leaves nothing.

use crate::support::{SCALE, loaded};
use engine::{Begin, Engine, EngineConfig, Isolation};
use stage::Class;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use workloads::tpcc::{
    DriveConfig, Mix, NewOrderInput, NewOrderLine, ProcedureOutcome, PurgeConfig, Scale, TransactionKind,
    attempt_new_order, check, check_while, digest, drive, drive_while, load, new_order, run_new_order,
};

/// Goal: no update is lost between two threads. Method: both enter orders and payments at one warehouse and its
/// neighbour, which meet on rows all the time; then all conditions must hold, and the counts must be those reported.
pub fn two_terminals_leave_a_consistent_database() {
    let (engine, tables) = loaded(1);
    let lines_before = rows(&engine, &tables.orders);
    let paid_before = rows(&engine, &tables.history);
    let config = DriveConfig {
        scale: SCALE,
        workers: 2,
        mix: Mix::NewOrderPayment,
        duration: Duration::from_secs(1),
        seed: 2,
        begin: Begin::new(Class::Normal),
        purge: None,
    };
    let report = drive(&engine, &tables, &config).unwrap();
    let [orders, payments] =
        [TransactionKind::NewOrder, TransactionKind::Payment].map(|kind| report.of(kind).committed);
    assert!(0 < orders);
    assert!(0 < payments);
    assert_eq!(check(&engine.snapshot(), &tables), Ok(()));
    assert_eq!(rows(&engine, &tables.orders) - lines_before, orders);
    assert_eq!(rows(&engine, &tables.history) - paid_before, payments);
}

/// Goal: the conditions hold after any number of concurrent transactions of all five kinds, at each isolation level, with and
/// without a purge beside them. Method: two workers on one warehouse, where they meet on the warehouse's and the
/// districts' rows; and on two warehouses, of which each supplies the other's orders and takes its payments.
pub fn the_standard_mix_keeps_the_conditions_at_each_level() {
    for warehouses in [1, 2] {
        for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
            for purge in [None, Some(PurgeConfig { orders_kept: 20 })] {
                let scale = Scale { warehouses, ..SCALE };
                let engine = Engine::new(EngineConfig::in_memory());
                let tables = load(&engine, scale, 1, &mut |_| {}).unwrap();
                let begin = Begin::new(Class::Normal).isolation(isolation);
                let duration = Duration::from_millis(200);
                let config = DriveConfig { scale, workers: 2, mix: Mix::Standard, duration, seed: 3, begin, purge };
                let report = drive(&engine, &tables, &config).unwrap();
                assert_eq!(check(&engine.snapshot(), &tables), Ok(()), "{warehouses} {isolation:?} {purge:?}");
                assert!(TransactionKind::ALL.iter().all(|kind| 0 < report.of(*kind).committed));
                let delivered = rows(&engine, &tables.orders) + report.purged.orders - rows(&engine, &tables.new_order);
                let districts = (warehouses * SCALE.districts) as u64;
                let at_load = districts * u64::from(SCALE.first_new_order().unsigned_abs() - 1);
                // Each order at most once: as many as deliveries found, in as many districts.
                assert!(delivered - at_load <= SCALE.districts as u64 * report.of(TransactionKind::Delivery).committed);
            }
        }
    }
}

/// Goal: a drive and a check end when they are told to. Method: an hour's drive that is told to stop at once.
pub fn a_drive_and_a_check_stop_when_told() {
    let (engine, tables) = loaded(1);
    let duration = Duration::from_secs(3_600);
    let begin = Begin::new(Class::Normal);
    let purge = Some(PurgeConfig::default());
    let config = DriveConfig { scale: SCALE, workers: 2, mix: Mix::Standard, duration, seed: 3, begin, purge };
    let asked = AtomicU32::new(0);
    let report = drive_while(&engine, &tables, &config, &|| asked.fetch_add(1, Relaxed) < 4).unwrap();
    assert!(0 < report.committed());
    assert_eq!(check_while(&engine.snapshot(), &tables, &mut || false), None);
    assert_eq!(check_while(&engine.snapshot(), &tables, &mut || true), Some(Ok(())));
}

/// Goal: the order with an unused item leaves no trace, and does not count as committed. Method: the digest of all rows.
pub fn a_rolled_back_order_leaves_nothing() {
    let (engine, tables) = loaded(1);
    let before = digest(&engine.snapshot(), &tables);
    let line = |item| NewOrderLine { item, supply_warehouse: 1, quantity: 3 };
    let order = |last| NewOrderInput::new(1, 2, 3, 4, &[line(7), line(8), line(9), line(10), line(last)]);
    let outcome = |input| attempt_new_order(&engine, Class::High, &tables, &input).unwrap();
    assert_eq!(outcome(order(SCALE.items + 1)), ProcedureOutcome::RolledBack);
    assert_eq!(digest(&engine.snapshot(), &tables), before);
    // One item may stand in two lines of an order: the second takes from what the first left.
    assert_eq!(outcome(order(7)), ProcedureOutcome::Committed);
    assert_ne!(digest(&engine.snapshot(), &tables), before);
    assert_eq!(check(&engine.snapshot(), &tables), Ok(()));
}

/// Goal: a conflict ends the transaction after the retries asked for, and without a conflict there are none. Method:
/// another transaction of the same class holds the district's row, and then gives it back.
pub fn retries_are_bounded_and_counted() {
    let (engine, tables) = loaded(1);
    let line = NewOrderLine { item: 7, supply_warehouse: 1, quantity: 3 };
    let input = NewOrderInput::new(1, 2, 3, 4, &[line]);
    let holder = engine.begin(Begin::new(Class::Normal));
    new_order(&holder, &tables, &input).unwrap();
    let attempts = || engine.stats().conflicts;
    let before = attempts();
    let error = run_new_order(&engine, &tables, Class::Normal, &input, 3).unwrap_err();
    assert!(error.is_retryable());
    assert_eq!(attempts() - before, 4);
    drop(holder);
    let ended = run_new_order(&engine, &tables, Class::Normal, &input, 3).unwrap();
    assert_eq!(ended, (ProcedureOutcome::Committed, 0));
    assert_eq!(check(&engine.snapshot(), &tables), Ok(()));
}

fn rows(engine: &engine::Engine, table: &std::sync::Arc<engine::Table>) -> u64 {
    let scan = engine.snapshot().scan(table, &[0], 1_024);
    scan.split(1).into_iter().flatten().map(|batch| batch.num_rows() as u64).sum()
}
