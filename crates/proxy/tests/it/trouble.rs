//! Clients that go, servers that go, and cancels.

use crate::support::{Front, Gate, spared, value};
use proxy::PoolLimits;
use std::time::Duration;
use tokio_postgres::NoTls;
use wirekit::cluster::Cluster;
use wirekit::raw::{bind, execute, message, parse, query, sync};

/// A client that is killed leaves no transaction, no data of a COPY, and nothing for the next client.
pub fn clients_that_go_leave_nothing() {
    let Some(front) = Front::new(1) else { return };
    let mut first = front.raw();
    first.ask(&query("create table t (a int)"));
    for (number, last_words) in [
        query("begin; insert into t values (1)"),
        query("begin; select 1/0"),
        [query("copy t from stdin"), message(b'd', b"1\n")].concat(),
        [query("copy t from stdin"), message(b'd', b"1\n")[..6].to_vec()].concat(),
        [query("begin"), query("copy t from stdin")].concat(),
        [parse("", "insert into t values (1)", &[]), bind("", "", &[], &[], &[]), execute("", 0)].concat(),
        [parse("", "copy t from stdin", &[]), bind("", "", &[], &[], &[]), execute("", 0), sync()].concat(),
        [query("begin"), query("select repeat('x', 1000) from generate_series(1, 10000)")].concat(),
        query("select 1")[..3].to_vec(),
        [query("begin; insert into t values (1)"), message(b'X', b"")].concat(),
        [query("copy t from stdin"), message(b'X', b"")].concat(),
        [query("copy t from stdin"), message(b'd', b"1\n"), message(b'X', b"")].concat(),
        [parse("", "insert into t values (1)", &[]), bind("", "", &[], &[], &[]), message(b'X', b"")].concat(),
    ]
    .into_iter()
    .enumerate()
    {
        let mut raw = front.raw();
        raw.send(&last_words);
        if number % 2 == 0 {
            raw.stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            let _ = std::io::Read::read(&mut raw.stream, &mut [0; 100]);
        }
        drop(raw);
        assert_eq!(first.ask(&query("select count(*) as n from t")), "T(n:20:0) D(0) C(SELECT 1) Z(I)", "{number}");
    }
    // Earlier requests are completed all the same.
    let mut raw = front.raw();
    raw.send(&[query("insert into t values (1)"), message(b'X', b"")].concat());
    drop(raw);
    let begun = std::time::Instant::now();
    while first.ask(&query("select count(*) as n from t")) != "T(n:20:0) D(1) C(SELECT 1) Z(I)" {
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
    assert!(front.all_idle() <= 1);
}

/// A client that can be served no more, because its role is gone, is told so at once, and leaves its connection to
/// others.
pub fn who_cannot_be_served_is_told_at_once() {
    let Some(front) = Front::new(1) else { return };
    front.cluster.ask("create role bob");
    for begins in [false, true] {
        let (mut one, mut other) = (front.raw(), front.raw());
        one.ask(&query("set role bob"));
        other.ask(&query("select 1"));
        front.cluster.ask("drop role bob");
        let begun = std::time::Instant::now();
        if begins {
            assert_eq!(one.ask(&query("begin")), "C(BEGIN) Z(T)");
        }
        let said = one.ask(&query("select 1"));
        assert!(said.contains("role \"bob\" does not exist"), "{said}");
        assert_eq!(other.ask(&query("select 1 as a")), "T(a:23:0) D(1) C(SELECT 1) Z(I)");
        assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
        front.cluster.ask("create role bob");
    }
    front.all_idle();
}

/// A server that goes: clients without a request under way do not notice; the others get the right error.
pub fn servers_that_go() {
    let Some(front) = Front::new(4) else { return };
    front.runtime.block_on(async {
        let (idle, open, committing) = (front.client().await, front.client().await, front.client().await);
        value(&idle, "select 1").await;
        open.batch_execute("create table t (a int primary key deferrable initially deferred); begin").await.unwrap();
        // A commit that takes long: a deferred trigger sleeps.
        committing
            .batch_execute(
                "create table s (a int);
                 create function sleeps() returns trigger language plpgsql as
                 $$ begin perform pg_sleep(30); return null; end $$;
                 create constraint trigger z after insert on s deferrable initially deferred for each row
                 execute function sleeps();
                 begin; insert into s values (1)",
            )
            .await
            .unwrap();
        let direct = front.cluster.client().await;
        let pid: i32 = value(&open, "select pg_backend_pid()").await.parse().unwrap();
        let committing_pid: i32 = value(&committing, "select pg_backend_pid()").await.parse().unwrap();
        // The backend is terminated: the client gets the server's message.
        let ended = tokio::spawn(async move { open.simple_query("select pg_sleep(30)").await });
        while value(&direct, &format!("select state from pg_stat_activity where pid = {pid}")).await != "active" {}
        value(&direct, &format!("select pg_terminate_backend({pid})")).await;
        let error = ended.await.unwrap().err().unwrap();
        assert_eq!(error.code().map(|code| code.code()), Some("57P01"), "{error:?}");
        // The backend is killed in its COMMIT.
        let ended = tokio::spawn(async move { committing.simple_query("commit").await });
        let waits = format!("select wait_event from pg_stat_activity where pid = {committing_pid}");
        while value(&direct, &waits).await != "PgSleep" {}
        Cluster::kill(committing_pid);
        let error = ended.await.unwrap().err().unwrap();
        assert_eq!(error.code().map(|code| code.code()), Some("08007"), "{error:?}");
        // The whole server has crashed, with all its connections, and accepts clients when it is back.
        let begun = std::time::Instant::now();
        while !direct.is_closed() || front.cluster.try_client().await.is_err() {
            assert!(begun.elapsed() < Duration::from_secs(20), "it does not come back");
            tokio::task::yield_now().await;
        }
        // An idle client gets a new connection.
        assert_eq!(value(&idle, "select 1").await, "1");
    });
}

/// A cancel ends the statement of the client that asked, and never that of the next user of the connection.
pub fn cancels_are_exact() {
    let Some(front) = Front::new(1) else { return };
    front.runtime.block_on(async {
        let (one, two) = (front.client().await, front.client().await);
        let cancel = one.cancel_token();
        let slept = tokio::spawn(async move {
            let slept = one.simple_query("select pg_sleep(30)").await;
            (one, slept)
        });
        let direct = front.cluster.client().await;
        let sleeps = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'";
        while value(&direct, sleeps).await != "1" {}
        cancel.cancel_query(NoTls).await.unwrap();
        let (one, slept) = slept.await.unwrap();
        assert_eq!(slept.unwrap_err().code().unwrap().code(), "57014");
        // Many cancels, always a little too late: the other client's statements are never hit.
        for turn in 0..200 {
            let asked = one.simple_query("select 1");
            let cancelled = async {
                if turn % 3 == 0 {
                    tokio::task::yield_now().await;
                }
                cancel.cancel_query(NoTls).await.unwrap();
            };
            let others = async {
                for _ in 0..5 {
                    two.simple_query("select pg_sleep(0.001)").await.unwrap();
                }
            };
            let (_, (), ()) = tokio::join!(asked, cancelled, others);
        }
    });
    assert_eq!(front.all_idle(), 1);
}

/// A client that keeps its connection is cancelled there, loses no state that ties it, and nobody else is hit.
pub fn who_keeps_a_connection_can_be_cancelled() {
    let Some(front) = Front::new(2) else { return };
    front.runtime.block_on(async {
        let direct = front.cluster.client().await;
        let sleeps = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'";
        for (holds, shows, shown) in [
            ("begin; declare c cursor with hold for select 7; commit", "fetch absolute 1 c", "7"),
            ("create temp table x as select 8 as a", "select a from x", "8"),
        ] {
            let (one, two) = (front.client().await, front.client().await);
            one.batch_execute(holds).await.unwrap();
            let (cancel, other) = (one.cancel_token(), two.cancel_token());
            let slept = [one, two].map(|client| {
                tokio::spawn(async move {
                    let slept = client.simple_query("select pg_sleep(30)").await;
                    (client, slept)
                })
            });
            while value(&direct, sleeps).await != "2" {}
            cancel.cancel_query(NoTls).await.unwrap();
            let [first, second] = slept;
            let (one, slept) = first.await.unwrap();
            assert_eq!(slept.unwrap_err().code().unwrap().code(), "57014");
            assert_eq!(value(&direct, sleeps).await, "1");
            other.cancel_query(NoTls).await.unwrap();
            let (two, slept) = second.await.unwrap();
            assert_eq!(slept.unwrap_err().code().unwrap().code(), "57014");
            // The server signals twice, and the driver sends the next statement before the last one's `ReadyForQuery`
            // has come.
            spared(&two, "select 1").await;
            // Too late for the one, and never for the other.
            for _ in 0..50 {
                let asked = one.simple_query("select 1");
                let others = two.simple_query("select pg_sleep(0.001)");
                let (_, cancelled, others) = tokio::join!(asked, cancel.cancel_query(NoTls), others);
                cancelled.unwrap();
                others.unwrap();
            }
            // A cancel that is still on its way may hit the next request on the same connection, as at any server.
            assert_eq!(spared(&one, shows).await, shown);
        }
    });
}

/// A proxy that shuts down reports an unknown outcome only for transactions that may have been committed.
pub fn a_shutdown_says_what_is_known() {
    let Some(cluster) = Cluster::start("") else { return };
    cluster.ask("create table t (a int)");
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", cluster.port);
    for (text, state) in [
        ("select count(*) from (select pg_sleep(30)) s", "57P01"),
        ("insert into t select 1 from pg_sleep(30)", "08007"),
        ("begin; insert into t select 1 from pg_sleep(30)", "08007"),
    ] {
        let (end, ends) = tokio::sync::oneshot::channel();
        let gate = Gate::until(&url, PoolLimits::default(), async { drop(ends.await) });
        gate.runtime.block_on(async {
            let client = gate.client().await;
            let pid: i32 = value(&client, "select pg_backend_pid()").await.parse().unwrap();
            let direct = cluster.client().await;
            let asked = tokio::spawn(async move { client.simple_query(text).await });
            let waits = format!("select wait_event from pg_stat_activity where pid = {pid}");
            while value(&direct, &waits).await != "PgSleep" {}
            end.send(()).unwrap();
            let error = asked.await.unwrap().unwrap_err();
            assert_eq!(error.code().map(|code| code.code()), Some(state), "{text}: {error:?}");
            value(&direct, &format!("select pg_terminate_backend({pid})")).await;
        });
    }
}

/// A client that waits for a connection and is cancelled leaves the queue.
pub fn who_waits_can_be_cancelled() {
    let Some(front) = Front::new(1) else { return };
    front.runtime.block_on(async {
        let (one, two) = (front.client().await, front.client().await);
        one.batch_execute("begin; select 1").await.unwrap();
        let cancel = two.cancel_token();
        let waits = tokio::spawn(async move {
            let waited = two.simple_query("select 1").await;
            (two, waited)
        });
        while !waits.is_finished() {
            cancel.cancel_query(NoTls).await.unwrap();
            tokio::task::yield_now().await;
        }
        let (two, waited) = waits.await.unwrap();
        assert_eq!(waited.unwrap_err().code().unwrap().code(), "57014");
        one.batch_execute("commit").await.unwrap();
        assert_eq!(value(&two, "select 2").await, "2");
    });
}

/// A connection breaks without a message: in a statement, and with state on it while nothing was under way.
pub fn lost_connections_have_their_codes() {
    for (first, second) in [("begin", "select pg_sleep(30)"), ("listen a", ""), ("begin", "")] {
        let Some(front) = Front::new(4) else { return };
        front.runtime.block_on(async {
            let client = front.client().await;
            client.batch_execute(first).await.unwrap();
            let pid: i32 = value(&client, "select pg_backend_pid()").await.parse().unwrap();
            let direct = front.cluster.client().await;
            let asked = tokio::spawn(async move {
                let asked = if second.is_empty() { Ok(Vec::new()) } else { client.simple_query(second).await };
                (client, asked)
            });
            let waits = format!("select wait_event from pg_stat_activity where pid = {pid}");
            while value(&direct, &waits).await != if second.is_empty() { "ClientRead" } else { "PgSleep" } {}
            Cluster::kill(pid);
            let (client, asked) = asked.await.unwrap();
            match asked {
                Err(error) => assert_eq!(error.code().map(|code| code.code()), Some("08006"), "{first}: {error:?}"),
                // Nothing was asked: the connection ends, with the state on it.
                Ok(_) => assert!(client.simple_query("select 1").await.is_err(), "{first}"),
            }
            let begun = std::time::Instant::now();
            while !client.is_closed() {
                assert!(begun.elapsed() < Duration::from_secs(20));
                tokio::task::yield_now().await;
            }
        });
    }
}
