//! Snapshots of open transactions: what a scan by another thread sees of them.

use crate::freeze::freeze_all;
use crate::scans::{accounts, scan};
use crate::sessions::*;
use crate::support::*;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int32Type};
use engine::{
    Begin, Comparison, Condition, Direction, Engine, Error, Isolation, RowId, Snapshot, Table, TableLock, Txn, Value,
    Wait,
};
use stage::Class;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

const LEVELS: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable];

/// Accounts and their balances, in order, by a scan in some parts.
fn scanned(snapshot: &Arc<Snapshot>, table: &Arc<Table>) -> Vec<(i32, i64)> {
    let mut all = Vec::new();
    for batch in scan(snapshot, table, &[ID, BALANCE], 3) {
        let ids = batch.column(0).as_primitive::<Int32Type>().values();
        let balances = batch.column(1).as_primitive::<Decimal128Type>().values();
        all.extend(ids.iter().copied().zip(balances.iter().map(|balance| *balance as i64)));
    }
    all.sort_unstable();
    all
}

/// Reads the accounts and their balances by the transaction itself.
fn read(txn: &Txn<'_>, table: &Table) -> engine::Result<Vec<(i32, i64)>> {
    let mut all = Vec::new();
    txn.scan(table, &[], |row| all.push((row.get_i32(ID), row.get_decimal_i64(BALANCE))))?;
    all.sort_unstable();
    Ok(all)
}

fn drop_account(txn: &Txn<'_>, table: &Table, id: i32) -> engine::Result<()> {
    txn.delete(table, row_of(txn, table, id).expect("the account exists"))
}

/// 10,000 accounts of 100 each: some in blocks of a load, some frozen, the last hot.
fn mixed_bank() -> (Engine, Arc<Table>) {
    let (engine, table) = bank_of(6_000);
    engine.bulk_load(&table, [accounts(6_000..10_000)]).unwrap();
    assert!(0 < freeze_all(&engine).rows);
    (engine, table)
}

/// Goal: the snapshot has the transaction's inserts, updates and deletes of hot and frozen rows, not its later ones nor
/// those it has taken back, and of others the state committed when the transaction (or, at READ COMMITTED, the
/// statement) began.
pub fn a_transaction_scans_what_it_sees() {
    for isolation in LEVELS {
        let (engine, table) = mixed_bank();
        let other = |f: &dyn Fn(&Txn<'_>) -> engine::Result<()>| engine.run(COMMITTED, |txn| f(txn)).0.unwrap();
        let mut session = session(&engine);
        session.begin(Begin::new(Class::Normal).isolation(isolation)).unwrap();
        // It begins with this.
        let first = session.snapshot().unwrap();
        assert_eq!(scanned(&first, &table).len(), 10_000);
        other(&|txn| pay(txn, &table, 1, 11));
        other(&|txn| pay(txn, &table, 7_001, 11));
        other(&|txn| drop_account(txn, &table, 2));
        other(&|txn| open(txn, &table, 30_000, 5, "other").map(drop));
        engine.collect_garbage(usize::MAX);
        // Of hot, frozen and loaded rows.
        for id in [5_999, 10, 7_010] {
            done(&mut session, |txn| pay(txn, &table, id, 1));
            done(&mut session, |txn| drop_account(txn, &table, id + 1 - 2 * i32::from(id == 5_999)));
        }
        done(&mut session, |txn| open(txn, &table, 20_000, 7, "own").map(drop));
        done(&mut session, |txn| open(txn, &table, 20_001, 7, "own, deleted").map(drop));
        done(&mut session, |txn| drop_account(txn, &table, 20_001));
        let savepoint = session.savepoint().unwrap();
        done(&mut session, |txn| pay(txn, &table, 3, 1_000));
        done(&mut session, |txn| pay(txn, &table, 10, 1_000));
        done(&mut session, |txn| drop_account(txn, &table, 20_000));
        done(&mut session, |txn| open(txn, &table, 20_002, 7, "taken back").map(drop));
        session.rollback_to(&savepoint).unwrap();
        other(&|txn| pay(txn, &table, 4, 11));
        engine.collect_garbage(usize::MAX);

        let snapshot = session.snapshot().unwrap();
        let at_first = isolation != Isolation::ReadCommitted;
        assert_eq!(first.number() == snapshot.number(), at_first, "{isolation:?}");
        let mut expected: Vec<(i32, i64)> = (0..10_000).map(|id| (id, 100)).collect();
        expected.retain(|(id, _)| ![5_998, 11, 7_011].contains(id) && (at_first || *id != 2));
        for (id, balance) in &mut expected {
            *balance += i64::from([5_999, 10, 7_010].contains(id));
            *balance += if at_first { 0 } else { 11 * i64::from([1, 4, 7_001].contains(id)) };
        }
        expected.push((20_000, 7));
        expected.extend((!at_first).then_some((30_000, 5)));
        assert_eq!(scanned(&snapshot, &table), expected, "{isolation:?}");
        assert_eq!(done(&mut session, |txn| read(txn, &table)), expected);
        // What comes later, its own too, it does not see.
        done(&mut session, |txn| pay(txn, &table, 10, 5));
        done(&mut session, |txn| drop_account(txn, &table, 20_000));
        done(&mut session, |txn| open(txn, &table, 20_003, 7, "later").map(drop));
        other(&|txn| pay(txn, &table, 5, 11));
        freeze_all(&engine);
        engine.collect_garbage(usize::MAX);
        assert_eq!(scanned(&snapshot, &table), expected, "{isolation:?}");
        assert!(snapshot.is_intact() && first.is_intact());
        // The first saw nothing of the transaction's own.
        assert_eq!(scanned(&first, &table), (0..10_000).map(|id| (id, 100)).collect::<Vec<_>>());
        session.rollback();
        assert!(!snapshot.is_intact() && !first.is_intact());
    }
}

/// Within one statement it sees what the statement sees.
pub fn a_statement_scans_what_it_has_done() {
    let (engine, table) = bank_of(10);
    let mut session = session(&engine);
    session.begin(COMMITTED).unwrap();
    done(&mut session, |txn| {
        pay(txn, &table, 0, 1)?;
        let snapshot = txn.snapshot()?;
        pay(txn, &table, 1, 1)?;
        assert_eq!(scanned(&snapshot, &table)[..3], [(0, 101), (1, 100), (2, 100)]);
        assert_eq!(scanned(&txn.snapshot()?, &table)[..3], [(0, 101), (1, 101), (2, 100)]);
        assert_eq!(snapshot.number(), txn.snapshot_number());
        Ok(())
    });
    session.commit().unwrap();
    assert!(matches!(session.snapshot(), Err(Error::TransactionState(_))));
}

/// Goal: a transaction that reads by an older snapshot sees its state by scans, look-ups and ranges, whatever is committed,
/// frozen and collected meanwhile; it holds back what the snapshot does, and nothing else; and it cannot write. Method: other
/// transactions change all rows repeatedly between its calls.
pub fn a_transaction_reads_by_a_snapshot() {
    let (engine, table) = mixed_bank();
    let mut session = session(&engine);
    session.begin(COMMITTED).unwrap();
    let snapshot = session.snapshot().unwrap();
    let change = || {
        for round in 1..=3 {
            let (changed, _) = engine.run(COMMITTED, |txn| {
                (0..10_000).filter(|id| round == 1 || id % 2 == 1).try_for_each(|id| pay(txn, &table, id, round))?;
                open(txn, &table, 20_000 + round as i32, 7, "later").map(drop)
            });
            changed.unwrap();
        }
        let (dropped, _) = engine.run(COMMITTED, |txn| {
            (0..10_000).filter(|id| id % 2 == 0).try_for_each(|id| drop_account(txn, &table, id))?;
            (20_001..=20_003).try_for_each(|id| drop_account(txn, &table, id))
        });
        dropped.unwrap();
        freeze_all(&engine);
        engine.collect_garbage(usize::MAX);
    };
    let expected: Vec<(i32, i64)> = (0..10_000).map(|id| (id, 100)).collect();
    // The first change comes before the transaction begins.
    change();
    session.commit().unwrap();
    let ids = snapshot.read(Class::Normal, session.number(), |txn| {
        assert_eq!(txn.snapshot_number(), snapshot.number());
        assert_eq!(engine.transactions()[0].session.as_deref(), Some(&*session.options().name));
        assert_eq!(read(txn, &table)?, expected);
        assert_eq!(balance(txn, &table, 4), Some(100));
        assert!(matches!(open(txn, &table, 30_000, 1, "refused"), Err(Error::ReadOnly)));
        let kept = engine.run(COMMITTED, |txn| (1..10_000).step_by(2).try_for_each(|id| pay(txn, &table, id, 1)));
        kept.0.unwrap();
        let before = engine.stats().versions_dead;
        for _ in 0..3 {
            let odd = engine.run(COMMITTED, |txn| (1..10_000).step_by(2).try_for_each(|id| pay(txn, &table, id, 1)));
            odd.0.unwrap();
            engine.collect_garbage(usize::MAX);
        }
        assert!(engine.stats().versions_dead <= before + 10_000, "it holds back no version that it does not see");
        let mut ids = Vec::new();
        for row in txn.range(&table, BY_ID, &[], Direction::Forward)? {
            ids.push(row.get_i32(ID));
            if ids.len() == 5_000 {
                freeze_all(&engine);
                engine.collect_garbage(usize::MAX);
            }
        }
        assert_eq!(read(txn, &table)?, expected);
        Ok::<_, Error>(ids)
    });
    assert_eq!(ids.unwrap().unwrap(), (0..10_000).collect::<Vec<_>>());
    drop(snapshot);
    engine.collect_garbage(usize::MAX);
    engine.collect_garbage(usize::MAX);
    assert!(engine.transactions().is_empty() && engine.snapshots().is_empty());
}

/// Goal: a transaction that has locked a table against writers gets all of its rows, those committed after its own
/// snapshot too, by a scan and one by one; and its own changes.
pub fn the_newest_snapshot_misses_nothing() {
    for isolation in LEVELS {
        let (engine, table) = bank_of(10);
        let mut session = session(&engine);
        session.begin(Begin::new(Class::Normal).isolation(isolation)).unwrap();
        done(&mut session, |txn| read(txn, &table).map(drop));
        let (paid, _) = engine.run(COMMITTED, |txn| {
            pay(txn, &table, 1, 5)?;
            drop_account(txn, &table, 2)
        });
        paid.unwrap();
        done(&mut session, |txn| {
            txn.lock_table(&table, TableLock::AccessExclusive, Wait::Block)?;
            pay(txn, &table, 3, 7)?;
            let newest = txn.newest_snapshot()?;
            let mut expected: Vec<_> = (0..10).map(|id| (id, 100)).collect();
            (expected[1].1, expected[3].1) = (105, 107);
            expected.remove(2);
            assert_eq!(scanned(&newest, &table), expected, "{isolation:?}");
            let one = |row| newest.with_row(&table, RowId(row), |row| (row.get_i32(ID), row.get_decimal_i64(BALANCE)));
            let mut found: Vec<_> = (0..table.rows_bound()).filter_map(one).collect();
            found.sort_unstable();
            assert_eq!(found, expected, "{isolation:?}");
            Ok(())
        });
        session.rollback();
    }
}

/// Goal: rows that a SERIALIZABLE transaction scanned that way are checked like any read: of two that each scan what
/// the other writes, one is refused; conditions keep apart those that do not meet.
pub fn noted_scans_are_checked() {
    const SERIALIZABLE: Begin = Begin::new(Class::Normal).isolation(Isolation::Serializable);
    for (conditions, meets) in
        [(vec![], true), (vec![Condition::compare(ID, Comparison::Equal, Value::Int32(9))], false)]
    {
        let (engine, table) = bank_of(10);
        let mut both = [session(&engine), session(&engine)];
        for (id, session) in both.iter_mut().enumerate() {
            session.begin(SERIALIZABLE).unwrap();
            session.note_scan(&table, &conditions).unwrap();
            let snapshot = session.snapshot().unwrap();
            assert_eq!(scanned(&snapshot, &table).len(), 10);
            drop(snapshot);
            done(session, |txn| pay(txn, &table, id as i32, 1));
        }
        both[0].commit().unwrap();
        assert_eq!(both[1].commit().map(drop), if meets { Err(Error::SerializationFailure) } else { Ok(()) });
    }
}

/// Goal: the transaction may end, one way or another, while others scan: the scans come to their end and their result
/// is thrown away. Every read while the transaction was open is right.
pub fn transactions_end_under_their_scans() {
    const COUNT: i32 = 3_000;
    for isolation in LEVELS {
        let (engine, table) = bank_of(COUNT);
        let stop = AtomicBool::new(false);
        let intact = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(SeqCst) {
                    engine.housekeep(usize::MAX);
                }
            });
            scope.spawn(|| {
                let mut random = Random(7);
                while !stop.load(SeqCst) {
                    // Others keep the sum.
                    let (from, to) = (random.below(COUNT as u64) as i32, random.below(COUNT as u64) as i32);
                    let _ = engine.run(NORMAL, |txn| {
                        pay(txn, &table, from, -1)?;
                        pay(txn, &table, to, 1)
                    });
                }
            });
            let mut random = Random(1);
            let mut session = session(&engine);
            // How many times a scan was over before its transaction, and what was paid in by commits.
            let (mut intact, mut paid) = (0, 0);
            for round in 0..120 {
                session.begin(Begin::new(Class::Normal).isolation(isolation)).unwrap();
                let mut more = 0;
                for _ in 0..20 {
                    let id = random.below(COUNT as u64) as i32;
                    if session.execute(|txn| pay(txn, &table, id, 1)).is_err() {
                        break;
                    }
                    more += 1;
                }
                let Ok(snapshot) = session.snapshot() else {
                    session.rollback();
                    continue;
                };
                let sum = 100 * i64::from(COUNT) + paid + more;
                let scanner = scope.spawn({
                    let (snapshot, table) = (snapshot.clone(), table.clone());
                    move || {
                        let all = scanned(&snapshot, &table);
                        (all, snapshot.is_intact())
                    }
                });
                if round % 4 == 3 {
                    let (all, is_intact) = scanner.join().unwrap();
                    assert!(is_intact);
                    assert_eq!(all.iter().map(|(_, balance)| balance).sum::<i64>(), sum, "{isolation:?}");
                    intact += 1;
                    session.rollback();
                    continue;
                }
                if round % 2 == 0 {
                    session.rollback();
                } else if session.commit().is_ok() {
                    paid += more;
                }
                drop(scanner.join().unwrap());
            }
            stop.store(true, SeqCst);
            intact
        });
        assert!(0 < intact, "{isolation:?}");
    }
}
