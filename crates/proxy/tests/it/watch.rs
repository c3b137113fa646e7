//! The watcher: wait events of server processes name the resource that dominates, give the model its demands, and tell
//! real stalls from long statements.

use crate::admin::{admin, cell, rows};
use crate::support::Front;
use ::gate::GateSettings;
use proxy::{PoolLimits, UpstreamOptions};
use std::time::{Duration, Instant};
use tokio_postgres::Client;
use wirekit::cluster::Cluster;
use wirekit::raw::PATIENCE;

/// Proxy with a watcher that looks all the time; `user` is the URL's.
fn front(user: &str, gate: GateSettings) -> Option<Front> {
    let cluster = Cluster::start("")?;
    cluster.ask("create role app login");
    cluster.pin();
    let url = format!("postgres://{user}@127.0.0.1:{}/postgres", cluster.port);
    let watch = Some(Duration::from_millis(10));
    let options = UpstreamOptions { watch, ..PoolLimits { size: 20, ..PoolLimits::default() }.into() };
    Some(Front::gated(cluster, &url, options, gate, |_| {}))
}

/// Repeats a SHOW until its rows meet a condition.
async fn until(admin: &Client, show: &str, is_so: impl Fn(&[Vec<(String, String)>]) -> bool) {
    let begun = Instant::now();
    loop {
        let rows = rows(admin, show).await;
        if is_so(&rows) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{show}: {rows:?}");
        tokio::task::yield_now().await;
    }
}

fn dominating(rows: &[Vec<(String, String)>]) -> &str {
    cell(rows, &[("mode", "fixed")], "dominating")
}

pub fn the_resource_that_dominates_is_named() {
    let Some(front) = front("postgres", GateSettings::of_priorities(1_000)) else { return };
    front.runtime.block_on(async {
        let admin = admin(&front).await;
        assert_eq!(dominating(&rows(&admin, "show mpl").await), "NULL");
        assert_eq!(rows(&admin, "show resources").await.len(), 6);
        let worker = front.client().await;
        worker.batch_execute("create table t (a int); insert into t values (1)").await.unwrap();
        for _ in 0..60 {
            worker.batch_execute("select count(*) from generate_series(1, 100000)").await.unwrap();
        }
        until(&admin, "show mpl", |rows| dominating(rows) == "processor").await;
        // Enough was observed for a model, unless the machine is very fast.
        while cell(&rows(&admin, "show mpl").await, &[("mode", "fixed")], "source") != "wait events" {
            worker.batch_execute("select count(*) from generate_series(1, 100000)").await.unwrap();
        }
        let found = rows(&admin, "show resources").await;
        let of = |resource, column| cell(&found, &[("resource", resource)], column);
        let number = |resource, column| of(resource, column).parse::<f64>().unwrap();
        assert_eq!((of("processor", "dominates"), of("lock", "dominates")), ("t", "f"));
        assert!(0.5 < number("processor", "share") && 1.0 < number("processor", "demand_ms"), "{found:?}");
        // The server is on this host, and may use one of its processors.
        assert!(0.0 < number("processor", "host_busy") && number("processor", "host_busy") <= 1.0, "{found:?}");
        assert_eq!(front.admission.view().unwrap().processors, 1);
        // One transaction holds a lock and waits for its client; others wait for it.
        let holder = front.client().await;
        holder.batch_execute("begin; update t set a = 2").await.unwrap();
        let mut waiting = Vec::new();
        for _ in 0..15 {
            let waiter = front.client().await;
            waiting.push(tokio::spawn(async move { waiter.batch_execute("update t set a = 3").await }));
        }
        until(&admin, "show mpl", |rows| dominating(rows) == "lock").await;
        holder.batch_execute("commit").await.unwrap();
        for waiter in waiting {
            waiter.await.unwrap().unwrap();
        }
        assert_ne!(cell(&rows(&admin, "show resources").await, &[("resource", "client")], "share"), "0");
    });
    front.all_idle();
}

/// Gate for one transaction at a time, which gives nobody a slot because of silence.
fn narrow(stall_patience: Option<Duration>) -> GateSettings {
    let lend_after = Some(Duration::from_millis(20));
    GateSettings { lend_after, stall_patience, ..GateSettings::of_priorities(1) }
}

/// Waits until the watcher has looked once.
async fn until_watched(front: &Front, admin: &Client) {
    let client = front.client().await;
    let running = tokio::spawn(async move { client.batch_execute("select pg_sleep(0.1)").await });
    let is_seen = |rows: &[Vec<(String, String)>]| cell(rows, &[("resource", "other")], "samples") != "0";
    running.await.unwrap().unwrap();
    until(admin, "show resources", is_seen).await;
}

pub fn who_waits_for_itself_is_let_in_at_once() {
    let Some(front) = front("postgres", narrow(None)) else { return };
    front.runtime.block_on(async {
        let (one, two) = (front.client().await, front.client().await);
        one.batch_execute("create table t (a int); insert into t values (1)").await.unwrap();
        one.batch_execute("begin; update t set a = 2").await.unwrap();
        // The transaction gets the slot that is lent, and waits for the first.
        let other = front.try_client("application_name=other").await.unwrap();
        let stuck = tokio::spawn(async move { other.batch_execute("update t set a = 3").await });
        let admin = admin(&front).await;
        let waits = |rows: &[Vec<(String, String)>]| cell(rows, &[("resource", "lock")], "samples") != "0";
        until(&admin, "show resources", waits).await;
        // The first one's client goes on when this is answered, which the gate holds back.
        two.batch_execute("select 1").await.unwrap();
        assert_eq!(front.admission.view().unwrap().gate.counters.extra, 1);
        one.batch_execute("commit").await.unwrap();
        stuck.await.unwrap().unwrap();
    });
    front.all_idle();
}

/// Number of extra slots while a transaction waited for a long statement.
fn extra_beside_a_long_statement(user: &str) -> Option<u64> {
    let front = front(user, narrow(Some(Duration::from_millis(300))))?;
    front.runtime.block_on(async {
        let admin = admin(&front).await;
        if user == "postgres" {
            until_watched(&front, &admin).await;
        }
        let (long, short) = (front.client().await, front.client().await);
        let sleeps = tokio::spawn(async move { long.batch_execute("select pg_sleep(1.5)").await });
        let begun = Instant::now();
        while front.admission.view().unwrap().gate.slots == 0 {
            assert!(begun.elapsed() < PATIENCE);
            tokio::task::yield_now().await;
        }
        short.batch_execute("select 1").await.unwrap();
        sleeps.await.unwrap().unwrap();
    });
    front.all_idle();
    Some(front.admission.view().unwrap().gate.counters.extra)
}

pub fn a_long_statement_is_no_stall() {
    assert!(matches!(extra_beside_a_long_statement("postgres"), None | Some(0)));
}

/// A watcher without the rights to see goes by time.
pub fn without_rights_silence_is_a_stall() {
    assert!(matches!(extra_beside_a_long_statement("app"), None | Some(1)));
}
