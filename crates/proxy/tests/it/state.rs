//! State of a session follows it; state that cannot follow ties it to its connection.

use crate::admin::{cell, rows};
use crate::support::{Front, Gate, try_value, value};
use proxy::{PoolLimits, UpstreamOptions};
use settings::Defaults;
use settings::sources;
use std::time::Duration;
use tokio_postgres::SimpleQueryMessage;
use wirekit::cluster::Cluster;
use wirekit::raw::{bind, execute, message, named, parse, query, sync};

/// Settings follow their client from connection to connection, and no other.
pub fn settings_follow() {
    let Some(front) = Front::new(1) else { return };
    front.runtime.block_on(async {
        let (one, two) = (front.client().await, front.client().await);
        one.batch_execute("create schema a; create table a.t as select 7 as n; set search_path = a").await.unwrap();
        assert!(try_value(&two, "select n from t").await.is_err());
        assert_eq!(value(&one, "select n from t").await, "7");
        two.batch_execute("set work_mem = '5MB'; set app.tenant = '42'").await.unwrap();
        assert_eq!(value(&one, "show work_mem").await, "4MB");
        assert_eq!(value(&one, "select coalesce(nullif(current_setting('app.tenant', true), ''), '-')").await, "-");
        assert_eq!(value(&two, "show work_mem").await, "5MB");
        assert_eq!(value(&two, "select current_setting('app.tenant')").await, "42");
        assert_eq!(value(&two, "show search_path").await, "\"$user\", public");
        // A setting that ends with its transaction, or was rolled back with it, is nowhere.
        one.batch_execute("begin; set local search_path = x; commit; begin; set work_mem = '9MB'; rollback")
            .await
            .unwrap();
        assert_eq!(value(&one, "show search_path").await, "a");
        assert_eq!(value(&one, "show work_mem").await, "4MB");
        one.batch_execute("reset search_path").await.unwrap();
        assert!(try_value(&one, "select n from t").await.is_err());
        two.batch_execute("discard all").await.unwrap();
        assert_eq!(value(&two, "show work_mem").await, "4MB");
        // Roles, too.
        one.batch_execute("create role ann; set role ann").await.unwrap();
        assert_eq!(value(&two, "select current_user").await, "postgres");
        assert_eq!(value(&one, "select current_user").await, "ann");
        assert!(try_value(&one, "create role bob").await.is_err());
        one.batch_execute("reset role").await.unwrap();
        assert_eq!(value(&one, "select current_user").await, "postgres");
    });
    assert_eq!(front.all_idle(), 1);
}

/// An empty setting of two parts follows its client as any other does, and reaches nobody else.
pub fn empty_settings_follow() {
    let Some(front) = Front::new(1) else { return };
    front.runtime.block_on(async {
        let (one, two) = (front.client().await, front.client().await);
        let three = front.try_client("options='-c app.three= -c app.four=4'").await.unwrap();
        let admin = front.try_client("dbname=overtake").await.unwrap();
        for (client, set, name, is) in [
            (&one, "set app.one = ''", "app.one", ""),
            (&one, "select set_config('app.two', '', false)", "app.two", ""),
            (&one, "set app.five = 'a'; reset app.five", "app.five", ""),
            (&three, "select 1", "app.three", ""),
            (&three, "set app.four = 'a'; reset app.four", "app.four", "4"),
            (&three, "set app.three = '7'", "app.three", "7"),
        ] {
            client.batch_execute(set).await.unwrap();
            // On a connection that has never had it.
            admin.batch_execute("reconnect").await.unwrap();
            let shown = format!("select '-' || current_setting('{name}')");
            assert_eq!(value(client, &shown).await, format!("-{is}"), "{set}");
            admin.batch_execute("reconnect").await.unwrap();
            assert!(try_value(&two, &shown).await.is_err(), "{set}");
        }
    });
    assert_eq!(front.all_idle(), 1);
}

/// Settings of a call whose function is written in an unusual way follow as well; and a client that holds a lock by
/// such a call keeps its connection.
pub fn calls_are_found_however_they_are_written() {
    let Some(front) = Front::new(1) else { return };
    front.runtime.block_on(async {
        let (one, two) = (front.client().await, front.client().await);
        let tenant = "select coalesce(nullif(current_setting('app.tenant', true), ''), '-')";
        for (call, show) in [
            ("\"pg_catalog\".set_config('work_mem', '1234kB', false)", "show work_mem"),
            ("pg_catalog .set_config('work_mem', '1235kB', false)", "show work_mem"),
            ("set_config('work_mem', '1236kB' /* ,true) */, false)", "show work_mem"),
            ("\"pg_catalog\".\"set_config\"('app.tenant', '42', false)", tenant),
        ] {
            let before = value(&two, show).await;
            let set = value(&one, &format!("select {call}")).await;
            assert_eq!(value(&two, show).await, before, "{call}");
            assert_eq!(value(&one, show).await, set, "{call}");
        }
        one.batch_execute("set app . Name = 'a'").await.unwrap();
        let name = "select coalesce(nullif(current_setting('app.name', true), ''), '-')";
        assert_eq!(value(&two, name).await, "-");
        assert_eq!(value(&one, name).await, "a");
    });
    assert_eq!(front.all_idle(), 1);
    let Some(front) = Front::new(2) else { return };
    front.runtime.block_on(async {
        let (one, two) = (front.client().await, front.client().await);
        for lock in ["\"pg_catalog\".pg_advisory_lock(77)", "pg_catalog .pg_advisory_lock(77)"] {
            one.batch_execute(&format!("select {lock}")).await.unwrap();
            for _ in 0..3 {
                assert_eq!(value(&two, "select pg_try_advisory_lock(77)").await, "f", "{lock}");
            }
            assert_eq!(value(&one, "select pg_advisory_unlock(77)").await, "t", "{lock}");
            assert_eq!(front.all_idle(), 2, "{lock}");
        }
        // A name that nobody can read keeps its client where it is.
        one.batch_execute("select set_config('app' || '.joined', '42', false)").await.unwrap();
        let joined = "select coalesce(current_setting('app.joined', true), '-')";
        for _ in 0..3 {
            assert_eq!(value(&two, joined).await, "-");
            assert_eq!(value(&one, joined).await, "42");
        }
    });
    // A name that a block of code composes does so, too.
    for set in ["format('set app.%s = 42', 'block')", "'set app.blo' || 'ck' || ' = 42'", "'set ' || 'app.block = 42'"]
    {
        front.all_idle();
        front.runtime.block_on(async {
            let (one, two) = (front.client().await, front.client().await);
            one.batch_execute(&format!("do $$ begin execute {set}; end $$")).await.unwrap();
            let shown = "select coalesce(current_setting('app.block', true), '-')";
            for _ in 0..3 {
                assert_eq!(value(&two, shown).await, "-", "{set}");
                assert_eq!(value(&one, shown).await, "42", "{set}");
            }
        });
    }
}

/// The level of a transaction is no setting of the session, although the server lists it as one once somebody has set
/// it; the level of later transactions is.
pub fn levels_are_of_transactions() {
    let Some(front) = Front::new(1) else { return };
    front.runtime.block_on(async {
        let (one, two) = (front.client().await, front.client().await);
        for before in [
            "begin; set transaction isolation level serializable; select 1; commit",
            "set transaction isolation level serializable",
            "begin; set transaction read only; select 1; commit",
        ] {
            one.batch_execute(before).await.unwrap();
            for (set, level, read_only) in [
                ("set session characteristics as transaction isolation level serializable", "serializable", "off"),
                ("set default_transaction_isolation = 'repeatable read'", "repeatable read", "off"),
                ("set default_transaction_read_only = on", "repeatable read", "on"),
                ("reset default_transaction_isolation; reset default_transaction_read_only", "read committed", "off"),
            ] {
                two.batch_execute(set).await.unwrap();
                assert_eq!(value(&one, "show transaction_isolation").await, "read committed", "{before}; {set}");
                assert_eq!(value(&two, "show transaction_isolation").await, level, "{before}; {set}");
                assert_eq!(value(&one, "show transaction_read_only").await, "off", "{before}; {set}");
                assert_eq!(value(&two, "show transaction_read_only").await, read_only, "{before}; {set}");
            }
        }
    });
    assert_eq!(front.all_idle(), 1);
}

/// Settings that the server refuses leave the connection without an owner: the next client does not get those of the
/// one before.
pub fn refused_settings_are_nobodys() {
    let Some(front) = Front::new(1) else { return };
    front.runtime.block_on(async {
        let (one, two, other) = (front.client().await, front.client().await, front.client().await);
        other.batch_execute("create role tenant_a; create role tenant_b").await.unwrap();
        one.batch_execute("set role tenant_a").await.unwrap();
        two.batch_execute("set role tenant_a").await.unwrap();
        other.batch_execute("drop role tenant_a; set role tenant_b").await.unwrap();
        for client in [one, two] {
            let told = try_value(&client, "select current_user").await;
            assert!(told.is_err(), "{told:?}");
        }
        assert_eq!(value(&other, "select current_user").await, "tenant_b");
        assert_eq!(value(&front.client().await, "select current_user").await, "postgres");
    });
    assert_eq!(front.all_idle(), 1);
}

/// Settings that a login asks for are set, and reported; those that the server would refuse are refused.
pub fn logins_have_settings() {
    let Some(front) = Front::new(1) else { return };
    front.runtime.block_on(async {
        let one = front.try_client("application_name=one options='-c work_mem=7MB -c a.b=c'").await.unwrap();
        let two = front.try_client("application_name=two").await.unwrap();
        assert_eq!(value(&one, "show work_mem").await, "7MB");
        assert_eq!(value(&two, "show work_mem").await, "4MB");
        assert_eq!(value(&one, "show application_name").await, "one");
        assert_eq!(value(&two, "show application_name").await, "two");
        assert_eq!(value(&one, "show a.b").await, "c");
        let error = front.try_client("options='-c work_mem=x'").await.err().unwrap();
        assert_eq!(error.code().unwrap().code(), "22023");
        let error = front.try_client("dbname=nowhere").await.err().unwrap();
        assert_eq!(error.code().unwrap().code(), "3D000");
    });
    let mut raw = front.raw();
    // Reports are the client's own.
    assert_eq!(raw.ask(&query("set datestyle = 'German'")), "C(SET) S(DateStyle=German, DMY) Z(I)");
    let mut other = front.raw();
    assert_eq!(other.ask(&query("select 1 as a")), "T(a:23:0) D(1) C(SELECT 1) Z(I)");
    assert_eq!(raw.ask(&query("select date '2026-11-23' as d")), "T(d:1082:0) D(23.11.2026) C(SELECT 1) Z(I)");
}

/// Listening, temporary tables, advisory locks, held cursors, statements by SQL: the client keeps its connection until
/// it lets go.
pub fn what_cannot_follow_holds() {
    let Some(front) = Front::new(2) else { return };
    front.runtime.block_on(async {
        let (one, two) = (front.client().await, front.client().await);
        let pid = "select pg_backend_pid()";
        for (begin, end) in [
            ("create temp table x (a int)", "drop table x"),
            ("select pg_advisory_lock(1)", "select pg_advisory_unlock(1)"),
            ("begin; declare c cursor with hold for select 1; commit", "close c"),
            ("prepare p as select 1", "deallocate p"),
            ("listen a", "unlisten a"),
            ("create collation pg_temp.c from \"C\"", "drop collation pg_temp.c"),
            (
                "create operator pg_temp.=== (leftarg = int, rightarg = int, function = int4eq)",
                "drop operator pg_temp.=== (int, int)",
            ),
            (
                "create text search configuration pg_temp.c (copy = pg_catalog.simple)",
                "drop text search configuration pg_temp.c",
            ),
            ("create type pg_temp.y as enum ('a')", "drop type pg_temp.y"),
            ("create function pg_temp.f() returns int language sql as 'select 1'", "drop function pg_temp.f"),
            ("select pg_create_physical_replication_slot('a', true, true)", "select pg_drop_replication_slot('a')"),
        ] {
            one.batch_execute(begin).await.unwrap();
            let own = value(&one, pid).await;
            for _ in 0..5 {
                assert_ne!(value(&two, pid).await, own, "{begin}");
                assert_eq!(value(&one, pid).await, own, "{begin}");
            }
            one.batch_execute(end).await.unwrap();
            assert_eq!(front.all_idle(), 2, "{end}");
        }
        // State that cannot be asked for ties its client to the end, and ends with it.
        for origin in ["a", "b"] {
            let three = front.client().await;
            three.batch_execute(&format!("select pg_replication_origin_create('{origin}')")).await.unwrap();
            three.batch_execute(&format!("select pg_replication_origin_session_setup('{origin}')")).await.unwrap();
            for _ in 0..3 {
                assert_eq!(value(&two, "select pg_replication_origin_session_is_setup()").await, "f");
                assert_eq!(value(&three, "select pg_replication_origin_session_is_setup()").await, "t");
            }
            drop(three);
            front.all_idle();
        }
        // A client that disconnects leaves nothing.
        one.batch_execute("create temp table x (a int); select pg_advisory_lock(1); set work_mem = '9MB'")
            .await
            .unwrap();
        drop(one);
        front.all_idle();
        for _ in 0..4 {
            let three = front.client().await;
            assert!(try_value(&three, "select * from x").await.is_err());
            assert_eq!(value(&three, "select pg_try_advisory_xact_lock(1)").await, "t");
            assert_eq!(value(&three, "show work_mem").await, "4MB");
        }
    });
}

/// Objects that are temporary by the search path, and not by a word of their text, tie their client as well.
pub fn objects_may_be_temporary_by_the_search_path() {
    let Some(front) = Front::new(2) else { return };
    front.runtime.block_on(async {
        let role = "create role ann login superuser; alter role ann set search_path = pg_temp, public";
        front.client().await.batch_execute(role).await.unwrap();
        let path = "set search_path = pg_temp, public";
        let local = "begin; select set_config('search_path', 'pg_' || 'temp', true)";
        for (user, before, make, drop) in [
            ("postgres", path, "create table x as select 7 as n", "drop table x"),
            ("postgres", path, "select 7 as n into x", "drop table x"),
            ("postgres", local, "create view x as select 7 as n; commit", "drop view pg_temp.x"),
            ("ann", "select 1", "create table x as select 7 as n", "drop table x"),
        ] {
            let login = format!("user={user} dbname=postgres");
            let (one, two) = (front.try_client(&login).await.unwrap(), front.try_client(&login).await.unwrap());
            one.batch_execute(before).await.unwrap();
            one.batch_execute(make).await.unwrap();
            for _ in 0..3 {
                assert!(try_value(&two, "select n from pg_temp.x").await.is_err(), "{before}; {make}");
                assert_eq!(value(&one, "select n from pg_temp.x").await, "7", "{before}; {make}");
            }
            one.batch_execute(drop).await.unwrap();
            front.all_idle();
        }
    });
}

/// A notification reaches its listener, which is idle, and nobody else.
pub fn notifications_pass() {
    let Some(front) = Front::new(2) else { return };
    let (mut one, mut two) = (front.raw(), front.raw());
    assert_eq!(one.ask(&query("listen news")), "C(LISTEN) Z(I)");
    assert_eq!(two.ask(&query("notify news, 'x'")), "C(NOTIFY) Z(I)");
    assert_eq!(one.next().as_deref(), Some("A"));
    assert_eq!(one.ask(&query("unlisten *")), "C(UNLISTEN) Z(I)");
    two.ask(&query("notify news, 'y'"));
    assert_eq!(one.ask(&query("select 1 as a")), "T(a:23:0) D(1) C(SELECT 1) Z(I)");
    one.stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(front.all_idle(), 2);
}

/// `overtake.priority` belongs to the proxy.
pub fn priorities_are_the_fronts() {
    let Some(front) = Front::new(1) else { return };
    let mut raw = front.raw();
    assert_eq!(raw.ask(&query("set overtake.priority = 'high'")), "C(SET) Z(I)");
    assert!(raw.ask(&query("set overtake.priority = 'urgent'")).starts_with("E(ERROR|22023"));
    for name in ["overtake.priority = low", "overtake.hot_key to 'a'"] {
        let said = raw.ask(&query(&format!("set local {name}")));
        assert!(
            said.contains("25P01|SET LOCAL can only be used in transaction blocks") && said.ends_with("C(SET) Z(I)"),
            "{said}"
        );
    }
    raw.ask(&query("begin"));
    assert_eq!(raw.ask(&query("set local overtake.priority = low")), "C(SET) Z(T)");
    let shows = |class: &str| format!("T(overtake.priority:25:0) D({class}) C(SHOW) Z(");
    assert!(raw.ask(&query("show overtake.priority")).starts_with(&shows("low")));
    assert_eq!(raw.ask(&query("commit")), "C(COMMIT) Z(I)");
    assert!(raw.ask(&query("SHOW overtake.priority;")).starts_with(&shows("high")));
    // By the extended protocol: named, unnamed, in a pipeline that fails, in a transaction that is rolled back.
    let run = |name: &str| [bind("", name, &[], &[], &[]), execute("", 0)].concat();
    let set = [parse("s", "set overtake.priority = low", &[]), named(b'D', b'S', "s"), run("s"), sync()];
    assert_eq!(raw.ask(&set.concat()), "1 t n 2 C(SET) Z(I)");
    assert!(raw.ask(&query("show overtake.priority")).starts_with(&shows("low")));
    let reset = [parse("", "RESET overtake.priority", &[]), run(""), sync()].concat();
    assert_eq!(raw.ask(&reset), "1 2 C(RESET) Z(I)");
    assert!(raw.ask(&query("show overtake.priority")).starts_with(&shows("normal")));
    let said = raw.ask(&[run("s"), parse("", "select 1/0", &[]), run(""), sync()].concat());
    assert!(said.contains("22012"), "{said}");
    assert!(raw.ask(&query("show overtake.priority")).starts_with(&shows("normal")));
    let said = raw.ask(&[parse("", "select 1/0", &[]), run(""), run("s"), sync()].concat());
    assert!(said.contains("22012"), "{said}");
    assert!(raw.ask(&query("show overtake.priority")).starts_with(&shows("normal")));
    raw.ask(&query("begin"));
    assert_eq!(raw.ask(&[run("s"), sync()].concat()), "2 C(SET) Z(T)");
    assert!(raw.ask(&query("show overtake.priority")).starts_with(&shows("low")));
    raw.ask(&query("rollback"));
    assert!(raw.ask(&query("show overtake.priority")).starts_with(&shows("normal")));
    // A value from before a savepoint stays after a rollback to it.
    raw.ask(&query("begin; select 1"));
    raw.ask(&query("set overtake.priority = high"));
    raw.ask(&query("savepoint a"));
    assert_eq!(raw.ask(&query("rollback to a")), "C(ROLLBACK) Z(T)");
    raw.ask(&query("commit"));
    assert!(raw.ask(&query("show overtake.priority")).starts_with(&shows("high")));
    raw.ask(&query("reset overtake.priority"));
    assert_eq!(raw.ask(&[run("s"), sync()].concat()), "2 C(SET) Z(I)");
    assert!(raw.ask(&query("show overtake.priority")).starts_with(&shows("low")));
}

/// A command of the proxy's means what it would at the server behind all earlier messages: in a failed transaction it
/// does nothing, and it ends a batch without a `Sync`.
pub fn commands_of_the_front_keep_their_place() {
    let Some(front) = Front::new(1) else { return };
    front.cluster.ask("create table t (a int)");
    let mut raw = front.raw();
    let run = |name: &str| [bind("", name, &[], &[], &[]), execute("", 0)].concat();
    assert_eq!(raw.ask(&[parse("dd", "select 7", &[]), sync()].concat()), "1 Z(I)");
    let shown = |class: &str| format!("T(overtake.priority:25:0) D({class}) C(SHOW) Z(I)");
    let show = query("show overtake.priority");
    for command in ["deallocate dd", "set overtake.priority = 'low'", "show overtake.priority"] {
        raw.send(&["begin", "select 1/0", command, "rollback"].map(query).concat());
        assert_eq!(raw.answer(), "C(BEGIN) Z(T)");
        assert!(raw.answer().contains("22012"));
        let said = raw.answer();
        assert!(said.contains("25P02") && said.ends_with("Z(E)"), "{command}: {said}");
        assert_eq!(raw.answer(), "C(ROLLBACK) Z(I)");
        assert_eq!(raw.ask(&[run("dd"), sync()].concat()), "2 D(7) C(SELECT 1) Z(I)", "{command}");
        assert_eq!(raw.ask(&show), shown("normal"), "{command}");
    }
    // Behind messages that succeed it is done.
    raw.send(&["begin", "select 1 as a", "set overtake.priority = 'low'", "commit"].map(query).concat());
    for said in ["C(BEGIN) Z(T)", "T(a:23:0) D(1) C(SELECT 1) Z(T)", "C(SET) Z(T)", "C(COMMIT) Z(I)"] {
        assert_eq!(raw.answer(), said);
    }
    assert_eq!(raw.ask(&[query("reset overtake.priority"), show.clone()].concat()), "C(RESET) Z(I)");
    assert_eq!(raw.answer(), shown("normal"));
    // Behind a batch without a Sync: the batch is committed, and the connection is free.
    let insert = |n: u8| [parse("", &format!("insert into t values ({n})"), &[]), run("")].concat();
    let inserted = format!("1 2 C(INSERT 0 1) {}", shown("normal"));
    assert_eq!(raw.ask(&[insert(1), show.clone()].concat()), inserted);
    assert_eq!(front.all_idle(), 1);
    let fails = parse("", "selec", &[]);
    assert_eq!(raw.ask(&[insert(2), show.clone(), fails.clone(), sync()].concat()), inserted);
    assert!(raw.answer().contains("42601"));
    assert_eq!(raw.ask(&[insert(3), message(b'H', b""), show.clone()].concat()), inserted);
    // A failed message skips it.
    let said = raw.ask(&[insert(4), fails, show.clone(), sync()].concat());
    assert!(said.starts_with("1 2 C(INSERT 0 1) E(ERROR|42601") && !said.contains("SHOW"), "{said}");
    assert_eq!(raw.ask(&show), shown("normal"));
    raw.ask(&query("begin"));
    assert_eq!(raw.ask(&[insert(5), show.clone()].concat()), inserted.replace("Z(I)", "Z(T)"));
    assert_eq!(raw.ask(&query("rollback")), "C(ROLLBACK) Z(I)");
    let rows = raw.ask(&query("select string_agg(a::text, ' ' order by a) as r from t"));
    assert_eq!(rows, "T(r:25:0) D(1 2 3) C(SELECT 1) Z(I)");
    assert_eq!(front.all_idle(), 1);
}

/// The proxy learns the values of its settings that the server is told; the last value counts.
pub fn the_server_and_the_front_agree() {
    let Some(front) = Front::new(2) else { return };
    front.runtime.block_on(async {
        let client = front.client().await;
        let run = async |text: &str| client.batch_execute(text).await.unwrap();
        let is = async |name: &str, wanted: &str, after: &str| {
            assert_eq!(value(&client, &format!("show overtake.{name}")).await, wanted, "{after}");
        };
        let mut last = String::new();
        for (text, class) in [
            ("select set_config('overtake.priority', 'high', false)", "high"),
            ("set work_mem = '5MB'", "high"),
            ("set overtake.priority = low", "low"),
            // The server is asked again, and reports nothing new.
            ("set work_mem = '6MB'", "low"),
            ("begin; select set_config('overtake.priority', 'high', false); rollback", "low"),
            (
                "select set_config('overtake.priority', 'high', false), set_config('overtake.priority', '', false)",
                "low",
            ),
            ("select set_config('Overtake.Priority', 'HIGH', false)", "high"),
            ("reset overtake.priority", "normal"),
            ("set work_mem = '7MB'", "normal"),
            ("select set_config('overtake.priority', 'low', false)", "low"),
            ("reset all", "normal"),
            ("set overtake.priority = high", "high"),
            ("reset all", "normal"),
            ("set overtake.priority = high", "high"),
            ("discard all", "normal"),
            ("begin; set overtake.priority = high; reset all; rollback", "normal"),
        ] {
            run(text).await;
            last += text;
            is("priority", class, &last).await;
            last += "; ";
        }
        run("select set_config('overtake.target', 'any', false)").await;
        is("target", "any", "set_config").await;
        run("reset overtake.target").await;
        is("target", "primary", "reset").await;
        run("select set_config('overtake.hot_key', 'a:7', false)").await;
        is("hot_key", "a:7", "set_config").await;
        // By a name that is not in the text.
        let set = "select set_config($1, $2, false)";
        for (name, value) in [("overtake.priority", "high"), ("overtake.target", "prefer_standby")] {
            client.query(set, &[&name, &value]).await.unwrap();
        }
        is("priority", "high", set).await;
        is("target", "prefer_standby", set).await;
    });
}

/// `ALTER ROLE … SET` is the default of the role's sessions; values that they ask for precede it.
pub fn roles_have_classes() {
    let Some(cluster) = Cluster::start("") else { return };
    cluster.ask("alter role postgres set overtake.priority = 'high'; alter role postgres set overtake.hot_key = 'a'");
    cluster.ask("create role ann login; alter role ann set overtake.priority = 'urgent'");
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", cluster.port);
    let mut settings = Defaults::default();
    sources::read_flag("overtake.priority_rules=low database=postgres", &mut settings).unwrap();
    let front = Front::over(cluster, &url, UpstreamOptions::from_settings(&settings).unwrap(), 1_000, |_| {});
    front.runtime.block_on(async {
        // An invalid class is ignored.
        let ann = front.try_client("user=ann dbname=postgres").await.unwrap();
        assert_eq!(value(&ann, "show overtake.priority").await, "low");
        for (login, class) in [("", "high"), ("options='-c overtake.priority=normal'", "normal")] {
            let client = front.try_client(login).await.unwrap();
            assert_eq!(value(&client, "show overtake.hot_key").await, "a");
            for (text, then) in [
                ("select 1", class),
                ("set work_mem = '5MB'", class),
                ("set overtake.priority = low", "low"),
                ("set work_mem = '6MB'", "low"),
                ("reset overtake.priority", class),
                ("select set_config('overtake.priority', 'low', false)", "low"),
                ("reset overtake.priority", class),
                ("set work_mem = '7MB'", class),
                ("select set_config('overtake.priority', 'low', false)", "low"),
                ("reset all", class),
                ("set overtake.priority = low", "low"),
                ("reset all", class),
                ("set overtake.priority = low; set work_mem = '8MB'", "low"),
                ("discard all", class),
                ("set work_mem = '9MB'", class),
            ] {
                client.batch_execute(text).await.unwrap();
                assert_eq!(value(&client, "show overtake.priority").await, then, "{login} {text}");
            }
        }
    });
}

/// RESET goes back to the value of the login.
pub fn resets_go_back_to_the_login() {
    let Some(front) = Front::new(1) else { return };
    front.runtime.block_on(async {
        let login = "application_name=mine options='-c work_mem=7MB -c search_path=a,b -c timezone=Asia/Tokyo'";
        let client = front.try_client(login).await.unwrap();
        let asked =
            [("work_mem", "7MB"), ("search_path", "a,b"), ("timezone", "Asia/Tokyo"), ("application_name", "mine")];
        for reset in ["reset all", "discard all", "reset work_mem"] {
            client.batch_execute("set work_mem = '9MB'").await.unwrap();
            client.batch_execute(reset).await.unwrap();
            for (name, wanted) in asked {
                let found = value(&client, &format!("select current_setting('{name}')")).await;
                assert_eq!(found.replace(' ', ""), wanted, "{reset}: {name}");
            }
        }
        client.batch_execute("set timezone = 'UTC'").await.unwrap();
        assert_eq!(value(&client, "select current_setting('timezone')").await, "UTC");
    });
}

/// State that no text names, by each value of `overtake.upstream_reset`: the next client gets exactly the state that
/// the table in the documentation lists.
pub fn what_functions_set_goes_to_nobody_else() {
    let Some(cluster) = Cluster::start("") else { return };
    cluster.ask(
        "create function f(n text, v text) returns text language plpgsql as
         $$ begin perform set_config(n, v, false); return v; end $$;
         create procedure p() language plpgsql as $$ begin perform set_config('search_path', 'p', false); end $$;
         create view v as select set_config('search_path', 'v', false);
         create function r(name text) returns int language plpgsql as
         $$ begin execute format('set role %I', name); return 1; end $$;
         create function a() returns int language plpgsql as
         $$ begin execute format('set session authorization %I', 'ann'); return 1; end $$;
         create function l() returns int language plpgsql as $$ begin perform pg_advisory_lock(7); return 1; end $$;
         create function tt() returns int language plpgsql as
         $$ begin execute 'create temp table x (a int)'; return 1; end $$;
         create function n() returns int language plpgsql as $$ begin execute 'listen ch'; return 1; end $$;
         create table t (a int);
         create function g() returns trigger language plpgsql as
         $$ begin perform set_config('search_path', 'g', false); return new; end $$;
         create trigger g before insert on t for each row execute function g();
         create role ann; create role bob login; grant ann to bob; grant all on t to bob",
    );
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", cluster.port);
    let look = "select concat_ws(' ', current_setting('search_path'), current_setting('timezone'),
                current_setting('statement_timeout'), coalesce(current_setting('my.tenant', true), ''), current_user,
                session_user, current_setting('application_name'),
                (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()),
                (select count(*) from pg_class where relnamespace = pg_my_temp_schema()),
                (select count(*) from pg_listening_channels()))";
    // Effects of each on the next client, with never, unexplained and always; and the user that runs it.
    let ways = [
        ("set search_path = s", "", "postgres"),
        ("do $$ begin perform set_config('search_path', 'd', false); end $$", "", "postgres"),
        ("update pg_settings set setting = 'u' where name = 'search_path'", "", "postgres"),
        ("update pg_settings set setting = 'Asia/Tokyo' where name = 'TimeZone'", "", "postgres"),
        ("select U&\"set\\005fconfig\"('search_path', 'e', false)", "", "postgres"),
        ("select f('TimeZone', 'Asia/Tokyo')", "n", "postgres"),
        ("select f('application_name', 'other')", "n", "postgres"),
        ("select r('ann')", "n", "postgres"),
        ("select r('ann')", "nu", "bob"),
        ("select a()", "n", "postgres"),
        ("select f('search_path', 'f')", "nu", "postgres"),
        ("select f('statement_timeout', '4321')", "nu", "postgres"),
        ("select f('my.tenant', '42')", "nu", "postgres"),
        ("call p()", "nu", "postgres"),
        ("select * from v", "nu", "postgres"),
        ("insert into t values (1)", "nu", "postgres"),
        ("select l()", "nu", "postgres"),
        ("select tt()", "nu", "postgres"),
        ("select n()", "nu", "postgres"),
    ];
    for mode in ["never", "unexplained", "always"] {
        let mut settings = Defaults::default();
        sources::read_flag(&format!("overtake.upstream_reset={mode}"), &mut settings).unwrap();
        let gate = Gate::over(&url, UpstreamOptions::from_settings(&settings).unwrap(), 1_000, |_| {});
        gate.runtime.block_on(async {
            let admin = gate.try_client("dbname=overtake").await.unwrap();
            for (way, leaks, user) in ways {
                admin.batch_execute("reconnect").await.unwrap();
                let login = format!("user={user} dbname=postgres");
                let (first, second) = (gate.try_client(&login).await.unwrap(), gate.try_client(&login).await.unwrap());
                let before = value(&second, look).await;
                first.simple_query(way).await.unwrap();
                // Its own settings follow the client everywhere, if they can be found out.
                let own = value(&first, look).await;
                let after = value(&second, look).await;
                let is_leaked = before != after;
                assert_eq!(is_leaked, leaks.contains(&mode[..1]), "{mode}: {way} as {user}: {before} / {after}");
                let is_lost = mode == "always" && way.contains("tenant");
                assert_eq!(own == before, is_lost, "{mode}: {way}: {own}");
            }
        });
    }
    // By the fast path: set_config, of a name of two parts, too.
    let gate = Gate::over(&url, PoolLimits { size: 1, ..PoolLimits::default() }, 1_000, |_| {});
    for name in ["search_path", "my.tenant"] {
        let (mut first, mut second) = (gate.raw(), gate.raw());
        let shows = query(&format!("select coalesce(nullif(current_setting('{name}', true), ''), 'nothing') as s"));
        let before = second.ask(&shows);
        let mut call = [&2078_u32.to_be_bytes()[..], &[0, 0, 0, 3]].concat();
        for argument in [name, "fast", "f"] {
            call.extend(u32::try_from(argument.len()).unwrap().to_be_bytes());
            call.extend(argument.as_bytes());
        }
        call.extend([0, 0]);
        assert_eq!(first.ask(&message(b'F', &call)), "V Z(I)");
        assert_eq!(second.ask(&shows), before, "{name}");
        assert!(first.ask(&shows).contains("D(fast)"), "{name}");
    }
}

/// A target that is set by a client which is tied to its connection outlives the tie.
pub fn a_target_outlives_a_connection() {
    let Some(front) = Front::new(1) else { return };
    let mut raw = front.raw();
    raw.ask(&query("select pg_advisory_lock(1)"));
    assert_eq!(raw.ask(&query("set overtake.target = any")), "C(SET) Z(I)");
    raw.ask(&query("select pg_advisory_unlock(1)"));
    raw.ask(&query("select 1"));
    assert_eq!(raw.ask(&query("show overtake.target")), "T(overtake.target:25:0) D(any) C(SHOW) Z(I)");
}

/// Rules give a class at the login; a class that the client asks for takes precedence, and RESET goes back to the
/// rule's.
pub fn rules_count_at_login() {
    let Some(cluster) = Cluster::start("") else { return };
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", cluster.port);
    let mut settings = Defaults::default();
    let rules = "overtake.priority_rules=low application=report%; high database=template1; low user=nobody";
    for flag in [rules, "overtake.upstream_pool=2"] {
        sources::read_flag(flag, &mut settings).unwrap();
    }
    let front = Front::over(cluster, &url, UpstreamOptions::from_settings(&settings).unwrap(), 1_000, |_| {});
    front.runtime.block_on(async {
        for (login, class) in [
            ("dbname=postgres", "normal"),
            ("dbname=postgres application_name=report7", "low"),
            ("dbname=template1", "high"),
            ("dbname=template1 options='-c overtake.priority=low'", "low"),
        ] {
            let client = front.try_client(login).await.unwrap();
            assert_eq!(value(&client, "show overtake.priority").await, class, "{login}");
        }
        let client = front.try_client("dbname=template1").await.unwrap();
        client.batch_execute("set overtake.priority = low").await.unwrap();
        client.batch_execute("reset overtake.priority").await.unwrap();
        assert_eq!(value(&client, "show overtake.priority").await, "high");
        let admin = front.try_client("dbname=overtake").await.unwrap();
        let config = admin.simple_query("show config").await.unwrap();
        let is = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => row.get(0) == Some("overtake.upstream_pool") && row.get(1) == Some("2"),
            _ => false,
        };
        assert!(config.iter().any(is));
    });
}

/// A server would accept any name of two parts.
pub fn unknown_settings_are_refused() {
    let Some(front) = Front::new(1) else { return };
    let mut raw = front.raw();
    let unknown = "unrecognized configuration parameter \"overtake.nonsense\"";
    let said = raw.ask(&query("set overtake.nonsense = 1"));
    assert!(said.starts_with(&format!("E(ERROR|42704|{unknown}")) && said.ends_with("Z(I)"), "{said}");
    let said = raw.ask(&query("SET overtake.mpl TO 7"));
    assert!(said.starts_with("E(ERROR|55P02|parameter \"overtake.mpl\" cannot be changed now"), "{said}");
    let said = raw.ask(&query("set overtake.network_threads = 7"));
    assert!(said.contains("cannot be changed without restarting the server"), "{said}");
    // Other settings of two parts belong to the server.
    assert_eq!(raw.ask(&query("set app.nonsense = 1")), "C(SET) Z(I)");
    // In a transaction and by the extended protocol, too, where the server refuses it.
    let not_now = "55P02|parameter \"overtake.mpl\" cannot be changed now";
    for (name, set) in [("", "set overtake.mpl=7"), ("s", "SET overtake.mpl TO 7")] {
        for begin in ["begin", "begin; select 1"] {
            raw.ask(&query(begin));
            let said = raw.ask(&query(set));
            assert!(said.contains(not_now) && said.ends_with("Z(E)"), "{set}: {said}");
            raw.ask(&query("rollback"));
        }
        let said = raw.ask(&[parse(name, set, &[]), bind("", name, &[], &[], &[]), execute("", 0), sync()].concat());
        assert!(said.contains(not_now) && said.ends_with("Z(I)"), "{set}: {said}");
    }
    // A setting that the server has accepted beside another statement.
    assert!(raw.ask(&query("set overtake.taken = 1; select 1")).ends_with("Z(I)"));
    let set = "set overtake.taken=2";
    let said = raw.ask(&[parse("", set, &[]), bind("", "", &[], &[], &[]), execute("", 0), sync()].concat());
    assert!(said.contains("42704|unrecognized configuration parameter \"overtake.taken\""), "{said}");
    // Reading is different, and left to the server.
    assert!(raw.ask(&query("select current_setting('overtake.mpl')")).contains("42704|"));
    for set in ["set overtake.nonsense=1", "SET LOCAL Overtake.Nonsense TO 'x y';"] {
        raw.ask(&query("begin"));
        let said = raw.ask(&query(set));
        assert!(said.starts_with(&format!("E(ERROR|42704|{unknown}")) && said.ends_with("Z(E)"), "{set}: {said}");
        assert!(raw.ask(&query("select 1")).contains("25P02"));
        raw.ask(&query("rollback"));
        for name in ["", "named"] {
            let whole = [parse(name, set, &[]), bind("", name, &[], &[], &[]), execute("", 0), sync()].concat();
            let said = raw.ask(&whole);
            assert!(said.contains(unknown) && said.contains("42704") && said.ends_with("Z(I)"), "{set}: {said}");
        }
    }
    front.runtime.block_on(async {
        let error = front.try_client("options='-c overtake.nonsense=1'").await.err().unwrap();
        assert_eq!(error.as_db_error().unwrap().message(), unknown);
        let error = front.try_client("options='-c overtake.mpl=1'").await.err().unwrap();
        assert_eq!(error.code().unwrap().code(), "55P02");
        let client = front.try_client("options='-c overtake.target=any -c app.nonsense=2'").await.unwrap();
        assert_eq!(value(&client, "show app.nonsense").await, "2");
        // The value in force is shown, not the configured one.
        assert_eq!(value(&client, "show overtake.mpl").await, "auto");
        let admin = front.try_client("dbname=overtake").await.unwrap();
        let config = rows(&admin, "show config").await;
        assert_eq!(cell(&config, &[("key", "overtake.mpl")], "value"), "auto");
    });
    front.all_idle();
}
