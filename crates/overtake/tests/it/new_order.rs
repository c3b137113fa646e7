//! Goal: a New-Order that moves from the client into the database, and from level to level, does the same. Method: the
//! programs of `sdk/new-order`, whose lines `bench lookingglass` counts, enter the same orders into equal databases;
//! their answers and all rows afterwards are compared.

#[path = "../../../../sdk/new-order/rust/call.rs"]
mod call;
#[path = "../../../../sdk/new-order/rust/interactive.rs"]
mod interactive;
#[path = "../../../../sdk/new-order/rust/pipelined.rs"]
mod pipelined;

use crate::procedures::proc;
use crate::serve::{connect, runtime, serve, value};
use crate::{run, text};
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};
use tokio_postgres::{Client, Error, SimpleQueryMessage};

/// Order.
pub struct Order {
    warehouse: i32,
    district: i32,
    customer: i32,
    entered: SystemTime,
    lines: Vec<Line>,
}

/// Line of an order.
pub struct Line {
    item: i32,
    supply: i32,
    quantity: i32,
}

/// Tables that New-Order changes, with their keys.
const CHANGED: [(&str, &str); 5] = [
    ("district", "d_w_id, d_id"),
    ("stock", "s_w_id, s_i_id"),
    ("orders", "o_w_id, o_d_id, o_id"),
    ("new_order", "no_w_id, no_d_id, no_o_id"),
    ("order_line", "ol_w_id, ol_d_id, ol_o_id, ol_number"),
];

const SIGNATURE: &str = "new_order(warehouse int, district int, customer int, entered timestamp, items int[], \
                         supplies int[], quantities int[]) returns numeric";

/// Answers of a program, and all rows afterwards.
#[derive(PartialEq)]
struct Outcome {
    totals: Vec<Option<i64>>,
    rows: Vec<String>,
}

/// Returns orders: with several lines of one item, of other warehouses' stock, and of items that do not exist.
fn orders((warehouses, districts, customers, items): (i32, i32, i32, i32)) -> Vec<Order> {
    let mut state = 42_u64;
    let mut draw = |most: i32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % most as u64) as i32 + 1
    };
    let order = |number: i32| {
        let warehouse = draw(warehouses);
        let mut lines: Vec<Line> = (0..4 + draw(11))
            .map(|_| {
                let supply = if draw(5) == 1 { draw(warehouses) } else { warehouse };
                Line { item: draw(items), supply, quantity: draw(10) }
            })
            .collect();
        if number % 3 == 0 {
            (lines[2].item, lines[2].supply) = (lines[0].item, lines[0].supply);
        }
        if number % 10 == 9 {
            lines[3].item = items + 1;
        }
        let entered = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 + number as u64);
        Order { warehouse, district: draw(districts), customer: draw(customers), entered, lines }
    };
    (0..40).map(order).collect()
}

async fn all_rows(client: &Client) -> Vec<String> {
    let mut rows = Vec::new();
    for (table, key) in CHANGED {
        let query = format!("select * from tpcc_{table} order by {key}");
        for message in client.simple_query(&query).await.unwrap() {
            if let SimpleQueryMessage::Row(row) = message {
                let cells: Vec<&str> = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL")).collect();
                rows.push(format!("{table}: {}", cells.join("|")));
            }
        }
    }
    rows
}

/// Runs a program with all orders on the rows of the beginning.
async fn outcome(
    client: &mut Client,
    orders: &[Order],
    mut program: impl AsyncFnMut(&mut Client, &Order) -> Result<Option<i64>, Error>,
) -> Outcome {
    for (table, _) in CHANGED {
        let reset = format!("delete from tpcc_{table}; insert into tpcc_{table} select * from first_{table}");
        client.batch_execute(&reset).await.unwrap();
    }
    let mut totals = Vec::new();
    for order in orders {
        totals.push(program(client, order).await.unwrap_or_else(|error| panic!("{error:?}")));
    }
    Outcome { totals, rows: all_rows(client).await }
}

fn check(name: &str, outcome: &Outcome, expected: &Outcome) {
    assert_eq!(outcome.totals, expected.totals, "{name}");
    let differ = outcome.rows.iter().zip(&expected.rows).find(|(row, expected)| row != expected);
    assert!(*outcome == *expected, "{name}: {differ:?}");
}

/// Installs the project with the stored program.
fn deploy(folder: &Path, url: &str) {
    let directory = folder.join("orders");
    let output = proc(&["new", "--language", "rust"], &directory);
    assert!(output.status.success(), "{}", text(&output.stderr));
    fs::write(directory.join("src/main.rs"), include_str!("../../../../sdk/new-order/rust/stored.rs")).unwrap();
    let procedures = include_str!("../../../../sdk/new-order/rust/procedures.sql");
    fs::write(directory.join("procedures.sql"), procedures).unwrap();
    let output = proc(&["deploy", "--url", url], &directory);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

pub fn all_programs_do_the_same() {
    let folder = testkit::folder("new-order");
    let (mut program, url) = serve(&[]);
    // The benchmark leaves its tables in a server that it has not started.
    let load = ["wire", "tpcc", "--small", "--warehouses", "2", "--clients", "1", "--duration", "0.2", "--rounds", "1"];
    let output = run(&[&["bench"], &load[..], &["--url", &url]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    runtime().block_on(async {
        let mut client = connect(&url).await;
        for (table, _) in CHANGED {
            client.batch_execute(&format!("create table first_{table} as select * from tpcc_{table}")).await.unwrap();
        }
        let number = async |query: &str| value(&client, query).await.parse::<i32>().unwrap();
        let orders = orders((
            number("select max(w_id) from tpcc_warehouse").await,
            number("select max(d_id) from tpcc_district").await,
            number("select max(c_id) from tpcc_customer").await,
            number("select max(i_id) from tpcc_item").await,
        ));
        let before = all_rows(&client).await;
        let expected = outcome(&mut client, &orders, interactive::new_order).await;
        assert_eq!(expected.totals.iter().filter(|total| total.is_none()).count(), 4, "items that do not exist");
        assert!(before.len() < expected.rows.len(), "{} rows before, {} after", before.len(), expected.rows.len());
        check("pipelined", &outcome(&mut client, &orders, pipelined::new_order).await, &expected);

        let in_sql = include_str!("../../../bench/src/lookingglass/sql/new_order_sql.sql");
        client.batch_execute(&in_sql.replace("glass_new_order_stored_sql", "new_order")).await.unwrap();
        check("SQL", &outcome(&mut client, &orders, call::new_order).await, &expected);

        let manifest = include_str!("../../../workloads/src/tpcc/stored.manifest");
        let native = format!(
            "drop function new_order; create module tpcc manifest $manifest${manifest}$manifest$ artifact native 'tpcc';
             create function {SIGNATURE} language native as 'tpcc', 'new_order'"
        );
        client.batch_execute(&native).await.unwrap();
        check("native", &outcome(&mut client, &orders, call::new_order).await, &expected);

        client.batch_execute("drop function new_order").await.unwrap();
        deploy(folder.path(), &url);
        let levels =
            "select isolation from overtake.isolation_levels where available and artifact in ('wasm', 'exec', 'guest')";
        let rows = client.query(levels, &[]).await.unwrap();
        let levels: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        assert!(levels.iter().any(|level| level == "wasm") && levels.iter().any(|level| level == "process"));
        for level in levels {
            client.batch_execute(&format!("alter function new_order set (isolation = '{level}')")).await.unwrap();
            check(&level, &outcome(&mut client, &orders, call::new_order).await, &expected);
            println!("{level}: the same");
        }
    });
    let (status, log) = program.interrupted();
    assert!(status.success(), "{status} {log}");
}
