//! Readers that say so, and who locks a table against them.

use crate::sessions::*;
use crate::support::*;
use engine::{Engine, Error, Session, Table, TableDef, TableLock, Txn, Wait};
use stage::Class;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

fn share(table: &Table) -> impl Fn(&Txn<'_>) -> engine::Result<()> {
    |txn| txn.share_table(table)
}

fn lock_all(table: &Table, wait: Wait) -> impl Fn(&Txn<'_>) -> engine::Result<()> {
    move |txn| txn.lock_table(table, TableLock::AccessExclusive, wait)
}

/// Goal: a transaction that locks the table waits for those that read it, and readers that come meanwhile wait behind:
/// as in PostgreSQL.
pub fn readers_and_access_exclusive_exclude_each_other() {
    let (engine, table) = bank_of(3);
    let open_one = || open_session(&engine, Class::Normal);
    let [mut first, mut second, mut locker, mut late] = [open_one(), open_one(), open_one(), open_one()];
    done(&mut first, share(&table));
    done(&mut first, share(&table));
    done(&mut second, share(&table));
    assert_eq!(engine.lock_stats().entries, 0, "a share is not in the lock table");
    let mut hasty = open_one();
    assert!(matches!(failed(&mut hasty, lock_all(&table, Wait::NoWait)), Error::LockNotAvailable(_)));
    hasty.rollback();
    let ticket = parked(&mut locker, lock_all(&table, Wait::Block));
    let late_ticket = parked(&mut late, share(&table));
    // Who reads it already goes on, and may read on.
    done(&mut first, share(&table));
    first.commit().unwrap();
    assert!(!ticket.is_ready());
    second.rollback();
    assert!(ticket.is_ready() && !late_ticket.is_ready());
    done(&mut locker, lock_all(&table, Wait::Block));
    // It may read the table itself; others may not, and who cannot wait is told.
    done(&mut locker, share(&table));
    assert!(matches!(engine.begin(COMMITTED).share_table(&table), Err(Error::WriteConflict { .. })));
    assert!(!late_ticket.is_ready());
    locker.commit().unwrap();
    assert!(late_ticket.is_ready());
    done(&mut late, share(&table));
    done(&mut late, |txn| Ok(balance(txn, &table, 1)));
    late.commit().unwrap();
    assert!(engine.locks().is_empty());
    // Two who read and then want it alone wait for each other: one is the victim.
    let [mut first, mut second] = [open_one(), open_one()];
    done(&mut first, share(&table));
    done(&mut second, share(&table));
    let ticket = parked(&mut first, lock_all(&table, Wait::Block));
    assert!(matches!(failed(&mut second, lock_all(&table, Wait::Block)), Error::Deadlock(_)));
    assert!(ticket.is_ready());
    done(&mut first, lock_all(&table, Wait::Block));
}

/// Goal: every other mode lets readers pass, and readers them.
pub fn only_access_exclusive_minds_readers() {
    let (engine, table) = bank_of(3);
    for mode in TableLock::ALL.into_iter().filter(|mode| *mode != TableLock::AccessExclusive) {
        let [mut reader, mut locker, mut late] = [(); 3].map(|()| open_session(&engine, Class::Normal));
        done(&mut reader, share(&table));
        done(&mut locker, |txn| txn.lock_table(&table, mode, Wait::Block));
        done(&mut late, share(&table));
        done(&mut reader, share(&table));
    }
    // A reader that writes too is one transaction.
    let [mut reader, mut locker] = [(); 2].map(|()| open_session(&engine, Class::Normal));
    done(&mut reader, |txn| pay(txn, &table, 1, 1));
    let ticket = parked(&mut locker, lock_all(&table, Wait::Block));
    done(&mut reader, share(&table));
    reader.commit().unwrap();
    assert!(ticket.is_ready());
}

/// A rollback to a savepoint gives up what was read since, a failed statement what it read, and a statement that must wait
/// too; what was read before stays.
pub fn a_share_is_given_up_as_a_lock_is() {
    let (engine, table) = bank_of(3);
    let like = definition(&table);
    let other = engine.create_table(TableDef { name: "other".to_owned(), ..like }).unwrap();
    let may_lock = |table: &Table| {
        let mut locker = open_session(&engine, Class::Normal);
        locker.execute(lock_all(table, Wait::NoWait)).is_ok()
    };
    let mut reader = open_session(&engine, Class::Normal);
    done(&mut reader, share(&table));
    let savepoint = reader.savepoint().unwrap();
    done(&mut reader, share(&other));
    assert!(!may_lock(&table) && !may_lock(&other));
    reader.rollback_to(&savepoint).unwrap();
    assert!(!may_lock(&table) && may_lock(&other));
    done(&mut reader, share(&other));
    assert!(!may_lock(&other));
    // Who waits for it is woken by the rollback.
    let mut locker = open_session(&engine, Class::Normal);
    let ticket = parked(&mut locker, lock_all(&other, Wait::Block));
    reader.rollback_to(&savepoint).unwrap();
    assert!(ticket.is_ready());
    done(&mut locker, lock_all(&other, Wait::Block));
    // A statement that has read one table and waits for another has read none while it waits.
    let mut both = open_session(&engine, Class::Normal);
    let ticket = parked(&mut both, |txn| {
        txn.share_table(&table)?;
        txn.share_table(&other)
    });
    reader.commit().unwrap();
    assert!(may_lock(&table));
    locker.rollback();
    assert!(ticket.is_ready());
}

/// Goal: a transaction that keeps many tables to its end is in the way of those that want these, and of no other.
pub fn a_reader_of_many_tables_is_in_nobodys_way() {
    let (engine, bank) = bank_of(1);
    let create = |number: usize| TableDef { name: format!("t{number}"), indexes: vec![], ..definition(&bank) };
    let tables: Vec<_> = (0..200).map(|number| engine.create_table(create(number)).unwrap()).collect();
    let keeps = |reader: &mut Session, at: usize| done(reader, |txn| txn.try_share_table(&tables[at]));
    let locks_it = |at: usize| {
        let mut locker = open_session(&engine, Class::Normal);
        locker.execute(lock_all(&tables[at], Wait::NoWait)).is_ok()
    };
    let mut locker = open_session(&engine, Class::Normal);
    done(&mut locker, lock_all(&tables[199], Wait::NoWait));
    let mut reader = open_session(&engine, Class::Normal);
    assert!((0..20).all(|at| keeps(&mut reader, at)));
    let savepoint = reader.savepoint().unwrap();
    assert!((15..30).all(|at| keeps(&mut reader, at)));
    assert!(!keeps(&mut reader, 199), "it is locked against readers");
    for at in 0..199 {
        assert_eq!(locks_it(at), 30 <= at, "table {at}");
    }
    reader.rollback_to(&savepoint).unwrap();
    assert!((0..199).all(|at| locks_it(at) == (20 <= at)));
    reader.commit().unwrap();
    assert!((0..199).all(locks_it));
    locker.rollback();
    assert!(engine.locks().is_empty());
}

/// Numbers that have a bit in common do not make readers of one table stand in the way of another.
pub fn readers_of_other_tables_are_in_nobodys_way() {
    let (engine, bank) = bank_of(1);
    let create = |number: usize| TableDef { name: format!("t{number}"), indexes: vec![], ..definition(&bank) };
    let tables: Vec<_> = (0..600).map(|number| engine.create_table(create(number)).unwrap()).collect();
    let mut reader = open_session(&engine, Class::Normal);
    let read: Vec<usize> = (0..8).map(|at| 1 + 64 * at).collect();
    read.iter().for_each(|at| done(&mut reader, share(&tables[*at])));
    let locks_it = |at: usize| {
        let mut locker = open_session(&engine, Class::Normal);
        locker.execute(lock_all(&tables[at], Wait::NoWait)).is_ok()
    };
    for at in 0..600 {
        assert_eq!(locks_it(at), !read.contains(&at), "table {at}");
    }
    // More than that are found too.
    for table in &tables[20..40] {
        done(&mut reader, share(table));
        let mut locker = open_session(&engine, Class::Normal);
        assert!(locker.execute(lock_all(table, Wait::NoWait)).is_err());
    }
    reader.commit().unwrap();
    assert!((0..600).all(locks_it));
}

/// Readers and lockers race: whoever has the table alone is alone.
pub fn nobody_reads_under_access_exclusive() {
    let (engine, table) = bank_of(3);
    let inside = AtomicI64::new(0);
    std::thread::scope(|scope| {
        for worker in 0..4_u64 {
            let (engine, table, inside): (&Engine, &Arc<Table>, _) = (&engine, &table, &inside);
            scope.spawn(move || {
                let mut random = Random(worker);
                let mut session = session(engine);
                for _ in 0..300 {
                    session.begin(COMMITTED).unwrap();
                    let is_locker = worker == 0 || random.below(10) == 0;
                    let statement = |txn: &Txn<'_>| match is_locker {
                        true => txn.lock_table(table, TableLock::AccessExclusive, Wait::Block),
                        false => txn.share_table(table),
                    };
                    session.execute(statement).unwrap();
                    let amount = if is_locker { -1_000_000 } else { 1 };
                    let before = inside.fetch_add(amount, SeqCst);
                    assert!(if is_locker { before == 0 } else { 0 <= before }, "{before}");
                    if random.below(4) == 0 {
                        std::thread::yield_now();
                    }
                    inside.fetch_sub(amount, SeqCst);
                    if random.below(2) == 0 { session.commit().map(|_| ()).unwrap() } else { session.rollback() }
                }
            });
        }
    });
    assert!(engine.locks().is_empty());
}
