//! Blocks, hot rows, and scans over both.

use crate::support::*;
use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal128Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{
    Array, ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringArray, StringViewArray,
    TimestampMicrosecondArray,
};
use arrow_schema::{DataType, Schema};
use engine::{Column, Engine, EngineConfig, Error, IndexDef, Sample, Snapshot, Table, TableDef, Type, Value};
use std::sync::Arc;

/// Accounts as a batch: 100 each, every tenth of nobody.
pub fn accounts(ids: std::ops::Range<i32>) -> RecordBatch {
    let count = ids.len();
    let balances = Decimal128Array::from(vec![100; count]).with_precision_and_scale(12, 2).unwrap();
    let owners: StringViewArray = ids.clone().map(|id| (id % 10 != 0).then_some("block")).collect();
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int32Array::from_iter_values(ids)), Arc::new(balances), Arc::new(owners)];
    let (_engine, table) = bank();
    RecordBatch::try_new(table.schema().clone(), columns).unwrap()
}

pub fn scan(snapshot: &Arc<Snapshot>, table: &Arc<Table>, projection: &[usize], parts: usize) -> Vec<RecordBatch> {
    snapshot.scan(table, projection, 1_000).split(parts).into_iter().flatten().collect()
}

pub fn ids_and_sum(batches: &[RecordBatch]) -> (Vec<i32>, i128) {
    let ids = batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int32Type>().values().to_vec());
    let sums =
        batches.iter().map(|batch| batch.column(1).as_primitive::<Decimal128Type>().values().iter().sum::<i128>());
    (ids.collect(), sums.sum())
}

/// Blocks and hot rows come in one scan, however it is split, as of the snapshot: no later insert, update or load.
pub fn a_snapshot_scans_blocks_and_hot_rows() {
    let (engine, table) = bank_of(2_500);
    assert_eq!(engine.bulk_load(&table, [accounts(10_000..15_000), accounts(15_000..15_001)]).unwrap(), 5_001);
    let txn = engine.begin(NORMAL);
    open(&txn, &table, 20_000, 7, "late").unwrap();
    txn.commit().unwrap();
    let snapshot = engine.snapshot();
    let txn = engine.begin(NORMAL);
    pay(&txn, &table, 3, 1_000).unwrap();
    txn.delete(&table, row_of(&txn, &table, 4).unwrap()).unwrap();
    open(&txn, &table, 20_001, 7, "later").unwrap();
    txn.commit().unwrap();
    let pending = engine.begin(NORMAL);
    pay(&pending, &table, 5, 1_000).unwrap();
    engine.bulk_load(&table, [accounts(30_000..30_100)]).unwrap();
    // The late one has an id that was handed out before the load.
    let expected: Vec<i32> = (0..2_500).chain([20_000]).chain(10_000..15_001).collect();
    for parts in [1, 2, 3, 7, 100] {
        let batches = scan(&snapshot, &table, &[ID, BALANCE, OWNER], parts);
        assert!(batches.iter().all(|batch| 0 < batch.num_rows() && batch.num_rows() <= 1_000));
        assert_eq!(ids_and_sum(&batches), (expected.clone(), 100 * 7_501 + 7), "{parts} parts");
        let nulls: usize = batches.iter().map(|batch| batch.column(2).null_count()).sum();
        assert_eq!(nulls, 501);
    }
    let rows: usize = scan(&snapshot, &table, &[], 2).iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, expected.len());
    drop(pending);
    let now = scan(&engine.snapshot(), &table, &[ID, BALANCE], 2);
    let (ids, sum) = ids_and_sum(&now);
    assert_eq!(ids.len(), expected.len() + 1 - 1 + 100);
    assert_eq!(sum, 100 * 7_501 + 7 + 1_000 - 100 + 7 + 100 * 100);
}

/// Blocks of a load that comes in slices of larger arrays count what they hold, not the whole arrays each.
pub fn slices_of_arrays_count_once() {
    let (engine, table) = bank();
    let whole = accounts(0..10_000);
    engine.bulk_load(&table, (0..10).map(|at| whole.slice(at * 1_000, 1_000))).unwrap();
    let bytes = engine.stats().block_bytes;
    assert!((360_000..480_000).contains(&bytes), "{bytes} bytes of 10,000 rows of 36");
}

/// A scan may come in batches without a bound: each block is one, and its hot rows another.
pub fn a_scan_comes_in_batches_without_a_bound() {
    let (engine, table) = bank();
    engine.bulk_load(&table, [accounts(0..5_000), accounts(5_000..10_000)]).unwrap();
    let txn = engine.begin(NORMAL);
    (4_000..6_000).for_each(|id| pay(&txn, &table, id, 1).unwrap());
    txn.commit().unwrap();
    for parts in [1, 2] {
        let scan = engine.snapshot().scan(&table, &[ID, BALANCE], usize::MAX);
        let batches: Vec<_> = scan.split(parts).into_iter().flatten().collect();
        let (ids, sum) = ids_and_sum(&batches);
        assert_eq!((ids.len(), sum, batches.len()), (10_000, 1_002_000, 4));
    }
}

/// A row that no image could hold is not loaded: it could neither be updated nor deleted.
pub fn a_row_that_is_too_wide_is_not_loaded() {
    let (engine, table) = bank();
    let load = |bytes: usize| {
        let [id, balance] = [ID, BALANCE].map(|column| accounts(0..1).column(column).clone());
        let owner: ArrayRef = Arc::new(StringViewArray::from(vec!["x".repeat(bytes)]));
        engine.bulk_load(&table, [RecordBatch::try_new(table.schema().clone(), vec![id, balance, owner]).unwrap()])
    };
    assert!(matches!(load(16 << 20), Err(Error::InvalidValue { .. })));
    load((16 << 20) - 100).unwrap();
    let txn = engine.begin(NORMAL);
    txn.delete(&table, row_of(&txn, &table, 0).unwrap()).unwrap();
    txn.commit().unwrap();
}

/// A sample has rows from all over the table, of blocks and hot, as its snapshot sees them; with room for all it has all.
pub fn a_sample_is_spread_evenly() {
    let (engine, table) = bank_of(1_000);
    engine.bulk_load(&table, [accounts(10_000..19_000)]).unwrap();
    let before = engine.snapshot();
    let txn = engine.begin(NORMAL);
    for id in 0..500 {
        txn.delete(&table, row_of(&txn, &table, id).unwrap()).unwrap();
    }
    txn.commit().unwrap();
    let after = engine.snapshot();
    let ids_of = |sample: &Sample| sample.rows.column(0).as_primitive::<Int32Type>().values().to_vec();
    let sample = |snapshot: &Arc<Snapshot>, most| snapshot.scan(&table, &[ID, BALANCE], 1_000).sample(most);
    let all = sample(&before, 1 << 40);
    let expected: Vec<i32> = (0..1_000).chain(10_000..19_000).collect();
    assert_eq!(ids_of(&all), expected);
    assert_eq!(all.rows_of_all(), 10_000.0);
    for most in [1, 7, 100, 512, 9_999] {
        let some = sample(&before, most);
        assert_eq!(some.ids, most);
        let gaps = ids_of(&some).windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>();
        assert!(gaps.iter().all(|gap| 0 < *gap), "each row once, in order");
        assert!(some.rows.num_rows() as u64 <= most);
        assert!(most < 100 || (9_000.0..11_000.0).contains(&some.rows_of_all()), "{}", some.rows_of_all());
    }
    let (seen, left) = (sample(&before, 100), sample(&after, 100));
    assert!(seen.rows.num_rows() > left.rows.num_rows(), "half of the hot rows are gone");
    assert!(ids_of(&left).iter().all(|id| 500 <= *id));
    assert!(ids_of(&left).iter().filter(|id| 10_000 <= **id).count() > 50, "blocks are sampled, too");
}

/// A scan of a frozen block copies nothing.
pub fn blocks_go_out_without_copying() {
    let (engine, table) = bank();
    let batch = accounts(0..4_000);
    let loaded = batch.column(ID).as_primitive::<Int32Type>().values().as_ptr();
    engine.bulk_load(&table, [batch]).unwrap();
    let batches = scan(&engine.snapshot(), &table, &[ID, BALANCE], 1);
    assert_eq!(batches.len(), 4);
    assert_eq!(batches[0].column(0).as_primitive::<Int32Type>().values().as_ptr(), loaded);
}

/// Rows of blocks are found by key and by range, and hold their unique keys.
pub fn frozen_rows_are_read_by_key() {
    let (engine, table) = bank();
    engine.bulk_load(&table, [accounts(0..5_000)]).unwrap();
    let txn = engine.begin(NORMAL);
    let row = txn.get(&table, BY_ID, &[Value::Int32(4_321)]).unwrap().unwrap();
    assert_eq!((row.get_i32(ID), row.get_decimal_i64(BALANCE), row.get_text(OWNER)), (4_321, 100, "block"));
    assert_eq!(ids_of(&txn, &table, "block").len(), 4_500);
    assert!(txn.get(&table, BY_ID, &[Value::Int32(0)]).unwrap().unwrap().is_null(OWNER));
    assert!(matches!(open(&txn, &table, 17, 0, "x"), Err(Error::UniqueViolation { .. })));
    open(&txn, &table, 5_000, 0, "x").unwrap();
    txn.commit().unwrap();
}

/// A load that fails has loaded nothing.
pub fn a_failed_load_leaves_nothing() {
    let (engine, table) = bank_of(10);
    let failed = engine.bulk_load(&table, [accounts(100..200), accounts(9..300)]);
    assert!(matches!(failed, Err(Error::UniqueViolation { .. })));
    let wrong = RecordBatch::try_from_iter([("id", accounts(0..1).column(0).clone())]).unwrap();
    assert!(matches!(engine.bulk_load(&table, [wrong]), Err(Error::InvalidValue { .. })));
    let mut columns = accounts(100..101).columns().to_vec();
    columns[BALANCE] = Arc::new(Decimal128Array::from(vec![10_i128.pow(12)]).with_precision_and_scale(12, 2).unwrap());
    let too_much = RecordBatch::try_new(table.schema().clone(), columns).unwrap();
    assert!(matches!(engine.bulk_load(&table, [too_much]), Err(Error::InvalidValue { .. })));
    assert_eq!(balance_now(&engine, &table, 150), None);
    assert_eq!(ids_and_sum(&scan(&engine.snapshot(), &table, &[ID, BALANCE], 1)).0.len(), 10);
    assert_eq!(engine.bulk_load(&table, [accounts(100..200)]).unwrap(), 100);
    assert_eq!(balance_now(&engine, &table, 150), Some(100));
}

/// Goal: each type comes out of hot rows and of blocks as the same Arrow array; `Utf8` is taken for `Utf8View`.
pub fn all_types_are_scanned() {
    let engine = Engine::new(EngineConfig::in_memory());
    let kinds = [
        Type::Int32,
        Type::Int64,
        MONEY,
        Type::Decimal { precision: 38, scale: 4 },
        Type::Text,
        Type::Date,
        Type::Timestamp,
    ];
    let columns: Vec<Column> =
        kinds.iter().enumerate().map(|(n, kind)| Column::nullable(&format!("c{n}"), *kind)).collect();
    let indexes = vec![IndexDef::plain("t_text", &[4])];
    let table = engine.create_table(TableDef { name: "t".to_owned(), columns, indexes }).unwrap();
    let text = "a text that does not fit a view";
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![Some(1), None])),
        Arc::new(Int64Array::from(vec![Some(-2), None])),
        Arc::new(Decimal128Array::from(vec![Some(3), None]).with_precision_and_scale(12, 2).unwrap()),
        Arc::new(Decimal128Array::from(vec![Some(-(1 << 100)), None]).with_precision_and_scale(38, 4).unwrap()),
        Arc::new(StringArray::from(vec![Some(text), None])),
        Arc::new(Date32Array::from(vec![Some(5), None])),
        Arc::new(TimestampMicrosecondArray::from(vec![Some(6), None])),
    ];
    let mut schema = Schema::clone(table.schema());
    let mut fields: Vec<_> = schema.fields.iter().cloned().collect();
    fields[4] = Arc::new(fields[4].as_ref().clone().with_data_type(DataType::Utf8));
    schema.fields = fields.into();
    engine.bulk_load(&table, [RecordBatch::try_new(Arc::new(schema), arrays).unwrap()]).unwrap();
    let txn = engine.begin(NORMAL);
    let full = [
        Value::Int32(1),
        Value::Int64(-2),
        Value::Decimal(3),
        Value::Decimal(-(1 << 100)),
        Value::Text(text),
        Value::Date(5),
        Value::Timestamp(6),
    ];
    txn.insert(&table, &full).unwrap();
    txn.insert(&table, &[Value::Null; 7]).unwrap();
    let frozen = txn.get(&table, 0, &[Value::Text(text)]).unwrap().unwrap();
    assert_eq!((0..7).map(|column| frozen.get(column)).collect::<Vec<_>>(), full);
    txn.commit().unwrap();
    let batches = scan(&engine.snapshot(), &table, &[0, 1, 2, 3, 4, 5, 6], 1);
    let [block, hot] = &batches[..] else { panic!("one batch of each kind") };
    assert_eq!(block, hot);
    assert_eq!(hot.schema(), *table.schema());
    assert_eq!(hot.column(1).as_primitive::<Int64Type>().value(0), -2);
    assert_eq!(hot.column(4).as_string_view().value(0), text);
    assert_eq!(hot.column(5).as_primitive::<Date32Type>().value(0), 5);
    assert_eq!(hot.column(6).as_primitive::<TimestampMicrosecondType>().value(0), 6);
    assert!(hot.columns().iter().all(|column| column.is_null(1)));
}
