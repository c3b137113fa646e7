//! What a panic in a statement's closure leaves, when the caller catches it and keeps the session.

use crate::sessions::*;
use crate::support::*;
use engine::{Begin, Error, Session, Txn};
use stage::Class;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn panics(session: &mut Session, statement: impl Fn(&Txn<'_>)) {
    let result = catch_unwind(AssertUnwindSafe(|| {
        session.try_execute(|txn| {
            statement(txn);
            Ok(())
        })
    }));
    assert!(result.is_err());
}

/// The statement takes its transaction with it: what comes after it is not a new transaction, and the commit says so.
pub fn a_statement_that_panics_fails_its_transaction() {
    let (engine, table) = bank_of(2);
    let mut session = open_session(&engine, Class::Normal);
    done(&mut session, add(&table, 0, 1));
    let savepoint = session.savepoint().unwrap();
    panics(&mut session, |txn| {
        pay(txn, &table, 1, 1).unwrap();
        panic!("of the test");
    });
    assert_eq!(failed(&mut session, add(&table, 1, 1)), Error::InFailedTransaction);
    assert_eq!(session.rollback_to(&savepoint), Err(Error::NoSuchSavepoint));
    assert_eq!(session.commit(), Err(Error::InFailedTransaction));
    assert_eq!([0, 1].map(|id| balance_now(&engine, &table, id)), [Some(100); 2]);
    session.begin(COMMITTED).unwrap();
    done(&mut session, add(&table, 0, 1));
    session.commit().unwrap();
}

/// Who unwraps the error that says to wait panics with a place in the queue: it goes to who is next.
pub fn a_panic_leaves_no_place() {
    let (engine, table) = bank_of(1);
    let mut holder = open_session(&engine, Class::Normal);
    done(&mut holder, add(&table, 0, 1));
    let mut session = open_session(&engine, Class::Normal);
    panics(&mut session, |txn| pay(txn, &table, 0, 1).unwrap());
    let mut procedure = crate::sessions::session(&engine);
    let result = catch_unwind(AssertUnwindSafe(|| {
        procedure.try_run(Begin::new(Class::Normal), |txn| {
            pay(txn, &table, 0, 1).unwrap();
            Ok(())
        })
    }));
    assert!(result.is_err());
    assert_eq!(engine.lock_stats().waiting, 0);
    let mut next = open_session(&engine, Class::Normal);
    let ticket = parked(&mut next, add(&table, 0, 1));
    holder.commit().unwrap();
    assert!(ticket.is_ready());
    done(&mut next, add(&table, 0, 1));
}
