//! Dropped tables: a holder of one goes on with it, and when it has none, all of it is free.

use crate::freeze::freeze_all;
use crate::scans::{accounts, ids_and_sum, scan};
use crate::sessions::*;
use crate::support::*;
use engine::{
    AtDecision, Begin, Engine, EngineConfig, Error, Isolation, Limit, Limits, ReplacedTable, RowLock, Session, Stats,
    Table, TableDef, Value, Wait,
};
use stage::Class;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Returns the memory that an engine holds, as far as it depends on its tables.
fn held(engine: &Engine) -> Stats {
    let Stats {
        versions, versions_dead, version_bytes, rows, row_ids_free, row_map_bytes, blocks, block_bytes, ..
    } = engine.stats();
    let Stats { index_entries, index_nodes, index_waiting, .. } = engine.stats();
    Stats {
        versions,
        versions_dead,
        version_bytes,
        rows,
        row_ids_free,
        row_map_bytes,
        blocks,
        block_bytes,
        index_entries,
        index_nodes,
        index_waiting,
        ..Stats::default()
    }
}

fn settle(engine: &Engine) {
    for _ in 0..4 {
        engine.housekeep(usize::MAX);
        while 0 < engine.collect_garbage(usize::MAX) {}
    }
}

fn create(engine: &Engine, like: &Table, name: &str) -> Arc<Table> {
    engine.create_table(TableDef { name: name.to_owned(), ..definition(like) }).unwrap()
}

/// Fills a table with whatever tables hold: rows of a load and rows that were frozen, some of them changed, some gone;
/// hot rows, changed and gone; an insert undone; keys left.
fn fill(engine: &Engine, table: &Table, freezes: bool) {
    // Those that were always there, an old snapshot sees.
    engine.load_unseen(table, [accounts(0..350)]).unwrap();
    engine.bulk_load(table, [accounts(350..700)]).unwrap();
    let txn = engine.begin(NORMAL);
    for id in 1_000..if freezes { 5_200 } else { 1_300 } {
        open(&txn, table, id, 100, "hot").unwrap();
    }
    txn.commit().unwrap();
    if freezes {
        freeze_all(engine);
    }
    for id in (0..700).step_by(7).chain((1_000..1_300).step_by(3)) {
        let txn = engine.begin(NORMAL);
        match id % 4 {
            0 => txn.delete(table, row_of(&txn, table, id).unwrap()).unwrap(),
            1 => {
                let row = row_of(&txn, table, id).unwrap();
                txn.update(table, row, |row| row.set(OWNER, Value::Text("another owner"))).unwrap();
            }
            _ => pay(&txn, table, id, 1).unwrap(),
        }
        if id % 5 == 0 {
            open(&txn, table, 100_000 + id, 1, "undone").unwrap();
            txn.abort();
        } else {
            txn.commit().unwrap();
        }
    }
}

/// A table with every kind of row and garbage leaves nothing when it is dropped, though an old snapshot keeps all versions
/// of it; what is kept of another table for that snapshot stays.
pub fn a_dropped_table_gives_all_back() {
    let (engine, bank) = bank_of(100);
    let old = engine.snapshot();
    let pay_once = |id| engine.run(NORMAL, |txn| pay(txn, &bank, id, 1)).0.unwrap();
    (0..10).for_each(pay_once);
    settle(&engine);
    let (before, holds) = (held(&engine), engine.snapshots()[0].holds);
    assert!(0 < holds.versions);
    for round in 0..6 {
        let table = create(&engine, &bank, "t");
        // Without the old snapshot in the way the freezer moves rows.
        fill(&engine, &table, round % 2 == 1);
        if round % 3 == 1 {
            // Some of the garbage is queued for the old snapshot, some is not looked at.
            settle(&engine);
            assert!(holds.versions < engine.snapshots()[0].holds.versions);
        }
        let now = held(&engine);
        assert!(before.rows < now.rows && before.version_bytes < now.version_bytes && before.blocks < now.blocks);
        engine.drop_table(&table);
        engine.drop_table(&table); // Dropped once, it is no more among the tables.
        settle(&engine);
        assert!(before.rows < held(&engine).rows, "it is still had");
        drop(table);
        settle(&engine);
        assert_eq!(held(&engine), before, "round {round}");
        assert_eq!(engine.snapshots()[0].holds, holds);
        assert_eq!(engine.tables().len(), 1);
    }
    drop(old);
    settle(&engine);
    assert_eq!((engine.stats().versions, engine.stats().versions_dead), (100, 0));
}

/// Goal: a dropped table leaves nothing, 200 times, beside transactions of all kinds, on the table itself too, an old
/// snapshot, scans and housekeeping.
pub fn tables_come_and_go_under_load() {
    const ROUNDS: i32 = 200;
    let (engine, bank) = bank_of(100);
    settle(&engine);
    let before = held(&engine);
    let old = engine.snapshot();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (engine, bank, stop) = (&engine, &bank, &stop);
        let _stop = Stop(stop);
        for worker in 0..2_u64 {
            scope.spawn(move || {
                let mut random = Random(worker);
                let mut session = session(engine);
                while !stop.load(SeqCst) {
                    let id = random.below(100) as i32;
                    match random.below(3) {
                        // Money on the bank, which stays.
                        0 => drop(engine.run(NORMAL, |txn| pay(txn, bank, id, 0))),
                        // Rows of whatever table is there.
                        1 => {
                            let Some(table) = engine.table("t") else { continue };
                            let _ = engine.run(NORMAL, |txn| {
                                open(txn, &table, 200_000 + random.below(50_000) as i32, 1, "worker")?;
                                let exists = row_of(txn, &table, id).is_some();
                                if exists { pay(txn, &table, id, 1) } else { Err(Error::RolledBack) }
                            });
                        }
                        // The same by an open transaction, which forgets the table before it ends.
                        _ => work_and_forget(engine, &mut session, &mut random),
                    }
                }
            });
        }
        scope.spawn(move || {
            while !stop.load(SeqCst) {
                engine.housekeep(1_000);
            }
        });
        scope.spawn(move || {
            while !stop.load(SeqCst) {
                if let Some(table) = engine.table("t") {
                    scan(&engine.snapshot(), &table, &[ID, BALANCE], 3);
                }
            }
        });
        for round in 0..ROUNDS {
            let table = create(engine, bank, "t");
            // Somebody may have been faster with one of the keys.
            let _ = engine.bulk_load(&table, [accounts(0..100)]);
            for id in 0..20 + round % 30 {
                let _ = engine.run(NORMAL, |txn| row_of(txn, &table, id).map_or(Ok(()), |_| pay(txn, &table, id, 1)));
                let _ = engine
                    .run(NORMAL, |txn| txn.delete(&table, row_of(txn, &table, id + 50).ok_or(Error::RolledBack)?));
            }
            if round % 3 == 0 {
                fill(engine, &create(engine, bank, "alone"), false);
                engine.drop_table(&engine.table("alone").unwrap());
            }
            engine.drop_table(&table);
        }
    });
    drop(old);
    settle(&engine);
    let after = held(&engine);
    // Versions of the bank are of one size, and there is one of each row.
    assert_eq!(after, before);
}

/// Stops the others, also when the test fails.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// A transaction that writes to the table, waits, and ends when nobody knows the table any more.
fn work_and_forget(engine: &Engine, session: &mut Session, random: &mut Random) {
    let level =
        [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable][random.below(3) as usize];
    session.begin(Begin::new(Class::Normal).isolation(level)).unwrap();
    if let Some(table) = engine.table("t") {
        for _ in 0..1 + random.below(3) {
            let id = random.below(100) as i32;
            let pays = session.execute(|txn| match row_of(txn, &table, id) {
                Some(_) => pay(txn, &table, id, 1),
                None => open(txn, &table, id, 1, "again").map(drop),
            });
            if pays.is_err() {
                break;
            }
        }
    }
    for _ in 0..random.below(200) {
        std::thread::yield_now();
    }
    match random.below(3) {
        0 => session.rollback(),
        _ => drop(session.commit()),
    }
    session.rollback();
}

/// Goal: a holder of a dropped table reads and writes it as before, and a scan of it comes to its end; its name is
/// another's at once.
pub fn a_dropped_table_is_used_on() {
    let (engine, table) = bank_of(3_000);
    let mut open_one = session(&engine);
    open_one.begin(NORMAL).unwrap();
    done(&mut open_one, |txn| pay(txn, &table, 1, 1));
    let snapshot = engine.snapshot();
    let mut parts = snapshot.scan(&table, &[ID, BALANCE], 100).split(2);
    let first = parts[0].next().unwrap();
    engine.drop_table(&table);
    assert!(engine.table("accounts").is_none() && engine.tables().is_empty());
    let new = create_accounts(&engine);
    assert!(Arc::ptr_eq(&engine.table("accounts").unwrap(), &new));
    assert!(new.number() > table.number());
    settle(&engine);
    // The open transaction, and one that begins now; the new table is another.
    done(&mut open_one, |txn| pay(txn, &table, 2, 1));
    engine.run(NORMAL, |txn| pay(txn, &table, 3, 1)).0.unwrap();
    engine.bulk_load(&table, [accounts(10_000..10_100)]).unwrap();
    open_one.commit().unwrap();
    assert_eq!([1, 2, 3, 10_050].map(|id| balance_now(&engine, &table, id)), [101, 101, 101, 100].map(Some));
    assert_eq!(balance_now(&engine, &new, 1), None);
    assert_eq!(freeze_all(&engine).looked, 0, "nobody freezes it");
    // The scan is the last that has it.
    let mut late = session(&engine);
    late.begin(NORMAL).unwrap();
    done(&mut late, |txn| pay(txn, &table, 5, 1));
    drop(table);
    settle(&engine);
    let mut batches = vec![first];
    batches.extend(parts.into_iter().flatten());
    assert_eq!(ids_and_sum(&batches), ((0..3_000).collect(), 300_000));
    drop(snapshot);
    settle(&engine);
    assert!(0 < engine.stats().rows, "an open transaction names it");
    late.commit().unwrap();
    settle(&engine);
    let stats = engine.stats();
    assert_eq!((stats.rows, stats.versions, stats.blocks, stats.index_entries), (0, 0, 0, 0));
}

/// A commit that takes a table's rows away, or does not.
struct TakesAway {
    replaced: Vec<ReplacedTable>,
    is_wanted: bool,
}

impl AtDecision for TakesAway {
    const IS_NEEDED: bool = true;

    fn replaced(&self) -> &[ReplacedTable] {
        &self.replaced
    }

    fn before(&mut self) -> bool {
        self.is_wanted
    }

    fn after(&mut self, _: bool) {}
}

/// Goal: no change of a table goes where nobody finds it. Method: a commit has put another table in its place, or none, while a
/// transaction is open; one that fails has not.
pub fn nobody_writes_to_a_table_that_was_replaced() {
    for has_new in [false, true] {
        let (engine, table) = bank_of(3);
        let new = create(&engine, &table, "new");
        let old = engine.begin(NORMAL);
        let row = row_of(&old, &table, 1).unwrap();
        let replaced = vec![ReplacedTable { old: Arc::clone(&table), new: has_new.then_some(new) }];
        let mut decision = TakesAway { replaced, is_wanted: false };
        assert_eq!(engine.begin(NORMAL).commit_with(&mut decision).unwrap_err(), Error::SerializationFailure);
        pay(&old, &table, 1, 1).unwrap();
        decision.is_wanted = true;
        engine.begin(NORMAL).commit_with(&mut decision).unwrap();
        let refused = Err(Error::SerializationFailure);
        for txn in [&old, &engine.begin(NORMAL), &engine.begin(Begin::new(Class::Normal))] {
            let values = [Value::Int32(9), Value::Decimal(1), Value::Null];
            assert_eq!(txn.insert(&table, &values).map(drop), refused);
            assert_eq!(txn.insert_many(&table, &[values]), refused);
            assert_eq!(pay(txn, &table, 1, 1), refused);
            assert_eq!(txn.update_if(&table, row, |_| true).map(drop), refused);
            assert_eq!(txn.delete(&table, row), refused);
            assert_eq!(txn.delete_if(&table, row, |_| true).map(drop), refused);
            for mode in [RowLock::KeyShare, RowLock::Update] {
                assert_eq!(txn.lock_row(&table, row, mode, Wait::Block).map(drop), refused);
                assert_eq!(txn.lock_newest(&table, row, mode, &mut |_| true).map(drop), refused);
            }
            assert!(balance(txn, &table, 2).is_some(), "it can be read");
        }
        assert_eq!(engine.bulk_load(&table, [accounts(10..20)]).map(drop), refused);
    }
}

/// There may be as many tables as one likes, one after another and at a time; each is told from all others.
pub fn there_is_no_end_of_tables() {
    let (engine, bank) = bank_of(1);
    settle(&engine);
    let before = held(&engine);
    let def = |name: String| TableDef { name, indexes: vec![], ..definition(&bank) };
    let row = [Value::Int32(1), Value::Decimal(1), Value::Null];
    for number in 0..10_000 {
        let table = engine.create_table(def(format!("t{}", number % 10))).unwrap();
        if number % 10 == 0 {
            engine.run(NORMAL, |txn| txn.insert(&table, &row).map(drop)).0.unwrap();
        }
        engine.drop_table(&table);
        drop(table);
        if number % 100 == 0 {
            engine.housekeep(usize::MAX);
        }
    }
    settle(&engine);
    assert_eq!(held(&engine), before);
    let tables: Vec<_> = (0..5_000).map(|number| engine.create_table(def(format!("t{number}"))).unwrap()).collect();
    for (number, table) in tables.iter().enumerate().step_by(9) {
        let value = [Value::Int32(number as i32), Value::Decimal(1), Value::Null];
        engine.run(NORMAL, |txn| txn.insert(table, &value).map(drop)).0.unwrap();
    }
    let txn = engine.begin(NORMAL);
    for (number, table) in tables.iter().enumerate().step_by(9) {
        let mut ids = Vec::new();
        txn.scan(table, &[], |row| ids.push(row.get_i32(ID))).unwrap();
        assert_eq!(ids, [number as i32]);
    }
    drop(txn);
    tables.iter().for_each(|table| engine.drop_table(table));
    drop(tables);
    settle(&engine);
    assert_eq!(held(&engine), before);
}

/// A session that waits for a row of a table may forget the table, and so may the one that it waits for.
pub fn a_place_in_a_queue_outlives_its_table() {
    let (engine, _) = bank_of(1);
    let like = engine.tables().remove(0);
    for gives_up in [false, true] {
        let table = create(&engine, &like, "t");
        engine.load_unseen(&table, [accounts(0..10)]).unwrap();
        let mut holder = open_session(&engine, Class::Normal);
        done(&mut holder, |txn| pay(txn, &table, 1, 1));
        let mut waiter = open_session(&engine, Class::Normal);
        let ticket = parked(&mut waiter, |txn| pay(txn, &table, 1, 1));
        engine.drop_table(&table);
        drop(table);
        settle(&engine);
        assert_eq!(engine.locks().iter().filter(|lock| lock.table.as_deref() == Some("t") && !lock.granted).count(), 1);
        if gives_up {
            waiter.rollback();
        }
        holder.commit().unwrap();
        assert!(gives_up || ticket.is_ready());
        settle(&engine);
        // The one that waited has an open transaction, which names nothing; but its slot has not been seen.
        waiter.rollback();
        settle(&engine);
        assert_eq!((engine.stats().rows, engine.stats().blocks), (1, 0));
        assert!(engine.locks().is_empty());
    }
}

/// Goal: the memory of a dropped table counts against the limits until it is free, and not after.
pub fn a_dropped_table_makes_room() {
    let limits = Limits { memory_bytes: 3 << 20, ..Limits::default() };
    let engine = Engine::new(EngineConfig { limits, ..EngineConfig::in_memory() });
    let (_, like) = bank();
    for _ in 0..5 {
        let table = create(&engine, &like, "t");
        let load =
            |from: i32| engine.bulk_load(&table, (from..from + 8).map(|at| accounts(at * 2_000..(at + 1) * 2_000)));
        load(0).unwrap();
        assert_eq!((1..10).find_map(|at| load(8 * at).err()), Some(Error::Limit(Limit::Memory)));
        engine.drop_table(&table);
        drop(table);
        settle(&engine);
    }
}

/// More dead than a transaction looks through at its end are set aside all the same, and those of other tables are not lost.
pub fn a_dropped_table_leaves_many_dead() {
    let (engine, bank) = bank_of(10);
    for round in 0..3 {
        let table = create(&engine, &bank, "t");
        engine.bulk_load(&table, [accounts(0..10_000)]).unwrap();
        let old = engine.snapshot();
        // Of each table, many to one slot.
        let txn = engine.begin(NORMAL);
        (0..10_000).for_each(|id| pay(&txn, &table, id, 1).unwrap());
        (0..10).for_each(|id| pay(&txn, &bank, id, 1).unwrap());
        txn.commit().unwrap();
        engine.drop_table(&table);
        drop(table);
        // Closed here, and seen by the transactions that follow.
        engine.collect_garbage(0);
        (0..10).for_each(|id| engine.run(NORMAL, |txn| pay(txn, &bank, id, 1)).0.unwrap());
        drop(old);
        settle(&engine);
        let Stats { versions, versions_dead, rows, .. } = engine.stats();
        assert_eq!((versions, versions_dead, rows), (10, 0, 10), "round {round}");
    }
}

/// Goal: a weak reference keeps the memory: the table may be had again.
pub fn a_weak_reference_keeps_a_table() {
    let (engine, table) = bank_of(10);
    let weak = Arc::downgrade(&table);
    engine.drop_table(&table);
    drop(table);
    settle(&engine);
    let table = weak.upgrade().unwrap();
    engine.run(NORMAL, |txn| pay(txn, &table, 1, 1)).0.unwrap();
    drop(weak);
    settle(&engine);
    assert_eq!(balance_now(&engine, &table, 1), Some(101));
    drop(table);
    settle(&engine);
    assert_eq!(engine.stats().versions, 0);
}
