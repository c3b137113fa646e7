//! Goal: the demonstration's instances are databases that an ordinary driver reaches: the tables of the page, read and written, and
//! reports that run on the instance. Method: `overtake demo` as a child at a small scale, the addresses that it prints.

use crate::Program;
use std::io::{BufRead, BufReader};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};
use workloads::tpch;

fn connect(runtime: &Runtime, url: &str) -> Client {
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    })
}

/// Returns rows as text, `|` between cells.
fn rows(runtime: &Runtime, client: &Client, text: &str) -> Vec<String> {
    let messages = runtime.block_on(client.simple_query(text)).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    let row = |message: SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|at| row.get(at).unwrap_or("")).collect::<Vec<_>>().join("|"))
        }
        _ => None,
    };
    messages.into_iter().filter_map(row).collect()
}

pub fn the_demos_instances_are_databases() {
    let mut demo = Program::demo();
    let lines = BufReader::new(demo.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    let urls: Vec<String> = lines
        .filter_map(|line| line.trim().strip_prefix("psql \"")?.split('"').next().map(str::to_owned))
        .take(3)
        .collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    // A client that connects before the database is loaded waits until it is.
    let clients: Vec<Client> = urls.iter().map(|url| connect(&runtime, url)).collect();
    assert_eq!(clients.len(), 3, "{urls:?}");
    let q6 = tpch::query(6);
    let mut revenues = Vec::new();
    for client in &clients {
        let ask = |text: &str| rows(&runtime, client, text);
        assert_eq!(ask("select count(*) from tpcc.district"), ["10"]);
        assert_eq!(ask("select count(*) from region"), ["5"]);
        assert_eq!(
            ask("select indexrelid::regclass from pg_index where indrelid = 'tpcc.orders'::regclass order by 1"),
            ["tpcc.orders_pkey", "tpcc.orders_by_customer"]
        );
        // The query runs by rows, and as the instance's own query.
        let plan = ask(&format!("explain {q6}"));
        assert!(plan.contains(&"Path: analytics".to_owned()), "{plan:?}");
        let as_analytics = ask(q6);
        ask("set overtake.path = row");
        assert_eq!(ask(q6), as_analytics);
        ask("reset overtake.path");
        revenues.push(as_analytics);
        assert_eq!(ask("select class, running, waiting from overtake.scheduler"), ["low|0|0"]);
    }
    assert!(revenues.iter().all(|revenue| *revenue == revenues[0] && revenue.len() == 1), "{revenues:?}");
    // There is one database: all instances see the writes of one.
    rows(&runtime, &clients[0], "update tpcc.warehouse set w_name = 'of psql' where w_id = 1");
    assert_eq!(rows(&runtime, &clients[2], "select w_name from tpcc.warehouse"), ["of psql"]);
    let refused = runtime.block_on(clients[1].simple_query("drop table tpcc.warehouse")).unwrap_err();
    assert_eq!(refused.code().map(|code| code.code().to_owned()).as_deref(), Some("0A000"));

    // A query that would take minutes does not keep the program from ending.
    let long = "select count(*) from lineitem a, lineitem b where a.l_orderkey + b.l_orderkey = -1";
    let client = connect(&runtime, &urls[2]);
    let report = runtime.spawn(async move { client.simple_query(long).await.map(drop) });
    while rows(&runtime, &clients[2], "select running from overtake.scheduler") != ["1"] {
        std::thread::yield_now();
    }
    let (status, log) = demo.interrupted();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(!log.contains("ERROR"), "{log}");
    assert!(runtime.block_on(report).unwrap().is_err(), "nobody counts that far");
}
