//! Dead versions go, and take their index entries with them.

use crate::support::*;
use engine::{Txn, Value};

/// 200,000 updates of a few rows, some of them of keys: versions, bytes and entries stay level all the way.
pub fn updates_leave_memory_level() {
    const ROWS: i32 = 50;
    let (engine, table) = bank_of(ROWS);
    let start = engine.stats();
    let mut most = 0;
    for round in 0..20_000 {
        let txn = engine.begin(NORMAL);
        for step in 0..10 {
            let id = (round * 7 + step) % ROWS;
            let row = row_of(&txn, &table, id).unwrap();
            txn.update(&table, row, |row| {
                row.set_decimal_i64(BALANCE, i64::from(round % 100));
                if step == 0 {
                    row.set_text(OWNER, ["anna", "bert", "carl"][round as usize % 3]);
                }
            })
            .unwrap();
        }
        if round % 10 == 9 {
            txn.abort();
        } else {
            txn.commit().unwrap();
        }
        most = most.max(engine.stats().versions);
    }
    assert!(most < 1_000, "{most} versions at a time");
    engine.collect_garbage(usize::MAX);
    engine.collect_garbage(usize::MAX);
    let end = engine.stats();
    assert_eq!((end.versions, end.versions_dead), (start.versions, 0));
    assert!(end.version_bytes <= start.version_bytes, "{end:?}");
    assert_eq!(end.index_entries, start.index_entries);
}

/// A snapshot holds what it may read, and nothing is left when it goes.
pub fn a_snapshot_holds_back_only_while_it_lives() {
    let (engine, table) = bank_of(1);
    let snapshot = engine.snapshot();
    for _ in 0..1_000 {
        let (result, _) = engine.run(NORMAL, |txn| pay(txn, &table, 0, 1));
        result.unwrap();
    }
    engine.collect_garbage(usize::MAX);
    // The newest one, and the one that the snapshot sees.
    let stats = engine.stats();
    assert_eq!((stats.versions, stats.versions_dead, stats.versions_pruned), (2, 1, 999));
    let seen: Vec<_> = snapshot.scan(&table, &[BALANCE], 10).split(1).into_iter().flatten().collect();
    assert_eq!(seen.len(), 1);
    drop(seen);
    drop(snapshot);
    assert_eq!(engine.collect_garbage(100), 1);
    let stats = engine.stats();
    assert_eq!((stats.versions, stats.versions_dead), (1, 0));
    assert_eq!(balance_now(&engine, &table, 0), Some(1_100));
}

/// Deleted rows leave the map and the indexes; undone inserts at once.
pub fn deleted_rows_leave_no_entries() {
    let (engine, table) = bank_of(100);
    let txn = engine.begin(NORMAL);
    for id in 0..100 {
        txn.delete(&table, row_of(&txn, &table, id).unwrap()).unwrap();
    }
    txn.commit().unwrap();
    let undone = engine.begin(NORMAL);
    open(&undone, &table, 1_000, 0, "x").unwrap();
    undone.abort();
    engine.collect_garbage(usize::MAX);
    engine.collect_garbage(usize::MAX);
    let stats = engine.stats();
    assert_eq!((stats.versions, stats.index_entries), (0, 0));
    let txn = engine.begin(NORMAL);
    assert!(txn.get(&table, BY_ID, &[Value::Int32(1)]).unwrap().is_none());
}

/// A key that a row had before, gets back and loses again by an abort: its entry goes, although the old version that first
/// had it was freed in between and saw that somebody needs it.
pub fn a_key_regained_and_undone_leaves_no_entry() {
    let (engine, table) = bank_of(1);
    let rename = |txn: &Txn<'_>, owner: &str| {
        txn.update(&table, row_of(txn, &table, 0).unwrap(), |row| row.set_text(OWNER, owner)).unwrap();
    };
    // So that the old version waits on another slot than the one of the transaction that comes later.
    let first_slot = engine.begin(NORMAL);
    let txn = engine.begin(NORMAL);
    rename(&txn, "b");
    txn.commit().unwrap();
    drop(first_slot);
    let undone = engine.begin(NORMAL);
    rename(&undone, "nobody");
    engine.collect_garbage(usize::MAX);
    assert_eq!(engine.stats().versions, 2);
    undone.abort();
    for _ in 0..2 {
        engine.collect_garbage(usize::MAX);
    }
    let stats = engine.stats();
    assert_eq!((stats.versions, stats.versions_dead, stats.index_entries), (1, 0, 2));
    // As long as somebody may read the old version, the entry stays.
    let old = engine.begin(NORMAL);
    let txn = engine.begin(NORMAL);
    rename(&txn, "c");
    txn.commit().unwrap();
    let undone = engine.begin(NORMAL);
    rename(&undone, "b");
    undone.abort();
    engine.collect_garbage(usize::MAX);
    assert_eq!(ids_of(&old, &table, "b"), [0]);
    drop(old);
    for _ in 0..2 {
        engine.collect_garbage(usize::MAX);
    }
    let stats = engine.stats();
    assert_eq!((stats.versions, stats.versions_dead, stats.index_entries), (1, 0, 2));
}
