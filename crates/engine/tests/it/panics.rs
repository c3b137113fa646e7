//! Panics of closures that the caller gave.

use crate::sessions::*;
use crate::support::*;
use engine::{Error, Result, RowId, Step, Txn};
use stage::Class;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn panics<R>(f: impl FnOnce() -> R) {
    assert!(catch_unwind(AssertUnwindSafe(f)).is_err());
}

/// A closure that panics leaves nothing of its update or delete; the transaction goes on, and may commit.
pub fn a_closure_that_panics_leaves_its_row_alone() {
    let (engine, table) = bank_of(3);
    let txn = engine.begin(NORMAL);
    let row = |id| row_of(&txn, &table, id).unwrap();
    let (first, second) = (row(0), row(1));
    pay(&txn, &table, 2, 1).unwrap();
    panics(|| txn.update(&table, first, |_| panic!("the closure")));
    panics(|| txn.delete_if(&table, second, |_| panic!("the closure")));
    panics(|| txn.update(&table, first, |_| pay(&txn, &table, 1, 10).unwrap()));
    // Writes through the transaction are refused, and the closure's own change stands as it says.
    let refused = |write: Result<()>| assert_eq!(write, Err(Error::WithinChange));
    let update = txn.update_if(&table, first, |_| {
        refused(pay(&txn, &table, 1, 10));
        false
    });
    assert_eq!(update, Ok(false));
    let delete = txn.delete_if(&table, second, |_| {
        refused(open(&txn, &table, 7, 7, "new").map(drop));
        false
    });
    assert_eq!(delete, Ok(false));
    pay(&txn, &table, 1, 5).unwrap();
    txn.commit().unwrap();
    let ids = [0, 1, 2, 7].map(|id| balance_now(&engine, &table, id));
    assert_eq!(ids, [Some(100), Some(105), Some(101), None]);
    engine.collect_garbage(usize::MAX);
    assert_eq!((engine.stats().versions, engine.stats().rows), (3, 3));
}

/// A statement that panics fails its whole transaction: what came before it is not half committed by what comes after.
pub fn a_statement_that_panics_fails_its_transaction() {
    let (engine, table) = bank_of(2);
    let mut session = open_session(&engine, Class::Normal);
    done(&mut session, add(&table, 0, 1));
    let savepoint = session.savepoint().unwrap();
    panics(|| session.execute(|_| -> Result<()> { panic!("the statement") }));
    assert_eq!(failed(&mut session, add(&table, 1, 1)), Error::InFailedTransaction);
    assert_eq!(session.rollback_to(&savepoint), Err(Error::InFailedTransaction));
    assert_eq!(session.commit(), Err(Error::InFailedTransaction));
    assert_eq!([0, 1].map(|id| balance_now(&engine, &table, id)), [Some(100); 2]);
    session.run(NORMAL, |txn| pay(txn, &table, 0, 1)).unwrap();
    assert_eq!(balance_now(&engine, &table, 0), Some(101));
}

/// A statement or procedure that panics when it is submitted again leaves its queue: who is next gets the row.
pub fn a_waiter_that_panics_leaves_its_queue() {
    let (engine, table) = bank_of(1);
    let row = RowId(0);
    let change = |txn: &Txn<'_>| txn.update(&table, row, |row| row.set_decimal_i64(BALANCE, 7));
    for as_procedure in [false, true] {
        let mut holder = open_session(&engine, Class::Normal);
        done(&mut holder, change);
        let mut first = open_session(&engine, Class::Normal);
        let mut second = open_session(&engine, Class::Normal);
        if as_procedure {
            first.rollback();
            assert!(matches!(first.try_run(NORMAL, change), Ok(Step::Parked(_))));
        } else {
            parked(&mut first, change);
        }
        let ticket = parked(&mut second, change);
        holder.rollback();
        assert!(!ticket.is_ready());
        panics(|| {
            if as_procedure {
                first.try_run(NORMAL, |_| -> Result<()> { panic!("the procedure") }).map(drop)
            } else {
                first.try_execute(|_| -> Result<()> { panic!("the statement") }).map(drop)
            }
        });
        assert!(ticket.is_ready());
        done(&mut second, change);
        assert_eq!(engine.lock_stats().waiting, 0);
    }
}

/// Goal: a closure that unwraps the error that tells it to wait panics with a place in the queue: the place goes to the
/// next.
pub fn a_panic_leaves_no_place() {
    let (engine, table) = bank_of(1);
    let mut holder = open_session(&engine, Class::Normal);
    done(&mut holder, add(&table, 0, 1));
    let mut first = open_session(&engine, Class::Normal);
    let unwraps = |txn: &Txn<'_>| -> Result<()> {
        pay(txn, &table, 0, 1).unwrap();
        Ok(())
    };
    panics(|| first.try_execute(unwraps));
    let mut procedure = session(&engine);
    panics(|| procedure.try_run(COMMITTED, unwraps));
    assert_eq!(engine.lock_stats().waiting, 0);
    let mut next = open_session(&engine, Class::Normal);
    let ticket = parked(&mut next, add(&table, 0, 1));
    holder.commit().unwrap();
    assert!(ticket.is_ready());
    done(&mut next, add(&table, 0, 1));
}
