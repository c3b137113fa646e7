//! Two threads and no mercy.

use crate::support::*;
use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use engine::{Engine, Table};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const ACCOUNTS: u64 = 200;
const TOTAL: i128 = 100 * ACCOUNTS as i128;

/// Moves money between random accounts, now and then deleting an account's row and inserting it again.
fn transfer(engine: &Engine, table: &Table, random: &mut Random) -> u32 {
    let (from, to) = (random.below(ACCOUNTS) as i32, random.below(ACCOUNTS) as i32);
    let amount = random.below(50) as i64;
    let reopen = random.below(8) == 0;
    let (result, retries) = engine.run(NORMAL, |txn| {
        pay(txn, table, from, -amount)?;
        if reopen {
            let left = balance(txn, table, from).expect("it was paid from");
            txn.delete(table, row_of(txn, table, from).expect("it was paid from"))?;
            open(txn, table, from, left, "reopened")?;
        }
        pay(txn, table, to, amount)
    });
    match result {
        Ok(()) => {}
        Err(error) => assert!(error.is_retryable(), "{error}"),
    }
    retries
}

fn total(engine: &Engine, table: &Arc<Table>) -> (usize, i128) {
    let snapshot = engine.snapshot();
    let parts = snapshot.scan(table, &[BALANCE], 64).split(3);
    parts.into_iter().flatten().fold((0, 0), |(rows, sum), batch| {
        let balances = batch.column(0).as_primitive::<Decimal128Type>().values();
        (rows + balances.len(), sum + balances.iter().sum::<i128>())
    })
}

/// The total, by a scan and by key.
fn look(engine: &Engine, table: &Arc<Table>) {
    assert_eq!(total(engine, table), (ACCOUNTS as usize, TOTAL));
    let txn = engine.begin(NORMAL);
    let sum: i128 = (0..ACCOUNTS as i32).map(|id| i128::from(balance(&txn, table, id).unwrap())).sum();
    assert_eq!(sum, TOTAL);
}

/// Money is neither made nor lost: every scan and every reader by key sees the same total, while two threads transfer,
/// delete and reopen. Afterwards the garbage is gone and the indexes agree with the rows.
pub fn money_is_conserved() {
    const TRANSFERS: u64 = 150_000;
    let (engine, table) = bank_of(ACCOUNTS as i32);
    let scans = AtomicU64::new(0);
    let work = |seed: u64| {
        let mut random = Random(seed);
        let mut retries = 0;
        for round in 0..TRANSFERS {
            retries += u64::from(transfer(&engine, &table, &mut random));
            if round % 64 == 0 {
                look(&engine, &table);
                scans.fetch_add(1, Relaxed);
            }
        }
        println!("{retries} retries in {TRANSFERS} transfers");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| work(1));
        work(2);
    });
    println!("{} scans", scans.load(Relaxed));
    assert_eq!(total(&engine, &table), (ACCOUNTS as usize, TOTAL));
    for _ in 0..3 {
        engine.collect_garbage(usize::MAX);
    }
    let stats = engine.stats();
    assert_eq!((stats.versions, stats.versions_dead), (ACCOUNTS, 0));
    assert_eq!(stats.index_entries, 2 * ACCOUNTS);
}
