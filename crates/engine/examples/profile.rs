//! Cost of the engine's calls, in nanoseconds of processor time: `cargo run --release -p engine --example profile`.
//!
//! The table is like TPC-C's stock: 100,000 rows of about 340 bytes, keyed by two integers.

use engine::{Begin, Column, Direction, Engine, EngineConfig, IndexDef, RowId, Table, TableDef, Type, Value};
use preempt::os::thread_cpu_ns;
use stage::Class;
use std::hint::black_box;
use std::sync::Arc;

#[global_allocator]
static HEAP: preempt::Heap = preempt::Heap::HEAP;

const ROWS: u64 = 100_000;
const BEGIN: Begin = Begin::new(Class::Normal);

fn stock() -> TableDef {
    let quantity = Type::Decimal { precision: 4, scale: 0 };
    let mut columns = vec![
        Column::required("s_i_id", Type::Int32),
        Column::required("s_w_id", Type::Int32),
        Column::required("s_quantity", quantity),
    ];
    columns.extend((1..=10).map(|district| Column::required(&format!("s_dist_{district:02}"), Type::Text)));
    columns.push(Column::required("s_ytd", Type::Decimal { precision: 8, scale: 0 }));
    columns.push(Column::required("s_order_cnt", quantity));
    columns.push(Column::required("s_remote_cnt", quantity));
    columns.push(Column::required("s_data", Type::Text));
    TableDef { name: "stock".to_owned(), columns, indexes: vec![IndexDef::unique("stock_pkey", &[1, 0])] }
}

/// A cheap pseudo-random sequence.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Runs `body` `calls` times, 20 calls a transaction, and prints the nanoseconds of a call.
fn measure(what: &str, engine: &Engine, calls: u64, mut body: impl FnMut(&engine::Txn<'_>, &mut Random)) {
    let mut random = Random(7);
    let started_ns = thread_cpu_ns();
    for _ in 0..calls / 20 {
        let txn = engine.begin(BEGIN);
        for _ in 0..20 {
            body(&txn, &mut random);
        }
        txn.commit().expect("nobody conflicts");
    }
    println!("{what:<44} {:>8.0} ns", (thread_cpu_ns() - started_ns) as f64 / calls as f64);
}

fn main() {
    let engine = Engine::new(EngineConfig::in_memory());
    let table = engine.create_table(stock()).expect("a valid definition");
    let text = "abcdefghijklmnopqrstuvwx";
    let row = |item: i32, warehouse: i32| {
        let mut row = vec![Value::Int32(item), Value::Int32(warehouse), Value::Decimal(50)];
        row.extend([Value::Text(text); 10]);
        row.extend([Value::Decimal(0), Value::Decimal(0), Value::Decimal(0), Value::Text("some data of the item")]);
        row
    };
    let mut next = 0;
    measure("insert (340 bytes, one index)", &engine, ROWS, |txn, _| {
        txn.insert(&table, &row(next, 1)).expect("a new key");
        next += 1;
    });
    measure("begin + commit of a reader, per 20", &engine, 200_000, |_, _| {});
    if std::env::args().nth(1).as_deref() == Some("insert") {
        return;
    }
    let uniform = |random: &mut Random| [Value::Int32(1), Value::Int32(random.below(ROWS) as i32)];
    measure("get, uniform key", &engine, 2_000_000, |txn, random| {
        let row = txn.get(&table, 0, &uniform(random)).expect("a valid key").expect("it exists");
        black_box(row.get_decimal_i64(2));
    });
    // TPC-C's NURand(8191, 1, 100000).
    let key = |random: &mut Random| {
        [Value::Int32(1), Value::Int32(((random.below(8192) | random.below(ROWS)) % ROWS) as i32)]
    };
    measure("get, NURand key", &engine, 2_000_000, |txn, random| {
        let row = txn.get(&table, 0, &key(random)).expect("a valid key").expect("it exists");
        black_box(row.get_decimal_i64(2));
    });
    measure("get_many of 10 NURand keys, per 10", &engine, 200_000, |txn, random| {
        let keys: [_; 10] = std::array::from_fn(|_| key(random));
        let mut found = Vec::with_capacity(10);
        txn.get_many(&table, 0, &keys, &mut found).expect("valid keys");
        black_box(found.iter().flatten().map(|row| row.get_decimal_i64(2)).sum::<i64>());
    });
    measure("get by row id", &engine, 2_000_000, |txn, random| {
        let row = txn.get_row(&table, RowId(random.below(ROWS))).expect("active").expect("it exists");
        black_box(row.get_decimal_i64(2));
    });
    measure("get + update of 3 decimals", &engine, 1_000_000, |txn, random| {
        let row = txn.get(&table, 0, &key(random)).expect("a valid key").expect("it exists");
        txn.update(&table, row.row_id(), |row| {
            row.set_decimal_i64(2, (row.get_decimal_i64(2) + 1) % 100);
            row.set_decimal_i64(13, (row.get_decimal_i64(13) + 5) % 1_000_000);
            row.set_decimal_i64(14, (row.get_decimal_i64(14) + 1) % 1_000);
        })
        .expect("nobody conflicts");
    });
    measure("range of 20 rows, per range", &engine, 1_000_000 / 20, |txn, random| {
        let first = random.below(ROWS - 20) as i32;
        let rows = txn.range(&table, 0, &[Value::Int32(1)], Direction::Forward).expect("a valid prefix");
        black_box((first, rows.take(20).map(|row| row.get_decimal_i64(2)).sum::<i64>()));
    });
    measure_scan("scan of 3 columns, per row", &engine, &table);
    engine.collect_garbage(usize::MAX);
    println!("{:?}", engine.stats());
    let started_ns = thread_cpu_ns();
    // Three passes of the freezer's clock, and one for what is left.
    let frozen: u64 = (0..4).map(|_| freeze_pass(&engine)).sum();
    println!("{:<44} {:>8.0} ns", "freeze, per row", (thread_cpu_ns() - started_ns) as f64 / frozen as f64);
    measure_scan("scan of 3 columns of blocks, per row", &engine, &table);
    measure("get of a frozen row, NURand key", &engine, 2_000_000, |txn, random| {
        let row = txn.get(&table, 0, &key(random)).expect("a valid key").expect("it exists");
        black_box(row.get_decimal_i64(2));
    });
    let mut next = 0;
    measure("update of a frozen row", &engine, frozen / 2, |txn, _| {
        next += 2;
        txn.update(&table, RowId(next - 2), |row| row.set_decimal_i64(2, 7)).expect("nobody conflicts");
    });
    measure_scan("scan of a block of which half is hot", &engine, &table);
    engine.collect_garbage(usize::MAX);
    println!("{:?}", engine.stats());
}

/// Runs one pass of the freezer over all tables. Returns the number of rows moved.
fn freeze_pass(engine: &Engine) -> u64 {
    let mut rows = 0;
    loop {
        let frozen = engine.freeze(1 << 16);
        rows += frozen.rows;
        if frozen.ended {
            return rows;
        }
    }
}

fn measure_scan(what: &str, engine: &Engine, table: &Arc<Table>) {
    let snapshot = engine.snapshot();
    let started_ns = thread_cpu_ns();
    let rows: usize =
        snapshot.scan(table, &[0, 2, 13], 8192).split(1).into_iter().flatten().map(|batch| batch.num_rows()).sum();
    println!("{what:<44} {:>8.1} ns", (thread_cpu_ns() - started_ns) as f64 / rows as f64);
}
