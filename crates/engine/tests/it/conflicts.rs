//! Two transactions and one row.

use crate::support::*;
use engine::{Engine, Error, Table, Value};
use std::sync::Barrier;

fn is_conflict(result: Result<impl Sized, Error>) -> bool {
    matches!(result, Err(Error::WriteConflict { .. }))
}

/// The lost update: two read the same balance, both add to it. The second writer is refused, and succeeds when it runs
/// again. (With the planted bug `conflict_check_skipped` the first one's payment disappears.)
pub fn a_lost_update_is_prevented() {
    let (engine, table) = bank_of(1);
    let late = engine.begin(NORMAL);
    let seen = balance(&late, &table, 0).unwrap();
    let row = row_of(&late, &table, 0).unwrap();
    let early = engine.begin(NORMAL);
    pay(&early, &table, 0, 10).unwrap();
    early.commit().unwrap();
    let outcome =
        late.update(&table, row, |row| row.set_decimal_i64(BALANCE, seen + 1)).and_then(|()| late.commit().map(|_| ()));
    if outcome.is_err() {
        assert!(is_conflict(outcome));
        let (again, _) = engine.run(NORMAL, |txn| pay(txn, &table, 0, 1));
        again.unwrap();
    }
    assert_eq!(balance_now(&engine, &table, 0), Some(111));
}

/// The first to claim a row has it until its end; others are refused at once, whether they update or delete.
pub fn a_claimed_row_is_refused_to_others() {
    let (engine, table) = bank_of(1);
    let holder = engine.begin(NORMAL);
    pay(&holder, &table, 0, 1).unwrap();
    let other = engine.begin(HIGH);
    let row = row_of(&other, &table, 0).unwrap();
    // More important, but the holder runs: it is not paused.
    assert!(is_conflict(pay(&other, &table, 0, 1)));
    assert!(is_conflict(other.delete(&table, row)));
    holder.abort();
    pay(&other, &table, 0, 2).unwrap();
    other.commit().unwrap();
    assert_eq!(balance_now(&engine, &table, 0), Some(102));
    assert_eq!(engine.stats().conflicts, 2);
    assert_eq!(engine.stats().taken, 0);
}

/// A row deleted after the snapshot conflicts; one deleted before does not exist.
pub fn a_deleted_row_conflicts_or_does_not_exist() {
    let (engine, table) = bank_of(1);
    let old = engine.begin(NORMAL);
    let row = row_of(&old, &table, 0).unwrap();
    let deleter = engine.begin(NORMAL);
    deleter.delete(&table, row).unwrap();
    deleter.commit().unwrap();
    assert_eq!(balance(&old, &table, 0), Some(100));
    assert!(is_conflict(old.update(&table, row, |_| ())));
    assert!(is_conflict(old.delete(&table, row)));
    drop(old);
    let new = engine.begin(NORMAL);
    assert!(matches!(new.delete(&table, row), Err(Error::NoSuchRow { .. })));
    assert!(matches!(new.delete(&table, engine::RowId(1 << 40)), Err(Error::NoSuchRow { .. })));
}

/// Keys are unique against committed, own and undecided rows; the loser of a race is told to run again.
pub fn a_unique_key_has_one_row() {
    let (engine, table) = bank_of(2);
    let first = engine.begin(NORMAL);
    assert!(matches!(open(&first, &table, 1, 0, "x"), Err(Error::UniqueViolation { .. })));
    open(&first, &table, 5, 0, "x").unwrap();
    assert!(matches!(open(&first, &table, 5, 0, "x"), Err(Error::UniqueViolation { .. })));
    let second = engine.begin(NORMAL);
    assert!(is_conflict(open(&second, &table, 5, 0, "y")));
    let row = row_of(&second, &table, 0).unwrap();
    assert!(is_conflict(second.update(&table, row, |row| row.set_i32(ID, 5))));
    // Neither refusal left anything: row 0 has its key, and can be changed.
    assert_eq!(balance(&second, &table, 0), Some(100));
    // A key that somebody is giving up is undecided too.
    first.update(&table, row_of(&first, &table, 1).unwrap(), |row| row.set_i32(ID, 6)).unwrap();
    assert!(is_conflict(open(&second, &table, 1, 0, "y")));
    first.abort();
    open(&second, &table, 5, 0, "y").unwrap();
    assert!(matches!(
        second.update(&table, row, |row| row.set_i32(ID, 1)),
        Err(Error::UniqueViolation { index, .. }) if index == "accounts_pkey"
    ));
    second.commit().unwrap();
    let third = engine.begin(NORMAL);
    let row = row_of(&third, &table, 5).unwrap();
    third.delete(&table, row).unwrap();
    open(&third, &table, 5, 3, "z").unwrap();
    third.commit().unwrap();
    assert_eq!(balance_now(&engine, &table, 5), Some(3));
}

/// A key that moves from row to row and back is found where each snapshot has it.
pub fn keys_move_between_rows() {
    let (engine, table) = bank_of(2);
    let old = engine.begin(NORMAL);
    for round in 0..6 {
        let txn = engine.begin(NORMAL);
        let (one, two) = (row_of(&txn, &table, 0).unwrap(), row_of(&txn, &table, 1).unwrap());
        txn.update(&table, one, |row| row.set_i32(ID, -1)).unwrap();
        txn.update(&table, two, |row| row.set_i32(ID, 0)).unwrap();
        txn.update(&table, one, |row| row.set_i32(ID, 1)).unwrap();
        assert_eq!((row_of(&txn, &table, 0), row_of(&txn, &table, 1)), (Some(two), Some(one)), "round {round}");
        txn.commit().unwrap();
        engine.collect_garbage(usize::MAX);
        assert_eq!(row_of(&old, &table, 0).map(|row| row.0), Some(0));
        assert_eq!(row_of(&old, &table, 1).map(|row| row.0), Some(1));
        assert_eq!(row_of(&old, &table, -1), None);
    }
    drop(old);
    engine.collect_garbage(usize::MAX);
    engine.collect_garbage(usize::MAX);
    let stats = engine.stats();
    assert_eq!((stats.versions, stats.versions_dead), (2, 0));
    assert_eq!(stats.index_entries, 4);
    assert_eq!(balance_now(&engine, &table, 0), Some(100));
}

/// Two threads insert the same keys: each key gets exactly one row.
pub fn racing_inserts_of_one_key_have_one_winner() {
    const KEYS: i32 = 400;
    let (engine, table) = bank();
    let barrier = Barrier::new(2);
    let insert_all = |engine: &Engine, table: &Table| {
        let mut won = 0;
        for id in 0..KEYS {
            barrier.wait();
            let (result, _) = engine.run(NORMAL, |txn| open(txn, table, id, 0, "racer"));
            match result {
                Ok(_) => won += 1,
                Err(Error::UniqueViolation { .. } | Error::WriteConflict { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
        won
    };
    let won = std::thread::scope(|scope| {
        let other = scope.spawn(|| insert_all(&engine, &table));
        insert_all(&engine, &table) + other.join().unwrap()
    });
    assert_eq!(won, KEYS);
    let txn = engine.begin(NORMAL);
    assert_eq!(ids_of(&txn, &table, "racer").len(), KEYS as usize);
    for id in 0..KEYS {
        assert!(txn.get(&table, BY_ID, &[Value::Int32(id)]).unwrap().is_some());
    }
}
