//! Goal: clients that do not read, and cursors that stand still, cost little and hinder nobody. Method: `overtake serve` as
//! a child, and results that are larger than what the process may grow by.

use crate::memory::resident_mb;
use crate::serve::{connect, runtime, serve, value};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config};
use wirekit::raw::{Raw, query};

/// Rows of the table, of which each takes 200 bytes and more.
const ROWS: i64 = 1_000_000;

async fn fill(client: &Client) {
    let text = format!("create table big as select g as id, repeat('x', 200) as t from generate_series(1, {ROWS}) g");
    client.batch_execute(&text).await.unwrap();
}

/// Goal: more clients than there are workers leave their rows of an analytics query unread; another one is answered.
pub fn unread_results_keep_no_query_from_running() {
    let (program, url) = serve(&[]);
    let config: Config = url.parse().unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], config.get_ports()[0]));
    runtime().block_on(async {
        let client = connect(&url).await;
        fill(&client).await;
        client.batch_execute("set overtake.path = analytics").await.unwrap();
        let stalled: Vec<_> = (0..8)
            .map(|_| {
                let mut raw = Raw::connect(address);
                raw.start(&[("user", "postgres"), ("database", "postgres")]);
                raw.send(&query("select * from big"));
                raw
            })
            .collect();
        let stall = "select count(*) from pg_stat_activity where query = 'select * from big' and state = 'active'";
        let begun = Instant::now();
        while value(&client, &format!("set overtake.path = auto; {stall}")).await != "8" {
            assert!(begun.elapsed() < Duration::from_secs(60), "they have not begun");
        }
        client.batch_execute("set overtake.path = analytics; set statement_timeout = '60s'").await.unwrap();
        assert_eq!(value(&client, "select count(*) from big").await, ROWS.to_string());
        drop(stalled);
    });
    drop(program);
}

/// Goal: a cursor over a large table begins at once, takes no memory, and shows the table as it was.
pub fn a_cursor_over_a_large_table_takes_no_memory() {
    let (program, url) = serve(&[]);
    runtime().block_on(async {
        let mut client = connect(&url).await;
        let other = connect(&url).await;
        fill(&client).await;
        let before = resident_mb(program.0.id());
        let transaction = client.transaction().await.unwrap();
        transaction.batch_execute("declare c cursor for select id, t from big").await.unwrap();
        let portal = transaction.bind("select id, t from big where id > 0", &[]).await.unwrap();
        let mut sums = [0, 0];
        other.batch_execute("update big set id = -id where id % 1000 = 0").await.unwrap();
        loop {
            let fetched = transaction.query("fetch 10000 from c", &[]).await.unwrap();
            let advanced = transaction.query_portal(&portal, 10_000).await.unwrap();
            if fetched.is_empty() && advanced.is_empty() {
                break;
            }
            for (sum, rows) in sums.iter_mut().zip([fetched, advanced]) {
                *sum += rows.iter().map(|row| i64::from(row.get::<_, i32>(0))).sum::<i64>();
            }
        }
        let back = transaction.query("fetch prior from c", &[]).await.unwrap_err();
        assert_eq!(back.code(), Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE));
        transaction.rollback().await.unwrap();
        // The portal ran first when other's update was committed.
        let (all, changed) = (ROWS * (ROWS + 1) / 2, ROWS / 1000 * (ROWS + 1000) / 2);
        assert_eq!(sums, [all, all - changed]);
        let grown = resident_mb(program.0.id()).saturating_sub(before);
        assert!(grown < 100, "{grown} MB");
    });
}
