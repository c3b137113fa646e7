//! Clients that wait for a connection of a full pool: they take nobody's slot, wait in the order of their classes, and
//! not for ever.

use crate::admin::{cell, rows};
use crate::support::{Front, Gate, value};
use ::gate::GateSettings;
use proxy::{PoolLimits, UpstreamOptions, WatchOptions};
use server::{AdmissionOptions, Mode};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wirekit::cluster::Cluster;
use wirekit::raw::{PATIENCE, Raw, query};
use wirekit::waits::{keep_slots, state, until, waiting};

fn admission(slots: u32, change: impl FnOnce(&mut GateSettings)) -> AdmissionOptions {
    let mut gate = GateSettings::of_priorities(slots);
    keep_slots(&mut gate);
    change(&mut gate);
    AdmissionOptions { mode: Mode::Fixed, gate, ..AdmissionOptions::default() }
}

fn of(size: usize) -> UpstreamOptions {
    PoolLimits { size, ..PoolLimits::default() }.into()
}

fn url(cluster: &Cluster) -> String {
    format!("postgres://postgres@127.0.0.1:{}/postgres", cluster.port)
}

/// Client of the wire protocol of this user and database.
fn raw(gate: &Gate, user: &str, database: &str) -> Raw<TcpStream> {
    let mut raw = Raw::connect(gate.address);
    raw.start(&[("user", user), ("database", database)]);
    raw
}

/// Four transactions of one user wait for the two connections of its pool, and two slots are free: another user's
/// transaction gets one at once.
pub fn who_waits_for_a_connection_takes_no_slot() {
    let Some(cluster) = Cluster::start("") else { return };
    cluster.ask("create role ann login");
    let url = url(&cluster);
    let front = Front::behind(cluster, &url, of(2), &admission(4, |_| {}), |_| {});
    let mut holders: Vec<_> = (0..2).map(|_| raw(&front, "postgres", "postgres")).collect();
    holders.iter_mut().for_each(|holder| drop(holder.ask(&query("begin; select 1"))));
    let mut other = raw(&front, "ann", "template1");
    let mut waiters: Vec<_> = (0..4).map(|_| front.raw()).collect();
    waiters.iter_mut().for_each(|waiter| waiter.send(&query("select 7 as a")));
    front.runtime.block_on(until("they wait", || waiting(&front.admission) == 4));
    assert_eq!(front.admission.view().unwrap().gate.slots, 2, "who waits for a connection holds a slot");
    assert_eq!(other.ask(&query("select 8 as a")), "T(a:23:0) D(8) C(SELECT 1) Z(I)");
    front.runtime.block_on(async {
        let admin = front.try_client("dbname=overtake").await.unwrap();
        let own = [("database", "postgres"), ("user", "postgres")];
        assert_eq!(cell(&rows(&admin, "show pools by server").await, &own, "cl_waiting"), "4");
        // A moment after they have arrived at the gate.
        let begun = Instant::now();
        while cell(&rows(&admin, "show pools").await, &own, "cl_waiting") != "4" {
            assert!(begun.elapsed() < PATIENCE, "they are not seen to wait");
        }
        assert_ne!(cell(&rows(&admin, "show pools").await, &own, "maxwait_us"), "0");
    });
    holders.iter_mut().for_each(|holder| drop(holder.ask(&query("commit"))));
    for waiter in &mut waiters {
        assert_eq!(waiter.answer(), "T(a:23:0) D(7) C(SELECT 1) Z(I)");
    }
    assert!(front.all_idle() <= 4);
}

/// The wait is limited by its class, by `upstream_wait` and by `query_wait_timeout`; and a client that reaches a limit
/// gets an error.
pub fn the_wait_for_a_connection_has_an_end() {
    let Some(cluster) = Cluster::start("") else { return };
    let url = url(&cluster);
    let short = Duration::from_millis(300);
    let class = admission(4, |gate| gate.classes[1].wait_max = Some(short));
    let watching = WatchOptions { patience: short, ..WatchOptions::default() };
    let fronts = [
        (
            "E(ERROR|57014|transaction of class \"normal\" waited too long to be let in",
            Gate::behind(&url, of(1), &class, |_| {}),
        ),
        (
            "E(ERROR|53300|no connection to the server became free",
            Gate::behind(&url, UpstreamOptions { watching, ..of(1) }, &admission(4, |_| {}), |_| {}),
        ),
        (
            "E(FATAL|08P01|query_wait_timeout",
            Gate::behind(&url, UpstreamOptions { query_wait: Some(short), ..of(1) }, &admission(4, |_| {}), |_| {}),
        ),
        // This also holds where no gate limits anything.
        (
            "E(ERROR|53300|no connection to the server became free",
            Gate::behind(&url, UpstreamOptions { watching, ..of(1) }, &AdmissionOptions::default(), |_| {}),
        ),
    ];
    for (wanted, gate) in fronts {
        let (mut holder, mut waiter) = (gate.raw(), gate.raw());
        holder.ask(&query("begin; select 1"));
        let begun = Instant::now();
        waiter.send(&query("select 7 as a"));
        let said = std::iter::from_fn(|| waiter.next()).find(|said| said.starts_with("E(")).unwrap_or_default();
        assert!(said.starts_with(wanted), "{said}");
        assert!(short <= begun.elapsed(), "{wanted}: after {:?}", begun.elapsed());
        assert_eq!(holder.ask(&query("commit")), "C(COMMIT) Z(I)");
        if wanted.contains("FATAL") {
            assert_eq!(waiter.next(), None, "it is disconnected, as by PgBouncer");
            continue;
        }
        assert_eq!(waiter.next().as_deref(), Some("Z(I)"));
        assert_eq!(waiter.ask(&query("select 7 as a")), "T(a:23:0) D(7) C(SELECT 1) Z(I)");
        assert_eq!(gate.all_idle(), 1);
    }
}

/// Nobody is turned away as long as connections change hands, however long the queue.
pub fn a_line_that_moves_is_waited_in() {
    let Some(cluster) = Cluster::start("") else { return };
    let url = url(&cluster);
    let watching = WatchOptions { patience: Duration::from_secs(2), ..WatchOptions::default() };
    let gate = Gate::behind(&url, UpstreamOptions { watching, ..of(1) }, &admission(40, |_| {}), |_| {});
    let begun = Instant::now();
    let mut all: Vec<_> = (0..30).map(|_| gate.raw()).collect();
    all.iter_mut().for_each(|raw| raw.send(&query("select 'a' || pg_sleep(0.1) as a")));
    for raw in &mut all {
        assert_eq!(raw.answer(), "T(a:25:0) D(a) C(SELECT 1) Z(I)");
    }
    assert!(watching.patience < begun.elapsed());
}

/// The only connection goes to the most important waiter, not to the first one; with a gate that has slots to spare,
/// and without any.
pub fn a_connection_goes_to_the_most_important() {
    let Some(cluster) = Cluster::start("") else { return };
    let url = url(&cluster);
    for admission in [admission(8, |_| {}), AdmissionOptions::default()] {
        let gate = Gate::behind(&url, of(1), &admission, |_| {});
        gate.runtime.block_on(async {
            let holder = gate.client().await;
            holder.batch_execute("drop table if exists t; create table t (a int, at timestamptz)").await.unwrap();
            holder.batch_execute("begin; insert into t values (0, clock_timestamp())").await.unwrap();
            let admin = gate.try_client("dbname=overtake").await.unwrap();
            let own = [("database", "postgres"), ("user", "postgres")];
            let mut sessions = Vec::new();
            for (at, class) in ["low", "normal", "high"].iter().enumerate() {
                let client = Arc::new(gate.client().await);
                let text = format!("/*+ priority={class} */ insert into t values ({}, clock_timestamp())", at + 1);
                let task = {
                    let client = Arc::clone(&client);
                    tokio::spawn(async move { client.batch_execute(&text).await })
                };
                let begun = Instant::now();
                while cell(&rows(&admin, "show pools by server").await, &own, "cl_waiting") != (at + 1).to_string() {
                    assert!(begun.elapsed() < PATIENCE, "{class} does not wait");
                }
                sessions.push((client, task));
            }
            holder.batch_execute("commit").await.unwrap();
            for (_, task) in sessions {
                task.await.unwrap().unwrap();
            }
            let order = value(&holder, "select string_agg(a::text, ',' order by at) from t").await;
            assert_eq!(order, "0,3,2,1");
        });
        assert_eq!(gate.all_idle(), 1);
    }
}

/// A server that has no room for as many connections as the pool: a client that waits for one of the few holds no slot
/// either, and where none can come back, it gets an error soon.
pub fn a_server_without_room_takes_no_slots() {
    let Some(cluster) = Cluster::start("") else { return };
    cluster.ask("create role few login connection limit 1");
    let url = url(&cluster);
    let front = Front::behind(cluster, &url, of(8), &admission(3, |_| {}), |_| {});
    let mut holder = raw(&front, "few", "postgres");
    assert!(holder.ask(&query("begin; select 1 as a")).ends_with("Z(T)"));
    let mut waiters: Vec<_> = (0..4).map(|_| raw(&front, "few", "postgres")).collect();
    waiters.iter_mut().for_each(|waiter| waiter.send(&query("select 7 as a")));
    front.runtime.block_on(until("they wait", || {
        waiting(&front.admission) == 4 && front.admission.view().unwrap().gate.slots == 1
    }));
    let mut other = front.raw();
    assert_eq!(other.ask(&query("select 8 as a")), "T(a:23:0) D(8) C(SELECT 1) Z(I)");
    // As soon as the server has room, one of them gets the connection.
    front.cluster.ask("alter role few connection limit 2");
    assert_eq!(waiters[0].answer(), "T(a:23:0) D(7) C(SELECT 1) Z(I)");
    holder.ask(&query("commit"));
    for waiter in &mut waiters[1..] {
        assert_eq!(waiter.answer(), "T(a:23:0) D(7) C(SELECT 1) Z(I)");
    }
    // None of them is left, and none may come.
    front.cluster.ask("alter role few connection limit 0");
    // The call waits for the end of the process.
    front.cluster.ask("select pg_terminate_backend(pid, 60000) from pg_stat_activity where usename = 'few'");
    let begun = Instant::now();
    waiters.iter_mut().for_each(|waiter| waiter.send(&query("select 7 as a")));
    for waiter in &mut waiters {
        let said = waiter.answer();
        assert!(said.starts_with("E(ERROR|53300|too many connections for role \"few\""), "{said}");
    }
    assert!(begun.elapsed() < PATIENCE);
    front.runtime.block_on(until("nobody is inside", || front.admission.view().unwrap().gate.transactions == 0));
}

/// A client that keeps its connection beyond its transaction keeps its place in the pool, and returns it once.
pub fn who_keeps_a_connection_keeps_its_place() {
    let Some(cluster) = Cluster::start("") else { return };
    let url = url(&cluster);
    let front = Front::behind(cluster, &url, of(2), &admission(1, |_| {}), |_| {});
    let mut keepers: Vec<_> = (0..2).map(|_| front.raw()).collect();
    for keeper in &mut keepers {
        assert_eq!(keeper.ask(&query("listen a")), "C(LISTEN) Z(I)");
    }
    let mut waiter = front.raw();
    waiter.send(&query("select 7 as a"));
    front.runtime.block_on(until("it waits", || {
        waiting(&front.admission) == 1 && front.admission.view().unwrap().gate.slots == 0
    }));
    // They go on without asking for a place again; one that leaves returns its own.
    for keeper in &mut keepers {
        assert_eq!(keeper.ask(&query("select 8 as a")), "T(a:23:0) D(8) C(SELECT 1) Z(I)");
    }
    keepers.pop();
    assert_eq!(waiter.answer(), "T(a:23:0) D(7) C(SELECT 1) Z(I)");
    assert_eq!(keepers[0].ask(&query("unlisten *")), "C(UNLISTEN) Z(I)");
    for _ in 0..3 {
        assert_eq!(waiter.ask(&query("select 7 as a")), "T(a:23:0) D(7) C(SELECT 1) Z(I)");
    }
    assert!(front.all_idle() <= 2);
    front.runtime.block_on(until("nobody is inside", || front.admission.view().unwrap().gate.transactions == 0));
}

/// A login that has to ask the server waits for a connection no longer than a transaction.
pub fn a_login_waits_no_longer() {
    let Some(cluster) = Cluster::start("") else { return };
    let url = url(&cluster);
    let watching = WatchOptions { patience: Duration::from_millis(200), ..WatchOptions::default() };
    let front = Front::behind(cluster, &url, UpstreamOptions { watching, ..of(1) }, &admission(4, |_| {}), |_| {});
    front.runtime.block_on(async {
        let holder = front.client().await;
        holder.batch_execute("begin; select 1").await.unwrap();
        let error = front.try_client("options='-c work_mem=7MB'").await.err().unwrap();
        assert_eq!(state(&error), "53300");
        holder.batch_execute("commit").await.unwrap();
        front.try_client("options='-c work_mem=7MB'").await.unwrap();
    });
}
