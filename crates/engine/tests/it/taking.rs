//! An urgent transaction meets rows that the paused transaction below it holds.

use crate::support::*;
use engine::{Engine, Error, Table};
use preempt::{Arrival, Registration, Serve, Worker};
use std::sync::Arc;

struct Nothing;

impl Serve for Nothing {
    fn serve(&self, _worker: &'static Worker, _arrival: Arrival) {}
}

/// Makes this thread a worker, if the storm has not done so already.
fn worker() -> Option<Registration> {
    Worker::current().is_none().then(|| preempt::register("taking", Arc::new(Nothing)).unwrap())
}

/// Runs `f` as an urgent context above this one.
fn urgently(mut f: impl FnMut()) {
    preempt::enter_urgent(&mut || f());
}

/// A paused holder of every kind of change loses its row to a more important transaction, learns of it at its next call,
/// undoes only what still is its own, and succeeds when it runs again.
pub fn a_paused_less_important_holder_loses_its_rows() {
    let _worker = worker();
    let (engine, table) = bank_of(4);
    let victim = engine.begin(LOW);
    pay(&victim, &table, 0, 1).unwrap();
    pay(&victim, &table, 0, 1).unwrap();
    let row = row_of(&victim, &table, 1).unwrap();
    victim.delete(&table, row).unwrap();
    open(&victim, &table, 77, 5, "victim").unwrap();
    pay(&victim, &table, 3, 1).unwrap();
    urgently(|| {
        let taker = engine.begin(HIGH);
        assert_eq!(balance(&taker, &table, 0), Some(100));
        pay(&taker, &table, 0, 10).unwrap();
        pay(&taker, &table, 1, 20).unwrap();
        open(&taker, &table, 77, 6, "taker").unwrap();
        taker.commit().unwrap();
    });
    assert_eq!(victim.get_row(&table, row).err(), Some(Error::Taken));
    assert_eq!(pay_row(&victim, &table, row), Err(Error::Taken));
    assert_eq!(victim.commit().err(), Some(Error::Taken));
    assert_eq!(balance_now(&engine, &table, 0), Some(110));
    assert_eq!(balance_now(&engine, &table, 1), Some(120));
    assert_eq!(balance_now(&engine, &table, 77), Some(6));
    assert_eq!(balance_now(&engine, &table, 3), Some(100));
    let (again, _) = engine.run(LOW, |txn| (0..4).try_for_each(|id| pay(txn, &table, id, 1)));
    again.unwrap();
    assert_eq!(balance_now(&engine, &table, 0), Some(111));
    assert_eq!(balance_now(&engine, &table, 3), Some(101));
    assert_eq!(engine.stats().taken, 1);
    let txn = engine.begin(NORMAL);
    assert_eq!(ids_of(&txn, &table, "victim"), Vec::<i32>::new());
    assert_eq!(ids_of(&txn, &table, "taker"), [77]);
}

fn pay_row(txn: &engine::Txn<'_>, table: &Table, row: engine::RowId) -> engine::Result<()> {
    txn.update(table, row, |row| row.set_decimal_i64(BALANCE, 0))
}

/// Neither an equal nor a less important transaction takes a row, and nobody takes one from a holder that is decided.
pub fn only_the_more_important_take() {
    let _worker = worker();
    let (engine, table) = bank_of(2);
    let holder = engine.begin(NORMAL);
    pay(&holder, &table, 0, 1).unwrap();
    urgently(|| {
        for begin in [NORMAL, LOW] {
            let other = engine.begin(begin);
            assert!(matches!(pay(&other, &table, 0, 1), Err(Error::WriteConflict { .. })));
            assert!(matches!(open(&other, &table, 1, 1, "x"), Err(Error::UniqueViolation { .. })));
        }
    });
    holder.commit().unwrap();
    assert_eq!(balance_now(&engine, &table, 0), Some(101));
    assert_eq!(engine.stats().taken, 0);
}

/// A taker that aborts leaves the row as it was before the victim, whichever of the two undoes first.
pub fn an_aborted_taker_leaves_the_committed_row() {
    let _worker = worker();
    for victim_ends_first in [false, true] {
        let (engine, table) = bank_of(1);
        let victim = engine.begin(LOW);
        pay(&victim, &table, 0, 1).unwrap();
        let mut taker = None;
        urgently(|| {
            let txn = engine.begin(HIGH);
            pay(&txn, &table, 0, 10).unwrap();
            taker = Some(txn);
        });
        if victim_ends_first {
            drop(victim);
            drop(taker);
        } else {
            drop(taker);
            drop(victim);
        }
        assert_eq!(balance_now(&engine, &table, 0), Some(100));
        let (again, retries) = engine.run(NORMAL, |txn| pay(txn, &table, 0, 5));
        again.unwrap();
        assert_eq!(retries, 0);
        assert_eq!(balance_now(&engine, &table, 0), Some(105));
        engine.collect_garbage(usize::MAX);
        assert_eq!(engine.stats().versions, 1);
    }
}

/// The victim is run again by [`Engine::run`], which counts it.
pub fn a_victim_is_run_again() {
    let _worker = worker();
    let (engine, table) = bank_of(1);
    let mut attempts = 0;
    let (result, retries) = engine.run(LOW, |txn| {
        attempts += 1;
        pay(txn, &table, 0, 1)?;
        if attempts == 1 {
            urgently(|| pay_now(&engine, &table));
        }
        Ok(())
    });
    result.unwrap();
    assert_eq!((attempts, retries), (2, 1));
    assert_eq!(balance_now(&engine, &table, 0), Some(111));
    let stats = engine.stats();
    assert_eq!((stats.taken, stats.retries), (1, 1));
}

fn pay_now(engine: &Engine, table: &Table) {
    let (result, retries) = engine.run(HIGH, |txn| pay(txn, table, 0, 10));
    result.unwrap();
    assert_eq!(retries, 0);
}
