//! Pruning between snapshots: every snapshot goes on to see what it saw, and keeps no more than that.

use crate::support::*;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int32Type};
use engine::{Direction, Engine, Error, Snapshot, Table, Txn, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Balance and owner by id.
type State = BTreeMap<i32, (i64, &'static str)>;

const OWNERS: [&str; 4] = ["anna", "bert", "carl", "dora"];

/// A random change of one of `ids`, in the engine and in the state.
fn change(txn: &Txn<'_>, table: &Table, state: &mut State, ids: &[i32], random: &mut Random) {
    let id = ids[random.below(ids.len() as u64) as usize];
    let balance = random.below(1_000) as i64;
    let owner = OWNERS[random.below(4) as usize];
    match state.get_mut(&id) {
        None => {
            open(txn, table, id, balance, owner).unwrap();
            state.insert(id, (balance, owner));
        }
        Some(_) if random.below(4) == 0 => {
            txn.delete(table, row_of(txn, table, id).unwrap()).unwrap();
            state.remove(&id);
        }
        Some(account) => {
            let changes_key = random.below(2) == 0;
            txn.update(table, row_of(txn, table, id).unwrap(), |row| {
                row.set_decimal_i64(BALANCE, balance);
                if changes_key {
                    row.set_text(OWNER, owner);
                }
            })
            .unwrap();
            *account = (balance, if changes_key { owner } else { account.1 });
        }
    }
}

/// Compares what a transaction sees of these ids with the state, by key and by the other index.
fn compare(txn: &Txn<'_>, table: &Table, state: &State, ids: &[i32]) {
    for id in ids {
        let seen = txn.get(table, BY_ID, &[Value::Int32(*id)]).unwrap();
        let seen = seen.map(|row| (row.get_decimal_i64(BALANCE), row.get_text(OWNER).to_owned()));
        assert_eq!(seen, state.get(id).map(|(balance, owner)| (*balance, (*owner).to_owned())), "account {id}");
    }
    for owner in OWNERS {
        let mut seen: Vec<i32> = ids_of(txn, table, owner).into_iter().filter(|id| ids.contains(id)).collect();
        seen.sort_unstable();
        let expected: Vec<i32> = state.iter().filter(|(_, account)| account.1 == owner).map(|(id, _)| *id).collect();
        assert_eq!(seen, expected, "accounts of {owner}");
    }
}

/// Compares the rows of a registered snapshot with the state, by a scan.
fn compare_scan(snapshot: &Arc<Snapshot>, table: &Arc<Table>, state: &State, ids: &[i32]) {
    let mut seen = BTreeMap::new();
    for batch in snapshot.scan(table, &[ID, BALANCE, OWNER], 64).split(1).into_iter().flatten() {
        let (found, balances) =
            (batch.column(0).as_primitive::<Int32Type>(), batch.column(1).as_primitive::<Decimal128Type>());
        for at in (0..batch.num_rows()).filter(|at| ids.contains(&found.value(*at))) {
            let owner = batch.column(2).as_string_view().value(at).to_owned();
            assert!(seen.insert(found.value(at), (balances.value(at) as i64, owner)).is_none(), "twice");
        }
    }
    let expected: BTreeMap<_, _> = state.iter().map(|(id, (b, owner))| (*id, (*b, (*owner).to_owned()))).collect();
    assert_eq!(seen, expected);
}

#[allow(clippy::large_enum_variant, reason = "there are few of them, in a test")]
enum View<'e> {
    Txn(Txn<'e>),
    Snapshot(Arc<Snapshot>),
}

impl View<'_> {
    fn compare(&self, table: &Arc<Table>, state: &State, ids: &[i32]) {
        match self {
            View::Txn(txn) => compare(txn, table, state, ids),
            View::Snapshot(snapshot) => compare_scan(snapshot, table, state, ids),
        }
    }
}

/// Changes `ids`, holds views of different ages, and compares one of them at each step.
fn churn(engine: &Engine, table: &Arc<Table>, ids: &[i32], rounds: u64, seed: u64) {
    let mut random = Random(seed);
    let mut state = State::new();
    let mut views: Vec<(View<'_>, State)> = Vec::new();
    for round in 0..rounds {
        let txn = engine.begin(NORMAL);
        let mut changed = state.clone();
        for _ in 0..1 + random.below(4) {
            change(&txn, table, &mut changed, ids, &mut random);
        }
        if random.below(5) == 0 {
            txn.abort();
        } else {
            txn.commit().unwrap();
            state = changed;
        }
        if random.below(6) == 0 && views.len() < 8 {
            let view = match random.below(2) {
                0 => View::Txn(engine.begin(NORMAL)),
                _ => View::Snapshot(engine.snapshot()),
            };
            views.push((view, state.clone()));
        }
        if !views.is_empty() {
            let at = random.below(views.len() as u64) as usize;
            let (view, state) = &views[at];
            view.compare(table, state, ids);
            // The first grows old.
            if 0 < at && random.below(12) == 0 {
                views.swap_remove(at);
            }
        }
        if round % 8 == 0 {
            engine.collect_garbage(usize::MAX);
        }
        if round % 400 == 399 {
            views.clear();
        }
    }
}

fn assert_clean(engine: &Engine) {
    for _ in 0..3 {
        engine.collect_garbage(usize::MAX);
    }
    let stats = engine.stats();
    assert_eq!((stats.versions, stats.versions_dead), (stats.rows, 0), "{stats:?}");
    assert_eq!(stats.index_entries, 2 * stats.rows);
}

/// Random inserts, updates, changes of keys, deletes and aborts: each of several snapshots of different ages sees what it saw
/// at first, by both indexes and by scans; and nothing is left at the end.
pub fn every_snapshot_sees_its_own_state() {
    let (engine, table) = bank();
    churn(&engine, &table, &(0..12).collect::<Vec<_>>(), 2_500, 1);
    assert!(1_000 < engine.stats().versions_pruned);
    assert_clean(&engine);
}

/// Goal: every snapshot sees its own state while three threads prune each other's versions and read.
pub fn threads_prune_while_others_read() {
    let (engine, table) = bank();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (engine, table) = (&engine, &table);
            let ids: Vec<i32> = (0..12).map(|at| 3 * at + thread).collect();
            scope.spawn(move || churn(engine, table, &ids, 1_500, 7 + thread as u64));
        }
    });
    assert!(1_000 < engine.stats().versions_pruned);
    assert_clean(&engine);
}

/// A chain of one row that many threads update, while each holds old snapshots and looks at them again and again.
pub fn a_hot_row_is_pruned_by_many() {
    const THREADS: u64 = 3;
    let (engine, table) = bank_of(2);
    std::thread::scope(|scope| {
        for seed in 0..THREADS {
            let (engine, table) = (&engine, &table);
            scope.spawn(move || {
                let mut random = Random(seed);
                let mut views: Vec<(Txn<'_>, i64)> = Vec::new();
                for round in 0..3_000 {
                    let (result, _) = engine.run(NORMAL, |txn| {
                        pay(txn, table, 0, 1)?;
                        pay(txn, table, 1, -1)
                    });
                    assert!(result.is_ok_and(|()| true) || engine.stats().conflicts != 0);
                    if random.below(8) == 0 && views.len() < 6 {
                        let txn = engine.begin(NORMAL);
                        let seen = balance(&txn, table, 0).unwrap();
                        views.push((txn, seen));
                    }
                    for (txn, seen) in &views {
                        assert_eq!(balance(txn, table, 0).unwrap(), *seen);
                        assert_eq!(balance(txn, table, 1).unwrap(), 200 - *seen);
                    }
                    if random.below(12) == 0 && !views.is_empty() {
                        views.swap_remove(random.below(views.len() as u64) as usize);
                    }
                    if round % 16 == 0 {
                        engine.collect_garbage(64);
                    }
                }
            });
        }
    });
    assert_clean(&engine);
}

/// 40,000 updates of few rows and of many, while a registered snapshot, a transaction and a session hold an old state: what
/// is in memory is what is live, what they see, and a little.
pub fn an_old_snapshot_keeps_what_it_sees() {
    for rows in [4, 1_000] {
        let (engine, table) = bank_of(rows);
        let snapshot = engine.snapshot();
        let txn = engine.begin(NORMAL);
        assert_eq!(balance(&txn, &table, 0), Some(100));
        let mut session = engine.session(engine::SessionOptions::new(stage::Class::Normal));
        session.begin(NORMAL).unwrap();
        assert_eq!(session.execute(|txn| Ok(balance(txn, &table, 1))).unwrap(), Some(100));
        let mut most = 0;
        for round in 0..40_000 {
            let (result, _) = engine.run(NORMAL, |txn| pay(txn, &table, round % rows, 1));
            result.unwrap();
            if round % 512 == 0 {
                most = most.max(engine.stats().versions);
            }
        }
        assert!(most <= 2 * rows as u64 + 1_000, "{most} versions of {rows} rows");
        assert_eq!(balance(&txn, &table, 0), Some(100));
        assert_eq!(session.execute(|txn| Ok(balance(txn, &table, 1))).unwrap(), Some(100));
        let seen = snapshot.scan(&table, &[BALANCE], 100).split(1).into_iter().flatten();
        let sum: i128 = seen.map(|b| b.column(0).as_primitive::<Decimal128Type>().values().iter().sum::<i128>()).sum();
        assert_eq!(sum, 100 * i128::from(rows));
        engine.collect_garbage(usize::MAX);
        assert_eq!(engine.stats().versions, 2 * rows as u64);
        // The three are of one number, and all are shown with what waits for it.
        let open = engine.transactions();
        assert_eq!(open.len(), 2, "{open:?}");
        let holds = [open[0].holds, open[1].holds, engine.snapshots()[0].holds];
        assert!(holds.iter().all(|holds| holds.versions == rows as u64), "{holds:?}");
        session.commit().unwrap();
        txn.commit().unwrap();
        drop(snapshot);
        assert_clean(&engine);
        assert!(engine.transactions().is_empty() && engine.snapshots().is_empty());
    }
}

/// Goal: the cost of an update hardly depends on the number of open snapshots, each of which keeps something.
pub fn many_snapshots_cost_others_little() {
    let time_of = |snapshots_count: usize| {
        let (engine, table) = bank_of(1);
        let update = || engine.run(NORMAL, |txn| pay(txn, &table, 0, 1)).0.unwrap();
        let snapshots: Vec<_> = (0..snapshots_count).map(|_| (engine.snapshot(), update())).collect();
        (0..2_000).for_each(|_| update());
        let begun = std::time::Instant::now();
        (0..10_000).for_each(|_| update());
        let time = begun.elapsed();
        assert!(engine.stats().versions < snapshots_count as u64 + 1_000);
        drop(snapshots);
        time
    };
    let (few, many) = (time_of(2), time_of(1_000));
    assert!(many < 8 * few, "{many:?} beside 1,000 snapshots, {few:?} beside 2");
}

/// Rows that are inserted and deleted while an old snapshot is held leave nothing: no versions, entries, nodes or ids. So do
/// transactions that abort.
pub fn short_lives_leave_nothing_beside_an_old_snapshot() {
    let (engine, table) = bank_of(10);
    let snapshot = engine.snapshot();
    let old = engine.begin(NORMAL);
    assert_eq!(balance(&old, &table, 3), Some(100));
    let mut levels = Vec::new();
    for round in 0..20_000 {
        let txn = engine.begin(NORMAL);
        let row = open(&txn, &table, 1_000 + round, 1, OWNERS[round as usize % 4]).unwrap();
        txn.commit().unwrap();
        let txn = engine.begin(NORMAL);
        txn.update(&table, row, |row| row.set_text(OWNER, "someone else")).unwrap();
        txn.commit().unwrap();
        let txn = engine.begin(NORMAL);
        txn.delete(&table, row).unwrap();
        txn.commit().unwrap();
        let undone = engine.begin(NORMAL);
        open(&undone, &table, 900_000, 0, "x").unwrap();
        pay(&undone, &table, 1, 5).unwrap();
        undone.abort();
        if round % 4_000 == 3_999 {
            engine.housekeep(10_000);
            levels.push(engine.stats());
        }
    }
    for stats in &levels {
        assert!(stats.versions < 1_500 && stats.index_entries < 1_500, "{stats:?}");
        assert_eq!((stats.row_map_bytes, stats.rows), (levels[0].row_map_bytes, 10));
        assert!(stats.index_nodes <= levels[0].index_nodes + 8);
    }
    assert_eq!(balance(&old, &table, 1), Some(100));
    drop((old, snapshot));
    assert_clean(&engine);
}

/// A queue that goes round for ever: rows come and go at both ends, and ids, map, entries and nodes stay as many as they were.
pub fn a_purged_table_stays_as_it_is() {
    let (engine, table) = bank_of(2_000);
    let mut levels = Vec::new();
    for round in 0..40_000 {
        let (result, _) = engine.run(NORMAL, |txn| {
            txn.delete(&table, row_of(txn, &table, round).unwrap())?;
            open(txn, &table, round + 2_000, 1, OWNERS[round as usize % 4]).map(|_| ())
        });
        result.unwrap();
        if round % 8_000 == 7_999 {
            engine.housekeep(1_000);
            levels.push(engine.stats());
        }
    }
    for stats in &levels {
        assert_eq!((stats.rows, stats.row_map_bytes), (2_000, levels[0].row_map_bytes));
        assert!(stats.versions < 2_500 && stats.index_entries < 2 * 2_500, "{stats:?}");
        assert!(stats.index_nodes <= 2 * levels[0].index_nodes);
    }
    assert_clean(&engine);
}

/// Ids are given out again while others look up, range and scan: nobody ever meets a row that is not what its key says.
pub fn ids_come_back_under_readers() {
    const WINDOW: i32 = 64;
    let (engine, table) = bank();
    let done = AtomicBool::new(false);
    let looks = AtomicU64::new(0);
    // Balance and owner follow from the id.
    let owner = |id: i32| OWNERS[id as usize % 4];
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (engine, table, done, looks) = (&engine, &table, &done, &looks);
            scope.spawn(move || {
                let mut random = Random(thread);
                while !done.load(Relaxed) {
                    let txn = engine.begin(NORMAL);
                    let rows: Vec<_> = txn.range(table, BY_ID, &[], Direction::Forward).unwrap().collect();
                    let ids: Vec<i32> = rows.iter().map(|row| row.get_i32(ID)).collect();
                    assert!(ids.is_sorted() && ids.len() <= 2 * WINDOW as usize);
                    for row in &rows {
                        let id = row.get_i32(ID);
                        assert_eq!((row.get_decimal_i64(BALANCE), row.get_text(OWNER)), (i64::from(id) * 3, owner(id)));
                    }
                    // What was seen is seen again.
                    if !ids.is_empty() {
                        let id = ids[random.below(ids.len() as u64) as usize];
                        assert_eq!(balance(&txn, table, id), Some(i64::from(id) * 3));
                    }
                    let snapshot = engine.snapshot();
                    let mut seen = 0;
                    for batch in snapshot.scan(table, &[ID, BALANCE], 32).split(1).into_iter().flatten() {
                        let ids = batch.column(0).as_primitive::<Int32Type>().values().iter();
                        let balances = batch.column(1).as_primitive::<Decimal128Type>().values().iter();
                        ids.zip(balances).for_each(|(id, balance)| assert_eq!(i128::from(*id) * 3, *balance));
                        seen += batch.num_rows();
                    }
                    assert!(seen <= 2 * WINDOW as usize);
                    looks.fetch_add(1, Relaxed);
                }
            });
        }
        let mut next = 0;
        while next < 40_000 || looks.load(Relaxed) < 200 {
            let (result, _) = engine.run(NORMAL, |txn| {
                open(txn, &table, next, i64::from(next) * 3, owner(next))?;
                if WINDOW <= next {
                    txn.delete(&table, row_of(txn, &table, next - WINDOW).unwrap())?;
                }
                Ok(())
            });
            result.unwrap();
            next += 1;
            if next % 64 == 0 {
                engine.collect_garbage(256);
            }
        }
        done.store(true, Relaxed);
    });
    assert_clean(&engine);
    assert!(engine.stats().row_map_bytes < 1 << 20);
}

/// A row that another transaction takes, commits and prunes, while the loser rests between two calls: the loser's undo finds
/// what it has claimed.
pub fn a_loser_undoes_what_it_claimed() {
    let committed = engine::Begin::new(stage::Class::Low);
    for round in 0..200 {
        let (engine, table) = bank_of(2);
        let old = engine.snapshot();
        let loser = engine.begin(committed);
        // The row is newer than the loser's snapshot, and it claims it all the same: READ COMMITTED.
        let (result, _) = engine.run(NORMAL, |txn| pay(txn, &table, 0, 1));
        result.unwrap();
        pay(&loser, &table, 0, 10).unwrap();
        let mut taker = engine.session(engine::SessionOptions::new(stage::Class::High));
        engine.set_lock_config(engine::LockConfig {
            patience: core::time::Duration::ZERO,
            ..engine::LockConfig::default()
        });
        for _ in 0..3 {
            taker.run(HIGH, |txn| pay(txn, &table, 0, 100)).unwrap();
        }
        engine.collect_garbage(usize::MAX);
        engine.collect_garbage(usize::MAX);
        assert_eq!(pay(&loser, &table, 1, 1), Err(Error::Taken), "round {round}");
        drop(loser);
        assert_eq!(balance_now(&engine, &table, 0), Some(401));
        drop(old);
        assert_clean(&engine);
    }
}
