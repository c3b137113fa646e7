//! Many clients, servers that die under them, and clients that die: every answer belongs to the client that asked, and
//! no state is left behind.

use crate::support::{Front, value};
use ::gate::GateSettings;
use proxy::PoolLimits;
use server::{AdmissionOptions, Mode};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_postgres::SimpleQueryMessage;
use wirekit::cluster::Cluster;
use wirekit::raw::{Raw, bind, execute, message, named, parse, query, startup, sync};
use wirekit::waits::{keep_slots, until};

/// Client of the wire protocol that blocks no thread.
struct Light {
    stream: tokio::net::TcpStream,
    input: Vec<u8>,
}

impl Light {
    async fn connect(address: SocketAddr) -> Result<Light, String> {
        Light::connect_as(address, "postgres").await
    }

    async fn connect_as(address: SocketAddr, user: &str) -> Result<Light, String> {
        let stream = tokio::net::TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        let mut light = Light { stream, input: Vec::new() };
        light.ask(&startup(3 << 16, &[("user", user), ("database", "postgres")])).await?;
        Ok(light)
    }

    /// Returns the first values of all rows up to `ReadyForQuery`, or the error.
    async fn ask(&mut self, bytes: &[u8]) -> Result<Vec<String>, String> {
        self.stream.write_all(bytes).await.map_err(|error| error.to_string())?;
        let (mut rows, mut failed) = (Vec::new(), None);
        loop {
            while let Some(length) = self.input.get(1..5).map(|length| u32::from_be_bytes(length.try_into().unwrap())) {
                let end = 1 + length as usize;
                if self.input.len() < end {
                    break;
                }
                let message: Vec<u8> = self.input.drain(..end).collect();
                match message[0] {
                    b'D' => rows.push(String::from_utf8_lossy(&message[11..]).into_owned()),
                    b'E' => {
                        let mut fields = message[5..].split(|&byte| byte == 0);
                        let code = fields.find(|field| field.first() == Some(&b'C')).unwrap_or_default();
                        failed = Some(String::from_utf8_lossy(&code[1..]).into_owned());
                    }
                    b'Z' => return failed.map_or(Ok(rows), Err),
                    _ => {}
                }
            }
            match self.stream.read_buf(&mut self.input).await {
                Ok(0) | Err(_) => return Err(failed.unwrap_or_else(|| "end".to_owned())),
                Ok(_) => {}
            }
        }
    }

    /// Runs one transaction that names the client, in one of several ways; its answers have to be this client's.
    async fn turn(&mut self, who: usize, turn: usize) -> Result<(), String> {
        let own = format!("{who}.{turn}");
        let said = match (who + turn) % 4 {
            0 => self.ask(&query(&format!("select '{own}'"))).await?,
            1 => {
                self.ask(&query("begin")).await?;
                let said = self.ask(&query(&format!("select '{own}'"))).await?;
                self.ask(&query("commit")).await?;
                said
            }
            2 => {
                let run = [parse("", "select $1::text", &[]), bind("", "", &[], &[Some(own.as_bytes())], &[])];
                self.ask(&[run.concat(), execute("", 0), sync()].concat()).await?
            }
            _ => {
                let name = format!("s{turn}");
                self.ask(&[parse(&name, "select $1::text || ''", &[]), sync()].concat()).await?;
                let run = [bind("", &name, &[], &[Some(own.as_bytes())], &[]), execute("", 0), sync()];
                self.ask(&run.concat()).await?
            }
        };
        assert_eq!(said, [own]);
        Ok(())
    }
}

fn front(size: usize, slots: u32, change: impl FnOnce(&mut GateSettings)) -> Option<Front> {
    let cluster = Cluster::start("")?;
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", cluster.port);
    let mut gate = GateSettings::of_priorities(slots);
    change(&mut gate);
    let admission = AdmissionOptions { mode: Mode::Fixed, gate, ..AdmissionOptions::default() };
    let limits = PoolLimits { size, ..PoolLimits::default() };
    Some(Front::behind(cluster, &url, limits, &admission, |config| {
        config.connections_max = 3_000;
        config.log_connections = false;
    }))
}

/// Asserts that the gate is empty and no connection is in use, and that the administration database shows the same.
fn nothing_is_left(front: &Front, connections_max: usize) {
    front.runtime.block_on(async {
        until("nobody is at the gate", || front.admission.view().unwrap().gate.transactions == 0).await;
        let view = front.admission.view().unwrap().gate;
        assert_eq!((view.slots, view.extras), (0, 0));
        assert!(view.classes.iter().all(|class| class.waiting + class.lent + class.held_back == 0), "{view:?}");
        let admin = front.try_client("dbname=overtake").await.unwrap();
        let begun = Instant::now();
        loop {
            let (clients, pools) =
                (admin.simple_query("show clients").await.unwrap(), admin.simple_query("show pools").await.unwrap());
            let rows = |messages: Vec<SimpleQueryMessage>| {
                messages.into_iter().filter_map(|message| match message {
                    SimpleQueryMessage::Row(row) => Some(row),
                    _ => None,
                })
            };
            let busy: i64 = rows(pools)
                // The client that asks is in the administration database.
                .filter(|row| row.get("database") == Some("postgres"))
                .map(|row| {
                    ["cl_active", "cl_waiting", "sv_active"].map(|name| row.get(name).unwrap().parse::<i64>().unwrap())
                })
                .map(|counts| counts.iter().sum::<i64>())
                .sum();
            // The client that asks is shown as well.
            if rows(clients).count() == 1 && busy == 0 {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{busy} are busy");
            tokio::task::yield_now().await;
        }
    });
    assert!(front.all_idle() <= connections_max);
}

/// Raises the limit of open files as far as the system allows, if necessary.
fn many_files() {
    let pid = std::process::id().to_string();
    let _ = Command::new("prlimit").args(["--pid", &pid, "--nofile=10000:10000"]).status();
}

/// Each client runs several transactions of several kinds; some set something, some cause an error.
pub fn two_thousand_clients_on_twenty_connections() {
    many_files();
    let Some(front) = front(20, 20, |_| {}) else { return };
    let address = front.address;
    front.runtime.block_on(async {
        let (mut tasks, all_are_here) = (Vec::new(), Arc::new(tokio::sync::Barrier::new(2_000)));
        for who in 0..2_000 {
            let all_are_here = Arc::clone(&all_are_here);
            tasks.push(tokio::spawn(async move {
                let mut light = Light::connect(address).await.unwrap();
                all_are_here.wait().await;
                for turn in 0..4 {
                    light.turn(who, turn).await.unwrap();
                }
                if who % 20 == 0 {
                    light.ask(&query(&format!("set app.who = '{who}'"))).await.unwrap();
                    light.turn(who, 4).await.unwrap();
                    let said = light.ask(&query("select current_setting('app.who')")).await.unwrap();
                    assert_eq!(said, [who.to_string()]);
                }
                if who % 7 == 0 {
                    assert_eq!(light.ask(&query("select 1/0")).await, Err("22012".to_owned()));
                    light.turn(who, 5).await.unwrap();
                }
                all_are_here.wait().await;
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        // A setting of one client reaches nobody else.
        let client = front.client().await;
        for _ in 0..40 {
            assert_eq!(value(&client, "select coalesce(nullif(current_setting('app.who', true), ''), '-')").await, "-");
        }
        drop(client);
    });
    nothing_is_left(&front, 20);
}

/// A backend, then the postmaster is killed, then the server is shut down at once, each under load: clients get one of
/// the codes for it, or wait, and go on.
pub fn servers_that_are_killed_and_come_back() {
    let Some(mut front) = front(8, 8, |_| {}) else { return };
    let Front { gate, cluster } = &mut front;
    let address = gate.address;
    let (ends, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = Vec::new();
    for who in 0..100 {
        let (ends, turns) = (Arc::clone(&ends), Arc::clone(&turns));
        tasks.push(gate.runtime.spawn(async move {
            let (mut light, mut turn, mut failures) = (None, 0, 0);
            while !ends.load(SeqCst) {
                turn += 1;
                let done = match &mut light {
                    Some(light) => Light::turn(light, who, turn).await,
                    none => Light::connect(address).await.map(|connected| *none = Some(connected)),
                };
                match done {
                    Ok(()) => drop(turns.fetch_add(1, SeqCst)),
                    // The client's connection may have ended, or its transaction may have failed: it connects anew.
                    Err(code) => {
                        assert!(code == "end" || code.starts_with("08") || code.starts_with("57P"), "{code}");
                        (light, failures) = (None, failures + 1);
                        tokio::task::yield_now().await;
                    }
                }
            }
            failures
        }));
    }
    let goes_on = || {
        let (before, begun) = (turns.load(SeqCst), Instant::now());
        while turns.load(SeqCst) < before + 500 {
            assert!(begun.elapsed() < Duration::from_secs(40), "nobody goes on");
            std::thread::yield_now();
        }
    };
    goes_on();
    let pid = gate.runtime.block_on(async {
        let direct = cluster.client().await;
        value(&direct, "select min(pid) from pg_stat_activity where application_name = '' and pid <> pg_backend_pid()")
            .await
    });
    Cluster::kill(pid.parse().unwrap());
    goes_on();
    for signal in ["-KILL", "-QUIT"] {
        cluster.restart(signal);
        goes_on();
    }
    ends.store(true, SeqCst);
    let failures: i32 = gate.runtime.block_on(async {
        let mut all = 0;
        for task in tasks {
            all += task.await.unwrap();
        }
        all
    });
    assert!(0 < failures);
    nothing_is_left(&front, 8);
}

/// Sends these bytes and disconnects after this many messages of the server.
fn dies(front: &Front, words: &[u8], hears: usize) {
    let mut raw = front.raw();
    raw.send(words);
    for _ in 0..hears {
        raw.next();
    }
}

/// In the middle of a message, between the messages of a batch, in either COPY, at the gate, with a cancel under way,
/// with an answer that the client does not take: the next client gets a connection without any state.
pub fn clients_that_go_in_any_state_leave_nothing() {
    let Some(front) = front(1, 1, keep_slots) else { return };
    let mut first = front.raw();
    first.ask(&query("create table t (a int)"));
    let clean = |first: &mut Raw<TcpStream>| {
        assert_eq!(first.ask(&query("select count(*) as n from t")), "T(n:20:0) D(0) C(SELECT 1) Z(I)");
        assert_eq!(first.ask(&query("show work_mem")), "T(work_mem:25:0) D(4MB) C(SHOW) Z(I)");
        assert_eq!(
            first.ask(&query("select count(*) as n from pg_locks where locktype = 'advisory'")),
            "T(n:20:0) D(0) C(SELECT 1) Z(I)"
        );
    };
    let flush = || message(b'H', b"");
    let insert = || parse("", "insert into t values (1)", &[]);
    let run = || [bind("", "", &[], &[], &[]), execute("", 0)].concat();
    let rows = "select repeat('x', 1000) from generate_series(1, 100000)";
    for (words, hears) in [
        // In the head of a message, and in its middle, idle and in a transaction.
        (b"Q".to_vec(), 0),
        ([query("begin; insert into t values (1)"), b"Q\0\0\0".to_vec()].concat(), 2),
        ([query("begin; insert into t values (1)"), query("commit")[..8].to_vec()].concat(), 2),
        // Without a Sync: after Parse, Bind, Describe, Execute, and a pipeline of two.
        ([insert(), flush()].concat(), 1),
        ([insert(), bind("", "", &[], &[], &[]), flush()].concat(), 2),
        ([insert(), bind("p", "", &[], &[], &[]), named(b'D', b'P', "p"), flush()].concat(), 3),
        ([insert(), run(), flush()].concat(), 3),
        ([insert(), run(), run(), flush()].concat(), 5),
        (
            [parse("n", "insert into t values (1)", &[]), bind("", "n", &[], &[], &[]), execute("", 0), flush()]
                .concat(),
            3,
        ),
        // After an error that skips to a Sync that does not come.
        ([insert(), run(), parse("", "select 1/0", &[]), run(), flush()].concat(), 5),
        // A portal with more rows.
        ([query("begin"), parse("", rows, &[]), bind("", "", &[], &[], &[]), execute("", 1), sync()].concat(), 6),
        // COPY in, by both protocols, with some of the data, and out.
        ([query("copy t from stdin"), message(b'd', b"1\n"), message(b'd', b"2")].concat(), 1),
        ([parse("", "copy t from stdin", &[]), run(), flush()].concat(), 3),
        (query("copy (select repeat('x', 1000) from generate_series(1, 100000)) to stdout"), 3),
        ([parse("", "copy t to stdout", &[]), run(), flush()].concat(), 2),
        // State that ties the client: settings, locks, listening, temporary objects.
        (query("set work_mem = '9MB'"), 0),
        (
            [
                query("set work_mem = '9MB'; select pg_advisory_lock(1); listen a"),
                query("begin; insert into t values (1)"),
            ]
            .concat(),
            5,
        ),
        (query("create temp table x (a int); insert into t values (1); select 1/0"), 0),
        // The answers are not read.
        (query(rows), 1),
        (query("begin; select pg_sleep(0.01); insert into t values (1)"), 0),
    ] {
        dies(&front, &words, hears);
        clean(&mut first);
    }
    // At the gate: in a query, in a pipeline, with a cancel on its way.
    for cancels in [false, true] {
        for words in [query("insert into t values (1)"), [insert(), run(), sync()].concat()] {
            first.ask(&query("begin; select 1"));
            let mut raw = front.raw();
            raw.send(&words);
            front.runtime.block_on(until("it waits", || wirekit::waits::waiting(&front.admission) == 1));
            if cancels {
                let mut cancel = TcpStream::connect(front.address).unwrap();
                let words = [16, 80_877_102, raw.pid, raw.secret].map(i32::to_be_bytes);
                std::io::Write::write_all(&mut cancel, words.as_flattened()).unwrap();
            }
            drop(raw);
            front.runtime.block_on(until("it has left", || wirekit::waits::waiting(&front.admission) == 0));
            first.ask(&query("commit"));
            clean(&mut first);
        }
    }
    // With a cancel of its statement under way.
    let mut raw = front.raw();
    raw.ask(&query("begin; insert into t values (1)"));
    raw.send(&query("select pg_sleep(60)"));
    front.runtime.block_on(async {
        let direct = front.cluster.client().await;
        while value(&direct, "select count(*) from pg_stat_activity where wait_event = 'PgSleep'").await != "1" {}
    });
    let mut cancel = TcpStream::connect(front.address).unwrap();
    let words = [16, 80_877_102, raw.pid, raw.secret].map(i32::to_be_bytes);
    std::io::Write::write_all(&mut cancel, words.as_flattened()).unwrap();
    drop(raw);
    clean(&mut first);
    drop(first);
    nothing_is_left(&front, 1);
}

/// A role may have fewer connections than the pool would have: nobody is turned away for that.
pub fn a_server_with_little_room() {
    let Some(front) = Front::with(8, 8, |_| {}) else { return };
    front.cluster.ask("create role few login connection limit 2");
    let address = front.address;
    front.runtime.block_on(async {
        let client = |who: usize| {
            tokio::spawn(async move {
                let mut light = Light::connect_as(address, "few").await?;
                for turn in 0..5 {
                    light.turn(who, turn).await?;
                }
                Ok::<_, String>(())
            })
        };
        let clients: Vec<_> = (0..16).map(client).collect();
        for client in clients {
            client.await.unwrap().unwrap();
        }
    });
}

/// A client that waits for a connection does not delay those that have one, because the connection comes from them.
pub fn who_waits_for_a_connection_lets_those_in_who_have_one() {
    let Some(front) = Front::with(1, 1, |_| {}) else { return };
    let mut holder = front.raw();
    holder.ask(&query("listen a"));
    let mut waiting = front.raw();
    let waits = std::thread::spawn(move || waiting.ask(&query("select 'b'")));
    front.runtime.block_on(until("it waits", || wirekit::waits::waiting(&front.admission) == 1));
    let said = holder.ask(&query("select 'a'"));
    assert!(said.contains("D(a)"), "{said}");
    holder.ask(&query("unlisten *"));
    let said = waits.join().unwrap();
    assert!(said.contains("D(b)"), "{said}");
}

/// A single server that is away for a while is waited for, by old clients and by new ones.
pub fn a_server_that_is_away_is_waited_for() {
    let Some(mut front) = Front::with(8, 8, |_| {}) else { return };
    let (mut plain, mut held) = (front.raw(), front.raw());
    plain.ask(&query("select 1"));
    front.cluster.stop("-INT");
    assert_eq!(held.ask(&query("begin")), "C(BEGIN) Z(T)");
    plain.send(&query("select 7 as a"));
    held.send(&query("select 8 as a"));
    let address = front.address;
    let late = std::thread::spawn(move || {
        let mut raw = Raw { stream: TcpStream::connect(address).unwrap(), pid: 0, secret: 0 };
        raw.start(&[("user", "postgres"), ("work_mem", "7MB")]);
        raw.ask(&query("select 9 as a"))
    });
    front.cluster.start_again();
    assert_eq!(plain.answer(), "T(a:23:0) D(7) C(SELECT 1) Z(I)");
    assert_eq!(held.answer(), "T(a:23:0) D(8) C(SELECT 1) Z(T)");
    assert_eq!(late.join().unwrap(), "T(a:23:0) D(9) C(SELECT 1) Z(I)");
}

/// Idle connections of one role keep nobody else out of a server that has no more room.
pub fn idle_connections_make_room() {
    let Some(front) = Front::with(100, 100, |_| {}) else { return };
    front.cluster.ask("create role ann login; create role bob login");
    let address = front.address;
    let begin = |user: &str| {
        let mut raw = Raw { stream: TcpStream::connect(address).unwrap(), pid: 0, secret: 0 };
        raw.start(&[("user", user), ("database", "postgres")]);
        let said = raw.ask(&query("begin; select 1 as a"));
        assert_eq!(said, "C(BEGIN) T(a:23:0) D(1) C(SELECT 1) Z(T)", "{user}");
        raw
    };
    // All connections that are not reserved for superusers, except one: the watcher may have come before the last.
    let mut all: Vec<_> = (0..56).map(|_| begin("ann")).collect();
    all.iter_mut().for_each(|raw| drop(raw.ask(&query("commit"))));
    let (before, _) = front.upstream.connections();
    let bobs: Vec<_> = (0..5).map(|_| begin("bob")).collect();
    assert!(front.upstream.connections().0 <= before + 1, "{:?}", front.upstream.connections());
    drop(bobs);
}
