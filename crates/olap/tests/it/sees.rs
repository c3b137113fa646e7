//! Goal: SQL sees exactly what a transaction of the same moment sees. Method: the same rows read both ways, after inserts,
//! updates and deletes, committed or not, before and after the snapshot.

use crate::support::{ask, database, numbers, rows, runtime};
use arrow_array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringViewArray};
use catalog::storage;
use engine::{Begin, Column, IndexDef, TableDef, Type, Value};
use olap::RunConfig;
use stage::Class;
use std::sync::Arc;
use types::{Datum, SqlType};
use types::{forms::Forms, text};

const NORMAL: Begin = Begin::new(Class::Normal);

pub fn hot_rows_are_the_rows_that_transactions_read() {
    let database = database();
    let engine = database.engine();
    let columns = vec![
        Column::required("id", Type::Int32),
        Column::nullable("big", Type::Int64),
        Column::nullable("small_decimal", Type::Decimal { precision: 15, scale: 2 }),
        Column::nullable("large_decimal", Type::Decimal { precision: 30, scale: 4 }),
        Column::nullable("word", Type::Text),
        Column::nullable("day", Type::Date),
    ];
    let indexes = vec![IndexDef::unique("types_key", &[0])];
    let table = engine.create_table(TableDef { name: "types".to_owned(), columns, indexes }).expect("it is new");
    let txn = engine.begin(NORMAL);
    for id in 0..5_000_i32 {
        let word = format!("a word longer than what a view holds inline, number {id}");
        let mut values = [
            Value::Int32(id),
            Value::Int64(i64::from(id) << 33),
            Value::Decimal(i128::from(id) - 2_500),
            Value::Decimal(i128::from(id) << 70),
            Value::Text(if id % 3 == 0 { "short" } else { &word }),
            Value::Date(id),
        ];
        if id % 5 != 0 {
            values[1 + id as usize % 5] = Value::Null;
        }
        txn.insert(&table, &values).expect("the key is new");
    }
    txn.commit().expect("nobody else writes");
    let txn = engine.begin(NORMAL);
    for id in (0..5_000).step_by(11) {
        let row = txn.get(&table, 0, &[Value::Int32(id)]).expect("reads work").expect("the row is there").row_id();
        match id % 2 {
            0 => txn.delete(&table, row).expect("nobody else writes"),
            _ => txn.update(&table, row, |row| row.set_text(4, "changed")).expect("nobody else writes"),
        }
    }
    txn.commit().expect("nobody else writes");

    let reader = engine.begin(NORMAL);
    let kinds: Vec<SqlType> =
        table.columns().iter().map(|column| storage::sql_type(column.kind).expect("it has a SQL type")).collect();
    let expected: Vec<String> = (0..5_000)
        .filter_map(|id| reader.get(&table, 0, &[Value::Int32(id)]).expect("reads work"))
        .map(|row| {
            let cells = kinds.iter().enumerate().map(|(column, kind)| match storage::datum(row.get(column), *kind) {
                Datum::Null => String::new(),
                value => text::to_string(&value, *kind, &Forms::DEFAULT),
            });
            cells.collect::<Vec<_>>().join("|")
        })
        .collect();
    assert_eq!(expected.len(), 5_000 - 228, "every 22nd row is deleted");
    let runtime = runtime(2);
    for partitions in [1, 2] {
        let answer = ask(&runtime, &database, "select * from types order by id", partitions).expect("it is right");
        assert_eq!(rows(&answer), expected);
    }
}

pub fn a_query_sees_its_snapshot_only() {
    let database = database();
    let engine = database.engine();
    let table = numbers(engine, 1_000);
    let before = engine.snapshot();

    let txn = engine.begin(NORMAL);
    for id in 0..1_000 {
        let row = txn.get(&table, 0, &[Value::Int64(id)]).expect("reads work").expect("the row is there").row_id();
        match id % 10 {
            0 => txn.delete(&table, row).expect("nobody else writes"),
            _ => txn.update(&table, row, |row| row.set_decimal_i64(1, 0)).expect("nobody else writes"),
        }
    }
    txn.insert(&table, &[Value::Int64(5_000), Value::Decimal(1), Value::Null]).expect("the key is new");
    txn.commit().expect("nobody else writes");
    let pending = engine.begin(NORMAL);
    pending.insert(&table, &[Value::Int64(6_000), Value::Decimal(7), Value::Null]).expect("the key is new");

    let runtime = runtime(2);
    let prepared = database.prepare("select count(*), sum(amount), max(id) from numbers").expect("it is a query");
    for partitions in [1, 2] {
        let old = runtime.answer(&prepared, Arc::clone(&before), RunConfig::new(partitions)).expect("it is right");
        assert_eq!(rows(&old), ["1000|4995.00|999"]);
        let new = runtime.answer(&prepared, engine.snapshot(), RunConfig::new(partitions)).expect("it is right");
        assert_eq!(rows(&new), ["901|0.01|5000"]);
    }
    pending.abort();
}

/// An exact statistic would answer `count(*)` from the ids given out, deleted and uncommitted rows included.
pub fn count_looks_at_the_rows() {
    let database = database();
    let engine = database.engine();
    let table = numbers(engine, 100);
    let txn = engine.begin(NORMAL);
    let row = txn.get(&table, 0, &[Value::Int64(5)]).expect("reads work").expect("the row is there").row_id();
    txn.delete(&table, row).expect("nobody else writes");
    txn.commit().expect("nobody else writes");
    let pending = engine.begin(NORMAL);
    pending.insert(&table, &[Value::Int64(500), Value::Decimal(1), Value::Null]).expect("the key is new");
    assert!(101 <= table.rows_bound());

    let runtime = runtime(1);
    let counts = ["select count(*) from numbers", "select count(id) from numbers", "select count(1) from numbers"];
    for text in counts {
        let prepared = database.prepare(text).expect("it is a query");
        let plan = prepared.explain(&database.engine().snapshot(), 1).expect("it has a plan");
        assert!(plan.contains("TableScan: numbers"), "{plan}");
        assert_eq!(rows(&ask(&runtime, &database, text, 1).expect("it is right")), ["99"]);
    }
    pending.abort();
}

/// Each row is in exactly one partition: blocks, then hot rows of several segments behind them.
pub fn frozen_and_hot_rows_in_many_partitions() {
    let database = database();
    let engine = database.engine();
    let table = numbers(engine, 0);
    let frozen = |ids: std::ops::Range<i64>| {
        let columns: [ArrayRef; 3] = [
            Arc::new(Int64Array::from_iter_values(ids.clone())),
            Arc::new(
                Decimal128Array::from_iter_values(ids.clone().map(i128::from))
                    .with_precision_and_scale(15, 2)
                    .expect("money has 15 digits"),
            ),
            Arc::new(StringViewArray::from_iter(ids.map(|id| (id % 7 != 0).then(|| format!("note {id}"))))),
        ];
        RecordBatch::try_new(Arc::clone(table.schema()), columns.to_vec()).expect("the columns fit the schema")
    };
    engine.bulk_load(&table, [frozen(0..70_000), frozen(70_000..100_001)]).expect("the keys are new");
    let txn = engine.begin(NORMAL);
    for id in 100_001..170_000 {
        txn.insert(&table, &[Value::Int64(id), Value::Decimal(id.into()), Value::Null]).expect("the key is new");
    }
    txn.commit().expect("nobody else writes");

    let runtime = runtime(2);
    let text = "select count(*), count(distinct id), sum(id), sum(amount), count(note) from numbers";
    let notes = (0..100_001).filter(|id| id % 7 != 0).count();
    let expected = format!("170000|170000|{}|{}.00|{notes}", 169_999_i64 * 85_000, 169_999_i64 * 850);
    for partitions in [1, 2, 3, 7, 16] {
        assert_eq!(rows(&ask(&runtime, &database, text, partitions).expect("it is right")), [expected.as_str()]);
    }
}
