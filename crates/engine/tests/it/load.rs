//! Bulk loads beside sessions that want the same keys.

use crate::scans::{accounts, ids_and_sum, scan};
use crate::sessions::*;
use crate::support::*;
use engine::{Begin, Error, Isolation, LockConfig, TableDef, TableLock, Wait};
use preempt::os;
use stage::Class;
use std::time::Duration;

/// Goal: a transaction that wants a key that a load has inserted waits for the load's end, and is woken by it, whatever
/// the end is.
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

/// Rows of a table that nobody else knows yet are there for every snapshot, whenever it was taken: of a transaction at any
/// level, and registered. They take writes like others, and the SERIALIZABLE transaction that made them may commit.
pub fn an_unseen_load_was_always_there() {
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        let (engine, old_table) = bank_of(3);
        let old = engine.snapshot();
        let mut session = session(&engine);
        session.begin(Begin::new(Class::Normal).isolation(isolation)).unwrap();
        done(&mut session, |txn| pay(txn, &old_table, 0, 1));
        engine.run(COMMITTED, |txn| pay(txn, &old_table, 1, 1)).0.unwrap();
        let table = engine.create_table(TableDef { name: "new".to_owned(), ..definition(&old_table) }).unwrap();
        // Whoever makes it may have locked it.
        done(&mut session, |txn| txn.lock_table(&table, TableLock::AccessExclusive, Wait::Block));
        assert_eq!(engine.load_unseen(&table, [accounts(0..5_000), accounts(5_000..5_010)]).unwrap(), 5_010);
        assert_eq!(done(&mut session, |txn| Ok(balance(txn, &table, 5_009))), Some(100));
        let mut count = 0;
        done(&mut session, |txn| txn.scan(&table, &[], |_| count += 1));
        assert_eq!(count, 5_010);
        done(&mut session, |txn| pay(txn, &table, 7, 1));
        done(&mut session, |txn| txn.delete(&table, row_of(txn, &table, 8).unwrap()));
        assert_eq!(done(&mut session, |txn| Ok(balance(txn, &table, 7))), Some(101));
        assert_eq!(ids_and_sum(&scan(&old, &table, &[ID, BALANCE], 2)).0.len(), 5_010);
        assert_eq!(ids_and_sum(&scan(&old, &table, &[ID, BALANCE], 2)).1, 501_000);
        session.commit().unwrap();
        assert_eq!((balance_now(&engine, &table, 7), balance_now(&engine, &table, 8)), (Some(101), None));
        assert_eq!(ids_and_sum(&scan(&old, &table, &[ID, BALANCE], 2)).1, 501_000);
        drop(old);
        assert_eq!(engine.stats().rows, 3 + 5_009);
        // They are worn and made anew like others.
        crate::freeze::freeze_all(&engine);
        assert_eq!(ids_and_sum(&scan(&engine.snapshot(), &table, &[ID, BALANCE], 2)).1, 500_901);
    }
}

/// Goal: an unseen load that fails, by a key that is there twice or by a panic of its batches' source, leaves nothing.
pub fn a_failed_unseen_load_leaves_nothing() {
    let (engine, table) = bank();
    let error = engine.load_unseen(&table, [accounts(0..10), accounts(9..20)]).unwrap_err();
    assert!(matches!(error, Error::UniqueViolation { .. }), "{error}");
    let panics = std::panic::AssertUnwindSafe(|| {
        engine.load_unseen(&table, [0, 1].map(|at| accounts(at..at + 1)).into_iter().inspect(|_| panic!("no more")))
    });
    assert!(std::panic::catch_unwind(panics).is_err());
    assert_eq!((engine.stats().rows, engine.stats().index_entries), (0, 0));
    assert!(scan(&engine.snapshot(), &table, &[ID], 1).is_empty());
    assert_eq!(engine.load_unseen(&table, [accounts(0..10)]).unwrap(), 10);
    assert_eq!(ids_and_sum(&scan(&engine.snapshot(), &table, &[ID, BALANCE], 1)).0, (0..10).collect::<Vec<_>>());
}
