//! A database behind the protocol, used byte by byte and with an ordinary driver.

use engine::{Engine, EngineConfig, Housekeeper};
use overtake_client::proxy::SharedProxy;
use server::network::NetworkInterface;
use server::{Config, HbaRule, Server, Stats};
use settings::{Defaults, SettingSource};
use sql::session::Database;
use stage::observe::Observe;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use testkit::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls, error::SqlState};
use wirekit::raw::{PATIENCE, Raw, bind, execute, message, named, parse, query, sync};
use xdp::PortOptions;
use xdp::lab::Lab;

/// Returns a query with this many rows of two columns, `n` and `t`.
pub fn rows(count: usize) -> String {
    format!("select n, 'row ' || n as t from generate_series(1, {count}) n")
}

/// Resident memory of this process in MiB.
pub fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
}

/// Answer to the start of a superuser's session.
pub const WELCOME: &str = concat!(
    "R(0) S(application_name) S(client_encoding=UTF8) S(DateStyle=ISO, MDY) S(default_transaction_read_only=off) ",
    "S(in_hot_standby=off) S(integer_datetimes=on) S(IntervalStyle=postgres) S(is_superuser=on) ",
    "S(server_encoding=UTF8) S(server_version=15.0 (Overtake ",
    env!("CARGO_PKG_VERSION"),
    ")) S(session_authorization=postgres) S(standard_conforming_strings=on) S(TimeZone=UTC) K Z(I)"
);

/// Way from the clients of a test to its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// TCP.
    Tcp,
    /// TCP to a proxy, and shared memory from there.
    Shared,
    /// TCP, by io_uring on the server's side.
    IoUring,
    /// TCP from another network, which the server handles itself.
    Xdp,
}

/// Networks of this process, if its clients are in one of their own.
static LAB: OnceLock<Lab> = OnceLock::new();

/// Moves this thread, and those that it starts, into the clients' network. Returns false where there is none to be had.
pub fn join_clients() -> bool {
    match Lab::new(1500) {
        Ok(lab) => {
            lab.join_clients().unwrap();
            LAB.set(lab).unwrap();
            true
        }
        Err(error) => {
            assert!(std::env::var_os("OVERTAKE_CI").is_none(), "no networks: {error}");
            println!("SKIPPED: no networks: {error}");
            false
        }
    }
}

/// Returns the networks that this process has joined.
pub fn lab() -> &'static Lab {
    LAB.get().unwrap()
}

static WAY: Mutex<Way> = Mutex::new(Way::Tcp);

/// Lets the clients of all servers that start from now on go this way.
pub fn travel_by(way: Way) {
    *WAY.lock().unwrap() = way;
}

pub struct Real {
    pub runtime: Runtime,
    pub engine: Engine,
    pub database: Database,
    pub stats: Arc<Stats>,
    pub address: SocketAddr,
    /// Folder of the socket for shared memory.
    folder: TempDir,
    pub shutdown: Option<oneshot::Sender<()>>,
    pub server: Option<JoinHandle<std::io::Result<()>>>,
    _housekeeper: Housekeeper,
}

impl Real {
    pub fn new() -> Real {
        Real::with("", |_| {})
    }

    /// Starts a server with these lines of a configuration file.
    pub fn with(settings: &str, change: impl FnOnce(&mut Config)) -> Real {
        Real::over(settings, change, |database, config| {
            let views = sessions::Views::new(config.stats.clone(), database.engine().clone());
            views.let_in_by(config.admission.clone());
            database.with_provider(views)
        })
    }

    /// Starts a server without the schema `overtake`, which only this product has.
    pub fn alone() -> Real {
        Real::over("", |_| {}, |database, _| database)
    }

    /// Starts a server whose database has something more.
    pub fn over(
        settings: &str,
        change: impl FnOnce(&mut Config),
        add: impl FnOnce(Database, &Config) -> Database,
    ) -> Real {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let engine = Engine::new(EngineConfig::in_memory());
        let mut defaults = Defaults::default();
        for line in settings.lines() {
            let (name, value) = line.split_once('=').unwrap();
            defaults.set(name.trim(), value.trim(), SettingSource::File).unwrap();
        }
        let database = Database::new(engine.clone()).with_defaults(defaults).unwrap();
        let mut config = Config {
            listen: vec!["127.0.0.1:0".parse().unwrap()],
            roles: database.roles().clone(),
            ..Config::default()
        };
        if *WAY.lock().unwrap() == Way::Xdp {
            config.rules.extend(HbaRule::parse_all("host all all 10.99.0.0/24 trust").unwrap());
            config.xdp = Some(PortOptions {
                interface: lab().server_interface().to_owned(),
                port: 5432,
                ..PortOptions::default()
            });
        }
        change(&mut config);
        if *WAY.lock().unwrap() == Way::IoUring {
            config.network = NetworkInterface::IoUring;
        }
        let folder = testkit::folder("shared");
        config.shared = Some(folder.path().join("shared"));
        let (stats, database) = (config.stats.clone(), add(database, &config));
        let bind = || Server::bind(config, sessions::Sessions(database.clone())).unwrap();
        let way = *WAY.lock().unwrap();
        let server = if way == Way::Xdp { lab().at_server(bind).unwrap() } else { bind() };
        let address = match way {
            Way::Xdp => {
                let address = *server.addresses().unwrap().last().unwrap();
                assert_eq!(address.ip(), lab().server_address());
                address
            }
            Way::Tcp | Way::IoUring => server.addresses().unwrap()[0],
            Way::Shared => runtime.block_on(async {
                let mut proxy = SharedProxy::new(&folder.path().join("shared"));
                let address = proxy.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
                // The proxy ends with the runtime.
                tokio::spawn(proxy.run(Arc::new(|failure| println!("{failure:?}"))));
                address
            }),
        };
        let (shutdown, ended) = oneshot::channel();
        let server = runtime.spawn(server.run(async move { drop(ended.await) }));
        // The housekeeper ends waits.
        let housekeeper = Housekeeper::start(&engine).unwrap();
        let (shutdown, server) = (Some(shutdown), Some(server));
        Real { runtime, engine, database, stats, address, folder, shutdown, server, _housekeeper: housekeeper }
    }

    /// Returns the path of the socket for clients that share memory.
    pub fn shared(&self) -> PathBuf {
        self.folder.path().join("shared")
    }

    /// Returns the address from which clients come.
    pub fn client_address(&self) -> IpAddr {
        match LAB.get() {
            Some(lab) => lab.client_address().into(),
            None => Ipv4Addr::LOCALHOST.into(),
        }
    }

    /// Returns parameters for a driver that connects as the superuser.
    pub fn address_parameters(&self) -> String {
        format!("host={} port={} user=postgres dbname=postgres", self.address.ip(), self.address.port())
    }

    /// Connects a client that has not sent anything.
    pub fn stranger(&self) -> Raw<TcpStream> {
        Raw::connect(self.address)
    }

    /// Connects a client with a session that speaks the protocol byte by byte.
    pub fn raw_client(&self) -> Raw<TcpStream> {
        let mut raw = self.stranger();
        raw.start(&[("user", "postgres"), ("database", "postgres")]);
        raw
    }

    /// Connects a client, and runs these statements, which succeed.
    pub fn raw_client_after(&self, text: &str) -> Raw<TcpStream> {
        let mut raw = self.raw_client();
        let said = raw.ask(&query(text));
        assert!(!said.contains("E("), "{said}");
        raw
    }

    /// Returns the number of open sessions.
    pub fn sessions(&self) -> usize {
        self.stats.activity().len()
    }

    /// Returns the number of waits for locks.
    pub fn waits(&self) -> usize {
        self.engine.locks().iter().filter(|lock| !lock.granted).count()
    }

    /// Returns when a session waits for a lock.
    fn until_one_waits(&self) {
        self.wait_until("a session waits", |real| 0 < real.waits());
    }

    /// Shuts the server down, and waits for its end.
    pub fn shut_down(&mut self) {
        self.shutdown.take().unwrap().send(()).unwrap();
        let server = self.server.take().unwrap();
        self.runtime.block_on(server).unwrap().unwrap();
    }

    /// Waits on this thread until a condition holds.
    pub fn wait_until(&self, what: &str, mut is_so: impl FnMut(&Real) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            assert!(begun.elapsed() < PATIENCE, "never: {what}");
            std::thread::yield_now();
        }
    }

    pub async fn client(&self) -> Client {
        self.login("user=postgres").await.unwrap()
    }

    /// Connects with a string of connection parameters.
    pub async fn login(&self, how: &str) -> Result<Client, tokio_postgres::Error> {
        let mut config: tokio_postgres::Config = how.parse().unwrap();
        config.host(self.address.ip().to_string()).port(self.address.port()).dbname("postgres");
        let (client, connection) = config.connect(NoTls).await?;
        tokio::spawn(async { drop(connection.await) });
        Ok(client)
    }

    /// Waits until a condition holds.
    pub async fn until(&self, what: &str, is_so: impl Fn(&Engine) -> bool) {
        let begun = Instant::now();
        while !is_so(&self.engine) {
            assert!(begun.elapsed() < Duration::from_secs(20), "never: {what}");
            tokio::task::yield_now().await;
        }
    }
}

fn state(error: &tokio_postgres::Error) -> &SqlState {
    error.code().unwrap()
}

/// Parameters and results in binary, with the types that the server reports.
pub fn values_make_the_round_trip() {
    let real = Real::new();
    real.runtime.block_on(async {
        let client = real.client().await;
        client
            .batch_execute(
                "create table t (id int8 primary key, b bool, i2 int2, i4 int4, f4 real, f8 double precision, t text,
                 v varchar(20), y bytea, c char(3))",
            )
            .await
            .unwrap();
        let insert = client.prepare("insert into t values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)").await.unwrap();
        let names: Vec<&str> = insert.params().iter().map(|kind| kind.name()).collect();
        assert_eq!(names, ["int8", "bool", "int2", "int4", "float4", "float8", "text", "varchar", "bytea", "bpchar"]);
        let count = client
            .execute(
                &insert,
                &[&1_i64, &true, &-2_i16, &3_i32, &1.5_f32, &-2.5_f64, &"text", &"short", &&[0_u8, 255][..], &"c"],
            )
            .await
            .unwrap();
        assert_eq!(count, 1);
        let nothing: Option<i32> = None;
        client.execute("insert into t (id, i4) values ($1, $2)", &[&2_i64, &nothing]).await.unwrap();
        let row = client.query_one("select * from t where id = $1", &[&1_i64]).await.unwrap();
        assert!(row.get::<_, bool>("b"));
        assert_eq!((row.get::<_, i16>("i2"), row.get::<_, i32>("i4")), (-2, 3));
        assert_eq!((row.get::<_, f32>("f4"), row.get::<_, f64>("f8")), (1.5, -2.5));
        assert_eq!(
            (row.get::<_, &str>("t"), row.get::<_, &str>("v"), row.get::<_, &str>("c")),
            ("text", "short", "c  ")
        );
        assert_eq!(row.get::<_, &[u8]>("y"), [0, 255]);
        let row = client.query_one("select i4, t from t where id = 2", &[]).await.unwrap();
        assert_eq!((row.get::<_, Option<i32>>(0), row.get::<_, Option<&str>>(1)), (None, None));
        let error = client.query("select * from t where id = $1", &[&"text"]).await.unwrap_err();
        assert!(error.code().is_none(), "the driver knows the parameter's type: {error}");
    });
}

/// A statement that needs a row of another session waits, goes on when that session commits, and sees its change.
/// No thread waits meanwhile.
pub fn a_statement_waits_for_a_row_of_another_session() {
    let real = Real::new();
    real.runtime.block_on(async {
        let (mut one, two) = (real.client().await, real.client().await);
        one.batch_execute("create table t (id int primary key, n int); insert into t values (1, 10)").await.unwrap();
        let holder = one.transaction().await.unwrap();
        holder.execute("update t set n = n + 1 where id = 1", &[]).await.unwrap();
        let waiter = tokio::spawn(async move {
            let count = two.execute("update t set n = n * 2 where id = 1", &[]).await;
            (two, count)
        });
        while real.engine.locks().iter().all(|lock| lock.granted) {
            tokio::task::yield_now().await;
        }
        assert!(!waiter.is_finished());
        holder.commit().await.unwrap();
        let (two, count) = waiter.await.unwrap();
        assert_eq!(count.unwrap(), 1);
        assert_eq!(two.query_one("select n from t", &[]).await.unwrap().get::<_, i32>(0), 22);
    });
}

/// A statement that names an object which another session defines, and has not committed, waits when it is parsed, in
/// either protocol. It is bound by the definition at the end of the wait. A cancel ends that wait.
pub fn what_is_parsed_waits_for_definitions() {
    let real = Real::new();
    real.runtime.block_on(async {
        let one = real.client().await;
        one.batch_execute("create table t (id int primary key, n int); insert into t values (1, 10), (2, 20)")
            .await
            .unwrap();
        for (ends, n) in [("commit", "x"), ("rollback", "n"), ("", "n")] {
            one.batch_execute("begin; alter table t rename column n to x").await.unwrap();
            let (simple, extended) = (real.client().await, real.client().await);
            let cancels = [simple.cancel_token(), extended.cancel_token()];
            let long = "-".repeat(5_000);
            let simple = tokio::spawn(async move {
                simple.batch_execute(&format!("update t set x = x + 1 where id = 1 --{long}")).await
            });
            let extended = tokio::spawn(async move {
                extended.execute("update t set x = x + $1 where id = 2", &[&5_i32]).await.map(drop)
            });
            let waits = || real.engine.locks().iter().filter(|lock| !lock.granted).count();
            while waits() < 2 {
                tokio::task::yield_now().await;
            }
            assert!(!simple.is_finished() && !extended.is_finished());
            match ends {
                "" => {
                    for cancel in cancels {
                        cancel.cancel_query(NoTls).await.unwrap();
                    }
                }
                ends => one.batch_execute(ends).await.unwrap(),
            }
            for result in [simple.await.unwrap(), extended.await.unwrap()] {
                match ends {
                    "commit" => result.unwrap(),
                    "rollback" => assert_eq!(state(&result.unwrap_err()), &SqlState::UNDEFINED_COLUMN),
                    _ => assert_eq!(state(&result.unwrap_err()), &SqlState::QUERY_CANCELED),
                }
            }
            let sum = format!("select sum({n})::int from t");
            if ends.is_empty() {
                one.batch_execute("rollback").await.unwrap();
            }
            assert_eq!(one.query_one(&sum, &[]).await.unwrap().get::<_, i32>(0), 36);
            if ends == "commit" {
                one.batch_execute("alter table t rename column x to n").await.unwrap();
            }
        }
    });
}

/// A cancel ends a wait for a row, and a dead client's transaction is rolled back.
pub fn cancel_and_death_leave_nothing_behind() {
    let real = Real::new();
    real.runtime.block_on(async {
        let (one, two) = (real.client().await, real.client().await);
        one.batch_execute("create table t (id int primary key); insert into t values (1)").await.unwrap();
        one.batch_execute("begin; delete from t").await.unwrap();
        let cancel = two.cancel_token();
        let waiter = tokio::spawn(async move {
            let result = two.execute("delete from t", &[]).await;
            (two, result)
        });
        while real.engine.locks().iter().all(|lock| lock.granted) {
            tokio::task::yield_now().await;
        }
        cancel.cancel_query(NoTls).await.unwrap();
        let (two, result) = waiter.await.unwrap();
        assert_eq!(state(&result.unwrap_err()), &SqlState::QUERY_CANCELED);
        drop(one);
        let deleted = tokio::time::timeout(Duration::from_secs(20), two.execute("delete from t", &[])).await;
        assert_eq!(deleted.unwrap().unwrap(), 1, "the other's transaction was rolled back");
    });
}

/// Sessions that conflict get PostgreSQL's codes, and their blocks fail until they end.
pub fn conflicts_have_their_codes() {
    let real = Real::new();
    real.runtime.block_on(async {
        let (one, two) = (real.client().await, real.client().await);
        one.batch_execute("create table t (id int primary key, n int); insert into t values (1, 1), (2, 2)")
            .await
            .unwrap();
        one.batch_execute("begin isolation level repeatable read; select * from t").await.unwrap();
        two.batch_execute("update t set n = 5 where id = 1").await.unwrap();
        let error = one.batch_execute("update t set n = 6 where id = 1").await.unwrap_err();
        assert_eq!(state(&error), &SqlState::T_R_SERIALIZATION_FAILURE);
        let error = one.batch_execute("select 1").await.unwrap_err();
        assert_eq!(state(&error), &SqlState::IN_FAILED_SQL_TRANSACTION);
        one.batch_execute("rollback").await.unwrap();
        let error = one.execute("insert into t values (1, 1)", &[]).await.unwrap_err();
        assert_eq!(state(&error), &SqlState::UNIQUE_VIOLATION);
        assert_eq!(error.as_db_error().unwrap().detail(), Some("Key (id)=(1) already exists."));
        one.batch_execute("begin; select * from t where id = 2 for update").await.unwrap();
        let error = two.batch_execute("select * from t where id = 2 for update nowait").await.unwrap_err();
        assert_eq!(state(&error), &SqlState::LOCK_NOT_AVAILABLE);
    });
}

/// A long statement, alone in its transaction so far, loses a row to a more important one. It is run again, whatever
/// follows it; every row is changed once, as the sequence shows, and the client is told of its last run only. Behind
/// other statements of its transaction it is not run again.
pub fn a_statement_alone_survives_a_more_important_one() {
    const ROWS: i64 = 30_000;
    let real = Real::new();
    let create = "create table t (id int8 primary key, n int8); create sequence s; create table u (n int)";
    let insert = format!("insert into t select id, 0 from generate_series(1, {ROWS}) id");
    let mut urgent = real.raw_client_after(&format!("{create}; {insert}; set overtake.priority = high"));
    let mut number = |text: &str| {
        let said = urgent.ask(&query(text));
        let row = said.split(" D(").nth(1).and_then(|row| row.split(')').next());
        row.and_then(|row| row.parse::<i64>().ok()).unwrap_or_else(|| panic!("{said}"))
    };
    let last = "select last_value from s";
    // It has a warning in each run.
    let update = "update t set n = n + 1 + 0 * nextval('s') where (select not pg_advisory_unlock(7))";
    let warning = "N(WARNING|01000|you don't own a lock of type ExclusiveLock)";
    let updated = format!("{warning} C(UPDATE {ROWS})");
    let portal = [parse("", update, &[]), bind("", "", &[], &[], &[]), execute("", 0)].concat();
    let other = "insert into u values (1)";
    let lost = "E(ERROR|40001|could not serialize access due to concurrent update";
    for (way, before, messages, then, wanted) in [
        ("simple", "", query(update), vec![], format!("{updated} Z(I)")),
        ("first", "", query(&format!("{update}; {other}")), vec![], format!("{updated} C(INSERT 0 1) Z(I)")),
        ("Sync", "", [portal.clone(), sync()].concat(), vec![], format!("1 2 {updated} Z(I)")),
        ("Flush", "", [portal, message(b'H', b"")].concat(), sync(), format!("1 2 {updated} Z(I)")),
        ("execute", &format!("prepare p as {update}"), query("execute p"), vec![], format!("{updated} Z(I)")),
        ("second", "", query(&format!("{other}; {update}")), vec![], format!("C(INSERT 0 1) {warning} {lost}")),
        ("block", "begin", query(update), query("commit"), format!("{warning} {lost}")),
    ] {
        // A statement that is done before the urgent one begins proves nothing.
        loop {
            number("update t set n = 0; alter sequence s restart; select 1");
            let mut client = real.raw_client_after(before);
            client.send(&messages);
            client.stream.set_nonblocking(true).unwrap();
            while number(last) < 2 && client.stream.peek(&mut [0]).is_err() {}
            client.stream.set_nonblocking(false).unwrap();
            let id = number("update t set n = 50 where id = 1 returning id");
            assert_eq!(id, 1);
            client.send(&then);
            let answer = client.answer();
            let (runs_again, all) = (ROWS < number(last), number("select sum(n)::int8 from t"));
            let is_lost = answer.contains(lost);
            match (way, is_lost) {
                ("second" | "block", true) => {
                    assert!(answer.starts_with(&wanted), "{way}: {answer}");
                    assert_eq!(all, 50, "{way}");
                    break;
                }
                (_, false) if runs_again => {
                    assert_eq!((&answer, all), (&wanted, 50 + ROWS), "{way}");
                    break;
                }
                // The row was taken between the statement and the end of its transaction.
                ("first" | "Flush", true) => {}
                (_, _) => assert!(!is_lost, "{way}: {answer}"),
            }
        }
    }
}

/// Wrong data of a COPY are reported before a message that no COPY expects, which is then ignored up to `Sync`.
pub fn wrong_data_come_before_another_message() {
    let rig = Real::new();
    let mut raw = rig.raw_client();
    raw.ask(&query("create table t (a int)"));
    let others = [
        parse("", "select 1", &[]),
        bind("", "", &[], &[], &[]),
        execute("", 0),
        named(b'D', b'P', ""),
        named(b'C', b'P', ""),
        query("insert into t values (1)"),
    ];
    let copy = |data: &[u8], other: &[u8]| {
        let begin = [parse("", "copy t from stdin", &[]), bind("", "", &[], &[], &[]), execute("", 0)].concat();
        [&begin[..], &message(b'd', data), other, &sync()].concat()
    };
    for other in &others {
        let said = raw.ask(&copy(b"x\n", other));
        assert!(said.starts_with("1 2 G(0,1) E(ERROR|22P02|") && said.ends_with(" Z(I)"), "{said}");
        assert!(!said.contains("08P01"), "{said}");
        assert_eq!(raw.ask(&query("select count(*) from t")), "T(count:20:0) D(0) C(SELECT 1) Z(I)");
    }
    // With correct data, it is the message that is wrong.
    for other in &others {
        let said = rig.raw_client().ask(&copy(b"1\n", other));
        assert!(said.contains("08P01|unexpected message type") && said.ends_with("end"), "{said}");
        assert_eq!(raw.ask(&query("select count(*) from t")), "T(count:20:0) D(0) C(SELECT 1) Z(I)");
    }
}

/// Columns that change between `Parse` and `Execute` of one batch are sent with the rows. Those
/// of a known statement fail.
pub fn columns_of_one_batch_may_change() {
    let rig = Real::new();
    let (mut owner, mut user) = (rig.raw_client(), rig.raw_client());
    owner.ask(&query("create table t (id int primary key, v int); insert into t values (1, 7)"));
    user.ask(&query("set lock_timeout = '10s'"));
    let select = "select * from t where id = 1 for update";
    let describes = [
        vec![parse("", select, &[]), bind("", "", &[], &[], &[]), named(b'D', b'P', ""), execute("", 0)],
        vec![parse("", select, &[]), bind("", "", &[], &[], &[1]), named(b'D', b'S', ""), execute("", 0)],
        vec![parse("", select, &[]), bind("", "", &[], &[], &[]), execute("", 0)],
    ];
    let change = ["alter table t alter v type bigint", "alter table t add w text", "alter table t drop w"];
    let wanted = [
        "1 2 T(id:23:0,v:20:0) D(1,7) C(SELECT 1) Z(I)",
        "1 2 t T(id:23:0,v:20:0,w:25:0) D([0, 0, 0, 1],[0, 0, 0, 0, 0, 0, 0, 7],NULL) C(SELECT 1) Z(I)",
        "1 2 D(1,7) C(SELECT 1) Z(I)",
    ];
    for ((batch, change), wanted) in describes.iter().zip(change).zip(wanted) {
        let begun = owner.ask(&query(&format!("begin; {change}")));
        assert!(begun.ends_with("Z(T)"), "{begun}");
        user.send(&[batch.concat(), sync()].concat());
        rig.until_one_waits();
        owner.ask(&query("commit"));
        assert_eq!(user.answer(), wanted);
    }
    // The answer has come, so the client knows the columns, as a separate message between the two requires.
    owner.ask(&query("begin; alter table t alter v type int"));
    let told = [
        parse("", select, &[]),
        bind("", "", &[], &[], &[]),
        named(b'D', b'P', ""),
        message(b'H', b""),
        execute("", 0),
    ];
    user.send(&[told.concat(), sync()].concat());
    rig.until_one_waits();
    owner.ask(&query("commit"));
    let changed = "E(ERROR|0A000|cached plan must not change result type) Z(I)";
    assert_eq!(user.answer(), format!("1 2 T(id:23:0,v:20:0) {changed}"));
    // A statement of an earlier batch is known, too.
    assert_eq!(user.ask(&[parse("", select, &[]), sync()].concat()), "1 Z(I)");
    owner.ask(&query("alter table t alter v type bigint"));
    let later = [bind("", "", &[], &[], &[]), execute("", 0), sync()].concat();
    assert_eq!(user.ask(&later), format!("2 {changed}"));
    // As in PostgreSQL, a failing statement sends its columns before.
    let fails = [
        parse("", "select 1 / (v - 7) as q from t", &[]),
        bind("", "", &[], &[], &[]),
        named(b'D', b'P', ""),
        execute("", 0),
    ];
    let said = user.ask(&[fails.concat(), sync()].concat());
    assert_eq!(said, "1 2 T(q:20:0) E(ERROR|22012|division by zero) Z(I)");
}

/// A statement that was short 100 times and once takes very long goes on where it delays no other
/// session, and can be cancelled.
pub fn a_short_statement_that_gets_long_delays_nobody() {
    let rig = Real::with("", |config| config.network_threads = 1);
    let (mut long, mut other) = (rig.raw_client(), rig.raw_client());
    let mut done = |text: &str| {
        let said = other.ask(&query(text));
        assert!(!said.contains("E("), "{said}");
        said
    };
    done("create table cfg (v bigint); insert into cfg values (10); create sequence s");
    done("create table t (a bigint); create table u (n bigint); insert into u values (0)");
    let series = "generate_series(1, (select v from cfg))";
    let (select, insert, update) = (
        &format!("select count(*) from {series}"),
        &format!("insert into t select nextval('s') from {series}"),
        &format!("update u set n = n + (select count(*) from {series})"),
    );
    for (begin, text, wanted) in [
        ("", select, "T(count:20:0) D(10) C(SELECT 1) Z(I)"),
        ("", insert, "C(INSERT 0 10) Z(I)"),
        ("set overtake.priority = high", select, "T(count:20:0) D(10) C(SELECT 1) Z(I)"),
        ("begin", update, "C(UPDATE 1) Z(T)"),
    ] {
        done("update cfg set v = 10");
        long.ask(&query(begin));
        for _ in 0..100 {
            assert_eq!(long.ask(&query(text)), wanted);
        }
        done("update cfg set v = 1000000000000");
        long.send(&query(text));
        let pid = long.pid;
        let runs = format!("select count(*) from pg_stat_activity where pid = {pid} and state = 'active'");
        let begun = Instant::now();
        while !done(&runs).contains("D(1)") {
            assert!(begun.elapsed() < PATIENCE, "it does not run");
        }
        long.stream.set_nonblocking(true).unwrap();
        assert!(long.stream.peek(&mut [0]).is_err(), "it has answered");
        long.stream.set_nonblocking(false).unwrap();
        done(&format!("select pg_cancel_backend({pid})"));
        let status = if begin == "begin" { "E" } else { "I" };
        let said = long.answer();
        assert_eq!(said, format!("E(ERROR|57014|canceling statement due to user request) Z({status})"));
    }
    long.ask(&query("rollback; truncate t"));
    // Once more to its end: the work done before it moved to another thread is undone.
    done("update cfg set v = 200000");
    assert_eq!(long.ask(&query(insert)), "C(INSERT 0 200000) Z(I)");
    let all = done("select count(*), count(distinct a) from t");
    assert_eq!(all, "T(count:20:0,count:20:0) D(200000,200000) C(SELECT 1) Z(I)");
}

/// Terminate after a request is not a disconnect: PostgreSQL completes the requests before it.
pub fn who_says_good_bye_has_its_work_done() {
    let real = Real::new();
    let mut other = real.raw_client();
    let mut ask = |text: &str| other.ask(&query(text));
    ask("create table t (a int primary key, b int)");
    let rows: Vec<u8> = (0..30_000).flat_map(|at| message(b'd', format!("{at}\t1\n").as_bytes())).collect();
    let copy = [query("copy t from stdin"), rows, message(b'c', b"")].concat();
    let insert = "insert into t select g, 1 from generate_series(0, 29999) g";
    let portal = [parse("", insert, &[]), bind("", "", &[], &[], &[]), execute("", 0), sync()].concat();
    let block = [query("begin"), query(insert), query("commit")].concat();
    for (what, requests) in [("COPY", copy), ("a query", query(insert)), ("a portal", portal), ("a block", block)] {
        let mut client = real.raw_client();
        client.send(&[requests, message(b'X', b"")].concat());
        client.stream.shutdown(Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        client.stream.read_to_end(&mut rest).unwrap();
        assert!(!rest.windows(5).any(|bytes| bytes == b"57014"), "{what}: it was cancelled");
        assert_eq!(ask("select count(*) from t"), "T(count:20:0) D(30000) C(SELECT 1) Z(I)", "{what}");
        ask("truncate t");
    }
}

/// A session that is ended while its COPY is under way reports no other error.
pub fn who_is_ended_within_a_copy_hears_only_that() {
    let real = Real::new();
    let mut other = real.raw_client();
    let mut ask = |text: &str| other.ask(&query(text));
    ask("create table t (a int primary key, b int)");
    let rows: Vec<u8> = (0..100_000).flat_map(|at| message(b'd', format!("{at}\t1\n").as_bytes())).collect();
    let mut ended = 0;
    // The session is ended after each fortieth of the rows, so that the state of the COPY differs from try to try.
    for part in 1..=40 {
        let mut client = real.raw_client();
        let pid = client.pid;
        client.send(&query("copy t from stdin"));
        assert_eq!(client.next().unwrap(), "G(0,2)");
        let (first, rest) = rows.split_at(rows.len() * part / 40);
        client.send(first);
        let mut writer = client.stream.try_clone().unwrap();
        let rest = [rest, &message(b'c', b"")].concat();
        // The server may stop reading in the middle of it.
        let writes = std::thread::spawn(move || drop(writer.write_all(&rest)));
        ask(&format!("select pg_terminate_backend({pid})"));
        let said = client.next().unwrap();
        if said.contains("57P01") {
            ended += 1;
        } else {
            assert_eq!(said, "C(COPY 100000)", "after {part} of 40 parts");
        }
        writes.join().unwrap();
        ask("truncate t");
    }
    assert!(0 < ended, "no COPY was ended");
}
