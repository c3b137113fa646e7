//! Writes to frozen rows.

use crate::scans::{accounts, ids_and_sum, scan};
use crate::support::*;
use engine::{Error, Value};

/// A frozen row that is updated, deleted or left alone after all: each snapshot scans and reads what it should, and the
/// rest of the block goes on being scanned.
pub fn frozen_rows_take_writes() {
    let (engine, table) = bank();
    engine.bulk_load(&table, [accounts(0..5_000)]).unwrap();
    let before = engine.snapshot();
    let old = engine.begin(NORMAL);
    let txn = engine.begin(NORMAL);
    pay(&txn, &table, 17, 11).unwrap();
    txn.delete(&table, row_of(&txn, &table, 18).unwrap()).unwrap();
    assert_eq!((balance(&txn, &table, 17), balance(&txn, &table, 18)), (Some(111), None));
    // Two ids of one chunk and one of another, for a transaction that aborts.
    let undone = engine.begin(NORMAL);
    for id in [19, 20, 4_500] {
        pay(&undone, &table, id, 1_000).unwrap();
    }
    undone.abort();
    let during = ids_and_sum(&scan(&engine.snapshot(), &table, &[ID, BALANCE], 2));
    assert_eq!((during.0.len(), during.1), (5_000, 500_000));
    txn.commit().unwrap();
    for parts in [1, 3] {
        let (ids, sum) = ids_and_sum(&scan(&before, &table, &[ID, BALANCE], parts));
        assert_eq!((ids.len(), sum), (5_000, 500_000));
        let (mut ids, sum) = ids_and_sum(&scan(&engine.snapshot(), &table, &[ID, BALANCE], parts));
        ids.sort_unstable();
        assert!(ids.iter().copied().eq((0..5_000).filter(|id| *id != 18)), "{} ids", ids.len());
        assert_eq!(sum, 4_999 * 100 + 11);
    }
    assert_eq!((balance(&old, &table, 17), balance(&old, &table, 18)), (Some(100), Some(100)));
    assert!(matches!(pay(&old, &table, 17, 1), Err(Error::WriteConflict { .. })));
    drop(old);
    let txn = engine.begin(NORMAL);
    assert_eq!((balance(&txn, &table, 17), balance(&txn, &table, 18)), (Some(111), None));
    assert_eq!((balance(&txn, &table, 19), balance(&txn, &table, 4_500)), (Some(100), Some(100)));
    assert_eq!(engine.stats().thawed, 5);
}

/// The key of a frozen row that was deleted, or that got another key, is free again; a frozen row's is not. What is left
/// of the deleted row goes, and it does not come back from its block.
pub fn keys_of_frozen_rows_are_given_up() {
    let (engine, table) = bank();
    engine.bulk_load(&table, [accounts(0..5_000)]).unwrap();
    let entries = engine.stats().index_entries;
    let txn = engine.begin(NORMAL);
    txn.delete(&table, row_of(&txn, &table, 100).unwrap()).unwrap();
    txn.update(&table, row_of(&txn, &table, 101).unwrap(), |row| row.set_i32(ID, 9_101)).unwrap();
    assert!(matches!(open(&txn, &table, 102, 0, "x"), Err(Error::UniqueViolation { .. })));
    open(&txn, &table, 100, 1, "x").unwrap();
    open(&txn, &table, 101, 1, "x").unwrap();
    txn.commit().unwrap();
    let txn = engine.begin(NORMAL);
    assert_eq!([100, 101, 102, 9_101].map(|id| balance(&txn, &table, id)), [Some(1), Some(1), Some(100), Some(100)]);
    txn.delete(&table, row_of(&txn, &table, 100).unwrap()).unwrap();
    txn.delete(&table, row_of(&txn, &table, 101).unwrap()).unwrap();
    let row = txn.get(&table, BY_ID, &[Value::Int32(9_101)]).unwrap().unwrap().row_id();
    txn.delete(&table, row).unwrap();
    txn.commit().unwrap();
    while 0 < engine.collect_garbage(usize::MAX) {}
    let txn = engine.begin(NORMAL);
    assert_eq!([100, 101, 102, 9_101].map(|id| balance(&txn, &table, id)), [None, None, Some(100), None]);
    assert!(txn.get_row(&table, row).unwrap().is_none());
    assert_eq!(engine.stats().index_entries, entries - 4);
    txn.commit().unwrap();
    let (ids, sum) = ids_and_sum(&scan(&engine.snapshot(), &table, &[ID, BALANCE], 2));
    assert!(ids.into_iter().eq((0..5_000).filter(|id| *id != 100 && *id != 101)));
    assert_eq!(sum, 4_998 * 100);
}

/// Two threads move money between frozen rows while a third scans: the sum is the same in every snapshot.
pub fn money_thaws_under_scans() {
    const COUNT: i32 = 9_000;
    let (engine, table) = bank();
    engine.bulk_load(&table, [accounts(0..COUNT)]).unwrap();
    std::thread::scope(|scope| {
        let movers: Vec<_> = (0..2)
            .map(|seed| {
                let (engine, table) = (&engine, &table);
                scope.spawn(move || {
                    let mut random = Random(seed);
                    for _ in 0..2_000 {
                        let (from, to) = (random.below(COUNT as u64) as i32, random.below(COUNT as u64) as i32);
                        let (result, _) = engine.run(NORMAL, |txn| {
                            pay(txn, table, from, -1)?;
                            pay(txn, table, to, 1)
                        });
                        assert!(
                            matches!(result, Ok(()) | Err(Error::WriteConflict { .. } | Error::Taken)),
                            "{result:?}"
                        );
                    }
                })
            })
            .collect();
        loop {
            let done = movers.iter().all(|mover| mover.is_finished());
            let (mut ids, sum) = ids_and_sum(&scan(&engine.snapshot(), &table, &[ID, BALANCE], 2));
            assert_eq!(sum, 100 * i128::from(COUNT));
            ids.sort_unstable();
            assert!(ids.into_iter().eq(0..COUNT));
            if done {
                break;
            }
        }
    });
    assert!(1_000 < engine.stats().thawed);
}
