//! Guarantees for administrators, with the real database: time limits, classes, roles, clients that
//! die without leaving traces.

use crate::real::Real;
use server::{HbaRule, Stats};
use stage::Stage;
use stage::observe::Observe;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::{Client, Error, SimpleQueryMessage};
use wirekit::raw::{Raw, query};
use wirekit::waits::http;

fn told(error: &Error) -> String {
    let error = error.as_db_error().unwrap();
    format!("{} {}", error.code().code(), error.message())
}

async fn ask(client: &Client, text: &str) -> String {
    match client.simple_query(text).await {
        Ok(answer) => {
            let row = answer.iter().find_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("NULL").to_owned()),
                _ => None,
            });
            row.unwrap_or_default()
        }
        Err(error) => told(&error),
    }
}

pub fn time_limits_end_statements_and_sessions() {
    let real = Real::new();
    real.runtime.block_on(async {
        let (one, two) = (real.client().await, real.client().await);
        one.batch_execute("create table t (id int primary key); insert into t values (1)").await.unwrap();
        one.batch_execute("begin; delete from t").await.unwrap();
        assert_eq!(ask(&two, "set statement_timeout = 30").await, "");
        let late = "57014 canceling statement due to statement timeout";
        assert_eq!(ask(&two, "delete from t").await, late);
        let long = "select count(*) from generate_series(1, 100000) a, generate_series(1, 100000) b";
        assert_eq!(ask(&two, long).await, late);
        assert_eq!(ask(&two, "set statement_timeout = 0; set lock_timeout = '30ms'").await, "");
        assert_eq!(ask(&two, "delete from t").await, "55P03 canceling statement due to lock timeout");
        assert_eq!(ask(&two, "select 1").await, "1");
        two.batch_execute("set idle_in_transaction_session_timeout = '60ms'; begin; insert into t values (2)")
            .await
            .unwrap();
        real.until("its transaction ends", |engine| engine.transactions().len() == 1).await;
        assert!(two.simple_query("select 1").await.is_err());
        let three = real.client().await;
        assert_eq!(ask(&three, "set idle_session_timeout = 30").await, "");
        let begun = std::time::Instant::now();
        while !three.is_closed() {
            assert!(begun.elapsed() < Duration::from_secs(20));
            tokio::task::yield_now().await;
        }
        assert_eq!(ask(&one, "rollback").await, "");
        real.until("nothing is left", |engine| engine.transactions().is_empty() && engine.locks().is_empty()).await;
    });
}

/// A client dies in a transaction, in a wait for a row, in the middle of a long query.
pub fn a_death_leaves_nothing_behind() {
    let real = Real::new();
    real.runtime.block_on(async {
        let one = real.client().await;
        one.batch_execute("create table t (id int primary key); insert into t values (1)").await.unwrap();
        for _ in 0..5 {
            let holder = real.client().await;
            holder.batch_execute("begin; delete from t").await.unwrap();
            // A driver that is dropped waits for its answer.
            let mut waiter = Raw { stream: std::net::TcpStream::connect(real.address).unwrap(), pid: 0, secret: 0 };
            waiter.start(&[("user", "postgres")]);
            waiter.send(&query("delete from t"));
            real.until("it waits", |engine| engine.locks().iter().any(|lock| !lock.granted)).await;
            drop(waiter);
            real.until("its wait ends", |engine| engine.locks().iter().all(|lock| lock.granted)).await;
            drop(holder);
            real.until("nothing is left", |engine| engine.transactions().is_empty() && engine.locks().is_empty()).await;
        }
        assert_eq!(ask(&one, "select count(*) from t").await, "1");
    });
}

pub fn classes_come_from_everywhere() {
    let rules = "low application=nightly%; high user=till; low statement=\"%from big%\"";
    let real = Real::with(&format!("overtake.priority_rules = {rules}"), |_| {});
    real.runtime.block_on(async {
        let admin = real.client().await;
        let class = async |client: &Client| ask(client, "show overtake.priority").await;
        assert_eq!(class(&admin).await, "normal");
        admin.batch_execute("create user till; create user ann").await.unwrap();
        admin.batch_execute("create table big (id int)").await.unwrap();
        admin.batch_execute("alter role ann set overtake.priority = 'low'").await.unwrap();
        admin.batch_execute("alter role ann set overtake.priority_max = normal").await.unwrap();
        assert_eq!(class(&real.login("user=till").await.unwrap()).await, "high");
        assert_eq!(class(&real.login("user=till application_name='nightly 1'").await.unwrap()).await, "low");
        let ann = real.login("user=ann").await.unwrap();
        assert_eq!(class(&ann).await, "low");
        // Unless a superuser decides otherwise, other roles stay below `high`.
        admin.batch_execute("create user bob").await.unwrap();
        let bob = real.login("user=bob").await.unwrap();
        assert_eq!(ask(&bob, "show overtake.priority_max").await, "normal");
        assert_eq!(ask(&admin, "show overtake.priority_max").await, "high");
        let too_high = "42501 permission denied to set parameter \"overtake.priority\"";
        assert_eq!(ask(&bob, "set overtake.priority = high").await, too_high);
        admin.batch_execute("alter role bob set overtake.priority_max = high").await.unwrap();
        let bob = real.login("user=bob").await.unwrap();
        assert_eq!(ask(&bob, "set overtake.priority = high").await, "");
        // A class given by a rule can be given up and taken again.
        let till = real.login("user=till").await.unwrap();
        assert_eq!(ask(&till, "set overtake.priority = low").await, "");
        assert_eq!(ask(&till, "reset overtake.priority").await, "");
        assert_eq!(class(&till).await, "high");
        let denied = "42501 permission denied to set parameter \"overtake.priority\"";
        assert_eq!(ask(&ann, "set overtake.priority = high").await, denied);
        assert_eq!(ask(&ann, "set overtake.priority = normal").await, "");
        assert_eq!(ask(&ann, "set overtake.priority_max = high").await, denied.replace("priority", "priority_max"));
        assert_eq!(ask(&ann, "alter role ann set overtake.priority = high").await, denied);
        assert_eq!(
            ask(&ann, "/*+ priority=high */ select 1").await,
            "42501 permission denied to give a statement the class \"high\""
        );
        assert_eq!(ask(&ann, "/*+ priority=low */ select 1").await, "1");
        let error = real.login("user=ann options='-c overtake.priority=high'").await.err().unwrap();
        assert_eq!(told(&error), denied);
        let low = real.login("user=till options='--overtake.priority=low -c statement_timeout=5s'").await.unwrap();
        assert_eq!((class(&low).await, ask(&low, "show statement_timeout").await), ("low".into(), "5s".into()));
        // The open transactions that the engine reports.
        let now = async |client: &Client, first: &str| {
            client.batch_execute(&format!("begin; {first}; insert into big values (1)")).await.unwrap();
            // Other transactions have ended, or have not written.
            let open = real.engine.transactions().into_iter().filter(|open| 0 < open.writes);
            let class = open.map(|open| open.class.name()).collect::<Vec<_>>().join(" ");
            client.batch_execute("rollback").await.unwrap();
            class
        };
        assert_eq!(now(&admin, "set local overtake.priority = low").await, "low");
        assert_eq!(now(&admin, "/*+ priority=high */ select 1").await, "high");
        assert_eq!(now(&admin, "select 1 from big").await, "low");
        assert_eq!(now(&admin, "select 1").await, "normal");
        let own = "select class from overtake.activity where pid = pg_backend_pid()";
        assert_eq!(ask(&admin, &format!("/*+ priority=high */ {own}")).await, "high");
        assert_eq!(ask(&admin, own).await, "normal");
        let late = ask(&admin, "begin; insert into big values (1); set local overtake.priority = high").await;
        assert_eq!(late, "25001 SET LOCAL overtake.priority must be called before any query");
        assert_eq!(ask(&admin, "rollback; alter database postgres set overtake.priority = low").await, "");
        assert_eq!(class(&real.client().await).await, "low");
        assert_eq!(ask(&admin, "alter database postgres reset all").await, "");
        assert_eq!(class(&real.client().await).await, "normal");
    });
}

pub fn roles_are_shared_with_the_server() {
    let real = Real::with("", |config| {
        config.rules = HbaRule::parse_all("host all postgres all trust\nhost all all all scram-sha-256").unwrap();
    });
    real.runtime.block_on(async {
        let admin = real.client().await;
        admin.batch_execute("create role ann login password 'pencil' connection limit 1").await.unwrap();
        let ann = real.login("user=ann password=pencil").await.unwrap();
        let error = real.login("user=ann password=pencil").await.err().unwrap();
        assert_eq!(told(&error), "53300 too many connections for role \"ann\"");
        assert_eq!(ask(&ann, "create role bob").await, "42501 permission denied to create role");
        assert_eq!(ask(&ann, "alter role postgres password 'x'").await.split(' ').next(), Some("42501"));
        assert_eq!(ask(&ann, "show is_superuser").await, "off");
        assert_eq!(ask(&ann, "alter role ann password 'ink'").await, "");
        drop(ann);
        let error = real.login("user=ann password=pencil").await.err().unwrap();
        assert_eq!(told(&error), "28P01 password authentication failed for user \"ann\"");
        while real.login("user=ann password=ink").await.is_err() {
            // A connection's place becomes free when its session has ended.
            tokio::task::yield_now().await;
        }
        assert_eq!(ask(&admin, "create user ann").await, "42710 role \"ann\" already exists");
        assert_eq!(ask(&admin, "create user bob; select 1/0").await, "22012 division by zero");
        assert_eq!(ask(&admin, "drop role bob").await, "42704 role \"bob\" does not exist", "it was rolled back");
        assert_eq!(ask(&admin, "drop user if exists bob").await, "");
        assert_eq!(
            ask(&admin, "begin; create role bob").await,
            "0A000 CREATE ROLE in a transaction block is not supported"
        );
        assert_eq!(ask(&admin, "rollback; alter role ann nologin; alter user ann rename to eve").await, "");
        let error = real.login("user=eve password=ink").await.err().unwrap();
        assert_eq!(told(&error), "28000 role \"eve\" is not permitted to log in");
        assert_eq!(ask(&admin, "drop role eve, postgres").await, "55006 current user cannot be dropped");
        assert_eq!(ask(&admin, "drop role eve").await, "");
        assert_eq!(ask(&admin, "grant select on pg_class to eve").await, "42704 role \"eve\" does not exist");
    });
}

pub fn settings_have_sources() {
    let real = Real::with("statement_timeout = 7s\nmax_connections = 50", |_| {});
    real.runtime.block_on(async {
        let client = real.client().await;
        assert_eq!(ask(&client, "show statement_timeout").await, "7s");
        assert_eq!(
            ask(&client, "set statement_timeout = '1min'; reset statement_timeout; show statement_timeout").await,
            "7s"
        );
        let fixed = "55P02 parameter \"max_connections\" cannot be changed without restarting the server";
        assert_eq!(ask(&client, "set max_connections = 60").await, fixed);
        assert_eq!(ask(&client, "show max_connections").await, "50");
        let unknown = "42704 unrecognized configuration parameter \"nothing\"";
        assert_eq!(told(&real.login("user=postgres options='-c nothing=1'").await.err().unwrap()), unknown);
    });
}

/// The error for a wait that timed out, or was not allowed, names the awaited object and the session that holds it.
pub fn what_stood_in_the_way_is_told() {
    let real = Real::new();
    real.runtime.block_on(async {
        let (one, two) = (real.client().await, real.client().await);
        let pids = [ask(&one, "select pg_backend_pid()").await, ask(&two, "select pg_backend_pid()").await];
        one.batch_execute("create table t (id int primary key, n int)").await.unwrap();
        one.batch_execute("alter table t rename to orders; insert into orders values (1, 1), (2, 2)").await.unwrap();
        one.batch_execute("begin; update orders set n = 3 where id = 1").await.unwrap();
        let refused = "55P03 could not obtain lock on row in relation \"orders\"";
        assert_eq!(ask(&two, "select n from orders where id = 1 for update nowait").await, refused);
        let refused = "55P03 could not obtain lock on relation \"orders\"";
        assert_eq!(ask(&two, "begin; lock table orders nowait").await, refused);
        two.batch_execute("rollback; set lock_timeout = 20").await.unwrap();
        let error = two.execute("update orders set n = 4 where id = 1", &[]).await.unwrap_err();
        assert_eq!(told(&error), "55P03 canceling statement due to lock timeout");
        assert_eq!(error.as_db_error().unwrap().where_(), Some("while locking row in relation \"orders\""));
        two.batch_execute("set lock_timeout = 0; begin; update orders set n = 4 where id = 2").await.unwrap();
        let waits = tokio::spawn(async move { (one.execute("delete from orders where id = 2", &[]).await, one) });
        real.until("it waits", |engine| engine.locks().iter().any(|lock| !lock.granted)).await;
        // Of two equally important transactions, the younger one is aborted.
        let error = two.execute("delete from orders where id = 1", &[]).await.unwrap_err();
        assert_eq!(told(&error), "40P01 deadlock detected");
        let line = |who: usize, by: usize| {
            let (who, by) = (&pids[who], &pids[by]);
            format!("Process {who} waits for ExclusiveLock on row in relation \"orders\"; blocked by process {by}.")
        };
        assert_eq!(error.as_db_error().unwrap().detail(), Some(&*[line(1, 0), line(0, 1)].join("\n")));
        two.batch_execute("rollback").await.unwrap();
        assert_eq!(waits.await.unwrap().0.unwrap(), 1);
    });
}

/// Contents of the views and the metrics.
pub fn sessions_and_statements_are_counted() {
    let stats = Arc::new(Stats::default());
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let real = Real::with("", |config| {
        config.stats = stats.clone();
        config.metrics = Some(address);
    });
    real.runtime.block_on(async {
        // A more important session would take the row from the other.
        let one = "user=postgres application_name=one options='-c overtake.priority=high'";
        let (one, two) = (real.login(one).await.unwrap(), real.client().await);
        one.batch_execute("create table t (id int primary key, n int)").await.unwrap();
        for id in 0..10_i32 {
            one.execute(&format!("insert into t values ({id}, 1)"), &[]).await.unwrap();
            two.query("select n from t where id = $1", &[&id]).await.unwrap();
        }
        assert_eq!(ask(&two, "select 1 / 0").await, "22012 division by zero");
        one.batch_execute("begin; delete from t where id = 1").await.unwrap();
        let waits = tokio::spawn(async move { two.execute("delete from t where id = 1", &[]).await });
        real.until("it waits", |_| stats.activity().iter().any(|row| row.state == "waiting")).await;
        let rows = stats.activity();
        let shown: Vec<_> =
            rows.iter().map(|row| (&*row.application, row.state, row.class.name(), &*row.query)).collect();
        let waiter = ("", "waiting", "normal", "delete from t where id = 1");
        let holder = ("one", "idle in transaction", "high", "delete from t where id = 1");
        assert_eq!(shown, [holder, waiter]);
        let waiting = "select string_agg(class || ' ' || query, ';') from overtake.activity where state = 'waiting'";
        assert_eq!(ask(&one, waiting).await, "normal delete from t where id = 1");
        assert_eq!(ask(&one, "select count(*) from pg_stat_activity where state = 'active'").await, "2");
        let (holder, waiter) = (rows[0].pid, rows[1].pid);
        let blocked = "select relation || ' ' || mode || ' ' || pid || ' ' || class || ' ' || blocked_by::text
                       from overtake.locks where not granted";
        assert_eq!(ask(&one, blocked).await, format!("t for update {waiter} normal {{{holder}}}"));
        assert_eq!(ask(&one, &format!("select pg_blocking_pids({waiter})::text")).await, format!("{{{holder}}}"));
        assert_eq!(ask(&one, &format!("select pg_blocking_pids({holder})::text")).await, "{}");
        // The usual query of PostgreSQL's users for blockers.
        let joined = "select waits.pid || ' ' || has.pid from pg_locks waits join pg_locks has
                      on has.locktype = waits.locktype
                      and has.database is not distinct from waits.database
                      and has.relation is not distinct from waits.relation
                      and has.transactionid is not distinct from waits.transactionid
                      and has.pid <> waits.pid
                      where not waits.granted and has.granted";
        assert_eq!(ask(&one, joined).await, format!("{waiter} {holder}"));
        let calls = "select calls from overtake.statements where query = 'insert into t values ($1, $2)'";
        assert_eq!(ask(&one, calls).await, "10");
        assert_eq!(
            ask(&one, "select 0 < count from overtake.stages where class = 'high' and stage = 'run'").await,
            "t"
        );
        one.batch_execute("rollback").await.unwrap();
        assert_eq!(waits.await.unwrap().unwrap(), 1);
    });
    let of = |text: &str| {
        let rows = stats.statements();
        let row = rows.iter().find(|row| row.query == text).unwrap_or_else(|| panic!("{text}: {rows:?}"));
        (row.times.count, row.rows, row.errors)
    };
    assert_eq!(of("insert into t values ($1, $2)"), (10, 10, 0));
    assert_eq!(of("select n from t where id = $1"), (10, 10, 0));
    assert_eq!(of("select $1 / $2"), (1, 0, 1));
    // A statement's stages are booked when its answer is on its way, so the client may be faster.
    let delete = || stats.statements().into_iter().find(|row| row.query == "delete from t where id = $1").unwrap();
    real.wait_until("the wait is booked", |_| 0.0 < delete().us(|stage| stage == Stage::LockWait));
    assert_eq!(delete().times.count, 2);
    let metrics = http(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(
        metrics.starts_with("HTTP/1.1 200 OK\r\n") && metrics.contains("\novertake_connections_total 2\n"),
        "{metrics}"
    );
    // A statement that may be long waits for a thread, too.
    let waits =
        "overtake_stage_seconds_count{class=\"normal\",transport=\"tcp\",isolation=\"none\",stage=\"dispatch\"} ";
    let waits = metrics.split_once(waits).unwrap().1;
    assert!(!waits.starts_with('0'), "{metrics}");
    assert!(http(address, "GET /readyz HTTP/1.0\r\n\r\n").ends_with("\r\n\r\nok\n"));
    assert!(http(address, "GET /nothing HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(http(address, "PUT / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 405"));
}

/// Login with libpq, PostgreSQL's own client, where it is installed.
pub fn a_certificate_binds_the_proof() {
    let real = Real::with("", |config| {
        let pem: [&[u8]; 2] =
            [include_bytes!("../../../wire/tests/tls/cert.pem"), include_bytes!("../../../wire/tests/tls/key.pem")];
        config.tls = Some(wire::tls::from_pem(pem[0], pem[1]).unwrap());
        config.rules = HbaRule::parse_all("host all postgres all trust\nhost all all all scram-sha-256").unwrap();
    });
    let psql = |how: &str| {
        let how = format!("host=127.0.0.1 port={} dbname=postgres {how}", real.address.port());
        std::process::Command::new("psql").args(["-XAtc", "select 1", &how]).env("PGPASSWORD", "pencil").output()
    };
    let Ok(output) = psql("user=postgres sslmode=disable") else {
        assert!(std::env::var_os("OVERTAKE_CI").is_none(), "psql is not installed");
        return println!("SKIPPED: psql is not installed");
    };
    assert!(output.status.success(), "{output:?}");
    real.runtime.block_on(async {
        real.client().await.batch_execute("create user ann password 'pencil'").await.unwrap();
    });
    for (how, works) in [
        ("sslmode=disable", true),
        ("sslmode=allow", true),
        ("sslmode=prefer", true),
        ("sslmode=require", true),
        ("sslmode=require channel_binding=require", true),
        ("sslmode=require channel_binding=disable", true),
        ("sslmode=disable channel_binding=require", false),
        ("sslmode=verify-full sslrootcert=/does/not/exist", false),
    ] {
        let output = psql(&format!("user=ann {how}")).unwrap();
        assert_eq!(output.status.success(), works, "{how}: {output:?}");
    }
}

/// There are more long statements than threads, and they do not end by themselves.
pub fn long_statements_delay_nobody() {
    let real = Real::new();
    real.runtime.block_on(async {
        let long = "select count(*) from generate_series(1, 100000) a, generate_series(1, 100000) b";
        let client = real.client().await;
        // From here on the statement is known to be long.
        let late = ask(&client, &format!("set statement_timeout = 30; {long}")).await;
        assert_eq!(late, "57014 canceling statement due to statement timeout");
        let mut running = Vec::new();
        for _ in 0..5 {
            let other = real.client().await;
            let cancel = other.cancel_token();
            running.push((cancel, tokio::spawn(async move { ask(&other, long).await })));
        }
        for number in 0..20 {
            assert_eq!(ask(&client, &format!("select {number}")).await, number.to_string());
        }
        for (cancel, run) in running {
            assert!(!run.is_finished());
            cancel.cancel_query(tokio_postgres::NoTls).await.unwrap();
            assert_eq!(run.await.unwrap(), "57014 canceling statement due to user request");
        }
    });
}

/// The other way of dispatching statements gives the same answers.
pub fn statements_may_be_handed_over() {
    let real = Real::with("", |config| {
        config.dispatch = server::Dispatch::Worker;
    });
    real.runtime.block_on(async {
        let (one, two) = (real.client().await, real.client().await);
        one.batch_execute("create table t (id int primary key, n int)").await.unwrap();
        for id in 0..20_i32 {
            assert_eq!(one.execute("insert into t values ($1, 0)", &[&id]).await.unwrap(), 1);
        }
        one.batch_execute("begin; update t set n = 1 where id = 1").await.unwrap();
        let waits = tokio::spawn(async move { two.execute("update t set n = n + 1 where id = 1", &[]).await });
        real.until("it waits", |engine| engine.locks().iter().any(|lock| !lock.granted)).await;
        one.batch_execute("commit").await.unwrap();
        assert_eq!(waits.await.unwrap().unwrap(), 1);
        assert_eq!(ask(&one, "select n from t where id = 1").await, "2");
        assert_eq!(ask(&one, "select 1 / 0").await, "22012 division by zero");
    });
}

/// A cancel works even if the thread that runs the statement is the one that last looked at the network.
pub fn what_runs_can_be_cancelled() {
    let real = Real::new();
    real.runtime.block_on(async {
        let (client, other) = (real.client().await, real.client().await);
        let text = "select count(*) from generate_series(1, $1::int) a, generate_series(1, $1::int) b";
        let query = client.prepare(text).await.unwrap();
        for turn in 0..4 {
            if 0 < turn {
                // The statement is known to be short, but is not.
                for _ in 0..500 {
                    client.query_one(&query, &[&1_i32]).await.unwrap();
                }
            }
            let cancel = client.cancel_token();
            let run = client.query_one(&query, &[&100_000_i32]);
            let cancels = async {
                while ask(&other, "select count(*) from overtake.activity where state = 'active'").await != "2" {}
                cancel.cancel_query(tokio_postgres::NoTls).await.unwrap();
            };
            let (result, ()) = futures_join(run, cancels).await;
            assert_eq!(told(&result.err().unwrap()), "57014 canceling statement due to user request");
        }
    });
}

/// A cancel works wherever it comes between two of the sleeps.
pub fn what_sleeps_again_and_again_can_be_cancelled() {
    let real = Real::new();
    real.runtime.block_on(async {
        let (client, other) = (real.client().await, real.client().await);
        for turn in 0..30 {
            let cancel = client.cancel_token();
            let naps = "select count(pg_sleep(0.0002)) from generate_series(1, 3000)";
            let cancels = async {
                while ask(&other, "select count(*) from overtake.activity where state = 'active'").await != "2" {}
                tokio::time::sleep(Duration::from_micros(377 * turn)).await;
                cancel.cancel_query(tokio_postgres::NoTls).await.unwrap();
            };
            let (said, ()) = futures_join(ask(&client, naps), cancels).await;
            assert_eq!(said, "57014 canceling statement due to user request");
        }
    });
}

/// Awaits both futures concurrently.
async fn futures_join<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
    tokio::join!(one, other)
}

/// Goal: a message of very many statements can be cancelled, ends in time while it is split, and keeps no other session
/// of its thread waiting until its end. Method: one message of 300,000, and other sessions on all threads.
pub fn a_message_of_many_statements_harms_nobody() {
    let real = Real::new();
    real.runtime.block_on(async {
        let many = "select 1;".repeat(300_000);
        let client = real.client().await;
        let pid: i32 = client.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
        let mut neighbours = Vec::new();
        for _ in 0..4 {
            neighbours.push(real.client().await);
        }
        let is_over = std::cell::Cell::new(false);
        let message = async {
            let ended = client.batch_execute(&many).await;
            is_over.set(true);
            ended
        };
        let others = async {
            let runs = "select query = 'select 1' and state = 'active' from pg_stat_activity where pid = $1";
            while !neighbours[0].query_one(runs, &[&pid]).await.unwrap().get::<_, bool>(0) {}
            for neighbour in neighbours.iter().cycle().take(40) {
                assert_eq!(ask(neighbour, "select 2").await, "2");
            }
            assert!(!is_over.get(), "they have waited for the end of the message");
            assert_eq!(ask(&neighbours[0], &format!("select pg_cancel_backend({pid})")).await, "t");
        };
        let (ended, ()) = tokio::join!(message, others);
        assert_eq!(told(&ended.unwrap_err()), "57014 canceling statement due to user request");
        // A cancel applies to one message.
        assert_eq!(ask(&client, "select 3; select 4").await, "3");
        client.batch_execute("set statement_timeout = '20ms'").await.unwrap();
        let late = client.batch_execute(&many).await.unwrap_err();
        assert_eq!(told(&late), "57014 canceling statement due to statement timeout");
        assert_eq!(ask(&client, "select 5").await, "5");
    });
}
