//! Bulk loads beside sessions that want the same keys.

use crate::scans::{accounts, ids_and_sum, scan};
use crate::sessions::*;
use crate::support::*;
use engine::{Error, LockConfig, TableLock, Wait};
use preempt::os;
use stage::Class;
use std::time::Duration;

/// Who wants a key that a load has inserted waits for the load's end, and is woken by it, whatever the end is.
pub fn the_end_of_a_load_wakes_who_waits() {
    for fails in [false, true] {
        let (engine, table) = bank();
        let mut session = open_session(&engine, Class::Normal);
        let mut ticket = None;
        let batches = (0..2).map(|at| {
            if at == 1 {
                ticket = Some(parked(&mut session, |txn| open(txn, &table, 7, 1, "x")));
            }
            // The second time the same keys, or others.
            let first = if fails { 0 } else { 10 * at };
            accounts(first..first + 10)
        });
        assert_eq!(engine.bulk_load(&table, batches).is_err(), fails);
        assert!(ticket.unwrap().is_ready(), "nobody was woken");
        let opened = session.try_execute(|txn| open(txn, &table, 7, 1, "x"));
        assert_eq!(opened.is_ok(), fails);
    }
}

/// A load that gave way to a more important transaction says so, and leaves nothing.
pub fn a_load_that_was_taken_says_so() {
    let (engine, table) = bank();
    engine.set_lock_config(LockConfig { patience: Duration::from_millis(1), ..LockConfig::default() });
    let mut high = open_session(&engine, Class::High);
    for taken_at in [1, 2] {
        // In the middle of the load, and with its last batch.
        let first = 100 * taken_at;
        let key = first + 7;
        let batches = (0..3).map(|at| {
            if at == taken_at {
                let ticket = parked(&mut high, |txn| open(txn, &table, key, 1, "x"));
                let next_ns = engine.expire_waits(os::now_ns()).expect("somebody waits");
                engine.expire_waits(next_ns + 2_000_000);
                assert!(ticket.is_ready());
                done(&mut high, |txn| open(txn, &table, key, 1, "x"));
            }
            accounts(first + 10 * at..first + 10 * at + 10)
        });
        assert_eq!(engine.bulk_load(&table, batches), Err(Error::Taken));
    }
    high.commit().unwrap();
    assert_eq!(engine.stats().index_entries, 4);
    assert_eq!(ids_and_sum(&scan(&engine.snapshot(), &table, &[ID, BALANCE], 1)), (vec![107, 207], 2));
}

/// A load writes to its table: a lock against writers refuses it, and waits for its end.
pub fn a_load_and_a_table_lock_exclude_each_other() {
    let (engine, table) = bank();
    let mut session = open_session(&engine, Class::Normal);
    done(&mut session, |txn| txn.lock_table(&table, TableLock::Share, Wait::Block));
    assert!(matches!(engine.bulk_load(&table, [accounts(0..10)]), Err(Error::WriteConflict { .. })));
    session.commit().unwrap();
    session.begin(COMMITTED).unwrap();
    let mut ticket = None;
    let batches = (0..2).map(|at| {
        if at == 1 {
            ticket = Some(parked(&mut session, |txn| txn.lock_table(&table, TableLock::Share, Wait::Block)));
        }
        accounts(10 * at..10 * at + 10)
    });
    assert_eq!(engine.bulk_load(&table, batches), Ok(20));
    assert!(ticket.unwrap().is_ready(), "nobody was woken");
    done(&mut session, |txn| txn.lock_table(&table, TableLock::Share, Wait::Block));
}
