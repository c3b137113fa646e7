//! Rows through thick and thin: inserted, changed, deleted, frozen, thawed and made anew, against a model, while
//! snapshots of different ages look.

use crate::freeze::freeze_all;
use crate::scans::accounts;
use crate::support::*;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int32Type};
use arrow_array::{Array, RecordBatch};
use engine::{Engine, Error, Row, Snapshot, Table, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Content of a row, for the rows by their key.
type Account = (i64, Option<String>);
type Model = BTreeMap<i32, Account>;

const OWNERS: [&str; 3] = ["ann", "bob", "somebody whose name does not fit into a view"];

/// Returns the rows of a scan in `parts` parts. A row that is there twice is an error.
fn scanned(snapshot: &Arc<Snapshot>, table: &Arc<Table>, parts: usize) -> Model {
    let mut model = Model::new();
    for batch in snapshot.scan(table, &[ID, BALANCE, OWNER], 1_000).split(parts).into_iter().flatten() {
        assert!(0 < batch.num_rows() && batch.num_rows() <= 1_000);
        add_rows(&batch, &mut model);
    }
    model
}

fn add_rows(batch: &RecordBatch, model: &mut Model) {
    let ids = batch.column(0).as_primitive::<Int32Type>();
    let balances = batch.column(1).as_primitive::<Decimal128Type>();
    let owners = batch.column(2).as_string_view();
    for at in 0..batch.num_rows() {
        let owner = owners.is_valid(at).then(|| owners.value(at).to_owned());
        let before = model.insert(ids.value(at), (balances.value(at) as i64, owner));
        assert!(before.is_none(), "{} was scanned twice", ids.value(at));
    }
}

fn account(row: Row<'_>) -> Account {
    (row.get_decimal_i64(BALANCE), (!row.is_null(OWNER)).then(|| row.get_text(OWNER).to_owned()))
}

/// Asserts that the engine's state now is the model's: by scan, by key, by range.
fn assert_equals(engine: &Engine, table: &Arc<Table>, model: &Model, random: &mut Random) {
    assert!(scanned(&engine.snapshot(), table, 2) == *model);
    let txn = engine.begin(NORMAL);
    for _ in 0..100 {
        let id = random.below(12_000) as i32;
        let row = txn.get(table, BY_ID, &[Value::Int32(id)]).unwrap();
        assert_eq!(row.map(account).as_ref(), model.get(&id), "account {id}");
        if let Some(row) = row {
            assert_eq!(txn.get_row(table, row.row_id()).unwrap().map(account), Some(account(row)));
        }
    }
    for owner in OWNERS {
        let mut ids = ids_of(&txn, table, owner);
        ids.sort_unstable();
        let of_owner = model.iter().filter(|(_, account)| account.1.as_deref() == Some(owner)).map(|(id, _)| *id);
        assert!(ids.into_iter().eq(of_owner), "accounts of {owner}");
    }
}

/// Makes one random change of an account from `first` on, in the transaction and in the model.
fn change(txn: &engine::Txn<'_>, table: &Table, model: &mut Model, random: &mut Random, first: i32) {
    let id = first + random.below(3_000) as i32;
    let owner = OWNERS[random.below(3) as usize];
    let owner_value = if random.below(4) == 0 { None } else { Some(owner) };
    let balance = random.below(1_000) as i64;
    let found = txn.get(table, BY_ID, &[Value::Int32(id)]).unwrap().map(|row| (row.row_id(), account(row)));
    assert_eq!(found.as_ref().map(|(_, account)| account), model.get(&id));
    match (found, random.below(4)) {
        (None, _) => {
            let owner = owner_value.map_or(Value::Null, Value::Text);
            txn.insert(table, &[Value::Int32(id), Value::Decimal(balance.into()), owner]).unwrap();
            model.insert(id, (balance, owner_value.map(str::to_owned)));
        }
        (Some((row, _)), 0) => {
            txn.delete(table, row).unwrap();
            model.remove(&id);
        }
        (Some((row, mut account)), 1) => {
            // Another key, if nobody has it.
            let other = first + random.below(3_000) as i32;
            let result = txn.update(table, row, |row| {
                row.set_i32(ID, other);
                row.set_decimal_i64(BALANCE, balance);
            });
            if other != id && model.contains_key(&other) {
                assert!(matches!(result, Err(Error::UniqueViolation { .. })));
            } else {
                result.unwrap();
                model.remove(&id);
                account.0 = balance;
                model.insert(other, account);
            }
        }
        (Some((row, mut account)), _) => {
            txn.update(table, row, |row| match owner_value {
                None => row.set_null(OWNER),
                Some(owner) => row.set_text(OWNER, owner),
            })
            .unwrap();
            account.1 = owner_value.map(str::to_owned);
            model.insert(id, account);
        }
    }
}

/// Random changes, some undone, between passes of the freezer and the garbage collector; snapshots of different ages go
/// on seeing what they saw, and in the end nothing is left of what is gone.
pub fn random_changes_equal_the_model() {
    let mut random = Random(42);
    let (engine, table) = bank();
    let mut model = Model::new();
    engine.bulk_load(&table, [accounts(0..4_500)]).unwrap();
    for id in 0..4_500 {
        model.insert(id, (100, (id % 10 != 0).then(|| "block".to_owned())));
    }
    let txn = engine.begin(NORMAL);
    for id in 4_500..11_000 {
        open(&txn, &table, id, 100, "ann").unwrap();
        model.insert(id, (100, Some("ann".to_owned())));
    }
    txn.commit().unwrap();
    let mut snapshots: Vec<(Arc<Snapshot>, Model)> = Vec::new();
    for round in 0..40 {
        // Eight rounds are about one part of the accounts; at the end of them others have come to rest.
        let transactions = if round % 8 < 2 { 60 } else { 4 };
        for _ in 0..transactions {
            let txn = engine.begin(NORMAL);
            let mut changed = model.clone();
            for _ in 0..1 + random.below(20) {
                change(&txn, &table, &mut changed, &mut random, round / 8 % 4 * 3_000);
            }
            if random.below(4) == 0 {
                txn.abort();
            } else {
                txn.commit().unwrap();
                model = changed;
            }
        }
        engine.freeze(u64::MAX);
        engine.collect_garbage(random.below(10_000) as usize);
        match snapshots.len() {
            _ if round % 8 == 5 => snapshots.clear(),
            3.. => drop(snapshots.remove(random.below(3) as usize)),
            _ => {}
        }
        if round % 3 == 0 {
            snapshots.push((engine.snapshot(), model.clone()));
        }
        if round % 4 == 3 {
            assert_equals(&engine, &table, &model, &mut random);
            snapshots.iter().for_each(|(snapshot, model)| assert!(scanned(snapshot, &table, 3) == *model));
        }
    }
    snapshots.clear();
    let stats = engine.stats();
    assert!(5_000 < stats.frozen && 1_000 < stats.thawed, "{stats:?}");
    for _ in 0..3 {
        while 0 < engine.collect_garbage(usize::MAX) {}
        freeze_all(&engine);
    }
    while 0 < engine.collect_garbage(usize::MAX) {}
    assert_equals(&engine, &table, &model, &mut random);
    let stats = engine.stats();
    assert_eq!((stats.versions_dead, stats.index_entries), (0, 2 * model.len() as u64), "{stats:?}");
}

const PAIRS: i32 = 4_200;

/// Moves money within random pairs of accounts; now and then an account's row is deleted and inserted again. Two
/// accounts of a pair always have 200 together.
fn move_money(engine: &Engine, table: &Table, random: &mut Random, hot: u64) {
    let first = 2 * random.below(hot) as i32;
    let amount = 1 + random.below(10) as i64;
    let replace = random.below(4) == 0;
    let (result, _) = engine.run(NORMAL, |txn| {
        pay(txn, table, first, -amount)?;
        if replace {
            let row = txn.get(table, BY_ID, &[Value::Int32(first + 1)])?.expect("a pair has two");
            let balance = row.get_decimal_i64(BALANCE);
            txn.delete(table, row.row_id())?;
            return open(txn, table, first + 1, balance + amount, "again").map(|_| ());
        }
        pay(txn, table, first + 1, amount)
    });
    assert!(matches!(result, Ok(()) | Err(Error::WriteConflict { .. } | Error::Taken)), "{result:?}");
}

fn assert_pairs(model: &Model) {
    assert_eq!(model.len(), 2 * PAIRS as usize);
    for first in (0..2 * PAIRS).step_by(2) {
        assert_eq!(model[&first].0 + model[&(first + 1)].0, 200, "pair {first}");
    }
}

/// Two threads change rows, one freezes and collects, one scans and reads by key: every snapshot sees whole pairs, and the
/// same however often it looks.
pub fn pairs_stay_together_while_rows_move() {
    let (engine, table) = bank();
    engine.bulk_load(&table, [accounts(0..5_000)]).unwrap();
    let txn = engine.begin(NORMAL);
    for id in 5_000..2 * PAIRS {
        open(&txn, &table, id, 100, "nobody").unwrap();
    }
    txn.commit().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (engine, table, done) = (&engine, &table, &done);
        let movers: Vec<_> = (0..2)
            .map(|seed| {
                scope.spawn(move || {
                    let mut random = Random(seed);
                    for round in 0.. {
                        // Most rounds are about few rows, so that others come to rest.
                        let hot = if round % 20 == 0 { PAIRS as u64 } else { 50 };
                        (0..50).for_each(|_| move_money(engine, table, &mut random, hot));
                        let stats = engine.stats();
                        if 60 <= round && 5_000 < stats.frozen && 2_000 < stats.thawed {
                            break;
                        }
                    }
                })
            })
            .collect();
        scope.spawn(move || {
            while !done.load(Relaxed) {
                engine.freeze(u64::MAX);
                engine.collect_garbage(1_000);
            }
        });
        scope.spawn(move || {
            let mut random = Random(7);
            while !done.load(Relaxed) {
                let txn = engine.begin(NORMAL);
                for _ in 0..200 {
                    let first = 2 * random.below(PAIRS as u64) as i32;
                    let pair = [first, first + 1].map(|id| balance(&txn, table, id));
                    let [Some(one), Some(other)] = pair else { panic!("pair {first}: {pair:?}") };
                    assert_eq!(one + other, 200, "pair {first}");
                    let row = row_of(&txn, table, first).unwrap();
                    assert_eq!(txn.get_row(table, row).unwrap().map(|row| row.get_i32(ID)), Some(first));
                }
            }
        });
        let mut old: Option<(Arc<Snapshot>, Model)> = None;
        loop {
            let end = movers.iter().all(|mover| mover.is_finished());
            let snapshot = engine.snapshot();
            let seen = scanned(&snapshot, table, 2);
            assert_pairs(&seen);
            match &old {
                Some((snapshot, before)) => {
                    assert!(scanned(snapshot, table, 3) == *before, "a snapshot changed");
                    old = None;
                }
                None => old = Some((snapshot, seen)),
            }
            if end {
                break;
            }
        }
        done.store(true, Relaxed);
    });
}
