//! Goal: a process that holds as much as it may refuses statements and lives on. Method: `overtake serve` as a child with a small
//! `overtake.memory`, its resident size as the kernel counts it.

use crate::serve::{connect, runtime, serve, value};
use std::fs;
use tokio_postgres::Client;

const LIMIT_MB: u64 = 256;
/// The resident size that is accepted: with the program, stacks, and freed memory that the allocator keeps. Without a limit each of
/// the statements takes gigabytes.
const RESIDENT_MB: u64 = 4 * LIMIT_MB;

fn peak_mb(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() >> 10
}

/// Takes what is beyond the limit, and is told who holds the memory.
async fn refused(client: &Client, query: &str) {
    let Err(error) = client.batch_execute(query).await else { panic!("{query}: done") };
    let error = error.as_db_error().unwrap_or_else(|| panic!("{query}: {error:?}"));
    assert_eq!((error.code().code(), error.message()), ("53200", "out of memory"), "{query}");
    assert!(error.detail().unwrap_or_default().contains("tables and indexes"), "{query}: {error:?}");
}

/// INSERT, COPY FROM, sorts, windows, joins and large values end with 53200, on both paths and in many sessions at once. The process
/// lives and stays small, and DELETE, DROP and small reads go on.
pub fn statements_are_refused_and_the_process_lives() {
    let (mut program, url) = serve(&["-c", &format!("overtake.memory={LIMIT_MB}MB")]);
    let process = program.0.id();
    runtime().block_on(async {
        let client = connect(&url).await;
        assert_eq!(value(&client, "show overtake.memory").await, format!("{LIMIT_MB}MB"));
        client
            .batch_execute("create table small (id int primary key); insert into small values (1), (2)")
            .await
            .unwrap();
        client.batch_execute("create table big (id bigint primary key, text text)").await.unwrap();
        let fill = "insert into big select n, repeat('x', 400) from generate_series(1, 10000000) n";
        refused(&client, fill).await;
        assert_eq!(value(&client, "select count(*) from big").await, "0");
        let queries = [
            "select n, repeat('x', 300) from generate_series(1, 10000000) n",
            "select n, repeat('x', 300) from generate_series(1, 10000000) n order by n desc",
            "select n, row_number() over (order by -n) from generate_series(1, 10000000) n",
            "select count(*) from generate_series(1, 10000000) a join generate_series(1, 10000000) b on a = b",
            "select n, count(*) from generate_series(1, 10000000) n group by n",
            "with recursive r(n, t) as (select 1, 'x' union all select n + 1, repeat('y', 400) from r) select * from r",
            "select repeat('x', 900000000)",
        ];
        for query in queries {
            refused(&client, query).await;
        }
        // Many at once, with room for a part of them.
        let mut all = Vec::new();
        for _ in 0..20 {
            let other = connect(&url).await;
            all.push(tokio::spawn(async move { other.batch_execute(queries[1]).await }));
        }
        for one in all {
            let error = one.await.unwrap().unwrap_err();
            assert_eq!(error.code().map(|code| code.code()), Some("53200"), "{error:?}");
        }
        // The memory is full of rows that are there to stay.
        let mut next = 0;
        let rows =
            |next| format!("insert into big select n, repeat('x', 400) from generate_series({next}, {next} + 19999) n");
        while client.batch_execute(&rows(next)).await.is_ok() {
            next += 20_000;
        }
        assert!(0 < next);
        refused(&client, "insert into small select n from generate_series(3, 10000000) n").await;
        assert_eq!(value(&client, "select id from small where id = 2").await, "2");
        assert_eq!(value(&client, "select count(*) from big").await, next.to_string());
        client
            .batch_execute(
                "begin; delete from small where id = 2; commit; delete from big where id < 1000; drop table big",
            )
            .await
            .unwrap();
        // Dropped memory is there for the next.
        let again = "create table big as select n from generate_series(1, 100000) n";
        while client.batch_execute(again).await.is_err() {
            tokio::task::yield_now().await;
        }
    });
    let peak = peak_mb(process);
    assert!(peak <= RESIDENT_MB, "{peak} MB");
    let (status, log) = program.interrupted();
    assert!(status.success(), "{status} {log}");
}
