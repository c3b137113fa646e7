//! Limits and their errors, what is open, and housekeeping.

use crate::scans::accounts;
use crate::support::*;
use engine::{Activity, Engine, EngineConfig, Error, Limit, Limits, SessionOptions};
use stage::Class;

/// The bank in an engine with these limits.
fn limited(limits: Limits) -> (Engine, std::sync::Arc<engine::Table>) {
    let (_, table) = bank();
    let engine = Engine::new(EngineConfig { limits, ..EngineConfig::in_memory() });
    let def = engine::TableDef {
        name: table.name().to_owned(),
        columns: table.columns().to_vec(),
        indexes: table.indexes().to_vec(),
    };
    let table = engine.create_table(def).unwrap();
    (engine, table)
}

/// Past the limit of memory inserts and updates are refused, deletes are not, and room that they make is used again.
pub fn memory_is_limited() {
    let (engine, table) = limited(Limits { memory_bytes: 8 << 20, ..Limits::default() });
    let long = "x".repeat(1_000);
    let fill = |from: i32| {
        (from..from + 100_000).find_map(|id| {
            let (result, _) = engine.run(NORMAL, |txn| open(txn, &table, id, 1, &long).map(|_| ()));
            result.err().map(|error| (id, error))
        })
    };
    let (end, error) = fill(0).expect("the limit is reached");
    assert_eq!(error, Error::Limit(Limit::Memory));
    // The owner's name stands in the version, and in the key by owner.
    assert!((3_000..5_000).contains(&end), "{end} rows of 2 KiB in 8 MiB");
    let (result, _) = engine.run(NORMAL, |txn| pay(txn, &table, 0, 1));
    assert_eq!(result, Err(error));
    for id in 0..end / 2 {
        let (result, _) = engine.run(NORMAL, |txn| txn.delete(&table, row_of(txn, &table, id).unwrap()));
        result.unwrap();
    }
    engine.housekeep(usize::MAX);
    engine.housekeep(usize::MAX);
    let (again, _) = fill(end).expect("the limit is reached again");
    assert!(end / 3 < again - end, "{} rows", again - end);
}

/// A load that passes the limit of memory is refused and leaves nothing.
pub fn a_load_is_limited() {
    let (engine, table) = limited(Limits { memory_bytes: 3 << 20, ..Limits::default() });
    let load = |batches: std::ops::Range<i32>| {
        engine.bulk_load(&table, batches.map(|at| accounts(at * 5_000..(at + 1) * 5_000)))
    };
    assert_eq!(load(0..30), Err(Error::Limit(Limit::Memory)));
    crate::freeze::freeze_all(&engine);
    engine.housekeep(usize::MAX);
    let stats = engine.stats();
    assert_eq!((stats.blocks, stats.index_entries, stats.rows), (0, 0, 0));
    assert_eq!(load(0..1), Ok(5_000));
}

/// A transaction too many does not begin.
pub fn open_transactions_are_limited() {
    let (engine, _table) = limited(Limits { transactions: 3, ..Limits::default() });
    let open: Vec<_> = (0..3).map(|_| engine.begin(NORMAL)).collect();
    let error = engine.try_begin(NORMAL).err().unwrap();
    assert_eq!(error, Error::Limit(Limit::Transactions));
    assert_eq!(engine.transactions().len(), 3);
    drop(open);
    assert!(engine.try_begin(NORMAL).is_ok());
}

/// Goal: when an old snapshot holds back too much, writes are refused until it goes.
pub fn versions_held_back_are_limited() {
    let (engine, table) = limited(Limits { versions_kept: 1_000, ..Limits::default() });
    let txn = engine.begin(NORMAL);
    for id in 0..10_000 {
        open(&txn, &table, id, 100, "nobody").unwrap();
    }
    txn.commit().unwrap();
    let old = engine.snapshot();
    let mut refused = 0;
    for id in 0..10_000 {
        let (result, _) = engine.run(NORMAL, |txn| pay(txn, &table, id, 1));
        if let Err(error) = result {
            assert_eq!(error, Error::Limit(Limit::Versions));
            refused += 1;
        }
    }
    assert!((6_000..9_000).contains(&refused), "{refused} refused");
    assert_eq!(engine.snapshots()[0].number, old.number());
    assert!(1_000 < engine.snapshots()[0].holds.versions);
    drop(old);
    engine.housekeep(usize::MAX);
    let (result, _) = engine.run(NORMAL, |txn| pay(txn, &table, 0, 1));
    result.unwrap();
}

/// The view of open transactions says whose each is, what it does, and exactly what the oldest holds back.
pub fn open_transactions_are_shown() {
    let (engine, table) = bank_of(100);
    let mut session =
        engine.session(SessionOptions { name: "the oldest".to_owned(), ..SessionOptions::new(Class::Low) });
    session.begin(LOW).unwrap();
    session.execute(|txn| pay(txn, &table, 99, 1)).unwrap();
    let bytes = engine.stats().version_bytes;
    for id in 0..60 {
        for _ in 0..3 {
            let (result, _) = engine.run(NORMAL, |txn| pay(txn, &table, id, 1));
            result.unwrap();
        }
    }
    engine.housekeep(usize::MAX);
    engine.housekeep(usize::MAX);
    let young = engine.begin(HIGH);
    let open = engine.transactions();
    assert_eq!(open.len(), 2, "{open:?}");
    let oldest = &open[0];
    assert_eq!(
        (oldest.session.as_deref(), oldest.class, oldest.activity),
        (Some("the oldest"), Class::Low, Activity::ClientWait)
    );
    assert_eq!((oldest.writes, oldest.is_serializable), (1, false));
    assert_eq!((oldest.holds.versions, oldest.holds.bytes), (60, engine.stats().version_bytes - bytes));
    assert_eq!((open[1].session.clone(), open[1].class, open[1].holds.versions), (None, Class::High, 0));
    assert_eq!(open[1].activity, Activity::Running);
    assert!(open[1].open_for <= oldest.open_for);
    let dead = engine.stats().versions_dead;
    session.rollback();
    drop(young);
    engine.housekeep(usize::MAX);
    engine.housekeep(usize::MAX);
    assert_eq!((dead, engine.stats().versions_dead), (60, 0));
    assert!(engine.transactions().is_empty());
}

/// Goal: garbage that waits on a slot does not wait for the transaction that has the slot now and rests.
pub fn a_resting_transaction_keeps_no_garbage() {
    let (engine, table) = bank_of(3_000);
    let old = engine.snapshot();
    for id in 0..3_000 {
        let (result, _) = engine.run(NORMAL, |txn| pay(txn, &table, id, 1));
        result.unwrap();
    }
    // It has the slot on which the others have left their dead.
    let resting = engine.begin(NORMAL);
    drop(old);
    engine.housekeep(usize::MAX);
    engine.housekeep(usize::MAX);
    let stats = engine.stats();
    assert_eq!((stats.versions, stats.versions_dead), (3_000, 0));
    assert_eq!(balance(&resting, &table, 7), Some(101));
}

/// A panic of who makes the batches of a load leaves nothing behind: no rows, no entries, and no snapshot.
pub fn a_load_that_panics_holds_nothing_back() {
    let (engine, table) = bank_of(1);
    let batches =
        (0..3).map(|at| if at < 2 { accounts(10 * at + 10..10 * at + 15) } else { panic!("no more batches") });
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| engine.bulk_load(&table, batches)));
    assert!(result.is_err());
    assert!(engine.transactions().is_empty());
    for _ in 0..1_000 {
        let (result, _) = engine.run(NORMAL, |txn| pay(txn, &table, 0, 1));
        result.unwrap();
    }
    engine.housekeep(usize::MAX);
    let stats = engine.stats();
    assert_eq!((stats.versions, stats.index_entries, stats.rows), (1, 2, 1));
    assert_eq!(engine.bulk_load(&table, [accounts(10..15)]).unwrap(), 5);
}
