//! Goal: a filter spares blocks and changes no answer. Method: a table of sorted blocks, of which some rows have been
//! changed, deleted or added since; each filter asked once as it is and once in a form that no scan can use.

use crate::support::{ask, database, rows, runtime};
use arrow_array::{ArrayRef, Date32Array, Decimal128Array, Int64Array, RecordBatch, StringViewArray};
use engine::{Begin, Column, IndexDef, TableDef, Type, Value};
use stage::Class;
use std::sync::Arc;

const BLOCKS: i64 = 4;
const BLOCK_ROWS: i64 = 65_536;

fn batch(block: i64) -> RecordBatch {
    let ids = || block * BLOCK_ROWS..(block + 1) * BLOCK_ROWS;
    let money = Decimal128Array::from_iter_values(ids().map(i128::from));
    let money = money.with_precision_and_scale(15, 2).expect("fifteen digits are enough");
    let columns: [(&str, ArrayRef); 4] = [
        ("id", Arc::new(Int64Array::from_iter_values(ids()))),
        ("money", Arc::new(money)),
        // All null in the first block, without nulls in the last.
        (
            "word",
            Arc::new(StringViewArray::from_iter(
                ids().map(|id| (BLOCK_ROWS * (id % BLOCKS) < id).then(|| format!("{id:09}"))),
            )),
        ),
        ("day", Arc::new(Date32Array::from_iter_values(ids().map(|id| (id / 100) as i32)))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).expect("one length")
}

pub fn conditions_leave_blocks_out_and_nothing_else() {
    let (database, runtime) = (database(), runtime(2));
    let engine = database.engine();
    let columns = vec![
        Column::required("id", Type::Int64),
        Column::nullable("money", Type::Decimal { precision: 15, scale: 2 }),
        Column::nullable("word", Type::Text),
        Column::nullable("day", Type::Date),
    ];
    let indexes = vec![IndexDef::unique("blocks_key", &[0])];
    let table = engine.create_table(TableDef { name: "blocks".to_owned(), columns, indexes }).expect("it is new");
    engine.bulk_load(&table, (0..BLOCKS).map(batch)).expect("the rows fit");
    let txn = engine.begin(Begin::new(Class::Normal));
    for id in (5..BLOCKS * BLOCK_ROWS).step_by(9_973) {
        let row = txn.get(&table, 0, &[Value::Int64(id)]).expect("reads work").expect("the row is there").row_id();
        match id % 3 {
            0 => txn.delete(&table, row).expect("nobody else writes"),
            _ => txn.update(&table, row, |row| row.set_decimal(1, 77)).expect("nobody else writes"),
        }
    }
    txn.insert(&table, &[Value::Int64(-1), Value::Null, Value::Null, Value::Null]).expect("the key is new");
    txn.commit().expect("nobody else writes");

    // Each filter, the same so that no scan understands it, and the fewest blocks that it must spare.
    let filters = [
        ("id = 70000", "id + 0 = 70000", 3),
        ("70000 > id", "70000 > id + 0", 2),
        ("id between 100 and 200 and money >= 1.50", "id + 0 between 100 and 200 and money + 0 >= 1.50", 3),
        ("id <> 70000", "id + 0 <> 70000", 0),
        ("money > 2621.43", "money + 0 > 2621.43", 4),
        ("money <= 0.77", "money + 0 <= 0.77", 3),
        ("day < date '1970-01-03'", "day - interval '0 days' < date '1970-01-03'", 3),
        ("word >= '000196608'", "concat(word, '') >= '000196608'", 3),
        ("id < 10 or id > 262100", "id + 0 < 10 or id + 0 > 262100", 0),
        ("id < 10.5", "id + 0 < 10.5", 0),
    ];
    for (filter, opaque, spared) in filters {
        for partitions in [1, 2] {
            let ask = |filter: &str| {
                let before = engine.stats().blocks_skipped;
                let text =
                    format!("select count(*), sum(id), sum(money), max(word), min(day) from blocks where {filter}");
                let answer =
                    ask(&runtime, &database, &text, partitions).unwrap_or_else(|error| panic!("{text}: {error}"));
                (rows(&answer), engine.stats().blocks_skipped - before)
            };
            let ((found, skipped), (wanted, none)) = (ask(filter), ask(opaque));
            assert_eq!(found, wanted, "{filter}");
            assert_eq!(none, 0, "{opaque} was understood");
            assert!(spared <= skipped, "{filter} spared {skipped} blocks");
        }
    }
}
