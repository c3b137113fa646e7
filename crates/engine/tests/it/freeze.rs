//! The freezer, and scans that leave blocks out.

use crate::scans::{accounts, ids_and_sum, scan};
use crate::support::*;
use engine::{
    Column, Comparison, Condition, Engine, EngineConfig, Frozen, IndexDef, Row, RowId, TableDef, Type, Value,
};

/// Freezes whatever rests, however long it must have rested.
pub fn freeze_all(engine: &Engine) -> Frozen {
    let mut sum = Frozen::default();
    for _ in 0..66 {
        loop {
            let frozen = engine.freeze(u64::MAX);
            sum.rows += frozen.rows;
            sum.blocks += frozen.blocks;
            sum.looked += frozen.looked;
            if frozen.ended {
                break;
            }
        }
    }
    sum
}

fn collect_all(engine: &Engine) {
    while 0 < engine.collect_garbage(usize::MAX) {}
}

fn sorted_ids_and_sum(engine: &Engine, table: &std::sync::Arc<engine::Table>) -> (Vec<i32>, i128) {
    let (mut ids, sum) = ids_and_sum(&scan(&engine.snapshot(), table, &[ID, BALANCE], 2));
    ids.sort_unstable();
    (ids, sum)
}

/// Rows that rest become a block: their memory goes, they read and scan as before, and take writes as before. Those of
/// the chunk that is still being filled stay.
pub fn rows_at_rest_are_frozen() {
    let (engine, table) = bank();
    let old = engine.begin(NORMAL);
    let txn = engine.begin(NORMAL);
    for id in 0..10_000 {
        open(&txn, &table, id, 100, "nobody").unwrap();
    }
    txn.commit().unwrap();
    assert_eq!(freeze_all(&engine).rows, 0, "a snapshot is older than the rows");
    assert_eq!(balance(&old, &table, 0), None);
    drop(old);
    assert_eq!(engine.freeze(u64::MAX).rows, 0, "rows must rest first");
    assert_eq!(freeze_all(&engine).rows, 8_192);
    assert_eq!((engine.stats().frozen, engine.stats().blocks), (8_192, 1));
    collect_all(&engine);
    assert_eq!(engine.stats().versions, 10_000 - 8_192);
    assert_eq!(sorted_ids_and_sum(&engine, &table), ((0..10_000).collect(), 1_000_000));
    let batches = scan(&engine.snapshot(), &table, &[ID], 1);
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).max(), Some(1_000));
    let txn = engine.begin(NORMAL);
    assert_eq!((balance(&txn, &table, 0), balance(&txn, &table, 8_191)), (Some(100), Some(100)));
    assert_eq!(ids_of(&txn, &table, "nobody").len(), 10_000);
    pay(&txn, &table, 4_000, 5).unwrap();
    txn.delete(&table, row_of(&txn, &table, 4_001).unwrap()).unwrap();
    txn.commit().unwrap();
    assert_eq!(sorted_ids_and_sum(&engine, &table), ((0..10_000).filter(|id| *id != 4_001).collect(), 999_905));
}

/// A snapshot that stays open keeps the hot version of each row that is frozen meanwhile, so not many are; the others follow
/// when it has ended.
pub fn a_snapshot_that_stays_open_stops_the_freezer() {
    const COUNT: i32 = 128 * 1_024;
    let (engine, table) = bank_of(COUNT);
    let old = engine.begin(NORMAL);
    for _ in 0..10 {
        // So that the snapshot is not the newest.
        let (result, _) = engine.run(NORMAL, |txn| pay(txn, &table, COUNT - 1, 1));
        result.unwrap();
        freeze_all(&engine);
        engine.collect_garbage(usize::MAX);
    }
    let stats = engine.stats();
    assert!(stats.frozen <= 32_768, "{stats:?}");
    assert_eq!(balance(&old, &table, 7), Some(100));
    drop(old);
    for _ in 0..20 {
        freeze_all(&engine);
        collect_all(&engine);
    }
    assert!(120 * 1_024 <= engine.stats().frozen, "{:?}", engine.stats());
}

/// Blocks of which many rows have thawed are made anew; of those that stay hot the rest is made anew; what is deleted
/// leaves no block. Keys that moved are found where they are, and only there.
pub fn worn_blocks_are_made_anew() {
    const COUNT: i32 = 2 * 4_096;
    let (engine, table) = bank();
    engine.bulk_load(&table, [accounts(0..COUNT)]).unwrap();
    freeze_all(&engine);
    assert_eq!(engine.stats().blocks, 1);
    // A few rows thaw: not worth it.
    let change = |ids: std::ops::Range<i32>, by: i64| {
        let txn = engine.begin(NORMAL);
        ids.for_each(|id| pay(&txn, &table, id, by).unwrap());
        txn.commit().unwrap();
    };
    change(0..10, 1);
    assert_eq!(freeze_all(&engine).rows, 0);
    // More, one of them with another key, and they rest.
    change(10..500, 1);
    let txn = engine.begin(NORMAL);
    let moved = row_of(&txn, &table, 600).unwrap();
    txn.update(&table, moved, |row| row.set_i32(ID, 10_600)).unwrap();
    txn.commit().unwrap();
    let before = engine.snapshot();
    assert_eq!(freeze_all(&engine).rows, 501);
    assert_eq!((engine.stats().frozen, engine.stats().thawed), (501, 501));
    collect_all(&engine);
    let txn = engine.begin(NORMAL);
    assert_eq!([3, 499, 600, 10_600].map(|id| balance(&txn, &table, id)), [Some(101), Some(101), None, Some(100)]);
    assert_eq!(txn.get_row(&table, moved).unwrap().unwrap().get_i32(ID), 10_600);
    open(&txn, &table, 600, 1, "x").unwrap();
    txn.abort();
    assert_eq!(ids_and_sum(&scan(&before, &table, &[ID, BALANCE], 3)).1, 819_200 + 500);
    drop(before);
    collect_all(&engine);
    freeze_all(&engine);
    let stats = engine.stats();
    assert_eq!((stats.blocks, stats.versions), (1, 0));
    assert_eq!(sorted_ids_and_sum(&engine, &table).1, 819_200 + 500);
    // Most of it is hot, and goes on being written: the block is made anew from the others.
    let open_txn = engine.begin(NORMAL);
    change(1_000..6_000, 1);
    let frozen = freeze_all(&engine);
    assert_eq!((frozen.rows, frozen.blocks), (0, 1));
    drop(open_txn);
    let (ids, sum) = sorted_ids_and_sum(&engine, &table);
    assert!(ids.into_iter().eq((0..COUNT).filter(|id| *id != 600).chain([10_600])));
    assert_eq!(sum, 819_200 + 5_500);
    // All is deleted: no block is left, and no row comes back.
    let txn = engine.begin(NORMAL);
    for row in 0..COUNT as u64 {
        txn.delete(&table, engine::RowId(row)).unwrap();
    }
    txn.commit().unwrap();
    collect_all(&engine);
    freeze_all(&engine);
    freeze_all(&engine);
    let stats = engine.stats();
    assert_eq!((stats.blocks, stats.block_bytes, stats.versions, stats.index_entries), (0, 0, 0, 0));
    assert_eq!(sorted_ids_and_sum(&engine, &table), (Vec::new(), 0));
}

/// Goal: where frozen rows thaw again and again the freezer waits longer; where they do not it does not.
pub fn rows_that_thaw_rest_longer() {
    let (engine, table) = bank_of(8_192);
    let (calm, calm_table) = bank_of(8_192);
    let mut passes_until_frozen = Vec::new();
    for round in 0..4 {
        let mut passes = 0;
        while engine.freeze(u64::MAX).rows == 0 {
            passes += 1;
            assert!(passes < 70, "round {round}");
        }
        passes_until_frozen.push(passes);
        let txn = engine.begin(NORMAL);
        (0..8_192).for_each(|id| pay(&txn, &table, id, 1).unwrap());
        txn.commit().unwrap();
    }
    assert_eq!(passes_until_frozen[0], 2);
    assert!(passes_until_frozen.is_sorted() && 8 <= passes_until_frozen[3], "{passes_until_frozen:?}");
    for round in 1..5 {
        assert_eq!(freeze_all(&calm).rows, 8_192 * u64::from(round == 1));
        let txn = calm.begin(NORMAL);
        (0..round * 10).for_each(|id| pay(&txn, &calm_table, id, 1).unwrap());
        txn.commit().unwrap();
    }
    let txn = calm.begin(NORMAL);
    for id in 10_000..14_096 {
        open(&txn, &calm_table, id, 1, "late").unwrap();
    }
    txn.commit().unwrap();
    assert_eq!((0..3).map(|_| calm.freeze(u64::MAX).rows).collect::<Vec<_>>(), [0, 0, 4_096]);
}

/// Goal: the remains of a failed load in memory go too, and the next load is frozen rows like any.
pub fn failed_loads_leave_no_blocks() {
    let (engine, table) = bank_of(10);
    for _ in 0..3 {
        assert!(engine.bulk_load(&table, [accounts(100..5_000), accounts(9..300)]).is_err());
    }
    assert_eq!(engine.stats().blocks, 6);
    freeze_all(&engine);
    assert_eq!((engine.stats().blocks, engine.stats().block_bytes), (0, 0));
    let old = engine.begin(NORMAL);
    engine.bulk_load(&table, [accounts(100..5_000)]).unwrap();
    freeze_all(&engine);
    assert_eq!((engine.stats().blocks, sorted_ids_and_sum(&engine, &table).0.len()), (1, 4_910));
    // A transaction from before the load does not see its rows, and cannot change them.
    let row = row_of(&engine.begin(NORMAL), &table, 150).unwrap();
    assert!(old.get_row(&table, row).unwrap().is_none());
    assert!(matches!(old.delete(&table, row), Err(engine::Error::WriteConflict { .. })));
    drop(old);
    assert_eq!(balance_now(&engine, &table, 150), Some(100));
}

/// Blocks that cannot have a wanted row are left out, and only those: rows that thawed and got a wanted value are there.
pub fn scans_leave_blocks_out() {
    let (engine, table) = bank();
    engine.bulk_load(&table, (0..10).map(|n| accounts(n * 5_000..(n + 1) * 5_000))).unwrap();
    let wanted = |conditions: &[Condition]| {
        let before = engine.stats();
        let scan = engine.snapshot().scan_where(&table, &[ID, BALANCE, OWNER], conditions, 1_000).unwrap();
        let batches: Vec<_> = scan.split(1).into_iter().flatten().collect();
        let after = engine.stats();
        let counts = (after.blocks_scanned - before.blocks_scanned, after.blocks_skipped - before.blocks_skipped);
        (ids_and_sum(&batches).0, counts)
    };
    let below = Condition::compare(ID, Comparison::Less, Value::Int32(7_000));
    let (ids, counts) = wanted(std::slice::from_ref(&below));
    assert!(ids.into_iter().eq(0..10_000));
    assert_eq!(counts, (2, 8));
    let from = Condition::compare(ID, Comparison::GreaterOrEqual, Value::Int32(5_000));
    assert_eq!(wanted(&[below.clone(), from]).1, (1, 9));
    assert_eq!(wanted(&[Condition::compare(OWNER, Comparison::Equal, Value::Text("c"))]).1, (0, 10));
    assert_eq!(wanted(&[Condition::compare(OWNER, Comparison::Equal, Value::Text("block"))]).1, (10, 0));
    assert_eq!(wanted(&[Condition::is_null(OWNER)]).1, (10, 0));
    assert_eq!(wanted(&[Condition::is_null(ID)]).1, (0, 10));
    // A row of a block that is left out gets a wanted value: first hot, then frozen.
    let txn = engine.begin(NORMAL);
    txn.update(&table, row_of(&txn, &table, 30_000).unwrap(), |row| row.set_i32(ID, -5)).unwrap();
    txn.commit().unwrap();
    let (ids, counts) = wanted(std::slice::from_ref(&below));
    assert!(ids.into_iter().eq((0..10_000).chain([-5])));
    assert_eq!(counts, (2, 8));
    let txn = engine.begin(NORMAL);
    (30_001..30_200).for_each(|id| pay(&txn, &table, id, 1).unwrap());
    txn.commit().unwrap();
    freeze_all(&engine);
    let (ids, counts) = wanted(&[below]);
    assert!(ids.into_iter().eq((0..10_000).chain([-5]).chain(30_001..35_000)));
    assert_eq!(counts, (3, 7));
    let text = Condition::compare(ID, Comparison::Equal, Value::Text("x"));
    assert!(engine.snapshot().scan_where(&table, &[], &[text], 1).is_err());
}

/// Lists every type.
pub fn kinds() -> [Type; 11] {
    [
        Type::Bool,
        Type::Int16,
        Type::Int32,
        Type::Int64,
        Type::Float64,
        MONEY,
        Type::Decimal { precision: 38, scale: 4 },
        Type::Text,
        Type::Bytes,
        Type::Date,
        Type::Timestamp,
    ]
}

const TEXTS: [&str; 4] = ["", "\0", "short", "a text that does not fit a view"];
const FLOATS: [f64; 4] = [-0.5, 0.0, f64::INFINITY, f64::NAN];

/// A row of each type, a fifth of it nulls.
pub fn row(n: i64) -> Vec<Value<'static>> {
    let few = (n % 4) as usize;
    let mut values = vec![
        Value::Bool(n % 2 == 0),
        Value::Int16(n as i16),
        Value::Int32(-(n as i32)),
        Value::Int64(n << 40),
        Value::Float64(FLOATS[few]),
        Value::Decimal(i128::from(n) - 50),
        Value::Decimal(i128::from(n) << 80),
        Value::Text(TEXTS[few]),
        Value::Bytes(TEXTS[few].as_bytes()),
        Value::Date(n as i32),
        Value::Timestamp(-n),
    ];
    (0..11).filter(|column| (n + column) % 5 == 0).for_each(|column| values[column as usize] = Value::Null);
    values
}

/// Rows of all types with nulls read, scan and sort the same hot, frozen, thawed and frozen again; no block that has a
/// wanted row is left out, whatever the type.
pub fn all_types_are_equal_hot_and_frozen() {
    const COUNT: i64 = 4_096;
    let engine = Engine::new(EngineConfig::in_memory());
    let columns = kinds().iter().enumerate().map(|(n, kind)| Column::nullable(&format!("c{n}"), *kind)).collect();
    let mut indexes: Vec<IndexDef> = (0..11).map(|column| IndexDef::plain(&format!("i{column}"), &[column])).collect();
    indexes.push(IndexDef::plain("all", &[4, 0, 8, 7, 1, 6, 5, 10, 9, 2, 3]));
    let table = engine.create_table(TableDef { name: "t".to_owned(), columns, indexes }).unwrap();
    let txn = engine.begin(NORMAL);
    for n in 0..COUNT {
        txn.insert(&table, &row(n)).unwrap();
    }
    txn.commit().unwrap();
    let all: Vec<usize> = (0..11).collect();
    let look = || {
        let batches = scan(&engine.snapshot(), &table, &all, 1);
        let scanned = arrow_select::concat::concat_batches(table.schema(), &batches).unwrap();
        let txn = engine.begin(NORMAL);
        let rows: Vec<Vec<Row<'_>>> =
            (0..12).map(|index| txn.range(&table, index, &[], engine::Direction::Forward).unwrap().collect()).collect();
        let orders: Vec<Vec<u64>> = rows.iter().map(|rows| rows.iter().map(|row| row.row_id().0).collect()).collect();
        for row in &rows[11] {
            let values: Vec<Value<'_>> = all.iter().map(|column| row.get(*column)).collect();
            assert_eq!(values, self::row(row.row_id().0 as i64));
        }
        (scanned, orders)
    };
    let hot = look();
    assert_eq!(hot.0.num_rows(), COUNT as usize);
    assert_eq!(freeze_all(&engine).rows, COUNT as u64);
    assert!(look() == hot);
    // Every row gets the values of its neighbour, and its own again.
    for shift in [1, 0] {
        let txn = engine.begin(NORMAL);
        for n in 0..COUNT {
            txn.update(&table, RowId(n as u64), |patch| {
                row((n + shift) % COUNT).iter().enumerate().for_each(|(column, value)| patch.set(column, *value));
            })
            .unwrap();
        }
        txn.commit().unwrap();
        if shift == 1 {
            assert_eq!(freeze_all(&engine).rows, COUNT as u64);
            let scanned = scan(&engine.snapshot(), &table, &all, 1);
            assert_eq!(scanned[0].slice(0, 500), hot.0.slice(1, 500));
        }
    }
    assert_eq!(look().1, hot.1);
    freeze_all(&engine);
    collect_all(&engine);
    assert!(look() == hot);
    // A scan with a condition has all rows that satisfy it.
    let rows: Vec<_> = (0..COUNT).map(row).collect();
    for (column, kind) in kinds().iter().enumerate() {
        for n in 0..8 {
            use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
            let constant = row(n)[column];
            let comparisons = [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual];
            let mut conditions =
                comparisons.map(|comparison| Condition::compare(column, comparison, constant)).to_vec();
            conditions.extend([Condition::is_null(column), Condition::is_not_null(column)]);
            for condition in conditions {
                let scan = engine.snapshot().scan_where(&table, &[], std::slice::from_ref(&condition), 8_192).unwrap();
                let found: usize = scan.split(1).into_iter().flatten().map(|batch| batch.num_rows()).sum();
                let wanted = rows.iter().filter(|row| condition.holds(row[column])).count();
                assert!(wanted <= found, "{condition:?} of {kind:?}: {found} rows, not {wanted}");
            }
        }
    }
}

/// A table without columns has rows like any other: hot and frozen ones, which are scanned, deleted and counted.
pub fn rows_without_columns_are_rows() {
    let engine = Engine::new(EngineConfig::in_memory());
    let table =
        engine.create_table(TableDef { name: "empty".to_owned(), columns: Vec::new(), indexes: Vec::new() }).unwrap();
    let count = || {
        let parts = engine.snapshot().scan(&table, &[], 1000).split(2);
        parts.into_iter().flatten().map(|batch| batch.num_rows()).sum::<usize>()
    };
    let txn = engine.begin(NORMAL);
    let rows: Vec<RowId> = (0..10_000).map(|_| txn.insert(&table, &[]).unwrap()).collect();
    txn.commit().unwrap();
    assert_eq!(count(), 10_000);
    assert!(0 < freeze_all(&engine).rows);
    assert_eq!(count(), 10_000);
    let txn = engine.begin(NORMAL);
    for row in &rows[..10] {
        assert!(txn.get_row(&table, *row).unwrap().is_some());
        txn.delete(&table, *row).unwrap();
    }
    txn.commit().unwrap();
    assert_eq!(count(), 9_990);
    collect_all(&engine);
    freeze_all(&engine);
    assert_eq!(count(), 9_990);
}
