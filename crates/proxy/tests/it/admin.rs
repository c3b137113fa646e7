//! Administration database.

use crate::support::{Front, try_value, value};
use server::Stats;
use stage::observe::Observe;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;
use tokio_postgres::{Client, SimpleQueryMessage};
use wirekit::raw::{PATIENCE, Raw, bind, execute, parse, query, sync};

pub async fn admin(front: &Front) -> Client {
    front.try_client("dbname=overtake").await.unwrap()
}

/// Rows of a table, each as its columns' names and values.
pub async fn rows(client: &Client, text: &str) -> Vec<Vec<(String, String)>> {
    let messages = client.simple_query(text).await.unwrap();
    let row = |message: SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => {
            let column = |(at, column): (usize, &tokio_postgres::SimpleColumn)| {
                (column.name().to_owned(), row.get(at).unwrap_or("NULL").to_owned())
            };
            Some(row.columns().iter().enumerate().map(column).collect())
        }
        _ => None,
    };
    messages.into_iter().filter_map(row).collect()
}

/// Value of a column in the first row in which these columns have these values.
pub fn cell<'r>(rows: &'r [Vec<(String, String)>], is: &[(&str, &str)], column: &str) -> &'r str {
    let get = |row: &'r Vec<(String, String)>, name: &str| {
        row.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value.as_str())
    };
    let row = rows.iter().find(|row| is.iter().all(|&(name, value)| get(row, name) == value));
    row.map_or("no such row", |row| get(row, column))
}

async fn state(client: &Client, text: &str) -> String {
    try_value(client, text).await.err().unwrap().code().unwrap().code().to_owned()
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        tokio::task::yield_now().await;
    }
}

fn raw(front: &Front, database: &str) -> (Raw<TcpStream>, String) {
    let stream = TcpStream::connect(front.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut raw = Raw { stream, pid: 0, secret: 0 };
    let said = raw.start(&[("user", "postgres"), ("database", database)]);
    (raw, said)
}

/// Names and types are those of PgBouncer 1.18, taken from its `RowDescription`s.
pub fn tables_are_pgbouncers() {
    let Some(front) = Front::new(2) else { return };
    let (mut raw, said) = raw(&front, "pgbouncer");
    assert!(said.contains("S(server_version=") || said.contains("server_version"), "{said}");
    let socket = "type:25:0,user:25:0,database:25:0,state:25:0,addr:25:0,port:23:0,local_addr:25:0,local_port:23:0,\
                  connect_time:25:0,request_time:25:0,wait:23:0,wait_us:23:0,close_needed:23:0,ptr:25:0,link:25:0,\
                  remote_pid:23:0,tls:25:0,application_name:25:0";
    for (text, columns) in [
        (
            "SHOW POOLS;",
            "database:25:0,user:25:0,cl_active:23:0,cl_waiting:23:0,cl_active_cancel_req:23:0,\
             cl_waiting_cancel_req:23:0,sv_active:23:0,sv_active_cancel:23:0,sv_being_canceled:23:0,sv_idle:23:0,\
             sv_used:23:0,sv_tested:23:0,sv_login:23:0,maxwait:23:0,maxwait_us:23:0,pool_mode:25:0",
        ),
        ("show clients", socket),
        ("show servers", socket),
        (
            "show stats",
            "database:25:0,total_xact_count:1700:0,total_query_count:1700:0,total_received:1700:0,total_sent:1700:0,\
             total_xact_time:1700:0,total_query_time:1700:0,total_wait_time:1700:0,avg_xact_count:1700:0,\
             avg_query_count:1700:0,avg_recv:1700:0,avg_sent:1700:0,avg_xact_time:1700:0,avg_query_time:1700:0,\
             avg_wait_time:1700:0",
        ),
        (
            "show databases",
            "name:25:0,host:25:0,port:23:0,database:25:0,force_user:25:0,pool_size:23:0,min_pool_size:23:0,\
             reserve_pool:23:0,pool_mode:25:0,max_connections:23:0,current_connections:23:0,paused:23:0,disabled:23:0",
        ),
        ("show config", "key:25:0,value:25:0,default:25:0,changeable:25:0"),
        ("show version", "version:25:0"),
        ("show lists", "list:25:0,items:23:0"),
        ("show users", "name:25:0,pool_mode:25:0"),
        ("show totals", "name:25:0,value:1700:0"),
        (
            "show stats_totals",
            "database:25:0,xact_count:1700:0,query_count:1700:0,bytes_received:1700:0,bytes_sent:1700:0,\
             xact_time:1700:0,query_time:1700:0,wait_time:1700:0",
        ),
    ] {
        let said = raw.ask(&query(text));
        assert!(said.starts_with(&format!("T({columns})")), "{text}: {said}");
        assert!(said.ends_with("C(SHOW) Z(I)"), "{text}: {said}");
    }
    assert!(raw.ask(&query("show help")).starts_with("N(NOTICE|00000|Console usage"));
    assert_eq!(raw.ask(&query(";")), "I Z(I)");
    let said = raw.ask(&query("select 1"));
    assert!(said.starts_with("E(ERROR|42601|invalid command 'select 1', use SHOW HELP;"), "{said}");
    let extended = [parse("", "show pools", &[]), bind("", "", &[], &[], &[]), execute("", 0), sync()].concat();
    let said = raw.ask(&extended);
    assert!(said.starts_with("E(ERROR|0A000") && said.ends_with("Z(I)"), "{said}");
    assert_eq!(said.matches("E(").count(), 1);
    assert!(raw.ask(&query("show version")).contains("D(Overtake "));
}

/// Only superusers among the proxy's own roles get in.
pub fn only_superusers_administer() {
    let Some(front) = Front::new(2) else { return };
    front.cluster.ask("create role ann login superuser");
    front.runtime.block_on(async {
        for database in ["overtake", "pgbouncer"] {
            assert!(front.try_client(&format!("dbname={database}")).await.is_ok());
            let error = front.try_client(&format!("user=ann dbname={database}")).await.err().unwrap();
            assert_eq!(error.code().unwrap().code(), "42501");
        }
        // Everywhere else she is a role of the server.
        assert!(front.try_client("user=ann dbname=postgres").await.is_ok());
    });
}

/// `max_connections` bounds the clients of the servers; superusers of the proxy have some places more, and
/// administrators more again.
pub fn administrators_get_in_when_all_is_full() {
    let Some(front) = Front::with(2, 1_000, |config| config.connections_max = 1) else { return };
    front.cluster.ask("create role ann login");
    front.runtime.block_on(async {
        let begin = async |login: &str| match front.try_client(login).await {
            Ok(client) => Ok(client),
            Err(error) => Err(error.as_db_error().unwrap().message().to_owned()),
        };
        let _first = begin("user=ann dbname=postgres").await.unwrap();
        let reserved = "remaining connection slots are reserved for non-replication superuser connections";
        assert_eq!(begin("user=ann dbname=postgres").await.err().as_deref(), Some(reserved));
        // A client that cannot administer gets no place of an administrator's.
        assert_eq!(begin("user=ann dbname=overtake").await.err().as_deref(), Some(reserved));
        let (full, mut all) = (Some("sorry, too many clients already"), Vec::new());
        for database in ["postgres", "overtake"] {
            for _ in 0..3 {
                all.push(begin(&format!("dbname={database}")).await.unwrap());
            }
            assert_eq!(begin(&format!("dbname={database}")).await.err().as_deref(), full, "{database}");
        }
        assert_eq!(begin("user=ann dbname=postgres").await.err().as_deref(), full);
        let clients = rows(all.last().unwrap(), "show clients").await;
        assert_eq!(clients.len(), 7);
    });
}

/// PAUSE waits for transactions under way while none begins, and the server gets no request; RESUME goes on.
pub fn a_pause_waits_and_holds() {
    let Some(front) = Front::new(4) else { return };
    front.runtime.block_on(async {
        let (admin, other) = (Arc::new(admin(&front).await), admin(&front).await);
        let (one, two) = (front.client().await, Arc::new(front.client().await));
        one.batch_execute("begin; select 1").await.unwrap();
        let pause = {
            let admin = Arc::clone(&admin);
            tokio::spawn(async move { admin.batch_execute("pause").await })
        };
        let mut databases = rows(&other, "show databases").await;
        while cell(&databases, &[("name", "postgres")], "paused") != "1" {
            databases = rows(&other, "show databases").await;
        }
        // A transaction under way goes on. Another client waits, and a new one as well, whatever is known of its login.
        let waiter = {
            let two = Arc::clone(&two);
            tokio::spawn(async move { value(&two, "select 7").await })
        };
        assert_eq!(value(&one, "select 5").await, "5");
        while cell(&rows(&other, "show pools").await, &[("database", "postgres")], "cl_waiting") != "1" {}
        assert!(!pause.is_finished() && !waiter.is_finished());
        one.batch_execute("commit").await.unwrap();
        pause.await.unwrap().unwrap();
        assert!(!waiter.is_finished());
        assert_eq!(front.upstream.connections(), (0, 0));
        assert_eq!(state(&other, "pause").await, "55000");
        other.batch_execute("resume").await.unwrap();
        assert_eq!(waiter.await.unwrap(), "7");
        assert_eq!(state(&other, "resume").await, "55000");
        // PAUSE of one database.
        assert_eq!(state(&other, "pause nowhere").await, "3D000");
        other.batch_execute("pause postgres").await.unwrap();
        assert_eq!(state(&other, "pause postgres").await, "55000");
        let template = front.try_client("dbname=template1").await.unwrap();
        assert_eq!(value(&template, "select 8").await, "8");
        let waiter = tokio::spawn(async move { value(&two, "select 9").await });
        while cell(&rows(&other, "show pools").await, &[("database", "postgres")], "cl_waiting") != "1" {}
        other.batch_execute("resume postgres").await.unwrap();
        assert_eq!(waiter.await.unwrap(), "9");
    });
    front.all_idle();
}

/// A PAUSE is undone if it is cancelled, if its client disconnects, or if a RESUME overtakes it.
pub fn a_pause_can_be_given_up() {
    let Some(front) = Front::new(4) else { return };
    front.runtime.block_on(async {
        let other = admin(&front).await;
        let one = front.client().await;
        one.batch_execute("begin; select 1").await.unwrap();
        let is_paused = async |wanted: &str| {
            while cell(&rows(&other, "show databases").await, &[("name", "postgres")], "paused") != wanted {}
        };
        for (how, wanted) in [("cancel", "57014"), ("resume", "55000")] {
            let admin = admin(&front).await;
            let token = admin.cancel_token();
            let pause = tokio::spawn(async move { state(&admin, "pause").await });
            is_paused("1").await;
            match how {
                "cancel" => token.cancel_query(tokio_postgres::NoTls).await.unwrap(),
                _ => other.batch_execute("resume").await.unwrap(),
            }
            assert_eq!(pause.await.unwrap(), wanted);
            is_paused("0").await;
        }
        let (mut gone, _) = raw(&front, "overtake");
        gone.send(&query("pause"));
        is_paused("1").await;
        drop(gone);
        is_paused("0").await;
        assert_eq!(value(&front.client().await, "select 1").await, "1");
        one.batch_execute("commit").await.unwrap();
    });
    front.all_idle();
}

/// RECONNECT replaces connections, each when its transaction has ended; RELOAD asks the server for its settings again.
pub fn connections_are_replaced() {
    let Some(front) = Front::new(2) else { return };
    front.runtime.block_on(async {
        let admin = admin(&front).await;
        let one = front.client().await;
        one.batch_execute("begin; select 1").await.unwrap();
        let before = value(&one, "select pg_backend_pid()").await;
        let servers = rows(&admin, "show servers").await;
        assert_eq!(cell(&servers, &[("remote_pid", &before)], "state"), "active");
        let link = cell(&servers, &[("remote_pid", &before)], "link").to_owned();
        assert_eq!(cell(&rows(&admin, "show clients").await, &[("ptr", &link)], "link"), format!("S{before}"));
        admin.batch_execute("reconnect").await.unwrap();
        assert_eq!(value(&one, "select pg_backend_pid()").await, before);
        one.batch_execute("commit").await.unwrap();
        assert_ne!(value(&one, "select pg_backend_pid()").await, before);
        let servers = rows(&admin, "show servers").await;
        assert_eq!(cell(&servers, &[("remote_pid", &before)], "state"), "no such row");
        assert_eq!(cell(&servers, &[("state", "idle")], "link"), "");
        one.batch_execute("alter role postgres set datestyle = 'German'").await.unwrap();
        admin.batch_execute("reconnect postgres; ").await.unwrap();
        assert_eq!(value(&front.client().await, "select current_date::text ~ '-'").await, "f");
        admin.batch_execute("reload").await.unwrap();
        let (_, said) = raw(&front, "postgres");
        assert!(said.contains("German"), "{said}");
    });
}

/// The gate's tables are those of the views, column by column.
pub fn the_gate_is_shown() {
    let Some(front) = Front::with(4, 3, |_| {}) else { return };
    front.runtime.block_on(async {
        let admin = admin(&front).await;
        let one = front.client().await;
        one.batch_execute("select 1; select 2").await.unwrap();
        let inside = front.client().await;
        inside.batch_execute("begin; select 1").await.unwrap();
        let mpl = rows(&admin, "show mpl").await;
        let is = [("mode", "fixed")];
        assert_eq!((cell(&mpl, &is, "mpl"), cell(&mpl, &is, "slots"), cell(&mpl, &is, "extra_slots")), ("3", "1", "0"));
        for column in ["phase", "throughput", "response_ms", "saturated", "c2", "turned_away_total"] {
            assert_ne!(cell(&mpl, &is, column), "", "{column}");
        }
        let gate = rows(&admin, "show gate").await;
        assert_eq!(gate.len(), 3);
        assert_eq!(cell(&gate, &[("class", "normal")], "slots"), "1");
        assert_eq!(cell(&gate, &[("class", "high")], "done"), "0");
        assert!(rows(&admin, "show mpl log").await.is_empty());
        let (mut raw, _) = raw(&front, "overtake");
        for (text, columns) in [
            ("show mpl log", "T(seconds_ago:701:0,mpl:20:0,next_mpl:20:0,reason:25:0"),
            (
                "show mpl history",
                "T(seconds_ago:701:0,seconds:701:0,mpl:20:0,active:701:0,waiting:701:0,throughput:701:0",
            ),
            ("show mpl history 60", "T(seconds_ago:701:0,seconds:701:0"),
            ("show gate histogram", "T(class:25:0,what:25:0,lower_us:701:0,upper_us:701:0,count:20:0"),
            ("show forecast", "T(mpl:20:0,throughput:701:0,response_ms:701:0,first_ms:701:0"),
            (
                "show verdict",
                "T(mode:25:0,mpl:20:0,verdict:25:0,source:25:0,server:25:0) D(fixed,NULL,Nothing can be said yet: ",
            ),
        ] {
            let said = raw.ask(&query(text));
            assert!(said.starts_with(columns), "{said}");
        }
        inside.batch_execute("commit").await.unwrap();
    });
}

/// `overtake.activity`, `SHOW CLIENTS`, `SHOW STATS` and the stages show the activity of the proxy's clients.
pub fn what_clients_do_is_seen() {
    let stats: Arc<Stats> = Arc::default();
    let Some(front) = Front::with(4, 1, |config| config.stats = Arc::clone(&stats)) else { return };
    let of = |pid: i32| stats.activity().into_iter().find(|row| row.pid == pid).unwrap();
    let (mut one, _) = raw(&front, "postgres");
    let (mut two, _) = raw(&front, "postgres");
    one.ask(&query("begin; select 'a'"));
    let row = of(one.pid);
    assert_eq!((row.state, &*row.query), ("idle in transaction", "begin; select 'a'"));
    two.send(&query("/*+ priority=high */ select 'b'"));
    front.runtime.block_on(until("it waits", || of(two.pid).state == "waiting"));
    let row = of(two.pid);
    assert_eq!((row.class, &*row.query), (stage::Class::High, "/*+ priority=high */ select 'b'"));
    front.runtime.block_on(async {
        let admin = admin(&front).await;
        let clients = rows(&admin, "show clients").await;
        let ptr = format!("C{}", two.pid);
        assert_eq!(cell(&clients, &[("ptr", &ptr)], "state"), "waiting");
        assert_eq!(cell(&rows(&admin, "show pools").await, &[("database", "postgres")], "cl_waiting"), "1");
    });
    let run = [parse("p", "select 'c'", &[]), bind("", "p", &[], &[], &[]), execute("", 0), sync()].concat();
    one.ask(&run);
    assert_eq!(&*of(one.pid).query, "select 'c'");
    let run = [parse("", "select 'd'", &[]), bind("", "", &[], &[], &[]), execute("", 0), sync()].concat();
    one.ask(&run);
    assert_eq!(&*of(one.pid).query, "select 'd'");
    one.ask(&[bind("", "p", &[], &[], &[]), execute("", 0), sync()].concat());
    assert_eq!(&*of(one.pid).query, "select 'c'");
    one.ask(&query("select 1/0"));
    assert_eq!(of(one.pid).state, "idle in transaction (aborted)");
    one.ask(&query("rollback"));
    assert_eq!(of(one.pid).state, "idle");
    two.answer();
    front.all_idle();
    let stages = stats.stages();
    let calls = |class, name: &str| {
        let of = stages.iter().filter(|row| row.class == class && row.stage.name() == name);
        of.map(|row| row.times.count).sum::<u64>()
    };
    // One transaction had to wait.
    let wanted = [(stage::Class::Normal, 0, 1), (stage::Class::High, 1, 1), (stage::Class::Low, 0, 0)];
    for (class, gate, run) in wanted {
        assert_eq!((calls(class, "gate"), calls(class, "run")), (gate, run), "{class}");
    }
    front.runtime.block_on(async {
        let sums = rows(&admin(&front).await, "show stats").await;
        let is = [("database", "postgres")];
        assert_eq!((cell(&sums, &is, "total_xact_count"), cell(&sums, &is, "total_query_count")), ("2", "7"));
        assert_ne!(cell(&sums, &is, "total_xact_time"), "0");
        assert_ne!(cell(&sums, &is, "total_wait_time"), "0");
    });
}

/// Counts of objects: two clients of two users, each with a connection.
pub fn lists_count_what_there_is() {
    let Some(front) = Front::new(2) else { return };
    front.cluster.ask("create role ann login");
    front.runtime.block_on(async {
        let (one, two) = (front.client().await, front.try_client("user=ann dbname=postgres").await.unwrap());
        for client in [&one, &one, &two] {
            client.batch_execute("select 1; select 2").await.unwrap();
        }
        let admin = admin(&front).await;
        let lists = rows(&admin, "show lists").await;
        let items = |list: &str| cell(&lists, &[("list", list)], "items");
        assert_eq!(
            ["databases", "users", "pools", "used_clients", "used_servers"].map(items),
            ["1", "2", "3", "3", "2"]
        );
        assert_eq!(rows(&admin, "show pools").await.len(), 3, "with the administration's own");
        let users: Vec<String> = rows(&admin, "show users").await.into_iter().map(|row| row[0].1.clone()).collect();
        assert_eq!(users, ["ann", "postgres"]);
        let totals = rows(&admin, "show totals").await;
        let stats = rows(&admin, "show stats").await;
        for total in ["total_xact_count", "total_query_count", "total_xact_time", "total_wait_time"] {
            assert_eq!(cell(&totals, &[("name", total)], "value"), cell(&stats, &[], total), "{total}");
        }
        assert_eq!(totals.len(), 4);
        let by_database = rows(&admin, "show stats_totals").await;
        assert_eq!(cell(&by_database, &[], "xact_count"), cell(&stats, &[], "total_xact_count"));
        assert_ne!(cell(&stats, &[], "total_xact_count"), "0");
        let pools = rows(&admin, "show pools by server").await;
        let server = format!("127.0.0.1:{}", front.cluster.port);
        let anns = [("user", "ann"), ("server", &*server)];
        assert_eq!(
            ["sv_active", "sv_idle", "cl_waiting", "pool_size"].map(|name| cell(&pools, &anns, name)),
            ["0", "1", "0", "2"]
        );
    });
}
